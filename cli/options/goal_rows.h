/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: the goal, the advice and the memo of a search. options.c includes this file. */
/* clang-format off */
    { "goal-tokens", CLI_PLAN, CLI_INT, .group = CLI_STEPS, .no_key = true, .metavar = "N", .least = 1,
      .most = 9e15,
      .help = "With --search: show the time and the price of training this many tokens, such as 300G. With "
              "--goal-time too, this time is a limit. Default: the tokens of --steps" },
    { "goal-time", CLI_PLAN, CLI_TIME, .group = CLI_STEPS, .no_key = true, .metavar = "TIME", .least = 1,
      .most = 1e10,
      .help = "With --search: show how many tokens this time allows, such as 72h or 30d" },
    { "failure-rate", CLI_PLAN, CLI_TEXT, .group = CLI_STEPS, .no_key = true, .metavar = "N/d",
      .help = "With --search: failures of one device in a day (/d), an hour (/h) or a year (/y), such as "
              "0.0008/d. One failure stops the run. Default: no failures" },
    { "checkpoint-time", CLI_PLAN, CLI_TIME, .group = CLI_STEPS, .no_key = true, .metavar = "TIME",
      .least = 0.001, .most = 1e6,
      .help = "With --failure-rate: the time of a checkpoint, during which the run does not train" },
    { "checkpoint-bandwidth", CLI_PLAN, CLI_TEXT, .group = CLI_STEPS, .rare = true, .no_key = true, .metavar = "RATE",
      .help = "In place of --checkpoint-time: the rate at which all ranks together write a checkpoint, such "
              "as 20GB/s. A checkpoint has 12 bytes for each parameter" },
    { "restart-time", CLI_PLAN, CLI_TIME, .group = CLI_STEPS, .rare = true, .no_key = true, .value = "10m",
      .metavar = "TIME", .least = 0, .most = 1e6,
      .help = "With --failure-rate: the time from a failure until the run goes on from its checkpoint" },
    { "advice", CLI_PLAN, CLI_TIME, .group = CLI_LAYOUT, .rare = true, .no_key = true, .value = "2s",
      .metavar = "TIME", .least = 0, .most = 1e5,
      .help = "Most time of each further search, with a limit relaxed or the hardware changed, by which "
              "--search says what would help. 0: no advice" },
    { "memo", CLI_PLAN, CLI_TEXT, .group = CLI_FILES, .no_key = true, .metavar = "FILE.md",
      .help = "With --search: write the design memo of the first layout to this file, as Markdown. Without "
              "--cluster the memo has the measured devices and links" },

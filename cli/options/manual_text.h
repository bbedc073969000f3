/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The prose of the manual pages. Each verb has a text file in cli/options/manual. The build embeds all of
 * them in the command. --help-all and the manual pages show the same text.
 *
 * A text is a sequence of blocks:
 * - A line of capitals behind a blank line is a heading. The first heading is EXAMPLES, and the second is
 *   DESCRIPTION. The text of yoke(1) has no EXAMPLES.
 * - Lines that begin with two blanks are shown as they stand. They are commands and file contents.
 * - A line that begins with "- " begins an item of a list. Its other lines begin with two blanks.
 * - All other lines are a paragraph. A blank line ends a paragraph and a list.
 * Paragraphs and items are wrapped again where they are shown.
 */
#ifndef CLI_OPTIONS_MANUAL_TEXT_H
#define CLI_OPTIONS_MANUAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct cli_manual_text {
    const char *name; /* of the file without .txt, such as "bench-gemm"; NULL ends the list */
    const char *text;
};
/** The embedded files. The build writes this list to manual_texts.c. */
extern const struct cli_manual_text cli_manual_texts[];

enum cli_block_kind { CLI_HEADING, CLI_PARAGRAPH, CLI_ITEM, CLI_AS_IT_STANDS };
struct cli_block {
    enum cli_block_kind kind;
    char text[4096]; /* lines of a paragraph or an item are joined by blanks, other lines by newlines */
};

/** The text of a verb ("bench gemm"). "" if there is none. */
const char *cli_manual_text_of(const char *verb);
/** Read the next block, and move *at behind it. False: the text has ended. */
bool cli_block_next(const char **at, struct cli_block *block_out);

#endif

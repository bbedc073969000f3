/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the man pages and the completion while Yoke is built: manual_build [NAME]. The machine that builds
 * runs this program. So CC_FOR_BUILD compiles it, as the only part of Yoke. It uses only tables, texts and
 * the C library, and knows nothing of the machine that Yoke is built for.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

#define TEXT_OF(x) #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
const char *yoke_version(void)
{
    return VERSION_TEXT(YOKE_VERSION_MAJOR, YOKE_VERSION_MINOR, YOKE_VERSION_PATCH);
}

/* The verb table names the verbs' functions. None of them is called here. */
#define NEVER(verb)                                     \
    yoke_status verb(const struct cli_context *context) \
    {                                                   \
        (void)context;                                  \
        abort();                                        \
    }
NEVER(cli_run)
NEVER(cli_rank)
NEVER(cli_info)
NEVER(cli_verify)
NEVER(cli_tune)
NEVER(cli_compile)
NEVER(cli_bench_kernels)
NEVER(cli_bench_gemm)
NEVER(cli_bench_collectives)
NEVER(cli_bench_allreduce)
NEVER(cli_train)
NEVER(cli_plan)
NEVER(cli_parity)
NEVER(cli_sample)
NEVER(cli_tokenize)
NEVER(cli_trace)
NEVER(cli_schedule_show)
NEVER(cli_schedule_check)
NEVER(cli_ckpt_ls)
NEVER(cli_ckpt_show)
NEVER(cli_ckpt_verify)
NEVER(cli_ckpt_diff)
NEVER(cli_ckpt_convert)
NEVER(cli_hello)
NEVER(cli_manual)

int main(int argc, char **argv)
{
    if (argc > 2 || !cli_manual_page(argc > 1 ? argv[1] : NULL) || fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "usage: manual_build [VERB|completion] >FILE\n");
        return 1;
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the man pages and the completion while Yoke is built: manual_build [NAME]. The machine that builds
 * runs this program. So CC_FOR_BUILD compiles it, as the only part of Yoke. It uses only tables, texts and
 * the C library, and knows nothing of the machine that Yoke is built for.
 */
#include <stdio.h>

#include "cli/cli.h"

#define TEXT_OF(x) #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
const char *yoke_version(void)
{
    return VERSION_TEXT(YOKE_VERSION_MAJOR, YOKE_VERSION_MINOR, YOKE_VERSION_PATCH);
}

int main(int argc, char **argv)
{
    if (argc > 2 || !cli_manual_page(argc > 1 ? argv[1] : NULL) || fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "usage: manual_build [VERB|completion] >FILE\n");
        return 1;
    }
    return 0;
}

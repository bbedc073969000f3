/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a person watches what the command writes, on which terminal, and whether the person wants notes. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

enum { COLUMNS_UNKNOWN = 80 };

/* ---- terminals ---- */

static const char *above(const char *name)
{
    const char *text = getenv(name); /* under yoke run both streams are pipes to the launcher */
    return text && strcmp(text, "no") != 0 ? text : NULL;
}

bool cli_on_terminal(void) { return isatty(STDERR_FILENO) || above("YOKE_TERMINAL"); }

bool cli_terminal_is_dumb(void)
{
    const char *term = getenv("TERM");
    return term && !strcmp(term, "dumb");
}

bool cli_out_on_terminal(void) { return isatty(STDOUT_FILENO) || above("YOKE_TERMINAL_OUT"); }

void cli_pass_terminals_to_ranks(void)
{
    const char *name = isatty(STDERR_FILENO) ? ttyname(STDERR_FILENO) : NULL;
    setenv("YOKE_TERMINAL", !cli_on_terminal() ? "no" : name ? name : "yes", 1);
    setenv("YOKE_TERMINAL_OUT", cli_out_on_terminal() ? "yes" : "no", 1);
    if (cli_on_terminal() && !cli_is_quiet() && !cli_terminal_is_dumb()) cli_progress_share_with_ranks();
}

/* The number of columns is read before each line, because a window may change its size. */
int cli_columns(void)
{
    struct winsize size = { 0 };
    const char *name = above("YOKE_TERMINAL");
    if (isatty(STDERR_FILENO))
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    else if (name && name[0] == '/') {
        const int fd = open(name, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0) {
            if (isatty(fd)) ioctl(fd, TIOCGWINSZ, &size);
            close(fd);
        }
    }
    return size.ws_col ? size.ws_col : COLUMNS_UNKNOWN;
}

int cli_out_columns(void)
{
    struct winsize size = { 0 };
    const bool known = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col;
    return known ? size.ws_col : COLUMNS_UNKNOWN;
}

/* ---- --quiet ---- */

/* -1: not told yet. Then the variable counts, which yoke run --quiet sets for all processes of the job. */
static int quiet = -1;

void cli_set_quiet(bool on) { quiet = on; }

bool cli_is_quiet(void)
{
    const char *text = getenv("YOKE_QUIET");
    bool on = false;
    if (quiet >= 0) return quiet;
    return text && cli_boolean(text, &on) && on;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command on a terminal of its own, and prints unchanged what the command writes there.
 *   terminal COLUMNS[:COLUMNS_THEN] COMMAND...
 * The terminal has COLUMNS columns. It changes to COLUMNS_THEN once the command has drawn a line of progress.
 * The exit code is the command's, or 99 if the system has no terminals.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void set_columns(int fd, int columns)
{
    const struct winsize size = { .ws_row = 24, .ws_col = (unsigned short)columns };
    if (ioctl(fd, TIOCSWINSZ, &size)) perror("terminal: TIOCSWINSZ");
}

/*
 * Pass the output on until the command and all processes that hold its terminal have ended. The end of a
 * session is then seen as EIO.
 */
static void pass_on(int terminal, int then)
{
    char buffer[4096];
    ssize_t n;
    while ((n = read(terminal, buffer, sizeof buffer)) > 0) {
        if (write(STDOUT_FILENO, buffer, (size_t)n) != n) break;
        if (then && memmem(buffer, (size_t)n, "\033[K", 3)) {
            if (write(STDOUT_FILENO, "<resized>", 9) != 9) break;
            set_columns(terminal, then);
            then = 0;
        }
    }
}

int main(int argc, char **argv)
{
    char *rest;
    const int columns = argc > 2 ? (int)strtol(argv[1], &rest, 10) : 0,
              then = columns && *rest == ':' ? atoi(rest + 1) : 0;
    if (!columns) {
        fprintf(stderr, "usage: terminal COLUMNS[:COLUMNS_THEN] COMMAND...\n");
        return 2;
    }
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) || unlockpt(terminal)) return 99;
    const char *name = ptsname(terminal);
    const int other = name ? open(name, O_RDWR | O_NOCTTY) : -1;
    if (other < 0) return 99;
    set_columns(terminal, columns);
    const pid_t pid = fork();
    if (pid == 0) {
        setsid();
        ioctl(other, TIOCSCTTY, 0);
        for (int fd = 0; fd < 3; fd++) dup2(other, fd);
        close(other);
        close(terminal);
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    close(other);
    pass_on(terminal, then);
    int code = 0;
    if (pid < 0 || waitpid(pid, &code, 0) < 0) return 99;
    return WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
}

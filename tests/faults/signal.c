/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals for scripts. A shell may have waited for a process in the background long before the script sends a
 * signal to its number, and then another process may have the number.
 *   signal of PID          print "PID START", which tells the process from later ones with the same number
 *   signal NAME PID START  send TERM, HUP, KILL, STOP, USR1 or 0 (nothing) to that process
 * The exit code is 1 if the process has ended.
 */
#include <string.h>

#include "tests/faults/processes.h"

static int number_of(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = { { "TERM", SIGTERM }, { "HUP", SIGHUP },   { "KILL", SIGKILL },
                    { "STOP", SIGSTOP }, { "USR1", SIGUSR1 }, { "0", 0 } };
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (!strcmp(name, signals[i].name)) return signals[i].number;
    return -1;
}

int main(int argc, char **argv)
{
    uint64_t start = 0;
    if (argc == 3 && !strcmp(argv[1], "of")) {
        const pid_t pid = atoi(argv[2]);
        if (!yokei_process_state(pid, &start)) return 1;
        printf("%d %llu\n", (int)pid, (unsigned long long)start);
        return 0;
    }
    if (argc != 4 || number_of(argv[1]) < 0) {
        fprintf(stderr, "signal of PID | signal TERM|HUP|KILL|STOP|USR1|0 PID START\n");
        return 99;
    }
    return !signal_started(atoi(argv[2]), strtoull(argv[3], NULL, 10), number_of(argv[1]));
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The other side of a benchmark (the rival). It is a process that prints "ready" and then answers each line
 * with a line.
 */
#ifndef BENCH_RIVAL_H
#define BENCH_RIVAL_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct rival {
    pid_t pid;
    FILE *to, *from;
};

/**
 * Start the rival. False: the rival cannot be started, or does not print "ready". The caller must call
 * stop_rival() in any case.
 */
static inline bool start_rival(struct rival *r, char *const argv[])
{
    int down[2], up[2];
    char line[256];
    if (pipe(down) || pipe(up)) return false;
    r->pid = fork();
    if (r->pid == 0) {
        dup2(down[0], 0), dup2(up[1], 1);
        close(down[0]), close(down[1]), close(up[0]), close(up[1]);
        execv(argv[0], argv);
        _exit(127);
    }
    close(down[0]), close(up[1]);
    r->to = fdopen(down[1], "w");
    r->from = fdopen(up[0], "r");
    return r->pid > 0 && fgets(line, sizeof line, r->from) && !strcmp(line, "ready\n");
}

/** Send `question`, a word, and read the answer. False: no line came. */
static inline bool ask_rival(struct rival *r, const char *question, char *answer, size_t bytes)
{
    fprintf(r->to, "%s\n", question);
    fflush(r->to);
    return fgets(answer, (int)bytes, r->from) != NULL;
}

static inline void stop_rival(struct rival *r)
{
    if (r->to) fclose(r->to);
    if (r->from) fclose(r->from);
    if (r->pid > 0) waitpid(r->pid, NULL, 0);
}

#endif

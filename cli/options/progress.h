/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The line of progress: what a verb does, how far it is, and how long it still takes. All verbs use these
 * functions, and a verb calls them whether or not anyone watches.
 *
 *   cli_progress_begin("verify %s", spec);
 *   for (i = 0; i < n; i++) {
 *       cli_progress_now("%s", name of item i);
 *       cli_progress_at(i, n);
 *       ... the work ...
 *       cli_progress_pause();
 *       ... print a result ...
 *   }
 *   cli_progress_end();
 *
 * The line is one line of stderr, such as "verify host: 120 of 700, about 2 min left, now gemm f32". It is
 * drawn in place, is cut to the terminal's width, and is cleared at the end. It appears after two seconds of
 * work. No line is drawn if stderr is not on a terminal, if TERM is dumb, with --quiet, and on ranks other
 * than rank 0.
 *
 * A thread draws the line ten times a second at most, and only if the line has changed. So a call into a
 * driver that blocks for minutes does not keep the line from appearing, and no function of this file waits
 * for a terminal except cli_progress_pause() and cli_progress_end(). A timer's signal would interrupt the
 * system calls of drivers.
 *
 * What the line says lies in memory that is shared with child processes. A child process may call
 * cli_progress_now(), cli_progress_at() and cli_progress_share(), and its parent draws.
 */
#ifndef CLI_OPTIONS_PROGRESS_H
#define CLI_OPTIONS_PROGRESS_H

#include <yoke/base.h>

/* ---- progress.c ---- */
/**
 * Called once, when the options are known. `rank` is this process's rank. Without this call there is no line.
 * The libraries then also say which program they compile, in every verb.
 */
void cli_progress_watch(int rank);
/** Whether lines of progress are drawn here. A caller with texts of its own need not make them if not. */
bool cli_progress_is_watched(void);

/** Begin a long work. The text says what it is: "verify opencl:0". "" if cli_progress_now() says it. */
void cli_progress_begin(const char *format, ...) YOKE_PRINTF(1, 2);
/** The part of the work that begins now, such as "gemm f32". "": no part is named. Costs about 1 us. */
void cli_progress_now(const char *format, ...) YOKE_PRINTF(1, 2);
/** `done` of `total` parts are done. Costs a few nanoseconds, so it may be called for every element. */
void cli_progress_at(double done, double total);
/** The same as a share from 0 to 1, which is shown in per cent. */
void cli_progress_share(double share);
/**
 * Clear the line, before results are printed. It stays away until cli_progress_resume(), or until this
 * process calls one of the three functions above.
 */
void cli_progress_pause(void);
void cli_progress_resume(void);
/** End the work, and clear the line. Does nothing if no work was begun. */
void cli_progress_end(void);

/** Called by yoke run: let the ranks on this host share what the line of rank 0 says. */
void cli_progress_share_with_ranks(void);
/** Whether this is a child process of the one that draws, so that a line of the parent may stand. */
bool cli_progress_is_parents(void);
/** For output.c: let no line be drawn, and clear the one that stands, until cli_progress_unlock(). */
void cli_progress_lock(void);
void cli_progress_unlock(void);

/* ---- estimate.c: how long a work still takes, by what was done; all times are seconds ---- */
struct cli_estimate {
    double begun;
    double at, done;           /* the newest look that found more done than before */
    double step;               /* how much more it found */
    int n_steps;               /* the number of such looks */
    double from_at, from_done; /* the window, the later half of the work or time: speeds are taken from it */
    double next_at, next_done; /* where the next window begins */
};
void cli_estimate_begin(struct cli_estimate *estimate, double now);
/** Look at the work: `done` of it is done. */
void cli_estimate_look(struct cli_estimate *estimate, double now, double done);
/** The seconds that a work of `total` still takes. Negative: it is not known. */
double cli_estimate_left(const struct cli_estimate *estimate, double now, double total);
/** Write "about 3 min left", or "" if the time is not known. */
void cli_time_left_text(double seconds, char *out, size_t bytes);

#endif

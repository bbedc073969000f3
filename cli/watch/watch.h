/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke watch: a run while it trains, in the terminal or as a page for a browser.
 *
 * The run may be on another host, whose folder this host sees. So the files are opened anew at each look,
 * because a network file system compares its cache with the server then. Nothing is mapped, locked or
 * written. No time of another host is compared with a time of this host.
 */
#ifndef CLI_WATCH_WATCH_H
#define CLI_WATCH_WATCH_H

#include <sys/types.h>

#include "cli/cli.h"
#include "train/plan/run_plan.h"
#include "train/run/metrics.h"
#include "train/run/step_parts.h"

/* ---- history.c: what the rows say, in bounded memory ---- */

/**
 * BUCKETS: the loss of all steps is kept in so many groups of steps. BLOCK: times are of the last BLOCK to
 * 2 BLOCK - 1 steps. EVENTS: so many of the last events are kept.
 */
enum { WATCH_BUCKETS = 512, WATCH_BLOCK = 64, WATCH_EVENTS = 32, WATCH_SMOOTH = 8, WATCH_MOST_RANKS = 65536 };

/** Steps that follow each other. The least and the largest loss stay, whatever the number of steps. */
struct watch_bucket {
    int64_t n_rows, n_losses; /* rows, and those whose loss is a number */
    double sum, least, largest;
};

struct watch_rank {
    char device[32];
    double tokens_per_second;
    double parts[2][YOKEI_N_STEP_PARTS]; /* seconds in the present block of steps, and in the block before */
};

struct watch_event {
    char text[240];
};

struct watch_history {
    bool has_pipeline; /* of the plan: how a step is divided */
    int64_t n_rows, n_skipped;
    struct yokei_metrics_row last; /* without ranks */
    double validation_loss;        /* the last one; NaN: none */
    int64_t validation_step;
    struct watch_bucket buckets[WATCH_BUCKETS];
    int n_buckets;
    int64_t bucket_rows;                   /* rows of a whole bucket */
    double (*divided)[YOKEI_N_STEP_PARTS]; /* [capacity] of the present row */
    struct watch_rank *ranks;              /* [n_ranks] of the last row; [capacity] */
    int64_t n_ranks, capacity;
    struct {
        int64_t n; /* rows with a time */
        double seconds;
    } blocks[2];
    struct watch_event events[WATCH_EVENTS]; /* a ring: event i is at i % WATCH_EVENTS */
    int64_t n_events;
};

void watch_history_begin(struct watch_history *h);
void watch_history_free(struct watch_history *h);
/** Forget all rows, because the file begins anew. The events stay. */
void watch_history_forget(struct watch_history *h);
/** A visitor of rows. The context is the history. YOKE_ENOMEM; YOKE_EDATA (too many ranks). */
yoke_status watch_history_add(void *context, const struct yokei_metrics_row *row);
void watch_event_add(struct watch_history *h, const char *format, ...) YOKE_PRINTF(2, 3);
/** Seconds of a step, by the last blocks. NaN: unknown. */
double watch_step_seconds(const struct watch_history *h);
/** The mean loss of the last 2 % of the steps and of 8 at least, and their number. NaN: there is none. */
double watch_smoothed(const struct watch_history *h, int64_t *n_out);
/** The share of a part in the time of a rank. NaN: unknown. */
double watch_share(const struct watch_rank *rank, int part);

/* ---- follow.c: the files of the run ---- */

struct watch_follower {
    const char *folder;
    struct watch_history history;
    /* plan.json */
    bool has_plan;
    struct yokei_plan plan;
    bool is_emulated; /* a device is emulated, by run.json */
    struct {
        dev_t device;
        ino_t inode;
        off_t bytes;
        struct timespec changed;
    } plan_was;
    char plan_problem[512]; /* why plan.json cannot be read; "": no problem */
    /* metrics.jsonl */
    bool has_metrics;
    dev_t device;
    ino_t inode;
    off_t offset;     /* end of the rows that were read */
    char before[256]; /* the bytes before the offset, to see that the file is still the same */
    size_t n_before;
    char *data; /* [capacity] */
    size_t capacity;
    struct yokei_metrics_reader reader;
    bool behind;         /* there is more to read at once */
    double share_read;   /* of the file; for the time until all old rows are read */
    bool is_inside_long; /* the offset is inside a line that is longer than any row */
    uint64_t damaged_ns; /* since when the next line is no row; 0: it is one, or is not there yet */
    off_t damaged_bytes; /* of the file at that time */
    off_t settled;       /* up to here, a line that is no row is damage at once */
    bool is_impatient;   /* damage is damage at once, because there is only one look */
    char problem[512];   /* why metrics.jsonl cannot be read; "": no problem */
    /* what else is in the folder */
    bool is_there, was_there, has_train_lock, has_job_lock, has_records;
    char holder[200]; /* what the lock says of the process that has it */
    /* the times are of this host's monotonic clock */
    uint64_t begun_ns, grown_ns;  /* grown_ns: when the last row was read */
    bool has_seen_all, has_grown; /* all old rows were read; rows came after that */
};

void watch_follow_begin(struct watch_follower *f, const char *folder, bool is_impatient);
void watch_follow_end(struct watch_follower *f);
/**
 * Look once at the files, and read at most some megabytes of new rows. What cannot be read is noted, and is
 * tried again at the next look. YOKE_ENOMEM.
 */
yoke_status watch_follow(struct watch_follower *f);
/** Seconds since the last new row, or since this program began if it has seen none. */
double watch_quiet_seconds(const struct watch_follower *f);
/** After how many seconds without a row something is said: five steps, and ten seconds at least. */
double watch_quiet_limit(const struct watch_follower *f);
/** Whether the last step of the plan is done. */
bool watch_all_steps(const struct watch_follower *f);
/** Seconds until the last step by the times of the last steps. NaN: unknown. */
double watch_seconds_left(const struct watch_follower *f);

/* ---- ending.c: whether the run has ended, and how ---- */

enum watch_fate {
    WATCH_WAITING, /* there is no row yet */
    WATCH_RUNNING,
    WATCH_QUIET,    /* no row for long; the files do not say why */
    WATCH_FINISHED, /* all steps are done, and no process has the folder */
    WATCH_STOPPED,  /* the run was asked to stop, and saved */
    WATCH_ENDED,    /* it ended before its last step, and the files do not say why */
    WATCH_FAILED,
    WATCH_DELETED, /* the folder was there, and is gone */
};
struct watch_ending {
    enum watch_fate fate;
    bool is_over;
    yoke_status status; /* with FAILED and DELETED: the error */
    char text[2048];    /* a few words, or the sentence of yoke trace */
    uint64_t looked_ns; /* when the flight records were last read */
    double pause;       /* seconds until they may be read again */
    char noted[400];    /* the last event that came from the records */
};
/** Conclude from the files. May read the flight records, and add an event. */
void watch_conclude(struct watch_follower *f, struct watch_ending *e);

/* ---- view.c: the view as lines of text ---- */

enum watch_style { WATCH_PLAIN, WATCH_BOLD, WATCH_ALARM };
struct watch_line {
    char *text; /* printable, at most `columns` wide */
    enum watch_style style;
};
struct watch_view {
    int columns, rows; /* rows 0: as many as there are to show */
    bool utf8;
    struct watch_line *lines; /* [n] */
    int n, capacity;
    bool no_memory;
};
/** Make the lines. The caller calls watch_view_free() also after an error. YOKE_ENOMEM. */
yoke_status watch_view_make(struct watch_view *view, const struct watch_follower *f,
                            const struct watch_ending *e);
void watch_view_free(struct watch_view *view);
/** The line for a log: step, losses, speed and time left. */
void watch_log_line(const struct watch_follower *f, char *out, size_t bytes);
/** "1:02:03", "2:03" or "3 d 01:02:03". */
const char *watch_time(double seconds, char out[32]);

/* ---- lines.c: the parts of a view ---- */
/** Add a line. It is made printable, and cut to the width. */
void watch_put(struct watch_view *view, enum watch_style style, const char *format, ...) YOKE_PRINTF(3, 4);
/** Add a text, over several lines if it is longer than the width. It is broken behind ", ". */
void watch_put_flow(struct watch_view *view, enum watch_style style, const char *text);
/** Add the curve of the loss in `rows` lines. Each column shows the largest loss of its steps. */
void watch_put_curve(struct watch_view *view, const struct watch_history *h, int rows);

/* ---- screen.c: the terminal ---- */

/**
 * Take the terminal: its other screen, without a cursor and without wrapping. Signals that would end or stop
 * the process are from here on reported by watch_screen_wait().
 */
void watch_screen_take(void);
/** Give the terminal back as it was. */
void watch_screen_leave(void);
/** The size of the terminal that stdout is. */
void watch_screen_size(int *columns_out, int *rows_out);
/** Draw the view in place. False: the terminal is gone. */
bool watch_screen_draw(const struct watch_view *view, bool colours);
/**
 * Wait. Returns early after a change of the terminal's size, and after a stop (SIGTSTP) and its end. Returns
 * the signal that asks for the end; 0: none.
 */
int watch_screen_wait(double seconds);

/* ---- serve.c: the page for browsers ---- */
/** Serve the page of the run until a signal. `where` is the value of --serve. YOKE_ECONFIG, YOKE_EIO. */
yoke_status watch_serve(const char *folder, const char *where);

/* ---- http.c: the server, or the error without the library ---- */
#define WATCH_TOKEN 32 /* hexadecimal digits, which are 128 bits */
struct watch_http;
/** Whether there is a server. YOKE_ECONFIG if the command was built without libmicrohttpd. */
yoke_status watch_http_check(void);
/**
 * Serve on a socket that listens, which the server takes over. Only paths with the token have the page.
 * `wake` is a descriptor of an eventfd, which is written when a request waits for a fresh page.
 */
yoke_status watch_http_start(int listening, const char token[WATCH_TOKEN + 1], int wake,
                             struct watch_http **http_out);
/** Serve this page, which the server takes over, as fresh for so many seconds. */
void watch_http_put(struct watch_http *http, char *page, size_t bytes, double fresh_seconds);
/** Close the connections that have been open for too long. Call it every few seconds. */
void watch_http_sweep(struct watch_http *http);
void watch_http_stop(struct watch_http *http);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The timelines of a job of another program: events, ranks, steps, and what the events cost. */
#ifndef CLI_DIAGNOSE_FOREIGN_H
#define CLI_DIAGNOSE_FOREIGN_H

#include "cli/diagnose/diagnose.h"

enum { FOREIGN_MOST_RANKS = 4096, FOREIGN_MOST_SUMS = 512 };

/** What an event is. Bits, so that several of them can be asked for. */
enum foreign_class {
    FOREIGN_KERNEL = 1, /* computing on the device */
    FOREIGN_COLLECTIVE = 2,
    FOREIGN_MESSAGE = 4,
    FOREIGN_OPERATOR = 8, /* computing on the host */
    FOREIGN_HOST_COLLECTIVE = 16,
    FOREIGN_HOST_MESSAGE = 32,
    FOREIGN_DATA = 64,
    FOREIGN_SAVE = 128,
    FOREIGN_COMPILE = 256,
    FOREIGN_CALL = 512, /* the host starts a collective or a message, or waits for it */
};
enum { FOREIGN_ON_HOST = FOREIGN_HOST_COLLECTIVE | FOREIGN_HOST_MESSAGE | FOREIGN_CALL };

struct foreign_interval {
    double begin, end; /* seconds */
    int class;         /* enum foreign_class */
    int rank;          /* by the event's arguments; -1: not said */
    int64_t pid, tid;
    int64_t step;   /* by the event's arguments; -1: not said */
    double bytes;   /* of a message or collective; NaN: unknown */
    uint32_t name;  /* a hash of the name and the shapes */
    int peer;       /* of a message; -1: not said */
    char direction; /* of a message: 's' or 'r'; 0: not said */
    bool is_sum;    /* a collective that sums over replicas */
};
struct foreign_window {
    int64_t step;
    double begin, end;
    int rank;
    int64_t pid, tid;
};
/** A process of a file that has a rank's name, or is a device of XLA. */
struct foreign_process {
    int64_t pid;
    int rank, file;
    bool is_device;
};
/** A thread of a device of XLA, by its name. */
struct foreign_thread {
    int64_t pid, tid;
    bool has_steps, has_kernels;
};
/** An event whose end comes as an event of its own. */
struct foreign_open {
    int64_t pid, tid;
    json_t *event;
};

struct foreign_job {
    struct diagnose_run *run;
    const char *path;
    int file;
    int file_rank;           /* distributedInfo of this file; -1: not said */
    int world;               /* the number of ranks that distributedInfo says; 0: not said */
    int first_device;        /* the rank of the first XLA device of this file */
    double base, first_base; /* seconds that the times of this file, and of the first one, count from */
    struct foreign_interval *intervals;
    size_t n, capacity;
    struct foreign_window *windows;
    size_t n_windows, window_capacity;
    struct foreign_process *processes;
    size_t n_processes, process_capacity;
    struct foreign_thread *threads; /* of this file */
    size_t n_threads, thread_capacity;
    struct foreign_open *open; /* of this file */
    size_t n_open, open_capacity;
    size_t first_interval, first_window; /* of this file */
    size_t n_impossible;                 /* events of this file with impossible times */
    int n_ranks;
    bool *has_kernels; /* [n_ranks] without kernels, the computing of a rank is that of its host */
    double longest;
};

/* ---- foreign_events.c ---- */
yoke_status foreign_grow(void *list, size_t n, size_t *capacity, size_t size);
yoke_status foreign_window_add(struct foreign_job *job, const struct foreign_window *window);
/** A visitor of diagnose_events; `context` is the struct foreign_job. */
yoke_status foreign_event(void *context, const char *key, const json_t *value);
/** Forget what belongs to one file. */
void foreign_file_end(struct foreign_job *job);

/* ---- foreign_steps.c ---- */
/** The first interval of the rank that may reach into a window. They are sorted by rank and begin. */
size_t foreign_first(const struct foreign_job *job, int rank, double begin);
/** The division of a step of a rank. YOKE_ENOMEM. */
yoke_status foreign_divide(const struct foreign_job *job, const struct foreign_window *window,
                           struct yokei_metrics_rank *out);
/** The work of each rank, from how often which kernels or operators ran: facts->rank[].work. YOKE_ENOMEM. */
yoke_status foreign_work(const struct foreign_job *job, struct yokei_facts *facts);

/* ---- foreign_sums.c ---- */
/** The costs of replicas whose collectives are sums. YOKE_ENOMEM. */
yoke_status foreign_sums(struct foreign_job *job);

/* ---- foreign_stages.c ---- */
/** Find the stages of a pipeline, and its costs. YOKE_ENOMEM. Without any, *is_pipeline_out is false. */
yoke_status foreign_stages(struct foreign_job *job, bool *is_pipeline_out);

/* ---- foreign_words.c ---- */
/** Say what the causes mean for a program that is not Yoke. */
void foreign_words(struct foreign_job *job);

#endif

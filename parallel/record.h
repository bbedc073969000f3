/* SPDX-License-Identifier: Apache-2.0 */
/**
 * When the instructions of a step ran. Where streams run at once what they are given (host, reference), reading the clock around each
 * instruction and each wait is exact. Other streams are only told what to do when the list comes by: there the times mean something
 * where `exact` is set, which synchronises the stream around everything but messages and sums; those are seen to be over when the list
 * next comes by.
 */
#ifndef PARALLEL_RECORD_H
#define PARALLEL_RECORD_H

#include <yoke/base.h>

struct yokei_machine;

/** Of one instruction, by yokei_now_ns. */
struct yokei_times {
    uint64_t posted;   /* the list came to it; 0: it did not run */
    uint64_t begin;    /* what it waits for is there */
    uint64_t returned; /* the list goes on */
    uint64_t end;      /* it is over; 0: not yet, or not known */
};

struct yokei_record {
    int n;
    struct yokei_times *at; /* [n] */
    uint64_t now;           /* the last time that was read */
    uint64_t in_layers_ns;  /* that collectives inside layers took in this step, where streams run at once */
    bool eager;             /* streams run at once what they are given */
    bool exact;             /* synchronise the others: such a step is slower */
};

/** What a step was for one rank, in seconds. */
struct yokei_step_times {
    double span;    /* from the begin of its first pass to the end of its last one */
    double busy;    /* F, B, W, R */
    double useful;  /* the same without R */
    double exposed; /* it computed nothing because of a message, or of a sum of gradients or of a layer's tensors */
};

yoke_status yokei_record_create(int n_instructions, bool eager, struct yokei_record *record_out);
void yokei_record_free(struct yokei_record *record);
/** Forget the step before. */
void yokei_record_clear(struct yokei_record *record);

/* ---- called by the interpreter ---- */
void yokei_record_resume(struct yokei_record *record);
yoke_status yokei_record_begin(const struct yokei_machine *machine, int n);
yoke_status yokei_record_end(const struct yokei_machine *machine, int n);

/** Fill in the ends of messages and sums, as far as they are over. */
yoke_status yokei_record_look(const struct yokei_machine *machine);
/** Of the instructions that have run; times must mean something. */
void yokei_record_measure(const struct yokei_machine *machine, struct yokei_step_times *times_out);

#endif

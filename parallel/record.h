/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The times at which the instructions of a step ran. Some streams run each op within the call that issues it
 * (host, reference). For these eager streams the interpreter reads the clock around each instruction and each
 * wait, and the times are exact. Other streams only queue the op at that moment. Their times are meaningful
 * only if `exact` is set. If the device measures times (stamps.h), the record then has the times of the
 * device. These times of one stream do not overlap, and they do not show when the host issued an instruction.
 * On other devices the interpreter synchronises the stream around every instruction except messages and sums.
 * A message or a sum counts as finished when the interpreter next looks at its event.
 */
#ifndef PARALLEL_RECORD_H
#define PARALLEL_RECORD_H

#include <yoke/base.h>

#include "parallel/stamps.h"

struct yokei_machine;

/** The times of one instruction, from yokei_now_ns. */
struct yokei_times {
    uint64_t posted;   /* the interpreter reached the instruction; 0: it did not run */
    uint64_t begin;    /* the events that the instruction waits for are complete */
    uint64_t returned; /* the interpreter goes on to the next instruction */
    uint64_t end;      /* the instruction is complete; 0: not yet, or not known */
};

struct yokei_record {
    int n;
    struct yokei_times *at;      /* [n] */
    uint64_t now;                /* the last time that was read from the clock */
    uint64_t in_layers_ns;       /* time that collectives inside layers took in this step, on eager streams */
    bool eager;                  /* the streams run each op within the call that issues it */
    bool exact;                  /* measure on streams that are not eager. Such a step may be slower */
    struct yokei_stamps *stamps; /* NULL: the device measures no times, or no step has been exact yet */
    bool started;                /* the stamps have begun to measure this step */
};

/** How one rank spent the time of a step, in seconds. */
struct yokei_step_times {
    double span;   /* from the begin of the rank's first pass to the end of its last pass */
    double busy;   /* time in F, B, W and R */
    double useful; /* time in F, B and W */
    /* time without computation because of a message, a sum of gradients, or a collective inside a layer */
    double exposed;
};

yoke_status yokei_record_create(int n_instructions, bool eager, struct yokei_record *record_out);
void yokei_record_free(struct yokei_record *record);
/** Forget the previous step. */
void yokei_record_clear(struct yokei_record *record);

/* ---- called by the interpreter ---- */
void yokei_record_resume(struct yokei_record *record);
yoke_status yokei_record_begin(const struct yokei_machine *machine, int n);
yoke_status yokei_record_end(const struct yokei_machine *machine, int n);

/** Fill in the ends of all messages and sums that are complete by now. */
yoke_status yokei_record_look(const struct yokei_machine *machine);
/** Add up the times of the instructions that have run. The streams must be eager, or `exact` set. */
void yokei_record_measure(const struct yokei_machine *machine, struct yokei_step_times *times_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* One call of an op at a given shape: prepared for timing, and compared with the reference. */
#include "conform/problem.h"
#include "conform/trial.h"

#include <stdlib.h>
#include <string.h>

uint32_t conform_dtypes_of(enum yoke_op_id op) { return conform_row_of(op)->dtypes; }

struct conform_problem {
    struct trial trial;
    int64_t dims[CONFORM_MAX_DIMS];
};

/* ---- to be timed ---- */

void conform_problem_close(struct conform_problem *p)
{
    if (!p) return;
    yoke_stream_sync(p->trial.device.stream);
    trial_release(&p->trial);
    free(p);
}

/* Copy all tensors to the device. The host's copies are not needed afterwards. */
static yoke_status upload(struct trial *t)
{
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) {
        struct tensor *x = &t->tensor[id];
        if (x->memory) YOKE_TRY(yoke_copy_to_device(t->device.stream, x->memory, x->before, x->image_bytes));
    }
    YOKE_TRY(yoke_stream_sync(t->device.stream));
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) {
        free(t->tensor[id].before);
        t->tensor[id].before = NULL;
    }
    return YOKE_OK;
}

yoke_status conform_problem_open(yoke_device *device, yoke_stream *stream, enum yoke_op_id op,
                                 yoke_dtype dtype, const int64_t dims[CONFORM_MAX_DIMS],
                                 struct conform_problem **problem_out)
{
    struct conform_problem *p = calloc(1, sizeof *p);
    if (!p) return yoke_fail(YOKE_ENOMEM, "%s: no memory", yokei_op_names[op]);
    memcpy(p->dims, dims, sizeof p->dims);
    p->trial = (struct trial){ .row = conform_row_of(op),
                               .dtype = dtype,
                               .seed = 1,
                               .dims = p->dims,
                               .timed = true,
                               .device = { .device = device, .stream = stream } };
    yoke_status status;
    p->trial.row->setup(&p->trial);
    YOKE_TRY_GOTO(p->trial.status, close_problem);
    YOKE_TRY_GOTO(trial_allocate(&p->trial), close_problem);
    YOKE_TRY_GOTO(upload(&p->trial), close_problem);
    *problem_out = p;
    return YOKE_OK;
close_problem:
    conform_problem_close(p);
    return status;
}

yoke_status conform_problem_ready(struct conform_problem *p, struct yoke_cost *cost_out)
{
    struct yoke_cost cost = { .size = sizeof cost };
    YOKE_TRY(p->trial.row->call(&p->trial, &p->trial.device, &cost));
    YOKE_TRY(yoke_stream_reserve(p->trial.device.stream, cost.scratch_bytes));
    *cost_out = cost;
    return YOKE_OK;
}

yoke_status conform_problem_run(struct conform_problem *p)
{
    return p->trial.row->call(&p->trial, &p->trial.device, NULL);
}

/* ---- to be checked ---- */

/*
 * The most work for the reference in one check, as a number of operations in plain C. It takes about a third
 * of a second.
 */
static const double MOST_WORK = 1.5e8;

/*
 * The work for a shape, by any device's answer to `can`. For the oracle each element of a tensor takes as
 * long as some dozens of operations.
 */
static double work_of(struct trial *t)
{
    struct yoke_cost cost = { .size = sizeof cost };
    double elements = 0, work = 0;
    t->row->setup(t);
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) elements += (double)t->tensor[id].extent;
    if (!t->row->call(t, &t->device, &cost)) work = cost.flops;
    trial_release(t);
    return work + 50 * elements;
}

/* Halve the rows, and then the other dimensions, until the check is short enough. */
static void shorten(struct trial *t, enum yoke_op_id op, int64_t dims[CONFORM_MAX_DIMS])
{
    const struct conform_sizes *sizes = conform_sizes_of(op);
    t->timed = t->dry = true;
    while (work_of(t) > MOST_WORK) {
        int i = 0;
        while (i < CONFORM_MAX_DIMS && (!sizes->least[i] || dims[i] / 2 < sizes->least[i])) i++;
        if (i == CONFORM_MAX_DIMS) break;
        dims[i] /= 2;
    }
    t->timed = t->dry = false;
}

static void describe(struct conform_line *line, const struct trial *t, const struct finding *f)
{
    line->n_cases = 1;
    line->verdict = f->ratio <= 1 && !f->reason[0] ? CONFORM_PASS : CONFORM_FAIL;
    line->ratio = f->ratio;
    line->ulp = f->ulp;
    line->got = f->got, line->wanted = f->wanted, line->bound = f->bound;
    memcpy(line->worst_index, f->index, sizeof f->index);
    yokei_text(line->worst_case, sizeof line->worst_case, "%s", t->words);
    yokei_text(line->worst_output, sizeof line->worst_output, "%s", f->output ? f->output : "");
    yokei_text(line->reason, sizeof line->reason, "%s", f->reason);
}

static yoke_status check(struct trial *t, struct conform_line *line)
{
    struct finding f = { .ratio = 0 };
    yoke_status status;
    YOKE_TRY(yoke_device_open("reference", NULL, &t->oracle.device));
    YOKE_TRY_GOTO(yoke_stream_create(t->oracle.device, &t->oracle.stream), close_oracle);
    status = trial_run(t, &f);
    if (status && status != YOKE_ENOMEM
        && status != YOKE_EUNSUPPORTED) { /* an op that fails to run fails the check */
        f = (struct finding){ .ratio = INFINITY };
        yokei_text(f.reason, sizeof f.reason, "%s: %s", yoke_status_name(status), yoke_last_error());
        status = YOKE_OK;
    }
    if (!status) describe(line, t, &f);
    yoke_stream_destroy(t->oracle.stream);
close_oracle:
    yoke_device_close(t->oracle.device);
    return status;
}

yoke_status conform_problem_check(yoke_device *device, yoke_stream *stream, enum yoke_op_id op,
                                  yoke_dtype dtype, const int64_t dims[CONFORM_MAX_DIMS],
                                  struct conform_line *line_out, int64_t dims_out[CONFORM_MAX_DIMS])
{
    int64_t shorter[CONFORM_MAX_DIMS];
    memcpy(shorter, dims, sizeof shorter);
    struct trial t = { .row = conform_row_of(op),
                       .dtype = dtype,
                       .seed = 1,
                       .dims = shorter,
                       .device = { .device = device, .stream = stream },
                       .oracle = { .oracle = true } };
    struct conform_line line = { .size = sizeof line,
                                 .op = yokei_op_names[op],
                                 .dtype = dtype,
                                 .variant = "",
                                 .device = yoke_device_info(device)->spec,
                                 .seed = t.seed };
    shorten(&t, op, shorter);
    YOKE_TRY(check(&t, &line));
    *line_out = line;
    memcpy(dims_out, shorter, sizeof shorter);
    return YOKE_OK;
}

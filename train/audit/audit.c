/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An audit's memory, and its common micro-batch. The program of the micro-batch is a training program with
 * one micro-batch and without sums over the replicas. Its buffers lie where the training program's buffers
 * lie.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/parity/gates.h"
#include "train/audit/audit.h"
#include "train/trainer/memory.h"

enum { PIECE = 1 << 18 };

/* ---- the program ---- */

/* The most sequences that every replica with work has in its first micro-batch. All ranks get the same. */
static int64_t common_sequences(const struct yokei_trainer_plan *p)
{
    int64_t least = INT64_MAX;
    for (int d = 0; d < p->mesh.data; d++)
        if (p->n_micro_batches[d] > 0)
            least = YOKE_MIN(least, (p->shares[d] + p->n_micro_batches[d] - 1) / p->n_micro_batches[d]);
    return least;
}

/* This rank's line: a micro-batch goes forward through the chunks, then backward. */
static yoke_status line(const struct yokei_trainer_plan *p, struct yokei_schedule *s)
{
    const struct yokei_mesh *m = &p->mesh;
    const int last = m->chunks * m->pipeline - 1;
    YOKE_TRY(yokei_schedule_add_line(s));
    for (int c = 0; c < m->chunks; c++) {
        const int at = c * m->pipeline + m->s;
        if (at > 0) YOKE_TRY(yokei_schedule_append(s, YOKEI_ACTION_RA, 0, c));
        YOKE_TRY(yokei_schedule_append(s, YOKEI_ACTION_F, 0, c));
        if (at < last) YOKE_TRY(yokei_schedule_append(s, YOKEI_ACTION_SA, 0, c));
    }
    for (int c = m->chunks - 1; c >= 0; c--) {
        const int at = c * m->pipeline + m->s;
        if (at < last) YOKE_TRY(yokei_schedule_append(s, YOKEI_ACTION_RG, 0, c));
        if (p->stage_recomputes[m->s]) YOKE_TRY(yokei_schedule_append(s, YOKEI_ACTION_R, 0, c));
        YOKE_TRY(yokei_schedule_append(s, YOKEI_ACTION_B, 0, c));
        YOKE_TRY(yokei_schedule_append(s, YOKEI_ACTION_W, 0, c));
        if (at > 0) YOKE_TRY(yokei_schedule_append(s, YOKEI_ACTION_SG, 0, c));
    }
    return YOKE_OK;
}

static yoke_status make_program(struct yokei_audit *a)
{
    const struct yokei_trainer_plan *p = &a->t->plan;
    struct yokei_schedule schedule = { 0, NULL };
    a->job = p->train_job;
    a->job.n_sequences = a->job.micro_batch = a->n_sequences;
    yoke_status status = line(p, &schedule);
    if (!status) status = yokei_program_train(&a->job, &schedule.rank[0], &a->program);
    yokei_schedule_free(&schedule);
    YOKE_TRY(status);
    a->program.agree = a->program.n;
    if (a->program.bytes > p->arena_bytes - p->state.bytes
        || a->n_sequences * a->t->config.sequence > p->state.n_tokens)
        return yoke_fail(
            YOKE_ENOMEM,
            "audit: a micro-batch of %lld sequences does not fit into the memory of a step: give this "
            "replica at least as many sequences (--shares, --micro-batch)",
            (long long)a->n_sequences);
    return yoke_stream_reserve(a->t->stream[YOKEI_COMPUTE], a->program.planner.scratch_bytes);
}

/* ---- memory ---- */

/* A parameter that the gates compare in parts must fit into one piece. */
static int64_t piece_of(const struct yokei_trainer_plan *p)
{
    int64_t piece = 1, most = PIECE;
    for (int i = 0; i < p->state.n; i++) {
        piece = YOKE_MAX(piece, p->state.slot[i].n);
        if (yokei_gate_parts(p->parameters.item[i].name) > 1) most = YOKE_MAX(most, p->state.slot[i].n);
    }
    return YOKE_MIN(piece, most);
}

static yoke_status allocate_host(struct yokei_audit *a, size_t piece_bytes)
{
    const struct yokei_trainer_plan *p = &a->t->plan;
    const size_t n = (size_t)p->mesh.data, ranks = (size_t)p->n_ranks, entries = (size_t)a->n_entries,
                 squares = (size_t)p->logical.n * n,
                 tokens = (size_t)(a->n_sequences * a->t->config.sequence);
    a->tokens = calloc(tokens, sizeof *a->tokens);
    a->targets = calloc(tokens, sizeof *a->targets);
    a->host = malloc(piece_bytes);
    a->logical = calloc((size_t)p->state.n + 1, sizeof *a->logical);
    a->mine = calloc(squares, sizeof *a->mine);
    a->all = calloc(squares * ranks, sizeof *a->all);
    a->ratios = calloc(n * n + n, sizeof *a->ratios);
    a->worst = calloc(n * n, sizeof *a->worst);
    a->differs = calloc(n, sizeof *a->differs);
    a->entry = calloc(entries, sizeof *a->entry);
    a->entries = calloc(entries * ranks, sizeof *a->entries);
    a->event = calloc((size_t)a->program.n_events + 1, sizeof *a->event);
    return a->tokens && a->targets && a->host && a->logical && a->mine && a->all && a->ratios && a->worst
                   && a->differs && a->entry && a->entries && a->event
               ? YOKE_OK
               : yoke_fail(YOKE_ENOMEM, "audit: no host memory");
}

static yoke_status allocate(struct yokei_audit *a)
{
    const struct yokei_trainer_plan *p = &a->t->plan;
    const size_t bytes = (size_t)p->mesh.data * (size_t)a->piece * yoke_dtype_bytes(p->state.wide);
    YOKE_TRY(make_program(a));
    if (a->t->config.memory_limit && p->report.total + bytes > a->t->config.memory_limit)
        return yoke_fail(YOKE_ENOMEM,
                         "audit: %zu bytes more than the limit of memory are needed: leave --audit out",
                         (size_t)(p->report.total + bytes - a->t->config.memory_limit));
    YOKE_TRY(allocate_host(a, bytes));
    for (int i = 0; i < p->state.n; i++)
        a->logical[i] = yokei_parameter_find(&p->logical, p->parameters.item[i].name);
    for (; a->n_events < a->program.n_events; a->n_events++)
        YOKE_TRY(yoke_event_create(a->t->device, &a->event[a->n_events]));
    const yoke_status status = yoke_alloc(a->t->device, bytes, &a->gathered);
    return status ? yoke_fail_context(status, "audit: pieces of gradients") : YOKE_OK;
}

/* Add the device memory of all ranks' audits to the memory that the run reports. */
static yoke_status report(struct yokei_audit *a, double *numbers)
{
    struct yoke_trainer *t = a->t;
    const double mine = (double)t->plan.mesh.data * (double)a->piece
                        * (double)yoke_dtype_bytes(t->plan.state.wide);
    YOKE_TRY(yokei_ranks_gather(&t->config, &mine, 1, numbers));
    for (int r = 0; r < t->plan.n_ranks; r++) {
        t->memory[r].report.workspace += (size_t)numbers[r];
        t->memory[r].report.total += (size_t)numbers[r];
    }
    t->plan.report.workspace += (size_t)mine;
    t->plan.report.total += (size_t)mine;
    return YOKE_OK;
}

/* The most entries, and the longest piece, of any rank. Counterparts in the replicas have equal pieces. */
static yoke_status agree_on_sizes(struct yokei_audit *a, double *numbers)
{
    const double mine = (double)yokei_audit_count(a);
    YOKE_TRY(yokei_ranks_gather(&a->t->config, &mine, 1, numbers));
    for (int r = 0; r < a->t->plan.n_ranks; r++) a->n_entries = YOKE_MAX(a->n_entries, (int64_t)numbers[r]);
    return YOKE_OK;
}

yoke_status yokei_audit_create(yoke_trainer *t, struct yokei_audit **audit_out)
{
    if (t->plan.mesh.data < 2)
        return yoke_fail(
            YOKE_ECONFIG,
            "audit: the run has one replica, so there is nothing to compare it with: give it more (--dp)");
    if (t->config.precision == YOKE_F64) return yoke_fail(YOKE_EUNSUPPORTED, "audit: f64 has no gate");
    struct yokei_audit *a = calloc(1, sizeof *a);
    double *numbers = calloc((size_t)t->plan.n_ranks, sizeof *numbers);
    yoke_status status = a && numbers ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "audit: no host memory");
    YOKE_TRY_GOTO(yokei_ranks_all_well(&t->config, status), out);
    a->t = t;
    a->n_sequences = common_sequences(&t->plan);
    a->piece = piece_of(&t->plan);
    YOKE_TRY_GOTO(agree_on_sizes(a, numbers), out);
    YOKE_TRY_GOTO(yokei_ranks_all_well(&t->config, allocate(a)), out);
    status = report(a, numbers);
out:
    free(numbers);
    if (status)
        yokei_audit_free(a);
    else
        *audit_out = a;
    return status;
}

void yokei_audit_free(struct yokei_audit *a)
{
    if (!a) return;
    struct yokei_error text;
    yokei_error_save(&text);
    for (int s = 0; s < YOKEI_N_STREAMS && a->t; s++) yoke_stream_sync(a->t->stream[s]);
    for (int e = 0; e < a->n_events; e++) {
        if (yokei_is_eager(a->t->device)) yoke_event_sync(a->event[e]);
        yoke_event_destroy(a->event[e]);
    }
    if (a->gathered) yoke_free(a->t->device, a->gathered);
    yokei_program_free(&a->program);
    void *const lists[] = { a->event,  a->tokens, a->targets, a->host,  a->logical, a->mine, a->all,
                            a->ratios, a->worst,  a->differs, a->entry, a->entries, a };
    for (size_t i = 0; i < YOKE_COUNT(lists); i++) free(lists[i]);
    yokei_error_restore(&text);
}

int64_t yokei_audit_batch(struct yokei_audit *a, int32_t **tokens_out, int32_t **targets_out)
{
    *tokens_out = a->tokens;
    *targets_out = a->targets;
    return a->n_sequences;
}

/* ---- the common micro-batch ---- */

/*
 * The gradients of this replica alone. Dropout is drawn by (seed, step, index of the sample), and all
 * replicas count the samples from 0, so all of them draw the same.
 */
static yoke_status run_passes(struct yokei_audit *a)
{
    struct yoke_trainer *t = a->t;
    yokei_step_set_up(t, &a->job, &a->program);
    t->machine.event = a->event;
    t->machine.pass.sample_offset = 0;
    YOKE_TRY(yokei_step_load(t, a->tokens, a->targets, a->n_sequences * t->config.sequence));
    YOKE_TRY(yokei_annotate_clear(t->stream[YOKEI_COMPUTE], t->base, &t->plan.state,
                                  YOKEI_CLEAR_GRADIENTS | YOKEI_CLEAR_NORMS));
    YOKE_TRY(yokei_run(&t->machine, 0, a->program.n));
    YOKE_TRY(yoke_stream_sync(t->stream[YOKEI_COMPUTE]));
    return yokei_step_drain(t);
}

/* Gather the same piece of a gradient from all replicas, and add up the squares of its differences. */
static yoke_status compare_piece(struct yokei_audit *a, int parameter, int64_t first, int64_t n)
{
    struct yoke_trainer *t = a->t;
    const struct yokei_state *s = &t->plan.state;
    const int replicas = t->plan.mesh.data, own = t->plan.mesh.d;
    const char *name = t->plan.parameters.item[parameter].name;
    struct yokei_gate_squares *squares = &a->mine[(int64_t)a->logical[parameter] * replicas];
    const size_t wide = yoke_dtype_bytes(s->wide);
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    YOKE_TRY(yokei_replicas_collect(t, s->slot[parameter].gradient + (size_t)first * wide, n, a->gathered,
                                    stream));
    YOKE_TRY(yoke_copy_to_host(stream, a->host, a->gathered, (size_t)(n * replicas) * wide));
    YOKE_TRY(yoke_stream_sync(stream));
    const float *values = a->host;
    for (int e = 0; e < replicas; e++)
        if (e != own) yokei_gate_add(name, values + own * n, values + e * n, (size_t)n, &squares[e]);
    return YOKE_OK;
}

static yoke_status compare_gradients(struct yokei_audit *a)
{
    const struct yokei_state *s = &a->t->plan.state;
    memset(a->mine, 0, (size_t)a->t->plan.logical.n * (size_t)a->t->plan.mesh.data * sizeof *a->mine);
    for (int i = 0; i < s->n; i++)
        for (int64_t at = 0; at < s->slot[i].n; at += a->piece)
            YOKE_TRY(compare_piece(a, i, at, YOKE_MIN(a->piece, s->slot[i].n - at)));
    return yokei_groups_error(&a->t->groups, &a->t->config);
}

yoke_status yokei_audit_run(struct yokei_audit *a, struct yokei_audit_result *result_out)
{
    struct yoke_trainer *t = a->t;
    const uint64_t begun = yokei_now_ns();
    *result_out = (struct yokei_audit_result){ .ratio = NAN };
    t->ready = false;
    YOKE_TRY(yokei_audit_state(a));
    YOKE_TRY(run_passes(a));
    YOKE_TRY(compare_gradients(a));
    YOKE_TRY(yokei_ranks_gather_bytes(&t->config, a->mine,
                                      (size_t)t->plan.logical.n * (size_t)t->plan.mesh.data * sizeof *a->mine,
                                      a->all));
    const yoke_status status = yokei_audit_judge(a, &result_out->ratio);
    result_out->seconds = yokei_seconds_since(begun);
    return status;
}

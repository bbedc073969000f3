/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare one layout with the reference. Each rank compares the part of a tensor that it holds, and sends the
 * sums of squares to the other ranks of its layout. So the gradients of every replica are checked, and no
 * tensor is assembled.
 */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/parity/gates.h"
#include "train/parity/inside.h"

struct subject {
    struct yokei_parity *p;
    yoke_trainer *t;
    struct yokei_parity_result *r;
    yoke_dtype precision;
    int64_t first;                 /* this rank's first sequence in the batch */
    float *local, *wanted, *whole; /* memory for the largest tensor */
    double *mine, *all;            /* the numbers that a rank sends for each tensor, and those of all ranks */
    int n_compared;                /* sets of gradients that were compared in this precision */
    bool mixed, sliced;            /* devices differ; replicas keep only slices (ZeRO-1) */
};

/*
 * The numbers that a rank sends for a tensor: its sums of squares, and whether it holds the tensor, a slice
 * of it, or nothing.
 */
enum { REPORT_HELD = YOKEI_GATE_PARTS, N_REPORT };
enum { HELD_NOT, HELD_SLICE, HELD_WHOLE };

static int n_tensors(const struct subject *s) { return yoke_trainer_n_logical(s->t); }

static const double *report_of(const struct subject *s, int rank, int tensor)
{
    return s->all + ((size_t)rank * (size_t)n_tensors(s) + (size_t)tensor) * N_REPORT;
}

static void note(struct subject *s, struct yokei_parity_worst *w, double ratio, int64_t step, int rank,
                 const char *where)
{
    if (!(ratio > w->ratio)) return;
    w->ratio = ratio;
    w->step = (int)step;
    w->rank = s->r->from + rank;
    yokei_text(w->where, sizeof w->where, "%s", where);
}

static int held_index(const struct subject *s, int tensor)
{
    return yokei_parameter_find(&s->t->plan.parameters, yoke_trainer_logical(s->t, tensor)->name);
}

/*
 * Copy the part of a tensor that this rank holds to s->local. If replicas keep slices, all ranks first
 * assemble the tensor.
 */
static yoke_status get_own(struct subject *s, enum yoke_tensor_kind kind, int tensor, int held)
{
    if (!s->sliced) return held < 0 ? YOKE_OK : yoke_trainer_get(s->t, kind, held, s->local);
    YOKE_TRY(yoke_trainer_get_whole(s->t, kind, tensor, s->whole));
    if (held >= 0) yokei_shard_slice(yoke_trainer_parameter(s->t, held), s->whole, s->local);
    return YOKE_OK;
}

/* Compute the difference of this rank's part of a tensor. */
static yoke_status compare_own(struct subject *s, int tensor, const float *whole, double *report)
{
    const int held = held_index(s, tensor);
    memset(report, 0, N_REPORT * sizeof *report);
    YOKE_TRY(get_own(s, YOKE_TENSOR_GRADIENT, tensor, held));
    if (held < 0) return YOKE_OK;
    const struct yoke_parameter *own = yoke_trainer_parameter(s->t, held);
    const int64_t n = yokei_local_count(own);
    struct yokei_gate_squares squares = { { 0 }, { 0 } };
    yokei_shard_slice(own, whole, s->wanted);
    yokei_gate_add(own->name, s->local, s->wanted, (size_t)n, &squares);
    for (int part = 0; part < YOKEI_GATE_PARTS; part++)
        report[part] = isfinite(squares.difference[part]) ? squares.difference[part] : INFINITY;
    report[REPORT_HELD] = n == yokei_logical_count(yoke_trainer_logical(s->t, tensor)) ? HELD_WHOLE
                                                                                       : HELD_SLICE;
    return YOKE_OK;
}

/*
 * Add up the squares of a tensor of replica d. The slices of a stage are added. If several ranks or stages
 * hold the same, the largest counts. Returns the rank with the largest difference.
 */
static int add_up(const struct subject *s, int d, int tensor, struct yokei_gate_squares *squares)
{
    const struct yokei_mesh *m = &s->t->plan.mesh;
    double most = -1;
    int worst = 0;
    for (int part = 0; part < YOKEI_GATE_PARTS; part++)
        for (int stage = 0; stage < m->pipeline; stage++) {
            double sum = 0;
            for (int t = 0; t < yokei_mesh_width(m, stage); t++) {
                const int rank = yokei_mesh_rank(m, d, stage, t);
                const double *report = report_of(s, rank, tensor);
                if (report[REPORT_HELD] == HELD_NOT) continue;
                sum = report[REPORT_HELD] == HELD_WHOLE ? fmax(sum, report[part]) : sum + report[part];
                if (report[part] > most) most = report[part], worst = rank;
            }
            squares->difference[part] = fmax(squares->difference[part], sum);
        }
    return worst;
}

/* Gate (a) for the gradients that the trainer has now: each tensor, and the norm of all gradients. */
static yoke_status compare(struct subject *s, const struct yokei_parity_expected *e, int k, bool against_f32,
                           double norm, struct yokei_parity_worst *worst)
{
    const int n = n_tensors(s);
    const int64_t step = yokei_parity_checks[k];
    const double gate = yokei_gate_gradient(s->precision, against_f32);
    const float *whole = e->gradients[k];
    s->n_compared += !against_f32;
    for (int i = 0; i < n; whole += yokei_logical_count(yoke_trainer_logical(s->t, i)), i++)
        YOKE_TRY(compare_own(s, i, whole, s->mine + (size_t)i * N_REPORT));
    YOKE_TRY(yokei_ranks_gather(&s->t->config, s->mine, n * N_REPORT, s->all));
    whole = e->gradients[k];
    double before = 0; /* the squares of the parameter before */
    for (int i = 0; i < n; i++) {
        const struct yoke_parameter *p = yoke_trainer_logical(s->t, i);
        const size_t count = (size_t)yokei_logical_count(p);
        struct yokei_gate_squares own = { { 0 }, { 0 } };
        yokei_gate_add(p->name, whole, whole, count, &own);
        const double squares_of_this = own.expected[0];
        yokei_gate_lean(p->name, before, &own);
        before = squares_of_this;
        for (int d = 0; d < s->t->plan.mesh.data; d++) {
            struct yokei_gate_squares squares = own;
            const int rank = add_up(s, d, i, &squares);
            note(s, worst, yokei_gate_ratio(p->name, &squares, s->precision, gate), step, rank, p->name);
        }
        whole += count;
    }
    const double expected = e->norms[step - 1];
    note(s, worst, yokei_gate_off(fabs(norm - expected), gate * expected), step, s->t->plan.rank,
         "the norm of all gradients");
    return YOKE_OK;
}

static yoke_status backward(struct subject *s, int64_t step, struct yoke_step_result *result)
{
    const int64_t T = s->p->config.sequence;
    yokei_parity_fill_batch(s->p, step);
    return yoke_trainer_backward(s->t, s->p->tokens + s->first * T, s->p->targets + s->first * T, 0, result);
}

/* Gate (a) at step 1, and gate (b). */
static yoke_status free_run(struct subject *s, const struct yokei_parity_expected *e,
                            const struct yokei_parity_expected *f32, int64_t steps)
{
    struct yoke_step_result result;
    for (int64_t step = 1; step <= steps; step++) {
        YOKE_TRY(backward(s, step, &result));
        const double expected = e->losses[step - 1];
        note(s, &s->r->loss,
             yokei_gate_off(fabs(result.loss - expected),
                            yokei_gate_loss(s->precision, step) * fabs(expected)),
             step, s->t->plan.rank, "the loss");
        if (step == 1 && e->finite[0]) {
            YOKE_TRY(compare(s, e, 0, false, result.gradient_norm, &s->r->gradient));
            if (s->precision != YOKE_F32 && f32->finite[0])
                YOKE_TRY(compare(s, f32, 0, true, result.gradient_norm, &s->r->against_f32));
        }
        YOKE_TRY(yoke_trainer_apply(s->t, yokei_parity_rate(step), &result));
    }
    return YOKE_OK;
}

static yoke_status compare_from(struct subject *s, const struct yokei_parity_expected *e, int k,
                                bool against_f32, struct yokei_parity_worst *worst)
{
    struct yoke_step_result result;
    const float *whole = e->weights[k];
    if (!e->finite[k]) return YOKE_OK;
    for (int i = 0; i < n_tensors(s); whole += yokei_logical_count(yoke_trainer_logical(s->t, i)), i++)
        YOKE_TRY(yoke_trainer_set_whole(s->t, YOKE_TENSOR_WEIGHT, i, whole));
    /* The step is restored, because dropout depends on it. */
    const struct yokei_loss_scale scale = s->t->loss_scale;
    yokei_trainer_restore(s->t, yokei_parity_checks[k] - 1, s->t->optimizer_step, scale.scale,
                          scale.good_steps, scale.skipped);
    YOKE_TRY(backward(s, yokei_parity_checks[k], &result));
    return compare(s, e, k, against_f32, result.gradient_norm, worst);
}

/* The numbers that a rank sends about the bits of a tensor, and after the last tensor about its optimizer. */
enum { BITS_HASH, BITS_HELD, BITS };
enum { DONE_STEPS, DONE_SCALE };

static const double *bits_of(const struct subject *s, int rank, int tensor)
{
    return s->all + ((size_t)rank * (size_t)(n_tensors(s) + 1) + (size_t)tensor) * BITS;
}

static yoke_status report_bits(struct subject *s)
{
    const int n = n_tensors(s);
    for (int i = 0; i < n; i++) {
        const int held = held_index(s, i);
        double *report = s->mine + (size_t)i * BITS;
        report[BITS_HASH] = report[BITS_HELD] = 0;
        YOKE_TRY(get_own(s, YOKE_TENSOR_WEIGHT, i, held));
        if (held < 0) continue;
        const int64_t count = yokei_local_count(yoke_trainer_parameter(s->t, held));
        /* so that it is exact in a double */
        report[BITS_HASH] = (double)(yokei_hash(s->local, (size_t)count * sizeof *s->local, 0) >> 12);
        report[BITS_HELD] = count == yokei_logical_count(yoke_trainer_logical(s->t, i)) ? HELD_WHOLE
                                                                                        : HELD_SLICE;
    }
    s->mine[(size_t)n * BITS + DONE_STEPS] = (double)s->t->optimizer_step;
    s->mine[(size_t)n * BITS + DONE_SCALE] = s->t->loss_scale.scale;
    return yokei_ranks_gather(&s->t->config, s->mine, (n + 1) * BITS, s->all);
}

/* The first rank that holds the same part of a tensor as `rank`: the whole tensor, or the same slice. */
static int first_like(const struct subject *s, int tensor, int rank)
{
    enum {
        FINE = 1 << 20
    }; /* the number of units of an imagined tensor, with which the slices are compared */
    const struct yokei_mesh at = yokei_mesh_at(&s->t->plan.mesh, rank);
    const double *own = bits_of(s, rank, tensor);
    for (int r = 0; r < rank; r++) {
        const struct yokei_mesh its = yokei_mesh_at(&s->t->plan.mesh, r);
        const struct yoke_place here = yokei_plan_place(&s->t->config, &s->t->plan, at.s, at.t),
                                there = yokei_plan_place(&s->t->config, &s->t->plan, its.s, its.t);
        const struct yoke_range a = yoke_place_range(&here, FINE), b = yoke_place_range(&there, FINE);
        const bool same_slice = here.tensor_size == there.tensor_size && a.begin == b.begin && a.end == b.end;
        if (bits_of(s, r, tensor)[BITS_HELD] == own[BITS_HELD]
            && (own[BITS_HELD] == HELD_WHOLE || same_slice))
            return r;
    }
    return rank;
}

/*
 * Ranks with the same part of a tensor must hold the same bits, if their devices are of one kind. Other
 * devices round the quotients of AdamW differently. All ranks must have taken the same steps with the same
 * loss scale. The hash of the whole uses the first rank that holds each piece.
 */
static yoke_status compare_bits(struct subject *s, int64_t step)
{
    const int n = n_tensors(s);
    YOKE_TRY(report_bits(s));
    s->r->bits = 0;
    for (int i = 0; i < n; i++)
        for (int rank = 0; rank < s->t->plan.n_ranks; rank++) {
            const double *report = bits_of(s, rank, i);
            if (report[BITS_HELD] == HELD_NOT) continue;
            const int first = first_like(s, i, rank);
            if (first == rank)
                s->r->bits = yokei_hash(report, sizeof *report, s->r->bits);
            else if (bits_of(s, first, i)[BITS_HASH] != report[BITS_HASH] && !s->mixed)
                note(s, &s->r->apart, INFINITY, step, rank, yoke_trainer_logical(s->t, i)->name);
        }
    for (int rank = 1; rank < s->t->plan.n_ranks; rank++) {
        const double *one = bits_of(s, 0, n), *other = bits_of(s, rank, n);
        if (one[DONE_STEPS] != other[DONE_STEPS])
            note(s, &s->r->apart, INFINITY, step, rank, "the number of steps taken");
        else if (one[DONE_SCALE] != other[DONE_SCALE])
            note(s, &s->r->apart, INFINITY, step, rank, "the loss scale");
    }
    return YOKE_OK;
}

static yoke_status hold(struct subject *s, const struct yokei_parity_layout *l)
{
    const struct yokei_parity_expected *e = &s->p->expected[s->precision], *f32 = &s->p->expected[YOKE_F32];
    const int64_t steps = l->steps ? l->steps : s->p->config.steps,
                  free = YOKE_MIN(steps, yokei_gate_steps(s->precision));
    YOKE_TRY(free_run(s, e, f32, free));
    YOKE_TRY(compare_bits(s, free));
    for (int k = 1; k < YOKEI_PARITY_CHECKS && yokei_parity_checks[k] <= steps; k++) {
        YOKE_TRY(compare_from(s, e, k, false, &s->r->gradient));
        if (s->precision != YOKE_F32) YOKE_TRY(compare_from(s, f32, k, true, &s->r->against_f32));
    }
    if (!s->n_compared)
        note(s, &s->r->gradient, INFINITY, steps, s->t->plan.rank,
             "nothing to compare with: the reference overflowed; give more steps");
    return YOKE_OK;
}

static yoke_status make_room(struct subject *s)
{
    int64_t most = 1;
    const size_t n = (size_t)n_tensors(s) + 1, width = YOKE_MAX((size_t)N_REPORT, (size_t)BITS);
    for (int i = 0; i < n_tensors(s); i++)
        most = YOKE_MAX(most, yokei_logical_count(yoke_trainer_logical(s->t, i)));
    s->local = malloc((size_t)most * sizeof *s->local);
    s->wanted = malloc((size_t)most * sizeof *s->wanted);
    s->whole = malloc((size_t)most * sizeof *s->whole);
    s->mine = calloc(n * width, sizeof *s->mine);
    s->all = calloc(n * width * (size_t)s->t->plan.n_ranks, sizeof *s->all);
    return s->local && s->wanted && s->whole && s->mine && s->all
               ? YOKE_OK
               : yoke_fail(YOKE_ENOMEM, "parity: no host memory for a tensor of %lld elements",
                           (long long)most);
}

static bool is_mixed(const struct yokei_parity *p, int from, int n)
{
    for (int r = 1; r < n; r++)
        if (strcmp(p->devices[from], p->devices[from + r]) != 0) return true;
    return false;
}

yoke_status yokei_parity_judge(struct yokei_parity *p, const struct yokei_parity_layout *l, yoke_comm *comm,
                               yoke_comm *control, struct yokei_parity_result *r)
{
    struct subject s = {
        .p = p, .r = r, .precision = r->precision, .mixed = is_mixed(p, r->from, yokei_parity_n_ranks(l))
    };
    struct yokei_parity_setup setup;
    int64_t count;
    const uint64_t begun = yokei_now_ns();
    yokei_parity_set_up(p, l, r->precision, &setup);
    setup.config.comm = comm;
    setup.config.control = control;
    yoke_status status = yoke_trainer_create(p->model, p->config.device, &setup.config, &s.t);
    if (status == YOKE_ECONFIG || status == YOKE_ENOMEM
        || status == YOKE_EUNSUPPORTED) { /* all ranks of the layout refused */
        yokei_text(r->why, sizeof r->why, "%s", yoke_last_error());
        return YOKE_OK;
    }
    YOKE_TRY(status);
    r->state = YOKEI_PARITY_RAN;
    s.sliced = s.t->plan.state.is_divided; /* by zero=1, or because the devices round AdamW differently */
    yoke_trainer_range(s.t, &s.first, &count);
    status = make_room(&s);
    if (!status) status = hold(&s, l);
    if (status
        == YOKE_ENUMERIC) { /* the error of all its ranks; a number that is not finite passes no gate */
        note(&s, &r->loss, INFINITY, s.t->step, s.t->plan.rank, yoke_last_error());
        status = YOKE_OK;
    }
    free(s.local);
    free(s.wanted);
    free(s.whole);
    free(s.mine);
    free(s.all);
    /* other ranks may have ended, so nothing waits for them */
    if (status) return yoke_fail_context(status, "%s in %s", l->text, yoke_dtype_name(r->precision));
    r->seconds = (double)(yokei_now_ns() - begun) * 1e-9;
    return yoke_trainer_destroy(s.t);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run the layouts. Each wave is a set of layouts that run at the same time on different ranks. The results
 * are gathered after each wave.
 */
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>
#include "core/base/base.h"
#include "train/parity/gates.h"
#include "train/parity/inside.h"

/*
 * Ranks from `offset` on in groups of n. Each group may run a layout. All ranks together create it when it is
 * first needed.
 */
struct yokei_parity_seat {
    int n, offset;
    yoke_comm *comm, *control; /* communicators of this rank's group; NULL: this rank is in no group */
    struct yokei_parity_seat *next;
};

struct job {
    struct yokei_parity_result r;
    bool done;
};

static const yoke_dtype precisions[] = { YOKE_F32, YOKE_BF16, YOKE_F16 };

static void start_result(struct yokei_parity_result *r, int layout, yoke_dtype precision)
{
    memset(r, 0, sizeof *r);
    r->layout = layout;
    r->precision = precision;
    r->from = r->like = -1;
    r->same_bits = true;
}

static yoke_status list_jobs(const struct yokei_parity_config *c, const struct yokei_parity_list *list,
                             struct job **jobs_out, int *n_out)
{
    struct job *jobs = calloc((size_t)list->n * YOKE_COUNT(precisions) + 1, sizeof *jobs);
    int n = 0;
    if (!jobs) return yoke_fail(YOKE_ENOMEM, "parity: no host memory for %d layouts", list->n);
    for (int i = 0; i < list->n; i++)
        for (size_t k = 0; k < YOKE_COUNT(precisions); k++)
            if (list->item[i].precision[0] ? yokei_parity_wants(&list->item[i], precisions[k])
                                           : c->precisions[precisions[k]])
                start_result(&jobs[n++].r, i, precisions[k]);
    *jobs_out = jobs;
    *n_out = n;
    return YOKE_OK;
}

/* ---- layouts that cannot run ---- */

/* Plan the layout as one of its ranks, without the other ranks. */
static yoke_status plan_layout(const struct yokei_parity *p, const struct yokei_parity_layout *l,
                               yoke_dtype precision)
{
    struct yokei_trainer_plan planned;
    struct yokei_parity_setup setup;
    const int n = yokei_parity_n_ranks(l);
    yokei_parity_set_up(p, l, precision, &setup);
    YOKE_TRY(yokei_trainer_plan_as(p->model, p->config.device, &setup.config, p->rank % n, n, &planned));
    yokei_trainer_plan_free(&planned);
    return YOKE_OK;
}

/* Leave out layouts that need too many ranks, or that some rank cannot plan. All ranks decide alike. */
static yoke_status leave_out(struct yokei_parity *p, const struct yokei_parity_list *list, struct job *jobs,
                             int n)
{
    double *mine = calloc((size_t)n + 1, sizeof *mine),
           *all = calloc(((size_t)n + 1) * (size_t)p->n_ranks, sizeof *all);
    yoke_status status = mine && all ? YOKE_OK
                                     : yoke_fail(YOKE_ENOMEM, "parity: no host memory for %d layouts", n);
    for (int i = 0; i < n && !status; i++) {
        const struct yokei_parity_layout *l = &list->item[jobs[i].r.layout];
        const int size = yokei_parity_n_ranks(l);
        if (l->from + size > p->n_ranks || size > p->n_ranks) {
            jobs[i].done = true;
            yokei_text(jobs[i].r.why, sizeof jobs[i].r.why,
                       "it takes %lld ranks%s, and there are %d: start it by yoke run -n %lld",
                       (long long)YOKE_MAX(l->from, 0) + size, l->from > 0 ? " (from counts too)" : "",
                       p->n_ranks, (long long)YOKE_MAX(l->from, 0) + size);
        } else
            mine[i] = plan_layout(p, l, jobs[i].r.precision);
    }
    if (!status) status = yokei_ranks_gather(&p->world, mine, n, all);
    for (int i = 0; i < n && !status; i++) {
        bool fits = true;
        for (int r = 0; r < p->n_ranks; r++) fits = fits && all[(size_t)r * (size_t)n + (size_t)i] == YOKE_OK;
        if (fits) continue;
        jobs[i].done = true;
        /* plan again to get the error text */
        const yoke_status why = yokei_ranks_all_well(&p->world, plan_layout(p, &list->item[jobs[i].r.layout],
                                                                            jobs[i].r.precision));
        if (why != YOKE_ECONFIG && why != YOKE_ENOMEM && why != YOKE_EUNSUPPORTED)
            status = why;
        else
            yokei_text(jobs[i].r.why, sizeof jobs[i].r.why, "%s", yoke_last_error());
    }
    free(mine);
    free(all);
    return status;
}

/* ---- seats: groups of ranks that can run a layout ---- */

static yoke_status find_seat(struct yokei_parity *p, int n, int from, struct yokei_parity_seat **out)
{
    const int offset = from % n, group = p->rank < offset ? -1 : (p->rank - offset) / n;
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    for (*out = p->seats; *out; *out = (*out)->next)
        if ((*out)->n == n && (*out)->offset == offset) return YOKE_OK;
    struct yokei_parity_seat *seat = calloc(1, sizeof *seat);
    if (!seat) return yoke_fail(YOKE_ENOMEM, "parity: no host memory");
    *seat = (struct yokei_parity_seat){ n, offset, NULL, NULL, p->seats };
    p->seats = *out = seat;
    if (n == 1) return YOKE_OK; /* a rank alone needs no communicators */
    const int color = group >= 0 && offset + (group + 1) * n <= p->n_ranks ? group : YOKE_NO_COLOR;
    config.name = "layout";
    YOKE_TRY(yoke_comm_split(p->config.comm, color, 0, &config, &seat->comm));
    config.name = "layout's control";
    return yoke_comm_split(p->config.control, color, 0, &config, &seat->control);
}

static yoke_status free_seats(struct yokei_parity *p, yoke_status status)
{
    for (struct yokei_parity_seat *seat = p->seats, *next; seat; seat = next) {
        next = seat->next;
        if (!status && seat->control) status = yoke_comm_destroy(seat->control);
        if (!status && seat->comm) status = yoke_comm_destroy(seat->comm);
        free(seat);
    }
    p->seats = NULL;
    return status;
}

/* ---- waves: layouts that run at the same time ---- */

/* Whether ranks from .. from + n are free and have the devices that the layout needs. */
static bool may_take(const struct yokei_parity *p, const struct yokei_parity_layout *l, const bool *taken,
                     int from)
{
    const int n = yokei_parity_n_ranks(l);
    for (int r = 0; r < n; r++)
        if (taken[from + r] || (l->from < 0 && strcmp(p->devices[r], p->devices[from + r]) != 0))
            return false;
    return true;
}

static bool place(const struct yokei_parity *p, const struct yokei_parity_layout *l, bool *taken,
                  int *from_out)
{
    const int n = yokei_parity_n_ranks(l);
    for (int from = l->from < 0 ? 0 : (int)l->from; from + n <= p->n_ranks; from += n) {
        if (may_take(p, l, taken, from)) {
            memset(taken + from, true, (size_t)n * sizeof *taken);
            *from_out = from;
            return true;
        }
        if (l->from >= 0) break;
    }
    return false;
}

/*
 * Choose the next wave, with large layouts first. *own_out is this rank's layout, or -1. Returns the number
 * of layouts.
 */
static int next_wave(const struct yokei_parity *p, const struct yokei_parity_list *list, struct job *jobs,
                     int n, bool *taken, int *wave, int *own_out)
{
    int n_wave = 0;
    *own_out = -1;
    memset(taken, 0, (size_t)p->n_ranks * sizeof *taken);
    for (int size = p->n_ranks; size >= 1; size--)
        for (int i = 0; i < n; i++) {
            const struct yokei_parity_layout *l = &list->item[jobs[i].r.layout];
            if (jobs[i].done || yokei_parity_n_ranks(l) != size || !place(p, l, taken, &jobs[i].r.from))
                continue;
            jobs[i].done = true;
            if (p->rank >= jobs[i].r.from && p->rank < jobs[i].r.from + size) *own_out = i;
            wave[n_wave++] = i;
        }
    return n_wave;
}

static void keep_worse(struct yokei_parity_worst *worst, const struct yokei_parity_worst *other)
{
    if (other->ratio > worst->ratio) *worst = *other;
}

/* Send the results of each layout to all ranks. */
static yoke_status report_results(struct yokei_parity *p, struct job *jobs, const int *wave, int n_wave,
                                  const struct yokei_parity_result *mine)
{
    struct yokei_parity_result *all = calloc((size_t)p->n_ranks, sizeof *all);
    if (!all) return yoke_fail(YOKE_ENOMEM, "parity: no host memory for %d ranks", p->n_ranks);
    yoke_status status = YOKE_OK;
    if (p->n_ranks == 1)
        *all = *mine;
    else
        status = yoke_all_gather(mine, all, sizeof *mine, YOKE_U8, p->config.control, NULL);
    for (int w = 0; w < n_wave && !status; w++) {
        struct yokei_parity_result *r = &jobs[wave[w]].r;
        const struct yokei_parity_result *first = &all[r->from];
        const int from = r->from;
        *r = *first;
        for (int rank = from; rank < p->n_ranks && all[rank].layout == first->layout && all[rank].from == from
                              && all[rank].precision == first->precision;
             rank++) {
            keep_worse(&r->gradient, &all[rank].gradient);
            keep_worse(&r->against_f32, &all[rank].against_f32);
            keep_worse(&r->loss, &all[rank].loss);
            keep_worse(&r->apart, &all[rank].apart);
        }
    }
    free(all);
    return status;
}

static yoke_status run_wave(struct yokei_parity *p, const struct yokei_parity_list *list, struct job *jobs,
                            const int *wave, int n_wave, int own)
{
    struct yokei_parity_seat *seat;
    struct yokei_parity_result mine;
    yoke_status status = YOKE_OK;
    start_result(&mine, -1, YOKE_F32);
    for (int w = 0; w < n_wave; w++)
        YOKE_TRY(find_seat(p, yokei_parity_n_ranks(&list->item[jobs[wave[w]].r.layout]), jobs[wave[w]].r.from,
                           &seat));
    if (own >= 0) {
        const struct yokei_parity_layout *l = &list->item[jobs[own].r.layout];
        mine = jobs[own].r;
        YOKE_TRY(find_seat(p, yokei_parity_n_ranks(l), mine.from, &seat));
        yokei_ranks_busy(&p->world, l->text);
        status = yokei_parity_judge(p, l, seat->comm, seat->control, &mine);
    }
    YOKE_TRY(yokei_ranks_all_well(&p->world, status));
    return report_results(p, jobs, wave, n_wave, &mine);
}

/* ---- bits ---- */

static bool same_numbers(const int64_t *a, int64_t n_a, const int64_t *b, int64_t n_b)
{
    return n_a == n_b && !memcmp(a, b, (size_t)n_a * sizeof *a);
}

/*
 * Whether two layouts on these devices differ only in schedule and recomputation, or in other options that
 * must not change bits.
 */
static bool same_plan(const struct yokei_parity *p, const struct yokei_parity_layout *a,
                      const struct yokei_parity_layout *b, const struct yokei_parity_result *ra,
                      const struct yokei_parity_result *rb)
{
    const int n = yokei_parity_n_ranks(a);
    bool mixed = false;
    if (a->data != b->data || a->pipeline != b->pipeline || a->sequence_parallel != b->sequence_parallel
        || a->micro_batch != b->micro_batch || ra->precision != rb->precision || a->steps != b->steps)
        return false;
    if (!same_numbers(a->tensor, a->n_tensor, b->tensor, b->n_tensor)
        || !same_numbers(a->shares, a->n_shares, b->shares, b->n_shares)
        || !same_numbers(a->tensor_shares, a->n_tensor_shares, b->tensor_shares, b->n_tensor_shares))
        return false;
    for (int r = 0; r < n; r++) {
        if (strcmp(p->devices[ra->from + r], p->devices[rb->from + r]) != 0) return false;
        mixed = mixed || strcmp(p->devices[ra->from], p->devices[ra->from + r]) != 0;
    }
    /* On different devices it also matters which rank has which layers. */
    return !mixed || (a->chunks == b->chunks && same_numbers(a->layers, a->n_layers, b->layers, b->n_layers));
}

static void compare_bits(const struct yokei_parity *p, const struct yokei_parity_list *list, struct job *jobs,
                         int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i && jobs[i].r.like < 0; k++) {
            struct yokei_parity_result *r = &jobs[i].r;
            const struct yokei_parity_result *before = &jobs[k].r;
            if (r->state != YOKEI_PARITY_RAN || before->state != YOKEI_PARITY_RAN) continue;
            if (!same_plan(p, &list->item[r->layout], &list->item[before->layout], r, before)) continue;
            r->like = k;
            r->same_bits = r->bits == before->bits;
        }
}

bool yokei_parity_passed(const struct yokei_parity_result *r, const struct yokei_parity_result *all,
                         const struct yokei_parity_list *list, char *why, size_t bytes)
{
    const struct {
        const char *gate;
        const struct yokei_parity_worst *worst;
    } gates[] = { { "gate (a), gradients", &r->gradient },
                  { "gate (a), gradients against fp32", &r->against_f32 },
                  { "gate (b), losses", &r->loss } };
    if (r->state == YOKEI_PARITY_LEFT_OUT) return true;
    const char *name = list->item[r->layout].text, *precision = yoke_dtype_name(r->precision);
    for (size_t i = 0; i < YOKE_COUNT(gates); i++)
        if (!(gates[i].worst->ratio <= 1)) {
            yokei_text(why, bytes, "%s in %s: %s: step %d, %s, rank %d: %.3g times what is allowed", name,
                       precision, gates[i].gate, gates[i].worst->step, gates[i].worst->where,
                       gates[i].worst->rank, gates[i].worst->ratio);
            return false;
        }
    if (r->apart.ratio > 0) {
        yokei_text(why, bytes, "%s in %s: after step %d rank %d has not what the others have: %s", name,
                   precision, r->apart.step, r->apart.rank, r->apart.where);
        return false;
    }
    if (!r->same_bits)
        yokei_text(
            why, bytes,
            "%s in %s: the weights have other bits than with %s, which differs in nothing but schedule, recomputation or ZeRO",
            name, precision, list->item[all[r->like].layout].text);
    return r->same_bits;
}

/* ---- the whole run ---- */

static yoke_status meet(struct yokei_parity *p)
{
    char own[64] = "";
    p->devices = calloc((size_t)p->n_ranks, sizeof *p->devices);
    p->tokens = malloc((size_t)(p->config.batch * p->config.sequence) * sizeof *p->tokens);
    p->targets = malloc((size_t)(p->config.batch * p->config.sequence) * sizeof *p->targets);
    if (!p->devices || !p->tokens || !p->targets) return yoke_fail(YOKE_ENOMEM, "parity: no host memory");
    yokei_text(own, sizeof own, "%s", yoke_device_info(p->config.device)->spec);
    if (p->n_ranks > 1)
        YOKE_TRY(yoke_all_gather(own, p->devices, sizeof own, YOKE_U8, p->config.control, NULL));
    else
        memcpy(p->devices[0], own, sizeof own);
    YOKE_TRY(yokei_model_create(yokei_model_of(&p->config.model), &p->model));
    p->n_elements = yoke_model_n_elements(p->model);
    return YOKE_OK;
}

static yoke_status run_all(struct yokei_parity *p, const struct yokei_parity_list *list, struct job *jobs,
                           int n)
{
    bool wanted[YOKE_N_DTYPES] = { false }, *taken = calloc((size_t)p->n_ranks, sizeof *taken);
    int *wave = calloc((size_t)n + 1, sizeof *wave), own, n_done = 0, n_wave;
    yoke_status status = taken && wave ? leave_out(p, list, jobs, n)
                                       : yoke_fail(YOKE_ENOMEM, "parity: no host memory");
    for (int i = 0; i < n; i++) {
        n_done += jobs[i].done;
        wanted[jobs[i].r.precision] = wanted[jobs[i].r.precision] || !jobs[i].done;
        wanted[YOKE_F32] = wanted[YOKE_F32] || !jobs[i].done;
        p->steps = YOKE_MAX(p->steps, list->item[jobs[i].r.layout].steps);
    }
    if (p->config.progress) p->config.progress(p->config.context, n_done, n, "the reference");
    if (!status) status = yokei_parity_reference(p, wanted);
    while (!status && (n_wave = next_wave(p, list, jobs, n, taken, wave, &own)) > 0) {
        char text[YOKEI_PARITY_TEXT + 96];
        yokei_text(text, sizeof text, "%s in %s", list->item[jobs[wave[0]].r.layout].text,
                   yoke_dtype_name(jobs[wave[0]].r.precision));
        if (p->config.progress) p->config.progress(p->config.context, n_done, n, text);
        status = run_wave(p, list, jobs, wave, n_wave, own);
        n_done += n_wave;
    }
    if (!status) compare_bits(p, list, jobs, n);
    free(taken);
    free(wave);
    return status;
}

static yoke_status check_config(const struct yokei_parity_config *c)
{
    if (c->batch < 1 || c->sequence < 1 || c->sequence > yokei_model_longest(yokei_model_of(&c->model), NULL))
        return yoke_fail(
            YOKE_ECONFIG,
            "parity: batch %lld and sequence %lld: both must be at least 1, and the sequence at most the model's %lld positions",
            (long long)c->batch, (long long)c->sequence,
            (long long)yokei_model_longest(yokei_model_of(&c->model), NULL));
    if (c->steps < 1 || c->steps > YOKEI_PARITY_STEPS)
        return yoke_fail(YOKE_ECONFIG, "parity: %lld steps: give 1 to %d; the gates hold so far",
                         (long long)c->steps, YOKEI_PARITY_STEPS);
    return YOKE_OK;
}

yoke_status yokei_parity_run(const struct yokei_parity_config *config, const struct yokei_parity_list *list,
                             struct yokei_parity_result **results_out, int *n_out)
{
    struct yokei_parity p = { .config = *config, .steps = config->steps };
    struct yokei_parity_result *results = NULL;
    struct job *jobs = NULL;
    int n = 0;
    YOKE_TRY(check_config(config));
    p.world.comm = config->comm;
    p.world.control = config->control;
    yokei_ranks(&p.world, &p.rank, &p.n_ranks);
    yoke_status status = meet(&p);
    if (!status) status = list_jobs(config, list, &jobs, &n);
    if (!status) status = run_all(&p, list, jobs, n);
    if (!status && !(results = calloc((size_t)n + 1, sizeof *results)))
        status = yoke_fail(YOKE_ENOMEM, "parity: no host memory for %d results", n);
    for (int i = 0; i < n && !status; i++) results[i] = jobs[i].r;
    status = free_seats(&p, status);
    for (int d = 0; d < YOKE_N_DTYPES; d++) yokei_parity_expected_free(&p.expected[d]);
    if (p.model && !status)
        yoke_model_destroy(p.model); /* after an error a trainer may still use it, and the process ends */
    free(p.devices);
    free(p.tokens);
    free(p.targets);
    free(jobs);
    if (status) {
        free(results);
        return status;
    }
    *results_out = results;
    *n_out = n;
    return YOKE_OK;
}

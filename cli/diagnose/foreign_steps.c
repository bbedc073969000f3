/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank of a foreign job does in a step: the parts of its time, and its work. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/diagnose/foreign.h"
#include "core/base/base.h"

enum { MOST_NAMES = 1 << 14 };

size_t foreign_first(const struct foreign_job *j, int rank, double begin)
{
    size_t low = 0, high = j->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const struct foreign_interval *v = &j->intervals[middle];
        if (v->rank < rank || (v->rank == rank && v->begin < begin - j->longest))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Seconds of the window in which any event of these classes runs. */
static double covered(const struct foreign_job *j, const struct foreign_window *w, int classes)
{
    double until = w->begin, seconds = 0;
    for (size_t i = foreign_first(j, w->rank, w->begin);
         i < j->n && j->intervals[i].rank == w->rank && j->intervals[i].begin < w->end; i++) {
        const struct foreign_interval *v = &j->intervals[i];
        if (!(v->class & classes)) continue;
        const double begin = fmax(v->begin, until), end = fmin(v->end, w->end);
        if (end > begin) seconds += end - begin, until = end;
    }
    return seconds;
}

static void divide_device(const struct foreign_job *j, const struct foreign_window *w,
                          struct yokei_metrics_rank *out)
{
    const int network = FOREIGN_COLLECTIVE | FOREIGN_MESSAGE, device = FOREIGN_KERNEL | network;
    const double busy = covered(j, w, FOREIGN_KERNEL), all = covered(j, w, device),
                 idle = all - covered(j, w, FOREIGN_KERNEL | FOREIGN_COLLECTIVE);
    out->busy_seconds = busy;
    out->exposed_communication_seconds = all - busy;
    out->bubble = idle > 0 ? idle / (idle + busy) : 0;
    out->data_seconds = covered(j, w, device | FOREIGN_DATA) - all;
    out->checkpoint_seconds = covered(j, w, device | FOREIGN_DATA | FOREIGN_SAVE)
                              - covered(j, w, device | FOREIGN_DATA);
}

/* ---- the host ---- */

/* Events that run. The one that began last is what the host does: an operator inside a wait computes. */
struct running {
    struct {
        double end;
        int class;
    } * list;
    size_t n, capacity;
    double at;
    double seconds[5]; /* by `kind` */
};
enum kind { COMPUTE, COLLECTIVE, MESSAGE, DATA, SAVE };

static enum kind kind_of(int class)
{
    switch (class) {
    case FOREIGN_OPERATOR: return COMPUTE;
    case FOREIGN_HOST_MESSAGE: return MESSAGE;
    case FOREIGN_DATA: return DATA;
    case FOREIGN_SAVE: return SAVE;
    default: return COLLECTIVE;
    }
}

static void go_on(struct running *r, double until)
{
    while (r->at < until && r->n) {
        const double end = fmin(r->list[r->n - 1].end, until);
        if (end > r->at) r->seconds[kind_of(r->list[r->n - 1].class)] += end - r->at, r->at = end;
        if (r->list[r->n - 1].end <= r->at) r->n--;
    }
    r->at = fmax(r->at, until);
}

static yoke_status start(struct running *r, const struct foreign_interval *v)
{
    YOKE_TRY(foreign_grow(&r->list, r->n, &r->capacity, sizeof *r->list));
    int class = v->class;
    /* what a loader computes is part of the loading, and what a call does is part of the call */
    if (r->n && (r->list[r->n - 1].class & (FOREIGN_DATA | FOREIGN_SAVE)) && r->list[r->n - 1].end >= v->end)
        class = r->list[r->n - 1].class;
    r->list[r->n].end = v->end;
    r->list[r->n++].class = class;
    return YOKE_OK;
}

static yoke_status divide_host(const struct foreign_job *j, const struct foreign_window *w,
                               struct yokei_metrics_rank *out)
{
    const int all = FOREIGN_OPERATOR | FOREIGN_ON_HOST | FOREIGN_DATA | FOREIGN_SAVE;
    struct running r = { .at = w->begin };
    yoke_status status = YOKE_OK;
    for (size_t i = foreign_first(j, w->rank, w->begin);
         i < j->n && j->intervals[i].rank == w->rank && j->intervals[i].begin < w->end && !status; i++) {
        const struct foreign_interval *v = &j->intervals[i];
        /* collectives in threads of their own run beside the computing */
        if (!(v->class & all) || v->end <= w->begin || ((v->class & FOREIGN_ON_HOST) && v->tid != w->tid))
            continue;
        go_on(&r, fmax(v->begin, w->begin));
        status = start(&r, v);
    }
    if (!status) go_on(&r, w->end);
    free(r.list);
    const double *s = r.seconds, none = s[COMPUTE] + s[DATA] + s[SAVE];
    out->busy_seconds = s[COMPUTE];
    out->data_seconds = s[DATA], out->checkpoint_seconds = s[SAVE];
    out->exposed_communication_seconds = fmax(covered(j, w, all) - none, 0);
    const double idle = fmin(s[MESSAGE], out->exposed_communication_seconds);
    out->bubble = idle > 0 ? idle / (idle + s[COMPUTE]) : 0;
    return status;
}

yoke_status foreign_divide(const struct foreign_job *j, const struct foreign_window *w,
                           struct yokei_metrics_rank *out)
{
    const bool device = j->has_kernels[w->rank];
    *out = (struct yokei_metrics_rank){ .share = NAN, .mfu = NAN };
    yokei_text(out->device, sizeof out->device, "%s", device ? "gpu" : "host");
    if (device)
        divide_device(j, w, out);
    else
        YOKE_TRY(divide_host(j, w, out));
    out->compile_seconds = fmin(covered(j, w, FOREIGN_COMPILE), w->end - w->begin);
    out->processor_seconds = out->queued_seconds = out->preemptions = out->major_faults = NAN;
    return YOKE_OK;
}

/* ---- work ---- */

/* A kernel or operator on one rank. */
struct name_use {
    double n, seconds;
};

static size_t place_of(uint32_t *names, size_t room, uint32_t name)
{
    size_t at = name % room;
    const uint32_t wanted = name ? name : 1;
    for (int tries = 0; tries < 64; tries++, at = (at + 1) % room) {
        if (!names[at]) names[at] = wanted;
        if (names[at] == wanted) return at;
    }
    return room; /* the table is full: the rest is left out on all ranks alike */
}

/*
 * A rank's work is the time that its kernels would take on the fastest rank. Ranks that call the same kernels
 * with the same shapes have the same work, however long they take.
 */
yoke_status foreign_work(const struct foreign_job *j, struct yokei_facts *f)
{
    const size_t n_ranks = (size_t)f->n_ranks, room = n_ranks > 64 ? MOST_NAMES / 8 : MOST_NAMES;
    uint32_t *names = calloc(room, sizeof *names);
    struct name_use *use = calloc(room * n_ranks + 1, sizeof *use);
    if (!names || !use) {
        free(names);
        free(use);
        return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for the names of kernels");
    }
    for (size_t i = 0; i < j->n; i++) {
        const struct foreign_interval *v = &j->intervals[i];
        if (v->rank >= f->n_ranks
            || v->class != (j->has_kernels[v->rank] ? FOREIGN_KERNEL : FOREIGN_OPERATOR))
            continue;
        const size_t at = place_of(names, room, v->name);
        if (at == room) continue;
        use[at * n_ranks + (size_t)v->rank].n++;
        use[at * n_ranks + (size_t)v->rank].seconds += v->end - v->begin;
    }
    for (int r = 0; r < f->n_ranks; r++) f->rank[r].work = 0;
    for (size_t at = 0; at < room; at++) {
        double unit = INFINITY;
        for (size_t r = 0; r < n_ranks; r++) {
            const struct name_use *u = &use[at * n_ranks + r];
            if (u->n > 0) unit = fmin(unit, u->seconds / u->n);
        }
        for (size_t r = 0; r < n_ranks; r++)
            if (use[at * n_ranks + r].n > 0) f->rank[r].work += use[at * n_ranks + r].n * unit;
    }
    for (int r = 0; r < f->n_ranks; r++) {
        double n_steps = 0;
        for (size_t w = 0; w < j->n_windows; w++) n_steps += j->windows[w].rank == r;
        f->rank[r].work = f->rank[r].work > 0 && n_steps > 0 ? f->rank[r].work / n_steps : NAN;
    }
    free(names);
    free(use);
    return YOKE_OK;
}

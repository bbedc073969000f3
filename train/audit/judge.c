/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict on the gradients of an audit. Every rank has the same sums of squares of all ranks, so every
 * rank gives the same verdict. The reference is the replica that is nearest to most of the others. A replica
 * that differs from the reference by more than the gate is named. A mean of all replicas would be worse: one
 * wrong replica moves the mean, and then the right ones differ from it, too.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/parity/gates.h"
#include "train/audit/audit.h"
#include "train/trainer/memory.h"

static const struct yokei_gate_squares *squares_of(const struct yokei_audit *a, int rank, int parameter,
                                                   int e)
{
    const struct yokei_trainer_plan *p = &a->t->plan;
    return &a->all[((int64_t)rank * p->logical.n + parameter) * p->mesh.data + e];
}

/* The sums over the ranks of replica d for a parameter: the difference from replica e, and the norm of e. */
static struct yokei_gate_squares sum_of(const struct yokei_audit *a, int parameter, int d, int e)
{
    const struct yokei_trainer_plan *p = &a->t->plan;
    struct yokei_gate_squares sum = { { 0 }, { 0 } };
    for (int r = 0; r < p->n_ranks; r++) {
        if (yokei_mesh_at(&p->mesh, r).d != d) continue;
        const struct yokei_gate_squares *s = squares_of(a, r, parameter, e);
        for (int part = 0; part < YOKEI_GATE_PARTS; part++) {
            sum.difference[part] += s->difference[part];
            sum.expected[part] += s->expected[part];
        }
    }
    return sum;
}

static bool is_finite(const struct yokei_gate_squares *s)
{
    double sum = 0;
    for (int part = 0; part < YOKEI_GATE_PARTS; part++) sum += s->difference[part] + s->expected[part];
    return isfinite(sum);
}

/*
 * How replica d differs from replica e: the largest ratio of all parameters. False: a number is not finite.
 */
static bool compare(struct yokei_audit *a, int d, int e)
{
    const struct yokei_trainer_plan *p = &a->t->plan;
    const double gate = yokei_gate_gradient(a->t->config.precision, false);
    struct yokei_gate_squares before = { { 0 }, { 0 } };
    double *ratio = &a->ratios[d * p->mesh.data + e];
    bool finite = true;
    *ratio = 0;
    for (int i = 0; i < p->logical.n; i++) {
        const char *name = p->logical.item[i].name;
        const struct yokei_gate_squares plain = sum_of(a, i, d, e);
        struct yokei_gate_squares s = plain;
        finite = finite && is_finite(&s);
        yokei_gate_lean(name, before.expected[0], &s);
        const double off = yokei_gate_ratio(name, &s, a->t->config.precision, gate);
        before = plain;
        if (!(off > *ratio)) continue;
        *ratio = off;
        a->worst[d * p->mesh.data + e] = i;
    }
    return finite;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The replica whose median ratio to the others is the smallest. `sorted` has room for all replicas. */
static int nearest(const struct yokei_audit *a, double *sorted)
{
    const int n = a->t->plan.mesh.data;
    double least = INFINITY;
    int best = 0;
    for (int d = 0; d < n; d++) {
        int k = 0;
        for (int e = 0; e < n; e++)
            if (e != d) sorted[k++] = a->ratios[d * n + e];
        qsort(sorted, (size_t)k, sizeof *sorted, by_value);
        if (!(sorted[(k - 1) / 2] < least)) continue;
        least = sorted[(k - 1) / 2];
        best = d;
    }
    return best;
}

/* "replica 1 (rank 1 on host)". With several ranks, the one whose gradient differs most stands first. */
static void name_replica(const struct yokei_audit *a, int d, int e, int parameter, char *text, size_t bytes)
{
    const struct yokei_trainer_plan *p = &a->t->plan;
    const int n = yokei_mesh_replica(&p->mesh);
    double worst = -1;
    int first = 0;
    for (int r = 0; r < p->n_ranks; r++) {
        if (yokei_mesh_at(&p->mesh, r).d != d) continue;
        const struct yokei_gate_squares *s = squares_of(a, r, parameter, e);
        double sum = 0;
        for (int part = 0; part < YOKEI_GATE_PARTS; part++) sum += s->difference[part];
        if (!isfinite(sum)) sum = INFINITY;
        if (!(sum > worst)) continue;
        worst = sum;
        first = r;
    }
    yokei_text(text, bytes, "replica %d (%srank %d on %s", d, n > 1 ? "most " : "", first,
               a->t->memory[first].device);
    for (int r = 0; r < p->n_ranks; r++) {
        const size_t at = strlen(text);
        if (r == first || yokei_mesh_at(&p->mesh, r).d != d || at + 48 > bytes) continue;
        yokei_text(text + at, bytes - at, ", also rank %d on %s", r, a->t->memory[r].device);
    }
    yokei_text(text + strlen(text), bytes - strlen(text), ")");
}

/*
 * Without a majority, let each rank repeat the micro-batch on the host, if a replica is one rank. The text
 * says how far each rank is from that, and which ranks are beyond the gate.
 */
static yoke_status ask_hosts(struct yokei_audit *a, char *text, size_t bytes)
{
    const struct yokei_trainer_plan *p = &a->t->plan;
    yokei_text(text, bytes, "no majority shows which is right");
    if (p->n_ranks != p->mesh.data) return YOKE_OK;
    const double mine = yokei_audit_replay(a);
    YOKE_TRY(yokei_ranks_gather(&a->t->config, &mine, 1, a->ratios));
    char beyond[128] = "";
    int n = 0;
    for (int r = 0; r < p->n_ranks; r++) {
        if (isnan(a->ratios[r])) return YOKE_OK;
        if (a->ratios[r] <= 1) continue;
        if (strlen(beyond) + 64 < sizeof beyond)
            yokei_text(beyond + strlen(beyond), sizeof beyond - strlen(beyond), "%srank %d (%.3g times)",
                       n ? ", " : "", r, a->ratios[r]);
        n++;
    }
    if (n)
        yokei_text(text, bytes, "repeated on the host by each rank, %s differs from the host's gradients",
                   beyond);
    else
        yokei_text(text, bytes, "repeated on the host by each rank, each agrees with its own repetition");
    return YOKE_OK;
}

static yoke_status differ(struct yokei_audit *a, int reference, int n_differ)
{
    const int n = a->t->plan.mesh.data;
    const bool is_clear = 2 * n_differ < n;
    char who[256] = "", one[160], hosts[256] = "";
    int worst = 0;
    double ratio = -1;
    for (int d = 0; d < n; d++) {
        const int e = d == reference ? (reference + 1) % n : reference;
        if (d != reference && a->ratios[d * n + e] > ratio) ratio = a->ratios[d * n + e], worst = d;
        if (is_clear && !a->differs[d]) continue;
        name_replica(a, d, e, a->worst[d * n + e], one, sizeof one);
        if (strlen(who) + strlen(one) + 3 < sizeof who)
            yokei_text(who + strlen(who), sizeof who - strlen(who), "%s%s", *who ? ", " : "", one);
    }
    const char *name = a->t->plan.logical.item[a->worst[worst * n + reference]].name,
               *precision = yoke_dtype_name(a->t->config.precision);
    if (is_clear)
        return yokei_ranks_share(yoke_fail(
            YOKE_ENUMERIC,
            "audit after step %lld: from the same tokens and weights %s computes other gradients than the other "
            "replicas, by %.3g times what %s allows, most in %s",
            (long long)a->t->step, who, ratio, precision, name));
    YOKE_TRY(ask_hosts(a, hosts, sizeof hosts));
    return yokei_ranks_share(yoke_fail(
        YOKE_ENUMERIC,
        "audit after step %lld: from the same tokens and weights these replicas compute different gradients: "
        "%s; they differ by %.3g times what %s allows, most in %s; %s",
        (long long)a->t->step, who, ratio, precision, name, hosts));
}

yoke_status yokei_audit_judge(struct yokei_audit *a, double *ratio_out)
{
    const int n = a->t->plan.mesh.data;
    bool finite = true;
    int n_differ = 0;
    for (int d = 0; d < n; d++)
        for (int e = 0; e < n; e++)
            if (d != e) finite = compare(a, d, e) && finite;
    *ratio_out = NAN;
    /* an overflow in f16 depends on the last bit; the training step itself finds it, and lowers the scale */
    if (!finite && a->t->loss_scale.dynamic) return YOKE_OK;
    const int reference = nearest(a, a->ratios + n * n);
    *ratio_out = 0;
    for (int d = 0; d < n; d++) {
        a->differs[d] = d != reference && a->ratios[d * n + reference] > 1;
        n_differ += a->differs[d];
        if (d != reference) *ratio_out = fmax(*ratio_out, a->ratios[d * n + reference]);
    }
    return n_differ ? differ(a, reference, n_differ) : YOKE_OK;
}

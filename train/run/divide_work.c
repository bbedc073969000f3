/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divide the work among ranks, as the plan says or by the speed of each device on the model's own layers.
 * Micro-batches follow from shares, but speeds are measured with some micro-batch. Therefore the order is:
 *   1. micro-batches as if shares were equal, with which every device is measured;
 *   2. tensor shares;
 *   3. blocks of each stage;
 *   4. the replicas that work and their shares, by the slowest rank of each replica;
 *   5. micro-batches from these shares.
 * A given value (--tensor-shares, --layers, --shares) replaces its step. If a replica is left out, the other
 * replicas are measured again without it.
 */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/run/division.h"
#include "train/trainer/trainer.h"

/* ---- given values ---- */

/* A replay of a plan needs the plan's number of ranks and the plan's devices. */
static yoke_status check_size(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    if (!p->n_ranks || p->n_ranks == s->n_ranks) return YOKE_OK;
    return yoke_fail(YOKE_ECONFIG, "%s is for %lld ranks, but there are %d: start it with yoke run -n %lld",
                     s->t->replay ? s->t->plan_path : "shares", (long long)p->n_ranks, s->n_ranks,
                     (long long)p->n_ranks);
}

static yoke_status check_devices(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    for (int r = 0; r < s->n_ranks; r++)
        if (s->t->replay && p->ranks[r].device[0] && strcmp(p->ranks[r].device, s->ranks[r].device) != 0)
            return yoke_fail(YOKE_ECONFIG,
                             "%s has rank %d on %s, but it is on %s: give --devices in the plan's order",
                             s->t->plan_path, r, p->ranks[r].device, s->ranks[r].device);
    return YOKE_OK;
}

/*
 * A resumed run may have other ranks or devices than the checkpoint's run. Choices that were made for the
 * checkpoint's ranks do not fit then.
 */
static bool fits(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    bool same = p->n_ranks == s->n_ranks;
    for (int r = 0; r < s->n_ranks && same; r++)
        same = !p->ranks[r].device[0] || strcmp(p->ranks[r].device, s->ranks[r].device) == 0;
    return same;
}

static void forget_ranks(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    yokei_run_note(s, "the checkpoint is of other devices: shares are chosen anew, and bits will differ");
    yokei_plan_forget_ranks(p);
    p->layers[0] = p->tensor_shares[0] = p->zero_shares[0] = 0;
}

/* Divide the batch among the replicas as equally as possible. */
static void deal_equally(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    for (int r = 0; r < s->n_ranks; r++) {
        const int d = yokei_mesh_at(&s->mesh, r).d;
        struct yokei_plan_rank *rank = &p->ranks[s->placed[r]];
        s->shares[r] = rank->samples = p->batch / s->mesh.data + (d < p->batch % s->mesh.data);
        rank->share = 1.0 / s->mesh.data;
        rank->micro_batch = s->shares[r] ? yokei_mesh_micro_batch(&s->mesh, s->shares[r], s->t->micro_batch)
                                         : 0;
    }
}

/* Fill in the plan's entries for all ranks of the job, in the order in which they are placed. */
static yoke_status list_ranks(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    const bool known = p->n_ranks > 0;
    if (!known) p->ranks = calloc((size_t)s->n_ranks, sizeof *p->ranks);
    if (!p->ranks) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    p->n_ranks = s->n_ranks;
    for (int r = 0; r < s->n_ranks; r++) {
        struct yokei_plan_rank *rank = &p->ranks[r];
        if ((s->t->replay || s->t->resume) && known && rank->threads && rank->threads != s->threads[r])
            yokei_run_note(s, "rank %d has %lld host threads, the plan's run had %lld: bits may differ", r,
                           (long long)s->threads[r], (long long)rank->threads);
        rank->threads = s->threads[r];
        rank->job_rank = s->job.rank_of[r];
        yokei_text(rank->device, sizeof rank->device, "%s", s->ranks[r].device);
        s->shares[r] = rank->samples;
    }
    return YOKE_OK;
}

static yoke_status choose_what_is_open(struct yokei_run_state *s, bool shares_are_given,
                                       bool shares_stay_equal)
{
    const struct yokei_plan *p = &s->t->plan;
    const struct yokei_given given = { .layers = p->layers[0] != 0,
                                       .tensor_shares = p->tensor_shares[0] != 0,
                                       .shares = shares_are_given || shares_stay_equal };
    bool left_out;
    if (!shares_are_given) deal_equally(s);
    /* some ranks have no sequences from the start: the user gave these shares, or there are more replicas
     * than sequences */
    YOKE_TRY(yokei_run_leave_out(s, &left_out));
    left_out = true;
    for (int turn = 0; left_out && s->rank >= 0; turn++) {
        const bool is_open = s->n_ranks > 1 && strcmp(p->balance, "equal") != 0
                             && yokei_run_is_open(s, &given);
        if (is_open && s->emulated_rank >= 0) {
            if (!turn)
                yokei_run_note(
                    s,
                    "rank %d has an emulated device, whose times say nothing about a GPU: no device is "
                    "measured, and the ranks get equal parts (--shares, --layers and --tensor-shares "
                    "choose other parts)",
                    s->emulated_rank);
        } else if (is_open) {
            yokei_run_note(
                s,
                turn
                    ? "measuring again without what is left out"
                    : "measuring each device on the model's own layers (kernels are compiled on the first start)");
            yokei_run_busy(s, "measuring each device");
            const yoke_status status = yokei_run_choose(s, &given);
            yokei_run_busy(s, "");
            /* If all ranks have heard that memory is missing, the trainer reports which memory it is and
               what would help. If this rank alone has too little, the others must hear of it. */
            if (status == YOKE_ENOMEM && yokei_ranks_alike()) {
                yokei_run_note(s, "memory is too small to measure the devices, so their speeds do not count");
                if (!given.shares) deal_equally(s);
            } else if (status) {
                const struct yoke_trainer_config ranks = { .comm = s->comm, .control = s->control };
                return status == YOKE_ENOMEM ? yokei_ranks_revoke(&ranks, status) : status;
            }
        }
        YOKE_TRY(yokei_run_leave_out(s, &left_out));
    }
    return YOKE_OK;
}

/*
 * Read the slices of the optimizer's states, one for each replica that works. If replicas are left out, the
 * list may also have one slice for each of all replicas. Then the slices of the replicas that work are used.
 */
static yoke_status read_zero(struct yokei_run_state *s, const struct yokei_mesh *all)
{
    const struct yokei_plan *p = &s->t->plan;
    int64_t *given;
    const yoke_status status = yokei_plan_numbers("--zero-shares", p->zero_shares, s->mesh.data,
                                                  &s->zero_shares);
    if (!status || all->data == s->mesh.data) return status;
    YOKE_TRY(yokei_plan_numbers("--zero-shares", p->zero_shares, all->data, &given));
    s->zero_shares = calloc((size_t)s->mesh.data, sizeof *given);
    for (int d = 0, n = 0; d < all->data && s->zero_shares; d++)
        if (p->ranks[yokei_mesh_rank(all, d, 0, 0)].samples) s->zero_shares[n++] = given[d];
    free(given);
    return s->zero_shares ? YOKE_OK
                          : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d replicas", s->mesh.data);
}

/* No rank may work on a device that --devices auto left out. */
static yoke_status check_left_out(const struct yokei_run_state *s)
{
    for (int r = 0; r < s->n_ranks; r++)
        if (s->shares[r])
            YOKE_TRY(yokei_plan_check_device(&s->t->plan, s->job.rank_of[s->placed[r]], s->ranks[r].device,
                                             s->t->replay ? s->t->plan_path : "the division of the work"));
    return YOKE_OK;
}

static yoke_status note_replicas(struct yokei_run_state *s)
{
    s->replica_shares = calloc((size_t)s->mesh.data, sizeof *s->replica_shares);
    if (!s->replica_shares)
        return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d replicas", s->mesh.data);
    for (int r = 0; r < s->n_ranks; r++) {
        s->replica_shares[yokei_mesh_at(&s->mesh, r).d] = s->shares[r];
        s->ranks[r].share = (double)s->shares[r] / (double)s->t->plan.batch;
    }
    return YOKE_OK;
}

yoke_status yokei_run_divide(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    YOKE_TRY(check_size(s));
    YOKE_TRY(yokei_run_place(s));
    if (s->t->resume && p->n_ranks && !fits(s)) forget_ranks(s);
    if (p->n_ranks) YOKE_TRY(check_devices(s));
    const bool is_fixed = p->n_ranks && (s->t->replay || s->t->resume), shares_are_given = p->n_ranks > 0;
    /*
     * The user's schedule has the same number of micro-batches for all replicas. An interleaved schedule
     * needs a multiple of the stages.
     */
    const bool shares_are_fixed = p->schedule_text != NULL || s->mesh.chunks > 1;
    const struct yokei_mesh all = s->mesh;
    bool left_out;
    YOKE_TRY(list_ranks(s));
    YOKE_TRY(yokei_run_read_cuts(s));
    if (is_fixed)
        YOKE_TRY(yokei_run_leave_out(s, &left_out));
    else
        YOKE_TRY(choose_what_is_open(s, shares_are_given, shares_are_fixed));
    if (s->rank < 0) return YOKE_OK;
    YOKE_TRY(yokei_run_read_cuts(s));
    YOKE_TRY(check_left_out(s));
    YOKE_TRY(read_zero(s, &all));
    return note_replicas(s);
}

yoke_status yokei_run_divide_planned(struct yokei_run_state *s)
{
    const bool shares_are_given = s->t->plan.n_ranks > 0;
    YOKE_TRY(check_size(s));
    YOKE_TRY(yokei_run_lay_mesh(s));
    YOKE_TRY(list_ranks(s));
    YOKE_TRY(yokei_run_read_cuts(s));
    YOKE_TRY(read_zero(s, &s->mesh));
    if (!shares_are_given) deal_equally(s);
    return note_replicas(s);
}

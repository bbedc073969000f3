/* SPDX-License-Identifier: Apache-2.0 */
/* Write a run's division of optimizer states into its plan. */
#include <string.h>
#include "core/base/base.h"
#include "train/run/loop.h"
#include "train/trainer/trainer.h"

yoke_status yokei_run_write_zero(struct yokei_plan *p, const int64_t *shares, int n)
{
    const bool equal = yokei_all_equal(shares, n);
    size_t at = 0;
    p->zero_shares[0] = 0;
    for (int d = 0; d < n && at < sizeof p->zero_shares; d++) {
        char one[32];
        yokei_text(one, sizeof one, "%s%lld", d ? ":" : "", (long long)(equal ? 1 : shares[d]));
        if (at + strlen(one) < sizeof p->zero_shares)
            yokei_text(p->zero_shares + at, sizeof p->zero_shares - at, "%s", one);
        at += strlen(one);
    }
    if (at < sizeof p->zero_shares) return YOKE_OK;
    p->zero_shares[0] = 0; /* equal shares need not be written */
    return equal
               ? YOKE_OK
               : yoke_fail(
                   YOKE_ECONFIG,
                   "the shares of %d replicas of the optimizer states do not fit a plan: give shorter ones with --zero-shares",
                   n);
}

yoke_status yokei_run_note_zero(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    const int64_t *shares = s->trainer->plan.zero_shares;
    if (p->zero && s->mesh.data == 1)
        yokei_run_note(s, "--zero 1: there is one replica, so nothing is divided");
    if (!p->zero || s->mesh.data == 1) return YOKE_OK;
    YOKE_TRY(yokei_run_write_zero(p, shares, s->mesh.data));
    if (!s->zero_shares && !yokei_all_equal(shares, s->mesh.data))
        yokei_run_note(s, "optimizer states are divided %s, by the memory that is free beside the rest",
                       p->zero_shares);
    return YOKE_OK;
}

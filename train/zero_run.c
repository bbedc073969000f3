/* SPDX-License-Identifier: Apache-2.0 */
/* A run's division of optimizer states, into its plan. */
#include <string.h>
#include "core/base/base.h"
#include "train/loop.h"
#include "train/trainer.h"

/* Equal shares of any number of replicas fit the plan as none at all; what was chosen by memory must be written down. */
yoke_status yokei_run_note_zero(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    const struct yokei_trainer_plan *made = &s->trainer->plan;
    bool equal = true;
    size_t at = 0;
    char text[sizeof p->zero_shares] = "";
    if (p->zero && s->mesh.data == 1) yokei_run_note(s, "--zero 1: there is one replica, so nothing is divided");
    if (!p->zero || s->mesh.data == 1) return YOKE_OK;
    for (int d = 0; d < s->mesh.data; d++) equal = equal && made->zero_shares[d] == made->zero_shares[0];
    for (int d = 0; d < s->mesh.data; d++) {
        char one[32];
        yokei_text(one, sizeof one, "%s%lld", d ? ":" : "", (long long)(equal ? 1 : made->zero_shares[d]));
        if (at + strlen(one) >= sizeof text) {
            at = sizeof text;
            break;
        }
        yokei_text(text + at, sizeof text - at, "%s", one);
        at += strlen(one);
    }
    if (at == sizeof text && !equal)
        return yoke_fail(YOKE_ECONFIG, "the shares of %d replicas of the optimizer states do not fit a plan: give shorter ones with --zero-shares", s->mesh.data);
    yokei_text(p->zero_shares, sizeof p->zero_shares, "%s", at == sizeof text ? "" : text);
    if (!equal && !s->zero_shares) yokei_run_note(s, "optimizer states are divided %s, by the memory that is free beside the rest", text);
    return YOKE_OK;
}

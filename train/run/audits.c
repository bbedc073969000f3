/* SPDX-License-Identifier: Apache-2.0 */
/* Audits of a run (train/audit/audit.h): when they are due, and the samples of the common micro-batch. */
#include <math.h>
#include "core/base/base.h"
#include "train/run/loop.h"

yoke_status yokei_run_check_audit(const struct yokei_run_state *s)
{
    if (!s->t->audit_every || s->mesh.data > 1) return YOKE_OK;
    return yoke_fail(
        YOKE_ECONFIG,
        "--audit %lld compares replicas, and this run has one: give it more ranks (--dp), or leave "
        "--audit out",
        (long long)s->t->audit_every);
}

yoke_status yokei_run_begin_audit(struct yokei_run_state *s)
{
    return s->t->audit_every ? yokei_audit_create(s->trainer, &s->audit) : YOKE_OK;
}

/* All ranks read the same samples: the first ones of the next step. */
yoke_status yokei_run_audit(struct yokei_run_state *s, int64_t step)
{
    const struct yokei_plan *p = &s->t->plan;
    int32_t *tokens, *targets;
    if (!s->audit || step % s->t->audit_every) return YOKE_OK;
    const int64_t n = yokei_audit_batch(s->audit, &tokens, &targets), T = p->sequence;
    for (int64_t i = 0; i < n; i++)
        YOKE_TRY(yokei_tokens_sample(s->tokens, p->seed, yokei_skips_nth(&s->skips, s->next_sample, i), T,
                                     tokens + i * T, targets + i * T));
    return yokei_audit_run(s->audit, &s->audited);
}

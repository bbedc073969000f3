/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic loss scaling (Micikevicius et al. 2018, arXiv:1710.03740, section 3.2), with PyTorch's constants.
 */
#include "train/trainer/trainer.h"

enum { MOST_SKIPPED = 20 };

void yokei_loss_scale_init(struct yokei_loss_scale *s, yoke_dtype precision, double first, int64_t interval)
{
    bool dynamic = precision == YOKE_F16;
    *s = (struct yokei_loss_scale){ .scale = first > 0 ? first
                                             : dynamic ? 65536.0
                                                       : 1.0,
                                    .dynamic = dynamic,
                                    .first = first > 0 ? first : 0,
                                    .interval = interval > 0 ? interval : 2000 };
}

yoke_status yokei_loss_scale_update(struct yokei_loss_scale *s, bool overflow, int64_t step)
{
    if (!overflow) {
        s->skipped = 0;
        s->any_good = true;
        if (s->dynamic && ++s->good_steps >= s->interval) {
            s->scale *= 2;
            s->good_steps = 0;
        }
        return YOKE_OK;
    }
    s->good_steps = 0;
    if (s->dynamic) s->scale *= 0.5;
    if (++s->skipped < MOST_SKIPPED) return YOKE_OK;
    /*
     * The likely cause is an initial scale that is too large: it was given, no step has succeeded with it,
     * and it can still be lowered.
     */
    if (s->first > 1 && !s->any_good && s->scale > 1)
        return yoke_fail(
            YOKE_ENUMERIC,
            "step %lld: gradients were not finite in %d steps in a row, with a loss scale of %g%s: give a lower --loss-scale than %g "
            "(usual: 65536 in fp16, 1 in bf16 and fp32)",
            (long long)step, s->skipped, s->scale, s->dynamic ? " in the last one" : "", s->first);
    if (s->dynamic)
        return yoke_fail(
            YOKE_ENUMERIC,
            "step %lld: gradients were not finite in %d steps in a row, down to a loss scale of %g: lower the learning rate, or use bf16 or f32",
            (long long)step, s->skipped, s->scale);
    return yoke_fail(YOKE_ENUMERIC,
                     "step %lld: gradients were not finite in %d steps in a row: lower the learning rate",
                     (long long)step, s->skipped);
}

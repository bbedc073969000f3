/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the configuration of a GPT-2 is valid. The layers and the models check it. */
#include <math.h>

#include <yoke/train.h>

#include "core/base/base.h"

yoke_status yoke_gpt2_check(const struct yoke_gpt2_config *c)
{
    if (!c) return yoke_fail(YOKE_EINVAL, "yoke_gpt2_check: config is null");
    if (c->size != sizeof *c)
        return yoke_fail(YOKE_EINVAL, "yoke_gpt2_check: size is %zu, not %zu: use YOKE_GPT2_CONFIG_INIT",
                         c->size, sizeof *c);
    const struct {
        const char *name;
        int64_t value, most;
    } counts[] = { { "n_layer", c->n_layer, 10000 },
                   { "n_head", c->n_head, 65536 },
                   { "n_embd", c->n_embd, 1 << 20 },
                   { "n_positions", c->n_positions, 1 << 24 },
                   { "vocab_size", c->vocab_size, 1 << 24 } };
    for (size_t i = 0; i < YOKE_COUNT(counts); i++)
        if (counts[i].value < 1 || counts[i].value > counts[i].most)
            return yoke_fail(YOKE_ECONFIG, "%s is %lld; it must lie in 1..%lld", counts[i].name,
                             (long long)counts[i].value, (long long)counts[i].most);
    if (c->n_embd % c->n_head != 0)
        return yoke_fail(
            YOKE_ECONFIG,
            "n_embd %lld is not a multiple of n_head %lld: every head has n_embd / n_head channels",
            (long long)c->n_embd, (long long)c->n_head);
    if (!(c->layer_norm_epsilon > 0) || !(c->initializer_range >= 0) || !isfinite(c->initializer_range))
        return yoke_fail(YOKE_ECONFIG,
                         "layer_norm_epsilon %g must be positive and initializer_range %g not negative",
                         c->layer_norm_epsilon, c->initializer_range);
    const struct {
        const char *name;
        double p;
    } drops[] = { { "attn_pdrop", c->attn_pdrop },
                  { "resid_pdrop", c->resid_pdrop },
                  { "embd_pdrop", c->embd_pdrop } };
    for (size_t i = 0; i < YOKE_COUNT(drops); i++)
        if (!(drops[i].p >= 0 && drops[i].p < 1))
            return yoke_fail(YOKE_ECONFIG, "%s is %g; a probability of dropout lies in [0, 1)", drops[i].name,
                             drops[i].p);
    return YOKE_OK;
}

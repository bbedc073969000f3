/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the configuration of a Llama is valid. The layers and the models check it. */
#include <math.h>

#include <yoke/train.h>

#include "core/base/base.h"
#include "train/layers/layers.h"

yoke_status yoke_llama_check(const struct yoke_llama_config *c)
{
    if (!c) return yoke_fail(YOKE_EINVAL, "yoke_llama_check: config is null");
    if (c->size != sizeof *c)
        return yoke_fail(YOKE_EINVAL, "yoke_llama_check: size is %zu, not %zu: use YOKE_LLAMA_CONFIG_INIT",
                         c->size, sizeof *c);
    const struct {
        const char *name;
        int64_t value, least, most;
    } counts[] = { { "hidden_size", c->hidden_size, 1, 1 << 20 },
                   { "intermediate_size", c->intermediate_size, 1, 1 << 24 },
                   { "num_hidden_layers", c->num_hidden_layers, 1, 10000 },
                   { "num_attention_heads", c->num_attention_heads, 1, 65536 },
                   { "num_key_value_heads", c->num_key_value_heads, 1, 65536 },
                   { "head_dim", c->head_dim, 0, 65536 },
                   { "vocab_size", c->vocab_size, 1, 1 << 24 },
                   { "max_position_embeddings", c->max_position_embeddings, 1, 1 << 24 },
                   { "sliding_window", c->sliding_window, 0, 1 << 24 } };
    for (size_t i = 0; i < YOKE_COUNT(counts); i++)
        if (counts[i].value < counts[i].least || counts[i].value > counts[i].most)
            return yoke_fail(YOKE_ECONFIG, "%s is %lld; it must lie in %lld..%lld", counts[i].name,
                             (long long)counts[i].value, (long long)counts[i].least,
                             (long long)counts[i].most);
    if (!c->head_dim && c->hidden_size % c->num_attention_heads)
        return yoke_fail(
            YOKE_ECONFIG,
            "hidden_size %lld is not a multiple of num_attention_heads %lld: give head_dim, or make it one",
            (long long)c->hidden_size, (long long)c->num_attention_heads);
    if (c->num_attention_heads % c->num_key_value_heads)
        return yoke_fail(
            YOKE_ECONFIG,
            "num_attention_heads %lld is not a multiple of num_key_value_heads %lld: equally many heads share a K/V head",
            (long long)c->num_attention_heads, (long long)c->num_key_value_heads);
    const int64_t D = yokei_llama_head_dim(c);
    if (D % 2)
        return yoke_fail(
            YOKE_ECONFIG,
            "a head has %lld channels; rotary embedding turns pairs of them: make it an even number",
            (long long)D);
    if (!(c->rms_norm_eps > 0) || !(c->initializer_range >= 0) || !isfinite(c->initializer_range))
        return yoke_fail(YOKE_ECONFIG,
                         "rms_norm_eps %g must be positive and initializer_range %g not negative",
                         c->rms_norm_eps, c->initializer_range);
    if (!(c->rope_theta > 1) || c->rope_theta > 1e18)
        return yoke_fail(YOKE_ECONFIG, "rope_theta is %g; a number above 1 such as 10000 is expected",
                         c->rope_theta);
    if (!(c->attention_dropout >= 0 && c->attention_dropout < 1))
        return yoke_fail(YOKE_ECONFIG, "attention_dropout is %g; a probability of dropout lies in [0, 1)",
                         c->attention_dropout);
    return YOKE_OK;
}

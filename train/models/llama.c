/* SPDX-License-Identifier: Apache-2.0 */
/* Llama as a list of layers, and its named sizes. */
#include <math.h>
#include <string.h>
#include "core/base/base.h"
#include "train/layers/layers.h"
#include "train/models/model.h"

static const struct {
    const char *name;
    int64_t layers, heads, kv_heads, hidden, intermediate, positions, vocabulary;
    double initializer_range;
} presets[] = {
    { "llama-nano", 2, 4, 2, 64, 176, 64, 256, 0.02 },
    { "llama-micro", 4, 8, 4, 256, 688, 64, 256, 0.04 }, /* with the same considerations as GPT-2's micro */
};

yoke_status yoke_llama_preset(const char *name, struct yoke_llama_config *config_out)
{
    if (!name || !config_out) return yoke_fail(YOKE_EINVAL, "yoke_llama_preset: a pointer is null");
    for (size_t i = 0; i < YOKE_COUNT(presets); i++) {
        if (strcmp(presets[i].name, name) != 0) continue;
        struct yoke_llama_config c = YOKE_LLAMA_CONFIG_INIT;
        c.num_hidden_layers = presets[i].layers;
        c.num_attention_heads = presets[i].heads;
        c.num_key_value_heads = presets[i].kv_heads;
        c.hidden_size = presets[i].hidden;
        c.intermediate_size = presets[i].intermediate;
        c.max_position_embeddings = presets[i].positions;
        c.vocab_size = presets[i].vocabulary;
        c.initializer_range = presets[i].initializer_range;
        *config_out = c;
        return YOKE_OK;
    }
    return yoke_fail(
        YOKE_ECONFIG,
        "no Llama is called \"%s\": there are llama-nano and llama-micro; or give the path of a config.json",
        name);
}

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
                   { "max_position_embeddings", c->max_position_embeddings, 1, 1 << 24 } };
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
    const int64_t D = c->head_dim ? c->head_dim : c->hidden_size / c->num_attention_heads;
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

static yoke_status add_layers(yoke_model *model, const struct yoke_llama_config *config)
{
    const int64_t C = config->hidden_size;
    char name[64];
    YOKE_TRY(yoke_model_add(model, &yoke_layer_llama_embedding, "model.embed_tokens", 0, C, config));
    for (int64_t l = 0; l < config->num_hidden_layers; l++) {
        yokei_text(name, sizeof name, "model.layers.%lld.self_attn", (long long)l);
        YOKE_TRY(yoke_model_add(model, &yoke_layer_llama_attention, name, C, C, config));
        yokei_text(name, sizeof name, "model.layers.%lld.mlp", (long long)l);
        YOKE_TRY(yoke_model_add(model, &yoke_layer_llama_mlp, name, C, C, config));
    }
    YOKE_TRY(yoke_model_add(model, &yoke_layer_llama_norm, "model.norm", C, C, config));
    return yoke_model_add(model, &yoke_layer_llama_head, "lm_head", C, config->vocab_size, config);
}

yoke_status yoke_model_llama(const struct yoke_llama_config *config, yoke_model **model_out)
{
    yoke_model *model = NULL;
    if (!model_out) return yoke_fail(YOKE_EINVAL, "yoke_model_llama: model_out is null");
    YOKE_TRY(yoke_llama_check(config));
    YOKE_TRY(yoke_model_create(&model));
    const yoke_status status = add_layers(model, config);
    if (status) {
        yoke_model_destroy(model);
        return status;
    }
    model->before = 1;
    model->per_block = 2;
    model->after = 2;
    *model_out = model;
    return YOKE_OK;
}

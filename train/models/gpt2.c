/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2 as a list of layers, and its named sizes. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "core/base/base.h"
#include "train/layers/layers.h"
#include "train/models/model.h"

static const struct {
    const char *name;
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
    double initializer_range;
} presets[] = {
    { "nano", 2, 4, 64, 64, 256, 0.02 },
    /*
     * This size is for training runs of a few minutes. With sequences of 64 bytes, attention begins to help
     * after a fifth of the tokens that it needs with 128 bytes. The initializer range 0.04 suits 256 channels
     * better than 0.02, which was chosen for 768 and more channels.
     */
    { "micro", 4, 8, 256, 64, 256, 0.04 },
    { "124m", 12, 12, 768, 1024, 50257, 0.02 },
};

yoke_status yoke_gpt2_preset(const char *name, struct yoke_gpt2_config *config_out)
{
    if (!name || !config_out) return yoke_fail(YOKE_EINVAL, "yoke_gpt2_preset: a pointer is null");
    for (size_t i = 0; i < YOKE_COUNT(presets); i++) {
        if (strcmp(presets[i].name, name) != 0) continue;
        struct yoke_gpt2_config c = YOKE_GPT2_CONFIG_INIT;
        c.n_layer = presets[i].n_layer;
        c.n_head = presets[i].n_head;
        c.n_embd = presets[i].n_embd;
        c.n_positions = presets[i].n_positions;
        c.vocab_size = presets[i].vocab_size;
        c.initializer_range = presets[i].initializer_range;
        *config_out = c;
        return YOKE_OK;
    }
    return yoke_fail(
        YOKE_ECONFIG,
        "no model is called \"%s\": there are nano, micro and 124m, llama-nano and llama-micro; or give the path of a config.json",
        name);
}

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

yoke_status yoke_model_gpt2(const struct yoke_gpt2_config *config, yoke_model **model_out)
{
    yoke_status status = YOKE_OK;
    yoke_model *model = NULL;
    if (!model_out) return yoke_fail(YOKE_EINVAL, "yoke_model_gpt2: model_out is null");
    YOKE_TRY(yoke_gpt2_check(config));
    int64_t C = config->n_embd;
    char name[64];
    YOKE_TRY(yoke_model_create(&model));
    YOKE_TRY_GOTO(yoke_model_add(model, &yoke_layer_gpt2_embedding, "embedding", 0, C, config),
                  destroy_model);
    for (int64_t l = 0; l < config->n_layer; l++) {
        yokei_text(name, sizeof name, "h.%lld.attn", (long long)l);
        YOKE_TRY_GOTO(yoke_model_add(model, &yoke_layer_gpt2_attention, name, C, C, config), destroy_model);
        yokei_text(name, sizeof name, "h.%lld.mlp", (long long)l);
        YOKE_TRY_GOTO(yoke_model_add(model, &yoke_layer_gpt2_mlp, name, C, C, config), destroy_model);
    }
    YOKE_TRY_GOTO(yoke_model_add(model, &yoke_layer_gpt2_norm, "ln_f", C, C, config), destroy_model);
    YOKE_TRY_GOTO(yoke_model_add(model, &yoke_layer_gpt2_head, "head", C, config->vocab_size, config),
                  destroy_model);
    model->before = 1;
    model->per_block = 2;
    model->after = 2;
    *model_out = model;
    return YOKE_OK;
destroy_model:
    yoke_model_destroy(model);
    return status;
}

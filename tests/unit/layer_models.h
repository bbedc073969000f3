/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of YOKE_LAYERS, and small models that contain them. */
#ifndef TESTS_UNIT_LAYER_MODELS_H
#define TESTS_UNIT_LAYER_MODELS_H

#include "train/layers/layers.h"

static const struct yoke_gpt2_config config = { sizeof config, 2, 2, 8, 7, 11, 1e-5, 0.3 };
static const struct yoke_gpt2_config dropping = {
    sizeof dropping, 2, 2, 8, 7, 11, 1e-5, 0.3, 0.3, 0.2, 0.25
};

/* The models that the listed layers are taken from. */
static inline yoke_status build_gpt2(yoke_model **out) { return yoke_model_gpt2(&config, out); }
static inline yoke_status build_dropping(yoke_model **out) { return yoke_model_gpt2(&dropping, out); }
/*
 * Two query heads share a K/V head, so that ranks hold part of a group; head_dim is not hidden_size / heads.
 */
/* clang-format off */
#define LLAMA(tied, p) { sizeof(struct yoke_llama_config), 10, 14, 2, 4, 2, 4, 11, 7, 1e-5, 100, 0.3, \
        tied, p }
/* clang-format on */
static const struct yoke_llama_config llama = LLAMA(false, 0), tied_llama = LLAMA(true, 0.3);
static inline yoke_status build_biased(yoke_model **out)
{
    struct yoke_llama_config biased = llama;
    biased.qkv_bias = true; /* as in Qwen2 */
    return yoke_model_llama(&biased, out);
}
static inline yoke_status build_llama(yoke_model **out) { return yoke_model_llama(&llama, out); }
static inline yoke_status build_tied(yoke_model **out) { return yoke_model_llama(&tied_llama, out); }
static const struct source {
    const char *name;
    yoke_status (*build)(yoke_model **model_out);
} sources[] = { { "GPT-2", build_gpt2 },
                { "GPT-2 with dropout", build_dropping },
                { "Llama", build_llama },
                { "tied Llama with dropout", build_tied },
                { "Llama with biases", build_biased } };

#define LISTED(name) &yoke_layer_##name,
static const struct yoke_layer_type *const listed[] = { YOKE_LAYERS(LISTED) };
#undef LISTED

static inline const yoke_layer *layer_of(yoke_model *model, const struct yoke_layer_type *type)
{
    for (int i = 0; i < yoke_model_n_layers(model); i++)
        if (yoke_model_layer(model, i)->type == type) return yoke_model_layer(model, i);
    return NULL;
}

static inline bool occurs(const struct source *source, const struct yoke_layer_type *type)
{
    yoke_model *model;
    if (source->build(&model)) return false;
    const bool found = layer_of(model, type) != NULL;
    yoke_model_destroy(model);
    return found;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The properties of a model that its embedding and head layers need. GPT-2 and Llama have the same layers,
 * except for names and positions.
 */
#include "train/layers/layers.h"

struct yokei_vocabulary yokei_vocabulary_of(const yoke_layer *layer)
{
    if (layer->type == &yoke_layer_llama_embedding || layer->type == &yoke_layer_llama_head) {
        const struct yoke_llama_config *c = layer->config;
        const char *const embedding = "model.embed_tokens.weight";
        return (struct yokei_vocabulary){ .C = c->hidden_size,
                                          .V = c->vocab_size,
                                          .std = c->initializer_range,
                                          .embedding = embedding,
                                          .head = c->tie_word_embeddings ? embedding : "lm_head.weight" };
    }
    const struct yoke_gpt2_config *c = layer->config;
    return (struct yokei_vocabulary){ .C = c->n_embd,
                                      .V = c->vocab_size,
                                      .n_positions = c->n_positions,
                                      .std = c->initializer_range,
                                      .drop = c->embd_pdrop,
                                      .embedding = "wte.weight",
                                      .positions = "wpe.weight",
                                      .head = "wte.weight" };
}

yoke_status yokei_vocabulary_check(const yoke_layer *layer, const struct yoke_place *place)
{
    return yokei_deal_check(layer, place, yokei_vocabulary_of(layer).V, "words");
}

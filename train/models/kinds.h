/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The list of the kinds of models that the command and its files know. To add a kind, write one file with a
 * `const struct yokei_model_kind yokei_kind_ID` (kind.h), and add a row here. Plans, checkpoints, imports and
 * exports, options and help texts take the kind from its row.
 */
#ifndef TRAIN_MODELS_KINDS_H
#define TRAIN_MODELS_KINDS_H

/*
 * A row: its ID, which is the model_type in Hugging Face's config.json; the struct of its configuration; its
 * key in plan.json; its name in messages; and the names of its presets, for help texts. A file without a
 * model_type has the first kind.
 */
/* clang-format off */
#define YOKEI_MODEL_KINDS(KIND) \
    KIND(gpt2,  yoke_gpt2_config,  "model", "GPT-2", "nano, micro or 124m") \
    KIND(llama, yoke_llama_config, "llama", "Llama", "llama-nano or llama-micro") \
    KIND(qwen2, yoke_llama_config, "qwen2", "Qwen2", "qwen2-nano, qwen2-0.5b or qwen2-7b") \
    KIND(mistral, yoke_llama_config, "mistral", "Mistral", "mistral-nano, mistral-7b or mistral-nemo-12b")
/* clang-format on */

/* The presets of all kinds, for a help text: "nano, micro or 124m (GPT-2), ...". A comma ends each kind. */
#define YOKEI_MODEL_PRESETS_OF(id, config, key, name, presets) presets " (" name "), "
#define YOKEI_MODEL_PRESETS YOKEI_MODEL_KINDS(YOKEI_MODEL_PRESETS_OF)

#endif

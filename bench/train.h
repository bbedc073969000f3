/* SPDX-License-Identifier: Apache-2.0 */
/** bench/train's parts: the model that is trained, and the rivals that train it too. */
#ifndef BENCH_TRAIN_H
#define BENCH_TRAIN_H

#include "core/base/base.h"
#include "train/run/loop.h"

enum { BENCH_MOST_ROUNDS = 99 };

struct side {
    yoke_device *device;
    yoke_model *model;
    yoke_trainer *trainer;
    struct yoke_gpt2_config config;
    int64_t batch, T;
    int32_t *text, *tokens, *targets; /* one text of batch * T + 1 tokens; tokens and targets of all sequences in turn */
};

/** llm.c's side: a folder of its own with weights and tokens in its formats, where its program runs. */
struct llmc {
    char folder[64];
};
/** Make the folder. YOKE_EIO where it cannot be written. */
yoke_status bench_llmc_write(const struct side *side, struct llmc *llmc);
/**
 * Run DIR/train_gpt2 for one step that warms it up, whose loss is told, and for `rounds` that are counted; then it is ended.
 * llm.c always trains 4 sequences of 64 tokens.
 */
yoke_status bench_llmc_run(const struct llmc *llmc, const char *dir, int rounds, double *loss_out, double seconds[]);
void bench_llmc_remove(struct llmc *llmc);

#endif

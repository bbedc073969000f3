/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The parts of bench/train: the model that is trained, and the rivals (other programs) that train the same
 * model.
 */
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
    int32_t *text, *tokens,
        *targets; /* one text of batch * T + 1 tokens; tokens and targets point into it: [batch, T] */
};

/**
 * llm.c's side: a folder of its own. The folder holds weights and tokens in llm.c's formats, and llm.c's
 * program runs in it.
 */
struct llmc {
    char folder[64];
};
/** Make the folder. Errors: YOKE_EIO: the folder cannot be written. */
yoke_status bench_llmc_write(const struct side *side, struct llmc *llmc);
/**
 * Run DIR/train_gpt2 for one step that warms it up, and for `rounds` steps that are counted. Then end the
 * program. *loss_out is the loss of the first step. llm.c always trains 4 sequences of 64 tokens.
 */
yoke_status bench_llmc_run(const struct llmc *llmc, const char *dir, int rounds, double *loss_out,
                           double seconds[]);
void bench_llmc_remove(struct llmc *llmc);

#endif

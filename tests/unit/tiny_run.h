/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a run that trains a tiny GPT-2 on one rank, on a text in the test's folder. */
#ifndef TESTS_UNIT_TINY_RUN_H
#define TESTS_UNIT_TINY_RUN_H

#include "tests/unit/folder.h"
#include "train/run/loop.h"

static char text_path[600];
static const struct yoke_gpt2_config tiny = { sizeof tiny, 1, 2, 16, 16, 256, 1e-5, 0.02 };

static int make_folder(void **state)
{
    if (make_test_folder(state)) return -1;
    snprintf(text_path, sizeof text_path, "%s", in_folder("text"));
    FILE *f = fopen(text_path, "w");
    for (int i = 0; i < 400; i++)
        fprintf(f, "the yoke number %d lets unequal animals pull one load. ", i % 37);
    return fclose(f);
}

static struct yokei_training tiny_training(yoke_device *device, int64_t steps)
{
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT };
    t.plan.model.gpt2 = tiny;
    t.plan.seed = 3;
    t.plan.batch = 4;
    t.plan.sequence = 16;
    t.plan.steps = steps;
    t.plan.warmup = 2;
    t.plan.bucket_bytes = 1 << 20;
    t.tokens = text_path;
    t.validation_tokens = 256;
    t.device = device;
    return t;
}

#endif

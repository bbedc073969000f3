/* SPDX-License-Identifier: Apache-2.0 */
/* Pipeline schedules: what is generated. */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "core/base/base.h"
#include "parallel/schedule.h"

static void expect_text(const struct yokei_pipeline *shape, const char *expected)
{
    struct yokei_schedule s;
    char *text;
    assert_ok(yokei_schedule_pipeline(shape, &s));
    assert_ok(yokei_schedule_print(&s, &text));
    assert_string_equal(text, expected);
    free(text);
    yokei_schedule_free(&s);
}

/* Written down by hand from the definitions. */
static void generated_text(void **state)
{
    (void)state;
    const int one_bucket[] = { 1, 1 };
    const bool first[] = { true, false };
    expect_text(&(struct yokei_pipeline){ .kind = YOKEI_PIPELINE_NAIVE, .n_stages = 2, .n_micro_batches = 2 },
                "F0,SA0,RG0,B0,W0,F1,SA1,RG1,B1,W1,AGREE,STEP\nRA0,F0,B0,W0,SG0,RA1,F1,B1,W1,SG1,AGREE,STEP\n");
    expect_text(&(struct yokei_pipeline){ .kind = YOKEI_PIPELINE_GPIPE, .n_stages = 2, .n_micro_batches = 2 },
                "F0,SA0,F1,SA1,RG0,B0,W0,RG1,B1,W1,AGREE,STEP\nRA0,F0,RA1,F1,B0,W0,SG0,B1,W1,SG1,AGREE,STEP\n");
    expect_text(&(struct yokei_pipeline){ .kind = YOKEI_PIPELINE_1F1B, .n_stages = 2, .n_micro_batches = 2, .n_buckets = one_bucket,
                                          .recompute = first, .tied = true },
                "F0,SA0,F1,SA1,RG0,R0,B0,W0,RG1,R1,B1,W1,REDUCE0,TIED,AGREE,STEP\nRA0,F0,B0,W0,SG0,RA1,F1,B1,W1,SG1,REDUCE0,TIED,AGREE,STEP\n");
    expect_text(&(struct yokei_pipeline){ .kind = YOKEI_PIPELINE_ZB_H1, .n_stages = 2, .n_micro_batches = 2 },
                "F0,SA0,F1,SA1,RG0,B0,W0,RG1,B1,W1,AGREE,STEP\nRA0,F0,B0,SG0,RA1,F1,B1,SG1,W0,W1,AGREE,STEP\n");
    expect_text(&(struct yokei_pipeline){ .kind = YOKEI_PIPELINE_INTERLEAVED, .n_stages = 2, .n_chunks = 2, .n_micro_batches = 2 },
                "F0,SA0,F1,SA1,RA0.1,F0.1,SA0.1,RA1.1,F1.1,SA1.1,RG0.1,B0.1,W0.1,SG0.1,RG1.1,B1.1,W1.1,SG1.1,RG0,B0,W0,RG1,B1,W1,AGREE,STEP\n"
                "RA0,F0,SA0,RA1,F1,SA1,RA0.1,F0.1,RA1.1,B0.1,W0.1,SG0.1,F1.1,B1.1,W1.1,SG1.1,RG0,B0,W0,SG0,RG1,B1,W1,SG1,AGREE,STEP\n");
    for (int kind = 0; kind < YOKEI_N_PIPELINES; kind++)
        expect_text(&(struct yokei_pipeline){ .kind = (enum yokei_pipeline_kind)kind, .n_stages = 1, .n_micro_batches = 2, .n_buckets = one_bucket },
                    "F0,B0,W0,F1,B1,W1,REDUCE0,AGREE,STEP\n");
}

static void refused_shapes(void **state)
{
    (void)state;
    static const struct { struct yokei_pipeline shape; const char *words; } wrong[] = {
        { { .kind = YOKEI_PIPELINE_GPIPE, .n_stages = 0, .n_micro_batches = 1 }, "0 stages" },
        { { .kind = YOKEI_PIPELINE_GPIPE, .n_stages = 2, .n_micro_batches = -1 }, "-1 micro-batches" },
        { { .kind = YOKEI_PIPELINE_1F1B, .n_stages = 2, .n_chunks = 2, .n_micro_batches = 2 }, "only interleaved" },
        { { .kind = YOKEI_PIPELINE_INTERLEAVED, .n_stages = 2, .n_micro_batches = 2 }, "set at least 2" },
        { { .kind = YOKEI_PIPELINE_INTERLEAVED, .n_stages = 4, .n_chunks = 2, .n_micro_batches = 10 }, "set 8 or 12" },
    };
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++) {
        struct yokei_schedule s;
        assert_fails(YOKE_ECONFIG, wrong[i].words, yokei_schedule_pipeline(&wrong[i].shape, &s));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_text),
        cmocka_unit_test(refused_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

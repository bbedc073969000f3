/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks that share a layer hold of it: the shards of its parameters, and its memory. Shares that
 * leave a rank without any part are refused.
 */
#include "tests/unit/layer_models.h"
#include "tests/unit/test.h"

#include <stdlib.h>
#include "core/base/base.h"
#include "parallel/parameters.h"

static const int64_t uneven[] = { 1, 3 };

/* Fused QKV under tensor parallelism: three ranges of one dimension. */
static void three_ranges(void **state)
{
    (void)state;
    struct yoke_parameter p;
    yokei_parameter(&p, "h.0.attn", "attn.c_attn.weight", YOKE_INIT_NORMAL, 1, 4, 12);
    p.shard[1] = (struct yoke_ranges){ 3, { { 2, 4 }, { 6, 8 }, { 10, 12 } } };
    float whole[48], local[24];
    for (int i = 0; i < 48; i++) whole[i] = (float)i;
    assert_int_equal(yokei_local_count(&p), 24);
    yokei_shard_slice(&p, whole, local);
    for (int r = 0; r < 4; r++) {
        const float expected[] = { 2, 3, 6, 7, 10, 11 };
        for (int c = 0; c < 6; c++) assert_true(local[r * 6 + c] == (float)(r * 12) + expected[c]);
    }
    assert_string_equal(p.name, "h.0.attn.c_attn.weight");
}

/*
 * Two ranks with uneven shares must hold each element of a parameter once, or both must hold the whole
 * parameter.
 */
static void shares_cover(void **state)
{
    (void)state;
    const struct yoke_place two[] = { { sizeof two[0], 0, 2, uneven, false },
                                      { sizeof two[0], 1, 2, uneven, false } };
    for (size_t m = 0; m < YOKE_COUNT(sources); m++) {
        yoke_model *model;
        assert_ok(sources[m].build(&model));
        for (size_t l = 0; l < YOKE_COUNT(listed); l++) {
            struct yoke_parameter p, other;
            const yoke_layer *layer = layer_of(model, listed[l]);
            /* 2 heads in shares of 1:3 leave the first rank half a head: rounded up */
            for (int i = 0; layer && listed[l]->parameter(layer, &two[0], i, &p); i++) {
                const int64_t n = yokei_logical_count(&p);
                float *whole = malloc((size_t)n * 4), *part = malloc((size_t)n * 4),
                      *back = calloc((size_t)n, 4);
                assert_true(listed[l]->parameter(layer, &two[1], i, &other));
                assert_int_equal(yokei_local_count(&p) + yokei_local_count(&other),
                                 p.replicated_axes & YOKE_AXIS_TENSOR ? 2 * n : n);
                for (int64_t k = 0; k < n; k++) whole[k] = (float)(k + 1);
                yokei_shard_slice(&p, whole, part), yokei_shard_place(&p, part, back);
                yokei_shard_slice(&other, whole, part), yokei_shard_place(&other, part, back);
                assert_memory_equal(back, whole, (size_t)n * 4);
                free(whole), free(part), free(back);
            }
        }
        assert_ok(yoke_model_destroy(model));
    }
}

/*
 * The memory that lives from F to B and W must shrink with the number of ranks: all of it with rows divided,
 * else the divided part.
 */
static void memory_of_four(void **state)
{
    (void)state;
    const struct yoke_gpt2_config c = { sizeof c, 1, 4, 64, 64, 256, 1e-5, 0.02 };
    enum { SEQUENCES = 2, TOKENS = 32, ROWS = SEQUENCES * TOKENS, C = 64, RANKS = 4, NARROW = 2, WIDE = 4 };
    struct yoke_place place = { sizeof place, 1, RANKS, NULL, false };
    struct yoke_shape shape = { sizeof shape, YOKE_BF16, SEQUENCES, TOKENS, YOKE_TRAIN, NULL };
    yoke_model *model;
    size_t bytes;
    assert_ok(yoke_model_gpt2(&c, &model));
    const yoke_layer *attention = layer_of(model, &yoke_layer_gpt2_attention),
                     *head = layer_of(model, &yoke_layer_gpt2_head);
    const size_t norm = ROWS * C * NARROW, statistics = 2 * ROWS * WIDE, outer = ROWS * C * NARROW;
    const size_t expected[] = { norm + outer, norm + outer / RANKS, norm / RANKS + outer / RANKS };
    for (int k = 0; k < 3; k++) {
        shape.place = k ? &place : NULL;
        place.sequence_parallel = k == 2;
        assert_ok(yoke_layer_bytes(attention, &shape, YOKE_F_TO_W, &bytes));
        assert_int_equal(bytes, expected[k]);
        assert_ok(yoke_layer_bytes(attention, &shape, YOKE_F_TO_B, &bytes));
        assert_int_equal(bytes, (ROWS * 3 * C * NARROW + ROWS * 4 * WIDE) / (k ? RANKS : 1)
                                    + statistics / (k == 2 ? RANKS : 1));
        assert_ok(yoke_layer_bytes(attention, &shape, YOKE_B_TO_W, &bytes));
        assert_int_equal(bytes, ROWS * 3 * C * NARROW / (k ? RANKS : 1) + 2 * C * WIDE
                                    + (k == 2 ? ROWS * C * NARROW : 0));
        int64_t rows, columns, ld;
        yoke_layer_output(attention, &shape, &rows, &columns, &ld);
        assert_true(rows == (k == 2 ? ROWS / RANKS : ROWS) && columns == C && ld == C);
        yoke_layer_output(head, &shape, &rows, &columns, &ld);
        assert_true(rows == ROWS && columns == (k ? 256 / RANKS : 256));
    }
    assert_ok(yoke_model_destroy(model));
}

static bool ignorant_parameter(const yoke_layer *layer, const struct yoke_place *place, int index,
                               struct yoke_parameter *out)
{
    (void)layer, (void)place;
    yokei_parameter(out, NULL, "weight", YOKE_INIT_ONES, 0, 4, 4);
    return index < 1;
}

static void refusals(void **state)
{
    (void)state;
    static const int64_t nine_to_one[] = { 9, 1 }, negative[] = { 1, -1 };
    yoke_model *model;
    assert_ok(yoke_model_gpt2(&config, &model));
    const yoke_layer *attention = layer_of(model, &yoke_layer_gpt2_attention),
                     *mlp = layer_of(model, &yoke_layer_gpt2_mlp);
    size_t bytes;
    for (int rank = 0; rank < 3; rank++) { /* all ranks of a group must refuse alike */
        const struct yoke_place three = { sizeof three, rank, 3, NULL, false };
        assert_fails(YOKE_ECONFIG, "layer h.0.attn: its 2 heads cannot be dealt to 3 tensor ranks",
                     yoke_layer_check(attention, &three));
        assert_fails(YOKE_ECONFIG, "lower --tp to at most 2", yoke_layer_check(attention, &three));
        assert_ok(yoke_layer_check(mlp, &three));
        const struct yoke_place many = { sizeof many, rank, 33, NULL, false };
        assert_fails(YOKE_ECONFIG, "layer h.0.mlp: its 32 hidden features", yoke_layer_check(mlp, &many));
        assert_fails(YOKE_ECONFIG, "layer embedding: its 11 words",
                     yoke_layer_check(layer_of(model, &yoke_layer_gpt2_embedding), &many));
        assert_fails(YOKE_ECONFIG, "layer head: its 11 words",
                     yoke_layer_check(layer_of(model, &yoke_layer_gpt2_head), &many));
    }
    for (int rank = 0; rank < 2; rank++) {
        const struct yoke_place two = { sizeof two, rank, 2, nine_to_one, false };
        assert_fails(YOKE_ECONFIG, "of its 2 heads tensor rank 1 gets none: raise its share",
                     yoke_layer_check(attention, &two));
        const struct yoke_place below = { sizeof below, rank, 2, negative, false };
        assert_fails(YOKE_ECONFIG, "the share of tensor rank 1 is -1", yoke_layer_check(attention, &below));
    }
    const struct yoke_place crowd = { sizeof crowd, 0, YOKE_MAX_TENSOR + 1, NULL, false },
                            two = { sizeof two, 0, 2, NULL, true };
    assert_fails(YOKE_ECONFIG, "there may be 1 to", yoke_layer_check(attention, &crowd));
    const struct yoke_shape one_token = { sizeof one_token, YOKE_F32, 1, 1, YOKE_TRAIN, &two };
    assert_fails(YOKE_ECONFIG, "some get none", yoke_layer_bytes(attention, &one_token, YOKE_F_TO_B, &bytes));
    struct yoke_layer_type type = yoke_layer_gpt2_norm;
    type.name = "own";
    type.parameter = ignorant_parameter;
    const yoke_layer own = {
        .size = sizeof own, .type = &type, .name = "mine", .in = 4, .out = 4, .config = &config
    };
    assert_fails(YOKE_ECONFIG, "layer mine: its type own does not say how 2 tensor ranks hold weight",
                 yoke_layer_check(&own, &two));
    assert_ok(yoke_model_destroy(model));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_ranges),
        cmocka_unit_test(shares_cover),
        cmocka_unit_test(memory_of_four),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The promises of dropout beyond its error bound. On every device any piece of a matrix must drop the same
 * elements as the whole matrix. Keys must draw independently, and drop the right fraction. The same holds for
 * a part of the heads of attention.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include "core/base/base.h"

enum { B = 3, T = 7, N = B * T, C = 150 };
static const char *const devices[] = { "reference", "host", "opencl:0" };
static float x[N * C], whole[N * C];

struct bench {
    yoke_device *device;
    yoke_stream *stream;
    float *in, *out;
};

static bool set_up(struct bench *b, const char *spec)
{
    if (yoke_device_open(spec, NULL, &b->device)) {
        printf("# %s\n", yoke_last_error());
        return false;
    }
    assert_ok(yoke_stream_create(b->device, &b->stream));
    assert_ok(yoke_alloc(b->device, sizeof x, (void **)&b->in));
    assert_ok(yoke_alloc(b->device, sizeof x, (void **)&b->out));
    assert_ok(yoke_copy_to_device(b->stream, b->in, x, sizeof x));
    return true;
}

static void tear_down(struct bench *b)
{
    assert_ok(yoke_free(b->device, b->in));
    assert_ok(yoke_free(b->device, b->out));
    assert_ok(yoke_stream_destroy(b->stream));
    assert_ok(yoke_device_close(b->device));
}

/* Rows [r0, r1) and channels [c0, c1), as a rank would hold them, of samples from 40 on. */
static void drop(struct bench *b, int r0, int r1, int c0, int c1, uint64_t key, float *out)
{
    assert_ok(
        yoke_dropout(b->stream, &YOKE_ARGS(dropout, .N = r1 - r0, .C = c1 - c0, .T = T, .p = 0.3f, .key = key,
                                           .first_row = r0 % T, .sample_start = 40 + r0 / T, .pos_start = 5,
                                           .channel_start = c0, .x = b->in + r0 * C + c0, .ldx = C,
                                           .y = b->out + r0 * C + c0, .ldy = C)));
    assert_ok(yoke_copy_to_host(b->stream, out, b->out, sizeof x));
    assert_ok(yoke_stream_sync(b->stream));
}

static void pieces_drop_what_the_whole_drops(void **state)
{
    static const int rows[] = { 0, 4, 9, N }, columns[] = { 0, 16, 77, 128, C };
    const uint64_t key = yoke_random_key(7, 3, "h.0.attn/residual");
    static float pieces[N * C];
    (void)state;
    for (int i = 0; i < N * C; i++) x[i] = 1 + (float)i;
    for (size_t d = 0; d < YOKE_COUNT(devices); d++) {
        struct bench b;
        static float mine[N * C];
        if (!set_up(&b, devices[d])) continue;
        drop(&b, 0, N, 0, C, key, mine);
        if (d == 0) memcpy(whole, mine, sizeof whole);
        for (int i = 0; i < N * C; i++)
            assert_int_equal(mine[i] != 0, whole[i] != 0); /* the same elements on every device */
        memset(pieces, 0, sizeof pieces);
        assert_ok(yoke_fill(b.stream, b.out, 0, sizeof x));
        for (size_t r = 0; r + 1 < YOKE_COUNT(rows); r++)
            for (size_t c = 0; c + 1 < YOKE_COUNT(columns); c++)
                drop(&b, rows[r], rows[r + 1], columns[c], columns[c + 1], key, pieces);
        assert_memory_equal(pieces, mine, sizeof mine);
        tear_down(&b);
    }
}

static double share_kept(const float *y)
{
    int kept = 0;
    for (int i = 0; i < N * C; i++) kept += y[i] != 0;
    return (double)kept / (N * C);
}

static void keys_draw_independently(void **state)
{
    static float one[N * C], two[N * C];
    const uint64_t key = yoke_random_key(1, 1, "a");
    const uint64_t others[] = { yoke_random_key(1, 2, "a"), yoke_random_key(2, 1, "a"),
                                yoke_random_key(1, 1, "b") };
    struct bench b;
    (void)state;
    for (int i = 0; i < N * C; i++) x[i] = 1;
    assert_true(set_up(&b, "host"));
    drop(&b, 0, N, 0, C, key, one);
    const double five = 5 * sqrt(0.3 * 0.7 / (N * C)); /* standard errors */
    assert_true(fabs(share_kept(one) - 0.7) < five);
    for (int i = 0; i < N * C; i++) assert_true(one[i] == 0 || one[i] == (float)(1 / (1 - (double)0.3f)));
    for (size_t k = 0; k < YOKE_COUNT(others); k++) {
        int both = 0;
        drop(&b, 0, N, 0, C, others[k], two);
        assert_true(fabs(share_kept(two) - 0.7) < five);
        for (int i = 0; i < N * C; i++) both += one[i] != 0 && two[i] != 0;
        assert_true(fabs((double)both / (N * C) - 0.49) < 5 * sqrt(0.49 * 0.51 / (N * C)));
    }
    tear_down(&b);
}

enum { H = 5, D = 4, S = 70 };
static float qkv[3 * S * H * D];

/* Heads [first, end) of five that read three K/V heads, two each. */
static void attend(const char *spec, int first, int end, float *o)
{
    const int kv = first / 2, n_kv = (end - 1) / 2 - kv + 1;
    struct yoke_cost cost = { .size = sizeof cost };
    yoke_device *device;
    yoke_stream *stream;
    float *in, *out;
    assert_ok(yoke_device_open(spec, NULL, &device));
    assert_ok(yoke_stream_create(device, &stream));
    assert_ok(yoke_alloc(device, sizeof qkv, (void **)&in));
    assert_ok(yoke_alloc(device, sizeof qkv / 3, (void **)&out));
    assert_ok(yoke_copy_to_device(stream, in, qkv, sizeof qkv));
    const float *k = in + S * H * D, *v = k + S * H * D;
    const struct yoke_attention_forward_args a = YOKE_ARGS(
        attention_forward, .causal = true, .B = 1, .T = S, .H = end - first, .Hkv = n_kv, .D = D,
        .head_start = first, .group = 2, .scale = 0.5f, .p = 0.4f, .key = 99, .sample_start = 3,
        .q = in + first * D, .ldq = H * D, .k = k + kv * D, .ldk = H * D, .v = v + kv * D, .ldv = H * D,
        .o = out, .ldo = (end - first) * D);
    assert_ok(yoke_attention_forward_can(device, &a, &cost));
    assert_ok(yoke_stream_reserve(stream, cost.scratch_bytes));
    assert_ok(yoke_attention_forward(stream, &a));
    assert_ok(yoke_copy_to_host(stream, o, out, (size_t)(S * (end - first) * D) * sizeof *o));
    assert_ok(yoke_stream_sync(stream));
    assert_ok(yoke_free(device, in));
    assert_ok(yoke_free(device, out));
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
}

static void pieces_of_heads_are_the_whole(void **state)
{
    static float all[S * H * D], some[S * H * D];
    const struct yokei_philox_key key = yokei_philox_named(1, "heads");
    (void)state;
    for (int i = 0; i < 3 * S * H * D; i++) qkv[i] = (float)yokei_normal(key, (uint64_t)i);
    for (size_t d = 0; d < 2; d++) {
        attend(devices[d], 0, H, all);
        for (int first = 0; first < H; first++)
            for (int end = first + 1; end <= H; end++) {
                attend(devices[d], first, end, some);
                for (int t = 0; t < S; t++)
                    assert_memory_equal(some + t * (end - first) * D, all + (t * H + first) * D,
                                        (size_t)((end - first) * D) * sizeof *all);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(pieces_drop_what_the_whole_drops),
                                        cmocka_unit_test(keys_draw_independently),
                                        cmocka_unit_test(pieces_of_heads_are_the_whole) };
    return cmocka_run_group_tests_name("dropout", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of weights, gradients and moments, for any parameters, replicas and shares. Buckets must come in
 * the order in which the backward pass completes them. Slices must cover each element once. Nothing may
 * overlap. The parts that all replicas keep must add up to the whole.
 */
#include "tests/unit/test.h"

#include <stdlib.h>
#include "core/base/base.h"
#include "parallel/state.h"

enum { N_LAYERS = 6, MOST = 24, MOST_REPLICAS = 7, N_TRIALS = 300 };

static uint64_t state_of_draws = 88172645463325252ull;
static int64_t draw(int64_t below)
{
    state_of_draws ^= state_of_draws << 13, state_of_draws ^= state_of_draws >> 7,
        state_of_draws ^= state_of_draws << 17;
    return (int64_t)((state_of_draws >> 33) % (uint64_t)below);
}

struct model {
    struct yokei_parameters parameters;
    struct yoke_parameter item[MOST];
    int first_layer[MOST];
    bool tied[MOST];
};

static void draw_model(struct model *m)
{
    memset(m, 0, sizeof *m);
    m->parameters = (struct yokei_parameters){
        .n = 1 + (int)draw(MOST), .item = m->item, .first_layer = m->first_layer, .n_layers = N_LAYERS
    };
    for (int i = 0; i < m->parameters.n; i++) {
        m->item[i] = (struct yoke_parameter){ .n_dims = 1,
                                              .shape = { 1 + draw(draw(2) ? 40 : 3000) },
                                              .matrix = draw(2) };
        m->item[i].replicated_axes = draw(2) ? YOKE_AXIS_DATA : YOKE_AXIS_DATA | YOKE_AXIS_TENSOR;
        m->first_layer[i] = (int)draw(N_LAYERS);
        m->tied[i] = draw(8) == 0;
    }
}

/* Mark bytes [at, at + n) of the allocation as used. They must not be used already. */
static void claim(uint8_t *arena, const struct yokei_state *s, size_t at, int64_t n, size_t width)
{
    assert_int_equal(at % 64, 0);
    assert_true(at + (size_t)n * width <= s->bytes);
    for (size_t k = 0; k < (size_t)n * width; k++) assert_int_equal(arena[at + k]++, 0);
}

static void check_places(const struct yokei_state *s)
{
    uint8_t *arena = calloc(s->bytes + 1, 1);
    const size_t wide = yoke_dtype_bytes(s->wide);
    for (int b = 0; b < s->n_buckets; b++) {
        const struct yokei_bucket *k = &s->bucket[b];
        const int64_t kept = k->kept.end - k->kept.begin;
        if (b) assert_true(k->layer <= s->bucket[b - 1].layer);
        claim(arena, s, k->weight, k->n, yoke_dtype_bytes(yokei_weight_dtype(s, k->has_copy)));
        if (k->has_copy) claim(arena, s, k->master, kept, wide);
        claim(arena, s, k->moment1, kept, wide);
        claim(arena, s, k->moment2, kept, wide);
        claim(arena, s, k->gradient, k->n, wide);
    }
    free(arena);
}

/* Every norm block of own elements must have its own pair of sums. */
static void check_norms(const struct yokei_state *s)
{
    const size_t pair = 2 * yoke_dtype_bytes(s->wide);
    uint8_t *taken = calloc((size_t)s->n_norms + 1, 1);
    int64_t n = 0;
    for (int i = 0; i < s->n; i++) {
        const struct yokei_slot *slot = &s->slot[i];
        const int64_t block = s->bucket[slot->bucket].norm_block,
                      first = (int64_t)((slot->norms - s->norms) / pair);
        if (yokei_is_empty(slot->own)) continue;
        assert_true(slot->own.begin % block == 0 && (slot->own.end % block == 0 || slot->own.end == slot->n));
        for (int64_t k = first; k < first + (slot->own.end - slot->own.begin + block - 1) / block; k++, n++)
            assert_int_equal(taken[k]++, 0);
    }
    assert_int_equal(n, s->n_norms);
    free(taken);
}

/*
 * A parameter's place in its bucket must be its own, and each kind of tensor must lie where the bucket has
 * it.
 */
static void check_slots(const struct model *m, const struct yokei_state *s)
{
    const size_t wide = yoke_dtype_bytes(s->wide);
    for (int i = 0; i < s->n; i++) {
        const struct yokei_slot *slot = &s->slot[i];
        const struct yokei_bucket *b = &s->bucket[slot->bucket];
        size_t offset;
        assert_true(b->layer <= m->first_layer[i] && slot->at + slot->n <= b->n && slot->at % 32 == 0);
        for (int j = 0; j < i; j++)
            if (s->slot[j].bucket == slot->bucket)
                assert_true(
                    !m->tied[i] && m->item[i].matrix == m->item[j].matrix
                    && (slot->at >= s->slot[j].at + s->slot[j].n || s->slot[j].at >= slot->at + slot->n));
        const struct yoke_range r = yokei_slot_range(s, i, YOKE_TENSOR_MOMENT2, &offset);
        if (!yokei_is_empty(r))
            assert_int_equal(offset, b->moment2 + (size_t)(slot->at + r.begin - b->kept.begin) * wide);
        const struct yoke_range w = yokei_slot_range(s, i, YOKE_TENSOR_WEIGHT, &offset);
        if (!slot->has_copy)
            assert_true(w.begin == 0 && w.end == slot->n && offset == slot->weight);
        else if (!yokei_is_empty(w))
            assert_int_equal(offset, b->master + (size_t)(slot->at + w.begin - b->kept.begin) * wide);
        assert_int_equal(slot->gradient, b->gradient + (size_t)slot->at * wide);
    }
}

static void check_replicas(const struct model *m, struct yokei_replicas r, yoke_dtype dtype,
                           size_t bucket_bytes)
{
    int64_t next[MOST] = { 0 };
    size_t divided = 0, undivided = 0;
    for (r.d = 0; r.d < r.n; r.d++) {
        struct yokei_state s;
        assert_ok(yokei_state_create(&m->parameters, &r, dtype, 8, bucket_bytes, 0, &s));
        check_places(&s);
        check_slots(m, &s);
        check_norms(&s);
        for (int b = 0; b < s.n_buckets; b++) {
            size_t sum = 0;
            for (int d = 0; d < r.n; d++) sum += s.bucket[b].counts[d];
            assert_int_equal(sum, s.bucket[b].n);
            assert_int_equal(s.bucket[b].counts[r.d], s.bucket[b].own.end - s.bucket[b].own.begin);
            assert_true(s.bucket[b].own.begin % 16 == 0 && s.bucket[b].own.end % 16 == 0);
            assert_true(!r.shares || r.shares[r.d] || !s.bucket[b].counts[r.d]);
        }
        for (int i = 0; i < s.n; i++) {
            const struct yoke_range own = s.slot[i].own, kept = s.slot[i].kept;
            if (!yokei_is_empty(own)) assert_int_equal(own.begin, next[i]);
            if (!yokei_is_empty(own)) next[i] = own.end;
            assert_true(s.is_divided ? kept.begin == own.begin && kept.end == own.end
                                     : kept.begin == 0 && kept.end == s.slot[i].n);
        }
        divided += s.divided_bytes;
        undivided = s.undivided_bytes;
        assert_int_equal(s.is_divided, r.divides && r.n > 1);
        yokei_state_free(&s);
    }
    for (int i = 0; i < m->parameters.n; i++) assert_int_equal(next[i], m->item[i].shape[0]);
    assert_int_equal(divided, r.divides ? undivided : undivided * (size_t)r.n);
}

static void slices(void **unused)
{
    (void)unused;
    static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_BF16, YOKE_F16, YOKE_F64 };
    for (int trial = 0; trial < N_TRIALS; trial++) {
        struct model m;
        int64_t shares[MOST_REPLICAS], sum = 0;
        struct yokei_replicas r = { .n = 1 + (int)draw(MOST_REPLICAS),
                                    .divides = draw(2),
                                    .is_tensor = draw(2),
                                    .tied = draw(2) ? m.tied : NULL };
        draw_model(&m);
        if (!r.tied) memset(m.tied, 0, sizeof m.tied);
        for (int d = 0; d < r.n; d++) sum += shares[d] = draw(4) ? draw(draw(2) ? 5 : 1 << 20) : 0;
        if (sum && draw(2)) r.shares = shares;
        check_replicas(&m, r, dtypes[draw(4)], (size_t)(1 + draw(20000)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(slices) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of many ranks. A rank that is not planned because it is like another one must have the numbers of its
 * own plan. And each instruction must wait for all earlier users of the memory that it takes over, and for no
 * others.
 */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <yoke/train.h>

#include "core/base/base.h"
#include "train/trainer/planned.h"

static yoke_device *host;
static struct {
    struct yokei_philox_key key;
    uint64_t n; /* numbers that were drawn */
} draws;

/* A number in [0, n). */
static int draw(int n) { return (int)(yokei_uniform(draws.key, draws.n++) * n); }

/* ---- alike ranks ---- */

static void same_numbers(const struct yokei_planned *shared, const struct yokei_planned *own, bool same_norms,
                         const char *text)
{
    const struct yoke_memory_report *a = &shared->report, *b = &own->report;
    const size_t parts[][2] = {
        { a->weights, b->weights },
        { a->gradients, b->gradients },
        { a->optimizer, b->optimizer },
        { a->activations, b->activations },
        { a->stash, b->stash },
        { a->boundaries, b->boundaries },
        { a->received, b->received },
        { a->layer_workspace, b->layer_workspace },
        { a->unused, b->unused },
        { a->scratch, b->scratch },
        { a->staging, b->staging },
        { a->staging_shared, b->staging_shared },
        { shared->divided, own->divided },
        { shared->undivided, own->undivided },
        { same_norms ? a->workspace : 0, same_norms ? b->workspace : 0 },
        { same_norms ? a->total : 0, same_norms ? b->total : 0 },
        { same_norms ? a->host : 0, same_norms ? b->host : 0 },
    };
    for (size_t i = 0; i < YOKE_COUNT(parts); i++)
        if (parts[i][0] != parts[i][1])
            fail_msg("%s: part %zu is %zu instead of %zu", text, i, parts[i][0], parts[i][1]);
    /* the partial sums of the norms of different slices */
    const size_t more = YOKE_MAX(a->total, b->total) - YOKE_MIN(a->total, b->total);
    if (more > 4096) fail_msg("%s: the totals differ by %zu bytes", text, more);
    if (shared->samples != own->samples || shared->micro_batch != own->micro_batch
        || shared->n_micro_batches != own->n_micro_batches || shared->n_elements != own->n_elements
        || shared->flops != own->flops || shared->recomputed != own->recomputed)
        fail_msg("%s: sequences, elements or operations differ", text);
}

static const struct yoke_gpt2_config gpt2 = { sizeof gpt2, 5, 8, 64, 16, 97, 1e-5, 0.02 };
static const struct yoke_llama_config llama = { .size = sizeof llama,
                                                .num_hidden_layers = 6,
                                                .num_attention_heads = 8,
                                                .num_key_value_heads = 2,
                                                .hidden_size = 64,
                                                .intermediate_size = 96,
                                                .max_position_embeddings = 16,
                                                .vocab_size = 104,
                                                .rms_norm_eps = 1e-5,
                                                .rope_theta = 10000,
                                                .initializer_range = 0.02 };

static struct yoke_trainer_config draw_config(int *n_ranks_out, int64_t tensor_shares[8])
{
    static const char *const recompute[] = { NULL, "attention", "full" }, *const kinds[] = { NULL, "gpipe",
                                                                                             "zb-h1" };
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    c.precision = draw(2) ? YOKE_F32 : YOKE_BF16;
    c.sequence = draw(6) ? 8 + draw(2) : 1; /* a token cannot be divided by sequence parallelism */
    c.pipeline = 1 + draw(4);
    c.tensor = draw(2) ? 8 : 1 + draw(4);
    c.data = 1 + draw(3);
    c.batch = c.data * (1 + draw(6)) + draw(2);
    c.micro_batch = 1 + draw(2);
    if (c.micro_batch > c.batch) c.micro_batch = 1;
    c.sequence_parallel = draw(2);
    c.zero = draw(3) == 0;
    c.recompute = recompute[draw(3)];
    c.pipeline_kind = c.pipeline > 1 ? kinds[draw(3)] : NULL;
    if (c.pipeline == 2 && draw(3) == 0) { /* an even number of micro-batches for each replica */
        c.pipeline_kind = "interleaved", c.chunks = 2;
        c.batch = 2 * c.data * c.micro_batch * (1 + draw(3));
    }
    c.bucket_bytes = 16384;
    for (int t = 0; t < 8; t++) tensor_shares[t] = 2 + draw(2);
    if (draw(4) == 0) c.tensor_shares = tensor_shares;
    *n_ranks_out = c.pipeline * c.tensor * c.data;
    return c;
}

static void same_waits(const struct yokei_program *p);

static int compare_layout(const yoke_model *model, const struct yoke_trainer_config *config, int n_ranks)
{
    struct yokei_planned_ranks known = { 0 };
    const bool slices_alike = config->zero || config->data == 1;
    for (int r = 0; r < n_ranks; r++) {
        struct yoke_trainer_config c = *config;
        struct yokei_trainer_plan at, plan;
        struct yokei_planned shared, own, numbers;
        char text[160];
        yokei_text(text, sizeof text, "rank %d of %d (pp %d, tp %d, dp %d, zero %d)", r, n_ranks, c.pipeline,
                   c.tensor, c.data, c.zero);
        const yoke_status status = yokei_trainer_plan_as(model, host, &c, r, n_ranks, &plan);
        if (status) { /* both refuse a layout that cannot be */
            char why[512];
            yokei_text(why, sizeof why, "%s", yoke_last_error());
            assert_fails(status, NULL,
                         yokei_planned_rank(&known, model, host, config, r, n_ranks, &at, &shared));
            assert_string_equal(why, yoke_last_error());
            yokei_planned_free(&known);
            return -1;
        }
        yokei_planned_of(&plan, &own);
        assert_ok(yokei_planned_rank(&known, model, host, config, r, n_ranks, &at, &shared));
        assert_true(at.mesh.s == plan.mesh.s && at.mesh.t == plan.mesh.t && at.mesh.d == plan.mesh.d);
        same_numbers(&shared, &own, slices_alike, text);
        assert_ok(yokei_planned_numbers(&known, model, host, config, r, n_ranks, &numbers));
        same_numbers(&numbers, &own, slices_alike, text);
        same_waits(&plan.train);
        same_waits(&plan.evaluate);
        yokei_trainer_plan_free(&at);
        yokei_trainer_plan_free(&plan);
    }
    const int n = known.n_planned;
    yokei_planned_free(&known);
    return n;
}

static void alike_ranks(void **state)
{
    (void)state;
    yoke_model *models[2];
    int n_ranks, n_planned = 0, n_all = 0, n_refused = 0;
    assert_ok(yoke_model_gpt2(&gpt2, &models[0]));
    assert_ok(yoke_model_llama(&llama, &models[1]));
    for (int trial = 0; trial < 60; trial++) {
        int64_t shares[8];
        const struct yoke_trainer_config c = draw_config(&n_ranks, shares);
        const int n = compare_layout(models[trial % 2], &c, n_ranks);
        if (n < 0)
            n_refused++;
        else
            n_planned += n, n_all += n_ranks;
    }
    printf("%d of %d ranks were planned; %d layouts were refused\n", n_planned, n_all, n_refused);
    assert_true(n_all > 200 && n_planned < n_all / 4 * 3 && n_refused > 0);
    /* 2 stages; the first and the last rank of a tensor group, and the ranks between them */
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    c.precision = YOKE_F32, c.sequence = 8, c.batch = 12, c.micro_batch = 1;
    c.pipeline = 2, c.tensor = 8, c.data = 3;
    assert_int_equal(compare_layout(models[1], &c, 48), 2 * 3);
    for (int i = 0; i < 2; i++) assert_ok(yoke_model_destroy(models[i]));
}

/* ---- places ---- */

/* The order in which buffers are placed. */
static bool is_placed_before(const struct yokei_buffer *a, const struct yokei_buffer *b)
{
    if (a->first != b->first) return a->first < b->first;
    return a->last != b->last ? a->last > b->last : a < b;
}

static bool overlap(const struct yokei_buffer *a, const struct yokei_buffer *b, size_t at)
{
    const bool live = a->first <= b->last && b->first <= a->last;
    return live && at < b->offset + yoke_align(b->bytes) && b->offset < at + yoke_align(a->bytes);
}

/* The lowest address that no live buffer uses: 0, or the end of another buffer. */
static size_t lowest(const struct yokei_buffer *list, int n, const struct yokei_buffer *b, size_t base)
{
    size_t best = SIZE_MAX;
    for (int c = -1; c < n; c++) {
        const bool known = c >= 0 && list[c].is_received == b->is_received && is_placed_before(&list[c], b);
        const size_t at = c < 0 ? base : list[c].offset + yoke_align(list[c].bytes);
        bool is_free = c < 0 || known;
        for (int k = 0; k < n && is_free && at < best; k++)
            is_free = !(list[k].is_received == b->is_received && is_placed_before(&list[k], b)
                        && overlap(b, &list[k], at));
        if (is_free && at < best) best = at;
    }
    return best;
}

/* Each buffer lies at the lowest address that was free when it was placed. */
static void lowest_places(void **state)
{
    (void)state;
    enum { MOST = 120 };
    for (int trial = 0; trial < 200; trial++) {
        struct yokei_buffer list[MOST] = { 0 };
        const int n = 1 + draw(MOST - 1);
        size_t bytes, base = 0;
        for (int i = 0; i < n; i++) {
            list[i].bytes = 1 + (size_t)draw(draw(3) ? 200 : 5000);
            list[i].first = i ? list[i - 1].first + draw(2) : 0;
            list[i].last = list[i].first + draw(draw(2) ? 4 : 40);
            list[i].is_received = draw(6) == 0;
        }
        assert_ok(yokei_place_buffers(list, n, 0, &bytes));
        for (int received = 0; received < 2; received++) {
            size_t end = base;
            for (int i = 0; i < n; i++) {
                if (list[i].is_received != received) continue;
                assert_int_equal(list[i].offset, lowest(list, n, &list[i], base));
                end = YOKE_MAX(end, list[i].offset + yoke_align(list[i].bytes));
            }
            base = end;
        }
        assert_int_equal(bytes, base);
    }
}

/* ---- waits ---- */

static bool shares_memory(const struct yokei_buffer *a, const struct yokei_buffer *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* The newest use, before instruction `at` and on stream s, of memory of the buffers that begin there. */
static int newest_user(const struct yokei_program *p, int at, enum yokei_stream s)
{
    int list[YOKEI_N_OPERANDS], newest = -1;
    const int n = yokei_operands(&p->instruction[at], list);
    for (int before = 0; before < at; before++) {
        int used[YOKEI_N_OPERANDS];
        if (p->instruction[before].stream != s) continue;
        const int n_used = yokei_operands(&p->instruction[before], used);
        for (int k = 0; k < n; k++)
            for (int u = 0; u < n_used && p->buffer[list[k]].first == at; u++)
                if (shares_memory(&p->buffer[list[k]], &p->buffer[used[u]])) newest = before;
    }
    return newest;
}

/*
 * Compare the waits with a look at all instructions before. `waited` follows the streams: an instruction need
 * not wait for what its stream has waited for.
 */
static void same_waits(const struct yokei_program *p)
{
    int waited[YOKEI_N_STREAMS][YOKEI_N_STREAMS],
        *recorded = malloc(((size_t)p->n_events + 1) * sizeof *recorded);
    memset(waited, 0xff, sizeof waited);
    assert_non_null(recorded);
    for (int i = 0; i < p->n; i++)
        if (p->instruction[i].record >= 0) recorded[p->instruction[i].record] = i;
    for (int at = 0; at < p->n; at++) {
        const struct yokei_instruction *i = &p->instruction[at];
        int list[YOKEI_N_OPERANDS];
        const bool on_buffers = yokei_operands(i, list) > 0;
        for (int s = 0; s < YOKEI_N_STREAMS; s++) {
            const enum yokei_stream stream = (enum yokei_stream)s;
            const int event = i->wait[s] < 0 ? -1 : recorded[i->wait[s]];
            int needed = stream == i->stream ? -1 : newest_user(p, at, stream);
            for (int k = 0; k < yokei_operands(i, list); k++) {
                const int first = p->buffer[list[k]].first;
                if (first < at && stream != i->stream && p->instruction[first].stream == stream)
                    needed = YOKE_MAX(needed, first);
            }
            assert_true(event < at);
            if (event >= 0) waited[i->stream][s] = YOKE_MAX(waited[i->stream][s], event);
            if (waited[i->stream][s] < needed) fail_msg("instruction %d does not wait for %d", at, needed);
            if (on_buffers && event >= 0 && event != needed)
                fail_msg("instruction %d waits for %d, but %d is enough", at, event, needed);
        }
    }
    free(recorded);
}

/* Give the program random instructions on all streams, with buffers that live for some time. */
static void draw_program(struct yokei_program *p)
{
    enum { N = 120 };
    p->n = N;
    p->instruction = calloc(N, sizeof *p->instruction);
    p->buffer = calloc(2 * N, sizeof *p->buffer);
    assert_true(p->instruction && p->buffer);
    for (int at = 0; at < N; at++) {
        struct yokei_instruction *i = &p->instruction[at];
        *i = (struct yokei_instruction){ .kind = YOKEI_FORWARD,
                                         .stream = (enum yokei_stream)draw(YOKEI_N_STREAMS),
                                         .record = -1,
                                         .x = -1,
                                         .y = -1,
                                         .dy = -1,
                                         .dx = -1,
                                         .workspace = -1,
                                         .stash = { -1, -1, -1 } };
        memset(i->wait, 0xff, sizeof i->wait);
        int *const slot[] = { &i->x, &i->dy, &i->stash[0] }, *const begins[] = { &i->y, &i->workspace };
        for (int k = 0; k < 3 && p->n_buffers; k++) { /* the newest buffers are used again */
            const int b = p->n_buffers - 1 - draw(YOKE_MIN(p->n_buffers, 9));
            *slot[k] = b;
            p->buffer[b].last = at;
        }
        for (int k = 0; k < 2; k++) {
            *begins[k] = p->n_buffers;
            p->buffer[p->n_buffers++] = (struct yokei_buffer){
                .bytes = (size_t)(64 * (1 + draw(5))), .first = at, .last = at, .is_received = draw(4) == 0
            };
        }
    }
}

static void waits(void **state)
{
    (void)state;
    for (int trial = 0; trial < 20; trial++) {
        struct yokei_program p = { 0 };
        draw_program(&p);
        assert_ok(yokei_place_buffers(p.buffer, p.n_buffers, 0, &p.bytes));
        assert_ok(yokei_order_streams(&p));
        same_waits(&p);
        yokei_program_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(waits), cmocka_unit_test(alike_ranks),
                                        cmocka_unit_test(lowest_places) };
    const char *seed = getenv("YOKE_SEED");
    const uint64_t used = seed ? strtoull(seed, NULL, 10) : 20261125;
    draws.key = yokei_philox_named(used, "layouts");
    printf("seed %llu\n", (unsigned long long)used);
    if (yoke_device_open("host", NULL, &host)) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return yoke_device_close(host) ? 1 : failed;
}

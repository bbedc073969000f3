/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutants: good files with bytes changed, removed, added or swapped at random. A reader must not crash; the
 * test is meant for the sanitizers. If a reader accepts a mutant of a file with checksums, it must have read
 * the same bits as before. YOKE_TEST_SEED=N repeats a run, and YOKE_SOAK=1 makes it fifty times as long.
 */
#include "tests/unit/data_test.h"
#include "tests/unit/plan_text.h"
#include "tests/unit/safetensors_save.h"

#include "train/checkpoint/manifest.h"
#include "train/text/bpe.h"
#include "train/models/model_files.h"
#include "train/plan/run_plan.h"
#include "train/text/tokens.h"

enum { MAX_BYTES = 32768 };
static uint64_t seed = 20240520;
static int64_t n_mutants = 2000;

static struct yokei_philox_key key;
static uint64_t drawn;
static size_t draw(size_t n) { return (size_t)(yokei_uniform(key, drawn++) * (double)n) % n; }

/* Make one to three changes. Returns the new length. */
static size_t mutate(unsigned char *file, size_t n)
{
    static const char spice[] = "{}[]\",:0123456789-eE.\\ \n\xff\x00\x7f";
    for (size_t changes = 1 + draw(3); changes > 0 && n > 1; changes--) {
        size_t at = draw(n), length = 1 + draw(YOKE_MIN(n - at, (size_t)16));
        switch (draw(7)) {
        case 0: file[at] ^= (unsigned char)(1u << draw(8)); break;
        case 1: file[at] = (unsigned char)draw(256); break;
        case 2: file[at] = (unsigned char)spice[draw(sizeof spice - 1)]; break;
        case 3: n = at; break;
        case 4:
            memmove(file + at, file + at + length, n - at - length);
            n -= length;
            break;
        case 5:
            if (n + length > MAX_BYTES) break;
            memmove(file + at + length, file + at, n - at);
            n += length;
            break;
        default: memmove(file + at, file + draw(n - length + 1), length); break;
        }
    }
    return n;
}

/* Most changes are in the header, because that is where a reader can be misled. */
static const char *write_mutant(const char *name, const unsigned char *good, size_t n)
{
    unsigned char file[MAX_BYTES];
    memcpy(file, good, n);
    size_t length = mutate(file, n);
    return put_file(name, file, length);
}

static size_t read_back(const char *path, unsigned char *out)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(out, 1, MAX_BYTES, file);
    assert_true(n > 0 && n < MAX_BYTES);
    fclose(file);
    return n;
}

static void check_refusal(yoke_status status, const char *path)
{
    if (status != YOKE_EDATA && status != YOKE_ECONFIG)
        fail_msg("%s: %s", yoke_status_name(status), yoke_last_error());
    if (!strstr(yoke_last_error(), path)) fail_msg("'%s' does not name %s", yoke_last_error(), path);
}

static void report(const char *what, int64_t accepted)
{
    printf("# %s: seed %llu, %lld mutants, %lld accepted\n", what, (unsigned long long)seed,
           (long long)n_mutants, (long long)accepted);
}

/* Small tensors, so that most of the file is header. */
static const float values[4] = { 1, 2, 3, 4 };
static const struct yokei_tensor tensors[] = {
    { .name = "wte.weight", .dtype = YOKE_F32, .n_dims = 2, .shape = { 2, 2 }, .data = values },
    { .name = "ln_f.bias", .dtype = YOKE_BF16, .n_dims = 1, .shape = { 3 }, .data = values },
    { .name = "mask", .dtype = YOKE_U8, .n_dims = 2, .shape = { 1, 5 }, .data = values },
};

/* If an accepted mutant has a tensor with its old name and type, it must have the old bits. */
static void check_same_bits(const struct yokei_safetensors *file)
{
    for (size_t i = 0; i < YOKE_COUNT(tensors); i++) {
        const struct yokei_tensor *got = yokei_safetensors_find(file, tensors[i].name);
        if (got && got->bytes) assert_memory_equal(got->data, tensors[i].data, got->bytes);
    }
    for (size_t i = 0; i < yokei_safetensors_count(file); i++) {
        const struct yokei_tensor *got = yokei_safetensors_at(file, i);
        uint64_t sum = 0; /* every byte that is handed out can be read */
        for (size_t j = 0; j < got->bytes; j++) sum += ((const unsigned char *)got->data)[j];
        assert_true(sum <= 255 * got->bytes);
        assert_ptr_equal(yokei_safetensors_find(file, got->name), got);
    }
}

static void safetensors_mutants(void **state)
{
    (void)state;
    unsigned char good[MAX_BYTES];
    int64_t accepted = 0;
    const struct yokei_metadata metadata[] = { { "step", "12" } };
    assert_ok(save_safetensors(in_folder("good.safetensors"), tensors, YOKE_COUNT(tensors), metadata, 1));
    size_t n = read_back(in_folder("good.safetensors"), good);
    for (int64_t i = 0; i < n_mutants; i++) {
        struct yokei_safetensors *file = NULL;
        const char *path = write_mutant("mutant.safetensors", good, n);
        yoke_status status = yokei_safetensors_open(path, 0, &file);
        if (status) {
            check_refusal(status, path);
            assert_null(file);
            continue;
        }
        check_same_bits(file);
        yokei_safetensors_close(file);
        accepted++;
    }
    report("safetensors", accepted);
    assert_true(accepted < n_mutants / 4);
}

static void index_mutants(void **state)
{
    (void)state;
    static const char good[] =
        "{\"metadata\": {\"total_size\": 27}, \"weight_map\": {\"wte.weight\": \"good.safetensors\", "
        "\"ln_f.bias\": \"good.safetensors\", \"mask\": \"good.safetensors\"}}";
    int64_t accepted = 0;
    assert_ok(save_safetensors(in_folder("good.safetensors"), tensors, YOKE_COUNT(tensors), NULL, 0));
    for (int64_t i = 0; i < n_mutants; i++) {
        struct yokei_safetensors *file = NULL;
        const char *path = write_mutant("mutant.index.json", (const unsigned char *)good, sizeof good - 1);
        yoke_status status = yokei_safetensors_open(path, 0, &file);
        if (status) {
            check_refusal(status, path);
            continue;
        }
        assert_int_equal(yokei_safetensors_count(file), YOKE_COUNT(tensors));
        check_same_bits(file);
        yokei_safetensors_close(file);
        accepted++;
    }
    report("index", accepted);
}

static void token_mutants(void **state)
{
    (void)state;
    unsigned char good[1024 + 2 * 40] = { 0 };
    const int32_t header[3] = { 20240520, 1, 40 };
    struct yokei_tokens_config config = YOKEI_TOKENS_CONFIG_INIT;
    int64_t accepted = 0;
    memcpy(good, header, sizeof header);
    for (uint16_t i = 0; i < 40; i++) memcpy(good + 1024 + 2 * i, &i, 2);
    config.vocab = 300;
    for (int64_t i = 0; i < n_mutants; i++) {
        struct yokei_tokens *tokens = NULL;
        int32_t inputs[8], targets[8];
        const char *path = write_mutant("mutant.bin", good, sizeof good);
        yoke_status status = yokei_tokens_open(path, &config, &tokens);
        if (status) {
            check_refusal(status, path);
            continue;
        }
        for (int64_t s = 0; s < 6; s++) { /* samples of 8 tokens and of 1 token */
            assert_ok(yokei_tokens_sample(tokens, seed, s, 8 - (s & 1) * 7, inputs, targets));
            assert_in_range(inputs[0], 0, 299);
        }
        yokei_tokens_close(tokens);
        accepted++;
    }
    report("tokens", accepted);
}

static void json_mutants(void **state)
{
    (void)state;
    static const char config_text[] =
        "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 8, \"n_inner\": null, "
        "\"n_positions\": 16, \"vocab_size\": 32, \"activation_function\": \"gelu_new\"}";
    struct yokei_plan plan = YOKEI_PLAN_INIT, got;
    struct yokei_plan_rank ranks[] = { { "host", 0.5, 5, 2, 1 }, { "opencl:0", 0.5, 3, 3, 1 } };
    struct yokei_plan_progress progress[] = { { 1, 0 }, { 9, 500 } };
    struct yoke_gpt2_config config = { sizeof config, 2, 2, 8, 16, 32, 1e-5, 0.02 };
    char *text = NULL;
    int64_t accepted = 0;
    plan.model.gpt2 = config;
    plan.batch = 8;
    plan.sequence = 16;
    plan.ranks = ranks, plan.n_ranks = 2;
    plan.progress = progress, plan.n_progress = 2;
    assert_ok(plan_text(&plan, &text));
    for (int64_t i = 0; i < n_mutants; i++) {
        const char *path = write_mutant("mutant.json", (const unsigned char *)text, strlen(text));
        yoke_status status = yokei_plan_read(path, &got);
        if (status)
            check_refusal(status, path);
        else {
            assert_ok(yokei_plan_check(&got, path));
            yokei_plan_free(&got);
            accepted++;
        }
        path = write_mutant("mutant-config.json", (const unsigned char *)config_text, sizeof config_text - 1);
        status = yokei_kind_gpt2.read(path, &config);
        if (status)
            check_refusal(status, path);
        else
            assert_ok(yoke_gpt2_check(&config));
    }
    report("plan", accepted);
    free(text);
}

/*
 * A manifest has a checksum of its own text. The checksum of a mutant is corrected, so that the code after
 * the check is reached.
 */
static size_t sign(unsigned char *file, size_t n)
{
    static const char key_text[] = "\"xxh3\": \"";
    unsigned char *found = NULL;
    char hash[20];
    for (unsigned char *p = file; (p = memmem(p, n - (size_t)(p - file), key_text, sizeof key_text - 1)); p++)
        found = p + sizeof key_text - 1;
    if (!found || (size_t)(found - file) + 16 > n) return n;
    memset(found, '0', 16);
    yokei_hash_text(yokei_hash(file, n, 0), hash);
    memcpy(found, hash, 16);
    return n;
}

static void manifest_mutants(void **state)
{
    (void)state;
    struct yokei_plan_rank ranks[] = { { "host", 1, 8, 4, 1 } };
    struct yokei_saved_file files[] = { { "model-00001-of-00001.safetensors", 4000, "0123456789abcdef" },
                                        { "config.json", 200, "0123456789abcdef" } };
    struct yokei_saved_tensor saved[] = { { "wte.weight", "model-00001-of-00001.safetensors",
                                            "0123456789abcdef" } };
    struct yokei_manifest m = { .format = YOKEI_MANIFEST_FORMAT,
                                .version = YOKEI_MANIFEST_VERSION,
                                .yoke = "0.1.0",
                                .data_order = YOKEI_DATA_ORDER,
                                .step = 3,
                                .optimizer_step = 3,
                                .tokens = 384,
                                .seconds = 1.5,
                                .data_next_sample = 24,
                                .seed = 1,
                                .loss_scale = 1,
                                .plan = YOKEI_PLAN_INIT,
                                .files = files,
                                .n_files = 2,
                                .tensors = saved,
                                .n_tensors = 1 };
    const struct yoke_gpt2_config config = { sizeof config, 2, 2, 8, 16, 32, 1e-5, 0.02 };
    unsigned char file[MAX_BYTES];
    char *text = NULL;
    int64_t accepted = 0;
    m.plan.model.gpt2 = config;
    m.plan.batch = 8;
    m.plan.sequence = 16;
    m.plan.ranks = ranks, m.plan.n_ranks = 1;
    assert_ok(yokei_make_folder(in_folder("mutant")));
    assert_ok(yokei_manifest_text(&m, &text));
    for (int64_t i = -1; i < n_mutants; i++) { /* the first is the good one */
        struct yokei_manifest got;
        memcpy(file, text, strlen(text));
        put_file("mutant/" YOKEI_MANIFEST_NAME, file,
                 sign(file, i < 0 ? strlen(text) : mutate(file, strlen(text))));
        const yoke_status status = yokei_manifest_read(in_folder("mutant"), &got);
        if (status) {
            assert_true(i >= 0 && status == YOKE_EDATA);
            check_refusal(status, in_folder("mutant"));
            continue;
        }
        yokei_manifest_free(&got);
        accepted++;
    }
    report("manifests", accepted);
    assert_true(accepted > n_mutants / 100); /* the checksum alone does not refuse them */
    free(text);
}

/*
 * A tokenizer is large, and slow to read, so there are fewer mutants of it. An accepted one must turn text
 * into tokens, or say why it cannot.
 */
static void tokenizer_mutants(void **state)
{
    (void)state;
    static unsigned char good[MAX_BYTES];
    static const char text[] = "In the beginning 1234 words \xf0\x9f\x98\x80 \xff";
    const char *top = getenv("top_srcdir");
    char name[600];
    int64_t accepted = 0;
    snprintf(name, sizeof name, "%s/tests/golden/tokenizer_gpt2.json", top ? top : ".");
    const size_t n = read_back(name, good);
    for (int64_t i = 0; i < n_mutants / 5; i++) {
        struct yokei_bpe *bpe = NULL;
        struct yokei_ids ids = { 0 };
        const char *path = write_mutant("mutant-tokenizer.json", good, n);
        yoke_status status = yokei_bpe_open(path, &bpe);
        if (status) {
            check_refusal(status, path);
            assert_null(bpe);
            continue;
        }
        status = yokei_bpe_encode(bpe, text, sizeof text - 1, 0, &ids);
        for (size_t k = 0; !status && k < ids.n; k++) assert_in_range(ids.id[k], 0, yokei_bpe_n_ids(bpe) - 1);
        free(ids.id);
        yokei_bpe_close(bpe);
        accepted++;
    }
    report("tokenizers (a fifth)", accepted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_mutants), cmocka_unit_test(index_mutants),
        cmocka_unit_test(token_mutants),       cmocka_unit_test(json_mutants),
        cmocka_unit_test(manifest_mutants),    cmocka_unit_test(tokenizer_mutants),
    };
    if (getenv("YOKE_TEST_SEED")) seed = strtoull(getenv("YOKE_TEST_SEED"), NULL, 10);
    if (getenv("YOKE_SOAK")) n_mutants *= 50;
    key = yokei_philox_named(seed, "mutants");
    return cmocka_run_group_tests_name("data_mutants", tests, make_test_folder, remove_test_folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of AMD's code objects: what it finds in objects that clang made, and what it says of bytes that
 * are no such object. Objects that are cut off or changed are refused or read, but nothing outside them is
 * touched; build with --enable-sanitize=address for that part to see it.
 */
#include "tests/unit/gcn_objects.h"

#include "emulate/hip/gcn_object.h"

static struct gcn_object *read_good(const struct bytes *b, uint64_t base)
{
    char reason[GCN_REASON] = "";
    struct gcn_object *object = gcn_object_read(b->data, b->n, base, reason);
    if (!object) fail_msg("a good code object is refused: %s", reason);
    return object;
}

static void refused(const void *data, size_t n, const char *words)
{
    char reason[GCN_REASON] = "";
    struct gcn_object *object = gcn_object_read(data, n, 0, reason);
    if (object) fail_msg("an object is read that should be refused with '%s'", words);
    if (!strstr(reason, words)) fail_msg("the reason '%s' does not contain '%s'", reason, words);
    assert_null(strchr(reason, '\n'));
}

/* ---- what is in an object ---- */

static void test_kernels(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum gcn_arch arch;
        int version;
        uint32_t wave, user_sgprs, properties;
    } objects[] = {
        { "gfx90a", GCN_GFX90A, 4, 64, 6, GCN_PRIVATE_SEGMENT_BUFFER | GCN_KERNARG_SEGMENT_PTR },
        { "gfx942", GCN_GFX942, 5, 64, 2, GCN_KERNARG_SEGMENT_PTR },
        { "gfx1100", GCN_GFX1100, 5, 32, 15, GCN_KERNARG_SEGMENT_PTR | GCN_WAVEFRONT_SIZE32 },
    };
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        struct bytes b = object_of(objects[i].name);
        assert_int_equal(gcn_object_extent(b.data, b.n), b.n);
        struct gcn_object *object = read_good(&b, 0);
        assert_int_equal(object->arch, objects[i].arch);
        assert_int_equal(object->version, objects[i].version);
        assert_int_equal(object->n_entries, 2);
        assert_null(gcn_object_entry(object, "small"));
        const struct gcn_entry *e = gcn_object_entry(object, "small_scale");
        assert_non_null(e);
        static const struct gcn_argument arguments[] = { { 0, 8, GCN_GLOBAL_BUFFER },
                                                         { 8, 8, GCN_GLOBAL_BUFFER },
                                                         { 16, 4, GCN_BY_VALUE },
                                                         { 20, 4, GCN_BY_VALUE } };
        assert_int_equal(e->n_arguments, 4);
        assert_memory_equal(e->arguments, arguments, sizeof arguments);
        assert_int_equal(e->argument_bytes, 24);
        assert_int_equal(e->wave, objects[i].wave);
        assert_int_equal(e->user_sgprs, objects[i].user_sgprs);
        assert_int_equal(e->properties, objects[i].properties);
        assert_int_equal(e->max_threads, 128);
        assert_int_equal(e->shared_bytes, 0);
        assert_true(e->has_block[0] && !e->has_block[1] && !e->has_block[2]);
        assert_int_equal(e->thread_dimensions, 1);
        assert_int_equal(e->round_32, 0);
        assert_int_equal(e->denormals_32, 3);
        assert_int_equal(e->denormals_16_64, 3);
        assert_true(e->ieee && e->dx10_clamp);
        assert_true(e->n_vgprs >= 8 && e->n_vgprs % 8 == 0 && e->accum_offset <= e->n_vgprs);
        assert_true(e->code + e->code_bytes <= object->image_bytes);
        /* the kernel ends with s_endpgm, which has another number on gfx1100 */
        const unsigned char *end = object->image + e->code + e->code_bytes - 4;
        bool ends = false;
        for (; !ends && end > object->image + e->code; end -= 4)
            ends = end[3] == 0xbf && end[2] == (object->arch == GCN_GFX1100 ? 0xb0 : 0x81);
        assert_true(ends);
        assert_int_equal(gcn_object_entry(object, "small_turn")->shared_bytes, 256);
        gcn_object_destroy(object);
        free(b.data);
    }
}

/* The lines of small_scale are 1 to 7 of small.yk, in tables of DWARF 4 and 5. */
static void test_lines(void **state)
{
    (void)state;
    static const char *const names[] = { "gfx942", "gfx1100", "gfx90a" };
    for (int i = 0; i < 3; i++) {
        struct bytes b = object_of(names[i]);
        struct gcn_object *object = read_good(&b, 0);
        const struct gcn_entry *e = gcn_object_entry(object, "small_scale");
        const char *file = NULL;
        int line = 0, before = 0;
        unsigned seen = 0;
        assert_int_equal(gcn_line(object, e->code, &file, &line), i < 2);
        assert_false(gcn_line(object, 0, &file, &line));
        for (uint64_t at = e->code; i < 2 && at < e->code + e->code_bytes; at += 4) {
            if (!gcn_line(object, at, &file, &line)) continue;
            if (line == before) continue;
            assert_true(line >= 1 && line <= 7);
            assert_non_null(strstr(file, "small.yk"));
            before = line, seen |= 1u << line;
        }
        /* the index, the condition and the product */
        if (i < 2) assert_int_equal(seen & (1u << 4 | 1u << 5 | 1u << 6), 1u << 4 | 1u << 5 | 1u << 6);
        gcn_object_destroy(object);
        free(b.data);
    }
}

static void test_hidden(void **state)
{
    (void)state;
    struct gcn_argument arguments[] = {
        { 0, 8, GCN_GLOBAL_BUFFER },           { 8, 4, GCN_HIDDEN_BLOCK_COUNT_Y },
        { 12, 2, GCN_HIDDEN_GROUP_SIZE_X },    { 14, 2, GCN_HIDDEN_GRID_DIMS },
        { 16, 8, GCN_HIDDEN_GLOBAL_OFFSET_Z }, { 24, 4, GCN_HIDDEN_DYNAMIC_LDS_SIZE }
    };
    const struct gcn_entry entry = { .arguments = arguments, .n_arguments = 6, .argument_bytes = 28 };
    static const uint32_t blocks[3] = { 5, 70000, 2 }, threads[3] = { 300, 1, 1 };
    unsigned char segment[28];
    memset(segment, 0xee, sizeof segment);
    gcn_object_hide(&entry, blocks, threads, 1234, segment);
    static const unsigned char expected[28] = { 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0x70, 0x11,
                                                0x01, 0,    0x2c, 0x01, 3,    0,    0,    0,    0,    0,
                                                0,    0,    0,    0,    0xd2, 0x04, 0,    0 };
    assert_memory_equal(segment, expected, sizeof expected);
}

/* ---- bundles, and what is refused ---- */

static void test_bundle(void **state)
{
    (void)state;
    struct bytes b = object_of("bundle"), inner = object_of("gfx90a");
    const void *part = NULL;
    size_t n = 0;
    char reason[GCN_REASON];
    assert_true(gcn_is_bundle(b.data, b.n));
    assert_false(gcn_is_bundle(inner.data, inner.n));
    assert_int_equal(gcn_object_extent(b.data, b.n), b.n);
    assert_true(gcn_bundle_find(b.data, b.n, GCN_GFX90A, &part, &n, reason));
    assert_int_equal(n, inner.n);
    assert_memory_equal(part, inner.data, n);
    assert_false(gcn_bundle_find(b.data, b.n, GCN_GFX942, &part, &n, reason));
    assert_string_equal(reason, "the bundle has no code object for gfx942");
    struct gcn_object *object = read_good(&b, 0);
    assert_int_equal(object->arch, GCN_GFX90A);
    gcn_object_destroy(object);
    refused("CCOB\2\0\0\0", 8, "is compressed");
    refused(b.data, 28, "torn");
    refused(b.data, b.n - 1, "cut off");
    free(b.data);
    free(inner.data);
}

static void test_refused(void **state)
{
    (void)state;
    struct bytes b = object_of("gfx906");
    refused(b.data, b.n, "is for gfx906; gfx90a, gfx942 and gfx1100 can be executed");
    free(b.data);
    b = object_of("newer");
    refused(b.data, b.n, "has version 6; 4 and 5 are known");
    free(b.data);
    refused("", 0, "no code object");
    refused("\177ELF", 4, "no code object");
    refused("//\n// Generated by NVIDIA NVVM Compiler\n", 40, "no code object");
    b = object_of("gfx90a");
    static const struct {
        const char *find, *put, *words;
    } changes[] = {
        /* a text of the metadata or of a name, and what stands in its place */
        { ".value_kind", ".value_kinx", "key '.value_kinx', which is not known" },
        { ".sgpr_count", ".sgpr_coumt", "key '.sgpr_coumt', which is not known" },
        { "global_buffer", "global_puffer", "an argument of kind 'global_puffer', which is not supported" },
        { "amdhsa--gfx90a", "amdhsa--gfx90c", "the metadata are for 'amdgcn-amd-amdhsa--gfx90c'" },
        { "small_scale.kd", "small_scal\n.kd",
          "kernel small_scale has no descriptor small_scal?.kd of 64 bytes" },
        { "AMDGPU", "AMDGPV", "has no metadata" },
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        unsigned char *copy = malloc(b.n);
        memcpy(copy, b.data, b.n);
        bool found = false;
        const size_t length = strlen(changes[i].find);
        for (size_t at = 0; !found && at + length <= b.n; at++)
            if (!memcmp(copy + at, changes[i].find, length)) {
                memcpy(copy + at, changes[i].put, length);
                found = true;
            }
        assert_true(found);
        refused(copy, b.n, changes[i].words);
        free(copy);
    }
    free(b.data);
}

/* Each cut is refused, because the table of sections stands last. */
static void test_cut(void **state)
{
    (void)state;
    static const char *const names[] = { "gfx90a", "gfx1100" };
    for (int i = 0; i < 2; i++) {
        struct bytes b = object_of(names[i]);
        for (size_t n = 0; n < b.n; n += n < 600 ? 1 : 37) {
            unsigned char *copy = malloc(n ? n : 1); /* so that a sanitizer sees a read behind the end */
            memcpy(copy, b.data, n);
            char reason[GCN_REASON] = "";
            assert_null(gcn_object_read(copy, n, 0, reason));
            assert_int_not_equal(reason[0], 0);
            free(copy);
        }
        free(b.data);
    }
}

static uint64_t draw(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Changed bytes: whatever comes of them, a read object is whole. */
static void test_flips(void **state)
{
    (void)state;
    static const char *const names[] = { "gfx90a", "gfx942", "gfx1100", "bundle" };
    const char *soak = getenv("YOKE_SOAK");
    const int trials = soak && !strcmp(soak, "1") ? 200000 : 3000;
    uint64_t seed = 35;
    for (int i = 0; i < 4; i++) {
        struct bytes b = object_of(names[i]);
        unsigned char *copy = malloc(b.n);
        int refusals = 0;
        for (int trial = 0; trial < trials; trial++) {
            memcpy(copy, b.data, b.n);
            for (uint64_t flips = 1 + draw(&seed) % 4; flips; flips--) {
                /* half of them in the headers, the rest anywhere */
                const uint64_t r = draw(&seed);
                const size_t at = (size_t)(r >> 16) % (r & 1 ? 600 : b.n);
                copy[at] = r & 2 ? (unsigned char)(r >> 8) : (unsigned char)(copy[at] ^ 1u << (r >> 8 & 7));
            }
            char reason[GCN_REASON] = "";
            struct gcn_object *object = gcn_object_read(copy, b.n, draw(&seed), reason);
            refusals += !object;
            if (!object) assert_int_not_equal(reason[0], 0);
            for (int k = 0; object && k < object->n_entries; k++) {
                const struct gcn_entry *e = &object->entries[k];
                assert_true(e->code <= object->image_bytes && e->code_bytes <= object->image_bytes - e->code);
                const char *file = "";
                int line = 0;
                if (gcn_line(object, e->code, &file, &line)) assert_true(strlen(file) < b.n && line >= 0);
            }
            gcn_object_destroy(object);
        }
        assert_in_range(refusals, trials / 10, trials - 1);
        free(copy);
        free(b.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels), cmocka_unit_test(test_lines),   cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_bundle),  cmocka_unit_test(test_refused), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_flips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

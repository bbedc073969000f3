/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the executor of AMD machine code finds in kernels that are wrong, and what it lets pass: waits,
 * barriers, races, bounds and limits, and approximations. The kernels are those of
 * tests/unit/gcn/faults.list, in machine code, so that the test needs no compiler.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>

#include "emulate/hip/gcn.h"

enum { BYTES = 1 << 16, P = 1024, Q = 8192, LANES = 128 };
#define BASE ((uint64_t)0x200000000)

static void *module;
static unsigned char *object;
static size_t object_bytes;
static unsigned char data[BYTES], state[BYTES];
static uint64_t touched[BYTES];
static struct kernel_fault fault;
static struct kernel_counts counts;
static const struct kernel_limits limits = { .grid = { 1 << 20, 65535, 65535 },
                                             .block = { 1024, 1024, 1024 },
                                             .threads = 1024,
                                             .shared_bytes = 65536,
                                             .target = 0x90a };

/* Read an object of faults.txt. The caller frees it. */
static unsigned char *read_object(const char *name, size_t *bytes_out)
{
    const char *top = getenv("top_srcdir");
    char path[1024], line[256], hex[65], found[32];
    unsigned char *bytes = NULL;
    bool is_it = false;
    snprintf(path, sizeof path, "%s/tests/unit/gcn/faults.txt", top ? top : ".");
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("%s cannot be opened", path);
    unsigned long n;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "object %31s %lu", found, &n) == 2) {
            is_it = !strcmp(found, name);
            if (!is_it) continue;
            bytes = calloc(1, n);
            *bytes_out = n;
        } else if (is_it && sscanf(line, "%lx %64s", &n, hex) == 2) {
            for (size_t i = 0; hex[2 * i] && n + i < *bytes_out; i++) {
                unsigned byte = 0;
                assert_int_equal(1, sscanf(hex + 2 * i, "%2x", &byte));
                bytes[n + i] = (unsigned char)byte;
            }
        }
    }
    if (file) fclose(file);
    assert_non_null(bytes);
    return bytes;
}

static int set_up(void **unused)
{
    (void)unused;
    object = read_object("faults", &object_bytes);
    if (gcn_executor.load(object, object_bytes, &fault, &module))
        fail_msg("the object is refused: %s", fault.text);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    gcn_executor.unload(module);
    free(object);
    return 0;
}

/* LANES words at P that are defined, and LANES words at Q that are not. */
static void fill(const uint32_t *words)
{
    memset(state, BYTE_OUTSIDE, sizeof state);
    memset(state + P, BYTE_DEFINED, 4 * LANES);
    memset(state + Q, BYTE_UNDEFINED, 4 * LANES);
    for (uint32_t i = 0; i < LANES; i++) {
        const uint32_t word = words ? words[i] : 1000 + i;
        memcpy(data + P + 4 * i, &word, 4);
    }
}

static struct kernel_memory memory = {
    .base = BASE, .bytes = BYTES, .data = data, .state = state, .touched = touched
};
static const uint64_t arguments[2] = { BASE + P, BASE + Q };

static struct kernel_launch launch_of(const char *name, uint32_t blocks, uint32_t threads)
{
    const struct kernel_launch launch = { .kernel = gcn_executor.kernel(module, name),
                                          .grid = { blocks, 1, 1 },
                                          .block = { threads, 1, 1 },
                                          .parameters = arguments,
                                          .memory = &memory,
                                          .limits = &limits,
                                          .most_instructions = 1 << 20,
                                          .counts = &counts };
    if (!launch.kernel) fail_msg("there is no kernel %s", name);
    return launch;
}

static void run(const char *name, uint32_t blocks, uint32_t threads)
{
    const struct kernel_launch launch = launch_of(name, blocks, threads);
    memset(&counts, 0, sizeof counts);
    gcn_executor.run(&launch, &fault);
}

static void expect_fault(const char *name, uint32_t blocks, uint32_t threads, enum kernel_error error,
                         const char *words)
{
    fill(NULL);
    run(name, blocks, threads);
    if (fault.error != error)
        fail_msg("%s: %s instead of %s: %s", name, kernel_error_name(fault.error), kernel_error_name(error),
                 fault.text);
    if (!strstr(fault.text, words)) fail_msg("%s: '%s' does not contain '%s'", name, fault.text, words);
    if (strncmp(fault.text, name, strlen(name)) != 0)
        fail_msg("%s: '%s' does not name the kernel", name, fault.text);
}

static uint32_t word_at(uint32_t offset)
{
    uint32_t word;
    memcpy(&word, data + offset, 4);
    return word;
}

/* A kernel that is right, and what it writes to word i of q. */
static void expect_words(const char *name, uint32_t threads, uint32_t (*wanted)(uint32_t i))
{
    fill(NULL);
    run(name, 1, threads);
    if (fault.error) fail_msg("unexpected: %s", fault.text);
    for (uint32_t i = 0; i < threads; i++)
        if (word_at(Q + 4 * i) != wanted(i))
            fail_msg("%s: word %u is %u instead of %u", name, i, word_at(Q + 4 * i), wanted(i));
}

static uint32_t same(uint32_t i) { return 1000 + i; }
static uint32_t own(uint32_t i) { return i; }
static uint32_t neighbour(uint32_t i) { return i ^ 1; }
static uint32_t other_wave(uint32_t i) { return i ^ 64; }

/* ---- tests ---- */

static void test_waits(void **unused)
{
    (void)unused;
    expect_words("copy", 128, same);
    expect_words("first_of_two", 64, same);
    expect_words("shared_in_order", 64, own);
    expect_fault("unwaited_load", 1, 64, KERNEL_UNWAITED, "global_store_dword uses v2 before the load");
    expect_fault("overwritten_load", 1, 64, KERNEL_UNWAITED, "v_mov_b32 uses v2");
    expect_fault("second_of_two", 1, 64, KERNEL_UNWAITED, "uses v3");
    expect_fault("unwaited_scalar", 1, 64, KERNEL_UNWAITED, "s_add_u32 uses s12 before the scalar load");
    expect_fault("scalars_in_any_order", 1, 64, KERNEL_UNWAITED, "uses s12");
    expect_fault("unwaited_barrier", 1, 64, KERNEL_UNWAITED, "waits at a barrier, but its access of LDS");
    /* the place: the line of the source, and the offset of the instruction in the kernel */
    expect_fault("unwaited_load", 1, 64, KERNEL_UNWAITED, "faults.s:");
    assert_true(fault.source_line > 0);
    assert_int_equal(0x18, fault.line);
    assert_string_equal("faults.s",
                        strrchr(fault.source, '/') ? strrchr(fault.source, '/') + 1 : fault.source);
}

static void test_barriers(void **unused)
{
    (void)unused;
    expect_words("exchange", 128, other_wave);
    assert_int_equal(1, counts.barriers);
    assert_int_equal(2, counts.warps);
    expect_fault("some_lanes_at_barrier", 1, 64, KERNEL_DIVERGENCE,
                 "the lanes 0xff of its 0xffffffffffffffff");
    expect_fault("wave_ends", 1, 128, KERNEL_DIVERGENCE, "wave 1 has ended");
    expect_fault("other_barrier", 1, 128, KERNEL_DIVERGENCE, "wave 0 waits at another one");
}

static void test_races(void **unused)
{
    (void)unused;
    expect_words("exchange_in_wave", 64, neighbour);
    expect_fault("exchange_without_barrier", 1, 128, KERNEL_UNINITIALISED, "shared memory");
    expect_fault("exchange_without_barrier", 1, 128, KERNEL_UNINITIALISED, "never written");
    expect_fault("lanes_meet_in_shared", 1, 64, KERNEL_SHARED_RACE,
                 "another lane writes by the same instruction");
    expect_fault("lanes_meet", 1, 64, KERNEL_GLOBAL_RACE, "another lane writes by the same instruction");
    expect_fault("blocks_meet", 2, 64, KERNEL_GLOBAL_RACE, "wrote in the same launch");
    expect_fault("waves_meet", 1, 128, KERNEL_GLOBAL_RACE, "of the same block wrote, with no barrier");
}

static void test_memory(void **unused)
{
    (void)unused;
    expect_words("scratch", 64, own);
    expect_fault("beyond", 1, 128, KERNEL_OUT_OF_BOUNDS,
                 "thread (127,0,0) of block (0,0,0) reads 4 bytes at 0x200000600");
    assert_int_equal(BASE + P + 4 * LANES, fault.address);
    expect_fault("misaligned", 1, 64, KERNEL_MISALIGNED, "no multiple");
    expect_fault("shared_misaligned", 1, 64, KERNEL_MISALIGNED, "of shared memory");
    expect_words("atomics", 64, same);
    assert_int_equal(1064, word_at(P));
    expect_fault("undefined", 1, 64, KERNEL_UNINITIALISED, "never written");
    expect_fault("shared_beyond", 1, 64, KERNEL_OUT_OF_BOUNDS, "at 1024 of shared memory outside");
    expect_fault("shared_undefined", 1, 64, KERNEL_UNINITIALISED, "of shared memory that were never written");
    expect_fault("scratch_undefined", 1, 64, KERNEL_UNINITIALISED,
                 "of scratch memory that were never written");
    expect_fault("scratch_beyond", 1, 64, KERNEL_OUT_OF_BOUNDS, "at 64 of scratch memory outside");
    expect_fault("other_buffer", 1, 64, KERNEL_OUT_OF_BOUNDS, "only the buffer of scratch memory is known");
    expect_fault("arguments_beyond", 1, 64, KERNEL_OUT_OF_BOUNDS, "reads 8 bytes at 32 of its arguments");
    expect_fault("wrong_argument", 1, 64, KERNEL_OUT_OF_BOUNDS, "outside all allocations");
}

static void test_control(void **unused)
{
    (void)unused;
    expect_fault("forever", 1, 64, KERNEL_TIMEOUT, "is still running");
    expect_fault("trap", 1, 64, KERNEL_TRAP, "executes s_trap");
    expect_fault("flushes", 1, 64, KERNEL_SYNTAX, "subnormal numbers are flushed");
    expect_fault("astray", 1, 64, KERNEL_OUT_OF_BOUNDS, "where no instruction begins");
    fill(NULL);
    run("copy", 2, 64); /* both blocks write the same words */
    assert_int_equal(KERNEL_GLOBAL_RACE, fault.error);
    fill(NULL);
    run("copy", 1, 100);
    assert_int_equal(KERNEL_OK, fault.error);
    assert_int_equal(16, counts.warp_instructions);
    assert_int_equal(8 * 100, counts.instructions);
    assert_int_equal(400, counts.bytes_loaded);
    assert_int_equal(400, counts.bytes_stored);
    assert_int_equal(13, counts.sectors_stored);
}

static void expect_refusal(const struct kernel_launch *launch, enum kernel_error error, const char *words)
{
    gcn_executor.run(launch, &fault);
    assert_int_equal(error, fault.error);
    if (!strstr(fault.text, words)) fail_msg("'%s' does not contain '%s'", fault.text, words);
}

static void test_limits(void **unused)
{
    (void)unused;
    struct kernel_launch launch = launch_of("copy", 1, 512);
    expect_refusal(&launch, KERNEL_LIMIT, "the kernel is compiled for 256");
    launch = launch_of("copy", 1, 64);
    launch.dynamic_shared_bytes = 65536;
    expect_refusal(&launch, KERNEL_LIMIT, "needs 66560 bytes of LDS; 65536 are possible");
    struct kernel_limits other = limits;
    other.target = 0x942;
    launch = launch_of("copy", 1, 64);
    launch.limits = &other;
    expect_refusal(&launch, KERNEL_TARGET, "the code is for gfx90a, and the device is gfx942");
    uint32_t offset, bytes;
    assert_true(gcn_executor.parameter(launch.kernel, 1, &offset, &bytes));
    assert_int_equal(8, offset);
    assert_int_equal(8, bytes);
    assert_false(gcn_executor.parameter(launch.kernel, 2, &offset, &bytes));
    assert_int_equal(64, gcn_executor.info(launch.kernel).local_bytes);
}

/* A kernel that no GPU has room for is named with its line, by the loader's facts and at its launch. */
static void test_room(void **unused)
{
    static const struct {
        const char *object, *kernel;
        uint32_t shared, scratch;
        const char *text;
    } rows[] = {
        { "lds", "wide", 65540, 64,
          "wide: a block needs 65540 bytes of LDS; 65536 are possible; lds.s:8, offset 0x0" },
        { "scratch", "deep", 1024, 131060,
          "deep: a thread needs 131060 bytes of scratch memory; 131056 are possible; scratch.s:8, offset 0x0" },
    };
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t bytes = 0;
        void *other;
        unsigned char *from = read_object(rows[i].object, &bytes);
        if (gcn_executor.load(from, bytes, &fault, &other)) fail_msg("%s", fault.text);
        struct kernel_launch launch = launch_of("copy", 1, 64);
        launch.kernel = gcn_executor.kernel(other, rows[i].kernel);
        assert_non_null(launch.kernel);
        const struct kernel_info info = gcn_executor.info(launch.kernel);
        assert_int_equal(rows[i].shared, info.shared_bytes);
        assert_int_equal(rows[i].scratch, info.local_bytes);
        assert_int_equal(131056, info.most_local_bytes);
        if (!info.source || !strstr(info.source, rows[i].object) || info.source_line != 8)
            fail_msg("%s begins at %s:%d", rows[i].kernel, info.source ? info.source : "?", info.source_line);
        expect_refusal(&launch, KERNEL_LIMIT, rows[i].text);
        gcn_executor.unload(other);
        free(from);
    }
}

/* An instruction that is not known is named when the object is loaded. */
static void test_unknown(void **unused)
{
    (void)unused;
    static const unsigned char hint[4] = { 0x77, 0, 0x80, 0xbf };
    unsigned char *changed = malloc(object_bytes);
    assert_non_null(changed);
    memcpy(changed, object, object_bytes);
    int found = 0;
    for (size_t i = 0; i + 4 <= object_bytes; i += 4)
        if (!memcmp(changed + i, hint, 4)) {
            changed[i + 2] = 0xff;
            found++;
        }
    assert_int_equal(1, found);
    void *other = NULL;
    assert_int_equal(KERNEL_SYNTAX, gcn_executor.load(changed, object_bytes, &fault, &other));
    assert_null(other);
    assert_string_equal("copy", fault.kernel);
    if (!strstr(fault.text, "number 127 of format SOPP (words bfff0077")) fail_msg("'%s'", fault.text);
    free(changed);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

/*
 * How many of the 128 results differ from the rounded ones, and whether one is farther off than its
 * neighbour.
 */
static int differing(const char *name, float (*wanted)(float), uint32_t *most_out)
{
    uint32_t words[LANES], most = 0;
    int n = 0;
    for (uint32_t i = 0; i < LANES; i++) words[i] = bits_of(1.0f + 0.37f * (float)i);
    fill(words);
    run(name, 1, LANES);
    if (fault.error) fail_msg("unexpected: %s", fault.text);
    for (uint32_t i = 0; i < LANES; i++) {
        float x;
        memcpy(&x, &words[i], 4);
        const uint32_t bits = bits_of(wanted(x)), got = word_at(Q + 4 * i);
        const uint32_t distance = got > bits ? got - bits : bits - got;
        n += distance != 0;
        most = distance > most ? distance : most;
    }
    *most_out = most;
    return n;
}

static float inverse(float x) { return 1.0f / x; }

/* Approximations differ by seeds, but a quotient does not, because it is corrected. */
static void test_seeds(void **unused)
{
    (void)unused;
    uint32_t most, results[2][LANES];
    for (int seed = 0; seed < 4; seed++) {
        char text[8];
        snprintf(text, sizeof text, "%d", seed);
        setenv("YOKE_EMULATE_SEED", text, 1);
        assert_int_equal(0, differing("quotient", inverse, &most));
        const int inverses = differing("inverse", inverse, &most);
        memcpy(results[seed & 1], data + Q, sizeof results[0]);
        assert_true(inverses > 20 && inverses < 108 && most == 1);
        if (seed) assert_memory_not_equal(results[0], results[1], sizeof results[0]);
        const int roots = differing("root", sqrtf, &most);
        assert_true(roots > 20 && roots < 108 && most == 1);
    }
    unsetenv("YOKE_EMULATE_SEED");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_waits),   cmocka_unit_test(test_barriers),
                                        cmocka_unit_test(test_races),   cmocka_unit_test(test_memory),
                                        cmocka_unit_test(test_control), cmocka_unit_test(test_limits),
                                        cmocka_unit_test(test_room),    cmocka_unit_test(test_unknown),
                                        cmocka_unit_test(test_seeds) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

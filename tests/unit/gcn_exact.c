/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotients and square roots of AMD's GPUs begin with an approximation, which a sequence of instructions
 * corrects. The executor draws the errors of approximations from a seed. The results must be those of IEEE
 * 754 for each seed, subnormal numbers included, on all architectures. The kernels are those of
 * tests/unit/gcn/exact.hip.
 */
#include "tests/unit/gcn_objects.h"

#include <math.h>

#include "emulate/hip/gcn.h"
#include "emulate/hip/gcn_object.h"

enum { BASE = 0x10000, BLOCKS = 16, NUMBERS = 64 * BLOCKS, ARRAY = 8 * NUMBERS, MEMORY = 3 * ARRAY };

static uint64_t draw(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* The arrays q, a and b, one behind the other. */
struct world {
    unsigned char data[MEMORY], state[MEMORY];
    uint64_t touched[MEMORY];
};

static void run(const void *kernel, enum gcn_arch arch, struct world *w)
{
    static const uint32_t targets[GCN_ARCHS] = { 0x90a, 0x942, 0x1100 };
    const uint64_t parameters[3] = { BASE, BASE + ARRAY, BASE + 2 * ARRAY };
    const struct kernel_memory memory = {
        .base = BASE, .bytes = MEMORY, .data = w->data, .state = w->state, .touched = w->touched
    };
    const struct kernel_limits limits = { .grid = { 1024, 1, 1 },
                                          .block = { 64, 1, 1 },
                                          .threads = 64,
                                          .shared_bytes = 65536,
                                          .target = targets[arch] };
    const struct kernel_launch launch = { .kernel = kernel,
                                          .grid = { BLOCKS, 1, 1 },
                                          .block = { 64, 1, 1 },
                                          .parameters = parameters,
                                          .memory = &memory,
                                          .limits = &limits };
    struct kernel_fault fault;
    memset(w->state, BYTE_DEFINED, sizeof w->state);
    memset(w->touched, 0, sizeof w->touched);
    if (gcn_executor.run(&launch, &fault)) fail_msg("%s", fault.text);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Any bits, numbers near 1, and special ones. */
static uint32_t number(uint64_t *seed)
{
    static const uint32_t special[] = { 0,          0x80000000, 0x7f800000, 0xff800000,
                                        0x7fc00000, 1,          0x80000001, 0x7fffff,
                                        0x00800000, 0x7f7fffff, 0x3f800000, 0x7e800000,
                                        0x7effffff, 0x34000000, 0x3fffffff, 0xc07fffff };
    const uint64_t r = draw(seed);
    switch (r >> 32 & 7) {
    case 0: return special[r % (sizeof special / sizeof *special)];
    case 1: return (uint32_t)(r & 0x807fffff); /* subnormal */
    case 2: return (uint32_t)(r & 0x80ffffff) | 0x7e000000;
    case 3:
    case 4: return (uint32_t)(r & 0x80ffffff) | 0x3f000000;
    default: return (uint32_t)r;
    }
}

static void check_floats(const char *what, enum gcn_arch arch, const struct world *w, const char *seed)
{
    const uint32_t *q = (const void *)w->data, *a = (const void *)(w->data + ARRAY),
                   *b = (const void *)(w->data + 2 * ARRAY);
    for (int i = 0; i < NUMBERS; i++) {
        const float x = float_of(a[i]), y = float_of(b[i]), expected = *what == 'q' ? x / y : sqrtf(x);
        if (isnan(expected) ? isnan(float_of(q[i])) : q[i] == bits_of(expected)) continue;
        fail_msg("%s, seed %s: %s of %08x and %08x is %08x instead of %08x", gcn_arch_name(arch), seed, what,
                 a[i], b[i], q[i], bits_of(expected));
    }
}

static void check_whole(enum gcn_arch arch, const struct world *w, const char *seed)
{
    const uint64_t *q = (const void *)w->data, *a = (const void *)(w->data + ARRAY),
                   *b = (const void *)(w->data + 2 * ARRAY);
    for (int i = 0; i < NUMBERS; i++) {
        const uint64_t expected = b[i] ? a[i] / b[i] : 0;
        if (q[i] != expected)
            fail_msg("%s, seed %s: %llu / %llu is %llu", gcn_arch_name(arch), seed, (unsigned long long)a[i],
                     (unsigned long long)b[i], (unsigned long long)q[i]);
    }
}

static void test_exact(void **state)
{
    (void)state;
    static struct world w;
    const char *soak = getenv("YOKE_SOAK");
    const int rounds = soak && !strcmp(soak, "1") ? 5000 : 100;
    for (int a = 0; a < GCN_ARCHS; a++) {
        char name[32];
        snprintf(name, sizeof name, "exact-%s", gcn_arch_name((enum gcn_arch)a));
        struct bytes b = object_of(name);
        struct kernel_fault fault;
        void *module = NULL;
        uint64_t seed = 7;
        if (gcn_executor.load(b.data, b.n, &fault, &module)) fail_msg("%s", fault.text);
        for (int round = 0; round < rounds; round++) {
            char text[16];
            snprintf(text, sizeof text, "%d", round);
            setenv("YOKE_EMULATE_SEED", text, 1);
            uint32_t *words = (void *)(w.data + ARRAY);
            for (int i = 0; i < 2 * ARRAY / 4; i++) words[i] = number(&seed);
            run(gcn_executor.kernel(module, "quotients"), (enum gcn_arch)a, &w);
            check_floats("quotient", (enum gcn_arch)a, &w, text);
            run(gcn_executor.kernel(module, "roots"), (enum gcn_arch)a, &w);
            check_floats("root", (enum gcn_arch)a, &w, text);
            uint64_t *longs = (void *)(w.data + ARRAY);
            for (int i = 0; i < 2 * NUMBERS; i++) longs[i] = draw(&seed) >> draw(&seed) % 64;
            run(gcn_executor.kernel(module, "whole_quotients"), (enum gcn_arch)a, &w);
            check_whole((enum gcn_arch)a, &w, text);
        }
        gcn_executor.unload(module);
        free(b.data);
    }
    unsetenv("YOKE_EMULATE_SEED");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_exact) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

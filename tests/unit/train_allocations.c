/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training step must not allocate memory, neither in the trainer nor in the ops. This program replaces
 * malloc and similar functions, and counts the calls of all threads between two marks. The first steps may
 * allocate, because primitives are made, threads start, and arenas grow.
 * When oneDNN executes a matrix product, it allocates three small C++ objects. On a CPU without AVX-512 its
 * f32 product also allocates a page-aligned buffer in each call. The test recognises both by their caller:
 * the objects must be small, and the buffer must be aligned to a page. If a step made primitives, the test
 * would fail, because then oneDNN also allocates memory with other alignments.
 */
#include "tests/unit/test.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "train/run/loop.h"

enum { WARM_UP = 2, COUNTED = 3, BATCH = 6, T = 16, SMALL = 1024, PAGE = 4096 };
static atomic_int counted; /* allocations by Yoke, and large ones by any library */
static atomic_bool counts;

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined __GLIBC__
enum { CAN_COUNT = 0 };
#else
enum { CAN_COUNT = 1 };

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);

static bool is_in(const void *caller, const char *library)
{
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, library);
}

static void note(const void *caller, size_t alignment, size_t n)
{
    if (!atomic_load_explicit(&counts, memory_order_relaxed)) return;
    const bool is_new = n <= SMALL && is_in(caller, "libstdc++"),
               is_scratch = alignment == PAGE && is_in(caller, "libdnnl");
    if (!is_new && !is_scratch) atomic_fetch_add(&counted, 1);
}

#define NOTE_ALIGNED(alignment, n) note(__builtin_return_address(0), alignment, n)
#define NOTE(n) NOTE_ALIGNED(0, n)
void *malloc(size_t n) { return NOTE(n), __libc_malloc(n); }
void *calloc(size_t n, size_t each) { return NOTE(n * each), __libc_calloc(n, each); }
void *realloc(void *p, size_t n) { return NOTE(n), __libc_realloc(p, n); }
void *aligned_alloc(size_t alignment, size_t n)
{
    return NOTE_ALIGNED(alignment, n), __libc_memalign(alignment, n);
}
void *memalign(size_t alignment, size_t n)
{
    return NOTE_ALIGNED(alignment, n), __libc_memalign(alignment, n);
}
int posix_memalign(void **out, size_t alignment, size_t n)
{
    return NOTE_ALIGNED(alignment, n), (*out = __libc_memalign(alignment, n)) ? 0 : ENOMEM;
}
#endif

/* Allocations of COUNTED steps, after some that are not counted. */
static int of_steps(const char *device, yoke_dtype precision, int64_t micro_batch)
{
    const struct yoke_gpt2_config config = { sizeof config, 2, 2, 64, T, 259, 1e-5, 0.02 };
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    struct yoke_step_result result;
    yoke_device *d;
    yoke_model *m;
    yoke_trainer *t;
    int32_t tokens[BATCH * T];
    c.precision = precision, c.batch = BATCH, c.micro_batch = micro_batch, c.sequence = T, c.clip = 1;
    for (int i = 0; i < BATCH * T; i++) tokens[i] = i * 7 % 259;
    assert_ok(yoke_device_open(device, NULL, &d));
    assert_ok(yoke_model_gpt2(&config, &m));
    assert_ok(yoke_trainer_create(m, d, &c, &t));
    for (int i = -WARM_UP; i < COUNTED; i++) {
        if (i == 0) atomic_store(&counted, 0), atomic_store(&counts, true);
        const yoke_status backward = yoke_trainer_backward(t, tokens, tokens, 0, &result),
                          apply = backward ? backward : yoke_trainer_apply(t, 1e-3, &result);
        if (apply) atomic_store(&counts, false);
        assert_ok(apply);
    }
    atomic_store(&counts, false);
    assert_ok(yoke_trainer_destroy(t));
    assert_ok(yoke_model_destroy(m));
    assert_ok(yoke_device_close(d));
    return atomic_load(&counted);
}

/* Check that allocations are seen. Otherwise a count of 0 would mean nothing. */
static void counter(void **state)
{
    (void)state;
    if (!CAN_COUNT) skip();
    void *aligned = NULL;
    atomic_store(&counted, 0), atomic_store(&counts, true);
    void *volatile plain = malloc(100);
    plain = realloc(plain, 200);
    const int status = posix_memalign(&aligned, 64, 128);
    atomic_store(&counts, false);
    free(plain), free(aligned);
    assert_int_equal(status, 0);
    assert_int_equal(atomic_load(&counted), 3);
}

static void steps(void **state)
{
    (void)state;
    const yoke_dtype precisions[] = { YOKE_F32, YOKE_BF16, YOKE_F16 };
    if (!CAN_COUNT) skip();
    for (size_t i = 0; i < YOKE_COUNT(precisions); i++) /* One; and two, of which a shorter one comes last. */
        for (int64_t micro_batch = BATCH; micro_batch > 0; micro_batch -= 4) {
            const int n = of_steps("host", precisions[i], micro_batch);
            if (n)
                fail_msg("%d steps in %s with micro-batches of %d allocated %d times", COUNTED,
                         yoke_dtype_name(precisions[i]), (int)micro_batch, n);
        }
    assert_int_equal(of_steps("reference", YOKE_F32, BATCH), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(counter), cmocka_unit_test(steps) };
    return cmocka_run_group_tests_name("allocations", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/** A small device for tests of the PTX executor: memory with gaps between its allocations, and launches. */
#ifndef TESTS_UNIT_PTX_WORLD_H
#define TESTS_UNIT_PTX_WORLD_H

#include "emulate/cuda/ptx.h"
#include "tests/unit/test.h"

struct ptx_world {
    struct kernel_memory memory;
    struct kernel_limits limits;
    struct kernel_counts counts; /* of the last launch */
    struct kernel_fault fault;   /* of the last launch or text */
    uint64_t top, seed, most_instructions;
    uint32_t dynamic_shared_bytes;
    bool uncounted; /* launch without counts */
};

/** One argument of a kernel, by its bits. */
struct ptx_world_argument {
    uint64_t bits;
};
#define ARGUMENT_Q(x) \
    {                 \
        (uint64_t)(x) \
    }
#define ARGUMENT_W(x) \
    {                 \
        (uint32_t)(x) \
    }
#define ARGUMENT_F(x)     \
    {                     \
        ptx_float_bits(x) \
    }
#define ARGUMENTS(...)                                                   \
    (const struct ptx_world_argument[]){ __VA_ARGS__ },                  \
        (int)(sizeof((const struct ptx_world_argument[]){ __VA_ARGS__ }) \
              / sizeof(struct ptx_world_argument))

uint32_t ptx_float_bits(float x);
float ptx_float_of(uint32_t bits);

void ptx_world_open(struct ptx_world *w, size_t bytes);
void ptx_world_close(struct ptx_world *w);
/**
 * Allocate bytes behind a gap. `content` may be NULL; then the bytes are undefined. Returns the address.
 */
uint64_t ptx_world_new(struct ptx_world *w, size_t bytes, const void *content);
void *ptx_world_at(const struct ptx_world *w, uint64_t address);

/** Parse a text, which must be good. The caller destroys the module. */
struct ptx_module *ptx_world_parse(struct ptx_world *w, const char *text);
/** A text with one kernel "k", whose parameters and body are given. The caller frees it. */
char *ptx_world_text(const char *parameters, const char *body);
/** Launch blocks of `threads` threads. */
enum kernel_error ptx_world_run(struct ptx_world *w, const struct ptx_kernel *kernel, const uint32_t grid[3],
                                const uint32_t block[3], const struct ptx_world_argument *arguments, int n);

/** Assert that the last launch or text failed so, and that the message has the words. */
#define assert_fault(w, wanted, words)                                                                       \
    do {                                                                                                     \
        if ((w)->fault.error != (wanted))                                                                    \
            fail_msg("%s instead of %s: %s", kernel_error_name((w)->fault.error), kernel_error_name(wanted), \
                     (w)->fault.text);                                                                       \
        if (!strstr((w)->fault.text, (words)))                                                               \
            fail_msg("the message '%s' does not contain '%s'", (w)->fault.text, (words));                    \
    } while (0)
#define assert_good(w)                                                     \
    do {                                                                   \
        if ((w)->fault.error) fail_msg("unexpected: %s", (w)->fault.text); \
    } while (0)

#endif

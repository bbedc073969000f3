/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/ptx_world.h"

#include <stdlib.h>

enum { GAP = 256 };

uint32_t ptx_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

float ptx_float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void ptx_world_open(struct ptx_world *w, size_t bytes)
{
    *w = (struct ptx_world){ .memory = { .base = 0x700000000000, .bytes = bytes },
                             .limits = { { 0x7fffffff, 65535, 65535 }, { 1024, 1024, 64 }, 1024, 49152, 90 },
                             .seed = 1 };
    w->memory.data = calloc(bytes, 1);
    w->memory.state = calloc(bytes, 1);
    w->memory.touched = calloc(bytes, sizeof *w->memory.touched);
    assert_true(w->memory.data && w->memory.state && w->memory.touched);
}

void ptx_world_close(struct ptx_world *w)
{
    free(w->memory.data);
    free(w->memory.state);
    free(w->memory.touched);
}

uint64_t ptx_world_new(struct ptx_world *w, size_t bytes, const void *content)
{
    const uint64_t at = w->top + GAP;
    w->top = at + (bytes + GAP - 1) / GAP * GAP;
    assert_true(w->top + GAP <= w->memory.bytes);
    memset(w->memory.state + at, content ? BYTE_DEFINED : BYTE_UNDEFINED, bytes);
    if (content) memcpy(w->memory.data + at, content, bytes);
    return w->memory.base + at;
}

void *ptx_world_at(const struct ptx_world *w, uint64_t address)
{
    return w->memory.data + (address - w->memory.base);
}

char *ptx_world_text(const char *parameters, const char *body)
{
    static const char form[] = ".version 9.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry k(%s)\n{\n%s\n}\n.file 1 \"/tmp/test.yk\"\n";
    const size_t bytes = sizeof form + strlen(parameters) + strlen(body);
    char *text = malloc(bytes);
    assert_non_null(text);
    snprintf(text, bytes, form, parameters, body);
    return text;
}

struct ptx_module *ptx_world_parse(struct ptx_world *w, const char *text)
{
    struct ptx_module *module;
    ptx_parse(text, strlen(text), &module, &w->fault);
    assert_good(w);
    assert_non_null(module);
    return module;
}

enum kernel_error ptx_world_run(struct ptx_world *w, const struct ptx_kernel *kernel, const uint32_t grid[3],
                                const uint32_t block[3], const struct ptx_world_argument *arguments, int n)
{
    unsigned char parameters[1024] = { 0 };
    uint32_t offset, bytes;
    assert_non_null(kernel);
    for (int i = 0; i < n; i++) {
        assert_true(ptx_kernel_parameter(kernel, i, &offset, &bytes));
        memcpy(parameters + offset, &arguments[i].bits, bytes);
    }
    assert_false(ptx_kernel_parameter(kernel, n, &offset, &bytes));
    memset(&w->counts, 0, sizeof w->counts);
    const struct kernel_launch launch = { .kernel = kernel,
                                          .grid = { grid[0], grid[1], grid[2] },
                                          .block = { block[0], block[1], block[2] },
                                          .dynamic_shared_bytes = w->dynamic_shared_bytes,
                                          .parameters = parameters,
                                          .memory = &w->memory,
                                          .limits = &w->limits,
                                          .seed = w->seed,
                                          .most_instructions = w->most_instructions,
                                          .counts = w->uncounted ? NULL : &w->counts };
    const enum kernel_error error = ptx_run(&launch, &w->fault);
    assert_int_equal(error, w->fault.error);
    return error;
}

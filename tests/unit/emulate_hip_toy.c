/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executor for tests of a stand-in driver. A program is a line with a processor and names of kernels, such
 * as "toy gfx942 add_one". A kernel is a function below, which checks what it touches as an executor must.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/gpu/driver.h"
#include "emulate/gpu/kernel_footprint.h"
#include "emulate/hip/hip.h"

struct toy_kernel {
    const char *name;
    int n_parameters;
    uint32_t offsets[3], bytes[3], parameter_bytes, shared_bytes;
    enum kernel_error (*run)(const struct kernel_launch *launch, struct kernel_fault *fault);
};

/* A kernel of a module. */
struct kernel_handle {
    const struct toy_kernel *kernel; /* NULL: the module does not have it */
    uint32_t target;
};

enum { N_KERNELS = 4 };
struct toy {
    struct kernel_handle handles[N_KERNELS];
};

/* The word at an address, if it may be touched so. */
static uint32_t *word_at(const struct kernel_launch *launch, uint64_t address, bool writes,
                         struct kernel_fault *fault)
{
    const struct kernel_memory *m = launch->memory;
    const uint64_t offset = address - m->base;
    const bool inside = address >= m->base && offset + 4 <= m->bytes;
    const int state = inside ? m->state[offset] : BYTE_OUTSIDE;
    if (state == BYTE_DEFINED || (state == BYTE_UNDEFINED && writes)) {
        if (writes) memset(m->state + offset, BYTE_DEFINED, 4);
        kernel_footprint_add(launch->footprint, offset, 4, writes);
        return (uint32_t *)(m->data + offset);
    }
    fault->error = state == BYTE_UNDEFINED ? KERNEL_UNINITIALISED : KERNEL_OUT_OF_BOUNDS;
    snprintf(fault->text, sizeof fault->text, "%s at 0x%llx (%s)", kernel_error_name(fault->error),
             (unsigned long long)address, m->name ? m->name(m->context, address) : "");
    return NULL;
}

static enum kernel_error run_add_one(const struct kernel_launch *launch, struct kernel_fault *fault)
{
    uint64_t p;
    int32_t n;
    memcpy(&p, launch->parameters, 8);
    memcpy(&n, (const unsigned char *)launch->parameters + 8, 4);
    for (int32_t i = 0; i < n; i++) {
        const uint32_t *from = word_at(launch, p + 4 * (uint64_t)i, false, fault);
        uint32_t *to = from ? word_at(launch, p + 4 * (uint64_t)i, true, fault) : NULL;
        if (!to) return fault->error;
        *to = *from + 1;
    }
    if (launch->counts) launch->counts->bytes_stored += 4 * (uint64_t)n;
    return KERNEL_OK;
}

static enum kernel_error run_copy_words(const struct kernel_launch *launch, struct kernel_fault *fault)
{
    uint64_t to, from;
    int32_t n;
    memcpy(&to, launch->parameters, 8);
    memcpy(&from, (const unsigned char *)launch->parameters + 8, 8);
    memcpy(&n, (const unsigned char *)launch->parameters + 16, 4);
    for (int32_t i = 0; i < n; i++) {
        const uint32_t *source = word_at(launch, from + 4 * (uint64_t)i, false, fault);
        uint32_t *place = source ? word_at(launch, to + 4 * (uint64_t)i, true, fault) : NULL;
        if (!place) return fault->error;
        *place = *source;
    }
    return KERNEL_OK;
}

static enum kernel_error run_spin(const struct kernel_launch *launch, struct kernel_fault *fault)
{
    while (!*launch->stop) {}
    return fault->error = KERNEL_TIMEOUT;
}

static enum kernel_error run_large(const struct kernel_launch *launch, struct kernel_fault *fault)
{
    (void)launch, (void)fault;
    return KERNEL_OK;
}

static const struct toy_kernel kernels[] = {
    { "add_one", 2, { 0, 8 }, { 8, 4 }, 12, 0, run_add_one },
    { "copy_words", 3, { 0, 8, 16 }, { 8, 8, 4 }, 20, 0, run_copy_words },
    { "spin", 0, { 0 }, { 0 }, 0, 0, run_spin },
    { "large", 0, { 0 }, { 0 }, 0, 40 * 1024, run_large },
};
_Static_assert(sizeof kernels / sizeof *kernels == N_KERNELS, "each kernel has a handle");

static enum kernel_error load(const void *bytes, size_t n, struct kernel_fault *fault, void **module_out)
{
    char text[200], *rest = text, *word;
    struct toy *toy = calloc(1, sizeof *toy);
    snprintf(text, sizeof text, "%.*s", (int)n, (const char *)bytes);
    strsep(&rest, " ");
    const uint32_t target = (uint32_t)strtoul(strsep(&rest, " ") + 3, NULL, 16);
    *module_out = toy;
    while ((word = strsep(&rest, " "))) {
        int i = 0;
        while (i < N_KERNELS && strcmp(kernels[i].name, word) != 0) i++;
        if (i == N_KERNELS) {
            snprintf(fault->text, sizeof fault->text, "there is no kernel %s", word);
            return fault->error = KERNEL_SYNTAX;
        }
        toy->handles[i] = (struct kernel_handle){ &kernels[i], target };
    }
    return KERNEL_OK;
}

static const void *by_name(const void *module, const char *name)
{
    const struct toy *toy = module;
    for (int i = 0; i < N_KERNELS; i++)
        if (toy->handles[i].kernel && !strcmp(kernels[i].name, name)) return &toy->handles[i];
    return NULL;
}

static const void *by_index(const void *module, int index)
{
    const struct toy *toy = module;
    for (int i = 0; i < N_KERNELS; i++)
        if (toy->handles[i].kernel && index-- == 0) return &toy->handles[i];
    return NULL;
}

static struct kernel_info info_of(const void *kernel)
{
    const struct kernel_handle *handle = kernel;
    return (struct kernel_info){ .name = handle->kernel->name,
                                 .n_parameters = handle->kernel->n_parameters,
                                 .parameter_bytes = handle->kernel->parameter_bytes,
                                 .shared_bytes = handle->kernel->shared_bytes,
                                 .n_instructions = 10,
                                 .target = handle->target };
}

static bool parameter_of(const void *kernel, int index, uint32_t *offset_out, uint32_t *bytes_out)
{
    const struct kernel_handle *handle = kernel;
    if (index >= handle->kernel->n_parameters) return false;
    *offset_out = handle->kernel->offsets[index];
    *bytes_out = handle->kernel->bytes[index];
    return true;
}

static enum kernel_error run(const struct kernel_launch *launch, struct kernel_fault *fault)
{
    const struct kernel_handle *handle = launch->kernel;
    return handle->kernel->run(launch, fault);
}

static const struct kernel_executor toy = {
    "toy", load, free, by_name, by_index, info_of, parameter_of, run
};
const struct kernel_executor *const emulate_executor = &toy;

size_t hip_program_bytes(const void *image) { return strncmp(image, "toy ", 4) ? 0 : strlen(image); }

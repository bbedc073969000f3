/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of PTX in the form that emulate/gpu calls. */
#include "emulate/cuda/ptx.h"

static enum kernel_error load(const void *bytes, size_t n, struct kernel_fault *fault, void **module_out)
{
    struct ptx_module *module = NULL;
    const enum kernel_error error = ptx_parse(bytes, n, &module, fault);
    *module_out = module;
    return error;
}

static void unload(void *module) { ptx_module_destroy(module); }

static const void *kernel(const void *module, const char *name) { return ptx_module_kernel(module, name); }

static const void *kernel_at(const void *module, int index) { return ptx_module_kernel_at(module, index); }

static struct kernel_info info(const void *of) { return ptx_kernel_info(of); }

static bool parameter(const void *of, int index, uint32_t *offset_out, uint32_t *bytes_out)
{
    return ptx_kernel_parameter(of, index, offset_out, bytes_out);
}

const struct kernel_executor ptx_executor = { .name = "PTX",
                                              .load = load,
                                              .unload = unload,
                                              .kernel = kernel,
                                              .kernel_at = kernel_at,
                                              .info = info,
                                              .parameter = parameter,
                                              .run = ptx_run };

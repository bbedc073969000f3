/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and their functions. */
#include <stdio.h>
#include <stdlib.h>

#include "emulate/gpu/driver.h"

void emulate_module_put(struct module *module)
{
    if (--module->references) return;
    for (struct function *f = module->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    emulate_executor->unload(module->program);
    free(module);
}

/* ---- loading ---- */

/* What the device refuses although it is a good program. */
static enum emulate_error check_kernels(const struct module *module, uint64_t *bytes_out, char *text,
                                        size_t text_bytes)
{
    const struct kernel_executor *executor = emulate_executor;
    const void *kernel;
    *bytes_out = 0;
    for (int i = 0; (kernel = executor->kernel_at(module->program, i)); i++) {
        const struct kernel_info info = executor->info(kernel);
        *bytes_out += emulate_vendor.instruction_bytes * (uint64_t)info.n_instructions;
        const enum emulate_error error = emulate_vendor.check_kernel(&info, text, text_bytes);
        if (error) return error;
    }
    return EMULATE_OK;
}

/* Called without the lock. */
static enum emulate_error load(const void *bytes, size_t n, struct module *module, char *text,
                               size_t text_bytes)
{
    struct kernel_fault fault = { 0 };
    const enum kernel_error error = emulate_executor->load(bytes, n, &fault, &module->program);
    if (!error) return check_kernels(module, &module->bytes, text, text_bytes);
    snprintf(text, text_bytes, "%s", fault.text);
    return error == KERNEL_NO_MEMORY ? EMULATE_OUT_OF_MEMORY
           : error == KERNEL_TARGET  ? EMULATE_NO_BINARY_FOR_GPU
                                     : emulate_vendor.bad_program;
}

static enum emulate_error keep_module(struct context *context, struct module *module)
{
    context->module_bytes += module->bytes;
    if (!emulate_share_fits(context)) {
        context->module_bytes -= module->bytes;
        return EMULATE_OUT_OF_MEMORY;
    }
    module->references = 1;
    emulate_object_add(&module->object, KIND_MODULE, context);
    return EMULATE_OK;
}

enum emulate_error emulate_module_load(struct context *context, const char *call, const void *bytes, size_t n,
                                       struct module **module_out, char *text, size_t text_bytes)
{
    struct module *module = calloc(1, sizeof *module);
    if (!module) return EMULATE_OUT_OF_MEMORY;
    emulate_unlock();
    enum emulate_error result = load(bytes, n, module, text, text_bytes);
    emulate_lock();
    if (!result) result = emulate_may_wait(context, call);
    if (!result) result = keep_module(context, module);
    if (result) {
        if (module->program) emulate_executor->unload(module->program);
        free(module);
        return result;
    }
    *module_out = module;
    return EMULATE_OK;
}

static void unload(struct module *module)
{
    module->object.context->module_bytes -= module->bytes;
    emulate_share_update(module->object.context);
    emulate_object_remove(&module->object);
    for (struct function *f = module->functions; f; f = f->next) emulate_object_remove(&f->object);
    emulate_module_put(module);
}

void emulate_modules_end(struct context *context)
{
    for (struct object *object; (object = emulate_object_any(context, KIND_MODULE));)
        unload((struct module *)object);
}

enum emulate_error emulate_module_unload(struct context *context, const char *call, void *module)
{
    if (!emulate_object_is(module, KIND_MODULE)) return EMULATE_INVALID_HANDLE;
    const enum emulate_error waited = emulate_may_wait(context, call);
    if (waited) return waited;
    unload(module);
    return EMULATE_OK;
}

/* ---- functions ---- */

enum emulate_error emulate_module_function(void *handle, const char *name, struct function **function_out)
{
    struct module *module = handle;
    if (!emulate_object_is(module, KIND_MODULE)) return EMULATE_INVALID_HANDLE;
    const void *kernel = emulate_executor->kernel(module->program, name);
    if (!kernel) return EMULATE_NOT_FOUND;
    struct function *function = module->functions;
    while (function && function->kernel != kernel) function = function->next;
    if (!function) {
        function = calloc(1, sizeof *function);
        struct tally *tally = function ? emulate_tally_of(name) : NULL;
        if (!tally) {
            free(function);
            return EMULATE_OUT_OF_MEMORY;
        }
        function->module = module;
        function->kernel = kernel;
        function->info = emulate_executor->info(kernel);
        function->tally = tally;
        function->next = module->functions;
        module->functions = function;
        emulate_object_add(&function->object, KIND_FUNCTION, module->object.context);
    }
    *function_out = function;
    return EMULATE_OK;
}

enum emulate_error emulate_function_load(struct function *function, const char *call)
{
    if (function->loaded) return EMULATE_OK;
    const enum emulate_error result = emulate_may_wait(function->object.context, call);
    if (!result) function->loaded = true;
    return result;
}

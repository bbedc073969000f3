/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of errors, and the places that they name. */
#include "emulate/hip/gcn_code.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * The source line of an instruction. Where it comes from a function that was inlined, such as one of a
 * prelude, the next line before it in the code that is in the kernel's own file says more, so this line
 * comes first: "norm.yk:132 (simt.yk:47)".
 */
static void place_of(struct kernel_fault *fault, const struct gcn_kernel *kernel, uint32_t offset,
                     char text[320])
{
    const struct gcn_object *object = kernel->module->object;
    const uint32_t begin = (uint32_t)kernel->entry->code;
    const char *file, *own, *near;
    int line, own_line, near_line;
    if (!gcn_line(object, offset, &file, &line) || line <= 0) return;
    snprintf(fault->source, sizeof fault->source, "%s", file);
    fault->source_line = line;
    snprintf(text, 320, "; %.200s:%d", file, line);
    if (offset < begin || !gcn_line(object, begin, &own, &own_line) || !strcmp(own, file)) return;
    for (uint32_t at = offset; at > begin; at -= 4) {
        if (!gcn_line(object, at - 4, &near, &near_line) || near_line <= 0 || strcmp(near, own) != 0)
            continue;
        snprintf(fault->source, sizeof fault->source, "%s", near);
        fault->source_line = near_line;
        snprintf(text, 320, "; %.120s:%d (%.120s:%d)", near, near_line, file, line);
        return;
    }
}

enum kernel_error gcn_fail(struct kernel_fault *fault, enum kernel_error error,
                           const struct gcn_kernel *kernel, uint32_t offset, const char *format, ...)
{
    char what[512], place[320] = "", code[32] = "";
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    fault->error = error;
    if (kernel) snprintf(fault->kernel, sizeof fault->kernel, "%s", kernel->entry->name);
    if (kernel && offset != UINT32_MAX) {
        fault->line = (int)(offset - (uint32_t)kernel->entry->code);
        place_of(fault, kernel, offset, place);
        snprintf(code, sizeof code, "%s offset 0x%x", *place ? "," : ";", (unsigned)fault->line);
    }
    snprintf(fault->text, sizeof fault->text, "%s%s%s%s%s", fault->kernel, *fault->kernel ? ": " : "", what,
             place, code);
    return error;
}

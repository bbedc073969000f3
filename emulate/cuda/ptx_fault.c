/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of errors. */
#include "emulate/cuda/ptx_parse.h"
#include "emulate/cuda/ptx_run.h"
#include "emulate/gpu/blocks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void place_of(struct kernel_fault *fault, const struct ptx_kernel *kernel,
                     const struct ptx_instruction *I)
{
    const struct ptx_module *m = kernel->module;
    fault->line = I->line;
    if (I->place < 0) return;
    const struct ptx_place *place = &m->places[I->place];
    const char *file = place->file >= 0 && place->file < m->n_files ? m->files[place->file] : NULL;
    if (!file || place->line <= 0) return;
    snprintf(fault->source, sizeof fault->source, "%s", file);
    fault->source_line = place->line;
}

/* "layernorm_forward: <what>; norm.yk:45, PTX line 812" */
static void compose(struct kernel_fault *fault, const char *what)
{
    int n = snprintf(fault->text, sizeof fault->text, "%s%s%s", fault->kernel, *fault->kernel ? ": " : "",
                     what);
    if (n < 0 || n >= (int)sizeof fault->text) return;
    if (fault->source_line) {
        n += snprintf(fault->text + n, sizeof fault->text - (size_t)n, "; %s:%d", fault->source,
                      fault->source_line);
        if (n >= (int)sizeof fault->text) return;
    }
    if (fault->line)
        snprintf(fault->text + n, sizeof fault->text - (size_t)n, "%s PTX line %d",
                 fault->source_line ? "," : ";", fault->line);
}

enum kernel_error ptx_fail(struct kernel_fault *fault, enum kernel_error error,
                           const struct ptx_kernel *kernel, const struct ptx_instruction *where,
                           const char *format, ...)
{
    char what[768];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    fault->error = error;
    if (kernel) snprintf(fault->kernel, sizeof fault->kernel, "%s", kernel->name);
    if (kernel && where) place_of(fault, kernel, where);
    compose(fault, what);
    return error;
}

bool ptx_parse_error(struct ptx_parser *p, enum kernel_error error, int line, const char *format, ...)
{
    char what[768];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (p->fault->error) return false; /* the first error is the cause */
    p->fault->line = line;
    ptx_fail(p->fault, error, p->kernel, NULL, "%s", what);
    return false;
}

bool ptx_no_memory(struct ptx_parser *p)
{
    return ptx_parse_error(p, KERNEL_NO_MEMORY, p->line, "there is not enough memory for the parsed text");
}

bool ptx_fault_at(struct ptx_state *s, const struct ptx_warp *warp, int lane, const struct ptx_instruction *I,
                  enum kernel_error error, const char *format, ...)
{
    char what[640], thread[48];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    const uint32_t t = warp->index * PTX_LANES + (uint32_t)lane, *size = s->launch->block;
    s->fault->thread[0] = t % size[0];
    s->fault->thread[1] = t / size[0] % size[1];
    s->fault->thread[2] = t / size[0] / size[1];
    memcpy(s->fault->block, s->b.block, sizeof s->fault->block);
    ptx_fail(s->fault, error, s->kernel, I, "%s of block (%u,%u,%u) %s", kernel_thread_text(size, t, thread),
             s->b.block[0], s->b.block[1], s->b.block[2], what);
    return false;
}

bool ptx_fail_at(struct kernel_block *block, const struct kernel_access *access, int lane, uint64_t address,
                 enum kernel_error error, const char *text)
{
    struct ptx_state *s = (struct ptx_state *)(void *)block;
    s->fault->address = address;
    return ptx_fault_at(s, &s->warps[access->warp], lane, access->where, error, "%s", text);
}

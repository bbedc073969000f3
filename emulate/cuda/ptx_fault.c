/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of errors. */
#include "emulate/cuda/ptx_parse.h"
#include "emulate/cuda/ptx_run.h"

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

const char *ptx_thread_text(const struct ptx_state *s, const struct ptx_warp *warp, int lane, char text[48])
{
    const uint32_t t = warp->index * PTX_LANES + (uint32_t)lane;
    const uint32_t *size = s->launch->block;
    snprintf(text, 48, "thread (%u,%u,%u)", t % size[0], t / size[0] % size[1], t / size[0] / size[1]);
    return text;
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
    memcpy(s->fault->block, s->block, sizeof s->fault->block);
    ptx_fail(s->fault, error, s->kernel, I, "%s of block (%u,%u,%u) %s",
             ptx_thread_text(s, warp, lane, thread), s->block[0], s->block[1], s->block[2], what);
    return false;
}

const char *ptx_verb(const struct ptx_instruction *I)
{
    return I->kind == PTX_LOAD ? "reads" : I->kind == PTX_STORE ? "writes" : "changes";
}

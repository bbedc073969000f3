/* SPDX-License-Identifier: Apache-2.0 */
/* A module: a code object whose code is decoded. */
#include "emulate/hip/gcn_load.h"

#include "emulate/hip/gcn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t gcn_target(enum gcn_arch arch) { return (uint32_t)strtoul(gcn_arch_name(arch) + 3, NULL, 16); }

uint64_t gcn_seed(void)
{
    const char *text = getenv("YOKE_EMULATE_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 0;
    return (seed + 1) * 0x9e3779b97f4a7c15u | 1;
}

/* ---- decoding ---- */

static bool grow(struct gcn_module *m)
{
    if (m->n_code + 2 <= m->code_capacity) return true;
    const int capacity = m->code_capacity ? 2 * m->code_capacity : 1024;
    struct gcn_instruction *code = realloc(m->code, (size_t)capacity * sizeof *code);
    if (!code) return false;
    m->code = code;
    m->code_capacity = capacity;
    return true;
}

/* The kernel in whose symbol an offset lies, for messages. */
static const struct gcn_entry *entry_at(const struct gcn_object *o, uint64_t offset)
{
    for (int i = 0; i < o->n_entries; i++)
        if (offset - o->entries[i].code < o->entries[i].code_bytes) return &o->entries[i];
    return NULL;
}

static enum kernel_error decode_range(struct gcn_module *m, struct gcn_range range,
                                      struct kernel_fault *fault)
{
    const struct gcn_object *o = m->object;
    char reason[GCN_REASON];
    uint64_t at = range.at;
    const uint64_t end = range.at + range.bytes;
    while (at < end) {
        if (!grow(m))
            return gcn_fail(fault, KERNEL_NO_MEMORY, NULL, 0,
                            "there is not enough memory for the decoded code");
        struct gcn_instruction *I = &m->code[m->n_code];
        const int bytes = gcn_decode(m->arch, o->image + at, end - at, I, reason);
        if (!bytes) {
            const struct gcn_entry *e = entry_at(o, at);
            if (e) snprintf(fault->kernel, sizeof fault->kernel, "%s", e->name);
            fault->line = (int)(e ? at - e->code : at);
            return gcn_fail(fault, KERNEL_SYNTAX, NULL, 0, "%s, at offset 0x%x", reason,
                            (unsigned)fault->line);
        }
        I->offset = I[1].offset = (uint32_t)at;
        m->index[at / 4] = m->n_code;
        m->n_code += I->kind == GCN_DUAL ? 2 : 1;
        at += (uint64_t)bytes;
    }
    return KERNEL_OK;
}

static void resolve_branches(struct gcn_module *m)
{
    for (int i = 0; i < m->n_code; i++) {
        struct gcn_instruction *I = &m->code[i];
        if (I->kind != GCN_BRANCH) continue;
        const int64_t to = (int64_t)I->offset + I->bytes + 4 * (int64_t)I->immediate;
        I->target = to >= 0 && (uint64_t)to < m->object->image_bytes ? m->index[to / 4] : -1;
    }
}

/* ---- kernels ---- */

/* The binary logarithm of the least bytes that an access of this space begins at a multiple of. */
static void lower(uint8_t *shift, const struct gcn_instruction *I)
{
    const uint8_t s = I->m.bytes == 1 ? 0 : I->m.bytes == 2 ? 1 : 2;
    if (s < *shift) *shift = s;
}

static void reach(struct gcn_kernel *k, struct gcn_span span)
{
    const uint32_t end = (uint32_t)span.first + span.n, kind = span.first >= GCN_AGPR;
    if (!span.n || span.first >= GCN_ROWS) return;
    const uint16_t rows = (uint16_t)(end - kind * GCN_AGPR);
    if (rows > k->n_rows[kind]) k->n_rows[kind] = rows;
}

static void measure(struct gcn_kernel *k)
{
    const struct gcn_module *m = k->module;
    const uint64_t end = k->entry->code + k->entry->code_bytes;
    k->global_shift = k->shared_shift = 2;
    /* an index may reach all registers that the descriptor gives */
    k->n_rows[0] = (uint16_t)(k->entry->n_vgprs < GCN_AGPR ? k->entry->n_vgprs : GCN_AGPR);
    if (!k->n_rows[0]) k->n_rows[0] = 1;
    for (int i = 0; i < m->n_code; i++) {
        const struct gcn_instruction *I = &m->code[i];
        const bool own = I->offset >= k->entry->code && I->offset < end;
        /* a function that kernels share counts for each of them */
        if (!own && entry_at(m->object, I->offset)) continue;
        k->n_instructions += own;
        reach(k, I->fills);
        for (int j = 0; j < I->n_uses; j++) reach(k, I->uses[j]);
        if (I->kind != GCN_ACCESS) continue;
        if (I->m.space != GCN_S_SHARED) lower(&k->global_shift, I);
        if (I->m.space == GCN_S_SHARED || I->m.space == GCN_S_FLAT) lower(&k->shared_shift, I);
    }
}

static bool is_hidden(const struct gcn_argument *a) { return a->kind >= GCN_HIDDEN_NONE; }

static bool make_kernel(struct gcn_module *m, const struct gcn_entry *e, struct gcn_kernel *k)
{
    k->module = m;
    k->entry = e;
    k->first = e->code < m->object->image_bytes ? m->index[e->code / 4] : -1;
    for (int i = 0; i < e->n_arguments; i++) {
        const struct gcn_argument *a = &e->arguments[i];
        if (is_hidden(a)) continue;
        k->n_parameters++;
        if (a->offset + a->bytes > k->parameter_bytes) k->parameter_bytes = a->offset + a->bytes;
    }
    measure(k);
    return k->first >= 0 && k->parameter_bytes <= e->argument_bytes;
}

static enum kernel_error build(struct gcn_module *m, struct kernel_fault *fault)
{
    const struct gcn_object *o = m->object;
    const size_t words = (size_t)(o->image_bytes / 4 + 1);
    m->arch = o->arch;
    m->index = malloc(words * sizeof *m->index);
    m->kernels = calloc((size_t)o->n_entries + 1, sizeof *m->kernels);
    if (!m->index || !m->kernels)
        return gcn_fail(fault, KERNEL_NO_MEMORY, NULL, 0, "there is not enough memory for a module");
    memset(m->index, 0xff, words * sizeof *m->index);
    for (int i = 0; i < o->n_code; i++) {
        const enum kernel_error error = decode_range(m, o->code[i], fault);
        if (error) return error;
    }
    resolve_branches(m);
    for (int i = 0; i < o->n_entries; i++, m->n_kernels++)
        if (!make_kernel(m, &o->entries[i], &m->kernels[i])) {
            snprintf(fault->kernel, sizeof fault->kernel, "%s", o->entries[i].name);
            return gcn_fail(fault, KERNEL_SYNTAX, NULL, 0,
                            "the code or the arguments do not lie where the descriptor says");
        }
    return KERNEL_OK;
}

/* ---- the interface ---- */

static void unload(void *module)
{
    struct gcn_module *m = module;
    if (!m) return;
    gcn_object_destroy(m->object);
    free(m->kernels);
    free(m->code);
    free(m->index);
    free(m);
}

static enum kernel_error load(const void *bytes, size_t n, struct kernel_fault *fault, void **module_out)
{
    char reason[GCN_REASON];
    memset(fault, 0, sizeof *fault);
    *module_out = NULL;
    struct gcn_module *m = calloc(1, sizeof *m);
    if (!m) return gcn_fail(fault, KERNEL_NO_MEMORY, NULL, 0, "there is not enough memory for a module");
    m->object = gcn_object_read(bytes, n, GCN_IMAGE, reason);
    const enum kernel_error error = m->object ? build(m, fault)
                                              : gcn_fail(fault, KERNEL_SYNTAX, NULL, 0, "%s", reason);
    if (error)
        unload(m);
    else
        *module_out = m;
    return error;
}

static const void *kernel_at(const void *module, int index)
{
    const struct gcn_module *m = module;
    return index >= 0 && index < m->n_kernels ? &m->kernels[index] : NULL;
}

static const void *kernel(const void *module, const char *name)
{
    const struct gcn_module *m = module;
    for (int i = 0; i < m->n_kernels; i++)
        if (!strcmp(m->kernels[i].entry->name, name)) return &m->kernels[i];
    return NULL;
}

static struct kernel_info info(const void *kernel)
{
    const struct gcn_kernel *k = kernel;
    const struct gcn_entry *e = k->entry;
    const char *file = NULL;
    int line = 0;
    if (!gcn_line(k->module->object, e->code, &file, &line) || line <= 0) file = NULL;
    return (struct kernel_info){ .name = e->name,
                                 .n_parameters = k->n_parameters,
                                 .parameter_bytes = k->parameter_bytes,
                                 .shared_bytes = e->shared_bytes,
                                 .local_bytes = e->scratch_bytes,
                                 .n_instructions = (uint32_t)k->n_instructions,
                                 .n_registers = e->n_vgprs,
                                 .max_threads = e->max_threads,
                                 .target = gcn_target(k->module->arch),
                                 .most_local_bytes = gcn_most_scratch(k->module->arch),
                                 .source = file,
                                 .source_line = line };
}

static bool parameter(const void *kernel, int index, uint32_t *offset_out, uint32_t *bytes_out)
{
    const struct gcn_kernel *k = kernel;
    int at = 0;
    for (int i = 0; i < k->entry->n_arguments; i++) {
        const struct gcn_argument *a = &k->entry->arguments[i];
        if (is_hidden(a) || at++ != index) continue;
        *offset_out = a->offset;
        *bytes_out = a->bytes;
        return true;
    }
    return false;
}

const struct kernel_executor gcn_executor = { .name = "AMD machine code",
                                              .load = load,
                                              .unload = unload,
                                              .kernel = kernel,
                                              .kernel_at = kernel_at,
                                              .info = info,
                                              .parameter = parameter,
                                              .run = gcn_run };

/* SPDX-License-Identifier: Apache-2.0 */
/* A PTX text as a whole: directives, kernels, parameters. */
#include "emulate/cuda/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

static bool skip_to(struct ptx_parser *p, const char *word)
{
    while (!ptx_is(&p->token, word)) {
        if (!p->token.length)
            return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line, "the text ends before a '%s'", word);
        if (!ptx_next(p)) return false;
    }
    return ptx_next(p);
}

static bool unknown_directive(struct ptx_parser *p)
{
    return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line, "'%.*s' is not supported here", p->token.length,
                           p->token.text);
}

/* ---- a kernel ---- */

/* .param .u64 .ptr .global .align 16 name, or .param .align 8 .b8 name[24] */
static bool parameter(struct ptx_parser *p)
{
    struct ptx_kernel *k = p->kernel;
    if (!ptx_expect(p, ".param")) return false;
    uint32_t bytes = 0, align = 0;
    bool is_pointer = false;
    while (p->token.length && *p->token.text == '.') {
        enum ptx_type type;
        const struct ptx_token word = { p->token.text + 1, p->token.length - 1, p->token.line };
        if (ptx_is(&word, "align")) {
            int64_t n;
            if (!ptx_next(p) || !ptx_number(p, &n)) return false;
            if (!is_pointer) align = (uint32_t)n;
            continue;
        }
        if (ptx_is(&word, "ptr") || ptx_is(&word, "global")) {
            is_pointer = true;
        } else if (ptx_is(&word, "f64")) {
            bytes = 8;
        } else if (ptx_is(&word, "b8")) {
            bytes = 1;
        } else if (!bytes && ptx_type_of(&word, &type) && type != PTX_PRED) {
            bytes = ptx_type_bytes(type);
        } else {
            return unknown_directive(p);
        }
        if (!ptx_next(p)) return false;
    }
    const struct ptx_token name = p->token;
    struct ptx_symbol *s;
    if (!ptx_next(p) || !ptx_declare(p, &name, PTX_PARAMETER, &s)) return false;
    if (align < bytes) align = bytes;
    if (!align || align & (align - 1) || align > 256)
        return ptx_parse_error(p, KERNEL_SYNTAX, name.line, "parameter '%.*s' has no type", name.length,
                               name.text);
    int64_t count = 1;
    if (ptx_is(&p->token, "[") && !(ptx_next(p) && ptx_number(p, &count) && ptx_expect(p, "]"))) return false;
    const uint32_t at = (k->parameter_bytes + align - 1) & ~(align - 1);
    if (count < 0 || at + (uint64_t)count * bytes > 32764)
        return ptx_parse_error(p, KERNEL_SYNTAX, name.line, "the parameters of the kernel are too large");
    struct ptx_parameter *grown = realloc(k->parameters, (size_t)(k->n_parameters + 1) * sizeof *grown);
    if (!grown) return ptx_no_memory(p);
    k->parameters = grown;
    k->parameters[k->n_parameters] = (struct ptx_parameter){ strndup(name.text, (size_t)name.length), at,
                                                             (uint32_t)count * bytes };
    if (!k->parameters[k->n_parameters++].name) return ptx_no_memory(p);
    s->at = at;
    k->parameter_bytes = at + (uint32_t)count * bytes;
    return true;
}

static bool parameters(struct ptx_parser *p)
{
    if (!ptx_is(&p->token, "(")) return true; /* a kernel without parameters */
    if (!ptx_next(p)) return false;
    while (!ptx_is(&p->token, ")")) {
        if (!parameter(p)) return false;
        if (ptx_is(&p->token, ",") && !ptx_next(p)) return false;
    }
    return ptx_next(p);
}

/* .maxntid 128, 1, 1 and its like, between the parameters and the body */
static bool performance(struct ptx_parser *p)
{
    while (!ptx_is(&p->token, "{")) {
        const bool is_max = ptx_is(&p->token, ".maxntid"), is_required = ptx_is(&p->token, ".reqntid");
        if (ptx_is(&p->token, ".pragma")) {
            if (!skip_to(p, ";")) return false;
            continue;
        }
        if (!is_max && !is_required && !ptx_is(&p->token, ".minnctapersm")
            && !ptx_is(&p->token, ".maxnctapersm") && !ptx_is(&p->token, ".maxnreg"))
            return unknown_directive(p);
        int64_t n[3] = { 1, 1, 1 };
        if (!ptx_next(p)) return false;
        for (int i = 0; i < 3; i++) {
            if (!ptx_number(p, &n[i])) return false;
            if (!ptx_is(&p->token, ",")) break;
            if (!ptx_next(p)) return false;
        }
        if (!is_max && !is_required) continue;
        p->kernel->max_threads = (uint32_t)(n[0] * n[1] * n[2]);
        for (int i = 0; i < 3 && is_required; i++) p->kernel->required[i] = (uint32_t)n[i];
    }
    return ptx_next(p);
}

static bool label(struct ptx_parser *p)
{
    struct ptx_symbol *s;
    const int depth = p->depth;
    p->depth = 1; /* a branch may lead into a block and out of it */
    const bool good = ptx_declare(p, &p->token, PTX_LABEL, &s);
    p->depth = depth;
    if (good) s->at = (uint32_t)p->kernel->n_code;
    return good && ptx_next(p) && ptx_expect(p, ":");
}

static bool statement(struct ptx_parser *p)
{
    const struct ptx_token *t = &p->token;
    if (ptx_is(t, ".reg")) return ptx_next(p) && ptx_registers(p);
    if (ptx_is(t, ".local")) return ptx_next(p) && ptx_variable(p, PTX_LOCAL);
    if (ptx_is(t, ".shared")) return ptx_next(p) && ptx_variable(p, PTX_SHARED);
    if (ptx_is(t, ".loc")) return ptx_next(p) && ptx_loc(p);
    if (ptx_is(t, ".pragma")) return skip_to(p, ";");
    if (ptx_is(t, ";")) return ptx_next(p);
    if (*t->text == '.') return unknown_directive(p);
    /* a label is a word with a colon behind it */
    const char *c = p->at;
    while (c < p->end && (*c == ' ' || *c == '\t')) c++;
    if (c < p->end && *c == ':' && *t->text != '@') return label(p);
    return ptx_instruction(p);
}

static bool body(struct ptx_parser *p)
{
    const int outer = p->depth;
    while (p->depth >= outer) {
        if (!p->token.length)
            return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line, "the text ends inside a kernel");
        if (ptx_is(&p->token, "{")) {
            p->depth++;
            if (!ptx_next(p)) return false;
        } else if (ptx_is(&p->token, "}")) {
            if (p->depth == outer) return true; /* the caller closes the kernel's scope */
            ptx_close_scope(p);
            if (!ptx_next(p)) return false;
        } else if (!statement(p)) {
            return false;
        }
    }
    return true;
}

/* Labels and the start of dynamic shared memory are known at the end of the kernel. */
static bool fix(struct ptx_parser *p)
{
    struct ptx_kernel *k = p->kernel;
    uint32_t index;
    for (int i = 0; i < p->n_labels; i++) {
        const struct ptx_token *name = &p->labels[i].name;
        const struct ptx_symbol *s = ptx_find(p, name, &index);
        if (!s || s->kind != PTX_LABEL)
            return ptx_parse_error(p, KERNEL_SYNTAX, name->line, "there is no label '%.*s'", name->length,
                                   name->text);
        k->code[p->labels[i].at].target = (int32_t)s->at;
    }
    k->dynamic_align = 1;
    for (int i = 0; i < p->n_dynamic; i++) {
        const struct ptx_symbol *s = ptx_find(p, &p->dynamic[i].name, &index);
        if (s && s->at > k->dynamic_align) k->dynamic_align = s->at;
    }
    const uint32_t start = (k->shared_bytes + k->dynamic_align - 1) / k->dynamic_align * k->dynamic_align;
    for (int i = 0; i < p->n_dynamic; i++) p->constants[p->dynamic[i].at].bits = start;
    return true;
}

static bool constants(struct ptx_parser *p)
{
    struct ptx_kernel *k = p->kernel;
    k->constants = aligned_alloc(64, k->constant_bytes + 64);
    if (!k->constants) return ptx_no_memory(p);
    memset(k->constants, 0, k->constant_bytes + 64);
    for (int i = 0; i < p->n_constants; i++) {
        const struct ptx_constant *c = &p->constants[i];
        union ptx_slot *slot = (union ptx_slot *)(k->constants + c->at);
        if (c->width == 'p') slot->w[0] = (uint32_t)c->bits;
        for (int l = 0; l < PTX_LANES && c->width != 'p'; l++) {
            if (c->width == 'q')
                slot->q[l] = c->bits;
            else
                slot->w[l] = (uint32_t)c->bits;
        }
    }
    return true;
}

static void pieces(struct ptx_kernel *k)
{
    k->global_shift = k->shared_shift = 3;
    for (int i = 0; i < k->n_code; i++) {
        const struct ptx_instruction *I = &k->code[i];
        if (I->kind != PTX_LOAD && I->kind != PTX_STORE && I->kind != PTX_ATOM && I->kind != PTX_COPY)
            continue;
        uint8_t shift = 0;
        while (ptx_type_bytes(I->type) >> (shift + 1)) shift++;
        if (I->space != PTX_SHARED && I->space != PTX_LOCAL && shift < k->global_shift)
            k->global_shift = shift;
        if ((I->space != PTX_GLOBAL || I->kind == PTX_COPY) && I->space != PTX_LOCAL
            && shift < k->shared_shift)
            k->shared_shift = shift;
    }
}

static bool kernel(struct ptx_parser *p)
{
    struct ptx_kernel *k = calloc(1, sizeof *k), **last = &p->module->kernels;
    if (!k) return ptx_no_memory(p);
    while (*last) last = &(*last)->next;
    *last = p->kernel = k;
    k->module = p->module;
    k->register_bytes = 64;
    k->shared_bytes = p->module_shared;
    k->name = strndup(p->token.text, (size_t)p->token.length);
    if (!k->name) return ptx_no_memory(p);
    p->depth = 1;
    p->place = -1;
    p->n_labels = p->n_dynamic = p->n_constants = p->n_locs = 0;
    for (int i = 0; i < PTX_BUCKETS; i++) p->constant_buckets[i] = -1;
    if (!ptx_next(p) || !parameters(p)) return false;
    if (!performance(p) || !body(p)) return false;
    if (!ptx_grow(p, &k->code, k->n_code, &k->code_capacity, sizeof *k->code)) return false;
    k->code[k->n_code++] = (struct ptx_instruction){ .kind = PTX_EXIT, .line = p->token.line, .place = -1 };
    if (!fix(p) || !constants(p)) return false;
    pieces(k);
    ptx_close_scope(p);
    p->kernel = NULL;
    return ptx_next(p);
}

/* ---- the module ---- */

static bool target(struct ptx_parser *p)
{
    uint64_t number;
    int digits = p->token.length - 3;
    while (digits > 0 && p->token.text[2 + digits] > '9') digits--; /* sm_90a */
    const struct ptx_token version = { p->token.text + 3, digits, p->token.line };
    if (p->token.length < 4 || memcmp(p->token.text, "sm_", 3) || !ptx_integer(&version, &number))
        return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line, "'%.*s' is no target such as sm_80",
                               p->token.length, p->token.text);
    p->module->target = (uint32_t)number;
    return ptx_next(p);
}

static bool section(struct ptx_parser *p)
{
    /* debugging information is data without statements */
    if (!skip_to(p, "{")) return false;
    while (!ptx_is(&p->token, "}"))
        if (!p->token.length || !ptx_next(p))
            return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line, "the text ends inside a section");
    return ptx_next(p);
}

static bool directive(struct ptx_parser *p)
{
    const struct ptx_token *t = &p->token;
    if (ptx_is(t, ".version")) return ptx_next(p) && ptx_next(p);
    if (ptx_is(t, ".target")) {
        if (!ptx_next(p) || !target(p)) return false;
        while (ptx_is(&p->token, ","))
            if (!ptx_next(p) || !ptx_next(p)) return false;
        return true;
    }
    if (ptx_is(t, ".address_size")) {
        int64_t bits;
        if (!ptx_next(p) || !ptx_number(p, &bits)) return false;
        return bits == 64
               || ptx_parse_error(p, KERNEL_SYNTAX, p->line, "only addresses of 64 bits are supported");
    }
    if (ptx_is(t, ".file")) return ptx_next(p) && ptx_file(p);
    if (ptx_is(t, ".section")) return section(p);
    if (ptx_is(t, ".pragma")) return skip_to(p, ";");
    if (ptx_is(t, ".visible") || ptx_is(t, ".weak") || ptx_is(t, ".extern")) return ptx_next(p);
    if (ptx_is(t, ".entry")) return ptx_next(p) && kernel(p);
    if (ptx_is(t, ".shared")) return ptx_next(p) && ptx_variable(p, PTX_SHARED);
    if (ptx_is(t, ".func"))
        return ptx_parse_error(p, KERNEL_SYNTAX, t->line,
                               ".func is not supported: declare the function __forceinline__");
    if (ptx_is(t, ".global") || ptx_is(t, ".const"))
        return ptx_parse_error(p, KERNEL_SYNTAX, t->line,
                               "variables in %.*s memory are not supported: give the kernel a parameter",
                               t->length - 1, t->text + 1);
    return unknown_directive(p);
}

enum kernel_error ptx_parse(const char *text, size_t bytes, struct ptx_module **module_out,
                            struct kernel_fault *fault)
{
    *module_out = NULL;
    memset(fault, 0, sizeof *fault);
    struct ptx_parser *p = calloc(1, sizeof *p);
    struct ptx_module *module = calloc(1, sizeof *module);
    if (!p || !module) {
        free(p);
        free(module);
        return ptx_fail(fault, KERNEL_NO_MEMORY, NULL, NULL, "there is not enough memory to parse a text");
    }
    /* a cubin begins with ELF's letters, and is refused at its first character */
    p->at = text, p->end = text + bytes, p->line = 1;
    p->fault = fault, p->module = module;
    for (int i = 0; i < PTX_BUCKETS; i++) p->buckets[i] = -1;
    ptx_ops_index(p);
    bool good = ptx_next(p);
    if (good && !ptx_is(&p->token, ".version"))
        good = ptx_parse_error(p, KERNEL_SYNTAX, p->token.line,
                               "the text does not begin with .version, so it is no PTX");
    while (good && p->token.length) good = directive(p);
    p->depth = p->depth > 0 ? p->depth : 0;
    while (p->n_symbols > 0) free(p->symbols[--p->n_symbols].name);
    free(p->symbols), free(p->labels), free(p->dynamic), free(p->constants), free(p->locs), free(p);
    if (good)
        *module_out = module;
    else
        ptx_module_destroy(module);
    return fault->error;
}

void ptx_module_destroy(struct ptx_module *module)
{
    if (!module) return;
    for (struct ptx_kernel *k = module->kernels, *next; k; k = next) {
        next = k->next;
        for (int i = 0; i < k->n_parameters; i++) free(k->parameters[i].name);
        free(k->parameters), free(k->code), free(k->products), free(k->constants), free(k->name), free(k);
    }
    for (int i = 0; i < module->n_files; i++) free(module->files[i]);
    free(module->files), free(module->places), free(module);
}

const struct ptx_kernel *ptx_module_kernel(const struct ptx_module *module, const char *name)
{
    const struct ptx_kernel *k = module->kernels;
    while (k && strcmp(k->name, name)) k = k->next;
    return k;
}

const struct ptx_kernel *ptx_module_kernel_at(const struct ptx_module *module, int index)
{
    const struct ptx_kernel *k = index < 0 ? NULL : module->kernels;
    while (k && index-- > 0) k = k->next;
    return k;
}

struct kernel_info ptx_kernel_info(const struct ptx_kernel *kernel)
{
    return (struct kernel_info){ .name = kernel->name,
                                 .n_parameters = kernel->n_parameters,
                                 .parameter_bytes = kernel->parameter_bytes,
                                 .shared_bytes = kernel->shared_bytes,
                                 .local_bytes = kernel->local_bytes,
                                 .n_instructions = (uint32_t)kernel->n_code,
                                 .n_registers = kernel->n_registers,
                                 .max_threads = kernel->max_threads,
                                 .target = kernel->module->target };
}

bool ptx_kernel_parameter(const struct ptx_kernel *kernel, int index, uint32_t *offset_out,
                          uint32_t *bytes_out)
{
    if (index < 0 || index >= kernel->n_parameters) return false;
    *offset_out = kernel->parameters[index].offset;
    *bytes_out = kernel->parameters[index].bytes;
    return true;
}

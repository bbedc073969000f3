/* SPDX-License-Identifier: Apache-2.0 */
/* Registers, variables, labels and constants. */
#include "emulate/cuda/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

bool ptx_grow(struct ptx_parser *p, void *array, int n, int *capacity, size_t element)
{
    void **at = array;
    if (n < *capacity) return true;
    const int more = *capacity ? 2 * *capacity : 64;
    void *grown = realloc(*at, (size_t)more * element);
    if (!grown) return ptx_no_memory(p);
    *at = grown;
    *capacity = more;
    return true;
}

static struct ptx_symbol *find_kind(struct ptx_parser *p, const char *text, int length, bool numbered)
{
    for (int i = p->buckets[ptx_hash(text, length)]; i >= 0; i = p->symbols[i].next) {
        struct ptx_symbol *s = &p->symbols[i];
        if (s->length == length && (s->kind == PTX_REGISTERS) == numbered
            && !memcmp(s->name, text, (size_t)length))
            return s;
    }
    return NULL;
}

struct ptx_symbol *ptx_find(struct ptx_parser *p, const struct ptx_token *name, uint32_t *index_out)
{
    *index_out = 0;
    struct ptx_symbol *s = find_kind(p, name->text, name->length, false);
    if (s) return s;
    /* %r12 is register 12 of .reg %r<20> */
    int stem = name->length;
    while (stem > 0 && name->text[stem - 1] >= '0' && name->text[stem - 1] <= '9') stem--;
    const int digits = name->length - stem;
    if (digits < 1 || digits > 8 || (digits > 1 && name->text[stem] == '0')) return NULL;
    s = find_kind(p, name->text, stem, true);
    for (int i = stem; i < name->length; i++) *index_out = *index_out * 10 + (uint32_t)(name->text[i] - '0');
    return s && *index_out < s->count ? s : NULL;
}

bool ptx_declare(struct ptx_parser *p, const struct ptx_token *name, enum ptx_symbol_kind kind,
                 struct ptx_symbol **symbol_out)
{
    const struct ptx_symbol *old = find_kind(p, name->text, name->length, kind == PTX_REGISTERS);
    if (old && old->depth == p->depth)
        return ptx_parse_error(p, KERNEL_SYNTAX, name->line, "'%.*s' is declared twice", name->length,
                               name->text);
    if (!ptx_grow(p, &p->symbols, p->n_symbols, &p->symbol_capacity, sizeof *p->symbols)) return false;
    struct ptx_symbol *s = &p->symbols[p->n_symbols];
    char *copy = strndup(name->text, (size_t)name->length);
    if (!copy) return ptx_no_memory(p);
    int *bucket = &p->buckets[ptx_hash(name->text, name->length)];
    *s = (struct ptx_symbol){
        .name = copy, .length = name->length, .kind = kind, .depth = p->depth, .next = *bucket
    };
    *bucket = p->n_symbols++;
    *symbol_out = s;
    return true;
}

void ptx_close_scope(struct ptx_parser *p)
{
    while (p->n_symbols > 0 && p->symbols[p->n_symbols - 1].depth == p->depth) {
        struct ptx_symbol *s = &p->symbols[--p->n_symbols];
        p->buckets[ptx_hash(s->name, s->length)] = s->next;
        free(s->name);
    }
    p->depth--;
}

static uint32_t slot_bytes(char width) { return width == 'q' ? 256 : width == 'p' ? 64 : 128; }

bool ptx_constant_make(struct ptx_parser *p, uint64_t bits, char width, bool fresh, ptx_operand *operand_out)
{
    if (width == 'f') width = 'w';
    int *bucket = &p->constant_buckets[(bits ^ bits >> 20 ^ bits >> 41) * 0x9e3779b1u % PTX_BUCKETS];
    for (int i = *bucket; i >= 0 && !fresh; i = p->constants[i].next)
        if (p->constants[i].bits == bits && p->constants[i].width == width) {
            *operand_out = p->constants[i].at | PTX_CONSTANT;
            return true;
        }
    if (!ptx_grow(p, &p->constants, p->n_constants, &p->constant_capacity, sizeof *p->constants))
        return false;
    struct ptx_constant *c = &p->constants[p->n_constants];
    *c = (struct ptx_constant){ bits, p->kernel->constant_bytes, width, *bucket };
    if (!fresh) *bucket = p->n_constants; /* others must not share what is changed later */
    p->n_constants++;
    p->kernel->constant_bytes += slot_bytes(width);
    *operand_out = c->at | PTX_CONSTANT;
    return true;
}

static const char *const special_names[PTX_N_SPECIALS] = {
    "%tid.x",       "%tid.y",       "%tid.z",       "%ntid.x",      "%ntid.y",     "%ntid.z", "%ctaid.x",
    "%ctaid.y",     "%ctaid.z",     "%nctaid.x",    "%nctaid.y",    "%nctaid.z",   "%laneid", "%warpid",
    "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge"
};

static bool special(struct ptx_parser *p, const struct ptx_token *token, ptx_operand *operand_out)
{
    for (int i = 0; i < PTX_N_SPECIALS; i++)
        if (ptx_is(token, special_names[i])) {
            struct ptx_kernel *k = p->kernel;
            if (!k->special[i]) {
                k->special[i] = k->register_bytes;
                k->register_bytes += slot_bytes('w');
            }
            *operand_out = k->special[i];
            return true;
        }
    return false;
}

static bool wrong_width(struct ptx_parser *p, const struct ptx_token *token, char is, char wanted)
{
    static const char letters[] = "phwqf";
    static const char *const names[] = { "a predicate", "16 bits", "32 bits", "64 bits", "32 bits" };
    return ptx_parse_error(p, KERNEL_SYNTAX, token->line,
                           "operand '%.*s' has %s, but the instruction takes %s", token->length, token->text,
                           names[strchr(letters, is) - letters], names[strchr(letters, wanted) - letters]);
}

/* A register with its width; 0 where the token is no register. */
static char register_of(struct ptx_parser *p, const struct ptx_token *token, ptx_operand *operand_out)
{
    uint32_t index;
    const struct ptx_symbol *s = ptx_find(p, token, &index);
    if (!s || (s->kind != PTX_REGISTER && s->kind != PTX_REGISTERS)) return 0;
    *operand_out = s->at + index * (s->width == 'p' ? 4 : slot_bytes(s->width));
    return s->width;
}

static bool unknown_name(struct ptx_parser *p, const struct ptx_token *token)
{
    return ptx_parse_error(p, KERNEL_SYNTAX, token->line, "'%.*s' is not declared, or is no operand here",
                           token->length, token->text);
}

bool ptx_destination(struct ptx_parser *p, const struct ptx_token *token, char width,
                     ptx_operand *operand_out)
{
    const char is = register_of(p, token, operand_out);
    if (!is) return unknown_name(p, token);
    if (is == (width == 'f' ? 'w' : width)) return true;
    return wrong_width(p, token, is, width);
}

/* The value of a number that is written in the form of the width. */
static bool literal(struct ptx_parser *p, const struct ptx_token *token, bool negative, char width,
                    uint64_t *bits_out)
{
    const char *c = token->text;
    if (token->length == 10 && c[0] == '0' && (c[1] == 'f' || c[1] == 'F')
        && (width == 'f' || width == 'w')) {
        const struct ptx_token hex = { c + 2, 8, token->line };
        uint64_t value = 0;
        for (int i = 0; i < 8; i++) {
            const char *digits = "0123456789abcdef", *d = strchr(digits, hex.text[i] | 0x20);
            if (hex.text[i] >= '0' && hex.text[i] <= '9') d = digits + (hex.text[i] - '0');
            if (!d) return unknown_name(p, token);
            value = value << 4 | (uint64_t)(d - digits);
        }
        *bits_out = negative ? value ^ 0x80000000u : value;
        return true;
    }
    if (ptx_is(token, "WARP_SZ")) {
        *bits_out = PTX_LANES;
        return true;
    }
    if (!ptx_integer(token, bits_out)) return unknown_name(p, token);
    if (width == 'f')
        return ptx_parse_error(p, KERNEL_SYNTAX, token->line,
                               "'%.*s' is an integer, but the instruction takes a float such as 0f3F800000",
                               token->length, token->text);
    if (negative) *bits_out = 0 - *bits_out;
    if (width == 'w') *bits_out = (uint32_t)*bits_out;
    if (width == 'h') *bits_out = (uint16_t)*bits_out;
    if (width == 'p') *bits_out = *bits_out ? PTX_ALL_LANES : 0;
    return true;
}

bool ptx_operand_of(struct ptx_parser *p, const struct ptx_token *token, bool negative, char width,
                    ptx_operand *operand_out)
{
    uint64_t bits;
    if ((token->text[0] >= '0' && token->text[0] <= '9') || ptx_is(token, "WARP_SZ"))
        return literal(p, token, negative, width, &bits)
               && ptx_constant_make(p, bits, width, false, operand_out);
    if (negative) return unknown_name(p, token);
    if ((width == 'w' || width == 'h') && special(p, token, operand_out)) return true;
    uint32_t index;
    const struct ptx_symbol *s = ptx_find(p, token, &index);
    if (s && (s->kind == PTX_VARIABLE || s->kind == PTX_DYNAMIC) && (width == 'w' || width == 'q')) {
        if (!ptx_constant_make(p, s->at, width, s->kind == PTX_DYNAMIC, operand_out)) return false;
        if (s->kind == PTX_VARIABLE) return true;
        if (!ptx_grow(p, &p->dynamic, p->n_dynamic, &p->dynamic_capacity, sizeof *p->dynamic)) return false;
        p->dynamic[p->n_dynamic++] = (struct ptx_fixup){ *token, (uint32_t)(p->n_constants - 1), width };
        return true;
    }
    return ptx_destination(p, token, width, operand_out);
}

bool ptx_any_operand(struct ptx_parser *p, const struct ptx_token *token, char number_width, char *width_out,
                     ptx_operand *operand_out)
{
    const char is = register_of(p, token, operand_out);
    *width_out = is ? is : number_width;
    if (is == 'p') return wrong_width(p, token, is, 'w');
    return is || ptx_operand_of(p, token, false, number_width, operand_out);
}

static bool register_width(const struct ptx_token *type, char *width_out)
{
    static const struct {
        const char *name;
        char width;
    } types[] = { { ".pred", 'p' }, { ".b16", 'h' },  { ".u16", 'h' },   { ".s16", 'h' },
                  { ".f16", 'h' },  { ".bf16", 'h' }, { ".b32", 'w' },   { ".u32", 'w' },
                  { ".s32", 'w' },  { ".f32", 'w' },  { ".f16x2", 'w' }, { ".bf16x2", 'w' },
                  { ".b64", 'q' },  { ".u64", 'q' },  { ".s64", 'q' },   { ".f64", 'q' } };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (ptx_is(type, types[i].name)) {
            *width_out = types[i].width;
            return true;
        }
    return false;
}

bool ptx_registers(struct ptx_parser *p)
{
    struct ptx_kernel *k = p->kernel;
    char width;
    if (!register_width(&p->token, &width))
        return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line,
                               "'%.*s' is no type of a register that is known", p->token.length,
                               p->token.text);
    do {
        struct ptx_symbol *s;
        int64_t count = 1;
        if (!ptx_next(p)) return false;
        const struct ptx_token name = p->token;
        if (!ptx_next(p)) return false;
        const bool many = ptx_is(&p->token, "<");
        if (many && !(ptx_next(p) && ptx_number(p, &count) && ptx_expect(p, ">"))) return false;
        if (count < 0 || count > 1 << 20)
            return ptx_parse_error(p, KERNEL_SYNTAX, name.line, "%lld registers are too many",
                                   (long long)count);
        if (!ptx_declare(p, &name, many ? PTX_REGISTERS : PTX_REGISTER, &s)) return false;
        s->width = width;
        s->at = k->register_bytes;
        s->count = (uint32_t)count;
        const uint64_t bytes = (uint64_t)count * (width == 'p' ? 4 : slot_bytes(width));
        if (k->register_bytes + bytes > (uint32_t)1 << 30)
            return ptx_parse_error(p, KERNEL_SYNTAX, name.line, "the kernel has too many registers");
        k->register_bytes += (uint32_t)((bytes + 63) / 64 * 64);
        k->n_registers += (uint32_t)count;
    } while (ptx_is(&p->token, ","));
    return ptx_expect(p, ";");
}

/* The bytes of a type with a dot, 0 for other words. */
static uint32_t element_bytes(const struct ptx_token *token)
{
    const char *c = token->text;
    if (token->length < 3 || *c != '.' || !strchr("busf", c[1])) return 0;
    const struct ptx_token bits = { c + 2, token->length - 2, token->line };
    uint64_t n;
    return ptx_integer(&bits, &n) && (n == 8 || n == 16 || n == 32 || n == 64) ? (uint32_t)n / 8 : 0;
}

bool ptx_variable(struct ptx_parser *p, enum ptx_space space)
{
    int64_t align = 1, count = 1;
    if (ptx_is(&p->token, ".align") && !(ptx_next(p) && ptx_number(p, &align))) return false;
    const uint32_t bytes = element_bytes(&p->token);
    if (!bytes || align < 1 || align > 4096)
        return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line,
                               "'%.*s' is no type or alignment of a variable", p->token.length,
                               p->token.text);
    if (!ptx_next(p)) return false;
    const struct ptx_token name = p->token;
    if (!ptx_next(p)) return false;
    bool open = false;
    while (ptx_is(&p->token, "[")) {
        int64_t n = 0;
        if (!ptx_next(p)) return false;
        open = ptx_is(&p->token, "]");
        if (!open && !ptx_number(p, &n)) return false;
        if (!open && (n < 0 || n > 1 << 30 || (count *= n) > 1 << 30))
            return ptx_parse_error(p, KERNEL_SYNTAX, name.line, "variable '%.*s' is too large", name.length,
                                   name.text);
        if (!ptx_expect(p, "]")) return false;
    }
    struct ptx_symbol *s;
    if (!ptx_declare(p, &name, open ? PTX_DYNAMIC : PTX_VARIABLE, &s)) return false;
    s->space = space;
    if (align < bytes) align = bytes;
    if (open) {
        s->at = (uint32_t)align;
        return ptx_expect(p, ";");
    }
    uint32_t *top = p->depth == 0         ? &p->module_shared
                    : space == PTX_SHARED ? &p->kernel->shared_bytes
                                          : &p->kernel->local_bytes;
    const uint64_t at = (*top + (uint64_t)align - 1) / (uint64_t)align * (uint64_t)align;
    if (at + (uint64_t)count * bytes > (uint64_t)1 << 31)
        return ptx_parse_error(p, KERNEL_SYNTAX, name.line, "the variables of the kernel are too large");
    s->at = (uint32_t)at;
    *top = (uint32_t)(at + (uint64_t)count * bytes);
    return ptx_expect(p, ";");
}

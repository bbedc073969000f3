/* SPDX-License-Identifier: Apache-2.0 */
/* The instructions with many modifiers: memory, atomics, comparisons, conversions, barriers, shuffles. */
#include "emulate/cuda/ptx_parse.h"

#include <string.h>

static int index_of(const struct ptx_token *word, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (ptx_is(word, names[i])) return i;
    return -1;
}
#define INDEX_OF(word, names) index_of(word, names, (int)(sizeof(names) / sizeof *(names)))

bool ptx_wrong_form(struct ptx_parser *p, const struct ptx_statement *s)
{
    return ptx_parse_error(p, KERNEL_SYNTAX, s->opcode.line, "the operands of '%.*s' have the wrong form",
                           s->opcode.length, s->opcode.text);
}

static bool space_of(const struct ptx_token *word, struct ptx_instruction *I)
{
    static const char *const names[] = { "global", "shared", "local", "shared::cta" };
    static const uint8_t spaces[] = { PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_SHARED };
    const int i = INDEX_OF(word, names);
    if (i < 0 || I->space != PTX_GENERIC) return false;
    I->space = spaces[i];
    return true;
}

bool ptx_address(struct ptx_parser *p, const struct ptx_statement *s, const struct ptx_written *w,
                 struct ptx_instruction *I)
{
    char width;
    uint32_t index;
    if (w->form != PTX_MEMORY) return ptx_wrong_form(p, s);
    const struct ptx_symbol *symbol = ptx_find(p, &w->part[0], &index);
    if (symbol && (symbol->kind == PTX_VARIABLE || symbol->kind == PTX_DYNAMIC) && symbol->space != I->space)
        return ptx_parse_error(p, KERNEL_SYNTAX, s->opcode.line,
                               "'%.*s' is not in the memory that '%.*s' accesses", w->part[0].length,
                               w->part[0].text, s->opcode.length, s->opcode.text);
    I->offset = w->offset;
    if (!ptx_any_operand(p, &w->part[0], 'q', &width, &I->a)) return false;
    I->wide_address = width == 'q';
    if (width == 'h' || (width != 'q' && I->space != PTX_SHARED && I->space != PTX_LOCAL))
        return ptx_parse_error(p, KERNEL_SYNTAX, s->opcode.line, "the address of '%.*s' needs 64 bits",
                               s->opcode.length, s->opcode.text);
    return true;
}

/* Registers that are loaded or stored may be wider than the type (PTX ISA, "Operand Size Exceeding..."). */
static bool values(struct ptx_parser *p, const struct ptx_statement *s, const struct ptx_written *w,
                   bool is_store, struct ptx_instruction *I)
{
    const char needed = ptx_width_of(I->type);
    const bool braces = w->form == PTX_BRACES;
    if ((w->form != PTX_ONE && !braces) || w->n != I->vector || (braces && I->vector == 1))
        return ptx_wrong_form(p, s);
    for (int i = 0; i < w->n; i++) {
        const struct ptx_token *part = &w->part[i];
        char width;
        if (*part->text == '%' || !is_store) {
            if (!ptx_any_operand(p, part, 'x', &width, &I->d[i])) return false;
        } else {
            width = needed == 'f' ? 'w' : needed;
            if (!ptx_operand_of(p, part, w->negated, needed, &I->d[i])) return false;
        }
        static const char order[] = "hwq";
        const char *have = strchr(order, width), *need = strchr(order, needed == 'f' ? 'w' : needed);
        if (width == 'x' || have < need || (i > 0 && I->wide != (width == 'q')))
            return ptx_parse_error(p, KERNEL_SYNTAX, s->opcode.line,
                                   "register '%.*s' is too narrow for '%.*s'", part->length, part->text,
                                   s->opcode.length, s->opcode.text);
        I->wide = width == 'q';
        I->wide_from = width == 'h'; /* the upper half of a 16-bit register stays 0 */
    }
    return true;
}

static bool parameter_load(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    const struct ptx_written *w = &s->operand[1];
    uint32_t index;
    const struct ptx_symbol *symbol = w->form == PTX_MEMORY ? ptx_find(p, &w->part[0], &index) : NULL;
    const int64_t bytes = (int64_t)ptx_type_bytes(I->type) * I->vector;
    if (!symbol || symbol->kind != PTX_PARAMETER) return ptx_wrong_form(p, s);
    I->kind = PTX_LOAD_PARAMETER;
    I->offset = symbol->at + w->offset;
    if (I->offset < 0 || I->offset + bytes > p->kernel->parameter_bytes || I->offset % bytes)
        return ptx_parse_error(p, KERNEL_SYNTAX, s->opcode.line, "offset %lld is not inside parameter '%.*s'",
                               (long long)w->offset, w->part[0].length, w->part[0].text);
    return values(p, s, &s->operand[0], false, I);
}

bool ptx_decode_memory(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    static const char *const ordered[] = { "volatile", "relaxed", "acquire", "release" };
    static const char *const loads[] = { "weak", "cta", "gpu", "sys", "cluster", "ca",
                                         "cg",   "cs",  "lu",  "cv",  "nc" };
    static const char *const stores[] = { "weak", "cta", "gpu", "sys", "cluster", "wb", "cg", "cs", "wt" };
    const bool is_store = ptx_is(&s->word[0], "st");
    enum ptx_type type = PTX_PRED;
    bool is_parameter = false;
    I->kind = is_store ? PTX_STORE : PTX_LOAD;
    I->vector = 1;
    for (int i = 1; i < s->n_words; i++) {
        const struct ptx_token *w = &s->word[i];
        if (i == s->n_words - 1 && ptx_type_of(w, &type)) continue;
        if (space_of(w, I)) continue;
        if (ptx_is(w, "v2") || ptx_is(w, "v4"))
            I->vector = (uint8_t)(w->text[1] - '0');
        else if (ptx_is(w, "param") && !is_store)
            is_parameter = true;
        else if (INDEX_OF(w, ordered) >= 0)
            I->synchronises = 1;
        else if (is_store ? INDEX_OF(w, stores) < 0 : INDEX_OF(w, loads) < 0)
            return ptx_unknown(p, s, w);
    }
    if (!ptx_type_bytes(type) || type >= PTX_F16) return ptx_unknown(p, s, &s->word[s->n_words - 1]);
    I->type = (uint8_t)type;
    if (ptx_type_bytes(type) * I->vector > 16) return ptx_unknown(p, s, NULL);
    if (!ptx_count(p, s, 2, 2)) return false;
    if (is_parameter) return parameter_load(p, s, I);
    return ptx_address(p, s, &s->operand[is_store ? 0 : 1], I)
           && values(p, s, &s->operand[is_store ? 1 : 0], is_store, I);
}

static bool atom_has(enum ptx_atom what, enum ptx_type type)
{
    switch (what) {
    case PTX_A_ADD: return type == PTX_U32 || type == PTX_S32 || type == PTX_U64 || type == PTX_F32;
    case PTX_A_MIN:
    case PTX_A_MAX: return type == PTX_U32 || type == PTX_S32 || type == PTX_U64 || type == PTX_S64;
    default: return type == PTX_U32 || type == PTX_U64;
    }
}

bool ptx_decode_atom(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    static const char *const ignored[] = { "relaxed", "acquire", "release", "acq_rel",
                                           "cta",     "gpu",     "sys",     "cluster" };
    static const char *const names[] = { "add", "min", "max", "and", "or", "xor", "exch", "cas" };
    const bool is_red = ptx_is(&s->word[0], "red");
    enum ptx_type type = PTX_PRED;
    int what = -1;
    I->kind = PTX_ATOM;
    I->vector = 1;
    for (int i = 1; i < s->n_words; i++) {
        const struct ptx_token *w = &s->word[i];
        if (i == s->n_words - 1 && ptx_type_of(w, &type)) continue;
        if (what < 0 && (what = INDEX_OF(w, names)) >= 0) continue;
        if (!space_of(w, I) && INDEX_OF(w, ignored) < 0) return ptx_unknown(p, s, w);
    }
    const bool is_bits = *s->word[s->n_words - 1].text == 'b', wants_bits = what >= PTX_A_AND;
    if (what < 0 || I->space == PTX_LOCAL || is_bits != wants_bits || !atom_has(what, type)
        || (is_red && what >= PTX_A_EXCH))
        return ptx_unknown(p, s, NULL);
    I->mode = (uint8_t)what;
    I->type = (uint8_t)type;
    I->wide = ptx_type_bytes(type) == 8;
    const int first = is_red ? 0 : 1, n = first + (what == PTX_A_CAS ? 3 : 2);
    if (!ptx_count(p, s, n, n) || !ptx_address(p, s, &s->operand[first], I)) return false;
    I->has_d = !is_red && !ptx_is(&s->operand[0].part[0], "_");
    const char width = ptx_width_of(type);
    for (int i = 0; i < s->n; i++)
        if (i != first && s->operand[i].form != PTX_ONE) return ptx_wrong_form(p, s);
    return (!I->has_d || ptx_destination(p, &s->operand[0].part[0], width, &I->d[0]))
           && ptx_operand_of(p, &s->operand[first + 1].part[0], s->operand[first + 1].negated, width, &I->b)
           && (what != PTX_A_CAS
               || ptx_operand_of(p, &s->operand[first + 2].part[0], s->operand[first + 2].negated, width,
                                 &I->c));
}

/* ---- comparisons and conversions ---- */

static int compare_of(const struct ptx_token *word, enum ptx_type type)
{
    static const char *const names[] = { "eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                         "neu", "ltu", "leu", "gtu", "geu", "num", "nan" };
    static const char *const unsigned_names[] = { "lo", "ls", "hi", "hs" };
    int i = INDEX_OF(word, names);
    const bool is_unsigned = type == PTX_U16 || type == PTX_U32 || type == PTX_U64;
    if (type == PTX_F32) return i;
    if (i >= 0) return i <= PTX_GE ? i : -1;
    i = INDEX_OF(word, unsigned_names);
    return i >= 0 && is_unsigned ? PTX_LT + i : -1;
}

bool ptx_decode_setp(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    static const char *const booleans[] = { "", "and", "or", "xor" };
    const bool combined = s->n_words == 4;
    enum ptx_type type;
    if (s->n_words < 3 || s->n_words > 4) return ptx_unknown(p, s, NULL);
    const struct ptx_token *last = &s->word[s->n_words - 1];
    if (!ptx_type_of(last, &type) || ptx_type_bytes(type) < 2 || type > PTX_F32)
        return ptx_unknown(p, s, last);
    const int compare = compare_of(&s->word[1], type),
              boolean = combined ? INDEX_OF(&s->word[2], booleans) : 0;
    if (compare < 0) return ptx_unknown(p, s, &s->word[1]);
    if (boolean < 0) return ptx_unknown(p, s, &s->word[2]);
    if (*last->text == 'b' && compare > PTX_NE) return ptx_unknown(p, s, &s->word[1]);
    I->kind = PTX_SETP;
    I->mode = (uint8_t)compare;
    I->boolean = (uint8_t)boolean;
    I->type = (uint8_t)type;
    const struct ptx_written *o = s->operand;
    if (!ptx_count(p, s, combined ? 4 : 3, combined ? 4 : 3)) return false;
    I->has_q = o[0].form == PTX_TWO && !ptx_is(&o[0].part[1], "_");
    I->has_d = !ptx_is(&o[0].part[0], "_");
    if (combined) I->negated = o[3].negated;
    return (!I->has_d || ptx_destination(p, &o[0].part[0], 'p', &I->d[0]))
           && (!I->has_q || ptx_destination(p, &o[0].part[1], 'p', &I->d[1]))
           && ptx_operand_of(p, &o[1].part[0], o[1].negated, ptx_width_of(type), &I->a)
           && ptx_operand_of(p, &o[2].part[0], o[2].negated, ptx_width_of(type), &I->b)
           && (!combined || ptx_operand_of(p, &o[3].part[0], false, 'p', &I->c));
}

static bool is_integer(enum ptx_type type) { return type >= PTX_U8 && type <= PTX_S64; }

/* The conversions with a function of their own. */
static void quick_cvt(struct ptx_instruction *I, char to_width, char from_width)
{
    int op = -1;
    if (I->type == PTX_S64 && I->from == PTX_S32 && from_width == 'w') op = PTX_OP_cvt_s64_s32;
    if (ptx_type_bytes(I->type) == 8 && I->from == PTX_U32 && from_width == 'w') op = PTX_OP_cvt_u64_u32;
    if (ptx_type_bytes(I->type) == 4 && ptx_type_bytes(I->from) == 8 && to_width == 'w')
        op = PTX_OP_cvt_32_64;
    if (ptx_type_bytes(I->type) == 2 && ptx_type_bytes(I->from) == 4 && to_width == 'h' && from_width == 'w')
        op = PTX_OP_cvt_16_32;
    if (op < 0 || I->saturate) return;
    I->kind = PTX_ALU;
    I->op = (uint16_t)op;
}

bool ptx_decode_cvt(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    static const char *const roundings[] = { "rn", "rz", "rm", "rp" };
    static const char *const integral[] = { "rni", "rzi", "rmi", "rpi" };
    enum ptx_type to, from;
    const int n = s->n_words;
    bool has_rounding = false;
    if (n < 3 || !ptx_type_of(&s->word[n - 2], &to) || !ptx_type_of(&s->word[n - 1], &from))
        return ptx_unknown(p, s, NULL);
    for (int i = 1; i < n - 2; i++) {
        const int plain = INDEX_OF(&s->word[i], roundings), whole = INDEX_OF(&s->word[i], integral);
        if (ptx_is(&s->word[i], "sat") && i == n - 3) {
            I->saturate = 1;
        } else if ((plain >= 0 || whole >= 0) && i == 1) {
            I->mode = (uint8_t)(whole >= 0 ? whole : plain);
            I->integral = whole >= 0;
            has_rounding = true;
        } else {
            return ptx_unknown(p, s, &s->word[i]);
        }
    }
    const bool to_int = is_integer(to), from_int = is_integer(from);
    /* a conversion to f32 from an integer rounds; one to an integer from f32 rounds to an integer */
    const bool good = (to_int && from_int && !has_rounding) || (to_int && from == PTX_F32 && I->integral)
                      || (to == PTX_F32 && from_int && has_rounding && !I->integral)
                      || (to == PTX_F32 && from == PTX_F32 && (I->integral || !has_rounding));
    if (!good) return ptx_unknown(p, s, NULL);
    I->kind = PTX_CVT;
    I->type = (uint8_t)to;
    I->from = (uint8_t)from;
    char to_width, from_width;
    if (!ptx_count(p, s, 2, 2) || s->operand[0].form != PTX_ONE || s->operand[1].form != PTX_ONE)
        return ptx_wrong_form(p, s);
    if (!ptx_any_operand(p, &s->operand[0].part[0], 'x', &to_width, &I->d[0])
        || !ptx_any_operand(p, &s->operand[1].part[0], ptx_width_of(from), &from_width, &I->a))
        return false;
    static const uint8_t bytes_of[256] = { ['h'] = 2, ['w'] = 4, ['f'] = 4, ['q'] = 8 };
    if (bytes_of[(unsigned char)to_width] < ptx_type_bytes(to)
        || bytes_of[(unsigned char)from_width] < ptx_type_bytes(from))
        return ptx_wrong_form(p, s);
    I->wide = to_width == 'q';
    I->wide_from = from_width == 'q';
    I->has_q = to_width == 'h'; /* the upper half of a 16-bit register stays 0 */
    if (to_int && from_int) quick_cvt(I, to_width, from_width);
    return true;
}

/* ---- barriers, shuffles and votes ---- */

static bool decode_bar(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    const struct ptx_written *o = s->operand;
    if (ptx_is(&s->opcode, "bar.warp.sync")) {
        I->kind = PTX_WARP_BARRIER;
        return ptx_count(p, s, 1, 1) && ptx_operand_of(p, &o[0].part[0], o[0].negated, 'w', &I->e);
    }
    static const char *const names[] = {
        "bar.sync",         "bar.cta.sync",         "barrier.sync",
        "barrier.cta.sync", "barrier.sync.aligned", "barrier.cta.sync.aligned"
    };
    if (INDEX_OF(&s->opcode, names) < 0) return ptx_unknown(p, s, NULL);
    I->kind = PTX_BARRIER;
    I->counted = s->n == 2;
    return ptx_count(p, s, 1, 2) && ptx_operand_of(p, &o[0].part[0], false, 'w', &I->a)
           && (s->n == 1 || ptx_operand_of(p, &o[1].part[0], false, 'w', &I->b));
}

static bool decode_shuffle(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    static const char *const modes[] = { "up", "down", "bfly", "idx" };
    const int mode = s->n_words == 4 ? INDEX_OF(&s->word[2], modes) : -1;
    const struct ptx_written *o = s->operand;
    if (mode < 0 || !ptx_is(&s->word[1], "sync") || !ptx_is(&s->word[3], "b32"))
        return ptx_unknown(p, s, NULL);
    I->kind = PTX_SHUFFLE;
    I->mode = (uint8_t)mode;
    if (!ptx_count(p, s, 5, 5)) return false;
    I->has_q = o[0].form == PTX_TWO && !ptx_is(&o[0].part[1], "_");
    I->has_d = !ptx_is(&o[0].part[0], "_");
    return (!I->has_d || ptx_destination(p, &o[0].part[0], 'w', &I->d[0]))
           && (!I->has_q || ptx_destination(p, &o[0].part[1], 'p', &I->d[1]))
           && ptx_operand_of(p, &o[1].part[0], o[1].negated, 'w', &I->a)
           && ptx_operand_of(p, &o[2].part[0], o[2].negated, 'w', &I->b)
           && ptx_operand_of(p, &o[3].part[0], o[3].negated, 'w', &I->c)
           && ptx_operand_of(p, &o[4].part[0], o[4].negated, 'w', &I->e);
}

static bool decode_vote(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    static const char *const modes[] = { "all", "any", "uni", "ballot" };
    const int mode = s->n_words == 4 ? INDEX_OF(&s->word[2], modes) : -1;
    const bool ballot = mode == PTX_VOTE_BALLOT;
    const struct ptx_written *o = s->operand;
    if (mode < 0 || !ptx_is(&s->word[1], "sync") || !ptx_is(&s->word[3], ballot ? "b32" : "pred"))
        return ptx_unknown(p, s, NULL);
    I->kind = PTX_VOTE;
    I->mode = (uint8_t)mode;
    I->negated = o[1].negated;
    return ptx_count(p, s, 3, 3) && ptx_destination(p, &o[0].part[0], ballot ? 'w' : 'p', &I->d[0])
           && ptx_operand_of(p, &o[1].part[0], false, 'p', &I->a)
           && ptx_operand_of(p, &o[2].part[0], o[2].negated, 'w', &I->e);
}

bool ptx_decode_wait(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    const struct ptx_token *base = &s->word[0];
    if (ptx_is(base, "shfl")) return decode_shuffle(p, s, I);
    if (ptx_is(base, "vote")) return decode_vote(p, s, I);
    if (ptx_is(base, "bar") || ptx_is(base, "barrier")) return decode_bar(p, s, I);
    I->kind = PTX_ACTIVE_MASK;
    if (!ptx_is(&s->opcode, "activemask.b32")) return ptx_unknown(p, s, NULL);
    return ptx_count(p, s, 1, 1) && ptx_destination(p, &s->operand[0].part[0], 'w', &I->d[0]);
}

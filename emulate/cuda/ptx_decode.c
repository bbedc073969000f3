/* SPDX-License-Identifier: Apache-2.0 */
/* One instruction: its opcode, operands and guard. A modifier that is not known is an error. */
#include "emulate/cuda/ptx_parse.h"

#include <stdio.h>
#include <string.h>

/* ---- the table of ptx_ops.h ---- */

static const struct {
    const char *text, *signature;
} ops[PTX_N_OPS] = {
#define OP(name, text, signature, ...) { text, signature },
#include "emulate/cuda/ptx_ops.h"
#undef OP
};

/* Entries of op_buckets are op * 8 + spelling + 1, with open addressing. */
void ptx_ops_index(struct ptx_parser *p)
{
    for (int op = 0; op < PTX_N_OPS; op++) {
        const char *c = ops[op].text;
        for (int spelling = 0; *c; spelling++) {
            const int length = (int)strcspn(c, " ");
            uint32_t h = ptx_hash(c, length);
            while (p->op_buckets[h]) h = (h + 1) % PTX_BUCKETS;
            p->op_buckets[h] = op * 8 + spelling + 1;
            c += length + (c[length] == ' ');
        }
    }
}

static int op_of(const struct ptx_parser *p, const struct ptx_token *opcode)
{
    for (uint32_t h = ptx_hash(opcode->text, opcode->length); p->op_buckets[h]; h = (h + 1) % PTX_BUCKETS) {
        const int entry = p->op_buckets[h] - 1;
        const char *c = ops[entry / 8].text;
        for (int spelling = entry % 8; spelling > 0; spelling--) c = strchr(c, ' ') + 1;
        const int length = (int)strcspn(c, " ");
        if (length == opcode->length && !memcmp(c, opcode->text, (size_t)length)) return entry / 8;
    }
    return -1;
}

static bool decode_op(struct ptx_parser *p, const struct ptx_statement *s, int op, struct ptx_instruction *I)
{
    const char *signature = ops[op].signature;
    ptx_operand *const sources[] = { &I->a, &I->b, &I->c, &I->e };
    if (!ptx_count(p, s, (int)strlen(signature), (int)strlen(signature))) return false;
    I->op = (uint16_t)op;
    I->kind = op >= PTX_OP_div_s32 && op <= PTX_OP_rem_u16 ? PTX_DIVIDE : PTX_ALU;
    for (int i = 0; signature[i]; i++) {
        const struct ptx_written *w = &s->operand[i];
        const bool negative = w->negated && w->part[0].length && *w->part[0].text >= '0'
                              && *w->part[0].text <= '9';
        if (w->form != PTX_ONE || (w->negated && !negative))
            return ptx_parse_error(p, KERNEL_SYNTAX, s->opcode.line,
                                   "operand %d of '%.*s' has the wrong form", i + 1, s->opcode.length,
                                   s->opcode.text);
        uint64_t table;
        if (i == 0                ? !ptx_destination(p, &w->part[0], signature[i], &I->d[0])
            : signature[i] == 'i' ? !ptx_integer(&w->part[0], &table)
                                  : !ptx_operand_of(p, &w->part[0], negative, signature[i], sources[i - 1]))
            return ptx_parse_error(p, KERNEL_SYNTAX, s->opcode.line, "operand %d of '%.*s' is no number",
                                   i + 1, s->opcode.length, s->opcode.text);
        if (signature[i] == 'i') I->offset = (int64_t)table;
    }
    return true;
}

/* ---- predicates, and mov of registers in braces ---- */

static bool decode_logic(struct ptx_parser *p, const struct ptx_statement *s, enum ptx_boolean boolean,
                         struct ptx_instruction *I)
{
    const int n = boolean == PTX_NOT || boolean == PTX_MOV ? 2 : 3;
    I->kind = PTX_LOGIC;
    I->boolean = (uint8_t)boolean;
    return ptx_count(p, s, n, n) && ptx_destination(p, &s->operand[0].part[0], 'p', &I->d[0])
           && ptx_operand_of(p, &s->operand[1].part[0], s->operand[1].negated, 'p', &I->a)
           && (n == 2 || ptx_operand_of(p, &s->operand[2].part[0], false, 'p', &I->b));
}

/* mov.b64 %rd1, {%r1, %r2}; and mov.b64 {%r1, %r2}, %rd1; */
static bool decode_braces(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    enum ptx_type type;
    const bool packs = s->operand[1].form == PTX_BRACES;
    const struct ptx_written *many = &s->operand[packs ? 1 : 0], *one = &s->operand[packs ? 0 : 1];
    if (!ptx_count(p, s, 2, 2) || s->n_words != 2) return ptx_unknown(p, s, NULL);
    if (!ptx_type_of(&s->word[1], &type) || (type != PTX_U32 && type != PTX_U64) || one->form != PTX_ONE
        || (many->n != 2 && many->n != 4) || ptx_type_bytes(type) / (uint32_t)many->n < 2)
        return ptx_unknown(p, s, NULL);
    const uint32_t bytes = ptx_type_bytes(type) / (uint32_t)many->n;
    I->kind = packs ? PTX_PACK : PTX_UNPACK;
    I->type = (uint8_t)(bytes == 2 ? PTX_U16 : PTX_U32);
    I->vector = (uint8_t)many->n;
    I->wide = type == PTX_U64;
    for (int i = 0; i < many->n; i++) {
        const char width = bytes == 2 ? 'h' : 'w';
        if (packs ? !ptx_operand_of(p, &many->part[i], false, width, &I->d[i])
                  : !ptx_destination(p, &many->part[i], width, &I->d[i]))
            return false;
    }
    const char width = I->wide ? 'q' : 'w';
    return packs ? ptx_destination(p, &one->part[0], width, &I->a)
                 : ptx_operand_of(p, &one->part[0], false, width, &I->a);
}

/* ---- control ---- */

static bool decode_control(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    const struct ptx_token *w = s->word;
    const bool is_uniform = s->n_words == 2 && ptx_is(&w[1], "uni");
    if (ptx_is(w, "bra")) {
        if (s->n_words > 1 && !is_uniform) return ptx_unknown(p, s, &w[1]);
        if (!ptx_count(p, s, 1, 1)) return false;
        if (!ptx_grow(p, &p->labels, p->n_labels, &p->label_capacity, sizeof *p->labels)) return false;
        p->labels[p->n_labels++] = (struct ptx_fixup){ s->operand[0].part[0], (uint32_t)p->kernel->n_code,
                                                       0 };
        I->kind = PTX_BRANCH;
        return true;
    }
    if (ptx_is(w, "ret") || ptx_is(w, "exit") || ptx_is(w, "trap")) {
        if (s->n_words > 1 && !(is_uniform && ptx_is(w, "ret"))) return ptx_unknown(p, s, &w[1]);
        I->kind = ptx_is(w, "trap") ? PTX_TRAPPED : PTX_EXIT;
        return ptx_count(p, s, 0, 0);
    }
    if (ptx_is(w, "membar") || ptx_is(w, "fence")) {
        static const char *const known[] = { "cta", "gl", "gpu", "sys", "cluster", "sc", "acq_rel" };
        for (int i = 1; i < s->n_words; i++) {
            bool good = false;
            for (size_t j = 0; j < sizeof known / sizeof *known; j++) good |= ptx_is(&w[i], known[j]);
            if (!good) return ptx_unknown(p, s, &w[i]);
        }
        I->kind = PTX_NOTHING;
        return s->n_words > 1 ? ptx_count(p, s, 0, 0) : ptx_unknown(p, s, NULL);
    }
    return ptx_unknown(p, s, NULL);
}

static bool decode(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    static const struct {
        const char *name;
        enum ptx_boolean boolean;
    } logic[] = { { "and.pred", PTX_AND },
                  { "or.pred", PTX_OR },
                  { "xor.pred", PTX_XOR },
                  { "not.pred", PTX_NOT },
                  { "mov.pred", PTX_MOV } };
    static const struct {
        const char *name;
        bool (*decode)(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I);
    } families[] = { { "ld", ptx_decode_memory },
                     { "st", ptx_decode_memory },
                     { "setp", ptx_decode_setp },
                     { "cvt", ptx_decode_cvt },
                     { "atom", ptx_decode_atom },
                     { "red", ptx_decode_atom },
                     { "bar", ptx_decode_wait },
                     { "barrier", ptx_decode_wait },
                     { "shfl", ptx_decode_wait },
                     { "vote", ptx_decode_wait },
                     { "activemask", ptx_decode_wait },
                     { "cp", ptx_decode_copy },
                     { "ldmatrix", ptx_decode_load_matrix },
                     { "mma", ptx_decode_mma } };
    const struct ptx_token *base = &s->word[0];
    if (ptx_is(base, "mov") && (s->operand[0].form == PTX_BRACES || s->operand[1].form == PTX_BRACES))
        return decode_braces(p, s, I);
    const int op = op_of(p, &s->opcode);
    if (op >= 0) return decode_op(p, s, op, I);
    for (size_t i = 0; i < sizeof logic / sizeof *logic; i++)
        if (ptx_is(&s->opcode, logic[i].name)) return decode_logic(p, s, logic[i].boolean, I);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (ptx_is(base, families[i].name)) return families[i].decode(p, s, I);
    return decode_control(p, s, I);
}

/* ---- how operands are written ---- */

static bool read_part(struct ptx_parser *p, struct ptx_written *w)
{
    if (w->n >= PTX_VECTOR || !p->token.length)
        return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line, "an operand has too many parts");
    w->part[w->n++] = p->token;
    return ptx_next(p);
}

static bool read_operand(struct ptx_parser *p, struct ptx_written *w)
{
    *w = (struct ptx_written){ .form = PTX_ONE };
    if (ptx_is(&p->token, "!") || ptx_is(&p->token, "-")) {
        w->negated = true;
        if (!ptx_next(p)) return false;
    }
    if (ptx_is(&p->token, "{")) {
        w->form = PTX_BRACES;
        do {
            if (!ptx_next(p) || !read_part(p, w)) return false;
        } while (ptx_is(&p->token, ","));
        return ptx_expect(p, "}");
    }
    if (ptx_is(&p->token, "[")) {
        w->form = PTX_MEMORY;
        if (!ptx_next(p) || !read_part(p, w)) return false;
        /* [%rd1+8] and [%rd1+-8] */
        while (ptx_is(&p->token, "+") || ptx_is(&p->token, "-")) {
            int64_t n;
            if (ptx_is(&p->token, "+") && !ptx_next(p)) return false;
            if (!ptx_number(p, &n)) return false;
            w->offset += n;
        }
        return ptx_expect(p, "]");
    }
    if (!read_part(p, w)) return false;
    if (!ptx_is(&p->token, "|")) return true;
    w->form = PTX_TWO;
    return ptx_next(p) && read_part(p, w);
}

static bool read_opcode(struct ptx_parser *p, struct ptx_statement *s)
{
    s->opcode = p->token;
    const char *c = s->opcode.text, *end = c + s->opcode.length;
    while (c <= end) {
        const char *dot = memchr(c, '.', (size_t)(end - c));
        if (!dot) dot = end;
        if (s->n_words == PTX_WORDS || dot == c) return ptx_unknown(p, s, NULL);
        s->word[s->n_words++] = (struct ptx_token){ c, (int)(dot - c), s->opcode.line };
        c = dot + 1;
    }
    return ptx_next(p);
}

bool ptx_instruction(struct ptx_parser *p)
{
    struct ptx_statement s = { 0 };
    struct ptx_kernel *k = p->kernel;
    struct ptx_instruction I = { .line = p->token.line, .place = p->place, .has_d = 1 };
    if (ptx_is(&p->token, "@")) {
        if (!ptx_next(p)) return false;
        I.guarded = ptx_is(&p->token, "!") ? 2 : 1;
        if (I.guarded == 2 && !ptx_next(p)) return false;
        if (!ptx_destination(p, &p->token, 'p', &I.guard) || !ptx_next(p)) return false;
    }
    if (!read_opcode(p, &s)) return false;
    while (!ptx_is(&p->token, ";")) {
        if (!p->token.length)
            return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line, "the text ends inside instruction '%.*s'",
                                   s.opcode.length, s.opcode.text);
        if (s.n == PTX_OPERANDS)
            return ptx_parse_error(p, KERNEL_SYNTAX, s.opcode.line,
                                   "instruction '%.*s' has too many operands", s.opcode.length,
                                   s.opcode.text);
        if (!read_operand(p, &s.operand[s.n++])) return false;
        if (!ptx_is(&p->token, ";") && !ptx_expect(p, ",")) return false;
    }
    if (!decode(p, &s, &I)) return false;
    if (!ptx_grow(p, &k->code, k->n_code, &k->code_capacity, sizeof *k->code)) return false;
    k->code[k->n_code++] = I;
    return ptx_next(p);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that do not wait (cp.async), and the instructions of the matrix units: ldmatrix and mma. */
#include "emulate/cuda/ptx_parse.h"

#include <string.h>

/* ---- cp.async ---- */

/* cp.async.wait_group N, and cp.async.wait_all, which also waits for copies outside all groups. */
static bool decode_copy_wait(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    uint64_t most;
    I->kind = PTX_COPY_WAIT;
    I->offset = -1;
    if (ptx_is(&s->word[2], "wait_all")) return ptx_count(p, s, 0, 0);
    if (!ptx_count(p, s, 1, 1)) return false;
    if (s->operand[0].form != PTX_ONE || s->operand[0].negated || !ptx_integer(&s->operand[0].part[0], &most)
        || most > INT32_MAX)
        return ptx_wrong_form(p, s);
    I->offset = (int64_t)most;
    return true;
}

/* cp.async.cg.shared.global [to], [from], 16, n; */
bool ptx_decode_copy(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    static const char *const hints[] = { "L2::64B", "L2::128B", "L2::256B" };
    if (s->n_words < 3 || !ptx_is(&s->word[1], "async")) return ptx_unknown(p, s, NULL);
    if (s->n_words == 3 && ptx_is(&s->word[2], "commit_group")) {
        I->kind = PTX_COPY_COMMIT;
        return ptx_count(p, s, 0, 0);
    }
    if (s->n_words == 3 && (ptx_is(&s->word[2], "wait_group") || ptx_is(&s->word[2], "wait_all")))
        return decode_copy_wait(p, s, I);
    const bool past_l1 = ptx_is(&s->word[2], "cg");
    const bool good = (past_l1 || ptx_is(&s->word[2], "ca")) && s->n_words >= 5 && s->n_words <= 6
                      && (ptx_is(&s->word[3], "shared") || ptx_is(&s->word[3], "shared::cta"))
                      && ptx_is(&s->word[4], "global");
    bool hinted = s->n_words < 6;
    for (size_t i = 0; good && !hinted && i < sizeof hints / sizeof *hints; i++)
        hinted = ptx_is(&s->word[5], hints[i]);
    uint64_t bytes;
    if (!good || !hinted) return ptx_unknown(p, s, NULL);
    if (!ptx_count(p, s, 3, 4)) return false;
    if (s->operand[2].form != PTX_ONE || s->operand[2].negated || !ptx_integer(&s->operand[2].part[0], &bytes)
        || (bytes != 16 && (past_l1 || (bytes != 4 && bytes != 8))))
        return ptx_wrong_form(p, s);
    I->kind = PTX_COPY;
    I->type = bytes == 4 ? PTX_U32 : PTX_U64;
    I->vector = (uint8_t)(bytes == 16 ? 2 : 1);
    struct ptx_instruction to = { .space = PTX_SHARED };
    if (!ptx_address(p, s, &s->operand[0], &to)) return false;
    I->b = to.a;
    I->target = (int32_t)to.offset;
    I->wide_from = to.wide_address;
    I->space = PTX_GLOBAL;
    I->counted = s->n == 4;
    return ptx_address(p, s, &s->operand[1], I)
           && (!I->counted || ptx_operand_of(p, &s->operand[3].part[0], false, 'w', &I->c));
}

/* ---- matrices ---- */

/* n registers in braces; one register may stand without braces. */
static bool registers(struct ptx_parser *p, const struct ptx_statement *s, const struct ptx_written *w, int n,
                      ptx_operand *list)
{
    if (w->n != n || (w->form != PTX_BRACES && (n > 1 || w->form != PTX_ONE))) return ptx_wrong_form(p, s);
    for (int i = 0; i < n; i++)
        if (!ptx_destination(p, &w->part[i], 'w', &list[i])) return false;
    return true;
}

/* ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {d0, d1, d2, d3}, [at]; */
bool ptx_decode_load_matrix(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    static const char *const front[] = { "ldmatrix", "sync", "aligned", "m8n8" };
    int at = 4;
    if (s->n_words < 7 || s->n_words > 8) return ptx_unknown(p, s, NULL);
    for (int i = 1; i < 4; i++)
        if (!ptx_is(&s->word[i], front[i])) return ptx_unknown(p, s, &s->word[i]);
    const struct ptx_token *count = &s->word[at++];
    if (!ptx_is(count, "x1") && !ptx_is(count, "x2") && !ptx_is(count, "x4")) return ptx_unknown(p, s, count);
    I->kind = PTX_LOAD_MATRIX;
    I->vector = (uint8_t)(count->text[1] - '0');
    I->turned = ptx_is(&s->word[at], "trans");
    at += I->turned;
    I->space = PTX_SHARED;
    I->type = PTX_U64; /* a row of 16 bytes */
    if (s->n_words != at + 2 || (!ptx_is(&s->word[at], "shared") && !ptx_is(&s->word[at], "shared::cta"))
        || !ptx_is(&s->word[at + 1], "b16"))
        return ptx_unknown(p, s, &s->word[at]);
    return ptx_count(p, s, 2, 2) && registers(p, s, &s->operand[0], I->vector, I->d)
           && ptx_address(p, s, &s->operand[1], I) && ptx_constant_make(p, PTX_ALL_LANES, 'w', false, &I->e);
}

/* mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {d0..d3}, {a0..a3}, {b0, b1}, {c0..c3}; */
bool ptx_decode_mma(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I)
{
    static const char *const front[] = { "mma", "sync", "aligned", "m16n8k16", "row", "col", "f32" };
    struct ptx_kernel *k = p->kernel;
    struct ptx_product product;
    if (s->n_words != 10) return ptx_unknown(p, s, NULL);
    for (int i = 1; i < 7; i++)
        if (!ptx_is(&s->word[i], front[i])) return ptx_unknown(p, s, &s->word[i]);
    const bool is_f16 = ptx_is(&s->word[7], "f16");
    const char *type = is_f16 ? "f16" : "bf16";
    if (!ptx_is(&s->word[7], type) || !ptx_is(&s->word[8], type) || !ptx_is(&s->word[9], "f32"))
        return ptx_unknown(p, s, &s->word[7]);
    I->kind = PTX_MULTIPLY;
    I->from = is_f16 ? PTX_F16 : PTX_BF16;
    const struct ptx_written *o = s->operand;
    if (!ptx_count(p, s, 4, 4) || !registers(p, s, &o[0], 4, I->d) || !registers(p, s, &o[1], 4, product.a)
        || !registers(p, s, &o[2], 2, product.b) || !registers(p, s, &o[3], 4, product.c)
        || !ptx_constant_make(p, PTX_ALL_LANES, 'w', false, &I->e)
        || !ptx_grow(p, &k->products, k->n_products, &k->product_capacity, sizeof *k->products))
        return false;
    I->offset = k->n_products;
    k->products[k->n_products++] = product;
    return true;
}

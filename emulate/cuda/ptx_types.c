/* SPDX-License-Identifier: Apache-2.0 */
/* The types of operands, and the errors that all instructions share. */
#include "emulate/cuda/ptx_parse.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum ptx_type type;
} types[] = { { "pred", PTX_PRED },   { "b8", PTX_U8 },        { "u8", PTX_U8 },   { "s8", PTX_S8 },
              { "b16", PTX_U16 },     { "u16", PTX_U16 },      { "s16", PTX_S16 }, { "b32", PTX_U32 },
              { "u32", PTX_U32 },     { "s32", PTX_S32 },      { "b64", PTX_U64 }, { "u64", PTX_U64 },
              { "s64", PTX_S64 },     { "f32", PTX_F32 },      { "f16", PTX_F16 }, { "bf16", PTX_BF16 },
              { "f16x2", PTX_F16X2 }, { "bf16x2", PTX_BF16X2 } };

bool ptx_type_of(const struct ptx_token *word, enum ptx_type *type_out)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (ptx_is(word, types[i].name)) {
            *type_out = types[i].type;
            return true;
        }
    return false;
}

uint32_t ptx_type_bytes(enum ptx_type type)
{
    static const uint8_t bytes[PTX_N_TYPES] = {
        [PTX_U8] = 1,   [PTX_S8] = 1,    [PTX_U16] = 2,   [PTX_S16] = 2, [PTX_U32] = 4,
        [PTX_S32] = 4,  [PTX_U64] = 8,   [PTX_S64] = 8,   [PTX_F32] = 4, [PTX_F16] = 2,
        [PTX_BF16] = 2, [PTX_F16X2] = 4, [PTX_BF16X2] = 4
    };
    return bytes[type];
}

char ptx_width_of(enum ptx_type type)
{
    const uint32_t bytes = ptx_type_bytes(type);
    return type == PTX_PRED ? 'p' : type == PTX_F32 ? 'f' : bytes == 8 ? 'q' : bytes == 4 ? 'w' : 'h';
}

bool ptx_unknown(struct ptx_parser *p, const struct ptx_statement *s, const struct ptx_token *modifier)
{
    if (modifier)
        return ptx_parse_error(p, KERNEL_SYNTAX, s->opcode.line,
                               "instruction '%.*s' has the unknown modifier '.%.*s'", s->opcode.length,
                               s->opcode.text, modifier->length, modifier->text);
    return ptx_parse_error(p, KERNEL_SYNTAX, s->opcode.line, "instruction '%.*s' is not known",
                           s->opcode.length, s->opcode.text);
}

bool ptx_count(struct ptx_parser *p, const struct ptx_statement *s, int least, int most)
{
    if (s->n >= least && s->n <= most) return true;
    return ptx_parse_error(p, KERNEL_SYNTAX, s->opcode.line, "instruction '%.*s' has %d operands, not %d",
                           s->opcode.length, s->opcode.text, s->n, s->n < least ? least : most);
}

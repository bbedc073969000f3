/* SPDX-License-Identifier: Apache-2.0 */
/** The parser of PTX: tokens, names, operands. */
#ifndef EMULATE_CUDA_PTX_PARSE_H
#define EMULATE_CUDA_PTX_PARSE_H

#include "emulate/cuda/ptx_code.h"

/**
 * A piece of the text: a word of letters, digits and "_$%.", one other character, or a string in quotes.
 */
struct ptx_token {
    const char *text;
    int length; /* 0 at the end of the text */
    int line;
};

enum ptx_symbol_kind { PTX_REGISTER, PTX_REGISTERS, PTX_VARIABLE, PTX_DYNAMIC, PTX_PARAMETER, PTX_LABEL };
struct ptx_symbol {
    char *name;
    int length;
    enum ptx_symbol_kind kind;
    int depth;      /* of the scope: 0 the module, 1 a kernel, 2 a block in braces */
    char width;     /* of registers: p, h, w or q, as in ptx_ops.h */
    uint32_t at;    /* a register's operand, a variable's or a parameter's offset, a label's instruction */
    uint32_t count; /* of PTX_REGISTERS, which stand for name0, name1, … */
    enum ptx_space space;
    int next; /* in the bucket of the hash, or -1 */
};

/** A word that was used before what it names was known: a label, or the start of dynamic shared memory. */
struct ptx_fixup {
    struct ptx_token name;
    uint32_t at; /* an instruction, or an offset into the constants */
    char width;
};

struct ptx_constant {
    uint64_t bits;
    uint32_t at;
    char width;
    int next;
};

/** The last .loc with a file, line and column, and where it stands after inlining. */
struct ptx_loc {
    int file, line, column;
    int place; /* index into places */
};

enum { PTX_BUCKETS = 1024 };
struct ptx_parser {
    const char *at, *end;
    int line;
    struct ptx_token token; /* the next one */
    struct kernel_fault *fault;
    struct ptx_module *module;
    struct ptx_kernel *kernel;
    struct ptx_symbol *symbols;
    int n_symbols, symbol_capacity, buckets[PTX_BUCKETS];
    int depth;
    struct ptx_fixup *labels, *dynamic;
    int n_labels, label_capacity, n_dynamic, dynamic_capacity;
    struct ptx_constant *constants;
    int n_constants, constant_capacity, constant_buckets[PTX_BUCKETS];
    struct ptx_loc *locs;
    int n_locs, loc_capacity;
    int op_buckets[PTX_BUCKETS]; /* spellings of ptx_ops.h by hash; index + 1 */
    int place;                   /* of the last .loc */
    uint32_t predicates_left, predicates_at;
    uint32_t module_shared; /* bytes of the shared variables outside kernels */
};

/** One operand of an instruction, as it is written. */
enum ptx_form { PTX_ONE, PTX_BRACES, PTX_MEMORY, PTX_TWO /* d|p */ };
struct ptx_written {
    enum ptx_form form;
    bool negated;
    struct ptx_token part[PTX_VECTOR];
    int n;
    int64_t offset;
};
enum { PTX_OPERANDS = 6, PTX_WORDS = 12 };

/** A statement: the opcode, cut at its dots, and the operands. */
struct ptx_statement {
    struct ptx_token opcode;
    struct ptx_token word[PTX_WORDS];
    int n_words;
    struct ptx_written operand[PTX_OPERANDS];
    int n;
};

/* All functions that return bool have filled the fault where they return false. */
bool ptx_parse_error(struct ptx_parser *p, enum kernel_error error, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool ptx_no_memory(struct ptx_parser *p);
/** Make room for one more element. */
bool ptx_grow(struct ptx_parser *p, void *array, int n, int *capacity, size_t element);

/* ---- ptx_token.c ---- */
bool ptx_next(struct ptx_parser *p);
static inline bool ptx_is(const struct ptx_token *token, const char *word)
{
    int i = 0;
    for (; i < token->length && word[i]; i++)
        if (token->text[i] != word[i]) return false;
    return i == token->length && !word[i];
}
/** Read one token, which must be `word`. */
bool ptx_expect(struct ptx_parser *p, const char *word);
bool ptx_integer(const struct ptx_token *token, uint64_t *value_out);
bool ptx_number(struct ptx_parser *p, int64_t *value_out); /* the next token(s), with a sign or not */
uint32_t ptx_hash(const char *text, int length);

/* ---- ptx_names.c ---- */
bool ptx_declare(struct ptx_parser *p, const struct ptx_token *name, enum ptx_symbol_kind kind,
                 struct ptx_symbol **symbol_out);
/** The symbol of this name, or NULL. *index_out is the number behind the name of PTX_REGISTERS. */
struct ptx_symbol *ptx_find(struct ptx_parser *p, const struct ptx_token *name, uint32_t *index_out);
void ptx_close_scope(struct ptx_parser *p); /* forget the names of p->depth, and leave the scope */
bool ptx_constant_make(struct ptx_parser *p, uint64_t bits, char width, bool fresh, ptx_operand *operand_out);
/** An operand of the given width: h w q f p, or i for a number that goes into *number_out. */
bool ptx_operand_of(struct ptx_parser *p, const struct ptx_token *token, bool negative, char width,
                    ptx_operand *operand_out);
/** The same for a destination, which must be a register. */
bool ptx_destination(struct ptx_parser *p, const struct ptx_token *token, char width,
                     ptx_operand *operand_out);
/** A register of any width but p, which comes back. Also a number, which gets `number_width`. */
bool ptx_any_operand(struct ptx_parser *p, const struct ptx_token *token, char number_width, char *width_out,
                     ptx_operand *operand_out);
bool ptx_registers(struct ptx_parser *p);                      /* behind .reg */
bool ptx_variable(struct ptx_parser *p, enum ptx_space space); /* behind .shared or .local */

/* ---- ptx_lines.c ---- */
bool ptx_loc(struct ptx_parser *p);  /* behind .loc */
bool ptx_file(struct ptx_parser *p); /* behind .file */

/* ---- ptx_decode.c, ptx_decode_more.c, ptx_decode_matrix.c ---- */
void ptx_ops_index(struct ptx_parser *p);
bool ptx_instruction(struct ptx_parser *p); /* from the next token to the semicolon */
bool ptx_type_of(const struct ptx_token *word, enum ptx_type *type_out);
char ptx_width_of(enum ptx_type type);
bool ptx_unknown(struct ptx_parser *p, const struct ptx_statement *s, const struct ptx_token *modifier);
bool ptx_count(struct ptx_parser *p, const struct ptx_statement *s, int least, int most);
bool ptx_decode_memory(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I);
bool ptx_decode_atom(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I);
bool ptx_decode_wait(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I);
bool ptx_decode_setp(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I);
bool ptx_decode_copy(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I);
bool ptx_decode_load_matrix(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I);
bool ptx_decode_mma(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I);
/** An operand in brackets, of a memory access of I->space. Fills I->a, I->offset and I->wide_address. */
bool ptx_address(struct ptx_parser *p, const struct ptx_statement *s, const struct ptx_written *w,
                 struct ptx_instruction *I);
bool ptx_wrong_form(struct ptx_parser *p, const struct ptx_statement *s);
bool ptx_decode_cvt(struct ptx_parser *p, const struct ptx_statement *s, struct ptx_instruction *I);

#endif

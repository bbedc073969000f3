/* SPDX-License-Identifier: Apache-2.0 */
/** What the decoder of machine code hands to the executor: instructions with resolved operands. */
#ifndef EMULATE_HIP_GCN_CODE_H
#define EMULATE_HIP_GCN_CODE_H

#include "emulate/gpu/kernel.h"
#include "emulate/hip/gcn_object.h"
#include "emulate/hip/gcn_opcodes.h"

/*
 * Addresses that the kernels see. The memory of the device lies below GCN_IMAGE. Each lane sees the LDS and
 * its scratch memory in the two windows.
 */
#define GCN_IMAGE ((uint64_t)0x3f << 52)     /* the code and its constants */
#define GCN_ARGUMENTS ((uint64_t)0x3e << 52) /* the kernel's arguments */
#define GCN_PACKET ((uint64_t)0x3d << 52)    /* the packet of the queue that launched the kernel */
#define GCN_SHARED_WINDOW ((uint64_t)1 << 62)
#define GCN_SCRATCH_WINDOW ((uint64_t)2 << 62)
/*
 * The descriptor of the scratch memory that gfx90a gets in SGPRs: its words 0 and 1 (words 2 and 3 are
 * fixed).
 */
#define GCN_SCRATCH_BASE ((uint64_t)0x7a000000000)

enum {
    GCN_SGPRS = 128, /* with VCC, M0 and EXEC, by the number of the operand */
    GCN_VCC = 106,
    GCN_EXEC = 126,
    GCN_AGPR = 256, /* the row of a0. The rows before it are v0 to v255 */
    GCN_ROWS = 512,
};

/** How an instruction is executed. */
enum gcn_kind {
    GCN_SCALAR,  /* a case of gcn_scalar.c */
    GCN_VECTOR,  /* a function of gcn_alu.c for all lanes */
    GCN_COMPARE, /* the same, and the result is a bit per lane */
    GCN_LANE,    /* v_readlane, v_writelane, v_readfirstlane, v_swap, … */
    GCN_DUAL,    /* two vector instructions that read before either writes; the second one follows */
    GCN_SCALAR_LOAD,
    GCN_ACCESS,  /* of memory by lanes */
    GCN_PERMUTE, /* ds_bpermute, ds_permute, ds_swizzle: lanes exchange registers */
    GCN_WAIT,
    GCN_BRANCH,
    GCN_BARRIER,
    GCN_END,
    GCN_NOTHING, /* hints */
    GCN_KINDS
};

/** What instructions do: the name of each one that is known, in gcn_ops*.h. */
enum gcn_op {
#define OP(name, ...) GCN_OP_##name,
#include "emulate/hip/gcn_ops.h"
#undef OP
    GCN_OPS
};

/** The type of an operand. It decides the rows, and what a modifier or an inline constant means. */
enum gcn_type {
    GCN_T_NONE,
    GCN_T_U32,  /* 'u' */
    GCN_T_F32,  /* 'f' */
    GCN_T_U16,  /* 'w': the lower half */
    GCN_T_F16,  /* 'h' */
    GCN_T_P16,  /* 'k': two u16, chosen by op_sel */
    GCN_T_PF16, /* 'p': two f16 */
    GCN_T_U64,  /* 'q': two rows */
    GCN_T_F64,  /* 'd' */
    GCN_T_PF32, /* 'g': two f32 in two rows, chosen by op_sel */
    GCN_T_MIX,  /* 'x': an f32, or an f16 that op_sel chooses */
    GCN_T_MASK, /* 'm': a bit per lane in SGPRs */
    GCN_T_SCALAR,
    GCN_TYPES
};

enum gcn_operand_kind {
    GCN_O_NONE,
    GCN_O_VGPR,
    GCN_O_SGPR,
    GCN_O_CONSTANT,
    GCN_O_SCC,
    GCN_O_VCCZ,
    GCN_O_EXECZ,
};

/** What is done with an operand before it is used. */
enum gcn_modifier {
    GCN_M_ABS = 1,
    GCN_M_NEG = 2,
    GCN_M_NEG_HIGH = 4,   /* of the upper element of a pair */
    GCN_M_HIGH = 8,       /* the lower element is the upper half; of GCN_T_MIX: the f16 is in it */
    GCN_M_HIGH_HIGH = 16, /* the upper element is the upper half; of GCN_T_MIX: it is an f16 */
    GCN_M_SELECT = 32,    /* SDWA: `select` */
    GCN_M_SEXT = 64,
    GCN_M_DPP = 128, /* the lanes are those of gcn_instruction.dpp */
};

struct gcn_operand {
    uint64_t value; /* of a constant */
    uint16_t reg;   /* a row, or an SGPR */
    uint8_t kind, type;
    uint8_t modifiers;
    uint8_t select; /* of SDWA: 0 to 3: a byte, 4 and 5: a half, 6: all */
    uint8_t rows;
};

/** Where the result of 16 bits, or of SDWA, goes. */
enum gcn_merge {
    GCN_WHOLE,    /* the result is the register */
    GCN_LOW,      /* the lower half; the upper one is kept */
    GCN_HIGH,     /* the upper half; the lower one is kept */
    GCN_SELECTED, /* SDWA: `select` and `unused` */
};

/** Registers that an instruction reads, writes or fills: rows from 0 on, SGPRs from GCN_ROWS on. */
struct gcn_span {
    uint16_t first, n;
};
enum { GCN_USES = 8 };

enum gcn_space { GCN_S_GLOBAL, GCN_S_FLAT, GCN_S_SCRATCH, GCN_S_SHARED };
enum gcn_access_kind { GCN_A_LOAD, GCN_A_STORE, GCN_A_ATOMIC };
/** How a loaded element is extended, or which half of a register it is. */
enum gcn_extend {
    GCN_X_WORDS,
    GCN_X_ZERO,
    GCN_X_SIGN,
    GCN_X_LOW,
    GCN_X_HIGH,
    GCN_X_SIGN_LOW,
    GCN_X_SIGN_HIGH
};
/** The counters of s_waitcnt. */
enum gcn_counter { GCN_C_VM, GCN_C_LGKM, GCN_C_VS, GCN_COUNTERS };

struct gcn_memory_part {
    uint8_t space, kind, extend, atomic;
    uint8_t bytes;                       /* of an access of one lane; a ds_read2 has two such accesses */
    uint8_t twice;                       /* two accesses, at offset[0] and offset[1] */
    uint8_t returns;                     /* an atomic returns the old value */
    uint8_t has_address, wide_address;   /* a row, or two of them, with an address */
    uint8_t has_base;                    /* SGPRs with an address, or of scratch memory a distance */
    uint16_t address, data, data2, base; /* rows; base: SGPR; data: what is stored, data2: the second one */
    uint16_t descriptor;                 /* of MUBUF: SGPRs */
    int32_t offset[2];
};

struct gcn_instruction {
    const char *name; /* the assembler's */
    uint16_t op;      /* enum gcn_op */
    uint8_t kind;     /* enum gcn_kind */
    uint8_t n_sources;
    struct gcn_operand d, d2, s[4]; /* d2: the SGPRs of a carry, or of the bits of a comparison */
    uint8_t merge, select, unused;  /* enum gcn_merge; SDWA's */
    uint8_t clamp, omod;
    uint8_t exec_write; /* v_cmpx: EXEC gets the bits. 2: nothing else does */
    uint8_t n_uses;
    uint8_t movrel; /* gfx1100: v_movrels: 1; v_movreld: 2 */
    struct gcn_span uses[GCN_USES], fills;
    /* of an access: the counters that it raises; of a wait: the most that may be left, or 255 */
    uint8_t counts[GCN_COUNTERS];
    uint16_t dpp; /* the control of DPP; for DPP8: 0x8000 */
    uint32_t dpp8;
    uint8_t dpp_rows, dpp_banks, dpp_zero, dpp_inactive; /* masks; bound_ctrl; fetch from inactive lanes */
    int32_t target; /* of a branch: an index into the code; -1: a bad one */
    int32_t immediate;
    uint32_t offset; /* of the instruction in gcn_object.image */
    uint8_t bytes;
    struct gcn_memory_part m;
};

struct gcn_kernel {
    const struct gcn_module *module;
    const struct gcn_entry *entry;
    int first;          /* the index of its first instruction */
    int n_instructions; /* of its symbol */
    int n_parameters;   /* without the hidden ones */
    uint32_t parameter_bytes;
    uint8_t global_shift, shared_shift; /* see kernel_block */
    uint16_t n_rows[2];                 /* VGPRs and AGPRs that its instructions can reach */
};

struct gcn_module {
    struct gcn_object *object;
    enum gcn_arch arch;
    struct gcn_kernel *kernels;
    int n_kernels;
    struct gcn_instruction *code;
    int n_code, code_capacity;
    int32_t *index; /* of the instruction that begins at word i of the image, or -1 */
};

/** What the decoder needs to know of an architecture. */
struct gcn_description {
    bool is_11;   /* the encodings of GFX11 */
    bool has_sve; /* scratch_* without a register for the address is told by a bit */
    uint32_t lanes, m0;
};
const struct gcn_description *gcn_describe(enum gcn_arch arch);

/* ---- gcn_table.c ---- */
/** An instruction that is known. */
struct gcn_known {
    const char *name;
    const char *signature; /* see gcn_ops.h */
    uint8_t kind;
    uint16_t op;
};
/** What is known of a number; NULL: nothing. *name_out is the assembler's name of the number, or NULL. */
const struct gcn_known *gcn_look_up(enum gcn_arch arch, enum gcn_format format, uint32_t number,
                                    const char **name_out);

/* ---- gcn_decode.c ---- */
/**
 * Decode the instruction at `bytes`, of which n may be read. Returns its bytes, or 0 with a reason. A dual
 * instruction fills two structs.
 */
int gcn_decode(enum gcn_arch arch, const unsigned char *bytes, size_t n, struct gcn_instruction out[2],
               char *reason);

/** What the parts of the decoder share. */
struct gcn_decoder {
    enum gcn_arch arch;
    const struct gcn_description *about;
    uint32_t w[5]; /* the words, 0 behind the end */
    int n_words;   /* that may be read */
    int used;      /* that the instruction has, with its literal */
    struct gcn_instruction *I;
    const struct gcn_known *known;
    enum gcn_format format;
    uint32_t number;
    char *reason;
};
bool gcn_decode_vector(struct gcn_decoder *d);
bool gcn_decode_dual(struct gcn_decoder *d);
bool gcn_decode_memory(struct gcn_decoder *d);
/** An operand of 9 bits, or of 8 for scalars. Takes the literal. */
bool gcn_decode_source(struct gcn_decoder *d, uint32_t field, enum gcn_type type, struct gcn_operand *out);
/** A register as an operand: its rows follow from the type. */
void gcn_operand_set(struct gcn_operand *out, enum gcn_operand_kind kind, uint32_t reg, enum gcn_type type,
                     uint32_t lanes);
bool gcn_decode_fail(struct gcn_decoder *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gcn_use(struct gcn_instruction *I, uint32_t first, uint32_t n);
enum gcn_type gcn_type_of(char letter);

/** Compose fault->text and return `error`. `offset` is that of the instruction, or UINT32_MAX. */
enum kernel_error gcn_fail(struct kernel_fault *fault, enum kernel_error error,
                           const struct gcn_kernel *kernel, uint32_t offset, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif

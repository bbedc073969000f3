/* SPDX-License-Identifier: Apache-2.0 */
/** What the parser of PTX hands to the executor: decoded instructions, registers, variables. */
#ifndef EMULATE_CUDA_PTX_CODE_H
#define EMULATE_CUDA_PTX_CODE_H

#include "emulate/cuda/ptx.h"

enum { PTX_LANES = 32, PTX_VECTOR = 4 };
#define PTX_ALL_LANES 0xffffffffu

/**
 * One register in all lanes of a warp. A register of 16 bits uses the lower half of w[], and the upper
 * half is 0. A predicate is one word with a bit per lane, and does not use this union.
 */
union ptx_slot {
    uint32_t w[PTX_LANES];
    int32_t i[PTX_LANES];
    float f[PTX_LANES];
    uint64_t q[PTX_LANES];
    int64_t l[PTX_LANES];
};

/**
 * Where an operand lies: a byte offset into the registers of the warp, or, with bit 0 set, into the
 * constants of the kernel, which all warps share. Offsets are multiples of 4.
 */
typedef uint32_t ptx_operand;
enum { PTX_CONSTANT = 1 };
static inline void *ptx_at(char *const bases[2], ptx_operand operand)
{
    return bases[operand & PTX_CONSTANT] + (operand & ~(uint32_t)PTX_CONSTANT);
}

/** How an instruction is executed. */
enum ptx_kind {
    PTX_ALU,    /* a function of ptx_ops.h */
    PTX_DIVIDE, /* the same, but divisors are checked first */
    PTX_SETP,
    PTX_LOGIC, /* of predicates */
    PTX_CVT,   /* the conversions that ptx_ops.h does not have */
    PTX_PACK,  /* mov of registers in braces */
    PTX_UNPACK,
    PTX_LOAD_PARAMETER,
    PTX_LOAD,
    PTX_STORE,
    PTX_ATOM,
    PTX_BRANCH,
    PTX_EXIT,
    PTX_TRAPPED,
    PTX_NOTHING, /* a fence */
    PTX_ACTIVE_MASK,
    PTX_COPY, /* cp.async, and the two instructions behind it */
    PTX_COPY_COMMIT,
    PTX_COPY_WAIT,
    PTX_BARRIER,
    /* the kinds from here on wait for the lanes of a mask */
    PTX_WARP_BARRIER,
    PTX_SHUFFLE,
    PTX_VOTE,
    /* these need all lanes of the warp */
    PTX_LOAD_MATRIX,
    PTX_MULTIPLY,
};

enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_N_SPACES };
/* Where shared and local memory lie among generic addresses. Global addresses are generic addresses. */
#define PTX_SHARED_WINDOW ((uint64_t)1 << 60)
#define PTX_LOCAL_WINDOW ((uint64_t)2 << 60)

/** Types in the order of ptx_type_names. b16, b32 and b64 are the unsigned types. */
enum ptx_type {
    PTX_PRED,
    PTX_U8,
    PTX_S8,
    PTX_U16,
    PTX_S16,
    PTX_U32,
    PTX_S32,
    PTX_U64,
    PTX_S64,
    PTX_F32,
    PTX_F16,
    PTX_BF16,
    PTX_F16X2,
    PTX_BF16X2,
    PTX_N_TYPES
};
/** Bytes of a type. A predicate has none. */
uint32_t ptx_type_bytes(enum ptx_type type);
static inline bool ptx_type_signed(enum ptx_type type)
{
    return type == PTX_S8 || type == PTX_S16 || type == PTX_S32 || type == PTX_S64;
}

enum ptx_compare {
    PTX_EQ,
    PTX_NE,
    PTX_LT,
    PTX_LE,
    PTX_GT,
    PTX_GE,
    PTX_EQU,
    PTX_NEU,
    PTX_LTU,
    PTX_LEU,
    PTX_GTU,
    PTX_GEU,
    PTX_NUM,
    PTX_NAN,
    PTX_N_COMPARES
};
enum ptx_boolean { PTX_PLAIN, PTX_AND, PTX_OR, PTX_XOR, PTX_NOT, PTX_MOV };
enum ptx_rounding { PTX_RN, PTX_RZ, PTX_RM, PTX_RP };
enum ptx_shuffle { PTX_SHFL_UP, PTX_SHFL_DOWN, PTX_SHFL_BFLY, PTX_SHFL_IDX };
enum ptx_vote { PTX_VOTE_ALL, PTX_VOTE_ANY, PTX_VOTE_UNI, PTX_VOTE_BALLOT };
enum ptx_atom { PTX_A_ADD, PTX_A_MIN, PTX_A_MAX, PTX_A_AND, PTX_A_OR, PTX_A_XOR, PTX_A_EXCH, PTX_A_CAS };

/** The functions of ptx_ops.h, PTX_OP_add_f32 and so on. */
enum ptx_op {
#define OP(name, ...) PTX_OP_##name,
#include "emulate/cuda/ptx_ops.h"
#undef OP
    PTX_N_OPS
};

struct ptx_instruction {
    ptx_operand d[PTX_VECTOR]; /* destinations; of a store the values. setp: p and q; shfl: d and p */
    ptx_operand a, b, c, e;    /* sources */
    ptx_operand guard;
    /*
     * of a memory access; of lop3 the table; of mma the index into ptx_kernel.products; of
     * cp.async.wait_group the groups that may be pending, or -1 for cp.async.wait_all
     */
    int64_t offset;
    int32_t target;          /* of a branch; of cp.async the offset of the address in shared memory */
    int32_t line;            /* of the text */
    int32_t place;           /* index into ptx_module.places, or -1 */
    uint16_t op;             /* enum ptx_op */
    uint8_t kind;            /* enum ptx_kind */
    uint8_t guarded;         /* 0: no guard; 1: where it is true; 2: where it is false */
    uint8_t mode;            /* enum ptx_compare, ptx_shuffle, ptx_vote, ptx_atom, or the rounding of a cvt */
    uint8_t boolean;         /* enum ptx_boolean */
    uint8_t type, from;      /* enum ptx_type; of a cvt the type that it makes and the type that it reads */
    uint8_t space, vector;   /* of a memory access; vector: 1, 2 or 4 */
    uint8_t wide, wide_from; /* whether the register that is written (or stored), or read, has 64 bits */
    uint8_t wide_address;    /* whether the address is in a register of 64 bits */
    uint8_t saturate;
    uint8_t integral;     /* cvt to f32: round to an integer */
    uint8_t has_q;        /* a second destination: setp p|q, shfl d|p */
    uint8_t has_d;        /* false: the destination is "_", or an atomic is a red */
    uint8_t negated;      /* setp: the third operand; vote: the predicate */
    uint8_t counted;      /* bar.sync with a number of threads, cp.async with a number of bytes to read */
    uint8_t turned;       /* ldmatrix.trans */
    uint8_t synchronises; /* a load or store that may race: .volatile, .relaxed, .acquire, .release */
};

/** Special registers. Each has a slot in the registers of the kernels that read it. */
enum ptx_special {
    PTX_TID_X,
    PTX_TID_Y,
    PTX_TID_Z,
    PTX_NTID_X,
    PTX_NTID_Y,
    PTX_NTID_Z,
    PTX_CTAID_X,
    PTX_CTAID_Y,
    PTX_CTAID_Z,
    PTX_NCTAID_X,
    PTX_NCTAID_Y,
    PTX_NCTAID_Z,
    PTX_LANEID,
    PTX_WARPID,
    PTX_LANEMASK_EQ,
    PTX_LANEMASK_LT,
    PTX_LANEMASK_LE,
    PTX_LANEMASK_GT,
    PTX_LANEMASK_GE,
    PTX_N_SPECIALS
};

/** The registers of the operands of an mma; the destinations are in the instruction. */
struct ptx_product {
    ptx_operand a[4], b[2], c[4];
};

struct ptx_parameter {
    char *name;
    uint32_t offset, bytes;
};

struct ptx_kernel {
    struct ptx_kernel *next;
    const struct ptx_module *module;
    char *name;
    struct ptx_instruction *code;
    int n_code, code_capacity;
    struct ptx_product *products;
    int n_products, product_capacity;
    struct ptx_parameter *parameters;
    int n_parameters;
    uint32_t parameter_bytes, shared_bytes, dynamic_align, local_bytes;
    uint32_t n_registers, register_bytes; /* register_bytes: of one warp, a multiple of 64 */
    uint32_t required[3], max_threads;    /* required: .reqntid, or 0 */
    ptx_operand special[PTX_N_SPECIALS];  /* 0: not read; the first 64 bytes of the registers are unused */
    char *constants;
    uint32_t constant_bytes, constant_capacity;
    /*
     * The binary logarithm of the least bytes of an access to global and to shared memory. Races are looked
     * for in pieces of this size, so two bytes of one piece never belong to different accesses.
     */
    uint8_t global_shift, shared_shift;
};

/** A line of a source file, after inlining: the line of the outermost function. */
struct ptx_place {
    int file, line;
};

struct ptx_module {
    struct ptx_kernel *kernels;
    uint32_t target; /* 80 for sm_80 */
    struct ptx_place *places;
    int n_places, place_capacity;
    char **files; /* by the number of the .file directive; NULL where there is none */
    int n_files;
};

/**
 * Compose fault->text and return `error`. `where` may be NULL; then fault has already all that is known
 * about the place.
 */
enum kernel_error ptx_fail(struct kernel_fault *fault, enum kernel_error error,
                           const struct ptx_kernel *kernel, const struct ptx_instruction *where,
                           const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif

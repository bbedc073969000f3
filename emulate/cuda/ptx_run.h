/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The executor of PTX. Its files are compiled once per instruction set of the host (KERNEL_ISA), and
 * ptx_run.c chooses one of the copies.
 */
#ifndef EMULATE_CUDA_PTX_RUN_H
#define EMULATE_CUDA_PTX_RUN_H

#include "emulate/cuda/ptx_code.h"
#include "emulate/gpu/check.h"

#define ptx_block_run KERNEL_JOIN(ptx_block_run, KERNEL_ISA)
#define ptx_alu KERNEL_JOIN(ptx_alu, KERNEL_ISA)
#define ptx_compare KERNEL_JOIN(ptx_compare, KERNEL_ISA)
#define ptx_access KERNEL_JOIN(ptx_access, KERNEL_ISA)
#define ptx_access_local KERNEL_JOIN(ptx_access_local, KERNEL_ISA)
#define ptx_access_shared KERNEL_JOIN(ptx_access_shared, KERNEL_ISA)
#define ptx_access_global KERNEL_JOIN(ptx_access_global, KERNEL_ISA)
#define ptx_park KERNEL_JOIN(ptx_park, KERNEL_ISA)
#define ptx_resume KERNEL_JOIN(ptx_resume, KERNEL_ISA)
#define ptx_ready KERNEL_JOIN(ptx_ready, KERNEL_ISA)
#define ptx_copy KERNEL_JOIN(ptx_copy, KERNEL_ISA)
#define ptx_copy_commit KERNEL_JOIN(ptx_copy_commit, KERNEL_ISA)
#define ptx_copy_wait KERNEL_JOIN(ptx_copy_wait, KERNEL_ISA)
#define ptx_load_matrix KERNEL_JOIN(ptx_load_matrix, KERNEL_ISA)
#define ptx_multiply KERNEL_JOIN(ptx_multiply, KERNEL_ISA)
#define ptx_stalled KERNEL_JOIN(ptx_stalled, KERNEL_ISA)

/* The lanes of a loop are independent, because registers are equal or do not overlap. */
#if defined(__clang__)
#define PTX_EACH_LANE _Pragma("clang loop vectorize(assume_safety)") for (int l = 0; l < PTX_LANES; l++)
#else
#define PTX_EACH_LANE _Pragma("GCC ivdep") for (int l = 0; l < PTX_LANES; l++)
#endif

/** Some lanes of a warp that are at the same instruction. */
struct ptx_fragment {
    int pc;
    uint32_t lanes;
};

/** A cp.async that some lanes have not waited for: where it writes, and what it has read. */
struct ptx_pending {
    const struct ptx_instruction *I;
    uint32_t lanes;
    uint32_t group[PTX_LANES]; /* the number of groups that the lane had committed before */
    uint32_t at[PTX_LANES];    /* in shared memory */
    unsigned char data[PTX_LANES][16];
};

struct ptx_warp {
    char *registers;
    uint32_t index;
    uint32_t exists, live; /* the lanes that the block has, and those that have not ended */
    uint32_t epoch;        /* the number of bar.warp.sync, modulo 1024 */
    int n_ready, n_parked;
    struct ptx_fragment ready[PTX_LANES], parked[PTX_LANES];
    /*
     * Local memory, in words: word i of the 32 lanes, then word i + 1. local_defined has for each byte of a
     * thread a bit per lane.
     */
    unsigned char *local;
    uint32_t *local_defined;
    struct ptx_pending *pending; /* in the order of the program */
    int n_pending, pending_capacity;
    uint32_t copy_groups[PTX_LANES]; /* that the lane has committed */
};

/** A launch, and the block that runs. */
struct ptx_state {
    struct kernel_block b; /* the first member: ptx_fail_at gets the state back from there */
    const struct kernel_launch *launch;
    const struct ptx_kernel *kernel;
    struct kernel_fault *fault;
    char *constants;
    struct ptx_warp *warps;
    int n_warps;
    uint32_t n_threads;
    uint64_t executed; /* by the threads of this block */
};

/* ---- ptx_alu.c ---- */
typedef void ptx_alu_function(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes);
extern ptx_alu_function *const ptx_alu[PTX_N_OPS];
/** The lanes in which a comparison of operands a and b holds. */
uint32_t ptx_compare(const struct ptx_instruction *I, char *const bases[2]);

/* ---- ptx_cvt.c; compiled once ---- */
void ptx_cvt(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes);
void ptx_pack(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes);
void ptx_unpack(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes);
void ptx_load_parameter(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes,
                        const unsigned char *parameters);

/* ---- memory. Return false after they have filled the fault ---- */
/** What an instruction does with memory. */
struct ptx_access {
    const struct ptx_instruction *I;
    struct ptx_warp *warp;
    uint32_t bytes; /* of one element */
    struct kernel_access a;
};
bool ptx_access(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I, uint32_t lanes);
bool ptx_access_global(struct ptx_state *s, struct ptx_access *access);
bool ptx_access_shared(struct ptx_state *s, struct ptx_access *access);
bool ptx_access_local(struct ptx_state *s, struct ptx_access *access);
/** Move one lane's elements between its registers and memory; of an atomic, also compute. */
void ptx_move(const struct ptx_instruction *I, char *const bases[2], int lane, uint32_t bytes,
              unsigned char *memory);
/** Read a register of a lane as bits, and write it. */
uint64_t ptx_register(char *const bases[2], ptx_operand operand, bool wide, int lane);

/* ---- waiting ---- */
/** Add lanes that may go on at pc. */
void ptx_ready(struct ptx_warp *warp, int pc, uint32_t lanes);
/** Lanes arrive at an instruction at which they wait. It runs if these were the last ones. */
bool ptx_park(struct ptx_state *s, struct ptx_warp *warp, int pc, uint32_t lanes);
/** Some lanes have ended: the others may no longer have to wait for them. */
bool ptx_resume(struct ptx_state *s, struct ptx_warp *warp);
/** No thread of the block can go on. Fills the fault, and returns false. */
bool ptx_stalled(struct ptx_state *s);

/* ---- ptx_async.c. Return false after they have filled the fault ---- */
/**
 * cp.async: read global memory now. What was read appears in shared memory when the lane waits for it, and
 * until then the bytes of shared memory count as never written.
 */
bool ptx_copy(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I, uint32_t lanes);
void ptx_copy_commit(struct ptx_warp *warp, uint32_t lanes);
bool ptx_copy_wait(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I,
                   uint32_t lanes);

/* ---- ptx_matrix.c. `lanes` are those that have come; there is a fault if they are not all ---- */
bool ptx_load_matrix(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I,
                     uint32_t lanes);
bool ptx_multiply(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I,
                  uint32_t lanes);

/* ---- ptx_fault.c ---- */
/**
 * A fault of one thread. The text gets the thread and the block before `format`, and the line behind it.
 */
bool ptx_fault_at(struct ptx_state *s, const struct ptx_warp *warp, int lane, const struct ptx_instruction *I,
                  enum kernel_error error, const char *format, ...) __attribute__((format(printf, 6, 7)));
/** The same for kernel_block.fail. */
bool ptx_fail_at(struct kernel_block *block, const struct kernel_access *access, int lane, uint64_t address,
                 enum kernel_error error, const char *text);

/** Run one block from its first instruction to its end. */
bool ptx_block_run(struct ptx_state *s);

#endif

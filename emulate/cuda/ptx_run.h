/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The executor of PTX. Its files are compiled once per instruction set of the host (PTX_ISA), and ptx_run.c
 * chooses one of the copies.
 */
#ifndef EMULATE_CUDA_PTX_RUN_H
#define EMULATE_CUDA_PTX_RUN_H

#include "emulate/cuda/ptx_code.h"

#ifndef PTX_ISA
#define PTX_ISA generic
#endif
#define PTX_JOIN_(a, b) a##_##b
#define PTX_JOIN(a, b) PTX_JOIN_(a, b)
#define ptx_block_run PTX_JOIN(ptx_block_run, PTX_ISA)
#define ptx_alu PTX_JOIN(ptx_alu, PTX_ISA)
#define ptx_compare PTX_JOIN(ptx_compare, PTX_ISA)
#define ptx_access PTX_JOIN(ptx_access, PTX_ISA)
#define ptx_access_local PTX_JOIN(ptx_access_local, PTX_ISA)
#define ptx_access_shared PTX_JOIN(ptx_access_shared, PTX_ISA)
#define ptx_access_global PTX_JOIN(ptx_access_global, PTX_ISA)
#define ptx_park PTX_JOIN(ptx_park, PTX_ISA)
#define ptx_resume PTX_JOIN(ptx_resume, PTX_ISA)
#define ptx_ready PTX_JOIN(ptx_ready, PTX_ISA)
#define ptx_stalled PTX_JOIN(ptx_stalled, PTX_ISA)
#define ptx_race_text PTX_JOIN(ptx_race_text, PTX_ISA)
#define ptx_threads_note PTX_JOIN(ptx_threads_note, PTX_ISA)
#define ptx_threads_bad PTX_JOIN(ptx_threads_bad, PTX_ISA)

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
};

/** The tags of the threads that wrote and read a piece of global memory, see ptx_threads.c. */
struct ptx_pair {
    uint64_t key, tags;
};
enum { PTX_THREAD_PAIRS = 1 << 14 };

/** A launch, and the block that runs. */
struct ptx_state {
    const struct kernel_launch *launch;
    const struct ptx_kernel *kernel;
    struct kernel_fault *fault;
    char *constants;
    struct ptx_warp *warps;
    int n_warps;
    uint32_t n_threads;
    uint32_t block[3];
    uint64_t launch_number, block_number; /* for kernel_memory.touched; block_number is from 1 */
    struct ptx_pair *threads;             /* PTX_THREAD_PAIRS of them */
    uint64_t threads_base;                /* the barriers of earlier blocks, and one for each block */
    unsigned char *shared;
    uint64_t *shadow; /* an entry per piece of shared memory; see ptx_shared.c */
    uint32_t shared_bytes;
    uint64_t epoch;    /* the barriers of this block so far, from 1 */
    uint64_t executed; /* by the threads of this block */
    struct kernel_counts counts;
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
/** What an access does. The addresses are those of the space, and have a value in each lane of `lanes`. */
struct ptx_access {
    const struct ptx_instruction *I;
    struct ptx_warp *warp;
    uint32_t lanes;
    uint32_t bytes; /* of one element */
    uint64_t addresses[PTX_LANES];
};
bool ptx_access(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I, uint32_t lanes);
bool ptx_access_global(struct ptx_state *s, struct ptx_access *access);
bool ptx_access_shared(struct ptx_state *s, struct ptx_access *access);
bool ptx_access_local(struct ptx_state *s, struct ptx_access *access);
/**
 * Note which lanes of a warp read or write n pieces of global memory. Piece i belongs to lane
 * first + (i >> lane_shift). Returns false if another thread of the block races with one of them.
 */
bool ptx_threads_note(struct ptx_state *s, const struct ptx_access *access, uint64_t piece, uint64_t n,
                      int first, uint32_t lane_shift);
/** The text of such a race with a piece; false: there is none. */
bool ptx_threads_bad(const struct ptx_state *s, const struct ptx_access *access, int lane, uint64_t piece,
                     char text[200]);
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

/* ---- ptx_fault.c ---- */
/**
 * A fault of one thread. The text gets the thread and the block before `format`, and the line behind it.
 */
bool ptx_fault_at(struct ptx_state *s, const struct ptx_warp *warp, int lane, const struct ptx_instruction *I,
                  enum kernel_error error, const char *format, ...) __attribute__((format(printf, 6, 7)));
/** "thread (3,0,0)" */
const char *ptx_thread_text(const struct ptx_state *s, const struct ptx_warp *warp, int lane, char text[48]);
/** What an instruction does with memory: "reads", "writes" or "changes". */
const char *ptx_verb(const struct ptx_instruction *I);

/** Run one block from its first instruction to its end. */
bool ptx_block_run(struct ptx_state *s);

#endif

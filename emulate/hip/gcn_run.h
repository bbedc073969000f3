/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The executor of AMD machine code. Its files are compiled once per instruction set of the host and per size
 * of a wave: KERNEL_ISA is the name of the copy, KERNEL_LANES the size. gcn_run.c chooses one of the copies.
 */
#ifndef EMULATE_HIP_GCN_RUN_H
#define EMULATE_HIP_GCN_RUN_H

#include "emulate/gpu/check.h"
#include "emulate/hip/gcn_code.h"
#include "emulate/hip/gcn_step.h"

#define gcn_block_run KERNEL_JOIN(gcn_block_run, KERNEL_ISA)
#define gcn_wave_run KERNEL_JOIN(gcn_wave_run, KERNEL_ISA)
#define gcn_functions KERNEL_JOIN(gcn_functions, KERNEL_ISA)
#define gcn_vector KERNEL_JOIN(gcn_vector, KERNEL_ISA)
#define gcn_dual KERNEL_JOIN(gcn_dual, KERNEL_ISA)
#define gcn_lane KERNEL_JOIN(gcn_lane, KERNEL_ISA)
#define gcn_permute KERNEL_JOIN(gcn_permute, KERNEL_ISA)
#define gcn_source KERNEL_JOIN(gcn_source, KERNEL_ISA)
#define gcn_scalar KERNEL_JOIN(gcn_scalar, KERNEL_ISA)
#define gcn_branch KERNEL_JOIN(gcn_branch, KERNEL_ISA)
#define gcn_access KERNEL_JOIN(gcn_access, KERNEL_ISA)
#define gcn_scalar_load KERNEL_JOIN(gcn_scalar_load, KERNEL_ISA)
#define gcn_check_uses KERNEL_JOIN(gcn_check_uses, KERNEL_ISA)
#define gcn_issue KERNEL_JOIN(gcn_issue, KERNEL_ISA)
#define gcn_wait KERNEL_JOIN(gcn_wait, KERNEL_ISA)
#define gcn_stop KERNEL_JOIN(gcn_stop, KERNEL_ISA)
#define gcn_stop_at KERNEL_JOIN(gcn_stop_at, KERNEL_ISA)

/* The lanes of a loop are independent, because registers are equal or do not overlap. */
#if defined(__clang__)
/* Some lanes call a function, and then there is no vector. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define GCN_EACH_LANE _Pragma("clang loop vectorize(assume_safety)") for (int l = 0; l < KERNEL_LANES; l++)
#else
#define GCN_EACH_LANE _Pragma("GCC ivdep") for (int l = 0; l < KERNEL_LANES; l++)
#endif

/** An access that has not been waited for. */
struct gcn_pending {
    const struct gcn_instruction *by;
    bool is_scalar_load, is_shared;
    bool counts[GCN_COUNTERS]; /* the counters that it has raised and that do not cover it yet */
};
enum { GCN_PENDING = 128, GCN_REGISTER_WORDS = (GCN_ROWS + GCN_SGPRS) / 64 };

enum gcn_state_of { GCN_RUNS, GCN_WAITS, GCN_ENDED };

struct gcn_wave {
    uint32_t s[GCN_SGPRS + 16];  /* a pair or a load may go past the last one */
    uint32_t (*v)[KERNEL_LANES]; /* GCN_ROWS of them */
    uint32_t scc, mode;
    uint32_t index;
    kernel_lanes exists; /* the lanes that the launch gave it */
    int pc;              /* an index into gcn_module.code */
    enum gcn_state_of state;
    bool indexes; /* between s_set_gpr_idx_on and _off */
    /* EXEC as words of all ones or zeros, and the EXEC that they are of */
    uint32_t exec_row[KERNEL_LANES];
    kernel_lanes row_of;
    /* scratch memory in words: word i of all lanes, then word i + 1; and a bit per lane for each byte */
    uint32_t *scratch;
    kernel_lanes *scratch_defined;
    int n_pending;
    uint64_t pending_registers[GCN_REGISTER_WORDS];
    struct gcn_pending pending[GCN_PENDING];
};

/** A launch, and the block that runs. */
struct gcn_state {
    struct kernel_block b; /* the first member: gcn_stop_at gets it back from there */
    const struct kernel_launch *launch;
    const struct gcn_kernel *kernel;
    const struct gcn_module *module;
    const struct gcn_description *about;
    struct kernel_fault *fault;
    struct gcn_wave *waves;
    int n_waves;
    uint32_t n_threads;
    uint32_t scratch_bytes;
    unsigned char *arguments; /* the kernel-argument segment */
    uint32_t argument_bytes;
    unsigned char packet[64]; /* hsa_kernel_dispatch_packet_t: the sizes of the launch */
    uint64_t executed;        /* by the threads of this block */
    uint64_t clock;
    uint64_t seed; /* of approximations; 0: none */
};

/** What a function of gcn_alu.c computes on. */
struct gcn_rows {
    uint32_t *d;          /* one or two rows */
    const uint32_t *s[4]; /* likewise */
    unsigned char *bits;  /* a carry, or the result of a comparison, for each lane: 0 or 1 */
    uint64_t seed;
};
typedef void gcn_function(const struct gcn_rows *r);
extern gcn_function *const gcn_functions[GCN_OPS];

/* ---- gcn_math.c; compiled once ---- */
enum gcn_approximation { GCN_RCP, GCN_RSQ, GCN_SQRT, GCN_EXP, GCN_LOG, GCN_SIN, GCN_COS };
/** The rounded result, or a neighbour of it that the seed draws; seed 0: always the rounded one. */
uint32_t gcn_approximate(uint32_t x, enum gcn_approximation what, uint64_t seed);
uint32_t gcn_approximate_16(uint32_t x, enum gcn_approximation what, uint64_t seed);
uint32_t gcn_division_scale(uint32_t s0, uint32_t s1, uint32_t s2, uint32_t *scaled);
float gcn_division_end(float a, float b, float c);
uint32_t gcn_division_fixup(uint32_t s0, uint32_t s1, uint32_t s2);
uint32_t gcn_fused_16(uint32_t a, uint32_t b, uint32_t c);

static inline kernel_lanes gcn_exec(const struct gcn_wave *w)
{
#if KERNEL_LANES == 64
    return (uint64_t)w->s[GCN_EXEC + 1] << 32 | w->s[GCN_EXEC];
#else
    return w->s[GCN_EXEC];
#endif
}

static inline kernel_lanes gcn_mask(const struct gcn_wave *w, uint32_t reg)
{
#if KERNEL_LANES == 64
    return (uint64_t)w->s[reg + 1] << 32 | w->s[reg];
#else
    return w->s[reg];
#endif
}

static inline void gcn_set_mask(struct gcn_wave *w, uint32_t reg, kernel_lanes lanes)
{
    w->s[reg] = (uint32_t)lanes;
#if KERNEL_LANES == 64
    w->s[reg + 1] = (uint32_t)(lanes >> 32);
#endif
}

static inline uint64_t gcn_read_scalar(const struct gcn_wave *w, const struct gcn_operand *o)
{
    switch ((enum gcn_operand_kind)o->kind) {
    case GCN_O_SGPR: return o->rows == 2 ? (uint64_t)w->s[o->reg + 1] << 32 | w->s[o->reg] : w->s[o->reg];
    case GCN_O_CONSTANT: return o->value;
    case GCN_O_SCC: return w->scc;
    case GCN_O_VCCZ: return gcn_mask(w, GCN_VCC) == 0;
    case GCN_O_EXECZ: return gcn_exec(w) == 0;
    /* the first lane's, as v_readfirstlane does */
    case GCN_O_VGPR: return w->v[o->reg][gcn_exec(w) ? kernel_first_lane(gcn_exec(w)) : 0];
    default: return 0;
    }
}

/* ---- each returns false after it has filled the fault ---- */
bool gcn_scalar(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I);
bool gcn_branch(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I);
bool gcn_vector(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I);
bool gcn_dual(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I);
bool gcn_lane(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I);
bool gcn_permute(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I);
bool gcn_access(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I);
bool gcn_scalar_load(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I);

/* ---- gcn_wait.c ---- */
/** Whether no register of the instruction waits for a load. */
bool gcn_check_uses(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I);
/** An access has been issued. */
void gcn_issue(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I);
void gcn_wait(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I);

/* ---- errors: return false ---- */
bool gcn_stop(struct gcn_state *s, const struct gcn_wave *w, const struct gcn_instruction *I,
              enum kernel_error error, const char *format, ...) __attribute__((format(printf, 5, 6)));
bool gcn_stop_at(struct kernel_block *block, const struct kernel_access *access, int lane, uint64_t address,
                 enum kernel_error error, const char *text);

/** Run one block from its first instruction to its end. */
bool gcn_block_run(struct gcn_state *s);
/** Run a wave until it waits or ends; `most`: no more instructions than that, or 0. */
bool gcn_wave_run(struct gcn_state *s, struct gcn_wave *w, uint64_t most);

#endif

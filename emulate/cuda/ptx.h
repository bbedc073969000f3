/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Executes PTX, the assembly language that NVRTC emits. This is the part of the stand-in CUDA driver that
 * knows no driver: it parses a text, and runs a kernel of it on memory that the caller describes. On the
 * way it checks what a GPU does not check: bounds, alignment, reads of undefined bytes, races, and
 * barriers that not all threads reach.
 *
 * Semantics: PTX ISA 9.0, docs.nvidia.com/cuda/parallel-thread-execution. What the parser does not know is
 * an error that names it.
 */
#ifndef EMULATE_CUDA_PTX_H
#define EMULATE_CUDA_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The state of one byte of memory. A launch makes bytes that it writes PTX_DEFINED. */
enum ptx_byte {
    PTX_OUTSIDE,   /* belongs to no allocation */
    PTX_UNDEFINED, /* may be written; a read is an error */
    PTX_DEFINED,   /* may be read and written */
    PTX_FORBIDDEN, /* in an allocation, but not to be touched: a red zone, or a tensor that has ended */
};

/**
 * The global memory of a device. The address a of a kernel is the byte data[a - base]. All threads of the
 * process may share the memory; the caller orders what must be ordered.
 */
struct ptx_memory {
    uint64_t base, bytes; /* base: a multiple of 256, below 2^60 */
    unsigned char *data;
    unsigned char *state; /* enum ptx_byte of each byte */
    /*
     * The last launch that touched each byte, for races between the blocks of a launch; ptx_run alone uses
     * it. The caller provides 8 bytes per byte of memory, zero at the start. A launch uses only the
     * entries that lie before bytes / (the least bytes of an access of its kernel), a quarter of them if
     * this is a float.
     */
    uint64_t *touched;
    /* A name for an address in messages ("layer 3, dx"), or NULL. May be NULL. */
    const char *(*name)(void *context, uint64_t address);
    void *context;
};

/** The limits of the device; a launch beyond them is refused. */
struct ptx_limits {
    uint32_t grid[3], block[3];
    uint32_t threads;            /* of a block */
    uint32_t shared_bytes;       /* of a block, static and dynamic together */
    uint32_t compute_capability; /* 90 for 9.0: a module whose .target is newer is refused */
};

/** The reasons for which a launch or a module is refused or stopped. */
enum ptx_error {
    PTX_OK,
    PTX_SYNTAX,        /* the text is not PTX, or has an opcode or modifier that is not known */
    PTX_TARGET,        /* the module is for a newer device */
    PTX_LIMIT,         /* grid, block or shared memory are larger than the device's */
    PTX_OUT_OF_BOUNDS, /* an access outside all allocations, or to PTX_FORBIDDEN bytes */
    PTX_MISALIGNED,
    PTX_UNINITIALISED, /* a read of bytes that were never written: global, shared or local memory */
    PTX_SHARED_RACE, /* two threads of a block, at least one of them writing, with no barrier between them */
    PTX_GLOBAL_RACE, /* two threads of one launch, at least one of them writing without an atomic */
    PTX_DIVERGENCE,  /* threads wait at different barriers or shuffles, or some have ended */
    PTX_ARITHMETIC,  /* an integer division by zero */
    PTX_TRAP,        /* the kernel executed trap */
    PTX_TIMEOUT,     /* more instructions than ptx_launch.most_instructions */
    PTX_NO_MEMORY,
};
const char *ptx_error_name(enum ptx_error error); /* "a race in shared memory", … */

/** Where and why a launch stopped. `text` is one line with all of it, ready to print. */
struct ptx_fault {
    enum ptx_error error;
    char kernel[128];
    int ptx_line;     /* from 1; 0: unknown */
    char source[256]; /* the file of the last .loc ("norm.yk"); "" without line information */
    int source_line;
    uint32_t block[3], thread[3];
    uint64_t address;
    char text[1024];
};

/** A parsed text. It does not change after ptx_parse, so launches in several threads may share it. */
struct ptx_module;
struct ptx_kernel;

/**
 * Parse a PTX text, which need not be NUL-terminated. Returns PTX_OK, or an error with fault->text,
 * ptx_line and no module. The caller destroys the module.
 */
enum ptx_error ptx_parse(const char *text, size_t bytes, struct ptx_module **module_out,
                         struct ptx_fault *fault);
void ptx_module_destroy(struct ptx_module *module);
/** A kernel by its name, or NULL. */
const struct ptx_kernel *ptx_module_kernel(const struct ptx_module *module, const char *name);
/** The index-th kernel, or NULL past the last one. */
const struct ptx_kernel *ptx_module_kernel_at(const struct ptx_module *module, int index);

struct ptx_kernel_info {
    const char *name;
    int n_parameters;
    uint32_t parameter_bytes;             /* of all parameters, with their padding */
    uint32_t shared_bytes, local_bytes;   /* static; local memory is per thread */
    uint32_t n_instructions, n_registers; /* virtual registers, not those that ptxas would assign */
    uint32_t max_threads;                 /* .maxntid or .reqntid; 0: none */
    uint32_t target;                      /* 90 for sm_90 */
};
struct ptx_kernel_info ptx_kernel_info(const struct ptx_kernel *kernel);
/** Offset and bytes of parameter `index` in the parameter block. false past the last one. */
bool ptx_kernel_parameter(const struct ptx_kernel *kernel, int index, uint32_t *offset_out,
                          uint32_t *bytes_out);

/** Counts of one launch, or of several: ptx_run adds to them. */
struct ptx_counts {
    /*
     * of threads: an instruction that 32 threads execute counts 32 times, and not where its guard is false
     */
    uint64_t instructions;
    uint64_t warp_instructions; /* of warps: the same instruction counts once per fragment of a warp */
    uint64_t bytes_loaded, bytes_stored; /* of global memory, as the threads asked for them */
    uint64_t sectors_loaded,
        sectors_stored; /* 32-byte sectors that the accesses of each warp instruction touch */
    uint64_t shared_accesses,
        /*
         * warp instructions; passes beyond the first, with 32 banks of 4 bytes. Accesses of 8 bytes are
         * passes of half a warp, accesses of 16 bytes passes of a quarter.
         */
        bank_conflicts;
    uint64_t barriers; /* of blocks, each time that one opens */
    uint64_t warps;    /* of all blocks */
};
/* The CUDA backend has no declaration of this struct. It reads the members in this order. */
_Static_assert(sizeof(struct ptx_counts) == 10 * sizeof(uint64_t), "the backend expects ten members");

struct ptx_footprint;
struct ptx_launch {
    const struct ptx_kernel *kernel;
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared_bytes;
    const void *parameters; /* the parameter block: parameter_bytes of it */
    const struct ptx_memory *memory;
    const struct ptx_limits *limits;
    uint64_t last_blocks;       /* run only so many blocks, the last ones; 0: all */
    uint64_t seed;              /* the order in which the blocks run is drawn from this */
    uint64_t most_instructions; /* of a block's threads together; 0: no limit. Then PTX_TIMEOUT */
    struct ptx_counts *counts;  /* may be NULL */
    struct ptx_footprint
        *footprint;            /* gets what the launch reads and writes (ptx_footprint.h); may be NULL */
    const volatile bool *stop; /* when it becomes true the launch ends with PTX_TIMEOUT; may be NULL */
};
/**
 * Run a kernel to its end on the calling thread. On an error memory is as far as the kernel came.
 *
 * The blocks run one after another, and a warp runs until it waits, so a kernel that spins until another
 * block or warp has written a flag does not end: set most_instructions or stop.
 *
 * Races in shared memory are also found between lanes of one warp. Only bar.warp.sync (__syncwarp) and
 * barriers of the block order them; shuffles and votes do not (CUDA C++ Programming Guide, "Warp Shuffle
 * Functions"). Behind an atomic of shared memory a plain access needs a barrier. The same holds for plain
 * accesses of global memory by threads of one block. Of several threads that read, only the first is known.
 */
enum ptx_error ptx_run(const struct ptx_launch *launch, struct ptx_fault *fault);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the stand-in drivers and the executors of kernels share: the memory and the limits of a device, a
 * launch and its counts, and the fault that stops a launch. An executor loads a program and runs its kernels
 * on memory that the caller describes. On the way it checks what a GPU does not check: bounds, alignment,
 * reads of undefined bytes, races, and barriers that not all threads reach.
 */
#ifndef EMULATE_GPU_KERNEL_H
#define EMULATE_GPU_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The state of one byte of memory. A launch makes bytes that it writes BYTE_DEFINED. */
enum byte_state {
    BYTE_OUTSIDE,   /* belongs to no allocation */
    BYTE_UNDEFINED, /* may be written; a read is an error */
    BYTE_DEFINED,   /* may be read and written */
    BYTE_FORBIDDEN, /* in an allocation, but not to be touched: a red zone, or a tensor that has ended */
};

/**
 * The global memory of a device. The address a of a kernel is the byte data[a - base]. All threads of the
 * process may share the memory; the caller orders what must be ordered.
 */
struct kernel_memory {
    uint64_t base, bytes; /* base: a multiple of 256, below 2^60 */
    unsigned char *data;
    unsigned char *state; /* enum byte_state of each byte */
    /*
     * The last launch that touched each byte, for races between the blocks of a launch; the executor alone
     * uses it. The caller provides 8 bytes per byte of memory, zero at the start. A launch uses only the
     * entries that lie before bytes / (the least bytes of an access of its kernel), a quarter of them if
     * this is a float.
     */
    uint64_t *touched;
    /* A name for an address in messages ("layer 3, dx"), or NULL. May be NULL. */
    const char *(*name)(void *context, uint64_t address);
    void *context;
};

/** The limits of the device; a launch beyond them is refused. */
struct kernel_limits {
    uint32_t grid[3], block[3];
    uint32_t threads;      /* of a block */
    uint32_t shared_bytes; /* of a block, static and dynamic together */
    uint32_t target;       /* 90 for CUDA's 9.0; 0x90a for gfx90a: a program for another device is refused */
};

/** The reasons for which a program or a launch is refused or stopped. */
enum kernel_error {
    KERNEL_OK,
    KERNEL_SYNTAX,        /* the program cannot be read, or has an instruction that is not known */
    KERNEL_TARGET,        /* the program is for another device */
    KERNEL_LIMIT,         /* grid, block or shared memory are larger than the device's */
    KERNEL_OUT_OF_BOUNDS, /* an access outside all allocations, or to BYTE_FORBIDDEN bytes */
    KERNEL_MISALIGNED,
    KERNEL_UNINITIALISED, /* a read of bytes that were never written: global, shared or local memory */
    KERNEL_SHARED_RACE,   /* two threads of a block, one of them writing, with no barrier between them */
    KERNEL_GLOBAL_RACE,   /* two threads of one launch, at least one of them writing without an atomic */
    KERNEL_DIVERGENCE,    /* threads wait at different barriers or shuffles, or some have ended */
    KERNEL_ARITHMETIC,    /* an integer division by zero */
    KERNEL_TRAP,          /* the kernel executed a trap */
    KERNEL_TIMEOUT,       /* more instructions than kernel_launch.most_instructions */
    KERNEL_NO_MEMORY,
    KERNEL_UNWAITED, /* a register is read before the load that fills it has been waited for */
};
const char *kernel_error_name(enum kernel_error error); /* "a race in shared memory", … */

/** Where and why a launch stopped. `text` is one line with all of it, ready to print. */
struct kernel_fault {
    enum kernel_error error;
    char kernel[128];
    int line;         /* of a text, from 1; of machine code, the offset of the instruction; 0: unknown */
    char source[256]; /* the source file of this place ("norm.yk"); "" without line information */
    int source_line;
    uint32_t block[3], thread[3];
    uint64_t address;
    char text[1024];
};

struct kernel_info {
    const char *name;
    int n_parameters;
    uint32_t parameter_bytes;             /* of all parameters, with their padding */
    uint32_t shared_bytes, local_bytes;   /* static; local memory is per thread */
    uint32_t n_instructions, n_registers; /* of PTX: virtual registers, not those that ptxas would assign */
    uint32_t max_threads;                 /* of a block, as the program states them; 0: no limit */
    uint32_t target;                      /* as in kernel_limits */
    uint32_t most_local_bytes;            /* that a thread may have on any such GPU; 0: unknown */
    const char *source;                   /* where the kernel begins; NULL: unknown */
    int source_line;
};

/** Counts of one launch, or of several: a run adds to them. */
struct kernel_counts {
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
/* The backends have no declaration of this struct. They read the members in this order. */
_Static_assert(sizeof(struct kernel_counts) == 10 * sizeof(uint64_t), "the backends expect ten members");

struct kernel_footprint;
struct kernel_launch {
    const void *kernel; /* of the executor */
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared_bytes;
    const void *parameters; /* the parameter block: parameter_bytes of it */
    const struct kernel_memory *memory;
    const struct kernel_limits *limits;
    uint64_t last_blocks;         /* run only so many blocks, the last ones; 0: all */
    uint64_t seed;                /* the order in which the blocks run is drawn from this */
    uint64_t most_instructions;   /* of a block's threads together; 0: no limit. Then KERNEL_TIMEOUT */
    struct kernel_counts *counts; /* may be NULL */
    struct kernel_footprint
        *footprint;            /* gets what the launch reads and writes (kernel_footprint.h); may be NULL */
    const volatile bool *stop; /* when it becomes true the launch ends with KERNEL_TIMEOUT; may be NULL */
};

/** An executor of programs. A stand-in driver has exactly one, chosen when the library is linked. */
struct kernel_executor {
    const char *name; /* of what it executes, such as "PTX" */
    /**
     * Load a program of n bytes. Returns KERNEL_OK, or an error with fault->text and no module. A module does
     * not change after this call, so launches in several threads may share it.
     */
    enum kernel_error (*load)(const void *bytes, size_t n, struct kernel_fault *fault, void **module_out);
    void (*unload)(void *module);
    /** A kernel by its name, or NULL. It lives as long as the module. */
    const void *(*kernel)(const void *module, const char *name);
    /** The index-th kernel, or NULL past the last one. */
    const void *(*kernel_at)(const void *module, int index);
    struct kernel_info (*info)(const void *kernel);
    /** Offset and bytes of parameter `index` in the parameter block. false past the last one. */
    bool (*parameter)(const void *kernel, int index, uint32_t *offset_out, uint32_t *bytes_out);
    /** Run a kernel to its end on the calling thread. On an error memory is as far as the kernel came. */
    enum kernel_error (*run)(const struct kernel_launch *launch, struct kernel_fault *fault);
};

#endif

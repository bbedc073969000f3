/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Reads a code object of AMD: the ELF file with machine code that hipRTC and clang emit, of version 4 or 5,
 * or a bundle that has one. Names, numbers and layouts: LLVM's "User Guide for AMDGPU Backend", sections
 * "ELF Code Object", "Code Object Metadata" and "Kernel Descriptor".
 *
 * The reader is strict. What is torn, cut off or unknown is an error that says what it is, and nothing is
 * read outside the bytes.
 */
#ifndef EMULATE_HIP_GCN_OBJECT_H
#define EMULATE_HIP_GCN_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gcn_arch { GCN_GFX90A, GCN_GFX942, GCN_GFX1100, GCN_ARCHS };
const char *gcn_arch_name(enum gcn_arch arch); /* "gfx90a" */
/** The architecture of a name with or without features ("gfx90a:xnack-"). GCN_ARCHS: none of ours. */
enum gcn_arch gcn_arch_of(const char *name);

/** Where the value of an argument comes from. */
enum gcn_argument_kind {
    GCN_BY_VALUE,
    GCN_GLOBAL_BUFFER,
    /* The compiler adds the hidden ones. gcn_object_hide fills them. */
    GCN_HIDDEN_NONE,
    GCN_HIDDEN_GLOBAL_OFFSET_X,
    GCN_HIDDEN_GLOBAL_OFFSET_Y,
    GCN_HIDDEN_GLOBAL_OFFSET_Z,
    GCN_HIDDEN_BLOCK_COUNT_X,
    GCN_HIDDEN_BLOCK_COUNT_Y,
    GCN_HIDDEN_BLOCK_COUNT_Z,
    GCN_HIDDEN_GROUP_SIZE_X,
    GCN_HIDDEN_GROUP_SIZE_Y,
    GCN_HIDDEN_GROUP_SIZE_Z,
    GCN_HIDDEN_REMAINDER_X,
    GCN_HIDDEN_REMAINDER_Y,
    GCN_HIDDEN_REMAINDER_Z,
    GCN_HIDDEN_GRID_DIMS,
    GCN_HIDDEN_DYNAMIC_LDS_SIZE,
    GCN_ARGUMENT_KINDS
};

struct gcn_argument {
    uint32_t offset, bytes; /* in the kernel-argument segment */
    enum gcn_argument_kind kind;
};

/** Bits of gcn_entry.properties: what the user SGPRs begin with, in this order, and the wave size. */
enum gcn_property {
    GCN_PRIVATE_SEGMENT_BUFFER = 1 << 0, /* 4 SGPRs */
    GCN_DISPATCH_PTR = 1 << 1,           /* 2 */
    GCN_QUEUE_PTR = 1 << 2,              /* 2 */
    GCN_KERNARG_SEGMENT_PTR = 1 << 3,    /* 2 */
    GCN_DISPATCH_ID = 1 << 4,            /* 2 */
    GCN_FLAT_SCRATCH_INIT = 1 << 5,      /* 2 */
    GCN_PRIVATE_SEGMENT_SIZE = 1 << 6,   /* 1 */
    GCN_WAVEFRONT_SIZE32 = 1 << 10,
    GCN_USES_DYNAMIC_STACK = 1 << 11,
};

/** A kernel of a code object. */
struct gcn_entry {
    char *name;
    /*
     * The offset of the first instruction in gcn_object.image, and the bytes of the kernel's symbol, which
     * lie in the code of the object.
     */
    uint64_t code, code_bytes;

    /* from the descriptor */
    uint32_t shared_bytes;  /* LDS, static */
    uint32_t scratch_bytes; /* per lane */
    uint32_t argument_bytes;
    uint32_t rsrc1, rsrc2, rsrc3;
    uint16_t properties;                    /* enum gcn_property */
    uint16_t preload_words, preload_offset; /* kernel arguments that come in SGPRs, in words */
    uint32_t wave;                          /* lanes: 64 or 32 */
    uint32_t n_vgprs;                       /* a lane's registers, AGPRs included */
    uint32_t accum_offset;                  /* the VGPR behind which the AGPRs begin; n_vgprs: no AGPRs */
    uint32_t user_sgprs;
    bool has_scratch;                       /* the wave's scratch offset comes in an SGPR, or is set up */
    bool has_block[3];                      /* the index of the block comes in an SGPR: x, y, z */
    uint32_t thread_dimensions;             /* the index of the thread: 1: x; 2: x and y; 3: all */
    uint32_t round_32, round_16_64;         /* 0: to nearest, even */
    uint32_t denormals_32, denormals_16_64; /* 3: subnormal numbers are kept */
    bool ieee, dx10_clamp;

    /* from the metadata */
    uint32_t n_sgprs, max_threads, argument_align;
    uint32_t required[3]; /* the block's size that the kernel is compiled for; 0: any */
    int n_arguments;
    struct gcn_argument *arguments; /* their offsets rise */
};

struct gcn_range {
    uint64_t at, bytes;
};

struct gcn_lines; /* gcn_line.c */

/** A code object that has been read. It does not change, so launches in several threads may share it. */
struct gcn_object {
    enum gcn_arch arch;
    int version; /* of the code object: 4 or 5 */
    /*
     * The segments of the object as a loader puts them in memory. Code finds its constants relative to its
     * own address, so the image has to stay in one piece. image[0] is at the address `base`.
     */
    unsigned char *image;
    uint64_t image_bytes;
    struct gcn_range *code; /* the parts of the image that may be executed */
    int n_code;
    struct gcn_entry *entries;
    int n_entries;
    struct gcn_lines *lines; /* NULL: the object has no line information */
};

#define GCN_REASON 256 /* bytes of a reason, with its end */

/**
 * Read a code object, or a bundle with just one for the architectures that are known. `base` is the address
 * at which image[0] will lie for the kernels. Returns NULL with one line in `reason` (GCN_REASON bytes). The
 * caller destroys the object.
 */
struct gcn_object *gcn_object_read(const void *bytes, size_t n, uint64_t base, char *reason);
void gcn_object_destroy(struct gcn_object *object);
/** A kernel by its name, or NULL. */
const struct gcn_entry *gcn_object_entry(const struct gcn_object *object, const char *name);

/**
 * Write the hidden arguments of a kernel into its kernel-argument segment, of entry->argument_bytes bytes.
 * `blocks` and `threads` are the launch's grid and block.
 */
void gcn_object_hide(const struct gcn_entry *entry, const uint32_t blocks[3], const uint32_t threads[3],
                     uint32_t dynamic_shared_bytes, unsigned char *segment);

/**
 * The file and the line of the source from which the instruction at this offset of the image was made.
 * Returns false where the object does not say it.
 */
bool gcn_line(const struct gcn_object *object, uint64_t offset, const char **file_out, int *line_out);

/* ---- bundles: gcn_bundle.c ---- */
/** Whether the bytes begin as a bundle of clang does. A compressed bundle is one too. */
bool gcn_is_bundle(const void *bytes, size_t n);
/**
 * The code object of a bundle for `arch`, or for the only architecture that is known if arch is GCN_ARCHS.
 * Returns false with a reason.
 */
bool gcn_bundle_find(const void *bytes, size_t n, enum gcn_arch arch, const void **part_out,
                     size_t *part_bytes_out, char *reason);
/**
 * The bytes of a code object or bundle of which only the address is known, as its own header says them. The
 * header is believed, as AMD's runtime does. 0: the bytes are neither of the two. `ends` is the most bytes
 * that the caller knows to be readable.
 */
size_t gcn_object_extent(const void *bytes, size_t ends);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a stand-in driver offers beyond its vendor's interface. The vendor's library does not have these
 * functions, so a caller looks them up by dlsym and goes on without them. A stream is the vendor's handle.
 * "An error" is 0 for success, or an error in CUDA's numbers.
 */
#ifndef EMULATE_GPU_EMULATE_H
#define EMULATE_GPU_EMULATE_H

#include <stddef.h>
#include <stdint.h>

struct kernel_counts;

/** What a program may do with bytes of an allocation from now on. */
enum yoke_emulate_state {
    YOKE_EMULATE_UNDEFINED = 1, /* it may write them; a read before the first write is a fault */
    YOKE_EMULATE_DEFINED = 2,   /* it may read and write them */
    YOKE_EMULATE_FORBIDDEN = 3, /* each access is a fault */
};

/**
 * Set the state of `bytes` bytes of device memory at once. The caller has waited for the commands that touch
 * these bytes. The bytes must lie in one allocation. Whole pages of pinned memory may be forbidden, also to
 * the host; nothing allows them again. Returns an error.
 */
int yoke_emulate_annotate(uint64_t address, size_t bytes, int state);
/** The same in the order of a stream's commands: the state changes after all commands that came before. */
int yoke_emulate_annotate_async(uint64_t address, size_t bytes, int state, void *stream);

/**
 * A lifetime, in the order of commands. `begin` makes the bytes undefined and gives them a name. `streams`
 * streams use the bytes from then on. Each of these streams calls `end` behind its last use, with the same
 * address and the same number of bytes. The last of these commands forbids the bytes. If a lifetime begins in
 * memory in which another one has not ended, this is a fault that names both. A range of `begin` must lie in
 * one allocation. Returns an error.
 */
int yoke_emulate_begin(uint64_t address, size_t bytes, int streams, const char *name, void *stream);
int yoke_emulate_end(uint64_t address, size_t bytes, void *stream);

/**
 * Name a range of device memory in the texts of faults, such as "layer 3, dx". The text is copied. The
 * newest name that contains an address counts. NULL or "" removes the names that lie in the range. Freeing
 * memory also removes its names. Returns an error.
 */
int yoke_emulate_name(uint64_t address, size_t bytes, const char *name);

/**
 * The text of the last fault of this process, or "". The text belongs to the library, and is valid until the
 * calling thread calls this function again.
 */
const char *yoke_emulate_last_fault(void);

/** Print a leak. If YOKE_EMULATE_LEAKS is set, the process ends here. */
void yoke_emulate_leak(const char *text);

/**
 * The sums of the counts of all finished launches of the kernels with this name; NULL: of all kernels.
 * Returns the number of these launches.
 */
uint64_t yoke_emulate_counts(const char *kernel, struct kernel_counts *counts_out);

/** The number of calls of the vendor's functions so far, without those that return names and texts. */
uint64_t yoke_emulate_calls(void);

/**
 * Reserve addresses of a device, more than there is memory. They belong to one allocation, which is
 * freed as others are. No byte may be touched before yoke_emulate_annotate says so. Returns an error.
 */
int yoke_emulate_reserve(int device, size_t bytes, uint64_t *address_out);
/** From now on run only the last `blocks` blocks of each launch. 0: all. */
void yoke_emulate_last_blocks(uint64_t blocks);

/** The hardware channel to which the stream is mapped, counted from 0; -1: this is no stream. */
int yoke_emulate_channel(void *stream);

/*
 * The functions below are for stand-ins of the vendors' libraries. These have no kernels, and do their work
 * as functions of the host.
 */

/**
 * Queue work in the order of a stream's commands. `run` does the work, in the stream's thread, and may call
 * yoke_emulate_bytes and no function of the driver. It returns 0, or an error with a text; then the context
 * is lost. `release` is called at the end in any case, also if this function fails. The work counts as a
 * launch of a kernel with this name. Returns an error.
 */
int yoke_emulate_enqueue(void *stream, const char *name,
                         int (*run)(void *user, char *text, size_t text_bytes), void (*release)(void *user),
                         void *user);
/**
 * For `run`: where the bytes of device memory lie in the host's memory. If `writes` is 0, all bytes must have
 * been written before; otherwise they count as written from now on. NULL if the work may not touch them so;
 * then the text says why. `what` names the access, such as "cublasLtMatmul: A".
 */
void *yoke_emulate_bytes(uint64_t address, size_t bytes, int writes, const char *what, char *text,
                         size_t text_bytes);
/** Count one event of this kind. Not 0 if YOKE_EMULATE_FAIL asks for this failure now. */
int yoke_emulate_fails(const char *failure);

#endif

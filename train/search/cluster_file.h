/* SPDX-License-Identifier: Apache-2.0 */
/** Cluster files: a cluster as YAML, read and written. docs/PLANNING.md describes the format. */
#ifndef TRAIN_SEARCH_CLUSTER_FILE_H
#define TRAIN_SEARCH_CLUSTER_FILE_H

#include "train/search/cluster.h"

/**
 * Read a cluster file, and the files of `yoke bench kernels` that it names. YOKE_ECONFIG: "FILE:line:column:
 * what is wrong, and what to change". YOKE_ENOMEM, YOKE_EIO. On failure *cluster_out is unchanged.
 */
yoke_status yokei_cluster_read(const char *path, struct yokei_cluster *cluster_out);
/** The same for text in memory. `path` is for messages, and relative paths begin at its folder. */
yoke_status yokei_cluster_parse(const char *path, const char *text, size_t bytes,
                                struct yokei_cluster *cluster_out);
/**
 * A cluster as the text of a cluster file, from which yokei_cluster_parse reads the same bits. The caller
 * frees the text with free(). YOKE_ECONFIG: a cluster file cannot say this, for example because a device has
 * less than 256 MiB. YOKE_ENOMEM.
 */
yoke_status yokei_cluster_text(const struct yokei_cluster *cluster, char **text_out);
yoke_status yokei_cluster_write(const char *path, const struct yokei_cluster *cluster);

/**
 * Fill in the speeds and the peaks of a kind of device from a file of `yoke bench kernels --json`. Each
 * precision with matrix products in the file gets the speeds of all classes. YOKE_ECONFIG: the file is no
 * such file, was made on an emulated device, or has no rows of a class. kernel_speeds.c explains the
 * derivation.
 */
yoke_status yokei_kernel_speeds(const char *path, struct yokei_device_kind *kind);

/** The time of one op on a device. 0 seconds: it was not measured. */
struct yokei_op_time {
    char op[48], dtype[8];
    double seconds, flops, bytes;
    /* of such ops in a second of each kind of measured training steps; 0: the op was repeated alone */
    double count;
};
/**
 * The same from times in memory. `what` begins the errors. Arithmetic limits a product if its FLOPs at the
 * fastest rate of the list take longer than its bytes at the fastest rate of an op of class OTHER. Ops of
 * training steps replace ops of less or about the same work that were repeated alone. All ops of a class in
 * these steps take the measured time together.
 */
yoke_status yokei_kernel_fit(const char *what, const struct yokei_op_time *times, int n,
                             struct yokei_device_kind *kind);

#endif

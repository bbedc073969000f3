/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A cluster as the planner sees it: kinds of devices with their memory and speeds, hosts with devices, and
 * links with their rates. A cluster comes from a file, from measurements, or from a test. It is a plain value
 * without pointers, and it may describe devices that this machine does not have.
 */
#ifndef TRAIN_SEARCH_CLUSTER_H
#define TRAIN_SEARCH_CLUSTER_H

#include <yoke/base.h>

/** Classes of ops. The ops of a class have one speed. yokei_op_class_of knows the class of each op. */
/* clang-format off */
#define YOKEI_OP_CLASSES(CLASS) \
    CLASS(GEMM, "gemm")           /* matrix products, with their epilogues */ \
    CLASS(ATTENTION, "attention") /* fused attention */ \
    CLASS(OPTIMIZER, "optimizer") /* AdamW, and norms of gradients */ \
    CLASS(OTHER, "other")         /* norms, activations, embeddings, losses, copies and fills */
/* clang-format on */
#define YOKEI_OP_CLASS_NAME(name, text) YOKEI_CLASS_##name,
enum yokei_op_class { YOKEI_OP_CLASSES(YOKEI_OP_CLASS_NAME) YOKEI_N_CLASSES };
#undef YOKEI_OP_CLASS_NAME
extern const char *const yokei_op_class_names[YOKEI_N_CLASSES + 1]; /* ended by NULL */

/** The precisions that have speeds of their own. */
enum yokei_speed_type { YOKEI_SPEED_F32, YOKEI_SPEED_F16, YOKEI_SPEED_BF16, YOKEI_N_SPEED_TYPES };
/** The speeds of one of these precisions. */
static inline enum yokei_speed_type yokei_speed_type_of(yoke_dtype precision)
{
    return precision == YOKE_F32   ? YOKEI_SPEED_F32
           : precision == YOKE_F16 ? YOKEI_SPEED_F16
                                   : YOKEI_SPEED_BF16;
}

enum { YOKEI_MOST_POINTS = 8, YOKEI_MOST_KINDS = 8, YOKEI_MOST_LINKS = 16, YOKEI_MOST_HOSTS = 64 };

/**
 * The speed of a class of ops. An op of f FLOPs and b bytes takes
 *     seconds + max(f / rate(f), b / bytes_per_second).
 * rate(f) is the rate of the point with the largest `work` that is at most f, or of the first point. So
 * small ops may be slower than large ones. `work` ascends, and so does `rate`.
 */
struct yokei_speed {
    int n_points; /* 0: the class has no arithmetic that counts */
    struct {
        double work, rate; /* FLOPs of an op, and FLOP/s */
    } point[YOKEI_MOST_POINTS];
    double bytes_per_second; /* 0: bytes do not count */
    double seconds;          /* time of an op without work */
};

/** A kind of device: all of its devices are alike. */
struct yokei_device_kind {
    char name[32];   /* unique: "h100" */
    char device[32]; /* the name that --devices takes: "host", "cuda:0"; "": this machine has none */
    int sharers;     /* ranks of this machine that share one such device; 0: each rank has its own */
    uint64_t memory; /* bytes that a rank may use */
    /* A precision without a speed of class GEMM is not planned for. */
    struct yokei_speed speed[YOKEI_N_SPEED_TYPES][YOKEI_N_CLASSES];
    /* Peak FLOP/s of matrix products, by which utilisation is counted; 0: the fastest rate of class GEMM */
    double peak[YOKEI_N_SPEED_TYPES];
    double price; /* of one device for one hour, in any currency; 0: unknown */
};

/** A link. Both directions have this rate at once. */
struct yokei_link {
    char name[32];
    double bytes_per_second, seconds; /* rate of a long message, and time of an empty message */
    /* What a message or a collective in a device's stream takes besides, because the stream waits for the
     * host, and the host for the stream. It is the same for all sizes and numbers of ranks. */
    double wait;
};

/** Devices of one kind in a host. */
struct yokei_host_devices {
    int kind, n;
    int link; /* the link of each device to the others of these devices; -1: none is needed, because n is 1 */
};

enum { YOKEI_MOST_DEVICE_LISTS = 4 };
/** Hosts that are alike. */
struct yokei_cluster_host {
    char name[32];
    int n; /* number of such hosts */
    int n_lists;
    struct yokei_host_devices devices[YOKEI_MOST_DEVICE_LISTS];
    int inner;   /* the link of a device to the host's devices of other lists; -1: there is one list */
    int n_links; /* links to other hosts (NICs), which the devices share; 1 for most hosts */
    double price;
};

struct yokei_cluster {
    char name[64];
    int n_kinds, n_links, n_hosts; /* n_hosts: the number of entries */
    struct yokei_device_kind kind[YOKEI_MOST_KINDS];
    struct yokei_link link[YOKEI_MOST_LINKS];
    struct yokei_cluster_host host[YOKEI_MOST_HOSTS];
    /* [a][b] the link between a host of entry a and a host of entry b; -1: there is none */
    int between[YOKEI_MOST_HOSTS][YOKEI_MOST_HOSTS];
};

/**
 * Check a cluster. YOKE_ECONFIG names the entry and the member: a number that is negative, not finite or
 * absurd (a memory below 1 MiB, a rate above 1e18), a kind without a speed of matrix products, an index of
 * a kind or a link that is not there, a link that is missing between entries that both have devices, or no
 * device at all.
 */
yoke_status yokei_cluster_check(const struct yokei_cluster *cluster);
/** The number of devices of a kind; kind -1: of all kinds. */
int yokei_cluster_devices(const struct yokei_cluster *cluster, int kind);
/** The class of an op of a step program, such as "gemm". Collectives of tensor ranks have no class: -1. */
int yokei_op_class_of(const char *op);
/** Seconds of one op by the formula of struct yokei_speed. */
double yokei_op_seconds(const struct yokei_speed *speed, double flops, double bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The goals. To add one: a row here; bench/collectives NAME measures it. */
#include "bench/collectives.h"

#define KiB ((size_t)1 << 10)
#define MiB ((size_t)1 << 20)

const struct row rows[] = {
    { .name = "shared",
      .title = "all_reduce in memory of yoke_comm_alloc: share of the limit (2n bytes per rank at the rate of all ranks' triads with non-temporal stores)",
      .ranks = { 2 }, .collectives = "all_reduce", .dtypes = "f32", .least = "1M", .most = "64M", .factor = 2, .options = "--shared --in-place out", .openmpi = "",
      .goals = { { SHARE_OF_LIMIT, .value = 0.5, .to = 2 * MiB }, { SHARE_OF_LIMIT, .value = 0.95, .from = 4 * MiB } } },
    { .name = "private", .title = "all_reduce in each rank's own memory", .ranks = { 2 }, .collectives = "all_reduce", .dtypes = "f32", .least = "1M", .most = "64M",
      .factor = 4, .options = "--in-place out", .openmpi = "",
      .goals = { { TIMES_MPICH, .value = 1.3, .to = 8 * MiB }, { TIMES_MPICH, .value = 1.5, .from = 16 * MiB, .to = 32 * MiB }, { TIMES_MPICH, .value = 2.1, .from = 64 * MiB },
                 { TIMES_OPENMPI, .value = 1.1 } } },
    { .name = "small", .title = "all_reduce of 8 bytes, call check on", .ranks = { 2 }, .collectives = "all_reduce", .dtypes = "f32", .least = "8", .most = "8", .factor = 2,
      .options = "--in-place out", .openmpi = "", .goals = { { US_OVER_OPENMPI, .value = 0.2 }, { TIMES_MPICH, .value = 1 } } },
    { .name = "small-unchecked", .title = "all_reduce of 8 bytes, call check off", .ranks = { 2 }, .collectives = "all_reduce", .dtypes = "f32", .least = "8", .most = "8",
      .factor = 2, .options = "--in-place out --no-check", .openmpi = "", .goals = { { US_OVER_OPENMPI, .value = 0.2 }, { TIMES_MPICH, .value = 1 } } },
    { .name = "crowded", .title = "all_reduce with more ranks than cores: latency (goals for 2 cores)", .ranks = { 4, 8 }, .collectives = "all_reduce", .dtypes = "f32",
      .least = "4", .most = "64K", .factor = 4, .options = "--in-place out", .openmpi = "",
      .goals = { { AT_MOST_US, .value = 8, .to = 4, .ranks = 4 }, { AT_MOST_US, .value = 15, .to = 4, .ranks = 8 }, { TIMES_OPENMPI, .value = 1 }, { TIMES_MPICH, .value = 200 } } },
    { .name = "half", .title = "16-bit sums: elements per second over those of f32 in as many bytes", .ranks = { 2 }, .collectives = "all_reduce", .dtypes = "f16,bf16",
      .least = "1M", .most = "64M", .factor = 4, .options = "--in-place out --rivals off --beside f32", .goals = { { TIMES_BESIDE, .value = 1.8 } } },
    { .name = "others", .title = "reduce_scatter, all_gather, all_to_all out of place", .ranks = { 2, 4, 8 }, .collectives = "reduce_scatter,all_gather,all_to_all",
      .dtypes = "f32", .least = "64K", .most = "64M", .factor = 32, .options = "--in-place out", .openmpi = "", .goals = { { TIMES_MPICH, .value = 2 }, { TIMES_OPENMPI, .value = 1 } } },
    { .name = "broadcast", .title = "broadcast in place, the only way that MPI has", .ranks = { 2, 4, 8 }, .collectives = "broadcast", .dtypes = "f32", .least = "64K",
      .most = "64M", .factor = 32, .options = "--in-place in", .openmpi = "", .goals = { { TIMES_MPICH, .value = 2 }, { TIMES_OPENMPI, .value = 1 } } },
    { .name = "reproducible", .title = "all_reduce with reproducible=shape beside the unrestricted one", .ranks = { 2, 4 }, .collectives = "all_reduce", .dtypes = "f32",
      .least = "64K", .most = "64M", .factor = 4, .options = "--in-place out --rivals off --reproducible shape --beside run", .goals = { { TIMES_BESIDE, .value = 0.85 } } },
    { .name = "uneven", .title = "all_reduce where rank 1's core is busy with something else for 50 of every 100 us: measured shares of the sums beside equal ones", .ranks = { 2 },
      .collectives = "all_reduce", .dtypes = "f32", .least = "4M", .most = "64M", .factor = 4, .neighbour = true, .options = "--in-place out --rivals off --beside equal",
      .goals = { { TIMES_BESIDE, .value = 1.15 } } },
    { .name = "uneven-shared", .title = "the same in memory of yoke_comm_alloc", .ranks = { 2 }, .collectives = "all_reduce", .dtypes = "f32", .least = "4M", .most = "64M",
      .factor = 4, .neighbour = true, .options = "--shared --in-place out --rivals off --beside equal", .goals = { { TIMES_BESIDE, .value = 1.15 } } },
    { .name = "opencl", .title = "all_reduce in device memory that the host sees, beside private host memory", .ranks = { 2 }, .collectives = "all_reduce", .dtypes = "f32",
      .least = "16M", .most = "64M", .factor = 2, .launch = "--devices opencl:0", .options = "--in-place out --rivals off --beside host",
      .goals = { { TIMES_BESIDE, .value = 0.95 } } },
    { .name = "opencl-staged", .title = "all_reduce in device memory that must be copied: share of the slower of copying and the host's all_reduce", .ranks = { 2 },
      .collectives = "all_reduce", .dtypes = "f32", .least = "16M", .most = "64M", .factor = 2, .environment = "YOKE_OPENCL_ADDRESS=buffer",
      .launch = "--devices opencl:0", .options = "--in-place out --rivals off --beside host", .goals = { { SHARE_OF_SLOWER, .value = 0.8 } } },
    { .name = "check", .title = "what the call check costs: beside an unchecked communicator", .ranks = { 2 }, .collectives = "all_reduce", .dtypes = "f32", .least = "8",
      .most = "64K", .factor = 8192, .options = "--in-place out --rivals off --beside unchecked",
      .goals = { { US_OVER_BESIDE, .value = 0.1, .to = 8 }, { TIMES_BESIDE, .value = 1 / 1.02, .from = 64 * KiB } } },
    { 0 },
};

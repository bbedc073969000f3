/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same numbers in every layout: a nano GPT-2 trained by 1 to 4 ranks in mixes of devices with even and uneven
 * shares is held against one host rank, by gates (a) gradients per tensor at steps 1, 10 and 20 from identical
 * weights, and (b) losses of a free run. Two runs of one plan give the same bits. Built a second time as
 * parity_planted, with a sum of gradients that divides by the number of ranks once more: the gates must notice.
 */
enum { N_BLOCKS = 2, QUICK = 0 };
#include "tests/ranks/parity.h"

#ifdef PLANT_DOUBLE_AVERAGE
/* Stands in for the library's own: gradients are already divided by all tokens, so this averages them twice. */
yoke_status yokei_ranks_sum(yoke_comm *comm, void *gradients, int64_t n, yoke_dtype dtype, yoke_stream *stream)
{
    return yoke_all_reduce(gradients, gradients, (size_t)n, dtype, YOKE_AVG, comm, stream);
}
#endif

static const struct layout layouts[] = {
    { { "host" }, { 8 }, 3 },
    { { "opencl:0" }, { 8 }, 0 },
    { { "reference" }, { 8 }, 0 },
    { { "host", "host" }, { 4, 4 }, 0 },
    { { "host", "opencl:0" }, { 5, 3 }, 2 },
    { { "opencl:0", "opencl:0" }, { 1, 7 }, 0 },
    { { "reference", "host" }, { 1, 7 }, 4 },
    { { "host", "opencl:0", "host" }, { 4, 0, 4 }, 0 }, /* a rank that is given nothing */
    { { "host", "opencl:0", "host", "opencl:0" }, { 2, 2, 2, 2 }, 1 },
    { { "opencl:0", "host", "reference", "host" }, { 3, 2, 1, 2 }, 0 },
};

int main(void)
{
    static const yoke_dtype precisions[] = { YOKE_F32, YOKE_BF16, YOKE_F16 };
    struct expected e[YOKE_COUNT(precisions)];
    ranks_start();
    if (ranks_rank == 0) printf("# seed %d\n", SEED);
    memset(e, 0, sizeof e);
    yoke_status status = YOKE_OK;
    for (size_t p = 0; p < YOKE_COUNT(precisions) && !status; p++) status = expect(precisions[p], &e[p]);
    if (!ranks_check(!status, "one host rank trains in f32, bf16 and f16")) return ranks_end();
    bool opencl = ranks_all(is_there("opencl:0"));
    if (!opencl && ranks_rank == 0) printf("# no OpenCL device: its layouts are left out\n");
    for (size_t l = 0; l < YOKE_COUNT(layouts); l++) {
        bool wanted = n_ranks_of(&layouts[l]) <= ranks_size;
        for (int r = 0; r < n_ranks_of(&layouts[l]); r++) wanted = wanted && (opencl || strcmp(layouts[l].devices[r], "opencl:0"));
#ifdef PLANT_DOUBLE_AVERAGE
        wanted = wanted && l == 4;
#endif
        /* All of f32; 16-bit where it adds something: each device once alone, and the mixes. */
        for (size_t p = 0; p < YOKE_COUNT(precisions) && wanted; p++)
            if (p == 0 || l == 1 || l == 4 || l == 8) check_layout(&layouts[l], precisions[p], &e[p], &e[0]);
    }
    for (size_t p = 0; p < YOKE_COUNT(precisions); p++) free_expected(&e[p]);
    return ranks_end();
}

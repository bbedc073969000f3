/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same numbers on every mix of devices: layouts of a nano GPT-2 on hosts, OpenCL devices and the
 * reference backend. The gates (tolerances) of yoke parity compare each with one host rank. A layout that is
 * listed twice must give the same bits both times.
 */
#include "tests/ranks/parity.h"

static const struct {
    const char *devices[4], *layouts;
} mixes[] = {
    { { "host", "opencl:0", "host", "opencl:0" },
      "from=0 micro-batch=3 precision=f32,bf16,f16\n"
      "from=0 micro-batch=3 precision=f32,bf16,f16\n"
      "from=1 precision=f32,bf16,f16 steps=NN\n" /* one OpenCL device alone */
      "from=1 precision=f32,bf16,f16 steps=NN\n"
      "soak from=1 recompute=full precision=bf16 steps=NN\n"
      "dp=2 shares=5:3 micro-batch=2 precision=f32,bf16,f16 steps=20\n"
      "dp=2 shares=5:3 micro-batch=2 precision=f32,bf16,f16 steps=NN\n"
      "dp=2 shares=5:3 micro-batch=2 precision=f32,bf16,f16 steps=NN\n"
      "soak dp=2 from=1 shares=1:7\n"
      "dp=3 from=0 shares=4:0:4\n" /* one rank has no sequences */
      "dp=4 shares=2:2:2:2 micro-batch=1 precision=f32,bf16,f16\n"
      "tp=2 sequence-parallel micro-batch=4 precision=f32,bf16\n"
      "tp=2 sequence-parallel micro-batch=4 recompute=full precision=f32,bf16\n"
      "soak tp=2 from=1 tensor-shares=1:3\n"
      "pp=2 micro-batch=2 schedule=1f1b precision=f32,bf16\n"
      "pp=2 micro-batch=2 schedule=gpipe precision=f32,bf16\n"
      "soak pp=2 from=1 micro-batch=2 schedule=1f1b\n"
      "pp=2 from=1 micro-batch=2 schedule=zb-h1 recompute=full\n"
      "dp=2 pp=2 micro-batch=2 precision=f32,f16\n"
      "soak pp=2 tp=2 micro-batch=2 sequence-parallel\n"
      "pp=2 tp=2,1 from=0 micro-batch=2\n"
      "pp=2 tp=1,2 from=1 micro-batch=2 sequence-parallel\n" },
    { { "opencl:0", "opencl:0", "reference", "host" },
      "dp=2 shares=1:7\n"
      "dp=2 shares=1:7\n"
      "from=2 steps=2\n" /* the reference backend: one product at a time, in f64 */
      "dp=2 from=2 shares=1:7 micro-batch=4 steps=2\n"
      "dp=4 shares=3:2:1:2 steps=2\n" },
};

int main(void)
{
    ranks_start();
    if (ranks_rank == 0) printf("# seed %d\n", SEED);
    const bool opencl = ranks_all(ranks_has_device("opencl:0"));
    if (!opencl && ranks_rank == 0) printf("# no OpenCL device: hosts stand in for it\n");
    for (size_t i = 0; i < YOKE_COUNT(mixes) && ranks_size == 4; i++) {
        const char *device = mixes[i].devices[ranks_rank];
        check_layouts(soak_layouts(mixes[i].layouts), opencl || strcmp(device, "opencl:0") ? device : "host",
                      3);
    }
    ranks_check(ranks_size == 4, "there are 4 ranks");
    return ranks_end();
}

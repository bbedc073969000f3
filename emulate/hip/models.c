/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The models of devices. Sources of the numbers: ROCm documentation, "Accelerator and GPU hardware
 * specifications", and AMD's data sheets of the products that the table names.
 */
#include <string.h>

#include "emulate/hip/hip.h"

#define KIB 1024
#define MIB (1024 * 1024)

const struct hip_model *hip_model(const char *name)
{
    // clang-format off
    static const struct hip_model models[] = {
        /* compute units, lanes of a wave; threads, LDS, registers of a unit; L2, bus, clocks */
        /* MI210, and one half of MI250 */
        { "gfx90a",  "gfx90a:sramecc+:xnack-", 0x90a,  104, 64, 2048, 64 * KIB, 131072, 8 * MIB, 4096, 1700000, 1600000 },
        /* MI300X */
        { "gfx942",  "gfx942:sramecc+:xnack-", 0x942,  304, 64, 2048, 64 * KIB, 131072, 4 * MIB, 8192, 2100000, 1300000 },
        /* RX 7900 XTX. HIP counts pairs of its 96 units, because a block may use both. */
        { "gfx1100", "gfx1100",                0x1100,  48, 32, 2048, 64 * KIB, 196608, 6 * MIB,  384, 2482000, 1249000 },
    };
    // clang-format on
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(models[i].name, name)) return &models[i];
    return NULL;
}

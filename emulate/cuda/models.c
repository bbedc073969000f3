/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The models of devices. Sources of the numbers: CUDA C++ Programming Guide, "Compute Capabilities", and the
 * data sheets of the products that the table names.
 */
#include "emulate/cuda/cuda.h"

#define KIB 1024
#define MIB (1024 * 1024)

const struct device_model *cuda_model(int capability)
{
    // clang-format off
    static const struct device_model models[] = {
        /* SMs, shared memory per SM and per block, threads and blocks per SM, L2, bus, clocks */
        {  70,  80,  96 * KIB,  96 * KIB, 2048, 32,   6 * MIB, 4096, 1530000,   877000 }, /* V100 */
        {  75,  40,  64 * KIB,  64 * KIB, 1024, 16,   4 * MIB,  256, 1590000,  5001000 }, /* T4 */
        {  80, 108, 164 * KIB, 163 * KIB, 2048, 32,  40 * MIB, 5120, 1410000,  1215000 }, /* A100 */
        {  86,  84, 100 * KIB,  99 * KIB, 1536, 16,   6 * MIB,  384, 1740000,  7251000 }, /* A40 */
        {  87,  16, 164 * KIB, 163 * KIB, 1536, 16,   4 * MIB,  256, 1300000,  3199000 }, /* Orin */
        {  89, 142, 100 * KIB,  99 * KIB, 1536, 24,  96 * MIB,  384, 2520000,  9001000 }, /* L40S */
        {  90, 132, 228 * KIB, 227 * KIB, 2048, 32,  50 * MIB, 5120, 1980000,  2619000 }, /* H100 */
        { 100, 148, 228 * KIB, 227 * KIB, 2048, 32, 126 * MIB, 8192, 1965000,  3996000 }, /* B200 */
        { 120, 170, 100 * KIB,  99 * KIB, 1536, 24,  96 * MIB,  512, 2407000, 14001000 }, /* RTX 5090 */
    };
    // clang-format on
    const struct device_model *model = &models[0];
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (models[i].capability <= capability) model = &models[i];
    return model;
}

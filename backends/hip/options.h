/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The options with which both compilers compile programs. The key of a program in the cache has the same
 * options, so a program that was compiled with other options is not used.
 */
#ifndef BACKENDS_HIP_OPTIONS_H
#define BACKENDS_HIP_OPTIONS_H

/* clang-format off */
/**
 * Options of hipRTC and of clang: X(option). The line numbers are for the messages of tools. LLVM leaves
 * arrays of a thread in its private memory, so a kernel takes the local memory that its text names, and no
 * more.
 */
#define HIP_OPTIONS(X)                                                                                       \
    X("-std=c++14") X("-O3") X("-ffp-contract=off") X("-gline-tables-only")                                  \
    X("-mllvm") X("-disable-promote-alloca-to-lds")
/**
 * Options of clang alone, which compiles without headers and libraries of HIP. Code objects have version 4,
 * which ROCm loads from 4.1 on. By default clang 19 makes version 5, which ROCm loads from 5.2 on, and newer
 * ones make version 6, which ROCm loads from 6.2 on. Yoke's kernels have no hidden arguments, so they need
 * nothing of the newer versions. hipRTC makes what the ROCm loads to which it belongs.
 */
#define HIP_CLANG_OPTIONS(X)                                                                                 \
    X("-x") X("hip") X("--cuda-device-only") X("--no-gpu-bundle-output") X("-nogpuinc") X("-nogpulib")       \
    X("-mcode-object-version=4")
/* clang-format on */

/** What decides a program's binary besides the program and its maker. */
#define HIP_OPTION_TEXT(option) " " option
#define HIP_IDENTITY "hip" HIP_CLANG_OPTIONS(HIP_OPTION_TEXT) HIP_OPTIONS(HIP_OPTION_TEXT)

#endif

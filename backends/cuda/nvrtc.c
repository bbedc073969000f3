/* SPDX-License-Identifier: Apache-2.0 */
/**
 * NVRTC, the compiler of CUDA C++. YOKE_NVRTC names the library. Without YOKE_NVRTC it is looked for in the
 * folders of folders.c. The Python package is that of yokei_cuda_nvrtc_package.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

static struct cuda_nvrtc nvrtc;
static bool nvrtc_open;
static char nvrtc_reason[YOKE_REASON_BYTES];
static pthread_mutex_t nvrtc_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct yokei_library_file names[] = { { "libnvrtc.so.13", 13 },
                                                   { "libnvrtc.so.12", 12 },
                                                   { "libnvrtc.so.11.2", 11 } };

/*
 * NVRTC opens libnvrtc-builtins by its name alone, which the loader does not find in the folder of a Python
 * package. If the library is loaded already, the loader takes it. Without success NVRTC itself says what is
 * missing.
 */
static void load_builtins(void)
{
    char path[1100];
    const char *slash = strrchr(nvrtc.path, '/');
    if (!slash) return;
    yokei_text(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - nvrtc.path), nvrtc.path,
               nvrtc.major, nvrtc.minor);
    dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/** Open one library file. If it lacks a symbol, it is not taken. */
static bool open_nvrtc_file(const char *folder, const char *name, char *why, size_t bytes)
{
/* clang-format off */
#define SYMBOL(result, name, parameters) { #name, &nvrtc.name },
    /* clang-format on */
    static const struct yokei_symbol symbols[] = { YOKEI_NVRTC_FUNCTIONS(SYMBOL) };
#undef SYMBOL
    if (!yokei_folders_open_file(folder, name, nvrtc.path, symbols, YOKE_COUNT(symbols), why, bytes))
        return false;
    if (!nvrtc.nvrtcVersion(&nvrtc.major, &nvrtc.minor)
        && !nvrtc.nvrtcGetNumSupportedArchs(&nvrtc.n_architectures) && nvrtc.n_architectures > 0
        && nvrtc.n_architectures <= CUDA_MAX_ARCHITECTURES
        && !nvrtc.nvrtcGetSupportedArchs(nvrtc.architectures)) {
        load_builtins();
        return true;
    }
    yokei_text(why, bytes, "%s does not say which architectures it supports", nvrtc.path);
    return false;
}

const char *yokei_cuda_nvrtc_package(int version, char text[48])
{
    enum { BYTES = 48 };
    const int major = version / 1000, minor = version % 1000 / 10;
    /*
     * NVIDIA's name for CUDA 13 has no number. Its package with -cu13 holds nothing. For CUDA 11 and 12 the
     * newest package up to this version is asked for, because some versions, such as 12.7, have no package.
     */
    if (major > names[0].major)
        yokei_text(text, BYTES, "'nvidia-cuda-nvrtc==%d.*'", names[0].major);
    else if (major == 13)
        yokei_text(text, BYTES, "'nvidia-cuda-nvrtc==13.%d.*'", minor);
    else
        yokei_text(text, BYTES, "'nvidia-cuda-nvrtc-cu%d<%d.%d'", major, major, minor + 1);
    return text;
}

/** Whether YOKE_NVRTC decides, and then open the library that it names. */
static bool open_given(void)
{
    const char *given = getenv("YOKE_NVRTC");
    char why[YOKE_REASON_BYTES] = "";
    if (!given || !*given) return false;
    nvrtc_open = strcmp(given, "off") != 0 && open_nvrtc_file("", given, why, sizeof why);
    if (!strcmp(given, "off"))
        yokei_text(nvrtc_reason, sizeof nvrtc_reason,
                   "YOKE_NVRTC=off turns NVRTC off, which compiles the kernels: unset YOKE_NVRTC");
    else
        yokei_text(nvrtc_reason, sizeof nvrtc_reason,
                   "YOKE_NVRTC names no NVRTC that can be used: %s; name a libnvrtc.so", why);
    return true;
}

static void open_nvrtc(int driver_version)
{
    char why[YOKE_REASON_BYTES] = "", package[48];
    if (open_given()) return;
    nvrtc_open = yokei_folders_open_newest(yokei_cuda_folders, names, YOKE_COUNT(names),
                                           driver_version / 1000, open_nvrtc_file, why, sizeof why);
    if (!nvrtc_open)
        yokei_text(
            nvrtc_reason, sizeof nvrtc_reason,
            "NVRTC, which compiles the kernels, is not found (%s): set CUDA_HOME to a CUDA toolkit, or "
            "pip install %s",
            why, yokei_cuda_nvrtc_package(driver_version, package));
}

const struct cuda_nvrtc *yokei_cuda_nvrtc(int driver_version, char *reason, size_t bytes)
{
    pthread_mutex_lock(&nvrtc_lock);
    if (!nvrtc_open) open_nvrtc(driver_version);
    if (!nvrtc_open) yokei_text(reason, bytes, "%s", nvrtc_reason);
    pthread_mutex_unlock(&nvrtc_lock);
    return nvrtc_open ? &nvrtc : NULL;
}

bool yokei_cuda_architecture(const struct cuda_nvrtc *library, int cc, bool ptx_only, char *option,
                             size_t bytes)
{
    int best = 0;
    for (int i = 0; i < library->n_architectures; i++)
        if (library->architectures[i] <= cc) best = YOKE_MAX(best, library->architectures[i]);
    if (!best) return false;
    yokei_text(option, bytes, "--gpu-architecture=%s_%d", best == cc && !ptx_only ? "sm" : "compute", best);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/** Loading of libamdhip64 at run time, its initialisation, and the reasons why there is no device. */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/hip/hip.h"

static struct hip_library library;
static bool library_open;
static char library_reason[YOKE_REASON_BYTES];
static pthread_once_t library_once = PTHREAD_ONCE_INIT;
struct yokei_rt_known yokei_hip_known = { .lock = PTHREAD_MUTEX_INITIALIZER };

int yokei_hip_folders(char *list[], int capacity)
{
    struct yokei_folders folders = { list, 0, capacity };
    yokei_folders_match(&folders, getenv("ROCM_PATH"), "/lib");
    yokei_folders_match(&folders, getenv("HIP_PATH"), "/lib");
    yokei_folders_add(&folders, "");
    yokei_folders_match(&folders, "/opt", "/rocm*/lib");
    yokei_folders_match(&folders, getenv("CONDA_PREFIX"), "/lib");
    return folders.n;
}

/* ---- reasons ---- */

enum hip_kfd yokei_hip_kfd(const char *kfd)
{
    return access(kfd, F_OK) ? HIP_NO_KFD : access(kfd, R_OK | W_OK) ? HIP_KFD_REFUSED : HIP_KFD_OPENS;
}

bool yokei_hip_explain_kfd(const char *kfd, enum hip_kfd state, char *reason, size_t bytes)
{
    if (state == HIP_NO_KFD)
        yokei_text(reason, bytes,
                   "there is no %s: no AMD GPU, or its kernel module is not loaded (modprobe amdgpu); a "
                   "container needs --device /dev/kfd --device /dev/dri",
                   kfd);
    if (state == HIP_KFD_REFUSED)
        yokei_text(reason, bytes,
                   "this user may not open %s: join the group of the file, which is render or video "
                   "(usermod -a -G render USER), and log in again",
                   kfd);
    return state != HIP_KFD_OPENS;
}

const char *yokei_hip_hiding_variable(void)
{
    static const char *const names[] = { "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                         "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL" };
    for (size_t i = 0; i < YOKE_COUNT(names); i++)
        if (getenv(names[i])) return names[i];
    return NULL;
}

void yokei_hip_explain(hipError_t error, char *reason, size_t bytes)
{
    const char *hides = yokei_hip_hiding_variable();
    const char *name = library.hipGetErrorName ? library.hipGetErrorName(error) : NULL;
    if (!name) name = "an unlisted error";
    if ((error == hipErrorNoDevice || error == hipErrorInvalidDevice) && hides)
        yokei_text(reason, bytes, "%s='%.60s' hides all devices; unset it, or name a device of rocminfo",
                   hides, getenv(hides));
    else if (error == hipErrorNoDevice || error == hipErrorInvalidDevice)
        yokei_text(reason, bytes, "HIP finds no device, although /dev/kfd is there; see rocminfo. %s",
                   access("/dev/dri", F_OK)
                       ? "There is no /dev/dri: a container needs --device /dev/dri"
                       : "This version of ROCm may not know the GPU, or this user may not open "
                         "/dev/dri/renderD* (usermod -a -G render USER)");
    else if (error == hipErrorInsufficientDriver)
        yokei_text(
            reason, bytes,
            "the kernel module amdgpu is too old for %s; install the module of the same ROCm, and reboot",
            library.path);
    else
        yokei_text(reason, bytes, "hipInit failed: %s (%d); see whether rocminfo works", name, error);
}

static const struct yokei_library_file names[] = { { "libamdhip64.so.7", 7 },
                                                   { "libamdhip64.so.6", 6 },
                                                   { "libamdhip64.so.5", 5 } };

bool yokei_hip_other_version(const char *pattern, char *path, size_t bytes)
{
    glob_t found;
    bool any = false;
    if (!glob(pattern, 0, NULL, &found))
        for (size_t i = 0; i < found.gl_pathc && !any; i++) {
            const char *so = strstr(found.gl_pathv[i], "libamdhip64.so.");
            any = so && atoi(so + 15) > 0 && !yokei_hip_version(atoi(so + 15));
            if (any) yokei_text(path, bytes, "%s", found.gl_pathv[i]);
        }
    globfree(&found);
    return any;
}

/** The path of a libamdhip64 whose major version Yoke does not know. False: there is none. */
static bool find_other_version(char *path, size_t bytes)
{
    static const char *const patterns[] = { "/opt/rocm*/lib/libamdhip64.so.*", "/usr/lib64/libamdhip64.so.*",
                                            "/usr/lib/x86_64-linux-gnu/libamdhip64.so.*" };
    bool any = false;
    for (size_t i = 0; i < YOKE_COUNT(patterns) && !any; i++)
        any = yokei_hip_other_version(patterns[i], path, bytes);
    return any;
}

static void explain_no_library(const char *why)
{
    char other[300];
    if (library.emulated)
        yokei_text(library_reason, sizeof library_reason,
                   "YOKE_EMULATE is set, but the stand-in for HIP does not load: %s", why);
    else if (strstr(why, "has no symbol"))
        yokei_text(library_reason, sizeof library_reason, "ROCm is too old: %s; install ROCm 5.2 or newer",
                   why);
    else if (find_other_version(other, sizeof other))
        yokei_text(library_reason, sizeof library_reason,
                   "Yoke knows libamdhip64.so.5, 6 and 7, and here is only %s: install ROCm 5.2, 6 or 7",
                   other);
    else
        yokei_text(library_reason, sizeof library_reason,
                   "no HIP: %s; install ROCm's package hip-runtime-amd, or set ROCM_PATH to ROCm's folder",
                   why);
}

/* ---- opening ---- */

static bool open_file(const char *folder, const char *name, char *why, size_t bytes)
{
/* clang-format off */
#define SYMBOL(result, name, parameters) { #name, &library.name },
    /* clang-format on */
    static const struct yokei_symbol symbols[] = { YOKEI_HIP_FUNCTIONS(SYMBOL) },
                                     newer[] = { YOKEI_HIP_NEWER_FUNCTIONS(SYMBOL) };
#undef SYMBOL
    char unused[YOKE_REASON_BYTES];
    if (!yokei_folders_open_file(folder, name, library.path, symbols, YOKE_COUNT(symbols), why, bytes))
        return false;
    const char *const paths[] = { library.path, NULL };
    for (size_t i = 0; i < YOKE_COUNT(newer); i++) yokei_dl_open(paths, &newer[i], 1, unused, sizeof unused);
    return true;
}

/* The stand-in says in which state /dev/kfd is on the machine that it shows. */
static bool explain_emulated_kfd(void)
{
    int (*state)(void) = NULL;
    const struct yokei_symbol symbol = { "yoke_emulate_kfd", &state };
    const char *const paths[] = { library.path, NULL };
    char why[YOKE_REASON_BYTES];
    if (!yokei_dl_open(paths, &symbol, 1, why, sizeof why)) return false;
    return yokei_hip_explain_kfd("/dev/kfd", (enum hip_kfd)state(), library_reason, sizeof library_reason);
}

static bool load_library(void)
{
    char why[YOKE_REASON_BYTES] = "", processor[24], emulation[32], path[1024];
    library.emulated = yokei_emulated("hip", processor, sizeof processor);
    yokei_text(emulation, sizeof emulation, "hip:%s", processor);
    if (library.emulated && !yokei_is_emulation(emulation)) {
        yokei_text(library_reason, sizeof library_reason,
                   "YOKE_EMULATE is '%.40s'; behind hip: stands a processor, such as hip:gfx942",
                   getenv("YOKE_EMULATE"));
        return false;
    }
    if (library.emulated && strcmp(processor, "gfx90a") != 0 && strcmp(processor, "gfx942") != 0
        && strcmp(processor, "gfx1100") != 0) {
        yokei_text(library_reason, sizeof library_reason,
                   "YOKE_EMULATE is '%.40s'; the stand-in for HIP has gfx90a, gfx942 and gfx1100",
                   getenv("YOKE_EMULATE"));
        return false;
    }
    if (library.emulated) {
        yokei_stand_in_path("hip", "libamdhip64-emulated.so.6", path, sizeof path);
        if (open_file("", path, why, sizeof why)) {
            yokei_stand_in_load(library.path, &library.say);
            return !explain_emulated_kfd();
        }
    } else if (access("/dev/dxg", F_OK)
               && yokei_hip_explain_kfd("/dev/kfd", yokei_hip_kfd("/dev/kfd"), library_reason,
                                        sizeof library_reason)) {
        return false; /* ROCm's libraries are not loaded where they cannot work */
    } else if (yokei_folders_open_newest(yokei_hip_folders, names, YOKE_COUNT(names), INT_MAX, open_file, why,
                                         sizeof why)) {
        return true;
    }
    explain_no_library(why);
    return false;
}

static void open_hip_library(void)
{
    if (!load_library()) return;
    const hipError_t error = library.hipInit(0);
    yokei_hip_known.process = getpid();
    if (error) {
        yokei_hip_explain(error, library_reason, sizeof library_reason);
        return;
    }
    if (library.hipRuntimeGetVersion(&library.version)) {
        yokei_text(library_reason, sizeof library_reason, "hipRuntimeGetVersion failed");
        return;
    }
    library.numbers = yokei_hip_version(library.version / 10000000);
    if (!library.numbers)
        yokei_text(library_reason, sizeof library_reason,
                   "%s is HIP %d.%d, and Yoke knows HIP 5, 6 and 7: install ROCm 5.2, 6 or 7", library.path,
                   library.version / 10000000, library.version / 100000 % 100);
    library_open = library.numbers != NULL;
}

const struct hip_library *yokei_hip_library(char *reason, size_t bytes)
{
    pthread_once(&library_once, open_hip_library);
    if (library_open && yokei_rt_is_forked(&yokei_hip_known)) {
        yokei_rt_explain_fork(&yokei_hip_known, "HIP", reason, bytes);
        return NULL;
    }
    if (!library_open) yokei_text(reason, bytes, "%s", library_reason);
    return library_open ? &library : NULL;
}

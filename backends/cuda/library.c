/* SPDX-License-Identifier: Apache-2.0 */
/** Loading of libcuda at run time, its initialisation, and the reasons why there is no device. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"

static struct cuda_library library;
static bool library_open;
static char library_reason[YOKE_REASON_BYTES];
static pthread_once_t library_once = PTHREAD_ONCE_INIT;
struct yokei_rt_known yokei_cuda_known = { .lock = PTHREAD_MUTEX_INITIALIZER };

void yokei_cuda_driver_file(char *path, size_t bytes)
{
    char capability[16];
    if (yokei_emulated("cuda", capability, sizeof capability))
        yokei_stand_in_path("cuda", "libcuda-emulated.so.1", path, bytes);
    else
        yokei_text(path, bytes, "libcuda.so.1");
}

const char *yokei_cuda_error_name(const struct cuda_library *cu, CUresult error)
{
    const char *name = NULL;
    return cu->cuGetErrorName && !cu->cuGetErrorName(error, &name) && name ? name : "an unlisted error";
}

/** Whether one of /dev/nvidia* exists. `closed` gets the first one that this user may not open, or "". */
static bool has_device_files(char *closed, size_t bytes)
{
    static const char *const files[] = { "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm" };
    bool any = false;
    closed[0] = '\0';
    for (size_t i = 0; i < YOKE_COUNT(files); i++) {
        if (access(files[i], F_OK)) continue;
        any = true;
        if (!closed[0] && access(files[i], R_OK | W_OK)) yokei_text(closed, bytes, "%s", files[i]);
    }
    return any;
}

static void cuda_explain_no_device(char *reason, size_t bytes)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char closed[64];
    const bool any = has_device_files(closed, sizeof closed);
    if (visible)
        yokei_text(
            reason, bytes,
            "CUDA_VISIBLE_DEVICES='%.60s' hides all devices; unset it, or name a device of nvidia-smi -L",
            visible);
    else if (closed[0])
        yokei_text(reason, bytes,
                   "this user may not open %s; join the group of the file, or ask for its permissions",
                   closed);
    else if (!any)
        yokei_text(
            reason, bytes,
            "there is no /dev/nvidia*: no NVIDIA GPU, or its kernel module is not loaded (modprobe nvidia); "
            "a container needs --gpus all");
    else
        yokei_text(reason, bytes,
                   "the NVIDIA driver finds no device; see nvidia-smi. A GPU in MIG mode needs an instance "
                   "(nvidia-smi mig -cgi ... -C)");
}

void yokei_cuda_explain(CUresult error, char *reason, size_t bytes)
{
    switch (error) {
    case CUDA_ERROR_NO_DEVICE: cuda_explain_no_device(reason, bytes); return;
    case CUDA_ERROR_STUB_LIBRARY:
        yokei_text(
            reason, bytes,
            "%s is the toolkit's stub, not a driver; take its folder 'stubs' out of LD_LIBRARY_PATH and "
            "install the NVIDIA driver",
            library.path);
        return;
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        yokei_text(
            reason, bytes,
            "libcuda.so.1 and the NVIDIA kernel module have different versions; reboot, or load the new module");
        return;
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        yokei_text(
            reason, bytes,
            "the forward-compatibility libcuda.so.1 does not work with this GPU; take the folder 'compat' out "
            "of LD_LIBRARY_PATH");
        return;
    case CUDA_ERROR_SYSTEM_NOT_READY:
        yokei_text(reason, bytes, "the GPUs are not ready; start NVIDIA's fabric manager and see nvidia-smi");
        return;
    default: break;
    }
    char closed[64];
    const char *name = yokei_cuda_error_name(&library, error);
    if (has_device_files(closed, sizeof closed) && closed[0])
        yokei_text(reason, bytes,
                   "cuInit failed: %s (%d), and this user may not open %s; ask for its permissions", name,
                   error, closed);
    else
        yokei_text(
            reason, bytes,
            "cuInit failed: %s (%d); see whether nvidia-smi works and whether the module nvidia_uvm is loaded",
            name, error);
}

static void explain_no_library(const char *why)
{
    if (strstr(why, "has no symbol"))
        yokei_text(library_reason, sizeof library_reason,
                   "the NVIDIA driver is too old: %s; install driver 515 (CUDA 11.7) or newer", why);
    else if (library.emulated)
        yokei_text(library_reason, sizeof library_reason,
                   "YOKE_EMULATE is set, but the stand-in driver does not load: %s", why);
    else
        yokei_text(
            library_reason, sizeof library_reason,
            "no NVIDIA driver: %s; install the driver (nvidia-smi must work); a container needs --gpus all",
            why);
}

static bool load_library(void)
{
/* clang-format off */
#define SYMBOL(result, name, parameters) { #name, &library.name },
    /* clang-format on */
    static const struct yokei_symbol symbols[] = { YOKEI_CUDA_FUNCTIONS(SYMBOL) },
                                     newer[] = { YOKEI_CUDA_NEWER_FUNCTIONS(SYMBOL) };
#undef SYMBOL
    char why[YOKE_REASON_BYTES], capability[16], emulation[32];
    yokei_cuda_driver_file(library.path, sizeof library.path);
    const char *const names[] = { library.path, NULL };
    library.emulated = yokei_emulated("cuda", capability, sizeof capability);
    yokei_text(emulation, sizeof emulation, "cuda:%s", capability);
    if (library.emulated && !yokei_is_emulation(emulation)) {
        yokei_text(library_reason, sizeof library_reason,
                   "YOKE_EMULATE is '%.40s'; behind cuda: stands a compute capability, such as cuda:9.0",
                   getenv("YOKE_EMULATE"));
        return false;
    }
    if (yokei_dl_open(names, symbols, YOKE_COUNT(symbols), why, sizeof why)) {
        for (size_t i = 0; i < YOKE_COUNT(newer); i++) yokei_dl_open(names, &newer[i], 1, why, sizeof why);
        if (library.emulated) yokei_stand_in_load(library.path, &library.say);
        return true;
    }
    explain_no_library(why);
    return false;
}

static void open_cuda_library(void)
{
    if (!load_library()) return;
    const CUresult error = library.cuInit(0);
    yokei_cuda_known.process = getpid();
    if (error)
        yokei_cuda_explain(error, library_reason, sizeof library_reason);
    else if (library.cuDriverGetVersion(&library.version))
        yokei_text(library_reason, sizeof library_reason, "cuDriverGetVersion failed");
    else
        library_open = true;
}

const struct cuda_library *yokei_cuda_library(char *reason, size_t bytes)
{
    pthread_once(&library_once, open_cuda_library);
    if (library_open && yokei_rt_is_forked(&yokei_cuda_known)) {
        yokei_rt_explain_fork(&yokei_cuda_known, "CUDA", reason, bytes);
        return NULL;
    }
    if (!library_open) yokei_text(reason, bytes, "%s", library_reason);
    return library_open ? &library : NULL;
}

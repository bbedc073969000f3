/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The HIP driver: the declarations that its files share. libamdhip64 is opened at run time, and no symbol of
 * it is linked. What HIP shares with CUDA stands in backends/gpu/runtime.
 */
#ifndef BACKENDS_HIP_HIP_H
#define BACKENDS_HIP_HIP_H

#include "backends/gpu/runtime/folders.h"
#include "backends/gpu/runtime/runtime.h"
#include "backends/hip/api.h"
#include "backends/hip/hipblaslt_api.h"
#include "backends/hip/rocblas_api.h"

/* Bytes of the name of an architecture with its features, such as "gfx90a:sramecc+:xnack-". */
#define HIP_ARCH 40

/* ---- versions.c: what differs between the versions of HIP ---- */
/** The numbers of a library's enumerations. */
struct hip_version {
    int major;
    /* hipDeviceAttribute_t */
    int max_threads, max_grid_x, max_grid_y, max_grid_z, shared_bytes, wavefront, compute_units, integrated;
    int on_host, on_device; /* hipMemoryType */
};
/** The numbers of a major version. NULL: Yoke does not know this version. */
const struct hip_version *yokei_hip_version(int major);
struct hip_library;
/**
 * The name of a device's architecture, from the properties in either layout. False if neither layout has a
 * name that begins with "gfx".
 */
bool yokei_hip_arch(const struct hip_library *hip, int device, char arch[HIP_ARCH]);
/** Find the name in a buffer that a function of the library has filled. `bytes` are those of the buffer. */
bool yokei_hip_arch_in(const char *properties, size_t bytes, bool layout_6_first, char arch[HIP_ARCH]);

/* ---- library.c: libamdhip64 ---- */
struct hip_library {
#define HIP_SLOT(result, name, parameters) result(*name) parameters;
    YOKEI_HIP_FUNCTIONS(HIP_SLOT)
    YOKEI_HIP_NEWER_FUNCTIONS(HIP_SLOT) /* NULL in libraries that lack them */
    int version;                        /* 60342134 is 6.3.42134 */
    const struct hip_version *numbers;
    char path[1024];
    bool emulated;             /* Yoke's own stand-in, which executes AMD's machine code on the CPU */
    struct yokei_stand_in say; /* what the stand-in has beyond the interface of HIP */
};
/**
 * The library, which is opened and initialised once per process. NULL if there is none. `reason` then has one
 * line with the cause and what the user can do. A process that was forked after hipInit cannot use HIP, and
 * also gets NULL.
 */
const struct hip_library *yokei_hip_library(char *reason, size_t bytes);
/** The devices that this process has found, and the process that initialised the library. */
extern struct yokei_rt_known yokei_hip_known;
/** The folders of ROCm, in order, for yokei_folders_open_newest. */
int yokei_hip_folders(char *folders[], int capacity);
/** The line that explains why hipInit or hipGetDeviceCount failed on this machine. */
void yokei_hip_explain(hipError_t error, char *reason, size_t bytes);
/** The name of a variable that is set and may hide devices, or NULL. */
const char *yokei_hip_hiding_variable(void);
/** A libamdhip64 of a major version that Yoke does not know, among a pattern's files. False: none. */
bool yokei_hip_other_version(const char *pattern, char *path, size_t bytes);
/** The state of /dev/kfd, the file by which ROCm reaches the GPUs. The stand-in returns the same numbers. */
enum hip_kfd { HIP_KFD_OPENS, HIP_NO_KFD, HIP_KFD_REFUSED };
enum hip_kfd yokei_hip_kfd(const char *kfd);
/** Why /dev/kfd in this state makes HIP impossible for this user. False: it does not. */
bool yokei_hip_explain_kfd(const char *kfd, enum hip_kfd state, char *reason, size_t bytes);

/* ---- child.c: programs that compile ---- */
/**
 * How a program that was started has ended, besides its exit code from 0 on. KILLED: by SIGKILL, as the
 * kernel does where memory is short.
 */
enum { HIP_CHILD_CRASHED = -1, HIP_CHILD_LATE = -2, HIP_CHILD_NOT_STARTED = -3, HIP_CHILD_KILLED = -4 };
/**
 * Run a program, and wait until it ends. `text` gets what it has printed, cut at `bytes`. After `seconds` it
 * is ended. Safe in programs with threads, because nothing runs between fork and exec. The program ends if
 * this process ends.
 */
int yokei_hip_child(const char *const arguments[], int seconds, char *text, size_t bytes);
/** The path of Yoke's own program that compiles: see compile_main.c. */
void yokei_hip_child_path(char *path, size_t bytes);

/* ---- compiler.c: which compiler makes programs for an architecture ---- */
enum hip_compiler_kind { HIP_NO_COMPILER, HIP_RTC, HIP_CLANG };
struct hip_compiler {
    enum hip_compiler_kind kind;
    char path[1024];  /* of libhiprtc or libamdhip64, or of clang */
    char version[20]; /* "5.2.21153", "19.1.7" */
};
/**
 * The compiler for an architecture: hipRTC if it knows the architecture, or else clang. `folders` is
 * device->cache_dir: programs there show what was found before. False if no compiler knows the architecture,
 * with the cause and the fix in `reason`.
 */
bool yokei_hip_compiler(const char *arch, const char *folders, struct hip_compiler *out, char *reason,
                        size_t bytes);
/** The name of a compiler: "hipRTC 5.2.21153 (PATH)". */
void yokei_hip_compiler_text(const struct hip_compiler *compiler, char *text, size_t bytes);
/**
 * Compile a text for an architecture. YOKE_ECOMPILE with the compiler's log. `spec` is for messages, and
 * `name` names the program. The code object is allocated with malloc.
 */
yoke_status yokei_hip_compile_text(const struct hip_compiler *compiler, const char *spec, const char *arch,
                                   const char *name, const char *text, void **code_out, size_t *bytes_out);

/* ---- makers.c: the architecture and the compiler of a binary, such as "gfx90a.xnack--clang19.1.7" ---- */
void yokei_hip_maker_text(const char *arch, const struct hip_compiler *compiler, char *text, size_t bytes);
/** Read a maker. False if the text is none. */
bool yokei_hip_maker_parse(const char *text, char arch[HIP_ARCH], struct hip_compiler *out);
/** Whether binaries of this maker run on devices of the architecture `arch`, a string. */
bool yokei_hip_maker_runs(const void *arch, const char *maker);
/** Whether code for `code`, with or without features, runs on a device of `device`. */
bool yokei_hip_arch_runs(const char *code, const char *device);

/* ---- compile.c, program.c ---- */
/** The slots compile, maker and suits of struct yokei_gpu_driver. */
yoke_status yokei_hip_compile(const yoke_device *device, const struct yokei_gpu_source *source,
                              void **blob_out, size_t *bytes_out);
void yokei_hip_maker(const yoke_device *device, char *text, size_t bytes);
int yokei_hip_suits(const yoke_device *device, const char *maker);
/** The slot load of struct yokei_rt_calls. */
yoke_status yokei_hip_load(const yoke_device *device, const void *binary, size_t bytes, void **module_out);
extern const struct yokei_gpu_driver yokei_hip_driver;

/* ---- calls.c ---- */
extern const struct yokei_rt_calls yokei_hip_calls;
bool yokei_hip_is_fatal(hipError_t error);

/* ---- ahead.c: yoke compile ---- */
/** The lanes of a wavefront that the compilers choose for an architecture. */
int yokei_hip_wavefront(const char *arch);
/** The slot ahead of struct yoke_device_extras: `target` is an architecture, such as "gfx942". */
yoke_status yokei_hip_ahead(yoke_device *device, const char *target, struct yokei_ahead *ahead);

/* ---- products.c: AMD's libraries of matrix products ---- */
struct hip_rocblas {
#define ROCBLAS_SLOT(result, name, parameters) result(*name) parameters;
    YOKEI_ROCBLAS_FUNCTIONS(ROCBLAS_SLOT)
    char version[64]; /* "4.3.0.f5ba8a7" */
    char path[1024];
};
struct hip_hipblaslt {
    YOKEI_HIPBLASLT_FUNCTIONS(ROCBLAS_SLOT)
    char path[1024];
};
/**
 * Make the libraries' handles of an opened device, or note why one of them multiplies nothing. The device is
 * current. This function never fails, because a device works without the libraries.
 */
void yokei_hip_products_attach(yoke_device *device);
/** Release what belongs to the libraries. The device is current, unless it is lost (`entered` false). */
void yokei_hip_products_detach(yoke_device *device, bool entered);
/** For `yoke info`: the libraries, their versions and files, or why there is none. */
void yokei_hip_products_text(const yoke_device *device, char *text, size_t bytes);

/* ---- the device ---- */
struct hip_device {
    struct yokei_rt rt;            /* the first member, see runtime.h */
    const struct hip_library *hip; /* NULL if the device only compiles */
    int id;
    char arch[HIP_ARCH];
    struct hip_compiler compiler;
    const struct hip_rocblas *blas; /* NULL: blas_reason says why */
    rocblas_handle blas_handle;
    char blas_reason[YOKE_REASON_BYTES];
    const struct hip_hipblaslt *lt; /* NULL: lt_reason says why */
    hipblasLtHandle_t lt_handle;
    int lt_number;       /* of its version: 100200 */
    char lt_version[24]; /* "1.2.0" */
    char lt_reason[YOKE_REASON_BYTES];
    struct hip_lt_trials *lt_trials; /* of its algorithms */
};
static inline struct hip_device *hip_device(const yoke_device *device) { return device->impl; }

/* ---- sensors.c ---- */
/** The slot sensors of struct yoke_device_extras: such as "now at 1700 MHz, 45 C"; "" if it is unknown. */
void yokei_hip_sensors(const yoke_device *device, char *text, size_t bytes);
/** The same for the device with this PCI address, such as "0000:03:00.0", below the folder `root`. */
void yokei_hip_sensors_at(const char *root, const char *pci, char *text, size_t bytes);

#endif

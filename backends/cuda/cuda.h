/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The CUDA driver: the declarations that its files share. libcuda, libnvrtc and libcublasLt are opened at run
 * time, and no symbol of them is linked.
 */
#ifndef BACKENDS_CUDA_CUDA_H
#define BACKENDS_CUDA_CUDA_H

#include "backends/cuda/api.h"
#include "backends/cuda/cublaslt_api.h"
#include "backends/gpu/runtime/folders.h"
#include "backends/gpu/runtime/products.h"
#include "backends/gpu/runtime/runtime.h"

/* ---- library.c: libcuda.so.1 ---- */
struct cuda_library {
#define CUDA_SLOT(result, name, parameters) result(*name) parameters;
    YOKEI_CUDA_FUNCTIONS(CUDA_SLOT)
    int version;     /* the newest CUDA version that the driver knows: 13000 is 13.0 */
    char path[1024]; /* the name under which the library was opened */
    bool emulated;   /* Yoke's own stand-in, which executes PTX on the CPU (YOKE_EMULATE) */
    YOKEI_CUDA_NEWER_FUNCTIONS(CUDA_SLOT) /* NULL in older drivers */
    struct yokei_stand_in say;            /* what the stand-in has beyond the interface of CUDA */
};
/**
 * The driver, which is opened and initialised once per process. NULL if there is none. `reason` then has one
 * line with the cause and what the user can do. A process that was forked after the driver was initialised
 * cannot use CUDA, and also gets NULL.
 */
const struct cuda_library *yokei_cuda_library(char *reason, size_t bytes);
/** The devices that this process has found, and the process that initialised the driver. */
extern struct yokei_rt_known yokei_cuda_known;
/** The file that yokei_cuda_library opens: "libcuda.so.1", or the path of the stand-in. */
void yokei_cuda_driver_file(char *path, size_t bytes);
/** The line that explains why cuInit or cuDeviceGetCount failed on this machine. */
void yokei_cuda_explain(CUresult error, char *reason, size_t bytes);

/** The name of an error by the driver: "CUDA_ERROR_OUT_OF_MEMORY", and its number if it has no name. */
const char *yokei_cuda_error_name(const struct cuda_library *cu, CUresult error);

/* ---- folders.c: where the toolkit's libraries are ---- */
/**
 * The folders in which NVRTC and cuBLASLt are looked for, in order. "" is the loader's own path. Returns
 * their number. Each entry is allocated with malloc. The caller frees the entries.
 */
int yokei_cuda_folders(char *folders[], int capacity);

/* ---- nvrtc.c: the compiler ---- */
#define CUDA_MAX_ARCHITECTURES 64
struct cuda_nvrtc {
#define NVRTC_SLOT(result, name, parameters) result(*name) parameters;
    YOKEI_NVRTC_FUNCTIONS(NVRTC_SLOT)
    int major, minor;
    char path[1024];
    int n_architectures, architectures[CUDA_MAX_ARCHITECTURES]; /* 75, 80, ..., as NVRTC lists them */
};
/**
 * NVRTC, which is opened once per process. If YOKE_NVRTC is set, it names the library, and "off" means none.
 * Otherwise the newest installed version is taken whose major version the driver (`driver_version`) knows, or
 * else the newest of all. NULL if there is none, with the cause and the fix in `reason`.
 */
const struct cuda_nvrtc *yokei_cuda_nvrtc(int driver_version, char *reason, size_t bytes);
/**
 * The package that `pip install` gets to have an NVRTC that is not newer than CUDA `version` (12040 is 12.4),
 * in quotes for the shell. Returns `text`.
 */
const char *yokei_cuda_nvrtc_package(int version, char text[48]);
/**
 * The architecture option for a device of compute capability `cc` (90 is 9.0), such as
 * "--gpu-architecture=sm_90". If NVRTC does not know the device, the option is compute_ and the highest
 * architecture below it. Returns false if NVRTC supports only newer devices.
 */
bool yokei_cuda_architecture(const struct cuda_nvrtc *nvrtc, int cc, bool ptx_only, char *option,
                             size_t bytes);

/* ---- cublaslt.c: the library of matrix products ---- */
struct cuda_cublaslt {
#define CUBLASLT_SLOT(result, name, parameters) result(*name) parameters;
    YOKEI_CUBLASLT_FUNCTIONS(CUBLASLT_SLOT)
    char version_text[24]; /* "13.1.0" */
    char path[1024];
};
/**
 * cuBLASLt, which is opened once per process. Its version is chosen as that of NVRTC. If the driver is the
 * stand-in, only the stand-in's own cuBLASLt is taken. NULL if there is none, with the reason.
 */
const struct cuda_cublaslt *yokei_cuda_cublaslt(const struct cuda_library *cu, char *reason, size_t bytes);
/**
 * Make the handle of an opened device, or write to dev->lt_reason why matrix products are Yoke's own. The
 * context is current. This function never fails, because a device works without the library.
 */
void yokei_cuda_cublaslt_attach(yoke_device *device);
/** Release the handle and what belongs to it. The context is current, unless it is lost (`entered` false). */
void yokei_cuda_cublaslt_detach(yoke_device *device, bool entered);
/** For `yoke info`: the library, its version and its file, or why there is none. */
void yokei_cuda_cublaslt_text(const yoke_device *device, char *text, size_t bytes);

/* ---- products.c: the products of cuBLASLt ---- */
struct cuda_device;
struct cuda_trials; /* of epilogues; free() releases it */
struct cuda_trials *yokei_cuda_trials_create(void);
/** The library's half of backends/gpu/runtime/products.h. */
extern const struct yokei_product_calls yokei_cuda_product_calls;
extern const struct yokei_gpu_products yokei_cuda_products;

/* ---- bias.c: where an algorithm of cuBLASLt rounds ---- */
struct cuda_algorithm;
/**
 * Try whether an algorithm adds an f32 bias to a 16-bit product in f32, before the only rounding. NULL if so,
 * else the reason why Yoke does not use its epilogue. The context is current. The call waits for the trial.
 */
const char *yokei_cuda_bias_refused(const struct cuda_device *dev, yoke_dtype dtype, bool trans_a,
                                    bool trans_b, const struct cuda_algorithm *fields);

/* ---- algorithm.c: the fields of an algorithm of cuBLASLt ---- */
/** Everything that describes an algorithm. The numbers are those of NVIDIA's enumerations. */
struct cuda_algorithm {
    uint32_t algo, tile, stages, splitk, reduction, swizzle, custom, inner, cluster;
};
/** Write the fields as "algo=1,tile=2,...". yokei_cuda_algorithm_parse reads this form, in this order. */
void yokei_cuda_algorithm_text(const struct cuda_algorithm *fields, char *text, size_t bytes);
bool yokei_cuda_algorithm_parse(const char *text, struct cuda_algorithm *fields_out);
/** The fields of an algorithm of the library. */
cublasStatus_t yokei_cuda_algorithm_read(const struct cuda_cublaslt *lt, const cublasLtMatmulAlgo_t *algo,
                                         struct cuda_algorithm *fields_out);
/** The algorithm that has these fields, for products of this type. The library has not checked it yet. */
cublasStatus_t yokei_cuda_algorithm_make(const struct cuda_cublaslt *lt, cublasLtHandle_t handle,
                                         const struct cuda_algorithm *fields, cudaDataType_t in,
                                         cudaDataType_t out, cublasLtMatmulAlgo_t *algo_out);
/** The implementations that keep Yoke's contract for inputs of this type: CUBLASLT_NUMERICAL_IMPL_FLAGS_*. */
uint64_t yokei_cuda_algorithm_flags(yoke_dtype dtype);
/**
 * NULL if an algorithm computes as docs/NUMERICS.md says: sums in f32, partial sums in f32, the same bits in
 * every run. Otherwise the reason why Yoke does not use it.
 */
const char *yokei_cuda_algorithm_refused(const struct cuda_cublaslt *lt, const cublasLtMatmulAlgo_t *algo,
                                         const struct cuda_algorithm *fields, yoke_dtype dtype);

/* ---- compile.c: programs, and the kinds of binaries ---- */
/**
 * What decides a program's binary besides the program and its maker: the options of the compiler in
 * compile.c. Change the number when these options change.
 */
#define CUDA_IDENTITY "cuda|2"
/** The slots compile, maker and suits of struct yokei_gpu_driver. */
yoke_status yokei_cuda_compile(const yoke_device *device, const struct yokei_gpu_source *source,
                               void **blob_out, size_t *bytes_out);
void yokei_cuda_maker(const yoke_device *device, char *text, size_t bytes);
int yokei_cuda_suits(const yoke_device *device, const char *text);
/** Whether binaries of this maker run on devices of compute capability *cc, an int. */
bool yokei_cuda_maker_runs(const void *cc, const char *text);

/* ---- ahead.c: yoke compile ---- */
/** The slot ahead of struct yoke_device_extras: `target` is an architecture, such as "sm_90". */
yoke_status yokei_cuda_ahead(yoke_device *device, const char *target, struct yokei_ahead *ahead);

/* ---- the objects ---- */

struct cuda_device {
    struct yokei_rt rt;             /* the first member, see runtime.h */
    const struct cuda_library *cu;  /* NULL if the device only compiles */
    const struct cuda_nvrtc *nvrtc; /* NULL: there is none, and all programs come from the cache */
    const struct cuda_cublaslt *lt; /* NULL: gpu.products is NULL too, and lt_reason says why */
    cublasLtHandle_t lt_handle;
    struct cuda_trials *trials;
    char lt_reason[YOKE_REASON_BYTES];
    char f32_reason[256]; /* why the library may not multiply f32; "": it may */
    CUdevice id;
    CUcontext context;
    bool ptx_only;        /* nothing executes machine code, because the driver is the stand-in */
    int cc;               /* compute capability: 90 is 9.0 */
    atomic_bool said_ptx; /* the line about PTX instead of machine code was logged */
};
static inline struct cuda_device *cuda_device(const yoke_device *device) { return device->impl; }

/* ---- calls.c ---- */
/** The driver's calls for backends/gpu/runtime. */
extern const struct yokei_rt_calls yokei_cuda_calls;
/** Whether no call on a context succeeds any more after this error. */
bool yokei_cuda_is_fatal(CUresult error);

/* ---- program.c ---- */
/** The slot load of struct yokei_rt_calls. */
yoke_status yokei_cuda_load(const yoke_device *device, const void *binary, size_t bytes, void **module_out);
extern const struct yokei_gpu_driver yokei_cuda_driver;

#endif

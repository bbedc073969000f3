/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke, base: status codes, the error text, the log, data types.
 *
 * Conventions that hold for the whole library:
 *  - Functions return a yoke_status; 0 is success. Outputs come last, are named *_out, and are written on success only.
 *  - The text of the last error of the calling thread is yoke_last_error(): what failed, where, why, what to do.
 *  - Public structs begin with `size`, so that they can grow, and have an initialiser macro that sets it: struct yoke_x has YOKE_X_INIT,
 *    the arguments of an op have YOKE_ARGS. Where a call fills a struct in, the call sets `size`. Structs that say "plain value" have no
 *    `size` and never grow, because they are elements of arrays.
 *  - The headers are C11 and C++11. In C++ the macros of initialisers are expressions: yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
 *    and YOKE_ARGS takes the name of the op alone, since C++ before 2020 cannot name fields: yoke_gemm_args args = YOKE_ARGS(gemm);
 *    then args.M = M; and so on. yoke::sized<yoke_gemm_args>() is the same.
 *  - Threads: the error text is each thread's own. Functions of this header may be called from any thread at any time.
 *  - Who creates an object destroys it. Destroying a parent with live children is YOKE_EBUSY and changes nothing.
 *  - The library never prints, exits or aborts.
 */
#ifndef YOKE_BASE_H
#define YOKE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_VERSION_MAJOR 0
#define YOKE_VERSION_MINOR 1
#define YOKE_VERSION_PATCH 0

#if defined(__GNUC__)
#define YOKE_PRINTF(fmt_index, first) __attribute__((format(printf, fmt_index, first)))
#else
#define YOKE_PRINTF(fmt_index, first)
#endif

/** What a call came to. The command's exit codes are derived from these by one table (yoke_status_exit_code). */
typedef enum yoke_status {
    YOKE_OK = 0,
    YOKE_EINVAL,       /* an argument is wrong: shape, range, null, alias, size of a struct */
    YOKE_EUNSUPPORTED, /* this device, type or shape is not offered; nothing was done */
    YOKE_ENOMEM,       /* host or device memory, or the stream's scratch, is too small */
    YOKE_EBUSY,        /* the object still has children or work in flight; nothing was changed */
    YOKE_ENODEV,       /* no such device or backend; the text lists those that are there */
    YOKE_EBACKEND,     /* the vendor's driver or library reported an error; its text is quoted */
    YOKE_ECOMPILE,     /* a device program did not compile; the compiler's log is quoted */
    YOKE_EIO,          /* a file could not be read or written (full disk included) */
    YOKE_EDATA,        /* a data file or checkpoint is missing, truncated or corrupt; a message was damaged, lost or doubled */
    YOKE_ECONFIG,      /* a configuration or plan is wrong */
    YOKE_EMISMATCH,    /* ranks called different collectives, or were configured differently */
    YOKE_ETIMEOUT,     /* a rank made no progress, or did not call, in the stated time */
    YOKE_EDEAD,        /* a rank died or was stopped */
    YOKE_EABORTED,     /* the communicator was aborted, by this rank or another */
    YOKE_ENUMERIC,     /* NaN or infinity where there must be none */
    YOKE_EREGRESSED,   /* a benchmark is slower than its baseline allows */
    YOKE_EPREEMPTED,   /* asked to stop; a checkpoint was saved */
    YOKE_EINTERNAL,    /* a fault of Yoke's own: please report it with the text */
    YOKE_N_STATUS
} yoke_status;

/** The name of a status ("YOKE_EINVAL") and one line of what it means; never NULL, also for values out of range. */
const char *yoke_status_name(yoke_status status);
const char *yoke_status_text(yoke_status status);

/** The exit code of the `yoke` command for a status (0 ok, 1 internal, 2 usage, 10 config, 11 data, 12 device, …). */
int yoke_status_exit_code(yoke_status status);

/** The text of the last error of the calling thread; "" when there was none. Valid until the thread's next error. */
const char *yoke_last_error(void);

/**
 * Record an error where its cause is known, and return its status.
 * For authors of layers, backends and programs on top of Yoke; callers above pass the status on with YOKE_TRY.
 */
yoke_status yoke_fail(yoke_status status, const char *format, ...) YOKE_PRINTF(2, 3);

/** Put "context: " in front of the calling thread's error text, and return `status` unchanged. */
yoke_status yoke_fail_context(yoke_status status, const char *format, ...) YOKE_PRINTF(2, 3);

/** Return from the calling function, or go to `label` with `status_` set, when `x` is not success. */
#define YOKE_TRY(x)                                   \
    do {                                              \
        yoke_status yoke_try_status_ = (x);           \
        if (yoke_try_status_) return yoke_try_status_; \
    } while (0)
#define YOKE_TRY_GOTO(x, label)      \
    do {                             \
        status = (x);                \
        if (status) goto label;      \
    } while (0)

/** Log levels, and the callback that receives what is logged. No callback is installed at start: nothing is shown. */
typedef enum yoke_log_level { YOKE_LOG_ERROR, YOKE_LOG_WARN, YOKE_LOG_INFO, YOKE_LOG_DEBUG } yoke_log_level;
typedef void (*yoke_log_function)(void *context, yoke_log_level level, const char *text);
/** Install the process's log callback (NULL removes it). It may be called from any thread, not re-entrantly. */
void yoke_log_set(yoke_log_function function, void *context, yoke_log_level most);
void yoke_log(yoke_log_level level, const char *format, ...) YOKE_PRINTF(2, 3);

/** Types of elements. f64 is stored by the reference backend and the collectives only. */
typedef enum yoke_dtype {
    YOKE_F32 = 0,
    YOKE_F16,
    YOKE_BF16,
    YOKE_F64,
    YOKE_I32,
    YOKE_I64,
    YOKE_I8,
    YOKE_U8,
    YOKE_N_DTYPES
} yoke_dtype;

/** Bytes of one element; 0 for a value out of range. */
size_t yoke_dtype_bytes(yoke_dtype dtype);
/** "f32", "bf16", …; "?" for a value out of range. */
const char *yoke_dtype_name(yoke_dtype dtype);
/** The type called `name`: "f32", "f16", "bf16", "f64", "i32", "i64", "i8", "u8" (also "fp32", "fp16"). YOKE_EINVAL. */
yoke_status yoke_dtype_parse(const char *name, yoke_dtype *dtype_out);
/** The type of statistics, sums and vectors that go with data of `dtype`: f32, and f64 for f64. */
static inline yoke_dtype yoke_dtype_wide(yoke_dtype dtype) { return dtype == YOKE_F64 ? YOKE_F64 : YOKE_F32; }

/** Conversion of `n` elements between any two of f32, f16, bf16, f64 in host memory; round to nearest even, NaN stays NaN. */
void yoke_convert(yoke_dtype from, const void *source, yoke_dtype to, void *target, size_t n);

/** "0.1.0" of the library that is linked. */
const char *yoke_version(void);

#ifdef __cplusplus
}

namespace yoke {
/** A public struct of zeros, which stand for the defaults, whose `size` is set. */
template <typename T> inline T sized()
{
    T value = T();
    value.size = sizeof(T);
    return value;
}
}
#define YOKE_SIZED(type) (::yoke::sized<struct type>())
#else
/** What the initialisers of structs expand to in which zero is the default of every field. */
#define YOKE_SIZED(type) { .size = sizeof(struct type) }
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke, base: status codes, the error text, the log, and data types.
 *
 * Conventions that hold for the whole library:
 *  - Functions return a yoke_status, and 0 is success. Output parameters come last and are named *_out. A
 *    function writes them on success only.
 *  - yoke_last_error() gives the text of the calling thread's last error. The text says what failed, where,
 *    why, and what to do.
 *  - A public struct begins with the field `size`, so that the struct can grow. An initialiser macro sets
 *    `size`: struct yoke_x has YOKE_X_INIT, and the arguments of an op (an operation on device memory, such
 *    as gemm) have YOKE_ARGS. If a call fills in a struct, the call sets `size`.
 *  - A struct whose comment says "plain value" has no `size` and never grows, because it is an element of
 *    arrays.
 *  - The headers are valid C11 and C++11. In C++ the initialiser macros are expressions: yoke_comm_config
 *    config = YOKE_COMM_CONFIG_INIT;
 *  - In C++, YOKE_ARGS takes the name of the op alone, because C++ before 2020 cannot name fields. Write
 *    yoke_gemm_args args = YOKE_ARGS(gemm); then args.M = M; and so on. yoke::sized<yoke_gemm_args>() gives
 *    the same value.
 *  - Threads: each thread has its own error text. Any thread may call the functions of this header at any
 *    time.
 *  - The code that creates an object also destroys it. Destroying an object that still has children fails
 *    with YOKE_EBUSY and changes nothing.
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

/** The result of a call. yoke_status_exit_code turns it into the exit code of the command, by one table. */
typedef enum yoke_status {
    YOKE_OK = 0,
    /* an argument is wrong: a shape, a range, a NULL pointer, an alias, or the size of a struct */
    YOKE_EINVAL,
    YOKE_EUNSUPPORTED, /* this device does not offer this type or shape; nothing was done */
    YOKE_ENOMEM,       /* host or device memory, or the stream's scratch, is too small */
    YOKE_EBUSY,        /* the object still has children, or work that has not ended; nothing was changed */
    YOKE_ENODEV,       /* no such device or backend; the error text lists the available ones */
    YOKE_EBACKEND,     /* the vendor's driver or library reported an error; the error text quotes it */
    YOKE_ECOMPILE,     /* a device program did not compile; the error text quotes the compiler's log */
    YOKE_EIO,          /* a file could not be read or written, for example because the disk is full */
    /* a data file or checkpoint is missing, truncated or corrupt; a message was damaged, lost or doubled */
    YOKE_EDATA,
    YOKE_ECONFIG,    /* a configuration or plan is wrong */
    YOKE_EMISMATCH,  /* the ranks called different collectives, or have different configurations */
    YOKE_ETIMEOUT,   /* a rank made no progress, or did not call, within the stated time */
    YOKE_EDEAD,      /* a rank died or was stopped */
    YOKE_EABORTED,   /* this rank or another one aborted the communicator */
    YOKE_ENUMERIC,   /* NaN or infinity where neither is allowed */
    YOKE_EREGRESSED, /* a benchmark is slower than its baseline allows */
    YOKE_EPREEMPTED, /* the process was asked to stop; a checkpoint was saved */
    YOKE_EINTERNAL,  /* an error in Yoke itself; please report it with the error text */
    YOKE_N_STATUS
} yoke_status;

/**
 * The name of a status ("YOKE_EINVAL"), and one line that says what it means. Neither is ever NULL, not even
 * for values out of range.
 */
const char *yoke_status_name(yoke_status status);
const char *yoke_status_text(yoke_status status);

/**
 * The `yoke` command's exit code for a status: 0 ok, 1 internal, 2 usage, 10 config, 11 data, 12 device, …
 */
int yoke_status_exit_code(yoke_status status);

/**
 * The text of the calling thread's last error, or "" if there was none. It is valid until the thread's next
 * error.
 */
const char *yoke_last_error(void);

/**
 * Record an error where its cause is known, and return its status. This function is for authors of layers,
 * backends and programs on top of Yoke. Callers further up pass the status on with YOKE_TRY.
 */
yoke_status yoke_fail(yoke_status status, const char *format, ...) YOKE_PRINTF(2, 3);

/** Put "context: " in front of the calling thread's error text, and return `status` unchanged. */
yoke_status yoke_fail_context(yoke_status status, const char *format, ...) YOKE_PRINTF(2, 3);

/**
 * If `x` is not success: YOKE_TRY returns from the calling function, and YOKE_TRY_GOTO sets the variable
 * `status` and goes to `label`.
 */
#define YOKE_TRY(x)                                    \
    do {                                               \
        yoke_status yoke_try_status_ = (x);            \
        if (yoke_try_status_) return yoke_try_status_; \
    } while (0)
#define YOKE_TRY_GOTO(x, label) \
    do {                        \
        status = (x);           \
        if (status) goto label; \
    } while (0)

/**
 * Log levels, and the callback that receives the log messages. At start no callback is installed, so nothing
 * is shown.
 */
typedef enum yoke_log_level { YOKE_LOG_ERROR, YOKE_LOG_WARN, YOKE_LOG_INFO, YOKE_LOG_DEBUG } yoke_log_level;
typedef void (*yoke_log_function)(void *context, yoke_log_level level, const char *text);
/**
 * Install the process's log callback; NULL removes it. The callback receives messages of the levels up to
 * `most`. Any thread may call the callback, but never two at once. The callback must not call yoke_log or
 * yoke_log_set.
 */
void yoke_log_set(yoke_log_function function, void *context, yoke_log_level most);
void yoke_log(yoke_log_level level, const char *format, ...) YOKE_PRINTF(2, 3);

/** Types of elements. Only the reference backend and the collectives store f64. */
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

/** The number of bytes of one element, or 0 for a value out of range. */
size_t yoke_dtype_bytes(yoke_dtype dtype);
/** The name of a type: "f32", "bf16", …; "?" for a value out of range. */
const char *yoke_dtype_name(yoke_dtype dtype);
/**
 * The type with this name: "f32", "f16", "bf16", "f64", "i32", "i64", "i8" or "u8" (also "fp32" and "fp16").
 * Errors: YOKE_EINVAL.
 */
yoke_status yoke_dtype_parse(const char *name, yoke_dtype *dtype_out);
/**
 * The type of the statistics, sums and vectors that go with data of type `dtype`: f64 for f64, and f32 for
 * all others.
 */
static inline yoke_dtype yoke_dtype_wide(yoke_dtype dtype) { return dtype == YOKE_F64 ? YOKE_F64 : YOKE_F32; }

/**
 * Convert `n` elements in host memory between any two of f32, f16, bf16 and f64. Values are rounded to
 * nearest even, and NaN stays NaN.
 */
void yoke_convert(yoke_dtype from, const void *source, yoke_dtype to, void *target, size_t n);

/** The version of the library that is linked, such as "0.1.0". */
const char *yoke_version(void);

#ifdef __cplusplus
}

namespace yoke
{
/** A public struct with `size` set. All other fields are zero, which stands for their defaults. */
template <typename T> inline T sized()
{
    T value = T();
    value.size = sizeof(T);
    return value;
}
}
#define YOKE_SIZED(type) (::yoke::sized<struct type>())
#else
/** The initialiser of a struct in which zero is the default of every field. */
/* clang-format off */
#define YOKE_SIZED(type) { .size = sizeof(struct type) }
/* clang-format on */
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the stand-in CUDA driver. The driver reads the environment once, so each case runs in a
 * process of its own, which opens the library from the build folder.
 */
#ifndef TESTS_UNIT_EMULATE_CUDA_H
#define TESTS_UNIT_EMULATE_CUDA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulate/cuda/api.h"
#include "emulate/cuda/emulate.h"
#include "emulate/cuda/ptx.h"

#define DECLARE(name, version, symbol) __typeof__(symbol) *symbol;
static struct {
    EMULATE_CALLS(DECLARE)
    __typeof__(yoke_emulate_annotate) *annotate;
    __typeof__(yoke_emulate_annotate_async) *annotate_async;
    __typeof__(yoke_emulate_begin) *begin;
    __typeof__(yoke_emulate_end) *end;
    __typeof__(yoke_emulate_name) *name;
    __typeof__(yoke_emulate_last_fault) *last_fault;
    __typeof__(yoke_emulate_counts) *counts;
    __typeof__(yoke_emulate_channel) *channel;
} cu;
#undef DECLARE

/* End the process of a case that fails. */
#define CHECK(condition)                                                 \
    do {                                                                 \
        if (!(condition)) {                                              \
            printf("# %s:%d: not %s\n", __FILE__, __LINE__, #condition); \
            fflush(stdout);                                              \
            _exit(1);                                                    \
        }                                                                \
    } while (0)
/* Check the result of a call. */
#define GIVES(wanted, call)                                                                       \
    do {                                                                                          \
        const int result_ = (call);                                                               \
        if (result_ != (wanted)) {                                                                \
            printf("# %s:%d: %s gave %d, not %s\n", __FILE__, __LINE__, #call, result_, #wanted); \
            fflush(stdout);                                                                       \
            _exit(1);                                                                             \
        }                                                                                         \
    } while (0)
#define OK(call) GIVES(CUDA_SUCCESS, call)

static inline void *load_symbol(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol) printf("# the library has no %s\n", name);
    CHECK(symbol);
    return symbol;
}

static inline void load_library(void)
{
    const char *path = getenv("YOKE_EMULATE_LIBRARY");
    void *library = dlopen(path ? path : "emulate/cuda/.libs/libcuda-emulated.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) printf("# %s\n", dlerror());
    CHECK(library);
#define LOAD(name, version, symbol)               \
    do {                                          \
        void *at = load_symbol(library, #symbol); \
        memcpy(&cu.symbol, &at, sizeof at);       \
    } while (0);
    EMULATE_CALLS(LOAD)
#undef LOAD
    static const char *const own[] = { "yoke_emulate_annotate", "yoke_emulate_annotate_async",
                                       "yoke_emulate_name",     "yoke_emulate_last_fault",
                                       "yoke_emulate_counts",   "yoke_emulate_begin",
                                       "yoke_emulate_end",      "yoke_emulate_channel" };
    void **to[] = { (void **)&cu.annotate,   (void **)&cu.annotate_async, (void **)&cu.name,
                    (void **)&cu.last_fault, (void **)&cu.counts,         (void **)&cu.begin,
                    (void **)&cu.end,        (void **)&cu.channel };
    for (int i = 0; i < 8; i++) *to[i] = load_symbol(library, own[i]);
}

/*
 * Run `body` in a child process with these variables ("NAME=VALUE NAME=VALUE"). Returns the status of
 * waitpid. Without YOKE_EMULATE_LOG the messages go to /dev/null.
 */
static inline int run_status(const char *variables, void (*body)(void))
{
    fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        char text[512], *rest = text;
        setenv("YOKE_EMULATE", "cuda:9.0", 1);
        setenv("YOKE_EMULATE_LOG", "/dev/null", 1);
        unsetenv("YOKE_EMULATE_LEAKS"); /* many cases end without freeing what they test */
        snprintf(text, sizeof text, "%s", variables);
        for (char *word; (word = strsep(&rest, " "));)
            if (*word) putenv(strdup(word));
        load_library();
        body();
        fflush(stdout);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static inline void run_case(const char *variables, void (*body)(void))
{
    const int status = run_status(variables, body);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("the case with '%s' ended with status 0x%x", variables, (unsigned)status);
}

/* Initialise, and make the primary context of a device current. */
static inline CUcontext start(int device)
{
    CUcontext context;
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, device));
    OK(cu.cuCtxSetCurrent(context));
    return context;
}

/* add_one(p, n) adds 1 to n words; copy_words(to, from, n); spin() never ends. */
#define KERNEL_HEAD(name)                                                                   \
    ".visible .entry " name "\n{\n.reg .pred %p<3>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n" \
    "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"                 \
    "mad.lo.s32 %r4, %r1, %r2, %r3;\nmul.wide.s32 %rd1, %r4, 4;\n"
static const char program[] = ".version 8.0\n.target sm_75\n.address_size 64\n" KERNEL_HEAD(
    "add_one(\n.param .u64 add_one_param_0,\n.param .u32 add_one_param_1\n)") "ld.param.u64 %rd2, [add_one_param_0];\nld.param.u32 %r5, [add_one_param_1];\n"
                                                                              "setp.ge.s32 %p1, %r4, %r5;\n@%p1 bra DONE;\n"
                                                                              "cvta.to.global.u64 %rd3, %rd2;\nadd.s64 %rd4, %rd3, %rd1;\n"
                                                                              "ld.global.u32 %r6, [%rd4];\nadd.s32 %r7, %r6, 1;\nst.global.u32 [%rd4], %r7;\n"
                                                                              "DONE:\nret;\n}\n" KERNEL_HEAD(
                                                                                  "copy_words(\n.param .u64 copy_words_param_0,\n.param .u64 copy_words_param_1,\n"
                                                                                  ".param .u32 copy_words_param_2\n)") "ld.param.u64 %rd2, [copy_words_param_0];\nld.param.u64 %rd3, [copy_words_param_1];\n"
                                                                                                                       "ld.param.u32 %r5, [copy_words_param_2];\nsetp.ge.s32 %p1, %r4, %r5;\n@%p1 bra DONE;\n"
                                                                                                                       "cvta.to.global.u64 %rd4, %rd2;\ncvta.to.global.u64 %rd5, %rd3;\n"
                                                                                                                       "add.s64 %rd6, %rd4, %rd1;\nadd.s64 %rd7, %rd5, %rd1;\n"
                                                                                                                       "ld.global.u32 %r6, [%rd7];\nst.global.u32 [%rd6], %r6;\n"
                                                                                                                       "DONE:\nret;\n}\n"
                                                                                                                       ".visible .entry spin()\n{\n.reg .b32 %r<3>;\nmov.u32 %r1, 0;\n"
                                                                                                                       "AGAIN:\nadd.s32 %r1, %r1, 1;\nbra AGAIN;\n}\n";

static inline CUfunction kernel(const char *name)
{
    CUmodule module;
    CUfunction function;
    OK(cu.cuModuleLoadData(&module, program));
    OK(cu.cuModuleGetFunction(&function, module, name));
    return function;
}

/* Launch add_one on n words, in blocks of 64. */
static inline CUresult add_one(CUfunction function, CUdeviceptr words, int n, CUstream stream)
{
    void *parameters[] = { &words, &n };
    return cu.cuLaunchKernel(function, (unsigned)(n + 63) / 64, 1, 1, 64, 1, 1, 0, stream, parameters, NULL);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the stand-in libamdhip64. The driver reads the environment once, so each case runs in a
 * process of its own. Its kernels are functions in C, see emulate_hip_toy.c.
 */
#ifndef TESTS_UNIT_EMULATE_HIP_H
#define TESTS_UNIT_EMULATE_HIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulate/gpu/emulate.h"
#include "emulate/gpu/kernel.h"
#include "emulate/hip/api.h"

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
        const int result_ = (int)(call);                                                          \
        if (result_ != (int)(wanted)) {                                                           \
            printf("# %s:%d: %s gave %d, not %s\n", __FILE__, __LINE__, #call, result_, #wanted); \
            fflush(stdout);                                                                       \
            _exit(1);                                                                             \
        }                                                                                         \
    } while (0)
#define OK(call) GIVES(hipSuccess, call)

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
        setenv("YOKE_EMULATE", "hip:gfx942", 1);
        setenv("YOKE_EMULATE_LOG", "/dev/null", 1);
        unsetenv("YOKE_EMULATE_LEAKS"); /* many cases end without freeing what they test */
        snprintf(text, sizeof text, "%s", variables);
        for (char *word; (word = strsep(&rest, " "));)
            if (*word) putenv(strdup(word));
        body();
        exit(0);
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

/*
 * add_one(p, n) adds 1 to n words; copy_words(to, from, n); spin() never ends; large() has 40 KiB of LDS.
 */
static const char program[] = "toy gfx942 add_one copy_words spin large";

static inline hipFunction_t kernel(const char *name)
{
    hipModule_t module;
    hipFunction_t function;
    OK(hipModuleLoadData(&module, program));
    OK(hipModuleGetFunction(&function, module, name));
    return function;
}

/* Launch add_one on n words, in blocks of 64. */
static inline hipError_t add_one(hipFunction_t function, void *words, int n, hipStream_t stream)
{
    void *parameters[] = { &words, &n };
    return hipModuleLaunchKernel(function, (unsigned)(n + 63) / 64, 1, 1, 64, 1, 1, 0, stream, parameters,
                                 NULL);
}

#endif

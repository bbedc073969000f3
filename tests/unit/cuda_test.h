/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers for tests of the CUDA backend: they run on the stand-in driver, and skip where NVRTC is not
 * installed. The driver reads its variables once per process, so a test that needs other variables runs in a
 * child process.
 */
#ifndef TESTS_UNIT_CUDA_TEST_H
#define TESTS_UNIT_CUDA_TEST_H

#include "tests/unit/test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"

/** Open cuda:0, or return NULL where NVRTC is not installed. */
static inline yoke_device *cuda_open_with(const struct yoke_device_config *config)
{
    yoke_device *device = NULL;
    const yoke_status status = yoke_device_open("cuda:0", config, &device);
    if (status == YOKE_ENODEV && strstr(yoke_last_error(), "NVRTC")) return NULL;
    assert_ok(status);
    return device;
}

static inline yoke_device *cuda_open(void) { return cuda_open_with(NULL); }

/** Open the device `device`, or skip the test. */
#define CUDA_OPEN(device)                                    \
    yoke_device *device = cuda_open();                       \
    if (!device) {                                           \
        print_message("no device: %s\n", yoke_last_error()); \
        skip();                                              \
    }

/**
 * Run a test in a child process, in which a variable has this value. Only the first test of a program that
 * opens a device in the program's own process may come after all calls of this function. The child returns
 * NULL if the test passed, or the text of what was wrong. The test skips if the text begins with "skip".
 */
static inline void cuda_in_child(const char *variable, const char *value, const char *(*test)(void))
{
    int ends[2];
    char text[1500] = "";
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        setenv(variable, value, 1);
        const char *wrong = test();
        dprintf(ends[1], "%s", wrong ? wrong : "passed");
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; n < sizeof text - 1 && (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    close(ends[0]);
    int end = 0;
    assert_true(waitpid(pid, &end, 0) == pid);
    if (!strncmp(text, "skip", 4)) {
        print_message("%s\n", text);
        skip();
    }
    if (strcmp(text, "passed") != 0)
        fail_msg("with %s=%s: %s (end of the process: %d)", variable, value, *text ? text : "it died", end);
}

/** In a child: return the text of what is wrong. */
#define WANT(condition)                                                                                  \
    do {                                                                                                 \
        static char wrong_[1400];                                                                        \
        if (!(condition)) {                                                                              \
            snprintf(wrong_, sizeof wrong_, "line %d: %s: %s", __LINE__, #condition, yoke_last_error()); \
            return wrong_;                                                                               \
        }                                                                                                \
    } while (0)

#endif

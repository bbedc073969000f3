/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into the command: on the rank whose number is in WIDE_NORM_RANK, the kernels of the layer norm
 * are wrong for rows of more than 512 columns. The error is in the text of the kernel, so it reaches each
 * device through the device's own compiler. The host backend has no such text, and no error.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/gpu/driver.h"
#include "backends/gpu/launch.h"

typedef yoke_status make_function(const struct yokei_gpu_program *, enum yokei_gpu_language, bool, int, bool,
                                  struct yokei_gpu_source *);

/* A copy of `text` in which each `find` is `by`. NULL: `find` does not occur. */
static char *replaced(const char *text, const char *find, const char *by)
{
    size_t bytes = strlen(text) + 1;
    for (const char *at = text; (at = strstr(at, find)); at += strlen(find)) bytes += strlen(by);
    if (bytes == strlen(text) + 1) return NULL;
    char *out = calloc(1, bytes), *to = out;
    if (!out) abort();
    for (const char *at; (at = strstr(text, find)); text = at + strlen(find)) {
        memcpy(to, text, (size_t)(at - text));
        to += at - text;
        strcpy(to, by);
        to += strlen(by);
    }
    strcpy(to, text);
    return out;
}

yoke_status yokei_gpu_source_make(const struct yokei_gpu_program *program, enum yokei_gpu_language language,
                                  bool is_cpu, int warp, bool offsets, struct yokei_gpu_source *source_out)
{
    make_function *own = (make_function *)(uintptr_t)dlsym(RTLD_NEXT, "yokei_gpu_source_make");
    const yoke_status status = own(program, language, is_cpu, warp, offsets, source_out);
    const char *rank = getenv("PMI_RANK"), *wrong_rank = getenv("WIDE_NORM_RANK");
    if (status || !rank || !wrong_rank || strcmp(rank, wrong_rank) != 0
        || strcmp(program->family, "norm") != 0)
        return status;
    char *wrong = replaced(source_out->text, "(float)C + eps)", "(float)C + (C > 512 ? 1e-2f : eps))");
    if (!wrong) {
        fprintf(stderr, "wide_norm: the text of the layer norm has changed, and no error was planted\n");
        _exit(99);
    }
    free((char *)(uintptr_t)source_out->text);
    source_out->text = wrong;
    return YOKE_OK;
}

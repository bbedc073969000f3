/* SPDX-License-Identifier: Apache-2.0 */
/** Makes the three strings of a program: options, prelude and text (see driver.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/launch.h"
#include "backends/gpu/texts.h"

/* The text of kernels/<family>.yk, or NULL if there is none. */
static const char *text_of(const char *family)
{
/* clang-format off */
#define TEXT(name) { #name, yokei_yk_kernels_##name },
    /* clang-format on */
    static const struct {
        const char *family, *text;
    } texts[] = { YOKEI_GPU_TEXTS(TEXT) };
#undef TEXT
    for (size_t i = 0; i < YOKE_COUNT(texts); i++)
        if (!strcmp(texts[i].family, family)) return texts[i].text;
    return NULL;
}

static int dtype_number(yoke_dtype dtype) { return dtype == YOKE_F32 ? 0 : dtype == YOKE_F16 ? 1 : 2; }

/*
 * The "#define" lines of a program for a device with these properties. The compile tests use this function
 * too.
 */
static void program_options(const struct yokei_gpu_program *program, bool is_cpu, int warp, bool offsets,
                            char *text, size_t bytes)
{
    int n = snprintf(
        text, bytes,
        "#define YK_DTYPE %d\n#define YK_OUT_DTYPE %d\n#define YK_L %d\n#define YK_W %d\n#define YK_G %d\n"
        "#define YK_CPU %d\n#define YK_WARP %d\n#define YK_OFFSETS %d\n",
        dtype_number(program->dtype), dtype_number(program->out_dtype), program->L, program->W, program->G,
        is_cpu, warp, offsets);
    for (int i = 0; i < YOKEI_GPU_MAX_DEFINES && program->defines[i].name && n >= 0 && (size_t)n < bytes; i++)
        n += snprintf(text + n, bytes - (size_t)n, "#define %s %d\n", program->defines[i].name,
                      program->defines[i].value);
}

#define LINE(path) "#line 1 \"backends/gpu/" path "\"\n"

/** Concatenate the pieces of a NULL-terminated list. */
static char *concatenate(const char *const pieces[])
{
    size_t bytes = 1;
    for (int i = 0; pieces[i]; i++) bytes += strlen(pieces[i]);
    char *text = malloc(bytes), *at = text;
    if (!text) return NULL;
    for (int i = 0; pieces[i]; i++) {
        size_t n = strlen(pieces[i]);
        memcpy(at, pieces[i], n);
        at += n;
    }
    *at = '\0';
    return text;
}

static char *make_prelude(enum yokei_gpu_language language)
{
    const char *const opencl[] = { LINE("prelude/opencl.yk"),
                                   yokei_yk_prelude_opencl,
                                   LINE("prelude/common.yk"),
                                   yokei_yk_prelude_common,
                                   LINE("prelude/tile.yk"),
                                   yokei_yk_prelude_tile,
                                   NULL };
    const char *const cuda[] = { LINE("prelude/cuda.yk"),
                                 yokei_yk_prelude_cuda,
                                 LINE("prelude/simt.yk"),
                                 yokei_yk_prelude_simt,
                                 LINE("prelude/common.yk"),
                                 yokei_yk_prelude_common,
                                 LINE("prelude/tile.yk"),
                                 yokei_yk_prelude_tile,
                                 LINE("prelude/mma.yk"),
                                 yokei_yk_prelude_mma,
                                 NULL };
    const char *const hip[] = { LINE("prelude/hip.yk"),  yokei_yk_prelude_hip,      LINE("prelude/simt.yk"),
                                yokei_yk_prelude_simt,   LINE("prelude/common.yk"), yokei_yk_prelude_common,
                                LINE("prelude/tile.yk"), yokei_yk_prelude_tile,     NULL };
    return concatenate(language == YOKEI_GPU_OPENCL ? opencl : language == YOKEI_GPU_CUDA ? cuda : hip);
}

/* The text of the family's file, and of the files of its bodies. */
static char *make_text(const char *family)
{
    static const char *const bodies[] = { "", "_tile", "_team", "_mma" };
    const char *pieces[2 * YOKE_COUNT(bodies) + 1] = { NULL };
    char names[YOKE_COUNT(bodies)][64], lines[YOKE_COUNT(bodies)][320];
    int n = 0;
    for (size_t i = 0; i < YOKE_COUNT(bodies); i++) {
        snprintf(names[i], sizeof names[i], "%s%s", family, bodies[i]);
        const char *text = text_of(names[i]);
        if (!text) continue;
        snprintf(lines[i], sizeof lines[i], LINE("kernels/%s.yk"), names[i]);
        pieces[n++] = lines[i];
        pieces[n++] = text;
    }
    return concatenate(pieces);
}

yoke_status yokei_gpu_source_make(const struct yokei_gpu_program *program, enum yokei_gpu_language language,
                                  bool is_cpu, int warp, bool offsets, struct yokei_gpu_source *source_out)
{
    if (!text_of(program->family))
        return yoke_fail(YOKE_EINTERNAL, "program %s: there is no kernels/%s.yk in this build",
                         program->family, program->family);
    char options[1024];
    program_options(program, is_cpu, warp, offsets, options, sizeof options);
    char *prelude = make_prelude(language);
    char *text = make_text(program->family);
    char *option_lines = strdup(options);
    if (!prelude || !text || !option_lines) {
        free(prelude);
        free(text);
        free(option_lines);
        return yoke_fail(YOKE_ENOMEM, "program %s: no host memory for its text", program->family);
    }
    *source_out = (struct yokei_gpu_source){ program->family, prelude, option_lines, text };
    return YOKE_OK;
}

void yokei_gpu_source_free(struct yokei_gpu_source *source)
{
    free((char *)source->prelude);
    free((char *)source->options);
    free((char *)source->text);
    *source = (struct yokei_gpu_source){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/rtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *rtc_program;
static struct {
    int (*create)(rtc_program *program, const char *source, const char *name, int n_headers,
                  const char *const *headers, const char *const *header_names);
    int (*compile)(rtc_program program, int n_options, const char *const *options);
    int (*log_size)(rtc_program program, size_t *bytes);
    int (*log)(rtc_program program, char *log);
    int (*destroy)(rtc_program *program);
} rtc;

static bool open_compiler(const struct rtc_compiler *compiler, char *reason, size_t bytes)
{
    const char *const names[] = { "CreateProgram", "CompileProgram", "GetProgramLogSize", "GetProgramLog",
                                  "DestroyProgram" };
    void *const slots[] = { &rtc.create, &rtc.compile, &rtc.log_size, &rtc.log, &rtc.destroy };
    char full[YOKE_COUNT(names)][64];
    struct yokei_symbol symbols[YOKE_COUNT(names)];
    for (size_t i = 0; i < YOKE_COUNT(names); i++) {
        snprintf(full[i], sizeof full[i], "%s%s", compiler->prefix, names[i]);
        symbols[i] = (struct yokei_symbol){ full[i], slots[i] };
    }
    return yokei_dl_open(compiler->libraries, symbols, YOKE_COUNT(symbols), reason, bytes) != NULL;
}

/** Compile the three strings of a program. The compiler's log, to be freed, comes back whatever happened. */
static bool compile(const struct rtc_compiler *compiler, const struct rtc_target *target,
                    const struct yokei_gpu_source *source, const char *extra, char **log_out)
{
    size_t bytes = strlen(source->options) + strlen(source->prelude) + strlen(source->text) + strlen(extra)
                   + 1;
    char *text = malloc(bytes);
    const char *options[16];
    int n = 0;
    options[n++] = target->option;
    for (const char *const *o = compiler->options; *o; o++) options[n++] = *o;
    *log_out = NULL;
    if (!text) return false;
    snprintf(text, bytes, "%s%s%s%s", source->options, source->prelude, source->text, extra);
    rtc_program program = NULL;
    bool good = rtc.create(&program, text, source->name, 0, NULL, NULL) == 0;
    if (good) {
        good = rtc.compile(program, n, options) == 0;
        size_t log_bytes = 0;
        if (rtc.log_size(program, &log_bytes) == 0 && log_bytes > 1 && (*log_out = calloc(1, log_bytes + 1)))
            rtc.log(program, *log_out);
        rtc.destroy(&program);
    }
    free(text);
    return good;
}

static void quote(const char *log, int lines)
{
    for (; log && *log && lines > 0; lines--) {
        int length = (int)strcspn(log, "\n");
        printf("# %.*s\n", length, log);
        log += length + (log[length] == '\n');
    }
}

/* The families of which a program was compiled, for any target. */
static struct {
    const char *names[64];
    int n;
} compiled;

static bool is_compiled(const char *family)
{
    for (int i = 0; i < compiled.n; i++)
        if (!strcmp(compiled.names[i], family)) return true;
    return false;
}

/** All programs of one family that this run samples; `index` is where it begins in the catalogue, and gets
 * where it ends. Without a program there is no line. */
static void check_family(const struct rtc_compiler *compiler, const struct rtc_target *target, int *index,
                         int sample, int *number)
{
    struct yokei_gpu_program program;
    yokei_gpu_catalog(*index, false, target->warp, &program);
    const char *family = program.family;
    int n = 0, bad = 0;
    const uint64_t start = yokei_now_ns();
    /* missed by the samples of all earlier targets */
    const bool is_missed = !target[1].name && !is_compiled(family);
    for (; yokei_gpu_catalog(*index, false, target->warp, &program) && !strcmp(program.family, family);
         ++*index) {
        const bool is_sampled = (*index + 2 * (int)(target - compiler->targets)) % sample == 0;
        if (!is_sampled && !(is_missed && n == 0)) continue;
        struct yokei_gpu_source source;
        char *log = NULL;
        n++;
        if (yokei_gpu_source_make(&program, compiler->language, false, target->warp, false, &source)) {
            printf("# %s\n", yoke_last_error());
            bad++;
            continue;
        }
        if (!compile(compiler, target, &source, "", &log)) {
            printf("# %s, program %d of the catalogue, options:\n", family, *index);
            quote(source.options, 20);
            quote(log, 20);
            bad++;
        } else if (compiler->judge && !compiler->judge(target, &program, log ? log : "")) {
            quote(source.options, 20);
            bad++;
        }
        free(log);
        yokei_gpu_source_free(&source);
    }
    if (!n) return;
    if (!is_compiled(family) && compiled.n < (int)YOKE_COUNT(compiled.names))
        compiled.names[compiled.n++] = family;
    printf("%sok %d - %s: %s compiles for %s (%d programs, %.1f s)\n", bad ? "not " : "", ++*number,
           compiler->name, family, target->name, n, 1e-9 * (double)(yokei_now_ns() - start));
    fflush(stdout);
}

/* A fault in a .yk text must be reported at its own file and line. */
static void check_line(const struct rtc_compiler *compiler, int number)
{
    struct yokei_gpu_program program;
    struct yokei_gpu_source source;
    char *log = NULL, place[64] = "";
    const struct rtc_target *target = compiler->targets;
    bool good = yokei_gpu_catalog(0, false, target->warp, &program)
                && !yokei_gpu_source_make(&program, compiler->language, false, target->warp, false, &source);
    if (good) {
        /* the line of the fault, which is added behind the text; the text's first line is the #line itself */
        int line = 0;
        for (const char *c = source.text; *c; c++) line += *c == '\n';
        snprintf(place, sizeof place, "kernels/%s.yk", program.family);
        good = !compile(compiler, target, &source, "no_such_type fault;\n", &log) && log
               && strstr(log, place);
        if (good) {
            const char *at = strstr(log, place) + strlen(place) + 1; /* "(12)" or ":12:" */
            good = atoi(at) == line;
        }
        if (!good) quote(log, 20);
        yokei_gpu_source_free(&source);
    }
    free(log);
    printf("%sok %d - %s: a fault is reported at its line of %s\n", good ? "" : "not ", number,
           compiler->name, place);
}

int rtc_main(const struct rtc_compiler *compiler)
{
    char reason[256];
    if (!open_compiler(compiler, reason, sizeof reason)) {
        printf("1..1\nok 1 # skip %s is not installed: %s\n", compiler->name, reason);
        return 0;
    }
    const char *soak = getenv("YOKE_SOAK");
    int sample = soak && !strcmp(soak, "1") ? 1 : compiler->sample, number = 0;
    check_line(compiler, ++number);
    for (const struct rtc_target *target = compiler->targets; target->name; target++) {
        struct yokei_gpu_program program;
        for (int index = 0; yokei_gpu_catalog(index, false, target->warp, &program);)
            check_family(compiler, target, &index, sample, &number);
    }
    struct yokei_gpu_program program;
    bool all = true;
    for (int index = 0; yokei_gpu_catalog(index, false, compiler->targets->warp, &program); index++)
        all &= is_compiled(program.family);
    printf("%sok %d - %s: programs of every family are compiled, for one target at least\n",
           all ? "" : "not ", ++number, compiler->name);
    printf("1..%d\n", number);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles device programs for AMD GPUs as the HIP backend does, with clang, which needs no ROCm. One
 * architecture and two programs; with YOKE_SOAK=1 all programs for all architectures. A fault in a text is
 * reported at its line. Skips where no clang 17 or newer with lld is installed. Prints TAP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/families.h"
#include "backends/hip/hip.h"

static const char *const architectures[] = { "gfx942", "gfx90a", "gfx1100" };
enum { SAMPLE = 2 };

/* The index in the catalogue of a program whose rows use wide vectors and shuffles, and of a product. */
static bool is_sampled(const struct yokei_gpu_program *program, int *n)
{
    const bool norm = !strcmp(program->family, "norm") && program->L == 64 && program->dtype == YOKE_BF16;
    const bool gemm = !strcmp(program->family, "gemm") && program->dtype == YOKE_F16;
    if ((norm && *n == 0) || (gemm && *n == 1)) return ++*n;
    return false;
}

static yoke_status compile(const struct hip_compiler *compiler, const char *arch,
                           const struct yokei_gpu_program *program, const char *extra)
{
    struct yokei_gpu_source source;
    void *code = NULL;
    size_t bytes = 0;
    YOKE_TRY(yokei_gpu_source_make(program, YOKEI_GPU_HIP, false, yokei_hip_wavefront(arch), false, &source));
    const size_t n = strlen(source.options) + strlen(source.prelude) + strlen(source.text) + strlen(extra)
                     + 1;
    char *text = malloc(n);
    yoke_status status = YOKE_ENOMEM;
    if (text) {
        snprintf(text, n, "%s%s%s%s", source.options, source.prelude, source.text, extra);
        status = yokei_hip_compile_text(compiler, "hip", arch, source.name, text, &code, &bytes);
    }
    if (!status && memcmp(code, "\177ELF", 4) != 0) status = yoke_fail(YOKE_EDATA, "no code object");
    if (!status) free(code);
    free(text);
    yokei_gpu_source_free(&source);
    return status;
}

static int check(const struct hip_compiler *compiler, const char *arch, bool all, int number)
{
    struct yokei_gpu_program program;
    int n = 0, bad = 0, sampled = 0;
    const uint64_t start = yokei_now_ns();
    for (int i = 0; yokei_gpu_catalog(i, false, yokei_hip_wavefront(arch), &program); i++) {
        if (!all && !is_sampled(&program, &sampled)) continue;
        n++;
        if (!compile(compiler, arch, &program, "")) continue;
        printf("# %.2000s\n", yoke_last_error());
        bad++;
    }
    if (!all && n != SAMPLE) bad++;
    printf("%sok %d - %d programs compile for %s (%.1f s)\n", bad ? "not " : "", number, n, arch,
           1e-9 * (double)(yokei_now_ns() - start));
    fflush(stdout);
    return bad;
}

/* A fault behind the last line of a text. */
static int check_line(const struct hip_compiler *compiler, int number)
{
    struct yokei_gpu_program program;
    const bool failed = yokei_gpu_catalog(0, false, 64, &program)
                        && compile(compiler, architectures[0], &program, "no_such_type fault;\n")
                               == YOKE_ECOMPILE;
    const bool named = failed && strstr(yoke_last_error(), "kernels/norm.yk:")
                       && strstr(yoke_last_error(), "no_such_type");
    printf("%sok %d - a fault is reported at its line of the text\n", named ? "" : "not ", number);
    if (!named) printf("# %.2000s\n", yoke_last_error());
    return !named;
}

int main(void)
{
    struct hip_compiler compiler;
    char reason[YOKE_REASON_BYTES];
    const char *soak = getenv("YOKE_SOAK");
    const bool all = soak && !strcmp(soak, "1");
    int bad = 0, number = 0;
    setenv("YOKE_HIPRTC", "off", 1);
    if (!yokei_hip_compiler(architectures[0], "", &compiler, reason, sizeof reason)) {
        printf("1..1\nok 1 - programs compile for AMD GPUs # SKIP %s\n", reason);
        return 0;
    }
    bad += check_line(&compiler, ++number);
    for (size_t i = 0; i < (all ? YOKE_COUNT(architectures) : 1); i++)
        bad += check(&compiler, architectures[i], all, ++number);
    printf("1..%d\n", number);
    return bad > 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The program yoke-hip-compile. The HIP backend starts it to compile. AMD's compiler is a library (hipRTC)
 * with an LLVM of its own, and two LLVMs in one process can abort it, such as that of PoCL and that of
 * hipRTC. hipRTC of some versions also aborts if it does not know an architecture. In a process of its own
 * neither does harm. The program ends when the process that has started it ends.
 *
 *   yoke-hip-compile rtc ARCH SOURCE OUTPUT LIBRARY...   compile by the first library that opens
 *   yoke-hip-compile run PROGRAM [ARGUMENT...]           become another program, such as clang
 *
 * `rtc` prints "library PATH", then what the compiler says. Exit codes: 0; 1: the compiler failed; 2: no
 * library opens, or the usage is wrong; 3: a file cannot be read or written.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "backends/hip/options.h"

typedef struct _hiprtcProgram *hiprtcProgram;
#define HIPRTC_FUNCTIONS(F)                                                                         \
    F(hiprtcCreateProgram,                                                                          \
      (hiprtcProgram *, const char *, const char *, int, const char *const *, const char *const *)) \
    F(hiprtcCompileProgram, (hiprtcProgram, int, const char *const *))                              \
    F(hiprtcGetProgramLogSize, (hiprtcProgram, size_t *))                                           \
    F(hiprtcGetProgramLog, (hiprtcProgram, char *))                                                 \
    F(hiprtcGetCodeSize, (hiprtcProgram, size_t *))                                                 \
    F(hiprtcGetCode, (hiprtcProgram, char *))

static struct {
#define SLOT(name, parameters) int(*name) parameters;
    HIPRTC_FUNCTIONS(SLOT)
} rtc;

/* Open the first of these libraries that has all functions, and print its path. */
static int open_library(char **names, int n)
{
    for (int i = 0; i < n; i++) {
        Dl_info info;
        int good = 1;
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!library) continue;
        void *symbol = NULL;
#define LOOK(name, parameters)      \
    symbol = dlsym(library, #name); \
    good = good && symbol;          \
    memcpy(&rtc.name, &symbol, sizeof symbol);
        HIPRTC_FUNCTIONS(LOOK)
        if (!good) continue; /* the library stays open, because hipRTC's libraries cannot be closed */
        char *real = dladdr(symbol, &info) && info.dli_fname ? realpath(info.dli_fname, NULL) : NULL;
        printf("library %s\n", real ? real : names[i]);
        fflush(stdout);
        free(real);
        return 1;
    }
    printf("%s\n", n ? dlerror() : "no library is named");
    return 0;
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long bytes = -1;
    if (file && !fseek(file, 0, SEEK_END) && (bytes = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET))
        text = calloc(1, (size_t)bytes + 1);
    if (text && fread(text, 1, (size_t)bytes, file) != (size_t)bytes) {
        free(text);
        text = NULL;
    }
    if (file) fclose(file);
    return text;
}

static int write_code(const char *path, hiprtcProgram program)
{
    size_t bytes = 0;
    char *code = !rtc.hiprtcGetCodeSize(program, &bytes) && bytes ? malloc(bytes) : NULL;
    FILE *file = code && !rtc.hiprtcGetCode(program, code) ? fopen(path, "wb") : NULL;
    int good = file && fwrite(code, 1, bytes, file) == bytes;
    if (file && fclose(file)) good = 0;
    free(code);
    return good ? 0 : 3;
}

static int compile(const char *arch, const char *source, const char *output)
{
    char option[80];
    hiprtcProgram program = NULL;
    size_t bytes = 0;
    char *text = read_text(source);
    if (!text) return 3;
    snprintf(option, sizeof option, "--offload-arch=%s", arch);
#define WORD(option) , option
    const char *const options[] = { option HIP_OPTIONS(WORD) };
#undef WORD
    if (rtc.hiprtcCreateProgram(&program, text, source, 0, NULL, NULL)) return 1;
    const int error = rtc.hiprtcCompileProgram(program, sizeof options / sizeof options[0], options);
    char *log = error && !rtc.hiprtcGetProgramLogSize(program, &bytes) ? calloc(1, bytes + 1) : NULL;
    if (log && bytes && !rtc.hiprtcGetProgramLog(program, log)) printf("%s\n", log);
    if (error) printf("hiprtcCompileProgram failed (%d)\n", error);
    fflush(stdout);
    return error ? 1 : write_code(output, program);
}

int main(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* this also holds for the program that this one becomes */
    if (argc > 5 && !strcmp(argv[1], "rtc")) {
        if (!open_library(argv + 5, argc - 5)) return 2;
        const int code = compile(argv[2], argv[3], argv[4]);
        fflush(stdout);
        _exit(code); /* without the end of the compiler's library, which has threads and files of its own */
    }
    if (argc > 2 && !strcmp(argv[1], "run")) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        return 2;
    }
    fprintf(stderr,
            "usage: yoke-hip-compile rtc ARCH SOURCE OUTPUT LIBRARY... | run PROGRAM [ARGUMENT...]\n");
    return 2;
}

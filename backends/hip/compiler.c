/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which compiler makes programs, and compilation by it. hipRTC is a part of ROCm. If it is missing, or does
 * not know the architecture, clang compiles. Both compile the same text with the same options, in processes
 * of their own (compile_main.c says why). A program of one line shows whether a compiler knows an
 * architecture.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/hip/hip.h"
#include "backends/hip/options.h"

enum { MOST_SECONDS = 300, LEAST_CLANG = 17, NEWEST_CLANG = 23, LOG_BYTES = 16384 };

void yokei_hip_compiler_text(const struct hip_compiler *c, char *text, size_t bytes)
{
    yokei_text(text, bytes, "%s %s (%s)", c->kind == HIP_RTC ? "hipRTC" : "clang", c->version, c->path);
}

/* ---- compilation ---- */

/* Start a compiler for the text in `source`. Returns as yokei_hip_child. */
static int start_compiler(const struct hip_compiler *c, const char *arch, const char *source,
                          const char *output, char *log, size_t bytes)
{
    char child[1024], offload[80];
    yokei_hip_child_path(child, sizeof child);
    yokei_text(offload, sizeof offload, "--offload-arch=%s", arch);
    const char *const rtc[] = { child, "rtc", arch, source, output, c->path, NULL };
#define WORD(option) option,
    const char *const clang[] = {
        child, "run", c->path, offload, HIP_CLANG_OPTIONS(WORD) HIP_OPTIONS(WORD) "-o", output, source, NULL
    };
#undef WORD
    return yokei_hip_child(c->kind == HIP_RTC ? rtc : clang, MOST_SECONDS, log, bytes);
}

static bool is_code(const char *data, size_t bytes)
{
    static const char bundle[] = "__CLANG_OFFLOAD_BUNDLE__";
    return (bytes > 64 && !memcmp(data, "\177ELF", 4))
           || (bytes > sizeof bundle && !memcmp(data, bundle, sizeof bundle - 1));
}

/* Whether this end of a compiler may be due to the text or the architecture, and not to the machine. */
static bool is_verdict(const struct hip_compiler *c, int end)
{
    if (c->kind == HIP_RTC && end > 1) return false; /* see compile_main.c */
    return end >= 0 || end == HIP_CHILD_CRASHED;
}

static yoke_status compile_failed(const struct hip_compiler *c, const char *spec, const char *name, int end,
                                  const char *log)
{
    char compiler[1100], how[80] = "";
    yokei_hip_compiler_text(c, compiler, sizeof compiler);
    if (end == HIP_CHILD_KILLED)
        yokei_text(how, sizeof how, "the compiler was killed; there may be too little memory. ");
    if (end == HIP_CHILD_CRASHED) yokei_text(how, sizeof how, "the compiler crashed. ");
    if (end == HIP_CHILD_LATE)
        yokei_text(how, sizeof how, "the compiler needed more than %d s. ", (int)MOST_SECONDS);
    return yoke_fail(is_verdict(c, end) ? YOKE_ECOMPILE : YOKE_EBACKEND,
                     "%s: program %s does not compile by %s: %s%s", spec, name, compiler, how, log);
}

/* The files of a compilation. */
struct files {
    char folder[512], source[600], output[600];
};

static yoke_status compile_files(const struct hip_compiler *c, const char *spec, const char *arch,
                                 const char *name, const char *text, const struct files *files,
                                 void **code_out, size_t *bytes_out)
{
    YOKE_TRY(yokei_file_write(files->source, text, strlen(text)));
    char *log = malloc(LOG_BYTES);
    if (!log) return yoke_fail(YOKE_ENOMEM, "%s: no host memory for a compiler's log", spec);
    const int end = start_compiler(c, arch, files->source, files->output, log, LOG_BYTES);
    yoke_status status = end ? compile_failed(c, spec, name, end, log) : YOKE_OK;
    if (!status && yokei_file_read(files->output, (size_t)1 << 28, code_out, bytes_out))
        status = compile_failed(c, spec, name, end, log);
    if (!status && !is_code(*code_out, *bytes_out)) {
        free(*code_out);
        status = compile_failed(c, spec, name, end, "its output is no code object");
    }
    free(log);
    return status;
}

yoke_status yokei_hip_compile_text(const struct hip_compiler *c, const char *spec, const char *arch,
                                   const char *name, const char *text, void **code_out, size_t *bytes_out)
{
    const char *tmp = getenv("TMPDIR");
    struct files files;
    yokei_text(files.folder, sizeof files.folder, "%s/yoke-hip.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(files.folder))
        return yoke_fail(YOKE_EIO, "%s: cannot make a folder for the compiler: %s: %m (TMPDIR chooses where)",
                         spec, files.folder);
    yokei_text(files.source, sizeof files.source, "%s/%s.hip", files.folder, name);
    yokei_text(files.output, sizeof files.output, "%s/%s.co", files.folder, name);
    const yoke_status status = compile_files(c, spec, arch, name, text, &files, code_out, bytes_out);
    unlink(files.source);
    unlink(files.output);
    rmdir(files.folder);
    return status;
}

/* ---- what was found before ---- */

/* A file in the first folder of the cache. It says that this hipRTC does not know this architecture. */
static bool refusal_file(const char *folders, const char *arch, const char *version, char *path, size_t bytes)
{
    const int n = (int)strcspn(folders, ":");
    yokei_text(path, bytes, "%.*s/hiprtc-%s-lacks-%s", n, folders, version, arch);
    for (char *at = path + n + 1; n && *at; at++)
        if (*at == ':') *at = '.';
    return n > 0;
}

struct made_by {
    const char *arch;
    const struct hip_compiler *compiler;
};

static bool is_made_by(const void *context, const char *maker)
{
    const struct made_by *by = context;
    char text[YOKEI_GPU_MAKER];
    yokei_hip_maker_text(by->arch, by->compiler, text, sizeof text);
    return !strcmp(text, maker);
}

/* ---- whether a compiler knows an architecture ---- */

static bool knows(const struct hip_compiler *c, const char *arch, const char *folders, char *why,
                  size_t bytes)
{
    static const char text[] = "extern \"C\" __attribute__((global)) void trial(int *x) { *x = 1; }\n";
    const struct made_by by = { arch, c };
    char refused[2400] = "";
    const bool has_file = c->kind == HIP_RTC
                          && refusal_file(folders, arch, c->version, refused, sizeof refused);
    void *code;
    size_t n;
    yokei_text(why, bytes, "%s %s does not know %s", c->kind == HIP_RTC ? "hipRTC" : "clang", c->version,
               arch);
    if (yokei_gpu_cache_has(folders, "hip", is_made_by, &by)) return true;
    if (has_file && !access(refused, F_OK)) return false;
    struct yokei_error saved;
    yokei_error_save(&saved);
    const yoke_status status = yokei_hip_compile_text(c, "hip", arch, "trial", text, &code, &n);
    if (!status) free(code);
    if (status && status != YOKE_ECOMPILE) {
        yokei_text(why, bytes, "%s", yoke_last_error());
        why[strcspn(why, "\n")] = '\0'; /* the log may have more lines */
    }
    yokei_error_restore(&saved);
    if (status == YOKE_ECOMPILE && has_file) {
        char folder[2300];
        yokei_text(folder, sizeof folder, "%.*s", (int)strcspn(folders, ":"), folders);
        FILE *file = yokei_make_folder(folder) ? NULL : fopen(refused, "w");
        if (file) fclose(file);
    }
    return !status;
}

/* ---- hipRTC ---- */

/* The folders of ROCm, then those of the loader, as far as they are known without loading a library. */
static int library_folders(char *list[], int capacity)
{
    const char *const usual[] = { "/usr/local/lib", "/usr/lib64", "/usr/lib" };
    struct yokei_folders folders = { list, yokei_hip_folders(list, capacity), capacity };
    const char *path = getenv("LD_LIBRARY_PATH");
    while (path && *path) {
        char folder[1024];
        const size_t n = strcspn(path, ":");
        yokei_text(folder, sizeof folder, "%.*s", (int)n, path);
        if (n) yokei_folders_add(&folders, folder);
        path += n + (path[n] == ':');
    }
    yokei_folders_match(&folders, "/usr/lib", "/*-linux-gnu");
    for (size_t i = 0; i < YOKE_COUNT(usual); i++) yokei_folders_add(&folders, usual[i]);
    return folders.n;
}

/* Describe a file of hipRTC. Its version stands behind ".so." in the name of the file itself. */
static bool describe_rtc(const char *path, struct hip_compiler *out)
{
    char *real = realpath(path, NULL);
    const char *so = real ? strstr(real, ".so.") : NULL;
    const size_t n = so ? strspn(so + 4, "0123456789.") : 0;
    *out = (struct hip_compiler){ .kind = HIP_RTC };
    if (real) yokei_text(out->path, sizeof out->path, "%s", real);
    yokei_text(out->version, sizeof out->version, "%.*s", (int)YOKE_MIN(n, sizeof out->version - 1),
               so ? so + 4 : "");
    if (!out->version[0]) yokei_text(out->version, sizeof out->version, "0");
    free(real);
    return real != NULL;
}

/* Before ROCm 6 the functions are in libamdhip64. */
static bool find_rtc(struct hip_compiler *out)
{
    static const char *const names[] = { "libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5",
                                         "libamdhip64.so.5" };
    char *folders[64], path[1200];
    const int n = library_folders(folders, YOKE_COUNT(folders));
    bool found = false;
    for (size_t i = 0; i < YOKE_COUNT(names); i++)
        for (int f = 0; f < n && !found; f++) {
            if (!*folders[f]) continue;
            yokei_text(path, sizeof path, "%s/%s", folders[f], names[i]);
            found = !access(path, R_OK) && describe_rtc(path, out);
        }
    for (int f = 0; f < n; f++) free(folders[f]);
    return found;
}

static bool choose_rtc(const char *arch, const char *folders, struct hip_compiler *out, char *why,
                       size_t bytes)
{
    const char *given = getenv("YOKE_HIPRTC");
    if (given && !strcmp(given, "off")) {
        yokei_text(why, bytes, "YOKE_HIPRTC=off turns hipRTC off");
        return false;
    }
    if (given && *given && !describe_rtc(given, out)) {
        yokei_text(why, bytes, "YOKE_HIPRTC names no file: %.100s", given);
        return false;
    }
    if (!(given && *given) && !find_rtc(out)) {
        yokei_text(why, bytes, "hipRTC (libhiprtc.so) is not found");
        return false;
    }
    return knows(out, arch, folders, why, bytes);
}

/* ---- clang ---- */

/* The path of a program in $PATH. */
static bool find_program(const char *name, char *path, size_t bytes)
{
    const char *at = getenv("PATH");
    while (at && *at) {
        const size_t n = strcspn(at, ":");
        yokei_text(path, bytes, "%.*s/%s", (int)n, at, name);
        if (n && !access(path, X_OK)) return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* Ask a clang for its version. The linker that it starts, lld, must be in its own folder. */
static bool describe_clang(const char *path, struct hip_compiler *out, char *why, size_t bytes)
{
    const char *const arguments[] = { path, "--version", NULL };
    char text[4096], linker[1200];
    int major = 0, minor = 0, patch = 0;
    if (yokei_hip_child(arguments, MOST_SECONDS, text, sizeof text)) {
        yokei_text(why, bytes, "%s does not start", path);
        return false;
    }
    const char *version = strstr(text, "clang version ");
    if (!version || sscanf(version + 14, "%4d.%4d.%4d", &major, &minor, &patch) < 2 || major < LEAST_CLANG) {
        yokei_text(why, bytes, "%s is no clang %d or newer", path, (int)LEAST_CLANG);
        return false;
    }
    const char *folder = strstr(text, "InstalledDir: ");
    if (folder) folder += strlen("InstalledDir: ");
    yokei_text(linker, sizeof linker, "%.*s/lld", folder ? (int)strcspn(folder, "\n") : 0,
               folder ? folder : "");
    if (access(linker, X_OK)) {
        yokei_text(why, bytes, "%s has no lld: install lld-%d", path, major);
        return false;
    }
    *out = (struct hip_compiler){ .kind = HIP_CLANG };
    yokei_text(out->path, sizeof out->path, "%s", path);
    yokei_text(out->version, sizeof out->version, "%d.%d.%d", major, minor, patch);
    return true;
}

/* The newest clang that is usable: of ROCm, in $PATH, or in Debian's folders. */
static bool find_clang(struct hip_compiler *out, char *why, size_t bytes)
{
    char path[1100], name[32], kept[YOKE_REASON_BYTES] = "", last[YOKE_REASON_BYTES];
    glob_t rocm;
    bool found = false;
    yokei_text(why, bytes, "no clang %d or newer with lld is found", (int)LEAST_CLANG);
    if (!glob("/opt/rocm*/llvm/bin/clang", 0, NULL, &rocm))
        for (size_t i = rocm.gl_pathc; i-- > 0 && !found;)
            found = describe_clang(rocm.gl_pathv[i], out, kept, sizeof kept);
    globfree(&rocm);
    for (int version = NEWEST_CLANG; version >= LEAST_CLANG - 1 && !found; version--) {
        yokei_text(name, sizeof name, version < LEAST_CLANG ? "clang" : "clang-%d", version);
        bool is_there = find_program(name, path, sizeof path);
        if (!is_there) {
            yokei_text(path, sizeof path, "/usr/lib/llvm-%d/bin/clang", version);
            is_there = !access(path, X_OK);
        }
        found = is_there && describe_clang(path, out, last, sizeof last);
        if (is_there && !found && !kept[0]) yokei_text(kept, sizeof kept, "%s", last);
    }
    if (!found && kept[0]) yokei_text(why, bytes, "%s", kept);
    return found;
}

static bool choose_clang(const char *arch, const char *folders, struct hip_compiler *out, char *why,
                         size_t bytes)
{
    const char *given = getenv("YOKE_CLANG");
    if (given && !strcmp(given, "off")) {
        yokei_text(why, bytes, "YOKE_CLANG=off turns clang off");
        return false;
    }
    char path[1100] = "";
    if (given && *given && (strchr(given, '/') || !find_program(given, path, sizeof path)))
        yokei_text(path, sizeof path, "%s", given);
    if (!(path[0] ? describe_clang(path, out, why, bytes) : find_clang(out, why, bytes))) return false;
    return knows(out, arch, folders, why, bytes);
}

/* ---- both ---- */

/* What this process has found, by architecture. */
static struct {
    char arch[HIP_ARCH];
    struct hip_compiler compiler;
    char reason[YOKE_REASON_BYTES];
} known[8];
static int n_known;
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

static void choose(const char *arch, const char *folders, struct hip_compiler *out, char *reason,
                   size_t bytes)
{
    char why[2][YOKE_REASON_BYTES / 2] = { "", "" };
    reason[0] = '\0';
    if (choose_rtc(arch, folders, out, why[0], sizeof why[0])
        || choose_clang(arch, folders, out, why[1], sizeof why[1]))
        return;
    memset(out, 0, sizeof *out);
    yokei_text(reason, bytes,
               "no compiler for %s: %s; %s. Install a ROCm that knows it, or clang-19 and lld-19", arch,
               why[0], why[1]);
}

bool yokei_hip_compiler(const char *arch, const char *folders, struct hip_compiler *out, char *reason,
                        size_t bytes)
{
    int i = 0;
    pthread_mutex_lock(&known_lock);
    while (i < n_known && strcmp(known[i].arch, arch) != 0) i++;
    if (i == n_known) {
        i %= (int)YOKE_COUNT(known);
        choose(arch, folders, &known[i].compiler, known[i].reason, sizeof known[i].reason);
        yokei_text(known[i].arch, sizeof known[i].arch, "%s", arch);
        n_known = YOKE_MAX(n_known, i + 1);
    }
    *out = known[i].compiler;
    yokei_text(reason, bytes, "%s", known[i].reason);
    pthread_mutex_unlock(&known_lock);
    return out->kind != HIP_NO_COMPILER;
}

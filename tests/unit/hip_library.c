/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the HIP backend that need no device: the name of the architecture in both layouts of
 * hipDeviceProp_t, makers, the values of YOKE_EMULATE, and the reasons why there is no device.
 */
#include "tests/unit/test.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/hip/hip.h"
#include "backends/hip/options.h"
#include "backends/hip/products.h"
#include "tests/unit/folder.h"

#define ASSERT_HAS(text, words)                                                          \
    do {                                                                                 \
        const char *text_ = (text);                                                      \
        if (!strstr(text_, words)) fail_msg("'%s' does not contain '%s'", text_, words); \
    } while (0)

/* ---- versions ---- */

/* What a library's functions write, by layout. */
static const char *arch_5, *arch_6;

static hipError_t properties_5(void *properties, int device)
{
    (void)device;
    memset(properties, 0x11, 792);
    strcpy((char *)properties + 396, arch_5);
    return hipSuccess;
}

static hipError_t properties_6(void *properties, int device)
{
    (void)device;
    memset(properties, 0x11, 1472);
    strcpy((char *)properties + 1160, arch_6);
    return hipSuccess;
}

static hipError_t no_properties(void *properties, int device)
{
    (void)properties, (void)device;
    return hipErrorInvalidValue;
}

/* The functions of a library, and the name of the architecture that is found. */
static void architectures(void **state)
{
    static const char full[] = "gfx90a:sramecc+:xnack-";
    static const struct {
        hipError_t (*old)(void *, int), (*new)(void *, int);
        const char *arch_5, *arch_6, *found; /* NULL: none */
    } rows[] = {
        { properties_5, NULL, full, "", full },                 /* HIP 5 */
        { properties_5, properties_6, full, full, full },       /* HIP 6 and 7 */
        { properties_6, NULL, "", full, full },                 /* the plain name with the newer layout */
        { properties_5, properties_5, "gfx942", "", "gfx942" }, /* the newer name with the older layout */
        { properties_5, no_properties, "gfx1100", "", "gfx1100" },
        { properties_5, NULL, "sm_90", "", NULL },
        { properties_5, NULL, "gfx", "", NULL },
        { properties_5, NULL, "gfx90a;x", "", NULL },
        { no_properties, no_properties, "", "", NULL },
        { NULL, NULL, "", "", NULL },
    };
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        struct hip_library hip = { .hipGetDeviceProperties = rows[i].old,
                                   .hipGetDevicePropertiesR0600 = rows[i].new };
        char arch[HIP_ARCH] = "";
        arch_5 = rows[i].arch_5, arch_6 = rows[i].arch_6;
        const bool found = yokei_hip_arch(&hip, 0, arch);
        if (found != (rows[i].found != NULL) || (found && strcmp(arch, rows[i].found) != 0))
            fail_msg("row %zu: '%s'", i, found ? arch : "none");
    }
}

/* A name that has no end within the buffer is none, and nothing beyond the buffer is read. */
static void short_buffers(void **state)
{
    char arch[HIP_ARCH];
    (void)state;
    for (size_t bytes = 0; bytes < 1160 + HIP_ARCH; bytes += 37) {
        char *buffer = malloc(bytes + 1);
        assert_non_null(buffer);
        memset(buffer, '9', bytes);
        if (bytes > 1163) memcpy(buffer + 1160, "gfx", 3);
        if (bytes > 399) memcpy(buffer + 396, "gfx", 3);
        assert_false(yokei_hip_arch_in(buffer, bytes, bytes % 2, arch));
        free(buffer);
    }
}

static void versions(void **state)
{
    (void)state;
    for (int major = 0; major < 12; major++) {
        const struct hip_version *v = yokei_hip_version(major);
        assert_true((v != NULL) == (major >= 5 && major <= 7));
        if (!v) continue;
        assert_true(v->major == major && v->on_host == (major >= 6) && v->on_device == v->on_host + 1);
        assert_true(v->max_threads == 56 && v->max_grid_x == 29 && v->max_grid_y == 30
                    && v->max_grid_z == 31);
        assert_true(v->shared_bytes == 74 && v->wavefront == 87 && v->compute_units == 63);
        assert_int_equal(v->integrated, 16);
    }
}

/* ---- makers ---- */

static void makers(void **state)
{
    static const struct {
        const char *arch;
        enum hip_compiler_kind kind;
        const char *version, *text;
    } rows[] = {
        { "gfx942", HIP_CLANG, "19.1.7", "gfx942-clang19.1.7" },
        { "gfx90a:sramecc+:xnack-", HIP_RTC, "5.2.21153", "gfx90a.sramecc+.xnack--hiprtc5.2.21153" },
    };
    static const char *const wrong[] = {
        "", "sm_90-nvrtc13.0", "gfx942", "gfx942-clang", "gfx942-clang19x", "gfx942-clang19.1.7.bin"
    };
    char text[YOKEI_GPU_MAKER], arch[HIP_ARCH];
    struct hip_compiler compiler;
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        struct hip_compiler c = { .kind = rows[i].kind };
        yokei_text(c.version, sizeof c.version, "%s", rows[i].version);
        yokei_hip_maker_text(rows[i].arch, &c, text, sizeof text);
        assert_string_equal(text, rows[i].text);
        assert_true(yokei_hip_maker_parse(text, arch, &compiler));
        assert_string_equal(arch, rows[i].arch);
        assert_true(compiler.kind == rows[i].kind && !strcmp(compiler.version, rows[i].version));
    }
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++)
        assert_false(yokei_hip_maker_parse(wrong[i], arch, &compiler));
}

/* Whether code of one architecture runs on a device of another one. */
static void features(void **state)
{
    static const struct {
        const char *code, *device;
        bool runs;
    } rows[] = {
        { "gfx90a", "gfx90a:sramecc+:xnack-", true },
        { "gfx90a:xnack-", "gfx90a:sramecc+:xnack-", true },
        { "gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-", true },
        { "gfx90a:xnack+", "gfx90a:sramecc+:xnack-", false },
        { "gfx90a:sramecc-:xnack-", "gfx90a:sramecc+:xnack-", false },
        { "gfx942", "gfx90a:sramecc+:xnack-", false },
        { "gfx90", "gfx90a:xnack-", false },
        { "gfx90a", "gfx90", false },
        { "gfx90a:xnack-", "gfx90a", false },
    };
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++)
        if (yokei_hip_arch_runs(rows[i].code, rows[i].device) != rows[i].runs)
            fail_msg("%s on %s", rows[i].code, rows[i].device);
}

/* Which binaries a device takes, and in which order. */
static void order(void **state)
{
    static const char *const best_first[] = {
        "gfx90a.sramecc+.xnack--hiprtc6.3.42134", /* its own */
        "gfx90a.xnack--hiprtc6.3.42134",
        "gfx90a.sramecc+.xnack--hiprtc6.1.0",
        "gfx90a.sramecc+.xnack--clang19.1.7",
        "gfx90a-hiprtc5.2.21153",
        "gfx90a-clang19.1.7",
        "gfx90a-clang17.0.6",
    };
    static const char *const never[] = { "gfx942-hiprtc6.3.42134", "gfx90a.xnack+-hiprtc6.3.42134",
                                         "sm_90-nvrtc13.0" };
    struct hip_device dev = { .arch = "gfx90a:sramecc+:xnack-",
                              .compiler = { .kind = HIP_RTC, .version = "6.3.42134" } };
    yoke_device device = { .impl = &dev };
    int last = 0;
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(best_first); i++) {
        const int rank = yokei_hip_suits(&device, best_first[i]);
        if (rank <= 0 || (i ? rank >= last : rank != INT_MAX))
            fail_msg("%s has rank %d behind %d", best_first[i], rank, last);
        last = rank;
    }
    for (size_t i = 0; i < YOKE_COUNT(never); i++) assert_int_equal(yokei_hip_suits(&device, never[i]), 0);
}

static void wavefronts(void **state)
{
    (void)state;
    assert_int_equal(yokei_hip_wavefront("gfx90a:sramecc+:xnack-"), 64);
    assert_int_equal(yokei_hip_wavefront("gfx906"), 64);
    assert_int_equal(yokei_hip_wavefront("gfx942"), 64);
    assert_int_equal(yokei_hip_wavefront("gfx1030"), 32);
    assert_int_equal(yokei_hip_wavefront("gfx1100"), 32);
    assert_int_equal(yokei_hip_wavefront("gfx1201"), 32);
}

/* From which version on hipBLASLt is loaded for a GPU. */
static void products(void **state)
{
    (void)state;
    assert_int_equal(yokei_hip_lt_oldest_version("gfx90a:sramecc+:xnack-"), 600);
    assert_int_equal(yokei_hip_lt_oldest_version("gfx942"), 600);
    assert_int_equal(yokei_hip_lt_oldest_version("gfx1100"), 800);
    assert_int_equal(yokei_hip_lt_oldest_version("gfx950"), 100000);
    assert_int_equal(yokei_hip_lt_oldest_version("gfx1201"), 100000);
    assert_int_equal(yokei_hip_lt_oldest_version("gfx906"), 0);
    assert_int_equal(yokei_hip_lt_oldest_version("gfx1030"), 0);
}

/* ---- lists of emulated devices ---- */

static void emulation(void **state)
{
    static const char *const right[] = { "cuda:9.0", "hip:gfx942", "hip:gfx90a", "cuda:9.0,hip:gfx942",
                                         "hip:gfx1100,cuda:12.0" },
                             *const wrong[] = { "",
                                                "cuda:9",
                                                "hip:942",
                                                "hip:gfx",
                                                "hip:gfx942x",
                                                "cuda:9.0,",
                                                ",cuda:9.0",
                                                "cuda:9.0;hip:gfx942",
                                                "cuda:9.0,cuda:8.0",
                                                "hip:gfx90a:xnack-",
                                                "opencl:1" };
    char text[32] = "";
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(right); i++)
        if (!yokei_is_emulation(right[i])) fail_msg("'%s' is refused", right[i]);
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++)
        if (yokei_is_emulation(wrong[i])) fail_msg("'%s' is taken", wrong[i]);
    setenv("YOKE_EMULATE", "cuda:9.0,hip:gfx942", 1);
    assert_true(yokei_emulated("hip", text, sizeof text));
    assert_string_equal(text, "gfx942");
    assert_true(yokei_emulated("cuda", text, sizeof text));
    assert_string_equal(text, "9.0");
    assert_false(yokei_emulated("cud", text, sizeof text));
    unsetenv("YOKE_EMULATE");
    assert_false(yokei_emulated("hip", text, sizeof text));
}

/* ---- reasons ---- */

static void kfd(void **state)
{
    char path[400], reason[YOKE_REASON_BYTES];
    (void)state;
    yokei_text(path, sizeof path, "%s/kfd", test_folder);
    assert_int_equal(yokei_hip_kfd(path), HIP_NO_KFD);
    assert_true(yokei_hip_explain_kfd(path, HIP_NO_KFD, reason, sizeof reason));
    ASSERT_HAS(reason, "modprobe amdgpu");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(yokei_hip_kfd(path), HIP_KFD_OPENS);
    assert_false(yokei_hip_explain_kfd(path, HIP_KFD_OPENS, reason, sizeof reason));
    assert_true(yokei_hip_explain_kfd(path, HIP_KFD_REFUSED, reason, sizeof reason));
    ASSERT_HAS(reason, "join the group of the file, which is render");
    assert_int_equal(chmod(path, 0), 0);
    if (access(path, R_OK)) assert_int_equal(yokei_hip_kfd(path), HIP_KFD_REFUSED); /* root opens all */
}

static void explanations(void **state)
{
    char text[YOKE_REASON_BYTES];
    static const hipError_t fatal[] = { 214, 700, 702, 709, 710, 719, 999 };
    (void)state;
    unsetenv("ROCR_VISIBLE_DEVICES");
    setenv("HIP_VISIBLE_DEVICES", "7", 1);
    yokei_hip_explain(hipErrorNoDevice, text, sizeof text);
    ASSERT_HAS(text, "HIP_VISIBLE_DEVICES='7' hides all devices; unset it");
    unsetenv("HIP_VISIBLE_DEVICES");
    setenv("ROCR_VISIBLE_DEVICES", "", 1);
    yokei_hip_explain(hipErrorInvalidDevice, text, sizeof text); /* as HIP 5 says it */
    ASSERT_HAS(text, "ROCR_VISIBLE_DEVICES='' hides all devices");
    unsetenv("ROCR_VISIBLE_DEVICES");
    yokei_hip_explain(hipErrorNoDevice, text, sizeof text);
    ASSERT_HAS(text, "see rocminfo");
    ASSERT_HAS(text, access("/dev/dri", F_OK) ? "a container needs --device /dev/dri" : "/dev/dri/renderD*");
    yokei_hip_explain(hipErrorInsufficientDriver, text, sizeof text);
    ASSERT_HAS(text, "too old");
    yokei_hip_explain(hipErrorOutOfMemory, text, sizeof text);
    ASSERT_HAS(text, "hipInit failed: ");
    for (size_t i = 0; i < YOKE_COUNT(fatal); i++) assert_true(yokei_hip_is_fatal(fatal[i]));
    assert_false(yokei_hip_is_fatal(hipErrorOutOfMemory));
}

/* The reason that a probe gives. The probe runs in a child process, so each call loads the library anew. */
static const char *reason(void)
{
    static struct yoke_backend_report reports[8];
    int n = 0;
    assert_ok(yoke_discover(reports, 8, &n));
    for (int i = 0; i < n; i++)
        if (!strcmp(reports[i].name, "hip"))
            return reports[i].n_devices ? "it has devices" : reports[i].reason;
    fail_msg("the library has no backend hip");
    return "";
}

static void stand_ins(void **state)
{
    (void)state;
    setenv("YOKE_DATA_DIR", test_folder, 1);
    setenv("YOKE_EMULATE", "hip:942", 1);
    ASSERT_HAS(reason(), "YOKE_EMULATE is 'hip:942'; behind hip: stands a processor, such as hip:gfx942");
    setenv("YOKE_EMULATE", "hip:gfx942", 1);
    ASSERT_HAS(reason(), "the stand-in for HIP does not load");
    unsetenv("YOKE_EMULATE");
    unsetenv("YOKE_DATA_DIR");
    if (access("/dev/kfd", F_OK)) ASSERT_HAS(reason(), "there is no /dev/kfd");
    setenv("YOKE_EMULATE", "hip:gfx900", 1);
    ASSERT_HAS(reason(), "YOKE_EMULATE is 'hip:gfx900'; the stand-in for HIP has gfx90a, gfx942 and gfx1100");
    unsetenv("YOKE_EMULATE");
}

static int two_folders(char *folders[], int capacity)
{
    assert_true(capacity >= 2);
    folders[0] = strdup("/one");
    folders[1] = strdup("/two");
    return 2;
}

static bool open_none(const char *folder, const char *name, char *why, size_t bytes)
{
    const bool needs = !strcmp(folder, "/one") && strstr(name, ".6");
    yokei_text(why, bytes, "%s%s%s: cannot open shared object file: No such file", needs ? "" : folder,
               needs ? "" : "/", needs ? "libnuma.so.1" : name);
    return false;
}

/* A library is there, but not another one that it needs. */
static void missing_parts(void **state)
{
    static const struct yokei_library_file files[] = { { "libx.so.7", 7 }, { "libx.so.6", 6 } };
    char why[YOKE_REASON_BYTES];
    (void)state;
    assert_false(yokei_folders_open_newest(two_folders, files, 2, INT_MAX, open_none, why, sizeof why));
    ASSERT_HAS(why, "libnuma.so.1: cannot open");
}

/* A library of another version. One that is known, and does not open, is another matter. */
static void other_versions(void **state)
{
    char pattern[400], path[400], found[400];
    static const char *const files[] = { "libamdhip64.so", "libamdhip64.so.5", "libamdhip64.so.6.3.4",
                                         "libamdhip64.so.7" };
    (void)state;
    yokei_text(pattern, sizeof pattern, "%s/libamdhip64.so.*", test_folder);
    for (size_t i = 0; i < YOKE_COUNT(files); i++) {
        yokei_text(path, sizeof path, "%s/%s", test_folder, files[i]);
        assert_ok(yokei_file_write(path, "", 0));
    }
    assert_false(yokei_hip_other_version(pattern, found, sizeof found));
    yokei_text(path, sizeof path, "%s/libamdhip64.so.8", test_folder);
    assert_ok(yokei_file_write(path, "", 0));
    assert_true(yokei_hip_other_version(pattern, found, sizeof found));
    assert_string_equal(found, path);
    unlink(path);
    for (size_t i = 0; i < YOKE_COUNT(files); i++) {
        yokei_text(path, sizeof path, "%s/%s", test_folder, files[i]);
        unlink(path);
    }
}

/* ---- compilers ---- */

/* Programs that were compiled with other options must have other keys in the cache. */
static void identity(void **state)
{
#define OPTION(option) option,
    static const char *const options[] = { HIP_OPTIONS(OPTION) HIP_CLANG_OPTIONS(OPTION) };
    static const char all[] = HIP_IDENTITY " ";
    char word[80];
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(options); i++) {
        yokei_text(word, sizeof word, " %s ", options[i]);
        ASSERT_HAS(all, word);
    }
    ASSERT_HAS(all, " -ffp-contract=off ");
    ASSERT_HAS(all, " -mllvm -disable-promote-alloca-to-lds ");
    assert_true(sizeof all <= sizeof((struct yokei_gpu_device *)0)->identity);
}

/* Both compilers are off, or are none. Each text is of another architecture, so nothing is remembered. */
static void no_compiler(void **state)
{
    char text[YOKE_REASON_BYTES], path[400];
    struct hip_compiler compiler;
    (void)state;
    setenv("YOKE_HIPRTC", "off", 1);
    setenv("YOKE_CLANG", "off", 1);
    assert_false(yokei_hip_compiler("gfx9f0", "", &compiler, text, sizeof text));
    ASSERT_HAS(text,
               "no compiler for gfx9f0: YOKE_HIPRTC=off turns hipRTC off; YOKE_CLANG=off turns clang off");
    assert_true(compiler.kind == HIP_NO_COMPILER);
    setenv("YOKE_HIPRTC", "/nowhere/libhiprtc.so", 1);
    setenv("YOKE_CLANG", "/bin/true", 1);
    assert_false(yokei_hip_compiler("gfx9f1", "", &compiler, text, sizeof text));
    ASSERT_HAS(text, "YOKE_HIPRTC names no file: /nowhere/libhiprtc.so; /bin/true is no clang 17 or newer");
    setenv("YOKE_HIPRTC", "/etc/passwd", 1); /* a file that is no library */
    setenv("YOKE_CLANG", "/nowhere/clang", 1);
    assert_false(yokei_hip_compiler("gfx9f2", test_folder, &compiler, text, sizeof text));
    ASSERT_HAS(text, "does not compile by hipRTC 0 (/etc/passwd): ");
    ASSERT_HAS(text, "; /nowhere/clang does not start");
    /* this says nothing about the architecture, so no later process shall rely on it */
    yokei_text(path, sizeof path, "%s/hiprtc-0-lacks-gfx9f2", test_folder);
    assert_int_not_equal(access(path, F_OK), 0);
    unsetenv("YOKE_HIPRTC");
    unsetenv("YOKE_CLANG");
}

/* A program that runs, fails, crashes, prints too much, does not end, or is not there. */
static void children(void **state)
{
    static const struct {
        const char *command;
        int seconds, end;
        const char *text;
    } rows[] = {
        { "echo out; echo err >&2", 60, 0, "out\nerr\n" },
        { "echo no; exit 3", 60, 3, "no\n" },
        { "echo on; kill -SEGV $$", 60, HIP_CHILD_CRASHED, "on\n" },
        { "echo on; kill -KILL $$", 60, HIP_CHILD_KILLED, "on\n" },
        { "echo late; sleep 600 & wait", 1, HIP_CHILD_LATE, "late\n" },
        { "read -r x; echo \"end $?\"", 60, 0, "end 1\n" }, /* nothing to read */
    };
    char text[64];
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        const char *const arguments[] = { "/bin/sh", "-c", rows[i].command, NULL };
        const int end = yokei_hip_child(arguments, rows[i].seconds, text, sizeof text);
        if (end != rows[i].end || strcmp(text, rows[i].text) != 0)
            fail_msg("'%s' ended with %d: '%s'", rows[i].command, end, text);
    }
    const char *const many[] = { "/bin/sh", "-c",
                                 "i=0; while [ $i -lt 50000 ]; do echo 123456789; i=$((i + 1)); done", NULL };
    assert_int_equal(yokei_hip_child(many, 120, text, sizeof text), 0);
    assert_int_equal(strlen(text), sizeof text - 1);
    const char *const none[] = { "/nowhere/program", NULL };
    assert_int_equal(yokei_hip_child(none, 60, text, sizeof text), HIP_CHILD_NOT_STARTED);
    ASSERT_HAS(text, "/nowhere/program");
}

/* Clock and temperature from the kernel's files, as far as they are there and are numbers. */
static void sensors(void **state)
{
    char root[700], text[80], command[2000];
    (void)state;
    snprintf(root, sizeof root, "%s/pci", test_folder);
    yokei_hip_sensors_at(root, "0000:C3:00.0", text, sizeof text);
    assert_string_equal(text, "");
    snprintf(command, sizeof command,
             "mkdir -p '%s/0000:c3:00.0/hwmon/hwmon4' && cd '%s/0000:c3:00.0/hwmon/hwmon4' && "
             "echo 1700000000 >freq1_input && echo 45500 >temp1_input",
             root, root);
    assert_int_equal(system(command), 0);
    yokei_hip_sensors_at(root, "0000:C3:00.0", text, sizeof text);
    assert_string_equal(text, "now at 1700 MHz, 45 C");
    snprintf(command, sizeof command, "echo none >'%s/0000:c3:00.0/hwmon/hwmon4/freq1_input'", root);
    assert_int_equal(system(command), 0);
    yokei_hip_sensors_at(root, "0000:c3:00.0", text, sizeof text);
    assert_string_equal(text, "now at 45 C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(architectures), cmocka_unit_test(short_buffers),  cmocka_unit_test(versions),
        cmocka_unit_test(makers),        cmocka_unit_test(features),       cmocka_unit_test(order),
        cmocka_unit_test(wavefronts),    cmocka_unit_test(products),       cmocka_unit_test(emulation),
        cmocka_unit_test(kfd),           cmocka_unit_test(explanations),   cmocka_unit_test(stand_ins),
        cmocka_unit_test(no_compiler),   cmocka_unit_test(sensors),        cmocka_unit_test(children),
        cmocka_unit_test(identity),      cmocka_unit_test(other_versions), cmocka_unit_test(missing_parts),
    };
    unsetenv("YOKE_EMULATE");
    return cmocka_run_group_tests_name("hip_library", tests, make_test_folder, remove_test_folder);
}

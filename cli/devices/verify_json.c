/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of yoke verify as JSON, with everything that a bug report needs. docs/NUMERICS.md documents it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "cli/devices/info.h"
#include "cli/devices/verify.h"
#include "cli/options/json_values.h"
#include "core/base/base.h"

#define SCHEMA 2

extern char **environ;

/*
 * A JSON string. JSON is UTF-8, but a driver's texts need not be. A text that was cut may end inside a
 * character.
 */
static json_t *text(const char *s)
{
    json_t *out = json_string(s);
    if (out) return out;
    char *plain = strdup(s);
    for (char *p = plain; p && *p; p++)
        if ((unsigned char)*p >= 0x80) *p = '?';
    out = plain ? json_string(plain) : json_null();
    free(plain);
    return out;
}

static json_t *text_or_null(const char *s) { return s && *s ? text(s) : json_null(); }

json_t *verify_line_json(const struct conform_line *line)
{
    char command[512];
    json_t *element = json_null();
    conform_command(line, command, sizeof command);
    if (line->has_element)
        element = json_pack("{s:o, s:[I, I, I], s:o, s:o, s:o, s:o}", "output", text(line->worst_output),
                            "index", (json_int_t)line->worst_index[0], (json_int_t)line->worst_index[1],
                            (json_int_t)line->worst_index[2], "got", cli_json_real(line->got), "wanted",
                            cli_json_real(line->wanted), "bound", cli_json_real(line->bound), "ratio",
                            cli_json_real(line->ratio));
    return json_pack("{s:o, s:s, s:o, s:s, s:i, s:i, s:o, s:o, s:I, s:i, s:o, s:o, s:s, s:o, s:o}", "op",
                     text(line->op), "dtype", yoke_dtype_name(line->dtype), "variant", text(line->variant),
                     "verdict", conform_verdict_name(line->verdict), "cases", line->n_cases, "not_offered",
                     line->n_not_offered, "ratio", cli_json_real(line->ratio), "ulp",
                     cli_json_real(line->ulp), "seed", (json_int_t)line->seed, "case", line->case_number,
                     "case_words", text(line->worst_case), "element", element, "status",
                     yoke_status_name(line->status), "reason", text_or_null(line->reason), "repeat",
                     text(command));
}

static json_t *build_info(void)
{
#ifdef __clang__
    const char *const compiler = "clang " __clang_version__;
#else
    const char *const compiler = "gcc " __VERSION__;
#endif
    struct cli_library libraries[16];
    json_t *list = json_object();
    const int n = cli_libraries(libraries, (int)YOKE_COUNT(libraries));
    for (int i = 0; i < n; i++) json_object_set_new(list, libraries[i].name, text(libraries[i].version));
    return json_pack("{s:o, s:s, s:b, s:o}", "compiler", text(compiler), "built_for",
#if defined __x86_64__
                     "x86_64",
#elif defined __aarch64__
                     "aarch64",
#else
                     "other",
#endif
#ifdef __OPTIMIZE__
                     "optimized", true,
#else
                     "optimized", false,
#endif
                     "libraries", list);
}

void cli_system_name(char *out, size_t bytes)
{
    char line[256];
    FILE *f = fopen("/etc/os-release", "re");
    out[0] = 0;
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "PRETTY_NAME=\"", 13))
            yokei_text(out, bytes, "%.*s", (int)strcspn(line + 13, "\"\n"), line + 13);
    if (f) fclose(f);
}

static json_t *host(void)
{
    struct yokei_topology t;
    struct utsname u;
    char name[128], kernel[512] = "";
    cli_system_name(name, sizeof name);
    if (!uname(&u))
        yokei_text(kernel, sizeof kernel, "%s %s %s %s", u.sysname, u.release, u.version, u.machine);
    json_t *out = json_pack("{s:o, s:o}", "os", text_or_null(name), "kernel", text_or_null(kernel));
    if (yokei_topology(&t)) {
        json_object_set_new(out, "cpu", json_null());
        return out;
    }
    json_object_set_new(out, "cpu", text(t.cpu));
    json_object_set_new(out, "cores", json_integer(t.n_cores));
    json_object_set_new(out, "hardware_threads", json_integer(t.n_processing_units));
    json_object_set_new(out, "memory_bytes", json_integer((json_int_t)t.memory_bytes));
    return out;
}

json_t *verify_types_json(uint32_t bits)
{
    json_t *list = json_array();
    for (int t = 0; t < YOKE_N_DTYPES; t++)
        if (bits & 1u << t) json_array_append_new(list, json_string(yoke_dtype_name((yoke_dtype)t)));
    return list;
}

static json_t *device(const struct verify *v)
{
    const struct yoke_device_info *d = &v->device.info;
    if (!v->device.is_open) return json_pack("{s:o, s:b}", "spec", text(v->spec), "opened", false);
    return json_pack("{s:o, s:b, s:o, s:o, s:o, s:I, s:I, s:i, s:b, s:o, s:o, s:o}", "spec", text(d->spec),
                     "opened", true, "backend", text(d->backend), "name", text(d->name), "driver",
                     text(d->driver), "memory_bytes", (json_int_t)d->memory_bytes, "max_alloc_bytes",
                     (json_int_t)d->max_alloc_bytes, "compute_units", d->compute_units, "host_visible",
                     d->host_visible, "storage", verify_types_json(d->storage), "arithmetic",
                     verify_types_json(d->arithmetic), "features", text(d->features));
}

/* The variables that change the behaviour of drivers, libraries and Yoke. */
static json_t *environment(void)
{
    static const char *const prefixes[] = {
        "YOKE_",       "POCL_",   "OMP_",           "GOMP_", "DNNL_", "ONEDNN_", "OCL_",
        "OPENCL_",     "CUDA_",   "NVIDIA_",        "HIP_",  "ROCR_", "HSA_",    "LD_LIBRARY_PATH=",
        "LD_PRELOAD=", "MALLOC_", "GLIBC_TUNABLES="
    };
    json_t *out = json_object();
    for (char **e = environ; *e; e++)
        for (size_t i = 0; i < YOKE_COUNT(prefixes); i++) {
            const char *equals = strchr(*e, '=');
            if (!equals || strncmp(*e, prefixes[i], strlen(prefixes[i]))) continue;
            char name[128];
            yokei_text(name, sizeof name, "%.*s", (int)(equals - *e), *e);
            json_object_set_new(out, name, text(equals + 1));
        }
    return out;
}

static json_t *options(const struct verify *v)
{
    const struct conform_options *o = &v->options;
    return json_pack("{s:o, s:o, s:o, s:I, s:i, s:b}", "op", text_or_null(o->op), "dtype",
                     text_or_null(o->dtype), "variant", text_or_null(o->variant), "seed",
                     (json_int_t)(o->seed ? o->seed : 1), "case", o->only_case, "full", o->full);
}

static json_t *tuning(const struct verify *v)
{
    static const char *const kinds[] = { [YOKEI_TUNING_RULES] = "built-in rules",
                                         [YOKEI_TUNING_GIVEN] = "given",
                                         [YOKEI_TUNING_USER] = "user",
                                         [YOKEI_TUNING_SHIPPED] = "shipped" };
    const struct yokei_tuning_source *t = &v->device.tuning;
    if (!v->device.is_open) return json_null();
    return json_pack("{s:s, s:o, s:o, s:i, s:i}", "from", kinds[t->kind], "file", text_or_null(t->file),
                     "made", text_or_null(t->made), "choices", t->n_choices, "left_out", t->n_skipped);
}

static const char *verdict_of(const struct verify *v, yoke_status status)
{
    if (v->summary.n_fail) return "fail";
    return status ? "error" : v->summary.n_pass ? "pass" : "nothing";
}

json_t *verify_json(const struct verify *v, yoke_status status, const char *error, json_t *lines)
{
    json_t *trouble = status
                          ? json_pack("{s:s, s:o}", "status", yoke_status_name(status), "text", text(error))
                          : json_null();
    return json_pack(
        "{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:o}",
        "schema", SCHEMA, "version", yoke_version(), "build", build_info(), "host", host(), "device",
        device(v), "tuning", tuning(v), "environment", environment(), "options", options(v), "verdict",
        verdict_of(v, status), "error", trouble, "first",
        v->first.op ? verify_line_json(&v->first) : json_null(), "pass", v->summary.n_pass, "fail",
        v->summary.n_fail, "skip", v->summary.n_skip, "left_out", v->summary.n_left_out, "cases",
        v->summary.n_cases, "crashes", v->n_crashes, "lines", lines);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuning files. They are text with one choice per line, so that a person can read and compare them:
 *
 *   yoke-tune 1 <backend> <pattern of the device's name>
 *   match <name|driver|features> <pattern>               all must match; patterns as of file names: * ? [a-z]
 *   made <Yoke's version> <hash of the variants' names> <driver>
 *   <op> <dtype or *> <least size>[,<least edge>] <variant, variant:algorithm or default>
 *
 * struct yokei_call says what "size" and "edge" are. If several lines apply to a call, a line that names the
 * type has priority, then the line with the greatest edge, then the line with the greatest size.
 * "default" is the rule that applies without a file. '#' begins a comment.
 */
#include "core/tune.h"
#include "core/base/base.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "yoke-tune"

int yokei_op_named(const char *name)
{
    for (int op = 0; op < YOKE_N_OPS; op++)
        if (!strcmp(name, yokei_op_names[op])) return op;
    return -1;
}

int yokei_variant_named(const yoke_device *device, enum yoke_op_id op, const char *name)
{
    const struct yoke_device_ops *ops = device->backend->device;
    const struct yoke_device_extras *extras = ops->extras;
    if (!ops->variant) return -1;
    const char *v, *colon = strchr(name, ':');
    const size_t n = colon ? (size_t)(colon - name) : strlen(name);
    if (colon && (!extras || !extras->detail || strlen(colon + 1) >= YOKEI_DETAIL_BYTES)) return -1;
    for (int i = 0; (v = ops->variant(device, op, i)); i++)
        if (strlen(v) == n && !strncmp(v, name, n))
            return !colon || extras->detail(device, op, i, colon + 1) ? i : -1;
    return -1;
}

/* A hash of the names of all variants of all ops, as 16 hexadecimal digits. Each file contains it. */
static void variants_version(const yoke_device *device, char out[17])
{
    uint64_t hash = 0;
    const char *v;
    for (int op = 0; op < YOKE_N_OPS; op++) {
        hash = yokei_hash(yokei_op_names[op], strlen(yokei_op_names[op]), hash);
        for (int i = 0; device->backend->device->variant
                        && (v = device->backend->device->variant(device, (enum yoke_op_id)op, i));
             i++)
            hash = yokei_hash(v, strlen(v), hash);
    }
    yokei_text(out, 17, "%016llx", (unsigned long long)hash);
}

/* The state of reading: the tuning that the file is read into, and the position in the file. */
struct reader {
    const yoke_device *device;
    struct yokei_tuning *tuning;
    const char *file;
    int line;
    bool strict;
};

/* ---- the head ---- */

static const char *field_of(const yoke_device *device, const char *name)
{
    const struct yoke_device_info *info = &device->info;
    return !strcmp(name, "name")       ? info->name
           : !strcmp(name, "driver")   ? info->driver
           : !strcmp(name, "features") ? info->features
                                       : NULL;
}

static yoke_status parse_first(const struct reader *r, const char *text)
{
    char backend[32];
    int version, taken = 0;
    if (sscanf(text, MAGIC " %d %31s %n", &version, backend, &taken) != 2 || !taken)
        return yoke_fail(YOKE_ECONFIG,
                         "%s:%d: no tuning file: it begins with '" MAGIC " %d <backend> <device name>'",
                         r->file, r->line, YOKEI_TUNING_VERSION);
    if (version != YOKEI_TUNING_VERSION)
        return yoke_fail(
            YOKE_ECONFIG,
            "%s:%d: a tuning file of version %d, this Yoke reads version %d; run yoke tune again", r->file,
            r->line, version, YOKEI_TUNING_VERSION);
    const bool other = strcmp(backend, r->device->backend->name) != 0;
    if (other || fnmatch(text + taken, r->device->info.name, 0))
        return yoke_fail(other ? YOKE_EUNSUPPORTED : YOKE_ENODEV, "%s:%d: made for %s, this device is %s %s",
                         r->file, r->line, text + strlen(MAGIC) + 3, r->device->backend->name,
                         r->device->info.name);
    return YOKE_OK;
}

static yoke_status parse_match(const struct reader *r, const char *text)
{
    char name[16];
    int taken = 0;
    const char *is = NULL;
    if (sscanf(text, "%15s %n", name, &taken) == 1 && text[taken]) is = field_of(r->device, name);
    if (!is)
        return yoke_fail(YOKE_ECONFIG, "%s:%d: write 'match name|driver|features PATTERN'", r->file, r->line);
    if (fnmatch(text + taken, is, 0))
        return yoke_fail(YOKE_ENODEV, "%s:%d: made for devices whose %s is like '%s', this one's is '%s'",
                         r->file, r->line, name, text + taken, is);
    return YOKE_OK;
}

static void parse_made(const struct reader *r, const char *text)
{
    struct yokei_tuning_source *source = &r->tuning->source;
    char version[17], now[17];
    yokei_text(source->made, sizeof source->made, "%s", text);
    variants_version(r->device, now);
    source->other_variants = sscanf(text, "%*s %16s", version) != 1 || strcmp(version, now);
}

/* ---- the choices ---- */

static yoke_status unknown_op(const struct reader *r, const char *op)
{
    const char *names[YOKE_N_OPS + 1] = { NULL };
    memcpy(names, yokei_op_names, sizeof yokei_op_names);
    const char *near = yokei_nearest(op, names);
    return yoke_fail(YOKE_ECONFIG, "%s:%d: unknown op '%s'%s%s%s", r->file, r->line, op,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* "4096" or "4096,64". */
static bool parse_measure(const char *text, double *size_out, double *edge_out)
{
    char *end;
    *edge_out = 0;
    *size_out = strtod(text, &end);
    if (end == text || !(*size_out >= 0)) return false;
    if (*end == ',') {
        const char *edge = end + 1;
        *edge_out = strtod(edge, &end);
        if (end == edge || !(*edge_out >= 0)) return false;
    }
    return !*end;
}

static yoke_status parse_choice(const struct reader *r, const char *text)
{
    struct yokei_tuning *t = r->tuning;
    char op[64], dtype[16], measure[64], variant[64 + YOKEI_DETAIL_BYTES], more[2];
    struct yokei_choice c = { .variant = YOKEI_BY_RULE, .dtype = -1 };
    if (sscanf(text, "%63s %15s %63s %191s %1s", op, dtype, measure, variant, more) != 4
        || !parse_measure(measure, &c.size, &c.edge))
        return yoke_fail(YOKE_ECONFIG, "%s:%d: a line is 'op dtype least-size[,least-edge] variant'", r->file,
                         r->line);
    const int id = yokei_op_named(op);
    if (id < 0) return unknown_op(r, op);
    c.op = (enum yoke_op_id)id;
    yoke_dtype type;
    if (strcmp(dtype, "*")) {
        if (yoke_dtype_parse(dtype, &type)) return yoke_fail_context(YOKE_ECONFIG, "%s:%d", r->file, r->line);
        c.dtype = (int)type;
    }
    if (strcmp(variant, "default")) c.variant = yokei_variant_named(r->device, c.op, variant);
    if (c.variant < 0 && strcmp(variant, "default")) {
        if (r->strict)
            return yoke_fail(YOKE_ECONFIG,
                             "%s:%d: device %s has no variant '%s' of %s; run yoke tune again on this device",
                             r->file, r->line, r->device->info.spec, variant, op);
        t->source.n_skipped++; /* from this size on the built-in rule applies, not the line before */
    }
    const char *colon = c.variant < 0 ? NULL : strchr(variant, ':');
    if (colon) yokei_text(c.detail, sizeof c.detail, "%s", colon + 1);
    struct yokei_choice *grown = realloc(t->choices, (t->n + 1) * sizeof *grown);
    if (!grown) return yoke_fail(YOKE_ENOMEM, "%s: no memory", r->file);
    t->choices = grown;
    t->choices[t->n++] = c;
    return YOKE_OK;
}

static bool begins(const char *text, const char *word)
{
    const size_t n = strlen(word);
    return !strncmp(text, word, n) && (text[n] == ' ' || text[n] == '\t');
}

yoke_status yokei_tuning_parse(const yoke_device *device, struct yokei_tuning *tuning, const char *name,
                               char *text, bool strict)
{
    struct reader r = { device, tuning, name, 0, strict };
    bool head = false;
    for (char *end, *p = text; p; p = end) {
        end = strchr(p, '\n');
        if (end) *end++ = 0;
        r.line++;
        char *comment = strchr(p, '#');
        if (comment) *comment = 0;
        p += strspn(p, " \t\r");
        for (size_t n = strlen(p); n && strchr(" \t\r", p[n - 1]);) p[--n] = 0;
        if (!*p) continue;
        if (!head)
            YOKE_TRY(parse_first(&r, p));
        else if (begins(p, "match"))
            YOKE_TRY(parse_match(&r, p + 6));
        else if (begins(p, "made"))
            parse_made(&r, p + 5);
        else
            YOKE_TRY(parse_choice(&r, p));
        head = true;
    }
    if (!head)
        return yoke_fail(YOKE_ECONFIG, "%s: empty, a tuning file begins with '" MAGIC " %d ...'", name,
                         YOKEI_TUNING_VERSION);
    tuning->source.n_choices = (int)tuning->n - tuning->source.n_skipped;
    return YOKE_OK;
}

/* ---- writing ---- */

/* Make a pattern that matches this name alone. */
static void as_pattern(const char *name, char *out, size_t bytes)
{
    size_t n = 0;
    for (; *name && n + 3 < bytes; name++) {
        if (strchr("*?[\\", *name)) out[n++] = '\\';
        out[n++] = *name == '#' || *name == '\n' ? '?' : *name;
    }
    out[n] = 0;
}

yoke_status yokei_tuning_head(const yoke_device *device, const char *const matches[], char *out, size_t bytes)
{
    char pattern[300] = "*", version[17];
    if (!matches || !matches[0]) as_pattern(device->info.name, pattern, sizeof pattern);
    yokei_text(out, bytes, MAGIC " %d %s %s\n", YOKEI_TUNING_VERSION, device->backend->name, pattern);
    for (int i = 0; matches && matches[i]; i++) {
        char field[16] = "";
        const char *equals = strchr(matches[i], '=');
        if (equals) yokei_text(field, sizeof field, "%.*s", (int)(equals - matches[i]), matches[i]);
        const char *is = field_of(device, field);
        if (!equals || !is || strpbrk(equals, "#\n"))
            return yoke_fail(
                YOKE_EINVAL,
                "match '%s': write name=PATTERN, driver=PATTERN or features=PATTERN, such as features='cpu *'",
                matches[i]);
        if (fnmatch(equals + 1, is, 0))
            return yoke_fail(YOKE_EINVAL, "match '%s': this device itself does not match: its %s is '%s'",
                             matches[i], field, is);
        yokei_text(out + strlen(out), bytes - strlen(out), "match %s %s\n", field, equals + 1);
    }
    variants_version(device, version);
    yokei_text(out + strlen(out), bytes - strlen(out), "made %s %s %s\n", yoke_version(), version,
               device->info.driver);
    return YOKE_OK;
}

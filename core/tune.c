/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuning files: text, one choice per line, so that a person can read and compare them:
 *
 *   yoke-tune 1 <backend> <device name>
 *   <op> <dtype or *> <least size> <variant>
 *
 * "size" is the op's own measure (gemm: M N K; others: elements); of the lines that match an op and a type, the one with
 * the greatest least size not above the call's size holds. '#' begins a comment.
 */
#include "core/tune.h"
#include "core/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct choice {
    enum yoke_op_id op;
    int dtype; /* -1: any */
    double least;
    int variant;
};

struct yokei_tuning {
    int forced[YOKE_N_OPS]; /* -1: not forced */
    size_t n;
    struct choice *choices;
};

static int op_named(const char *name)
{
    for (int op = 0; op < YOKE_N_OPS; op++)
        if (!strcmp(name, yokei_op_names[op])) return op;
    return -1;
}

static int variant_named(const yoke_device *device, enum yoke_op_id op, const char *name)
{
    if (!device->backend->device->variant) return -1;
    const char *v;
    for (int i = 0; (v = device->backend->device->variant(device, op, i)); i++)
        if (!strcmp(v, name)) return i;
    return -1;
}

static yoke_status parse_line(yoke_device *device, const char *file, int line, char *text, struct choice *out)
{
    char op[64], dtype[16], variant[64];
    double least;
    if (sscanf(text, "%63s %15s %lf %63s", op, dtype, &least, variant) != 4)
        return yoke_fail(YOKE_ECONFIG, "%s:%d: a line is 'op dtype least-size variant'", file, line);
    const int id = op_named(op);
    if (id < 0) {
        const char *names[YOKE_N_OPS + 1] = { NULL };
        memcpy(names, yokei_op_names, sizeof yokei_op_names);
        const char *near = yokei_nearest(op, names);
        return yoke_fail(YOKE_ECONFIG, "%s:%d: unknown op '%s'%s%s%s", file, line, op, near ? "; did you mean '" : "",
                         near ? near : "", near ? "'?" : "");
    }
    yoke_dtype type = YOKE_F32;
    if (strcmp(dtype, "*") && yoke_dtype_parse(dtype, &type))
        return yoke_fail_context(YOKE_ECONFIG, "%s:%d", file, line);
    const int v = variant_named(device, (enum yoke_op_id)id, variant);
    if (v < 0)
        return yoke_fail(YOKE_ECONFIG, "%s:%d: device %s has no variant '%s' of %s; run the tuning again on this device", file,
                         line, device->info.spec, variant, op);
    *out = (struct choice){ (enum yoke_op_id)id, strcmp(dtype, "*") ? (int)type : -1, least, v };
    return YOKE_OK;
}

static yoke_status parse(yoke_device *device, const char *file, char *text)
{
    struct yokei_tuning *t = device->tuning;
    int line = 0;
    bool header = false;
    for (char *end, *p = text; p; p = end) {
        end = strchr(p, '\n');
        if (end) *end++ = 0;
        line++;
        char *comment = strchr(p, '#');
        if (comment) *comment = 0;
        p += strspn(p, " \t\r");
        if (!*p) continue;
        if (!header) {
            char backend[32];
            int version, taken = 0;
            if (sscanf(p, "yoke-tune %d %31s %n", &version, backend, &taken) != 2 || version != 1)
                return yoke_fail(YOKE_ECONFIG, "%s:%d: not a tuning file of version 1", file, line);
            if (strcmp(backend, device->backend->name) || strncmp(p + taken, device->info.name, strlen(device->info.name)))
                return yoke_fail(YOKE_ECONFIG, "%s:%d: made for %s, this device is %s %s", file, line, p + 12,
                                 device->backend->name, device->info.name);
            header = true;
            continue;
        }
        struct choice *grown = realloc(t->choices, (t->n + 1) * sizeof *grown);
        if (!grown) return yoke_fail(YOKE_ENOMEM, "%s: no memory", file);
        t->choices = grown;
        YOKE_TRY(parse_line(device, file, line, p, &t->choices[t->n]));
        t->n++;
    }
    return header ? YOKE_OK : yoke_fail(YOKE_ECONFIG, "%s: empty, a tuning file begins with 'yoke-tune 1 ...'", file);
}

yoke_status yokei_tuning_create(yoke_device *device, const char *file)
{
    struct yokei_tuning *t = calloc(1, sizeof *t);
    if (!t) return yoke_fail(YOKE_ENOMEM, "tuning: no memory");
    for (int op = 0; op < YOKE_N_OPS; op++) t->forced[op] = -1;
    device->tuning = t;
    if (!file) return YOKE_OK;
    void *text = NULL;
    size_t bytes;
    yoke_status status = yokei_file_read(file, 1 << 20, &text, &bytes);
    if (!status) status = parse(device, file, text);
    free(text);
    if (status) yokei_tuning_destroy(device);
    return status;
}

void yokei_tuning_destroy(yoke_device *device)
{
    if (device->tuning) free(device->tuning->choices);
    free(device->tuning);
    device->tuning = NULL;
}

int yokei_variant(const yoke_device *device, enum yoke_op_id op, yoke_dtype dtype, double size, int otherwise)
{
    const struct yokei_tuning *t = device->tuning;
    if (t->forced[op] >= 0) return t->forced[op];
    int best = otherwise;
    double least = -1;
    for (size_t i = 0; i < t->n; i++) {
        const struct choice *c = &t->choices[i];
        if (c->op == op && (c->dtype < 0 || c->dtype == (int)dtype) && c->least <= size && c->least > least)
            best = c->variant, least = c->least;
    }
    return best;
}

const char *yoke_variant_name(const yoke_device *device, const char *op, int index)
{
    const int id = device && op ? op_named(op) : -1;
    if (id < 0 || index < 0 || !device->backend->device->variant) return NULL;
    return device->backend->device->variant(device, (enum yoke_op_id)id, index);
}

yoke_status yoke_variant_force(yoke_device *device, const char *op, const char *variant)
{
    const int id = device && op ? op_named(op) : -1;
    if (id < 0) return yoke_fail(YOKE_EINVAL, "yoke_variant_force: no op is called '%s'", op ? op : "(null)");
    int v = -1;
    if (variant) {
        v = variant_named(device, (enum yoke_op_id)id, variant);
        if (v < 0) return yoke_fail(YOKE_EINVAL, "yoke_variant_force: device %s has no variant '%s' of %s", device->info.spec, variant, op);
    }
    device->tuning->forced[id] = v;
    return YOKE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* From the number of an opcode to what is known of the instruction. */
#include "emulate/hip/gcn_memory_name.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/hip/gcn_opcodes_gfx1100.h"
#include "emulate/hip/gcn_opcodes_gfx90a.h"
#include "emulate/hip/gcn_opcodes_gfx942.h"
#include "emulate/hip/gcn_renamed.h"

#define COUNT(array) (sizeof array / sizeof *array)

/* The kinds of gcn_ops.h. */
enum {
    KIND_SCALAR = GCN_SCALAR,
    KIND_WORD = GCN_VECTOR,
    KIND_PAIR = GCN_VECTOR,
    KIND_CARRY = GCN_VECTOR,
    KIND_PAIR_CARRY = GCN_VECTOR,
    KIND_TEST = GCN_COMPARE,
    KIND_LANE = GCN_LANE,
    KIND_PERMUTE = GCN_PERMUTE,
    KIND_BRANCH = GCN_BRANCH,
    KIND_BARRIER = GCN_BARRIER,
    KIND_END = GCN_END,
    KIND_WAIT = GCN_WAIT,
    KIND_NOTHING = GCN_NOTHING,
    KIND_ACCESS = GCN_ACCESS,
    KIND_SCALAR_LOAD = GCN_SCALAR_LOAD,
};

/* In the order of enum gcn_op. */
static const struct gcn_known known[] = {
#define OP(name, signature, kind, ...) { #name, signature, KIND_##kind, GCN_OP_##name },
#include "emulate/hip/gcn_ops.h"
#undef OP
};

/* What one number of an architecture means. */
struct meaning {
    const struct gcn_known *known;
    const char *name;
};
enum { NUMBERS = 1024 };
static struct meaning meanings[GCN_ARCHS][GCN_FORMATS][NUMBERS];
static const struct gcn_known *sorted[GCN_OPS];

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct gcn_known *const *)a)->name, (*(const struct gcn_known *const *)b)->name);
}

static const struct gcn_known *find(const char *name)
{
    const struct gcn_known key = { .name = name }, *const at = &key;
    const struct gcn_known *const *found = bsearch(&at, sorted, GCN_OPS, sizeof *sorted, by_name);
    return found ? *found : NULL;
}

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

const char *gcn_renamed_from(const char *name)
{
    for (size_t i = 0; i < COUNT(gcn_renamed); i++)
        if (!strcmp(gcn_renamed[i][0], name)) return gcn_renamed[i][1];
    return name;
}

/* GFX9 has these instructions for 64 lanes alone, so gcn_renamed.h does not know them for 32. */
static const char *logic_name(const char *name, char text[64])
{
    static const char *const parts[][2] = { { "_and_not1_", "_andn2_" },
                                            { "_or_not1_", "_orn2_" },
                                            { "_and_not0_", "_andn1_" },
                                            { "_or_not0_", "_orn1_" } };
    for (size_t i = 0; i < COUNT(parts); i++) {
        const char *at = strstr(name, parts[i][0]);
        if (!at) continue;
        snprintf(text, 64, "%.*s%s%s", (int)(at - name), name, parts[i][1], at + strlen(parts[i][0]));
        return text;
    }
    return name;
}

/* The name that gcn_ops.h uses. */
static const char *old_name(const char *name, char text[64])
{
    if (find(name)) return name;
    name = gcn_renamed_from(name);
    /* v_cmpx and the halves of a dual instruction are marked elsewhere */
    const char *rest = begins(name, "v_cmpx_") ? name + 7 : begins(name, "v_dual_") ? name + 7 : NULL;
    if (!rest || strlen(rest) > 40) return logic_name(name, text);
    strcpy(text, begins(name, "v_cmpx_") ? "v_cmp_" : "v_");
    strcat(text, rest);
    return find(text) ? text : gcn_renamed_from(text);
}

static const struct gcn_known *meaning_of(enum gcn_format format, const char *name)
{
    char text[64];
    const struct gcn_known *found = find(old_name(name, text));
    if (found) return found;
    if (format == GCN_SMEM && begins(name, "s_load_")) return &known[GCN_OP_s_load];
    if (format == GCN_DS || format == GCN_FLAT || format == GCN_GLOBAL || format == GCN_SCRATCH
        || format == GCN_MUBUF)
        return &known[GCN_OP_access]; /* gcn_memory_name.c refuses a name that it does not know */
    return NULL;
}

static void enter(enum gcn_arch arch, const struct gcn_opcode *opcodes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct gcn_opcode *o = &opcodes[i];
        if (o->number >= NUMBERS) continue;
        meanings[arch][o->format][o->number] = (struct meaning){
            meaning_of((enum gcn_format)o->format, o->name), o->name
        };
    }
}

static void make(void)
{
    for (size_t i = 0; i < GCN_OPS; i++) sorted[i] = &known[i];
    qsort(sorted, GCN_OPS, sizeof *sorted, by_name);
    enter(GCN_GFX90A, gcn_opcodes_gfx90a, COUNT(gcn_opcodes_gfx90a));
    enter(GCN_GFX942, gcn_opcodes_gfx942, COUNT(gcn_opcodes_gfx942));
    enter(GCN_GFX1100, gcn_opcodes_gfx1100, COUNT(gcn_opcodes_gfx1100));
}

const struct gcn_known *gcn_look_up(enum gcn_arch arch, enum gcn_format format, uint32_t number,
                                    const char **name_out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make);
    if (number >= NUMBERS) return *name_out = NULL, NULL;
    const struct meaning *m = &meanings[arch][format][number];
    *name_out = m->name;
    return m->known;
}

const struct gcn_description *gcn_describe(enum gcn_arch arch)
{
    static const struct gcn_description all[GCN_ARCHS] = {
        [GCN_GFX90A] = { .is_11 = false, .has_sve = false, .lanes = 64, .m0 = 124 },
        [GCN_GFX942] = { .is_11 = false, .has_sve = true, .lanes = 64, .m0 = 124 },
        [GCN_GFX1100] = { .is_11 = true, .has_sve = true, .lanes = 32, .m0 = 125 },
    };
    return &all[arch];
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata of a code object: which kernels it has and where their arguments lie. LLVM's "User Guide for
 * AMDGPU Backend", sections "Code Object V4 Metadata" and "Code Object V5 Metadata".
 */
#include "emulate/hip/gcn_read.h"

#include <stdio.h>
#include <stdlib.h>

/* More kernels than any object of Yoke has, so that a torn count asks for no memory. */
enum { MOST_KERNELS = 1 << 16, MOST_ARGUMENTS = 1 << 12 };

/* A key of a map. Keys without a place are known and not needed. */
struct key {
    const char *name;
    enum { IGNORED, NUMBER, TEXT, NUMBERS3, MEMBERS } kind;
};

struct text {
    const char *at;
    uint32_t bytes;
};

/* The value of a key: numbers, a text, or the bytes that begin with an array. */
struct value {
    bool given;
    uint64_t number[3];
    struct text text;
    struct gcn_bytes members;
};

static bool is(const struct text *text, const char *word)
{
    return text->bytes == strlen(word) && !memcmp(text->at, word, text->bytes);
}

static bool read_value(struct gcn_bytes *b, int kind, struct value *v)
{
    uint32_t n;
    v->given = true;
    if (kind == NUMBER) return gcn_msgpack_number(b, &v->number[0]);
    if (kind == TEXT) return gcn_msgpack_text(b, &v->text.at, &v->text.bytes);
    if (kind == NUMBERS3) {
        if (!gcn_msgpack_array(b, &n) || n > 3) return false;
        for (uint32_t i = 0; i < n; i++)
            if (!gcn_msgpack_number(b, &v->number[i])) return false;
        return true;
    }
    v->members = *b;
    return gcn_msgpack_skip(b);
}

/* A map of which all keys are in the list `keys`, which ends with a NULL name. */
static bool read_map(struct gcn_bytes *b, const struct key *keys, struct value *values, const char *what,
                     char *reason)
{
    uint32_t pairs;
    if (!gcn_msgpack_map(b, &pairs)) return gcn_refuse(reason, "the metadata of %s are torn", what);
    while (pairs--) {
        struct text name;
        int k = 0;
        if (!gcn_msgpack_text(b, &name.at, &name.bytes))
            return gcn_refuse(reason, "the metadata of %s are torn", what);
        while (keys[k].name && !is(&name, keys[k].name)) k++;
        if (!keys[k].name)
            return gcn_refuse(reason, "the metadata of %s have the key '%.*s', which is not known", what,
                              (int)(name.bytes < 64 ? name.bytes : 64), name.at);
        if (values[k].given)
            return gcn_refuse(reason, "the metadata of %s have %s twice", what, keys[k].name);
        if (!read_value(b, keys[k].kind, &values[k]))
            return gcn_refuse(reason, "%s in the metadata of %s is torn", keys[k].name, what);
    }
    return true;
}

/* ---- arguments ---- */

static const char *const kinds[GCN_ARGUMENT_KINDS] = {
    "by_value",
    "global_buffer",
    "hidden_none",
    "hidden_global_offset_x",
    "hidden_global_offset_y",
    "hidden_global_offset_z",
    "hidden_block_count_x",
    "hidden_block_count_y",
    "hidden_block_count_z",
    "hidden_group_size_x",
    "hidden_group_size_y",
    "hidden_group_size_z",
    "hidden_remainder_x",
    "hidden_remainder_y",
    "hidden_remainder_z",
    "hidden_grid_dims",
    "hidden_dynamic_lds_size",
};

static bool read_argument(struct gcn_bytes *b, const char *kernel, struct gcn_argument *argument,
                          char *reason)
{
    enum { OFFSET, SIZE, VALUE_KIND, N = 16 };
    static const struct key keys[] = {
        { ".offset", NUMBER },         { ".size", NUMBER },         { ".value_kind", TEXT },
        { ".name", IGNORED },          { ".type_name", IGNORED },   { ".value_type", IGNORED },
        { ".address_space", IGNORED }, { ".access", IGNORED },      { ".actual_access", IGNORED },
        { ".is_const", IGNORED },      { ".is_restrict", IGNORED }, { ".is_volatile", IGNORED },
        { ".pointee_align", IGNORED }, { ".is_pipe", IGNORED },     { NULL, IGNORED },
    };
    struct value values[N] = { 0 };
    if (!read_map(b, keys, values, kernel, reason)) return false;
    if (!values[OFFSET].given || !values[SIZE].given || !values[VALUE_KIND].given)
        return gcn_refuse(reason, "an argument of kernel %s has no offset, size or kind", kernel);
    const struct text *kind = &values[VALUE_KIND].text;
    int k = 0;
    while (k < GCN_ARGUMENT_KINDS && !is(kind, kinds[k])) k++;
    if (k == GCN_ARGUMENT_KINDS)
        return gcn_refuse(reason, "kernel %s has an argument of kind '%.*s', which is not supported", kernel,
                          (int)(kind->bytes < 64 ? kind->bytes : 64), kind->at);
    if (values[OFFSET].number[0] > UINT16_MAX || values[SIZE].number[0] > UINT16_MAX)
        return gcn_refuse(reason, "an argument of kernel %s lies at offset %llu and has %llu bytes", kernel,
                          (unsigned long long)values[OFFSET].number[0],
                          (unsigned long long)values[SIZE].number[0]);
    *argument = (struct gcn_argument){ (uint32_t)values[OFFSET].number[0], (uint32_t)values[SIZE].number[0],
                                       (enum gcn_argument_kind)k };
    return true;
}

static bool read_arguments(struct gcn_bytes b, struct gcn_entry *entry, char *reason)
{
    uint32_t n, end = 0;
    if (!gcn_msgpack_array(&b, &n) || n > MOST_ARGUMENTS)
        return gcn_refuse(reason, "the arguments of kernel %s are torn", entry->name);
    entry->arguments = calloc(n ? n : 1, sizeof *entry->arguments);
    if (!entry->arguments) return gcn_refuse(reason, "no memory for the arguments of a kernel");
    for (; entry->n_arguments < (int)n; entry->n_arguments++) {
        struct gcn_argument *a = &entry->arguments[entry->n_arguments];
        if (!read_argument(&b, entry->name, a, reason)) return false;
        if (a->offset < end || a->offset + a->bytes > entry->argument_bytes)
            return gcn_refuse(
                reason,
                "argument %d of kernel %s, of %u bytes at offset %u, overlaps the one before or "
                "leaves the %u bytes of all arguments",
                entry->n_arguments, entry->name, a->bytes, a->offset, entry->argument_bytes);
        end = a->offset + a->bytes;
    }
    return true;
}

/* ---- kernels ---- */

static char *copy_of(const struct text *text)
{
    /* A name with a zero byte inside would name another symbol than it says. */
    return text->bytes && !memchr(text->at, 0, text->bytes) ? strndup(text->at, text->bytes) : NULL;
}

static bool small(const struct value *v, uint32_t most, uint32_t *out)
{
    *out = (uint32_t)v->number[0];
    return v->number[0] <= most;
}

/* Of kernel_keys: those that are read. */
enum { NAME, SYMBOL, ARGUMENT_BYTES, ARGUMENT_ALIGN, SHARED, SCRATCH, WAVE, SGPRS, VGPRS, MOST, REQUIRED };
enum { ARGUMENTS = REQUIRED + 1, KERNEL_KEYS = 32 };
static const struct key kernel_keys[] = {
    { ".name", TEXT },
    { ".symbol", TEXT },
    { ".kernarg_segment_size", NUMBER },
    { ".kernarg_segment_align", NUMBER },
    { ".group_segment_fixed_size", NUMBER },
    { ".private_segment_fixed_size", NUMBER },
    { ".wavefront_size", NUMBER },
    { ".sgpr_count", NUMBER },
    { ".vgpr_count", NUMBER },
    { ".max_flat_workgroup_size", NUMBER },
    { ".reqd_workgroup_size", NUMBERS3 },
    { ".args", MEMBERS },
    { ".agpr_count", IGNORED },
    { ".sgpr_spill_count", IGNORED },
    { ".vgpr_spill_count", IGNORED },
    { ".language", IGNORED },
    { ".language_version", IGNORED },
    { ".kind", IGNORED },
    { ".workgroup_size_hint", IGNORED },
    { ".vec_type_hint", IGNORED },
    { ".uses_dynamic_stack", IGNORED },
    { ".uniform_work_group_size", IGNORED },
    { ".workgroup_processor_mode", IGNORED },
    { NULL, IGNORED },
};

static bool read_kernel(struct gcn_bytes *b, struct gcn_entry *entry, char **symbol, char *reason)
{
    struct value v[KERNEL_KEYS] = { 0 };
    if (!read_map(b, kernel_keys, v, "a kernel", reason)) return false;
    for (int i = NAME; i <= MOST; i++)
        if (!v[i].given) return gcn_refuse(reason, "a kernel's metadata have no %s", kernel_keys[i].name);
    entry->name = copy_of(&v[NAME].text);
    *symbol = copy_of(&v[SYMBOL].text);
    if (!entry->name || !*symbol)
        return gcn_refuse(reason, "a kernel has no name, or there is no memory for it");
    if (!small(&v[ARGUMENT_BYTES], UINT16_MAX, &entry->argument_bytes)
        || !small(&v[ARGUMENT_ALIGN], 4096, &entry->argument_align)
        || !small(&v[SHARED], 1 << 20, &entry->shared_bytes)
        || !small(&v[SCRATCH], 1 << 24, &entry->scratch_bytes) || !small(&v[WAVE], 64, &entry->wave)
        || !small(&v[SGPRS], 1024, &entry->n_sgprs) || !small(&v[VGPRS], 1024, &entry->n_vgprs)
        || !small(&v[MOST], 1024, &entry->max_threads))
        return gcn_refuse(reason, "kernel %s asks for more than any device has", entry->name);
    for (int i = 0; i < 3; i++) {
        if (v[REQUIRED].number[i] > 1024)
            return gcn_refuse(reason, "kernel %s asks for more than any device has", entry->name);
        entry->required[i] = (uint32_t)v[REQUIRED].number[i];
    }
    return !v[ARGUMENTS].given || read_arguments(v[ARGUMENTS].members, entry, reason);
}

static bool read_kernels(struct gcn_bytes b, struct gcn_object *object, char ***symbols_out, char *reason)
{
    uint32_t n;
    if (!gcn_msgpack_array(&b, &n) || n > MOST_KERNELS)
        return gcn_refuse(reason, "the list of kernels in the metadata is torn");
    object->entries = calloc(n ? n : 1, sizeof *object->entries);
    char **symbols = *symbols_out = calloc(n ? n : 1, sizeof *symbols);
    if (!object->entries || !symbols) return gcn_refuse(reason, "no memory for %u kernels", n);
    for (uint32_t i = 0; i < n; i++) {
        object->n_entries++;
        if (!read_kernel(&b, &object->entries[i], &symbols[i], reason)) return false;
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(object->entries[j].name, object->entries[i].name))
                return gcn_refuse(reason, "the metadata name kernel %s twice", object->entries[i].name);
    }
    return true;
}

bool gcn_metadata_read(struct gcn_bytes note, struct gcn_object *object, char ***symbols_out, char *reason)
{
    enum { VERSION, TARGET, KERNELS };
    static const struct key keys[] = { { "amdhsa.version", NUMBERS3 },
                                       { "amdhsa.target", TEXT },
                                       { "amdhsa.kernels", MEMBERS },
                                       { "amdhsa.printf", IGNORED },
                                       { NULL, IGNORED } };
    struct value v[4] = { 0 };
    if (!read_map(&note, keys, v, "the code object", reason)) return false;
    if (!v[VERSION].given || !v[KERNELS].given || !v[TARGET].given)
        return gcn_refuse(reason, "the metadata have no version, target or kernels");
    if (v[VERSION].number[0] != 1 || v[VERSION].number[1] != (uint64_t)object->version - 3)
        return gcn_refuse(reason, "the metadata have version %llu.%llu in a code object of version %d",
                          (unsigned long long)v[VERSION].number[0], (unsigned long long)v[VERSION].number[1],
                          object->version);
    const char *triple = "amdgcn-amd-amdhsa--";
    char target[64] = "";
    if (v[TARGET].text.bytes < sizeof target) memcpy(target, v[TARGET].text.at, v[TARGET].text.bytes);
    if (strncmp(target, triple, strlen(triple)) || gcn_arch_of(target + strlen(triple)) != object->arch)
        return gcn_refuse(reason, "the metadata are for '%s', the file's header is for %s", target,
                          gcn_arch_name(object->arch));
    return read_kernels(v[KERNELS].members, object, symbols_out, reason);
}

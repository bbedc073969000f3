/* SPDX-License-Identifier: Apache-2.0 */
/* Read a checkpoint. All its data is checked before it is used, and all problems are reported together. */
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/busy.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/shards.h"

static bool is_shard(const char *name)
{
    size_t n = strlen(name), end = sizeof ".safetensors" - 1;
    return n > end && strcmp(name + n - end, ".safetensors") == 0;
}

static bool hash_is(uint64_t hash, const char *text)
{
    char have[20];
    yokei_hash_text(hash, have);
    return strcmp(have, text) == 0;
}

static const char *file_name(const struct yokei_tensor *t)
{
    const char *slash = strrchr(t->file, '/');
    return slash ? slash + 1 : t->file;
}

/*
 * Check one file of the manifest: it exists, has the right size, and its header (or all of it) is unchanged.
 * Shards stay open.
 */
static yoke_status check_file(struct yokei_checkpoint *c, const struct yokei_saved_file *f,
                              struct yokei_problems *bad)
{
    char path[4200];
    struct yokei_map map;
    yokei_text(path, sizeof path, "%s/%s", c->path, f->name);
    yoke_status status = yokei_map_open(path, YOKE_EDATA, &map);
    if (status == YOKE_EDATA) yokei_problem(bad, "%s is missing", f->name);
    if (status) return status == YOKE_EDATA ? YOKE_OK : status;
    bool good = (int64_t)map.bytes == f->bytes;
    if (!good)
        yokei_problem(bad, "%s has %zu bytes, but there were %lld", f->name, map.bytes, (long long)f->bytes);
    if (good && !is_shard(f->name)) good = hash_is(yokei_hash(map.data, map.bytes, 0), f->xxh3);
    /* The length in front of a header may be damaged too, so its limit is checked before it is used. */
    else if (good) {
        uint64_t length = yokei_shard_header_bytes(&map);
        good = length && hash_is(yokei_hash(map.data, length, 0), f->xxh3);
    }
    if (!good && (int64_t)map.bytes == f->bytes)
        yokei_problem(bad, "%s: its %s is not as it was written", f->name,
                      is_shard(f->name) ? "header" : "text");
    yokei_map_close(&map);
    if (!good || !is_shard(f->name)) return YOKE_OK;
    status = yokei_safetensors_file_open(path, YOKEI_SAFETENSORS_NO_HASH, &c->files[c->n_files]);
    if (!status) c->n_files++;
    if (status == YOKE_EDATA) yokei_problem(bad, "%s", yoke_last_error());
    return status == YOKE_EDATA ? YOKE_OK : status;
}

static const struct yokei_tensor *find(const struct yokei_checkpoint *c, const char *name)
{
    for (size_t f = 0; f < c->n_files; f++)
        for (size_t i = 0; i < c->files[f].n_tensors; i++)
            if (strcmp(c->files[f].tensors[i].name, name) == 0) return &c->files[f].tensors[i];
    return NULL;
}

const struct yokei_tensor *yokei_checkpoint_tensor(const struct yokei_checkpoint *c, const char *name,
                                                   enum yoke_tensor_kind kind)
{
    char whole[256];
    yokei_text(whole, sizeof whole, "%s%s", name, yokei_saved_suffix(kind));
    return find(c, whole);
}

/*
 * Check that every tensor of the manifest is in its file with its checksum. Files that could not be opened
 * were reported before.
 */
static void check_tensors(const struct yokei_checkpoint *c, unsigned flags, struct yokei_problems *bad)
{
    double done = 0, total = 0;
    for (size_t f = 0; f < c->n_files; f++)
        for (size_t i = 0; i < c->files[f].n_tensors; i++) total += (double)c->files[f].tensors[i].bytes;
    for (int64_t i = 0; i < c->manifest.n_tensors; i++) {
        const struct yokei_saved_tensor *saved = &c->manifest.tensors[i];
        const struct yokei_tensor *t = find(c, saved->name);
        if (!t || strcmp(file_name(t), saved->file)) continue; /* it is missing: check_model reports it */
        yokei_busy_at(done, total);
        done += (double)t->bytes;
        if (!(flags & YOKEI_SAFETENSORS_NO_HASH) && !hash_is(yokei_hash(t->data, t->bytes, 0), saved->xxh3))
            yokei_problem(bad, "tensor %s in %s is damaged: its checksum is not %s", saved->name, saved->file,
                          saved->xxh3);
    }
}

/* Whether the manifest has a tensor of that name in a file that could not be opened. */
static bool is_unreadable(const struct yokei_checkpoint *c, const char *name)
{
    for (int64_t i = 0; i < c->manifest.n_tensors; i++) {
        if (strcmp(c->manifest.tensors[i].name, name)) continue;
        for (size_t f = 0; f < c->n_files; f++) {
            const char *slash = strrchr(c->files[f].path, '/');
            if (strcmp(slash ? slash + 1 : c->files[f].path, c->manifest.tensors[i].file) == 0) return false;
        }
        return true;
    }
    return false;
}

static void check_one(const struct yokei_checkpoint *c, const struct yokei_weight *want, const char *name,
                      struct yokei_problems *bad, int64_t *n_found)
{
    const struct yokei_tensor *t = find(c, name);
    if (!t) {
        if (is_unreadable(c, name))
            yokei_problem(bad, "tensor %s cannot be read", name);
        else
            yokei_problem(bad, "tensor %s is missing", name);
        return;
    }
    (*n_found)++;
    bool same = t->n_dims == want->n_dims;
    for (int d = 0; same && d < want->n_dims; d++) same = t->shape[d] == want->shape[d];
    char have[200], need[200];
    yokei_shape_text(t->n_dims, t->shape, have, sizeof have);
    yokei_shape_text(want->n_dims, want->shape, need, sizeof need);
    if (!same)
        yokei_problem(bad, "tensor %s has shape %s; the model needs %s", name, have, need);
    else if (t->dtype != YOKE_F32)
        yokei_problem(bad, "tensor %s is %s; F32 is wanted", name, t->type);
}

/* Whether `name` is a tensor of the model or one of its moments. */
static bool is_wanted(struct yokei_model model, const char *name)
{
    static const enum yoke_tensor_kind kinds[] = { YOKE_TENSOR_WEIGHT, YOKE_TENSOR_MOMENT1,
                                                   YOKE_TENSOR_MOMENT2 };
    struct yokei_weight want;
    char whole[256];
    for (int64_t i = 0; i < yokei_model_n_tensors(model); i++)
        for (size_t k = 0; k < YOKE_COUNT(kinds) && !yokei_model_tensor(model, i, &want); k++) {
            yokei_text(whole, sizeof whole, "%s%s", want.name, yokei_saved_suffix(kinds[k]));
            if (strcmp(whole, name) == 0) return true;
        }
    return false;
}

/*
 * Check that the checkpoint has all weights and moments of the plan's model, with their shapes, and no other
 * tensor.
 */
static yoke_status check_model(const struct yokei_checkpoint *c, struct yokei_problems *bad)
{
    static const enum yoke_tensor_kind kinds[] = { YOKE_TENSOR_WEIGHT, YOKE_TENSOR_MOMENT1,
                                                   YOKE_TENSOR_MOMENT2 };
    const struct yokei_model model = yokei_plan_model(&c->manifest.plan);
    int64_t n_found = 0, n_there = 0;
    for (int64_t i = 0; i < yokei_model_n_tensors(model); i++) {
        struct yokei_weight want;
        YOKE_TRY(yokei_model_tensor(model, i, &want));
        for (size_t k = 0; k < YOKE_COUNT(kinds); k++) {
            char name[256];
            yokei_text(name, sizeof name, "%s%s", want.name, yokei_saved_suffix(kinds[k]));
            check_one(c, &want, name, bad, &n_found);
        }
    }
    for (size_t f = 0; f < c->n_files; f++) n_there += (int64_t)c->files[f].n_tensors;
    for (size_t f = 0; f < c->n_files && n_there > n_found; f++)
        for (size_t i = 0; i < c->files[f].n_tensors; i++)
            if (!is_wanted(model, c->files[f].tensors[i].name))
                yokei_problem(bad, "tensor %s in %s does not belong to the model",
                              c->files[f].tensors[i].name, file_name(&c->files[f].tensors[i]));
    return YOKE_OK;
}

yoke_status yokei_checkpoint_open(const char *folder, unsigned flags,
                                  struct yokei_checkpoint **checkpoint_out)
{
    struct yokei_problems *bad = calloc(1, sizeof *bad);
    struct yokei_checkpoint *c = calloc(1, sizeof *c);
    yoke_status status = c && bad ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "%s: no host memory", folder);
    if (!status) {
        yokei_text(c->path, sizeof c->path, "%s", folder);
        status = yokei_manifest_read(folder, &c->manifest);
    }
    if (!status) {
        c->files = calloc((size_t)c->manifest.n_files + 1, sizeof *c->files);
        if (!c->files) status = yoke_fail(YOKE_ENOMEM, "%s: no host memory", folder);
    }
    for (int64_t i = 0; !status && i < c->manifest.n_files; i++)
        status = check_file(c, &c->manifest.files[i], bad);
    if (!status) {
        yokei_busy_begin("checking %s", folder);
        check_tensors(c, flags, bad);
        yokei_busy_end();
        status = check_model(c, bad);
    }
    if (!status) status = yokei_problems_end(bad, folder);
    free(bad);
    if (status)
        yokei_checkpoint_close(c);
    else
        *checkpoint_out = c;
    return status;
}

void yokei_checkpoint_close(struct yokei_checkpoint *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->n_files; i++) yokei_safetensors_file_close(&c->files[i]);
    free(c->files);
    yokei_manifest_free(&c->manifest);
    free(c);
}

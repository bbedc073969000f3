/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write a checkpoint. Every rank writes its shards, piece by piece. Then rank 0 writes the other files and
 * renames the folder.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/shards.h"

static const enum yoke_tensor_kind WEIGHTS[] = { YOKE_TENSOR_WEIGHT },
                                   MOMENTS[] = { YOKE_TENSOR_MOMENT1, YOKE_TENSOR_MOMENT2 };
/** The two families of shards: weights and moments. */
static const struct family {
    const char *name;
    const enum yoke_tensor_kind *kinds;
    int n_kinds;
} FAMILIES[] = { { "model", WEIGHTS, 1 }, { "optimizer", MOMENTS, 2 } };

static const yoke_dtype SAVED_TYPE = YOKE_F32; /* of all tensors, in every precision of a run */

size_t yokei_checkpoint_bytes_per_parameter(void)
{
    size_t bytes = 0;
    for (size_t f = 0; f < YOKE_COUNT(FAMILIES); f++)
        bytes += (size_t)FAMILIES[f].n_kinds * yoke_dtype_bytes(SAVED_TYPE);
    return bytes;
}

/* The number of this rank's shard. Only ranks that own a tensor are numbered; 0: this rank owns none. */
static int shard_of(const struct yokei_save *save, int rank, int *n_shards_out)
{
    int shard = 0, n = 0;
    bool owns = false;
    for (int r = 0, more = 1; more; r++) {
        more = 0;
        bool any = false;
        for (int i = 0; i < save->n_items; i++) {
            any = any || save->items[i].owner == r;
            more = more || save->items[i].owner > r;
        }
        n += any;
        if (r == rank) owns = any, shard = n;
    }
    *n_shards_out = n;
    return owns ? shard : 0;
}

static void shard_name(const struct family *family, int shard, int n_shards, char *out, size_t bytes)
{
    yokei_text(out, bytes, "%s-%05d-of-%05d.safetensors", family->name, shard, n_shards);
}

static int64_t count_of(const struct yoke_parameter *p)
{
    int64_t n = 1;
    for (int d = 0; d < p->n_dims; d++) n *= p->shape[d];
    return n;
}

/* Create the file of a shard and announce its tensors. */
static yoke_status open_shard(const struct yokei_save *save, const struct family *family,
                              const char *temporary, struct yokei_safetensors_writer **writer_out)
{
    static const struct yokei_metadata metadata = { "format",
                                                    "pt" }; /* Hugging Face's readers look for this */
    size_t n = 0, most = (size_t)save->n_items * (size_t)family->n_kinds;
    struct yokei_tensor *tensors = calloc(most + 1, sizeof *tensors);
    char(*names)[sizeof((struct yokei_saved_tensor *)0)->name] = calloc(most + 1, sizeof *names);
    yoke_status status = tensors && names
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "saving: no host memory for a list of tensors");
    for (int i = 0; i < save->n_items && !status; i++) {
        const struct yoke_parameter *p = save->items[i].parameter;
        for (int k = 0; k < family->n_kinds && save->items[i].owner == save->rank; k++, n++) {
            yokei_text(names[n], sizeof names[n], "%s%s", p->name, yokei_saved_suffix(family->kinds[k]));
            tensors[n] = (struct yokei_tensor){ .name = names[n], .dtype = SAVED_TYPE, .n_dims = p->n_dims };
            memcpy(tensors[n].shape, p->shape, sizeof p->shape);
        }
    }
    char path[4200], file[64];
    int n_shards, shard = shard_of(save, save->rank, &n_shards);
    shard_name(family, shard, n_shards, file, sizeof file);
    yokei_text(path, sizeof path, "%s/%s", temporary, file);
    *writer_out = NULL;
    if (!status && n) status = yokei_safetensors_create(path, tensors, n, &metadata, 1, writer_out);
    free(tensors);
    free(names);
    return status;
}

/*
 * Write all pieces of a family. Every rank asks for the pieces of spread tensors in the same order, also
 * after an earlier error on this rank, because the other ranks wait for these pieces. If `get` itself fails,
 * the function ends, because then no rank waits.
 */
static yoke_status write_family(const struct yokei_save *save, const struct family *family,
                                const char *temporary, float *piece)
{
    struct yokei_safetensors_writer *writer = NULL;
    yoke_status bad = open_shard(save, family, temporary, &writer);
    char why[1024] = "";
    if (bad) yokei_text(why, sizeof why, "%s", yoke_last_error());
    for (int i = 0; i < save->n_items; i++) {
        const struct yokei_save_item *item = &save->items[i];
        const bool mine = item->owner == save->rank;
        const int64_t count = count_of(item->parameter);
        if (!item->spread && (!mine || bad)) continue;
        for (int k = 0; k < family->n_kinds; k++)
            for (int64_t first = 0; first < count; first += YOKEI_PIECE) {
                const int64_t n = YOKE_MIN(count - first, (int64_t)YOKEI_PIECE);
                const yoke_status got = save->get(save->context, item, family->kinds[k], first, n, piece);
                if (got) {
                    yokei_safetensors_abandon(writer);
                    return got;
                }
                if (!mine || bad) continue;
                bad = yokei_safetensors_write(writer, piece, (size_t)n * sizeof *piece);
                if (bad) yokei_text(why, sizeof why, "%s", yoke_last_error());
            }
    }
    if (bad) {
        yokei_safetensors_abandon(writer);
        return yoke_fail(bad, "%s", why);
    }
    return writer ? yokei_safetensors_commit(writer) : YOKE_OK;
}

static yoke_status write_shards(const struct yokei_save *save, const char *temporary)
{
    float *piece = malloc(YOKEI_PIECE * sizeof *piece);
    if (!piece) return yoke_fail(YOKE_ENOMEM, "saving: no host memory");
    yoke_status status = YOKE_OK;
    for (size_t f = 0; f < YOKE_COUNT(FAMILIES) && !status; f++)
        status = write_family(save, &FAMILIES[f], temporary, piece);
    free(piece);
    return status;
}

/* ---- rank 0: the results of the shards ---- */

static yoke_status note_file(struct yokei_manifest *m, const char *name, size_t bytes, uint64_t hash)
{
    struct yokei_saved_file *grown = realloc(m->files, (size_t)(m->n_files + 1) * sizeof *grown);
    if (!grown) return yoke_fail(YOKE_ENOMEM, "saving: no host memory for a list of files");
    m->files = grown;
    struct yokei_saved_file *f = &grown[m->n_files++];
    memset(f, 0, sizeof *f);
    yokei_text(f->name, sizeof f->name, "%s", name);
    f->bytes = (int64_t)bytes;
    yokei_hash_text(hash, f->xxh3);
    return YOKE_OK;
}

/*
 * Read header and checksums from the file as rank 0 sees it. This also shows that the file is visible to rank
 * 0.
 */
static yoke_status note_shard(const struct yokei_save *save, const char *temporary, const char *name,
                              json_t *map, uint64_t *total)
{
    struct yokei_manifest *m = save->manifest;
    struct yokei_safetensors_file file;
    char path[4200];
    yokei_text(path, sizeof path, "%s/%s", temporary, name);
    yoke_status status = yokei_safetensors_file_open(path, YOKEI_SAFETENSORS_NO_HASH, &file);
    if (status)
        return yoke_fail_context(
            status, "rank 0 cannot read a shard; %s must be a folder that all ranks share", save->dir);
    status = note_file(m, name, file.map.bytes,
                       yokei_hash(file.map.data, yokei_shard_header_bytes(&file.map), 0));
    struct yokei_saved_tensor *grown = status ? NULL
                                              : realloc(m->tensors, ((size_t)m->n_tensors + file.n_tensors)
                                                                        * sizeof *grown);
    if (!status && !grown) status = yoke_fail(YOKE_ENOMEM, "saving: no host memory for a list of tensors");
    if (grown) m->tensors = grown;
    for (size_t i = 0; i < file.n_tensors && !status; i++) {
        struct yokei_saved_tensor *t = &m->tensors[m->n_tensors++];
        char key[sizeof YOKEI_SAFETENSORS_HASH_PREFIX + YOKEI_SAFETENSORS_MAX_NAME];
        memset(t, 0, sizeof *t);
        yokei_text(t->name, sizeof t->name, "%s", file.tensors[i].name);
        yokei_text(t->file, sizeof t->file, "%s", name);
        yokei_text(key, sizeof key, "%s%s", YOKEI_SAFETENSORS_HASH_PREFIX, t->name);
        const char *hash = json_string_value(
            json_object_get(json_object_get(file.root, "__metadata__"), key));
        if (!hash)
            status = yoke_fail(YOKE_EINTERNAL, "%s: tensor %s has no checksum", path, t->name);
        else
            yokei_text(t->xxh3, sizeof t->xxh3, "%s", hash);
        if (map) json_object_set_new(map, t->name, json_string(name)), *total += file.tensors[i].bytes;
    }
    yokei_safetensors_file_close(&file);
    return status;
}

/* Add the entry of a small file that rank 0 wrote. */
static yoke_status note_small(struct yokei_manifest *m, const char *temporary, const char *name)
{
    char path[4200];
    void *data;
    size_t bytes;
    yokei_text(path, sizeof path, "%s/%s", temporary, name);
    YOKE_TRY(yokei_file_read(path, 1 << 30, &data, &bytes));
    yoke_status status = note_file(m, name, bytes, yokei_hash(data, bytes, 0));
    free(data);
    return status;
}

yoke_status yokei_index_write(const char *folder, json_t *map, uint64_t total)
{
    char path[4200];
    json_t *root = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total, "weight_map",
                             map);
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    if (root) json_decref(root);
    if (!text) return yoke_fail(YOKE_ENOMEM, "%s: no host memory for its index", folder);
    yokei_text(path, sizeof path, "%s/model.safetensors.index.json", folder);
    yoke_status status = yokei_file_write(path, text, strlen(text));
    free(text);
    return status;
}

static yoke_status seal(const struct yokei_save *save, const char *temporary)
{
    struct yokei_manifest *m = save->manifest;
    int n_shards;
    uint64_t total = 0;
    static const struct yokei_companions none = { .bos = -2, .eos = -2 };
    const struct yokei_companions *companions = save->companions ? save->companions : &none;
    char name[64];
    json_t *map = json_object();
    yoke_status status = map ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "saving: no host memory");
    shard_of(save, 0, &n_shards);
    for (size_t f = 0; f < YOKE_COUNT(FAMILIES); f++)
        for (int s = 1; s <= n_shards && !status; s++) {
            shard_name(&FAMILIES[f], s, n_shards, name, sizeof name);
            status = note_shard(save, temporary, name, f == 0 ? map : NULL, &total);
        }
    if (!status) status = yokei_index_write(temporary, map, total);
    json_decref(map);
    if (!status)
        status = yokei_companions_write(companions, yokei_plan_model(&m->plan), SAVED_TYPE, temporary);
    if (!status) status = note_small(m, temporary, "model.safetensors.index.json");
    if (!status) status = note_small(m, temporary, "config.json");
    for (int i = 0; i < companions->n_files && !status; i++)
        status = note_small(m, temporary, companions->file[i].name);
    if (!status) status = yokei_manifest_write(temporary, m);
    if (!status) status = yokei_checkpoint_commit(temporary, save->dir, m->step);
    return status;
}

static yoke_status agree(const struct yokei_save *save, yoke_status mine)
{
    return save->agree ? save->agree(save->context, mine) : mine;
}

static yoke_status save_all(const struct yokei_save *save)
{
    char temporary[4200] = "", path[4096], why[1024];
    int lock = -1;
    yoke_status status;
    /* The name is the same on all ranks. Rank 0 creates the folder. */
    yokei_checkpoint_path(save->dir, save->manifest->step, path, sizeof path);
    yokei_text(temporary, sizeof temporary, "%s.tmp", path);
    status = save->rank == 0
                 ? yokei_checkpoint_begin(save->dir, save->manifest->step, temporary, sizeof temporary, &lock)
                 : YOKE_OK;
    status = agree(save, status);
    if (status) {
        yokei_folder_release(temporary, lock);
        return status;
    }
    status = agree(save, write_shards(save, temporary));
    if (!status) status = agree(save, save->rank == 0 ? seal(save, temporary) : YOKE_OK);
    if (save->rank != 0) return status;
    if (status) {
        yokei_text(why, sizeof why, "%s", yoke_last_error());
        (void)yokei_checkpoint_remove(temporary);
        yokei_folder_release(temporary, lock);
        return yoke_fail(status, "%s", why);
    }
    yokei_folder_release(path, lock);
    if (yokei_checkpoint_prune(save->dir, save->keep))
        yoke_log(YOKE_LOG_WARN, "an old checkpoint stays: %s", yoke_last_error());
    return YOKE_OK;
}

yoke_status yokei_checkpoint_save(const struct yokei_save *save)
{
    yokei_disk_watch();
    yoke_status status = save_all(save);
    yokei_disk_unwatch();
    return status;
}

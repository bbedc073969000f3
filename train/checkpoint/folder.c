/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders of checkpoints: which are complete, which is the newest, and how a folder is created and
 * removed.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"

static const char PREFIX[] = "step-", TEMPORARY[] = ".tmp";

void yokei_checkpoint_path(const char *dir, int64_t step, char *out, size_t bytes)
{
    yokei_text(out, bytes, "%s/%s%07lld", dir, PREFIX, (long long)step);
}

/* "step-0000123", and the same with ".tmp". */
static bool parse_name(const char *name, int64_t *step_out, bool *temporary_out)
{
    const size_t prefix = sizeof PREFIX - 1;
    if (strncmp(name, PREFIX, prefix) || !isdigit((unsigned char)name[prefix])) return false;
    char *end;
    errno = 0;
    *step_out = strtoll(name + prefix, &end, 10);
    *temporary_out = strcmp(end, TEMPORARY) == 0;
    return !errno && end - name >= 7 + (int)prefix && (!*end || *temporary_out);
}

/* Check that the manifest is valid, and that every file exists with the size in the manifest. */
static yoke_status examine(const char *folder, struct yokei_checkpoint_entry *entry)
{
    struct yokei_manifest m;
    YOKE_TRY(yokei_manifest_read(folder, &m));
    yoke_status status = YOKE_OK;
    entry->tokens = m.tokens;
    entry->seconds = m.seconds;
    entry->bytes = 0;
    for (int64_t i = 0; i < m.n_files && !status; i++) {
        char path[4200];
        struct stat st;
        yokei_text(path, sizeof path, "%s/%s", folder, m.files[i].name);
        if (stat(path, &st))
            status = yoke_fail(YOKE_EDATA, "%s: %s", path, strerror(errno));
        else if (st.st_size != m.files[i].bytes)
            status = yoke_fail(YOKE_EDATA, "%s: has %lld bytes, but there were %lld", path,
                               (long long)st.st_size, (long long)m.files[i].bytes);
        entry->bytes += m.files[i].bytes;
    }
    if (!status && entry->step >= 0 && m.step != entry->step)
        status = yoke_fail(YOKE_EDATA, "%s: holds step %lld, not what its name says", folder,
                           (long long)m.step);
    yokei_manifest_free(&m);
    return status;
}

static int by_step(const void *a, const void *b)
{
    const struct yokei_checkpoint_entry *x = a, *y = b;
    bool p = x->state == YOKEI_CHECKPOINT_TEMPORARY, q = y->state == YOKEI_CHECKPOINT_TEMPORARY;
    if (p != q) return p - q;
    return x->step != y->step ? (x->step < y->step ? -1 : 1) : strcmp(x->name, y->name);
}

static yoke_status add_entry(const char *dir, const char *name, struct yokei_checkpoint_entry **list,
                             size_t *n)
{
    struct yokei_checkpoint_entry entry = { .state = YOKEI_CHECKPOINT_COMPLETE };
    bool temporary;
    char path[4096];
    yokei_text(path, sizeof path, "%s/%s", dir, name);
    if (strlen(name) >= sizeof entry.name || !parse_name(name, &entry.step, &temporary)
        || !yokei_is_folder(path))
        return YOKE_OK;
    yokei_text(entry.name, sizeof entry.name, "%s", name);
    if (temporary) {
        entry.state = YOKEI_CHECKPOINT_TEMPORARY;
        yokei_text(entry.why, sizeof entry.why, "a save or a removal that did not come to its end");
    } else if (examine(path, &entry)) {
        entry.state = YOKEI_CHECKPOINT_INCOMPLETE;
        yokei_text(entry.why, sizeof entry.why, "%s", yoke_last_error());
    }
    struct yokei_checkpoint_entry *grown = realloc(*list, (*n + 1) * sizeof *grown);
    if (!grown) return yoke_fail(YOKE_ENOMEM, "%s: no memory for a list of checkpoints", dir);
    grown[(*n)++] = entry;
    *list = grown;
    return YOKE_OK;
}

yoke_status yokei_checkpoint_list(const char *dir, struct yokei_checkpoint_entry **list_out, size_t *n_out)
{
    struct yokei_checkpoint_entry *list = NULL;
    size_t n = 0;
    yoke_status status = YOKE_OK;
    DIR *d = opendir(dir);
    if (!d && errno != ENOENT)
        return yoke_fail(yokei_input_status(errno, YOKE_EDATA), "%s: cannot be listed: %s", dir,
                         yokei_why(errno));
    for (struct dirent *e; d && !status && (e = readdir(d));) status = add_entry(dir, e->d_name, &list, &n);
    if (d) closedir(d);
    if (status) {
        free(list);
        return status;
    }
    if (n) qsort(list, n, sizeof *list, by_step);
    *list_out = list;
    *n_out = n;
    return YOKE_OK;
}

/* The newest complete checkpoint of a list; NULL: there is none. */
static const struct yokei_checkpoint_entry *newest(const struct yokei_checkpoint_entry *list, size_t n)
{
    const struct yokei_checkpoint_entry *found = NULL;
    for (size_t i = 0; i < n; i++)
        if (list[i].state == YOKEI_CHECKPOINT_COMPLETE) found = &list[i];
    return found;
}

int64_t yokei_checkpoint_newest(const char *dir)
{
    struct yokei_checkpoint_entry *list = NULL;
    size_t n = 0;
    if (yokei_checkpoint_list(dir, &list, &n)) return -1;
    const struct yokei_checkpoint_entry *found = newest(list, n);
    int64_t step = found ? found->step : -1;
    free(list);
    return step;
}

/* Whether the folder has shards of the optimizer. Such a folder was a checkpoint, or is a part of one. */
static bool has_moments(const char *path)
{
    static const char begin[] = "optimizer-", end[] = ".safetensors";
    DIR *d = opendir(path);
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        const size_t n = strlen(e->d_name);
        found = n > sizeof begin + sizeof end && !strncmp(e->d_name, begin, sizeof begin - 1)
                && !strcmp(e->d_name + n - (sizeof end - 1), end);
    }
    if (d) closedir(d);
    return found;
}

yoke_status yokei_checkpoint_locate(const char *path, char *folder_out, size_t bytes)
{
    char manifest[4200];
    struct yokei_checkpoint_entry *list = NULL;
    size_t n = 0;
    yokei_text(manifest, sizeof manifest, "%s/" YOKEI_MANIFEST_NAME, path);
    if (yokei_is_folder(path) && yokei_is_there(manifest)) {
        yokei_text(folder_out, bytes, "%s", path);
        return YOKE_OK;
    }
    if (!yokei_is_folder(path))
        return yoke_fail(YOKE_EDATA, "%s: there is no such folder of checkpoints", path);
    if (has_moments(path))
        return yoke_fail(
            YOKE_EDATA,
            "%s: is no whole checkpoint: it has no " YOKEI_MANIFEST_NAME
            ", which a save writes last, so nobody knows whether its files belong "
            "together; take another one (yoke ckpt ls), or, to use its weights as they are, move its optimizer-….safetensors away",
            path);
    YOKE_TRY(yokei_checkpoint_list(path, &list, &n));
    const struct yokei_checkpoint_entry *found = newest(list, n);
    for (size_t i = 0; i < n && found; i++)
        if (list[i].state == YOKEI_CHECKPOINT_INCOMPLETE && list[i].step > found->step)
            yoke_log(YOKE_LOG_WARN, "%s: passed over, as it is not complete: %s", list[i].name, list[i].why);
    if (found) yokei_text(folder_out, bytes, "%s/%s", path, found->name);
    yoke_status status = YOKE_OK;
    if (!found && n)
        status = yoke_fail(YOKE_EDATA, "%s: holds no complete checkpoint; %s: %s", path, list[n - 1].name,
                           list[n - 1].why);
    else if (!found)
        status = yoke_fail(YOKE_EDATA,
                           "%s: holds no checkpoint: neither " YOKEI_MANIFEST_NAME
                           " nor folders called step-…",
                           path);
    free(list);
    return status;
}

bool yokei_checkpoint_is(const char *path)
{
    char manifest[4200];
    bool found = false, temporary;
    int64_t step;
    yokei_text(manifest, sizeof manifest, "%s/" YOKEI_MANIFEST_NAME, path);
    if (yokei_is_folder(path) && yokei_is_there(manifest)) return true;
    DIR *d = opendir(path);
    for (struct dirent *e; d && !found && (e = readdir(d));) found = parse_name(e->d_name, &step, &temporary);
    if (d) closedir(d);
    return found || has_moments(path);
}

/* Remove the files, then the folder. Folders in it are not expected and are not removed. */
static yoke_status remove_all(const char *folder)
{
    DIR *d = opendir(folder);
    if (!d)
        return errno == ENOENT ? YOKE_OK
                               : yoke_fail(YOKE_EIO, "%s: cannot be removed: %s", folder, strerror(errno));
    bool failed = false;
    for (struct dirent *e; (e = readdir(d));) {
        char path[4400];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        yokei_text(path, sizeof path, "%s/%s", folder, e->d_name);
        failed = yokei_disk_remove(path) || failed;
    }
    closedir(d);
    failed = yokei_disk_remove(folder) || failed;
    return failed ? yoke_fail(YOKE_EIO, "%s: cannot be removed: %s", folder, strerror(errno)) : YOKE_OK;
}

yoke_status yokei_checkpoint_remove(const char *folder)
{
    char temporary[4200];
    size_t length = strlen(folder), end = sizeof TEMPORARY - 1;
    if (length > end && strcmp(folder + length - end, TEMPORARY) == 0) return remove_all(folder);
    yokei_text(temporary, sizeof temporary, "%s%s", folder, TEMPORARY);
    YOKE_TRY(remove_all(temporary));
    if (yokei_disk_rename(folder, temporary))
        return yoke_fail(YOKE_EIO, "%s: cannot be renamed to %s: %s", folder, temporary, strerror(errno));
    return remove_all(temporary);
}

yoke_status yokei_checkpoint_begin(const char *dir, int64_t step, char *temporary_out, size_t bytes,
                                   int *lock_out)
{
    struct yokei_checkpoint_entry *list = NULL;
    size_t n = 0;
    char path[4096];
    YOKE_TRY(yokei_make_folder(dir));
    YOKE_TRY(yokei_checkpoint_list(dir, &list, &n));
    yoke_status status = YOKE_OK;
    for (size_t i = 0; i < n && !status; i++) {
        yokei_text(path, sizeof path, "%s/%s", dir, list[i].name);
        if (list[i].state != YOKEI_CHECKPOINT_TEMPORARY) continue;
        if (yokei_folder_is_held(path))
            status = yoke_fail(YOKE_EIO,
                               "%s: another job saves there now; give each job a folder of its own (--save)",
                               path);
        else
            status = yokei_checkpoint_remove(path);
    }
    free(list);
    YOKE_TRY(status);
    yokei_checkpoint_path(dir, step, path, sizeof path);
    yokei_text(temporary_out, bytes, "%s%s", path, TEMPORARY);
    return yokei_folder_claim(temporary_out, lock_out);
}

yoke_status yokei_checkpoint_commit(const char *temporary, const char *dir, int64_t step)
{
    struct yokei_checkpoint_entry there = { .step = -1 };
    char path[4096];
    yokei_checkpoint_path(dir, step, path, sizeof path);
    YOKE_TRY(yokei_disk_sync_folder(temporary));
    if (yokei_is_folder(path)) {
        if (!examine(path, &there))
            return yoke_fail(YOKE_EIO, "%s: is there already, and complete: it is left alone", path);
        char aside[4200]; /* the existing folder is damaged and is moved away */
        yokei_text(aside, sizeof aside, "%s-damaged", path);
        if (yokei_disk_rename(path, aside))
            return yoke_fail(YOKE_EIO, "%s: is damaged, and cannot be moved aside: %s", path,
                             strerror(errno));
    }
    if (yokei_disk_rename(temporary, path))
        return yoke_fail(YOKE_EIO, "%s: cannot be renamed to %s: %s", temporary, path, strerror(errno));
    return yokei_disk_sync_folder(dir);
}

yoke_status yokei_checkpoint_prune(const char *dir, int64_t keep)
{
    struct yokei_checkpoint_entry *list = NULL;
    size_t n = 0;
    int64_t complete = 0;
    yoke_status status = YOKE_OK;
    if (keep <= 0) return YOKE_OK;
    YOKE_TRY(yokei_checkpoint_list(dir, &list, &n));
    for (size_t i = 0; i < n; i++) complete += list[i].state == YOKEI_CHECKPOINT_COMPLETE;
    for (size_t i = 0; i < n && complete > keep && !status; i++) {
        char path[4096];
        if (list[i].state != YOKEI_CHECKPOINT_COMPLETE) continue;
        yokei_text(path, sizeof path, "%s/%s", dir, list[i].name);
        status = yokei_checkpoint_remove(path);
        complete--;
    }
    free(list);
    return status;
}

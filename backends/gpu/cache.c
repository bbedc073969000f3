/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Compiled programs on disk. The name of a file is its key, so it does not matter which process wrote it. A
 * file is written under a temporary name and then renamed, so it exists whole or not at all. If it is damaged
 * nevertheless, its checksum shows this, and the file is removed. The modification time of a file is the time
 * of its last use.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/gpu/driver.h"

#define FORMAT 2
#define MAX_BYTES ((size_t)256 << 20)

struct header {
    char magic[8]; /* "YOKEPRG" */
    uint32_t format, header_bytes;
    char key[32];
    uint64_t bytes, checksum; /* bytes and checksum of the data behind the header */
    uint64_t kernels;         /* set of the program's kernels that the binary has compiled; see programs.c */
};

static uint64_t hash_string(const char *text, uint64_t seed) { return yokei_hash(text, strlen(text), seed); }

struct yokei_gpu_cache_key yokei_gpu_cache_key(const yoke_device *device,
                                               const struct yokei_gpu_source *source)
{
    struct yokei_gpu_cache_key key;
    uint64_t half[2];
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t h = hash_string(yokei_gpu(device)->identity, FORMAT + 16 * i);
        h = hash_string(source->prelude, h);
        h = hash_string(source->options, h);
        half[i] = hash_string(source->text, h);
    }
    snprintf(key.text, sizeof key.text, "%016llx%016llx", (unsigned long long)half[0],
             (unsigned long long)half[1]);
    return key;
}

/* The path of an entry: cache_dir/<driver>-<key>.bin, or "" if caching is off. */
static void cache_path(const yoke_device *device, const struct yokei_gpu_cache_key *key, char *path,
                       size_t bytes)
{
    if (device->cache_dir[0])
        yokei_text(path, bytes, "%s/%s-%s.bin", device->cache_dir, yokei_gpu(device)->driver->name,
                   key->text);
    else
        path[0] = '\0';
}

void yokei_gpu_cache_discard(const yoke_device *device, const struct yokei_gpu_cache_key *key,
                             const char *why)
{
    char path[640];
    cache_path(device, key, path, sizeof path);
    yoke_log(YOKE_LOG_WARN, "%s: discarding the cached program %s: %s; it is compiled again",
             device->info.spec, path, why);
    if (unlink(path)) yoke_log(YOKE_LOG_WARN, "%s: cannot remove %s", device->info.spec, path);
}

/** What is wrong with a file's content, or NULL if nothing is. */
static const char *damage(const struct header *header, size_t bytes, const struct yokei_gpu_cache_key *key)
{
    if (bytes < sizeof *header) return "shorter than its header";
    if (memcmp(header->magic, "YOKEPRG", 8) != 0) return "wrong magic";
    if (header->format != FORMAT || header->header_bytes != sizeof *header) return "another format";
    if (memcmp(header->key, key->text, 32) != 0) return "another program's key";
    if (header->bytes != bytes - sizeof *header) return "truncated";
    if (header->checksum != yokei_hash(header + 1, header->bytes, FORMAT)) return "wrong checksum";
    return NULL;
}

yoke_status yokei_gpu_cache_read(const yoke_device *device, const struct yokei_gpu_cache_key *key,
                                 void **binary_out, size_t *bytes_out, uint64_t *kernels_out)
{
    char path[640];
    cache_path(device, key, path, sizeof path);
    if (!path[0] || access(path, R_OK)) return YOKE_ENODEV;
    void *data;
    size_t bytes;
    if (yokei_file_read(path, MAX_BYTES, &data, &bytes)) {
        yokei_gpu_cache_discard(device, key, yoke_last_error());
        return YOKE_ENODEV;
    }
    const char *why = damage(data, bytes, key);
    if (why) {
        free(data);
        yokei_gpu_cache_discard(device, key, why);
        return YOKE_ENODEV;
    }
    utimensat(AT_FDCWD, path, NULL, 0); /* this fails without harm if only others may write to the folder */
    *kernels_out = ((struct header *)data)->kernels;
    *bytes_out = bytes - sizeof(struct header);
    memmove(data, (char *)data + sizeof(struct header), *bytes_out);
    *binary_out = data;
    return YOKE_OK;
}

/* ---- the folder's limit ---- */

struct file {
    char name[80];
    off_t bytes;
    struct timespec used;
};

/*
 * Whether a name is "opencl-<32 hex digits>.bin", or this name with ".tmp.<process>" behind it. A process
 * that is killed while it writes leaves a file with the second kind of name.
 */
static bool is_ours(const char *name, bool *temporary_out)
{
    size_t word = strcspn(name, "-");
    if (!word || name[word] != '-' || strlen(name) >= sizeof((struct file *)0)->name) return false;
    const char *at = name + word + 1;
    for (int i = 0; i < 32; i++, at++)
        if (!isxdigit((unsigned char)*at)) return false;
    *temporary_out = strncmp(at, ".bin.tmp.", 9) == 0;
    return *temporary_out || strcmp(at, ".bin") == 0;
}

static int by_use(const void *x, const void *y)
{
    const struct timespec *a = &((const struct file *)x)->used, *b = &((const struct file *)y)->used;
    if (a->tv_sec != b->tv_sec) return a->tv_sec < b->tv_sec ? -1 : 1;
    return a->tv_nsec < b->tv_nsec ? -1 : a->tv_nsec > b->tv_nsec;
}

/*
 * List Yoke's files in a folder, except the one called `kept`. Returns their number, and the bytes of all of
 * them. A temporary file counts as unused if it is an hour old.
 */
static int list_files(DIR *folder, const char *kept, struct file **files_out, off_t *total_out)
{
    struct file *files = NULL;
    int n = 0, capacity = 0;
    const time_t hour_ago = time(NULL) - 3600;
    for (struct dirent *entry; (entry = readdir(folder));) {
        bool temporary;
        struct stat st;
        if (!is_ours(entry->d_name, &temporary)
            || fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        *total_out += st.st_size;
        if (!strcmp(entry->d_name, kept) || (temporary && st.st_mtime > hour_ago)) continue;
        if (n == capacity) {
            capacity = YOKE_MAX(64, 2 * capacity);
            struct file *more = realloc(files, (size_t)capacity * sizeof *more);
            if (!more) break; /* the rest is handled another time */
            files = more;
        }
        yokei_text(files[n].name, sizeof files[n].name, "%s", entry->d_name);
        files[n].bytes = st.st_size;
        files[n++].used = st.st_mtim;
    }
    *files_out = files;
    return n;
}

/*
 * Remove the files that were not used for the longest time, until a tenth of the limit is free, so that not
 * every write has to remove files. If another process has used or removed a file since the folder was read,
 * the file is left alone. A process that has a removed file open keeps its content.
 */
static void trim(const yoke_device *device, const char *kept)
{
    DIR *folder = opendir(device->cache_dir);
    if (!folder) return;
    struct file *files;
    off_t total = 0;
    const off_t limit = (off_t)YOKE_MIN(device->cache_bytes, (uint64_t)1 << 62);
    const int n = list_files(folder, kept, &files, &total);
    if (total > limit) {
        qsort(files, (size_t)n, sizeof *files, by_use);
        for (int i = 0; i < n && total > limit - limit / 10; i++) {
            struct stat st;
            if (fstatat(dirfd(folder), files[i].name, &st, AT_SYMLINK_NOFOLLOW) && errno == ENOENT) {
                total -= files[i].bytes;
                continue;
            }
            if (st.st_mtim.tv_sec != files[i].used.tv_sec || st.st_mtim.tv_nsec != files[i].used.tv_nsec)
                continue;
            if (!unlinkat(dirfd(folder), files[i].name, 0)) {
                total -= files[i].bytes;
                yoke_log(YOKE_LOG_DEBUG, "%s: removed %s/%s: more than %llu bytes of compiled programs",
                         device->info.spec, device->cache_dir, files[i].name,
                         (unsigned long long)device->cache_bytes);
            }
        }
    }
    free(files);
    closedir(folder);
}

void yokei_gpu_cache_write(const yoke_device *device, const struct yokei_gpu_cache_key *key,
                           const void *binary, size_t bytes, uint64_t kernels)
{
    char path[640];
    cache_path(device, key, path, sizeof path);
    struct header *header = path[0] && bytes < MAX_BYTES - sizeof *header ? malloc(sizeof *header + bytes)
                                                                          : NULL;
    if (!header) return;
    *header = (struct header){ .magic = "YOKEPRG",
                               .format = FORMAT,
                               .header_bytes = sizeof *header,
                               .bytes = bytes,
                               .kernels = kernels };
    memcpy(header->key, key->text, sizeof header->key);
    header->checksum = yokei_hash(binary, bytes, FORMAT);
    memcpy(header + 1, binary, bytes);
    yoke_status status = yokei_make_folder(device->cache_dir);
    if (!status) status = yokei_file_write(path, header, sizeof *header + bytes);
    if (status) yoke_log(YOKE_LOG_WARN, "%s: program not cached: %s", device->info.spec, yoke_last_error());
    free(header);
    if (!status) trim(device, strrchr(path, '/') + 1);
}

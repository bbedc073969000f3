/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Compiled programs on disk. device->cache_dir lists folders. The first one is the cache of this user. The
 * others have programs that `yoke compile` has made. Nothing here changes them.
 *
 * The name of a file is <driver>-<key>.bin, or <driver>-<key>-<maker>.bin where compilers make different
 * binaries of one program. So it does not matter which process wrote a file. A file is written under a
 * temporary name and then renamed, so it exists whole or not at all. If it is damaged nevertheless, its
 * checksum shows this, and the file is removed from the first folder. The modification time of a file of the
 * first folder is the time of its last use.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/gpu/driver.h"

#define FORMAT 3
#define MAX_BYTES ((size_t)256 << 20)

struct header {
    char magic[8]; /* "YOKEPRG" */
    uint32_t format, header_bytes;
    char key[32];
    uint64_t bytes, checksum; /* bytes and checksum of the data behind the header */
    uint64_t kernels;         /* set of the program's kernels that the binary has compiled; see programs.c */
    char maker[YOKEI_GPU_MAKER];
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

/* ---- folders and names ---- */

/** Folder `index` of a list with colons. False past the last one. An empty name stands for no folder. */
static bool folder_at(const char *list, int index, char *out, size_t bytes)
{
    for (; index > 0; index--) {
        list += strcspn(list, ":");
        if (!*list++) return false;
    }
    yokei_text(out, bytes, "%.*s", (int)strcspn(list, ":"), list);
    return true;
}

/** What the device's own compiler makes; "" if it has none, or if its driver has no makers. */
static void own_maker(const yoke_device *device, char maker[YOKEI_GPU_MAKER])
{
    maker[0] = '\0';
    if (yokei_gpu(device)->driver->maker) yokei_gpu(device)->driver->maker(device, maker, YOKEI_GPU_MAKER);
}

static void entry_name(const yoke_device *device, const struct yokei_gpu_cache_key *key, const char *maker,
                       char *name, size_t bytes)
{
    yokei_text(name, bytes, "%s-%s%s%s.bin", yokei_gpu(device)->driver->name, key->text, *maker ? "-" : "",
               maker);
}

/*
 * The maker in the name of an entry of this driver and, if `key` is not NULL, of this program. False: it is
 * another file.
 */
static bool parse_name(const char *name, const char *driver, const char *key, char maker[YOKEI_GPU_MAKER])
{
    const size_t n = strlen(driver);
    if (strncmp(name, driver, n) != 0 || name[n] != '-') return false;
    const char *at = name + n + 1;
    if (key && strncmp(at, key, 32) != 0) return false;
    for (int i = 0; i < 32; i++, at++)
        if (!isxdigit((unsigned char)*at)) return false;
    const size_t length = strlen(at);
    if (*at != '-' || length < 6 || strcmp(at + length - 4, ".bin") != 0) return false;
    yokei_text(maker, YOKEI_GPU_MAKER, "%.*s", (int)(length - 5), at + 1);
    return strlen(maker) == length - 5;
}

bool yokei_gpu_cache_has(const char *folders, const char *driver,
                         bool (*usable)(const void *context, const char *maker), const void *context)
{
    char folder[YOKEI_GPU_PATH], maker[YOKEI_GPU_MAKER];
    bool found = false;
    for (int i = 0; !found && folder_at(folders, i, folder, sizeof folder); i++) {
        DIR *dir = *folder ? opendir(folder) : NULL;
        if (!dir) continue;
        for (struct dirent *e; !found && (e = readdir(dir));)
            found = parse_name(e->d_name, driver, NULL, maker) && usable(context, maker);
        closedir(dir);
    }
    return found;
}

/* ---- entries ---- */

/** Insert an entry behind those that suit the device better, or as well. */
static void insert(struct yokei_gpu_cached list[YOKEI_GPU_MAX_CACHED], int *n,
                   const struct yokei_gpu_cached *entry)
{
    int at = *n;
    while (at > 0 && list[at - 1].rank < entry->rank) at--;
    if (at == YOKEI_GPU_MAX_CACHED) return;
    const int moved = YOKE_MIN(*n, YOKEI_GPU_MAX_CACHED - 1) - at;
    memmove(&list[at + 1], &list[at], (size_t)moved * sizeof *list);
    list[at] = *entry;
    *n = at + moved + 1;
}

/** Add the entries that other compilers have made of the program. */
static void scan(const yoke_device *device, const struct yokei_gpu_cache_key *key, const char *folder,
                 bool is_first, struct yokei_gpu_cached list[YOKEI_GPU_MAX_CACHED], int *n)
{
    const struct yokei_gpu_driver *driver = yokei_gpu(device)->driver;
    DIR *dir = *folder ? opendir(folder) : NULL;
    if (!dir) return;
    for (struct dirent *e; (e = readdir(dir));) {
        struct yokei_gpu_cached entry = { .is_first = is_first };
        if (!parse_name(e->d_name, driver->name, key->text, entry.maker)) continue;
        entry.rank = driver->suits(device, entry.maker);
        yokei_text(entry.path, sizeof entry.path, "%s/%s", folder, e->d_name);
        if (entry.rank) insert(list, n, &entry);
    }
    closedir(dir);
}

int yokei_gpu_cache_find(const yoke_device *device, const struct yokei_gpu_cache_key *key,
                         struct yokei_gpu_cached list[YOKEI_GPU_MAX_CACHED])
{
    char folder[YOKEI_GPU_PATH], name[YOKEI_GPU_MAKER + 80];
    struct yokei_gpu_cached entry = { .rank = INT_MAX };
    int n = 0;
    own_maker(device, entry.maker);
    const bool by_name = entry.maker[0] || !yokei_gpu(device)->driver->suits;
    entry_name(device, key, entry.maker, name, sizeof name);
    for (int i = 0; by_name && folder_at(device->cache_dir, i, folder, sizeof folder); i++) {
        yokei_text(entry.path, sizeof entry.path, "%s/%s", folder, name);
        entry.is_first = i == 0;
        if (*folder && !access(entry.path, R_OK)) insert(list, &n, &entry);
    }
    if (n || !yokei_gpu(device)->driver->suits) return n;
    /* What another version left in the user's own folder is not used by a device that can compile. */
    for (int i = by_name; folder_at(device->cache_dir, i, folder, sizeof folder); i++)
        scan(device, key, folder, i == 0, list, &n);
    return n;
}

void yokei_gpu_cache_refuse(const yoke_device *device, const struct yokei_gpu_cached *entry,
                            yoke_status status)
{
    const bool removed = status == YOKE_EDATA && entry->is_first && !unlink(entry->path);
    yoke_log(YOKE_LOG_WARN, "%s: %s the cached program %s: %s", device->info.spec,
             removed ? "discarding" : "not using", entry->path, yoke_last_error());
}

/** What is wrong with a file's content, or NULL if nothing is. */
static const char *damaged_entry(const struct header *header, size_t bytes,
                                 const struct yokei_gpu_cache_key *key, const char *maker)
{
    if (bytes < sizeof *header) return "shorter than its header";
    if (memcmp(header->magic, "YOKEPRG", 8) != 0) return "wrong magic";
    if (header->format != FORMAT || header->header_bytes != sizeof *header)
        return "another format, of another version of Yoke";
    if (memcmp(header->key, key->text, 32) != 0) return "another program's key";
    if (strncmp(header->maker, maker, sizeof header->maker) != 0)
        return "made for another device, or by another compiler, than its name says";
    if (header->bytes != bytes - sizeof *header) return "truncated";
    if (header->checksum != yokei_hash(header + 1, header->bytes, FORMAT)) return "wrong checksum";
    return NULL;
}

yoke_status yokei_gpu_cache_read(const struct yokei_gpu_cache_key *key, const struct yokei_gpu_cached *entry,
                                 void **binary_out, size_t *bytes_out, uint64_t *kernels_out)
{
    void *data;
    size_t bytes;
    YOKE_TRY(yokei_file_read(entry->path, MAX_BYTES, &data, &bytes));
    const char *why = damaged_entry(data, bytes, key, entry->maker);
    if (why) {
        free(data);
        return yoke_fail(YOKE_EDATA, "%s", why);
    }
    /* this fails without harm if only others may write to the folder */
    if (entry->is_first) utimensat(AT_FDCWD, entry->path, NULL, 0);
    *kernels_out = ((struct header *)data)->kernels;
    *bytes_out = bytes - sizeof(struct header);
    memmove(data, (char *)data + sizeof(struct header), *bytes_out);
    *binary_out = data;
    return YOKE_OK;
}

/* ---- the folder's limit ---- */

struct file {
    char name[80 + YOKEI_GPU_MAKER];
    off_t bytes;
    struct timespec used;
};

/*
 * Whether a name is "opencl-<32 hex digits>.bin" or "cuda-<32 hex digits>-<maker>.bin", or such a name with
 * ".tmp.<process>" behind it. A process that is killed while it writes leaves a file with the last kind of
 * name.
 */
static bool is_ours(const char *name, bool *temporary_out)
{
    size_t word = strcspn(name, "-");
    if (!word || name[word] != '-' || strlen(name) >= sizeof((struct file *)0)->name) return false;
    const char *at = name + word + 1;
    for (int i = 0; i < 32; i++, at++)
        if (!isxdigit((unsigned char)*at)) return false;
    const char *end = *at == '-' ? strstr(at, ".bin") : at;
    if (!end) return false;
    *temporary_out = strncmp(end, ".bin.tmp.", 9) == 0;
    return *temporary_out || strcmp(end, ".bin") == 0;
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
static void trim(const yoke_device *device, const char *path, const char *kept)
{
    DIR *folder = opendir(path);
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
                         device->info.spec, path, files[i].name, (unsigned long long)device->cache_bytes);
            }
        }
    }
    free(files);
    closedir(folder);
}

yoke_status yokei_gpu_cache_store(const yoke_device *device, const struct yokei_gpu_cache_key *key,
                                  const void *binary, size_t bytes, uint64_t kernels, size_t *stored_out)
{
    char folder[YOKEI_GPU_PATH], path[YOKEI_GPU_PATH], name[YOKEI_GPU_MAKER + 80];
    *stored_out = 0;
    folder_at(device->cache_dir, 0, folder, sizeof folder);
    if (!*folder || bytes >= MAX_BYTES - sizeof(struct header)) return YOKE_OK;
    struct header *header = malloc(sizeof *header + bytes);
    if (!header) return yoke_fail(YOKE_ENOMEM, "no memory for a program of %zu bytes", bytes);
    *header = (struct header){ .magic = "YOKEPRG",
                               .format = FORMAT,
                               .header_bytes = sizeof *header,
                               .bytes = bytes,
                               .kernels = kernels };
    memcpy(header->key, key->text, sizeof header->key);
    own_maker(device, header->maker);
    entry_name(device, key, header->maker, name, sizeof name);
    yokei_text(path, sizeof path, "%s/%s", folder, name);
    header->checksum = yokei_hash(binary, bytes, FORMAT);
    memcpy(header + 1, binary, bytes);
    yoke_status status = yokei_make_folder(folder);
    if (!status) status = yokei_file_write(path, header, sizeof *header + bytes);
    free(header);
    if (status) return status;
    trim(device, folder, name);
    *stored_out = sizeof *header + bytes;
    return YOKE_OK;
}

void yokei_gpu_cache_write(yoke_device *device, const struct yokei_gpu_cache_key *key, const void *binary,
                           size_t bytes, uint64_t kernels)
{
    size_t stored;
    if (yokei_gpu_cache_store(device, key, binary, bytes, kernels, &stored)
        && !atomic_exchange(&yokei_gpu(device)->said_not_cached, true))
        yoke_log(YOKE_LOG_WARN, "%s: programs are not cached: %s", device->info.spec, yoke_last_error());
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Program binaries on disk. A file is named by its key, so it never changes; it is written under a temporary name and
 * renamed, so it is there whole or not at all, and what is damaged nevertheless is discarded by its checksum.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/gpu/driver.h"

#define FORMAT 1
#define MAX_BYTES ((size_t)256 << 20)

struct header {
    char magic[8]; /* "YOKEPRG" */
    uint32_t format, header_bytes;
    char key[32];
    uint64_t bytes, checksum; /* of what follows the header */
};

static uint64_t hash_string(const char *text, uint64_t seed)
{
    return yokei_hash(text, strlen(text), seed);
}

struct yokei_gpu_cache_key yokei_gpu_cache_key(const yoke_device *device, const struct yokei_gpu_source *source)
{
    struct yokei_gpu_cache_key key;
    uint64_t half[2];
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t h = hash_string(yokei_gpu(device)->identity, FORMAT + 16 * i);
        h = hash_string(source->prelude, h);
        h = hash_string(source->options, h);
        half[i] = hash_string(source->text, h);
    }
    snprintf(key.text, sizeof key.text, "%016llx%016llx", (unsigned long long)half[0], (unsigned long long)half[1]);
    return key;
}

void yokei_gpu_cache_path(const yoke_device *device, const struct yokei_gpu_cache_key *key, char *path, size_t bytes)
{
    if (device->cache_dir[0])
        yokei_text(path, bytes, "%s/%s-%s.bin", device->cache_dir, yokei_gpu(device)->driver->name, key->text);
    else
        path[0] = '\0';
}

void yokei_gpu_cache_discard(const yoke_device *device, const struct yokei_gpu_cache_key *key, const char *why)
{
    char path[640];
    yokei_gpu_cache_path(device, key, path, sizeof path);
    yoke_log(YOKE_LOG_WARN, "%s: discarding the cached program %s: %s; it is compiled again", device->info.spec, path, why);
    if (unlink(path)) yoke_log(YOKE_LOG_WARN, "%s: cannot remove %s", device->info.spec, path);
}

/** What is wrong with a file's content, NULL when nothing is. */
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

yoke_status yokei_gpu_cache_read(const yoke_device *device, const struct yokei_gpu_cache_key *key, void **binary_out,
                                 size_t *bytes_out)
{
    char path[640];
    yokei_gpu_cache_path(device, key, path, sizeof path);
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
    *bytes_out = bytes - sizeof(struct header);
    memmove(data, (char *)data + sizeof(struct header), *bytes_out);
    *binary_out = data;
    return YOKE_OK;
}

void yokei_gpu_cache_write(const yoke_device *device, const struct yokei_gpu_cache_key *key, const void *binary,
                           size_t bytes)
{
    char path[640];
    yokei_gpu_cache_path(device, key, path, sizeof path);
    struct header *header = path[0] && bytes < MAX_BYTES - sizeof *header ? malloc(sizeof *header + bytes) : NULL;
    if (!header) return;
    *header = (struct header){ .magic = "YOKEPRG", .format = FORMAT, .header_bytes = sizeof *header, .bytes = bytes };
    memcpy(header->key, key->text, sizeof header->key);
    header->checksum = yokei_hash(binary, bytes, FORMAT);
    memcpy(header + 1, binary, bytes);
    yoke_status status = yokei_make_folder(device->cache_dir);
    if (!status) status = yokei_file_write(path, header, sizeof *header + bytes);
    if (status) yoke_log(YOKE_LOG_WARN, "%s: program not cached: %s", device->info.spec, yoke_last_error());
    free(header);
}

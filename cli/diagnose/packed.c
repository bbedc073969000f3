/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diagnose/packed.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"

#if CLI_HAS_ZLIB
#include <zlib.h>
#endif

/*
 * Timelines become 8 to 30 times as large when they are unpacked. deflate can pack 1030 bytes of the same
 * value into one. So a file that grows more than 200 times is no timeline, but made to fill the memory.
 */
enum { PIECE = 1 << 16, MOST_GROWTH = 200, ALWAYS_ALLOWED = 64 << 20 };

struct diagnose_packed {
    const char *path;
    int fd;
    bool is_packed, at_end;
    const char *damage;
    unsigned char *piece; /* [PIECE] the bytes as they are in the file */
    size_t at, n;         /* those that are not yet used begin at `at`, and end at `n` */
    uint64_t n_packed, n_unpacked;
#if CLI_HAS_ZLIB
    z_stream stream;
    bool in_member; /* the file may consist of several packed members */
#endif
};

static yoke_status fill(struct diagnose_packed *f)
{
    ssize_t n;
    do n = read(f->fd, f->piece, PIECE);
    while (n < 0 && errno == EINTR);
    if (n < 0) return yoke_fail(YOKE_EDATA, "%s: cannot be read: %s", f->path, yokei_why(errno));
    f->at = 0;
    f->n = (size_t)n;
    f->n_packed += (size_t)n;
    return YOKE_OK;
}

/* The program that unpacks the file. NULL: it is not packed, or it is unpacked here. */
static const char *unpacker(const struct diagnose_packed *f)
{
    static const struct {
        const char *program;
        size_t n;
        unsigned char bytes[6];
    } known[] = {
        { "zstd -d", 4, { 0x28, 0xb5, 0x2f, 0xfd } }, { "unxz", 6, { 0xfd, '7', 'z', 'X', 'Z', 0 } },
        { "bunzip2", 3, { 'B', 'Z', 'h' } },          { "lz4 -d", 4, { 0x04, 0x22, 0x4d, 0x18 } },
        { "unzip", 4, { 'P', 'K', 3, 4 } },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (f->n >= known[i].n && !memcmp(f->piece, known[i].bytes, known[i].n)) return known[i].program;
    return !CLI_HAS_ZLIB && f->is_packed ? "gunzip" : NULL;
}

static yoke_status begin(struct diagnose_packed *f)
{
    size_t bytes;
    f->piece = malloc(PIECE);
    if (!f->piece) return yoke_fail(YOKE_ENOMEM, "%s: no memory to read it", f->path);
    YOKE_TRY(yokei_file_open(f->path, YOKE_EDATA, &f->fd, &bytes));
    YOKE_TRY(fill(f));
    f->is_packed = f->n >= 2 && f->piece[0] == 0x1f && f->piece[1] == 0x8b;
    const char *program = unpacker(f);
    if (program)
        return yoke_fail(YOKE_EDATA,
                         "%s: it is packed, and this yoke does not unpack it%s; unpack it first: %s %s",
                         f->path, f->is_packed ? ", because it was built without zlib (zlib1g-dev)" : "",
                         program, f->path);
#if CLI_HAS_ZLIB
    if (f->is_packed && inflateInit2(&f->stream, 15 + 16) != Z_OK)
        return yoke_fail(YOKE_ENOMEM, "%s: no memory to unpack it", f->path);
    f->in_member = f->is_packed;
#endif
    return YOKE_OK;
}

yoke_status diagnose_packed_open(const char *path, struct diagnose_packed **out)
{
    struct diagnose_packed *f = calloc(1, sizeof *f);
    if (!f) return yoke_fail(YOKE_ENOMEM, "%s: no memory to read it", path);
    f->path = path;
    f->fd = -1;
    const yoke_status status = begin(f);
    if (status)
        diagnose_packed_close(f);
    else
        *out = f;
    return status;
}

void diagnose_packed_close(struct diagnose_packed *f)
{
    if (!f) return;
#if CLI_HAS_ZLIB
    if (f->is_packed) inflateEnd(&f->stream);
#endif
    if (f->fd >= 0) close(f->fd);
    free(f->piece);
    free(f);
}

const char *diagnose_packed_damage(const struct diagnose_packed *f) { return f->damage; }

#if CLI_HAS_ZLIB
static void stop(struct diagnose_packed *f, const char *damage)
{
    f->damage = damage;
    f->at_end = true;
}

/* A member is complete. Another one may follow, or zeros that fill a block, as gzip allows. */
static void next_member(struct diagnose_packed *f)
{
    f->in_member = false;
    while (f->at < f->n && !f->piece[f->at]) f->at++;
    if (f->at == f->n) return;
    if (f->piece[f->at] == 0x1f && inflateReset(&f->stream) == Z_OK)
        f->in_member = true;
    else
        stop(f, "after its packed data come bytes that gzip did not write");
}

static yoke_status unpack(struct diagnose_packed *f, char *buffer, size_t room, size_t *n_out)
{
    *n_out = 0;
    while (!*n_out && !f->at_end) {
        if (f->at == f->n) YOKE_TRY(fill(f));
        if (!f->n) {
            stop(f, f->in_member ? "its packed data end too early" : NULL);
            break;
        }
        if (!f->in_member) next_member(f);
        if (!f->in_member) continue;
        f->stream.next_in = f->piece + f->at;
        f->stream.avail_in = (uInt)(f->n - f->at);
        f->stream.next_out = (unsigned char *)buffer;
        f->stream.avail_out = (uInt)room;
        const int result = inflate(&f->stream, Z_NO_FLUSH);
        f->at = f->n - f->stream.avail_in;
        *n_out = room - f->stream.avail_out;
        if (result == Z_MEM_ERROR) return yoke_fail(YOKE_ENOMEM, "%s: no memory to unpack it", f->path);
        if (result == Z_STREAM_END)
            next_member(f);
        else if (result != Z_OK && result != Z_BUF_ERROR)
            stop(f, "its packed data are damaged");
    }
    f->n_unpacked += *n_out;
    if (f->n_unpacked > ALWAYS_ALLOWED && f->n_unpacked / MOST_GROWTH > f->n_packed)
        return yoke_fail(YOKE_EDATA, "%s: it unpacks to more than %d times its size, which no timeline does",
                         f->path, MOST_GROWTH);
    return YOKE_OK;
}
#endif

yoke_status diagnose_packed_read(struct diagnose_packed *f, char *buffer, size_t room, size_t *n_out)
{
#if CLI_HAS_ZLIB
    if (f->is_packed) return unpack(f, buffer, room, n_out);
#endif
    *n_out = 0;
    if (f->at_end) return YOKE_OK;
    if (f->at == f->n) YOKE_TRY(fill(f));
    *n_out = YOKE_MIN(room, f->n - f->at);
    memcpy(buffer, f->piece + f->at, *n_out);
    f->at += *n_out;
    f->at_end = !f->n;
    return YOKE_OK;
}

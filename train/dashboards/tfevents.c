/* SPDX-License-Identifier: Apache-2.0 */
#include "train/dashboards/tfevents.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/times.h"

struct yokei_events {
    char *path;
    int fd;
    off_t end;              /* end of the last record in the file */
    unsigned char *data;    /* records that are not written yet */
    size_t n, capacity;     /* bytes */
    size_t record, summary; /* where the current record begins, and the values of its event */
    bool lacks_memory;
};

static const char NAME_BEGIN[] = "events.out.tfevents.";

/* ---- checksums: CRC-32C (Castagnoli), masked as TFRecord wants it ---- */

enum { CRC_TABLES = 8, HEADER = 12, TRAILER = 4 };
static uint32_t crc_table[CRC_TABLES][256];

static void make_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
        crc_table[0][i] = crc;
    }
    for (int k = 1; k < CRC_TABLES; k++)
        for (int i = 0; i < 256; i++)
            crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 255];
}

/* Eight bytes at a time, with a table for each of them. */
static uint32_t masked_crc(const unsigned char *data, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (; n >= CRC_TABLES; data += CRC_TABLES, n -= CRC_TABLES) {
        uint32_t next = 0;
        for (int k = 0; k < CRC_TABLES; k++)
            next ^= crc_table[CRC_TABLES - 1 - k][data[k] ^ (k < 4 ? crc >> 8 * k & 255 : 0)];
        crc = next;
    }
    for (; n; data++, n--) crc = crc >> 8 ^ crc_table[0][(crc ^ *data) & 255];
    crc = ~crc;
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* ---- protobuf ---- */

/* The kinds of values (wire types) in a protobuf message. */
enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* Make room for n bytes. NULL: there is no memory, which yokei_events_flush reports. */
static unsigned char *room(struct yokei_events *e, size_t n)
{
    if (e->lacks_memory) return NULL;
    if (e->n + n > e->capacity) {
        const size_t capacity = 2 * (e->n + n) + 4096;
        unsigned char *data = realloc(e->data, capacity);
        if (!data) {
            e->lacks_memory = true;
            return NULL;
        }
        e->data = data;
        e->capacity = capacity;
    }
    e->n += n;
    return e->data + e->n - n;
}

static void put(struct yokei_events *e, const void *data, size_t n)
{
    unsigned char *to = room(e, n);
    if (to && n) memcpy(to, data, n);
}

static void put_varint(struct yokei_events *e, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;
    for (; value > 127; value >>= 7) bytes[n++] = (unsigned char)(value | 128);
    bytes[n++] = (unsigned char)value;
    put(e, bytes, n);
}

static void put_key(struct yokei_events *e, unsigned field, enum wire wire)
{
    put_varint(e, field << 3 | (unsigned)wire);
}

static void put_whole(struct yokei_events *e, unsigned field, int64_t value)
{
    put_key(e, field, VARINT);
    put_varint(e, (uint64_t)value);
}

/* The bytes of a number, the lowest one first. */
static void put_little(unsigned char *to, uint64_t bits, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i] = (unsigned char)(bits >> 8 * i);
}

static void put_bits(struct yokei_events *e, uint64_t bits, size_t n)
{
    unsigned char *to = room(e, n);
    if (to) put_little(to, bits, n);
}

static void put_plain_double(struct yokei_events *e, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_bits(e, bits, sizeof bits);
}

static void put_double(struct yokei_events *e, unsigned field, double value)
{
    put_key(e, field, FIXED64);
    put_plain_double(e, value);
}

static void put_text(struct yokei_events *e, unsigned field, const char *text)
{
    const size_t n = strlen(text);
    put_key(e, field, BYTES);
    put_varint(e, n);
    put(e, text, n);
}

/* Begin a message within a message. Its length is put before it by close_message. */
static size_t open_message(struct yokei_events *e, unsigned field)
{
    put_key(e, field, BYTES);
    return e->n;
}

static void close_message(struct yokei_events *e, size_t begin)
{
    const size_t n = e->n - begin;
    size_t length = 1;
    for (size_t rest = n; rest > 127; rest >>= 7) length++;
    if (!room(e, length)) return;
    memmove(e->data + begin + length, e->data + begin, n);
    e->n = begin;
    put_varint(e, n);
    e->n += n;
}

/* ---- records ---- */

static void begin_record(struct yokei_events *e, double seconds)
{
    e->record = e->n;
    (void)room(e, HEADER);
    put_double(e, 1, seconds); /* Event.wall_time */
}

static void end_record(struct yokei_events *e)
{
    (void)room(e, TRAILER);
    if (e->lacks_memory) {
        e->n = e->record;
        return;
    }
    unsigned char *record = e->data + e->record;
    const size_t n = e->n - e->record - HEADER - TRAILER;
    put_little(record, n, 8);
    put_little(record + 8, masked_crc(record, 8), 4);
    put_little(record + HEADER + n, masked_crc(record + HEADER, n), 4);
}

void yokei_events_begin(struct yokei_events *e, double seconds, int64_t step)
{
    begin_record(e, seconds);
    put_whole(e, 2, step);           /* Event.step */
    e->summary = open_message(e, 5); /* Event.summary */
}

void yokei_events_end(struct yokei_events *e)
{
    close_message(e, e->summary);
    end_record(e);
}

void yokei_events_start(struct yokei_events *e, double seconds, int64_t step)
{
    begin_record(e, seconds);
    put_whole(e, 2, step);
    const size_t log = open_message(e, 7); /* Event.session_log */
    put_whole(e, 1, 1);                    /* SessionLog.status = START */
    close_message(e, log);
    end_record(e);
}

/* ---- values ---- */

/* SummaryMetadata. class: 1 a scalar, 2 a tensor, 0 is left to the reader. */
static void put_metadata(struct yokei_events *e, const char *plugin, const char *about, int class)
{
    const size_t metadata = open_message(e, 9);
    if (plugin) {
        const size_t data = open_message(e, 1);
        put_text(e, 1, plugin);
        close_message(e, data);
    }
    if (about) put_text(e, 3, about);
    if (class) put_whole(e, 4, class);
    close_message(e, metadata);
}

static size_t begin_value(struct yokei_events *e, const char *tag)
{
    const size_t value = open_message(e, 1); /* Summary.value */
    put_text(e, 1, tag);
    return value;
}

void yokei_events_scalar(struct yokei_events *e, const char *tag, const char *about, double value)
{
    const float narrow = value > FLT_MAX && isfinite(value)    ? FLT_MAX
                         : value < -FLT_MAX && isfinite(value) ? -FLT_MAX
                                                               : (float)value;
    const size_t at = begin_value(e, tag);
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    put_key(e, 2, FIXED32); /* simple_value */
    put_bits(e, bits, sizeof bits);
    if (about) put_metadata(e, "scalars", about, 1);
    close_message(e, at);
}

void yokei_events_text(struct yokei_events *e, const char *tag, const char *about, const char *text)
{
    enum { DT_STRING = 7 };
    const size_t at = begin_value(e, tag), tensor = open_message(e, 8);
    put_whole(e, 1, DT_STRING);
    close_message(e, open_message(e, 2)); /* tensor_shape: no dimensions */
    put_text(e, 8, text);                 /* string_val */
    close_message(e, tensor);
    put_metadata(e, "text", about, 2);
    close_message(e, at);
}

/* ---- histograms ---- */

enum { LOWEST_EXPONENT = -64, F32_BIAS = 127, F32_MANTISSA = 23 };

/* The lower end of the magnitudes of a bucket. */
static double edge(int k) { return ldexp(1 + (k % 4) / 4.0, LOWEST_EXPONENT + k / 4); }

double yokei_histogram_limit(int bucket)
{
    const int k = bucket - YOKEI_HISTOGRAM_SIDE;
    return k < 0 ? -edge(-k - 1) : k == YOKEI_HISTOGRAM_SIDE ? FLT_MAX : edge(k);
}

/* The exponent and the two highest bits of the mantissa give the bucket. */
static int bucket_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int at = (int)((bits & INT32_MAX) >> (F32_MANTISSA - 2)) - (F32_BIAS + LOWEST_EXPONENT) * 4,
              k = at < 0 ? 0 : YOKE_MIN(at + 1, YOKEI_HISTOGRAM_SIDE);
    return YOKEI_HISTOGRAM_SIDE + (bits >> 31 ? -k : k);
}

void yokei_histogram_add(struct yokei_histogram *h, const float *values, int64_t n)
{
    float min = INFINITY, max = -INFINITY;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        const float x = values[i];
        h->count[bucket_of(x)]++;
        min = x < min ? x : min;
        max = x > max ? x : max;
        sum += (double)x;
        squares += (double)x * (double)x;
    }
    h->min = fmin(h->min, (double)min);
    h->max = fmax(h->max, (double)max);
    h->sum += sum;
    h->squares += squares;
}

/*
 * An empty bucket is left out if the next one is empty too. The next one then begins where it began. No empty
 * bucket comes first, because readers let the first bucket begin at the least value.
 */
static bool is_shown(const struct yokei_histogram *h, int bucket)
{
    if (h->count[bucket] > 0) return true;
    return bucket + 1 < YOKEI_HISTOGRAM_BUCKETS && h->count[bucket + 1] > 0
           && yokei_histogram_limit(bucket) > h->min;
}

void yokei_events_histogram(struct yokei_events *e, const char *tag, const char *about,
                            const struct yokei_histogram *h)
{
    int64_t n = 0;
    for (int b = 0; b < YOKEI_HISTOGRAM_BUCKETS; b++) n += h->count[b];
    const size_t at = begin_value(e, tag), histogram = open_message(e, 5); /* histo */
    if (n) put_double(e, 1, h->min), put_double(e, 2, h->max);
    put_double(e, 3, (double)n);
    if (n) put_double(e, 4, h->sum), put_double(e, 5, h->squares);
    size_t list = open_message(e, 6); /* bucket_limit */
    for (int b = 0; b < YOKEI_HISTOGRAM_BUCKETS; b++)
        if (is_shown(h, b)) put_plain_double(e, yokei_histogram_limit(b));
    close_message(e, list);
    list = open_message(e, 7); /* bucket */
    for (int b = 0; b < YOKEI_HISTOGRAM_BUCKETS; b++)
        if (is_shown(h, b)) put_plain_double(e, (double)h->count[b]);
    close_message(e, list);
    close_message(e, histogram);
    if (about) put_metadata(e, "histograms", about, 2);
    close_message(e, at);
}

/* ---- the file ---- */

/* The newest time in the names of the folder's event files; 0: none, or the folder cannot be read. */
static long long newest_of(const char *folder, bool *any_out)
{
    DIR *list = opendir(folder);
    long long newest = 0;
    *any_out = false;
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        if (strncmp(entry->d_name, NAME_BEGIN, sizeof NAME_BEGIN - 1) != 0) continue;
        *any_out = true;
        newest = YOKE_MAX(newest, atoll(entry->d_name + sizeof NAME_BEGIN - 1));
    }
    if (list) closedir(list);
    return newest;
}

/*
 * Readers take the files of a folder in the order of their names, so the time comes first. It has ten digits.
 * If the folder has a file of this second or of a later one, the new file still comes behind it.
 */
static yoke_status create_file(struct yokei_events *e, const char *folder, bool *older_out)
{
    const long long newest = newest_of(folder, older_out), most = 9999999999;
    const long long now = YOKE_MAX((long long)time(NULL), newest < most ? newest + 1 : 0);
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) || !*host) yokei_text(host, sizeof host, "host");
    for (char *c = host; *c; c++)
        if (*c == '/') *c = '_';
    const size_t bytes = strlen(folder) + strlen(host) + sizeof NAME_BEGIN + 64;
    e->path = malloc(bytes);
    if (!e->path) return yoke_fail(YOKE_ENOMEM, "%s: no memory to write events", folder);
    for (int i = 0; i < 1000; i++) {
        yokei_text(e->path, bytes, "%s/%s%010lld.%s.%ld.%d", folder, NAME_BEGIN, now, host, (long)getpid(),
                   i);
        e->fd = yokei_open_to_write(e->path, O_CREAT | O_EXCL);
        if (e->fd >= 0 || errno != EEXIST) break;
    }
    if (e->fd >= 0) return YOKE_OK;
    return yoke_fail(YOKE_EIO, "%s: cannot be opened for writing: %s", e->path, yokei_why(errno));
}

yoke_status yokei_events_open(const char *folder, struct yokei_events **events_out, bool *older_out)
{
    YOKE_TRY(yokei_make_folder(folder));
    struct yokei_events *e = calloc(1, sizeof *e);
    if (!e) return yoke_fail(YOKE_ENOMEM, "%s: no memory to write events", folder);
    e->fd = -1;
    make_crc_table();
    yoke_status status = create_file(e, folder, older_out);
    if (!status) {
        begin_record(e, yokei_wall());
        put_text(e, 3, "brain.Event:2"); /* Event.file_version */
        end_record(e);
        status = yokei_events_flush(e);
    }
    if (status) {
        struct yokei_error text;
        yokei_error_save(&text);
        (void)yokei_events_close(e);
        yokei_error_restore(&text);
        return status;
    }
    *events_out = e;
    return YOKE_OK;
}

const char *yokei_events_path(const struct yokei_events *e) { return e->path; }

bool yokei_events_are_pending(const struct yokei_events *e) { return e->n > 0 || e->lacks_memory; }

/* Readers stop at half a record. Cutting it off needs no disk space. */
static yoke_status write_records(struct yokei_events *e)
{
    struct stat is;
    if (!fstat(e->fd, &is) && is.st_nlink == 0)
        return yoke_fail(YOKE_EIO, "%s: the file was deleted, so no program can read what is written to it",
                         e->path);
    if (yokei_write_all(e->fd, e->data, e->n)) {
        e->end += (off_t)e->n;
        return YOKE_OK;
    }
    const int reason = errno;
    const bool is_cut = ftruncate(e->fd, e->end) != 0 || lseek(e->fd, e->end, SEEK_SET) < 0;
    return yoke_fail(YOKE_EIO, "%s: events cannot be written: %s%s", e->path, yokei_why(reason),
                     is_cut ? "; the last record of the file is cut" : "");
}

yoke_status yokei_events_flush(struct yokei_events *e)
{
    const bool lacked = e->lacks_memory;
    e->lacks_memory = false;
    const yoke_status status = e->n ? write_records(e) : YOKE_OK;
    e->n = 0;
    if (lacked && !status) return yoke_fail(YOKE_ENOMEM, "%s: no memory for an event", e->path);
    return status;
}

yoke_status yokei_events_close(struct yokei_events *e)
{
    if (!e) return YOKE_OK;
    yoke_status status = e->fd >= 0 ? yokei_events_flush(e) : YOKE_OK;
    if (e->fd >= 0 && close(e->fd) && !status)
        status = yoke_fail(YOKE_EIO, "%s: events cannot be written: %s", e->path, yokei_why(errno));
    free(e->path);
    free(e->data);
    free(e);
    return status;
}

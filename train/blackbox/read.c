/* SPDX-License-Identifier: Apache-2.0 */
/* Read one file of a black box. The file may be damaged, and the rank may be writing it. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"
#include "train/blackbox/box.h"
#include "train/text/skips.h"
#include "train/text/tokens.h"

enum { MOST_LAYERS = 1 << 16, MOST_TENSORS = 1 << 20, MOST_RECORDS = 1 << 20 };
#define MOST_FILE ((uint64_t)1 << 30)
#define MOST_TOKENS ((int64_t)1 << 50)
#define MOST_SAMPLES ((int64_t)1 << 60)

static void clean_text(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    for (char *c = text; *c; c++)
        if ((*c < ' ' || *c > '~') && *c != '\n') *c = '?';
}

static yoke_status damaged(const char *path, const char *why)
{
    return yoke_fail(YOKE_EDATA, "black box %s: %s", path, why);
}

/* ---- the bytes ---- */

/* A part of the file. Its bytes behind the end of the file are 0. */
static yoke_status get(int fd, const char *path, uint64_t at, void *out, size_t bytes, size_t *got_out)
{
    size_t got = 0;
    while (got < bytes) {
        const ssize_t n = pread(fd, (char *)out + got, bytes - got, (off_t)(at + got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return yoke_fail(YOKE_EIO, "black box %s: cannot be read: %s", path, strerror(errno));
        if (n == 0) break;
        got += (size_t)n;
    }
    memset((char *)out + got, 0, bytes - got);
    if (got_out) *got_out = got;
    return YOKE_OK;
}

static bool sum_is_right(const void *part, size_t bytes)
{
    uint64_t sum;
    memcpy(&sum, part, sizeof sum);
    return sum == yokei_hash((const char *)part + sizeof sum, bytes - sizeof sum, 0);
}

/* Whether a part with these places lies in the file, behind the head. */
static bool lies_inside(const struct yokei_box_head *h, uint64_t at, uint64_t n, uint64_t bytes)
{
    return at >= sizeof *h && at % 8 == 0 && at <= h->file_bytes && n <= (h->file_bytes - at) / bytes;
}

static yoke_status check_head(const char *path, const struct yokei_box_head *h, size_t got)
{
    struct yokei_box_head copy = *h;
    if (got < offsetof(struct yokei_box_head, checksum) || h->magic != YOKEI_BOX_MAGIC)
        return damaged(path, got == 0 ? "it is empty" : "not a black box");
    if (h->version != YOKEI_BOX_VERSION)
        return yoke_fail(YOKE_EDATA,
                         "black box %s: format %u, and this version of Yoke reads format %d; use the Yoke "
                         "that wrote it",
                         path, h->version, YOKEI_BOX_VERSION);
    if (got < sizeof *h) return damaged(path, "it is cut inside its head");
    copy.checksum = 0;
    if (h->head_bytes != sizeof *h || h->checksum != yokei_hash(&copy, sizeof copy, 0))
        return damaged(path, "its head is damaged (wrong checksum)");
    const uint64_t record = sizeof(struct yokei_box_record)
                            + (uint64_t)h->n_layers * sizeof(struct yokei_box_values);
    if (h->file_bytes > MOST_FILE || h->n_layers > MOST_LAYERS || h->n_tensors > MOST_TENSORS
        || h->n_records < 1 || h->n_records > MOST_RECORDS || h->record_bytes != record || h->rank < 0
        || h->n_ranks < 1 || h->rank >= h->n_ranks || h->n_ranks > YOKEI_BOX_MOST_RANKS || h->batch < 0
        || h->batch > MOST_TOKENS || h->token_bytes < 0 || h->token_bytes > 8 || h->first_byte < 0
        || h->first_byte > MOST_TOKENS || h->sequence < 1 || h->sequence > MOST_TOKENS
        || h->n_training_tokens > MOST_TOKENS || h->n_model_layers < 0 || h->n_model_layers > MOST_LAYERS
        || !lies_inside(h, h->status_at, 1, 2 * sizeof(struct yokei_box_status) + sizeof(int64_t))
        || !lies_inside(h, h->events_at, YOKEI_BOX_EVENTS, sizeof(struct yokei_box_event))
        || !lies_inside(h, h->layers_at, h->n_layers, sizeof(struct yokei_box_layer))
        || !lies_inside(h, h->tensors_at, h->n_tensors, sizeof(struct yokei_box_tensor))
        || !lies_inside(h, h->ring_at, h->n_records, record))
        return damaged(path, "its head has impossible sizes");
    return YOKE_OK;
}

static void clean_head(struct yokei_box_head *h)
{
    clean_text(h->precision, sizeof h->precision);
    clean_text(h->device, sizeof h->device);
    clean_text(h->device_name, sizeof h->device_name);
    clean_text(h->driver, sizeof h->driver);
    clean_text(h->features, sizeof h->features);
    clean_text(h->vendor, sizeof h->vendor);
    clean_text(h->host, sizeof h->host);
    clean_text(h->version_of_yoke, sizeof h->version_of_yoke);
    clean_text(h->data_path, sizeof h->data_path);
    clean_text(h->skip_samples, sizeof h->skip_samples);
    clean_text(h->resumed_from, sizeof h->resumed_from);
    clean_text(h->choices, sizeof h->choices);
}

/* ---- the parts ---- */

static yoke_status read_tables(int fd, const char *path, struct yokei_box *b)
{
    const struct yokei_box_head *h = &b->head;
    size_t got = 0;
    b->layers = calloc((size_t)h->n_layers + 1, sizeof *b->layers);
    b->tensors = calloc((size_t)h->n_tensors + 1, sizeof *b->tensors);
    if (!b->layers || !b->tensors) return yoke_fail(YOKE_ENOMEM, "black box %s: no host memory", path);
    YOKE_TRY(get(fd, path, h->layers_at, b->layers, h->n_layers * sizeof *b->layers, &got));
    b->is_cut = b->is_cut || got < h->n_layers * sizeof *b->layers;
    YOKE_TRY(get(fd, path, h->tensors_at, b->tensors, h->n_tensors * sizeof *b->tensors, &got));
    b->is_cut = b->is_cut || got < h->n_tensors * sizeof *b->tensors;
    for (uint32_t i = 0; i < h->n_layers; i++) clean_text(b->layers[i].name, sizeof b->layers[i].name);
    for (uint32_t i = 0; i < h->n_tensors; i++) clean_text(b->tensors[i].name, sizeof b->tensors[i].name);
    return YOKE_OK;
}

static yoke_status read_status(int fd, const char *path, struct yokei_box *b)
{
    struct {
        struct yokei_box_status status[2];
        int64_t begun_step;
    } both;
    YOKE_TRY(get(fd, path, b->head.status_at, &both, sizeof both, NULL));
    for (int i = 0; i < 2; i++)
        if (both.status[i].number > b->status.number && sum_is_right(&both.status[i], sizeof both.status[i]))
            b->status = both.status[i];
    clean_text(b->status.text, sizeof b->status.text);
    if (b->status.end < 0 || b->status.end >= YOKEI_BOX_N_ENDS) b->status.end = YOKEI_BOX_RUNS;
    b->begun_step = both.begun_step;
    return YOKE_OK;
}

static int event_order(const void *a, const void *b)
{
    const struct yokei_box_event *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static yoke_status read_events(int fd, const char *path, struct yokei_box *b)
{
    static const struct yokei_box_event none;
    b->events = calloc(YOKEI_BOX_EVENTS, sizeof *b->events);
    if (!b->events) return yoke_fail(YOKE_ENOMEM, "black box %s: no host memory", path);
    YOKE_TRY(get(fd, path, b->head.events_at, b->events, YOKEI_BOX_EVENTS * sizeof *b->events, NULL));
    for (int i = 0; i < YOKEI_BOX_EVENTS; i++) {
        struct yokei_box_event *e = &b->events[i];
        if (!memcmp(e, &none, sizeof none)) continue;
        if (!sum_is_right(e, sizeof *e) || e->kind < 0 || e->kind >= YOKEI_BOX_N_KINDS) {
            b->n_torn++;
            continue;
        }
        clean_text(e->text, sizeof e->text);
        b->events[b->n_events++] = *e;
    }
    qsort(b->events, (size_t)b->n_events, sizeof *b->events, event_order);
    return YOKE_OK;
}

/* The checksum of a record covers its layers: the hash of the record seeds the hash of the layers. */
static bool record_is_right(const char *record, size_t bytes)
{
    const size_t sum = sizeof(uint64_t), head = sizeof(struct yokei_box_record);
    uint64_t said;
    memcpy(&said, record, sum);
    return said == yokei_hash(record + head, bytes - head, yokei_hash(record + sum, head - sum, 0));
}

static int record_order(const void *a, const void *b)
{
    const struct yokei_box_record *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* Whether the samples of a record can be those of a step. */
static bool has_samples(const struct yokei_box_head *h, const struct yokei_box_record *r)
{
    return r->first_sample >= 0 && r->first_sample <= MOST_SAMPLES && r->own_first >= 0 && r->own_count >= 0
           && r->own_first <= h->batch && r->own_count <= h->batch - r->own_first;
}

static bool is_empty(const char *bytes, size_t n) { return !bytes[0] && !memcmp(bytes, bytes + 1, n - 1); }

static yoke_status read_records(int fd, const char *path, struct yokei_box *b)
{
    const struct yokei_box_head *h = &b->head;
    const size_t bytes = h->record_bytes;
    size_t got = 0;
    b->records = calloc(h->n_records, bytes);
    if (!b->records) return yoke_fail(YOKE_ENOMEM, "black box %s: no host memory", path);
    YOKE_TRY(get(fd, path, h->ring_at, b->records, (size_t)h->n_records * bytes, &got));
    b->is_cut = b->is_cut || got < (size_t)h->n_records * bytes;
    for (uint32_t i = 0; i < h->n_records; i++) {
        char *record = b->records + (size_t)i * bytes;
        const struct yokei_box_record *r = (const struct yokei_box_record *)(void *)record;
        if (is_empty(record, bytes)) continue;
        if (!record_is_right(record, bytes) || (r->number - 1) % h->n_records != i || !has_samples(h, r)) {
            b->n_torn++;
            continue;
        }
        if (b->n != (int64_t)i) memcpy(b->records + (size_t)b->n * bytes, record, bytes);
        b->n++;
    }
    qsort(b->records, (size_t)b->n, bytes, record_order);
    return YOKE_OK;
}

static yoke_status read_file(int fd, const char *path, size_t bytes, struct yokei_box *b)
{
    size_t got = 0;
    YOKE_TRY(get(fd, path, 0, &b->head, sizeof b->head, &got));
    YOKE_TRY(check_head(path, &b->head, got));
    b->is_cut = bytes < b->head.file_bytes;
    clean_head(&b->head);
    YOKE_TRY(read_tables(fd, path, b));
    YOKE_TRY(read_status(fd, path, b));
    YOKE_TRY(read_events(fd, path, b));
    return read_records(fd, path, b);
}

yoke_status yokei_box_read(const char *path, struct yokei_box **box_out)
{
    int fd = -1;
    size_t bytes = 0;
    YOKE_TRY(yokei_file_open(path, YOKE_EDATA, &fd, &bytes));
    struct yokei_box *b = calloc(1, sizeof *b);
    const yoke_status status = b ? read_file(fd, path, bytes, b)
                                 : yoke_fail(YOKE_ENOMEM, "black box %s: no host memory", path);
    close(fd);
    if (status)
        yokei_box_free(b);
    else
        *box_out = b;
    return status;
}

void yokei_box_free(struct yokei_box *b)
{
    if (!b) return;
    free(b->layers);
    free(b->tensors);
    free(b->events);
    free(b->records);
    free(b);
}

/* ---- what it says ---- */

const struct yokei_box_record *yokei_box_record(const struct yokei_box *b, int64_t i)
{
    return (const struct yokei_box_record *)(const void *)(b->records + (size_t)i * b->head.record_bytes);
}

const struct yokei_box_values *yokei_box_values(const struct yokei_box *b, int64_t i)
{
    return (const struct yokei_box_values *)(const void *)(yokei_box_record(b, i) + 1);
}

const char *yokei_box_tensor_name(const struct yokei_box *b, int64_t tensor)
{
    return tensor >= 0 && tensor < (int64_t)b->head.n_tensors ? b->tensors[tensor].name : "?";
}

const char *yokei_box_layer_name(const struct yokei_box *b, int64_t layer)
{
    for (uint32_t i = 0; i < b->head.n_layers; i++)
        if (b->layers[i].layer == layer) return b->layers[i].name;
    return "?";
}

bool yokei_box_computes_alike(const struct yokei_box_head *a, const struct yokei_box_head *b)
{
    return !strcmp(a->precision, b->precision) && !strcmp(a->device, b->device)
           && !strcmp(a->device_name, b->device_name) && !strcmp(a->driver, b->driver)
           && !strcmp(a->features, b->features) && !strcmp(a->choices, b->choices);
}

int64_t yokei_box_sample(const struct yokei_box_head *h, int64_t first_sample, int64_t k)
{
    struct yokei_skips skips;
    if (!h->skip_samples[0] || yokei_skips_parse("skip_samples", h->skip_samples, &skips))
        return first_sample + k;
    return yokei_skips_nth(&skips, first_sample, k);
}

int64_t yokei_box_sample_token(const struct yokei_box_head *h, int64_t sample)
{
    return yokei_tokens_first(h->n_training_tokens, h->seed, sample, h->sequence);
}

int64_t yokei_box_sample_byte(const struct yokei_box_head *h, int64_t sample)
{
    const int64_t token = yokei_box_sample_token(h, sample);
    return token < 0 || h->token_bytes < 1 ? -1 : h->first_byte + token * h->token_bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "train/run/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"
#include "train/files/json.h"
#include "train/files/map.h"

struct yokei_metrics {
    char *path;
    int fd;
    off_t end; /* end of the last complete row */
};

#define RANK(member) \
    offsetof(struct yokei_metrics_rank, member), sizeof(((struct yokei_metrics_rank *)0)->member)
#define ROW(member) \
    offsetof(struct yokei_metrics_row, member), sizeof(((struct yokei_metrics_row *)0)->member)

static const struct yokei_json_field RANK_FIELDS[] = {
    { "device", YOKEI_JSON_TEXT, RANK(device) },
    { "share", YOKEI_JSON_F64, RANK(share) },
    { "tokens_per_second", YOKEI_JSON_F64, RANK(tokens_per_second) },
    { "compute_seconds", YOKEI_JSON_F64, RANK(compute_seconds) },
    { "wait_seconds", YOKEI_JSON_F64, RANK(wait_seconds) },
    { "mfu", YOKEI_JSON_F64, RANK(mfu) },
    { "bubble", YOKEI_JSON_F64, RANK(bubble) },
    { "exposed_communication_seconds", YOKEI_JSON_F64, RANK(exposed_communication_seconds) },
    { "busy_seconds", YOKEI_JSON_F64, RANK(busy_seconds) },
    { "data_seconds", YOKEI_JSON_F64, RANK(data_seconds) },
    { "checkpoint_seconds", YOKEI_JSON_F64, RANK(checkpoint_seconds) },
    { "processor_seconds", YOKEI_JSON_F64, RANK(processor_seconds) },
    { "queued_seconds", YOKEI_JSON_F64, RANK(queued_seconds) },
    { "preemptions", YOKEI_JSON_F64, RANK(preemptions) },
    { "major_faults", YOKEI_JSON_F64, RANK(major_faults) },
    { "compile_seconds", YOKEI_JSON_F64, RANK(compile_seconds) },
    { 0 },
};
static const struct yokei_json_schema RANK_SCHEMA = { RANK_FIELDS, sizeof(struct yokei_metrics_rank), false,
                                                      YOKE_EDATA };
static const struct yokei_json_field ROW_FIELDS[] = {
    { "step", YOKEI_JSON_I64, ROW(step) },
    { "tokens", YOKEI_JSON_I64, ROW(tokens) },
    { "seconds", YOKEI_JSON_F64, ROW(seconds) },
    { "loss", YOKEI_JSON_F64, ROW(loss) },
    { "validation_loss", YOKEI_JSON_F64, ROW(validation_loss) },
    { "audit", YOKEI_JSON_F64, ROW(audit) },
    { "audit_seconds", YOKEI_JSON_F64, ROW(audit_seconds) },
    { "learning_rate", YOKEI_JSON_F64, ROW(learning_rate) },
    { "gradient_norm", YOKEI_JSON_F64, ROW(gradient_norm) },
    { "loss_scale", YOKEI_JSON_F64, ROW(loss_scale) },
    { "skipped", YOKEI_JSON_BOOL, ROW(skipped) },
    { "tokens_per_second", YOKEI_JSON_F64, ROW(tokens_per_second) },
    { "mfu", YOKEI_JSON_F64, ROW(mfu) },
    { "bubble", YOKEI_JSON_F64, ROW(bubble) },
    { "exposed_communication_seconds", YOKEI_JSON_F64, ROW(exposed_communication_seconds) },
    { "ranks", YOKEI_JSON_ARRAY, ROW(ranks), .schema = &RANK_SCHEMA,
      .count_offset = offsetof(struct yokei_metrics_row, n_ranks) },
    { 0 },
};
static const struct yokei_json_schema ROW_SCHEMA = { ROW_FIELDS, sizeof(struct yokei_metrics_row), false,
                                                     YOKE_EDATA };

static yoke_status no_row(const char *path, size_t offset)
{
    return yoke_fail(
        YOKE_EDATA,
        "%s: the line at byte offset %zu is no row of metrics; move the file away or name another", path,
        offset);
}

/* Parse a line without its newline. The caller calls json_decref(). */
static yoke_status parse_line(const char *path, size_t offset, const char *text, size_t bytes,
                              json_t **row_out)
{
    json_t *row = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_integer(json_object_get(row, "step"))) {
        *row_out = row;
        return YOKE_OK;
    }
    if (row) json_decref(row);
    return no_row(path, offset);
}

/*
 * Parse the line at *begin, and move *begin behind it. The caller calls json_decref(). NULL without an error:
 * no whole line is left. Only the last line may be damaged, and only if it has no newline.
 */
static yoke_status next_row(const char *path, const struct yokei_map *map, size_t *begin, json_t **row_out)
{
    *row_out = NULL;
    if (*begin >= map->bytes) return YOKE_OK;
    const char *text = (const char *)map->data + *begin, *newline = memchr(text, '\n', map->bytes - *begin);
    if (!newline) return YOKE_OK;
    YOKE_TRY(parse_line(path, *begin, text, (size_t)(newline - text), row_out));
    *begin += (size_t)(newline - text) + 1;
    return YOKE_OK;
}

/* Find the end of the rows of steps <= continue_at. */
static yoke_status kept_bytes(const char *path, const struct yokei_map *map, int64_t continue_at,
                              off_t *end_out)
{
    json_t *row;
    *end_out = 0;
    for (size_t begin = 0;;) {
        YOKE_TRY(next_row(path, map, &begin, &row));
        if (!row) return YOKE_OK;
        const int64_t number = json_integer_value(json_object_get(row, "step"));
        json_decref(row);
        if (number > continue_at) return YOKE_OK;
        *end_out = (off_t)begin;
    }
}

static yoke_status find_end(const char *path, int64_t continue_at, off_t *end_out)
{
    *end_out = 0;
    if (continue_at < 0 || !yokei_is_there(path)) return YOKE_OK;
    struct yokei_map map;
    YOKE_TRY(yokei_map_open(path, YOKE_EDATA, &map));
    yoke_status status = kept_bytes(path, &map, continue_at, end_out);
    yokei_map_close(&map);
    return status;
}

yoke_status yokei_metrics_open(const char *path, int64_t continue_at, struct yokei_metrics **metrics_out)
{
    off_t end = 0;
    YOKE_TRY(find_end(path, continue_at, &end));
    struct yokei_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics || !(metrics->path = strdup(path))) {
        free(metrics);
        return yoke_fail(YOKE_ENOMEM, "%s: no memory to open it", path);
    }
    metrics->end = end;
    metrics->fd = yokei_open_to_write(path, O_CREAT);
    /* A device such as /dev/full cannot be truncated, and need not be. */
    if (metrics->fd < 0 || (ftruncate(metrics->fd, end) && errno != EINVAL)
        || (lseek(metrics->fd, end, SEEK_SET) < 0 && errno != ESPIPE)) {
        yoke_status status = yoke_fail(YOKE_EIO, "%s: cannot be opened for writing: %s", path,
                                       errno == ENXIO ? "it is a pipe that nobody reads" : yokei_why(errno));
        if (metrics->fd >= 0) close(metrics->fd);
        free(metrics->path);
        free(metrics);
        return status;
    }
    *metrics_out = metrics;
    return YOKE_OK;
}

yoke_status yokei_metrics_write(struct yokei_metrics *metrics, const struct yokei_metrics_row *row)
{
    char *text = NULL;
    YOKE_TRY(yokei_json_text(&ROW_SCHEMA, row, false, true, &text));
    const size_t bytes = strlen(text);
    const int reason = yokei_write_all(metrics->fd, text, bytes) ? 0 : errno;
    free(text);
    if (!reason) {
        metrics->end += (off_t)bytes;
        return YOKE_OK;
    }
    /* Half a row would make the file unreadable. Truncating it needs no disk space. */
    const bool taken_back = (ftruncate(metrics->fd, metrics->end) == 0 || errno == EINVAL)
                            && (lseek(metrics->fd, metrics->end, SEEK_SET) >= 0 || errno == ESPIPE);
    return yoke_fail(YOKE_EIO, "%s: the row of step %lld cannot be written: %s%s", metrics->path,
                     (long long)row->step, yokei_why(reason),
                     taken_back ? "" : "; the last line of the file is cut");
}

yoke_status yokei_metrics_close(struct yokei_metrics *metrics)
{
    if (!metrics) return YOKE_OK;
    yoke_status status = close(metrics->fd) ? yoke_fail(YOKE_EIO, "%s: the last rows cannot be written: %s",
                                                        metrics->path, strerror(errno))
                                            : YOKE_OK;
    free(metrics->path);
    free(metrics);
    return status;
}

/* ---- reading ---- */

/* The values of a row or of a rank. A number that is null or missing is NaN, or 0 if it is a whole number. */
static void read_values(const json_t *object, const struct yokei_json_field *fields, void *out)
{
    for (const struct yokei_json_field *f = fields; f->key; f++) {
        const json_t *value = json_object_get(object, f->key);
        char *member = (char *)out + f->offset;
        const double real = json_is_number(value) ? json_number_value(value) : NAN;
        const int64_t whole = json_integer_value(value);
        const bool is_true = json_is_true(value);
        if (f->type == YOKEI_JSON_F64) memcpy(member, &real, sizeof real);
        if (f->type == YOKEI_JSON_I64) memcpy(member, &whole, sizeof whole);
        if (f->type == YOKEI_JSON_BOOL) memcpy(member, &is_true, sizeof is_true);
        if (f->type == YOKEI_JSON_TEXT)
            yokei_text(member, f->bytes, "%s", json_is_string(value) ? json_string_value(value) : "");
    }
}

static yoke_status read_row(const char *path, struct yokei_metrics_reader *r, const json_t *object,
                            struct yokei_metrics_row *row)
{
    const json_t *ranks = json_object_get(object, "ranks");
    const int64_t n = (int64_t)json_array_size(ranks);
    *row = (struct yokei_metrics_row){ .step = 0 };
    read_values(object, ROW_FIELDS, row);
    if (row->step <= r->last_step)
        return yoke_fail(YOKE_EDATA, "%s: the row of step %lld follows the row of step %lld", path,
                         (long long)row->step, (long long)r->last_step);
    if (n > r->capacity) {
        struct yokei_metrics_rank *list = realloc(r->ranks, (size_t)n * sizeof *list);
        if (!list) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its rows", path);
        r->ranks = list;
        r->capacity = n;
    }
    r->last_step = row->step;
    for (int64_t i = 0; i < n; i++) {
        r->ranks[i] = (struct yokei_metrics_rank){ .share = 0 };
        read_values(json_array_get(ranks, (size_t)i), RANK_FIELDS, &r->ranks[i]);
    }
    row->ranks = r->ranks;
    row->n_ranks = n;
    return YOKE_OK;
}

yoke_status yokei_metrics_line(const char *path, size_t offset, const char *text, size_t bytes,
                               struct yokei_metrics_reader *reader, struct yokei_metrics_row *row_out)
{
    json_t *object;
    YOKE_TRY(parse_line(path, offset, text, bytes, &object));
    const yoke_status status = read_row(path, reader, object, row_out);
    json_decref(object);
    return status;
}

/* A file that is read piece by piece. It is not mapped, because a resumed run may make it shorter. */
struct pieces {
    const char *path;
    int fd;
    char *data; /* [capacity]; the bytes from begin to end are not yet used */
    size_t capacity, begin, end;
    size_t offset, bytes; /* of data[begin] in the file; of the file when it was opened */
};

/* Read more bytes behind those that are not yet used. *more_out is false at the end of the file. */
static yoke_status read_piece(struct pieces *p, bool *more_out)
{
    enum { PIECE = 1 << 20 };
    if (p->begin) memmove(p->data, p->data + p->begin, p->end - p->begin);
    p->end -= p->begin, p->begin = 0;
    if (p->end > YOKEI_METRICS_LONGEST) return no_row(p->path, p->offset);
    if (p->capacity - p->end < PIECE) {
        char *data = realloc(p->data, p->capacity + PIECE);
        if (!data) return yoke_fail(YOKE_ENOMEM, "%s: no memory to read it", p->path);
        p->data = data;
        p->capacity += PIECE;
    }
    const size_t left = p->bytes > p->offset + p->end ? p->bytes - p->offset - p->end : 0;
    const ssize_t n = left ? read(p->fd, p->data + p->end, YOKE_MIN(left, (size_t)PIECE)) : 0;
    if (n < 0 && errno != EINTR)
        return yoke_fail(yokei_input_status(errno, YOKE_EDATA), "%s: cannot be read: %s", p->path,
                         yokei_why(errno));
    p->end += n > 0 ? (size_t)n : 0;
    *more_out = n != 0;
    return YOKE_OK;
}

static yoke_status each_line(struct pieces *p, struct yokei_metrics_reader *reader,
                             yokei_metrics_visit *visit, void *context)
{
    for (bool more = true; more;) {
        YOKE_TRY(read_piece(p, &more));
        for (char *newline; (newline = memchr(p->data + p->begin, '\n', p->end - p->begin));) {
            struct yokei_metrics_row row;
            const char *text = p->data + p->begin;
            YOKE_TRY(yokei_metrics_line(p->path, p->offset, text, (size_t)(newline - text), reader, &row));
            YOKE_TRY(visit(context, &row));
            p->offset += (size_t)(newline - text) + 1;
            p->begin += (size_t)(newline - text) + 1;
        }
    }
    return YOKE_OK;
}

yoke_status yokei_metrics_each(const char *path, yokei_metrics_visit *visit, void *context, bool *cut_out)
{
    struct pieces pieces = { .path = path };
    struct yokei_metrics_reader reader = YOKEI_METRICS_READER_INIT;
    *cut_out = false;
    YOKE_TRY(yokei_file_open(path, YOKE_EDATA, &pieces.fd, &pieces.bytes));
    const yoke_status status = each_line(&pieces, &reader, visit, context);
    *cut_out = !status && pieces.begin < pieces.end;
    close(pieces.fd);
    free(pieces.data);
    free(reader.ranks);
    return status;
}

struct kept_rows {
    const char *path;
    yokei_metrics_visit *visit;
    void *context;
    struct yokei_metrics_rows *rows;
};

static yoke_status keep_row(void *context, const struct yokei_metrics_row *row)
{
    const struct kept_rows *kept = context;
    struct yokei_metrics_rows *out = kept->rows;
    if (!(out->n & (out->n - 1))) { /* full: the capacity is the next power of two */
        struct yokei_metrics_row *rows = realloc(out->rows, (out->n ? 2 * out->n : 1) * sizeof *rows);
        if (!rows) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its rows", kept->path);
        out->rows = rows;
    }
    out->rows[out->n] = *row;
    out->rows[out->n].ranks = NULL;
    out->rows[out->n++].n_ranks = 0;
    return kept->visit ? kept->visit(kept->context, row) : YOKE_OK;
}

yoke_status yokei_metrics_read(const char *path, yokei_metrics_visit *visit, void *context,
                               struct yokei_metrics_rows *out)
{
    struct kept_rows kept = { path, visit, context, out };
    *out = (struct yokei_metrics_rows){ .n = 0 };
    return yokei_metrics_each(path, keep_row, &kept, &out->cut);
}

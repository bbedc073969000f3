/* SPDX-License-Identifier: Apache-2.0 */
#include "train/run/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
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

/*
 * Find the end of the rows of steps <= continue_at. Only the last line may be damaged, and only if it has no
 * newline.
 */
static yoke_status kept_bytes(const char *path, const struct yokei_map *map, int64_t continue_at,
                              off_t *end_out)
{
    const char *text = (const char *)map->data;
    size_t begin = 0;
    for (const char *newline;
         begin < map->bytes && (newline = memchr(text + begin, '\n', map->bytes - begin));) {
        size_t length = (size_t)(newline - (text + begin));
        json_t *row = json_loadb(text + begin, length, JSON_REJECT_DUPLICATES, NULL);
        json_t *step = json_object_get(row, "step");
        bool whole = json_is_integer(step);
        int64_t number = json_integer_value(step);
        if (row) json_decref(row);
        if (!whole)
            return yoke_fail(
                YOKE_EDATA,
                "%s: the line at byte offset %zu is no row of metrics; move the file away or name another",
                path, begin);
        if (number > continue_at) break;
        begin += length + 1;
    }
    *end_out = (off_t)begin;
    return YOKE_OK;
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

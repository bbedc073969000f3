/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a run that may still grow: one look at a time. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/watch/watch.h"
#include "core/base/base.h"
#include "train/files/json.h"

/* PIECE: bytes of rows that one look reads at most, unless a line is longer. */
enum { PIECE = 4 << 20 };
/*
 * Seconds until bytes that are no row are taken for damage. On a network file system, the end of a file that
 * another host writes may be zeros for a moment.
 */
static const double SETTLED = 2;

void watch_follow_begin(struct watch_follower *f, const char *folder, bool is_impatient)
{
    *f = (struct watch_follower){ .folder = folder,
                                  .is_impatient = is_impatient,
                                  .settled = is_impatient ? INT64_MAX : 0,
                                  .reader = YOKEI_METRICS_READER_INIT,
                                  .begun_ns = yokei_now_ns() };
    watch_history_begin(&f->history);
}

void watch_follow_end(struct watch_follower *f)
{
    watch_history_free(&f->history);
    yokei_plan_free(&f->plan);
    free(f->reader.ranks);
    free(f->data);
}

static void path_in(const struct watch_follower *f, const char *name, char *out, size_t bytes)
{
    yokei_text(out, bytes, "%s/%s", f->folder, name);
}

/* ---- the folder ---- */

/* The locks' text is "process 12 on HOST, since DATE". Only its name matters, because a lock is not tried. */
static void read_holder(struct watch_follower *f)
{
    char path[4200];
    if (!f->has_job_lock && !f->has_train_lock) f->holder[0] = 0;
    if (f->holder[0] || (!f->has_job_lock && !f->has_train_lock)) return;
    path_in(f, f->has_job_lock ? "job.lock" : "train.lock", path, sizeof path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    const ssize_t n = read(fd, f->holder, sizeof f->holder - 1);
    close(fd);
    f->holder[n > 0 ? n : 0] = 0;
    f->holder[strcspn(f->holder, "\n")] = 0;
}

/*
 * Read the names in the folder. Opening a folder asks the server for it, while asking for a single name may
 * be answered from a cache for a minute.
 */
static void look_at_folder(struct watch_follower *f)
{
    DIR *folder = opendir(f->folder);
    if (!folder) {
        f->is_there = errno != ENOENT && errno != ENOTDIR && errno != ESTALE;
        return;
    }
    f->is_there = f->was_there = true;
    f->has_train_lock = f->has_job_lock = f->has_records = false;
    for (struct dirent *e; (e = readdir(folder));) {
        f->has_train_lock = f->has_train_lock || !strcmp(e->d_name, "train.lock");
        f->has_job_lock = f->has_job_lock || !strcmp(e->d_name, "job.lock");
        f->has_records = f->has_records || !strncmp(e->d_name, "flight-", 7);
    }
    closedir(folder);
    read_holder(f);
}

/* ---- plan.json and run.json ---- */

/* Whether run.json says that a device is emulated. Its times are then no times. */
static void read_record(struct watch_follower *f)
{
    char path[4200];
    json_t *root = NULL;
    size_t i;
    const json_t *rank;
    path_in(f, "run.json", path, sizeof path);
    f->is_emulated = false;
    if (yokei_json_load(path, YOKE_EDATA, &root)) return;
    json_array_foreach(json_object_get(root, "ranks"), i, rank)
        f->is_emulated = f->is_emulated || json_is_true(json_object_get(rank, "emulated"));
    json_decref(root);
}

static void read_plan(struct watch_follower *f)
{
    char path[4200];
    struct stat now;
    path_in(f, "plan.json", path, sizeof path);
    /* opened, so that a network file system looks at the server */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const bool there = fd >= 0 && !fstat(fd, &now);
    if (fd >= 0) close(fd);
    if (!there
        || (now.st_dev == f->plan_was.device && now.st_ino == f->plan_was.inode
            && now.st_size == f->plan_was.bytes && now.st_mtim.tv_sec == f->plan_was.changed.tv_sec
            && now.st_mtim.tv_nsec == f->plan_was.changed.tv_nsec))
        return;
    struct yokei_plan plan = YOKEI_PLAN_INIT;
    const yoke_status status = yokei_plan_read(path, &plan);
    yokei_text(f->plan_problem, sizeof f->plan_problem, "%s", status ? yoke_last_error() : "");
    if (status && status != YOKE_ECONFIG) return; /* tried again, also if the file does not change */
    if (!status) {
        yokei_plan_free(&f->plan);
        f->plan = plan;
        f->has_plan = true;
        f->history.has_pipeline = plan.pipeline > 1;
        read_record(f);
    }
    f->plan_was.device = now.st_dev, f->plan_was.inode = now.st_ino, f->plan_was.bytes = now.st_size;
    f->plan_was.changed = now.st_mtim;
}

/* ---- metrics.jsonl ---- */

static void begin_again(struct watch_follower *f)
{
    f->offset = 0;
    f->n_before = 0;
    f->reader.last_step = INT64_MIN;
    f->damaged_ns = 0;
    f->settled = f->is_impatient ? INT64_MAX : 0;
    f->is_inside_long = false;
    watch_history_forget(&f->history);
}

/* Whether the file still begins with the rows that were read, by its length and by the end of these rows. */
static bool is_same(const struct watch_follower *f, int fd, const struct stat *st)
{
    char now[sizeof f->before];
    if (st->st_dev != f->device || st->st_ino != f->inode || st->st_size < f->offset) return false;
    if (!f->n_before || st->st_size == f->offset) return true;
    return pread(fd, now, f->n_before, f->offset - (off_t)f->n_before) == (ssize_t)f->n_before
           && !memcmp(now, f->before, f->n_before);
}

static void remember(struct watch_follower *f, const char *line, size_t bytes)
{
    f->n_before = YOKE_MIN(bytes, sizeof f->before);
    memcpy(f->before, line + bytes - f->n_before, f->n_before);
    f->offset += (off_t)bytes;
}

/*
 * Whether a line that is no row is left out. Its end is at `end` in the file, which has `bytes` bytes. The
 * line must have been there for a while.
 */
static bool is_damage(struct watch_follower *f, off_t end, off_t bytes)
{
    if (end > f->settled && !f->damaged_ns) {
        f->damaged_ns = yokei_now_ns();
        f->damaged_bytes = bytes;
    }
    if (end > f->settled && yokei_seconds_since(f->damaged_ns) < SETTLED) return false;
    f->settled = YOKE_MAX(f->settled, f->damaged_ns ? f->damaged_bytes : 0);
    f->damaged_ns = 0;
    watch_event_add(&f->history, "metrics.jsonl: the line at byte %lld is no new row, and is left out",
                    (long long)f->offset);
    return true;
}

/* Use the whole lines among n bytes. *used_out is the number of bytes of the lines that were used. */
static yoke_status take_lines(struct watch_follower *f, const char *path, size_t n, off_t bytes,
                              size_t *used_out)
{
    *used_out = 0;
    for (char *newline; (newline = memchr(f->data + *used_out, '\n', n - *used_out));) {
        struct yokei_metrics_row row;
        const char *line = f->data + *used_out;
        const size_t length = (size_t)(newline - line) + 1;
        if (f->is_inside_long)
            f->is_inside_long = false;
        else {
            yoke_status status = yokei_metrics_line(path, (size_t)f->offset, line, length - 1, &f->reader,
                                                    &row);
            if (!status) status = watch_history_add(&f->history, &row);
            if (status == YOKE_ENOMEM) return status;
            if (status && !is_damage(f, f->offset + (off_t)length, bytes)) return YOKE_OK;
            if (!status) f->damaged_ns = 0, f->grown_ns = yokei_now_ns();
        }
        remember(f, line, length);
        *used_out += length;
    }
    return YOKE_OK;
}

/* Leave out n bytes of a line that has no end and is longer than any row. */
static void pass_over(struct watch_follower *f, size_t n)
{
    if (!f->is_inside_long)
        watch_event_add(&f->history, "metrics.jsonl: the line at byte %lld is too long, and is left out",
                        (long long)f->offset);
    f->is_inside_long = true;
    remember(f, f->data, n);
}

static yoke_status need_room(struct watch_follower *f, size_t bytes)
{
    if (bytes <= f->capacity) return YOKE_OK;
    char *data = realloc(f->data, bytes);
    if (!data) return yoke_fail(YOKE_ENOMEM, "yoke watch: no memory to read metrics.jsonl");
    f->data = data;
    f->capacity = bytes;
    return YOKE_OK;
}

static yoke_status read_rows(struct watch_follower *f, const char *path, int fd, const struct stat *st)
{
    size_t used = 0;
    YOKE_TRY(need_room(f, PIECE));
    const ssize_t n = pread(fd, f->data, f->capacity, f->offset);
    if (n < 0) {
        yokei_text(f->problem, sizeof f->problem, "%s: cannot be read: %s", path, yokei_why(errno));
        return YOKE_OK;
    }
    YOKE_TRY(take_lines(f, path, (size_t)n, st->st_size, &used));
    const bool is_full = (size_t)n == f->capacity && !f->damaged_ns;
    if (!used && is_full && f->capacity < YOKEI_METRICS_LONGEST && !f->is_inside_long)
        YOKE_TRY(need_room(f, 2 * f->capacity));
    else if (!used && is_full)
        pass_over(f, (size_t)n);
    f->behind = is_full;
    f->share_read = st->st_size > 0 ? (double)f->offset / (double)st->st_size : 1;
    return YOKE_OK;
}

static yoke_status look_at_metrics(struct watch_follower *f)
{
    char path[4200];
    struct stat st;
    size_t bytes;
    int fd;
    path_in(f, "metrics.jsonl", path, sizeof path);
    f->behind = false;
    f->problem[0] = 0;
    if (yokei_file_open(path, YOKE_EDATA, &fd, &bytes)) {
        if (f->has_metrics && !yokei_is_there(path)) {
            watch_event_add(&f->history, "metrics.jsonl is gone; waiting for a new one");
            f->has_metrics = false;
            begin_again(f);
        }
        if (yokei_is_there(path)) yokei_text(f->problem, sizeof f->problem, "%s", yoke_last_error());
        return YOKE_OK;
    }
    yoke_status status = YOKE_OK;
    if (fstat(fd, &st))
        yokei_text(f->problem, sizeof f->problem, "%s: cannot be examined: %s", path, yokei_why(errno));
    else {
        if (f->has_metrics && !is_same(f, fd, &st)) {
            watch_event_add(&f->history, "metrics.jsonl was replaced or cut; it is read from its beginning");
            begin_again(f);
        }
        f->has_metrics = true;
        f->device = st.st_dev;
        f->inode = st.st_ino;
        status = read_rows(f, path, fd, &st);
    }
    close(fd);
    return status;
}

/* ---- one look ---- */

yoke_status watch_follow(struct watch_follower *f)
{
    const uint64_t grown = f->grown_ns;
    look_at_folder(f);
    if (!f->is_there) return YOKE_OK;
    read_plan(f);
    YOKE_TRY(look_at_metrics(f));
    f->has_grown = f->has_grown || (f->grown_ns != grown && f->has_seen_all);
    f->has_seen_all = f->has_seen_all || !f->behind;
    return YOKE_OK;
}

double watch_quiet_seconds(const struct watch_follower *f)
{
    return yokei_seconds_since(f->grown_ns ? f->grown_ns : f->begun_ns);
}

double watch_quiet_limit(const struct watch_follower *f)
{
    const double step = watch_step_seconds(&f->history);
    return isfinite(step) ? fmax(10, 5 * step) : 10;
}

bool watch_all_steps(const struct watch_follower *f)
{
    return f->has_plan && f->plan.steps > 0 && f->history.n_rows && f->history.last.step >= f->plan.steps;
}

double watch_seconds_left(const struct watch_follower *f)
{
    const struct watch_history *h = &f->history;
    const double step = watch_step_seconds(h);
    if (!f->has_plan || !h->n_rows) return NAN;
    if (f->plan.steps > 0) return step * (double)YOKE_MAX(0, f->plan.steps - h->last.step);
    return f->plan.budget_seconds > 0 ? fmax(0, f->plan.budget_seconds - h->last.seconds) : NAN;
}

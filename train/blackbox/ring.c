/* SPDX-License-Identifier: Apache-2.0 */
/* The side of the rank that trains: it creates its file, and writes records, events and the end. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/map_shared.h"
#include "core/base/times.h"
#include "train/blackbox/box.h"

const char *const yokei_box_end_names[YOKEI_BOX_N_ENDS] = { "running", "done", "stopped", "failed" };
const char *const yokei_box_kind_names[YOKEI_BOX_N_KINDS] = { "start",    "loss spike", "norm spike",
                                                              "overflow", "bad loss",   "audit failed",
                                                              "end" };

struct yokei_box_writer {
    char *file; /* the mapping */
    struct yokei_box_head head;
    char path[4096], folder[4096];
    struct yokei_box_status status;
    uint64_t n_records, n_events;
    int64_t last_step;
    int n_copies;
};

void yokei_box_name(int rank, const char *suffix, char *name_out, size_t bytes)
{
    yokei_text(name_out, bytes, "blackbox-%05d%s.bin", rank, suffix);
}

/* ---- the parts of the file ---- */

static struct yokei_box_status *status_at(const struct yokei_box_writer *w, uint64_t number)
{
    return (struct yokei_box_status *)(void *)(w->file + w->head.status_at) + number % 2;
}

static _Atomic int64_t *begun_at(const struct yokei_box_writer *w)
{
    return (_Atomic int64_t *)(void *)(w->file + w->head.status_at + 2 * sizeof(struct yokei_box_status));
}

static struct yokei_box_event *event_at(const struct yokei_box_writer *w, uint64_t number)
{
    return (struct yokei_box_event *)(void *)(w->file + w->head.events_at) + (number - 1) % YOKEI_BOX_EVENTS;
}

static char *record_at(const struct yokei_box_writer *w, uint64_t number)
{
    return w->file + w->head.ring_at + (number - 1) % w->head.n_records * (uint64_t)w->head.record_bytes;
}

/* The checksum of a part that begins with its checksum. */
static uint64_t sum_of(const void *part, size_t bytes)
{
    return yokei_hash((const char *)part + sizeof(uint64_t), bytes - sizeof(uint64_t), 0);
}

/*
 * Replace a part. While it is being written, the checksum in the file is 0, so a reader, also after a
 * SIGKILL, does not take an unfinished part for a whole one. 0 may be the right checksum of a part with a
 * probability of 2^-64.
 */
static void replace(char *to, const void *first, size_t first_bytes, const void *rest, size_t rest_bytes,
                    uint64_t checksum)
{
    _Atomic uint64_t *const word = (_Atomic uint64_t *)(void *)to;
    atomic_store_explicit(word, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    memcpy(to + sizeof checksum, (const char *)first + sizeof checksum, first_bytes - sizeof checksum);
    if (rest_bytes) memcpy(to + first_bytes, rest, rest_bytes);
    atomic_store_explicit(word, checksum, memory_order_release);
}

/* ---- creation ---- */

static uint64_t part(uint64_t *at, uint64_t bytes)
{
    const uint64_t here = *at;
    *at += (bytes + 63) / 64 * 64;
    return here;
}

/* Fill in the sizes and places of all parts. */
static void lay_out(struct yokei_box_head *h)
{
    uint64_t at = 0;
    h->magic = YOKEI_BOX_MAGIC;
    h->version = YOKEI_BOX_VERSION;
    h->head_bytes = sizeof *h;
    h->record_bytes = (uint32_t)(sizeof(struct yokei_box_record)
                                 + (size_t)h->n_layers * sizeof(struct yokei_box_values));
    h->n_records = YOKEI_BOX_MOST_BYTES / h->record_bytes;
    h->n_records = YOKE_MIN(YOKE_MAX(h->n_records, (uint32_t)YOKEI_BOX_LEAST_RECORDS),
                            (uint32_t)YOKEI_BOX_MOST_RECORDS);
    part(&at, sizeof *h);
    h->status_at = part(&at, 2 * sizeof(struct yokei_box_status) + sizeof(int64_t));
    h->events_at = part(&at, YOKEI_BOX_EVENTS * sizeof(struct yokei_box_event));
    h->layers_at = part(&at, h->n_layers * sizeof(struct yokei_box_layer));
    h->tensors_at = part(&at, h->n_tensors * sizeof(struct yokei_box_tensor));
    h->ring_at = part(&at, (uint64_t)h->n_records * h->record_bytes);
    h->file_bytes = at;
    h->loss_deviations = yokei_spike_rule.loss_deviations;
    h->loss_least = yokei_spike_rule.loss_least;
    h->norm_deviations = yokei_spike_rule.norm_deviations;
    h->norm_least = yokei_spike_rule.norm_least;
    h->window = yokei_spike_rule.window;
    h->least_values = yokei_spike_rule.least_values;
    h->quiet_steps = yokei_spike_rule.quiet_steps;
    h->pid = (int32_t)getpid();
    h->started = yokei_wall();
    h->attempt = 1;
}

static void write_head(struct yokei_box_writer *w)
{
    w->head.checksum = 0;
    w->head.checksum = yokei_hash(&w->head, sizeof w->head, 0);
    memcpy(w->file, &w->head, sizeof w->head);
}

static yoke_status open_file(struct yokei_box_writer *w, int flags)
{
    void *memory = NULL;
    const int fd = yokei_open_shared(w->path, flags);
    if (fd < 0) return yoke_fail(YOKE_EIO, "black box %s: cannot be created: %s", w->path, strerror(errno));
    const yoke_status status = yokei_map_shared(fd, w->head.file_bytes, "black box", w->path, &memory);
    close(fd);
    if (status && flags & O_CREAT) unlink(w->path);
    w->file = memory;
    return status;
}

/* Whether both heads are of one rank, place, device, data and set of choices. */
static bool is_same_run(const struct yokei_box_head *a, const struct yokei_box_head *b)
{
    return a->rank == b->rank && a->n_ranks == b->n_ranks && a->replica == b->replica && a->stage == b->stage
           && a->place == b->place && a->n_replicas == b->n_replicas && a->n_stages == b->n_stages
           && a->n_places == b->n_places && a->zero == b->zero && a->batch == b->batch
           && a->sequence == b->sequence && a->micro_batch == b->micro_batch && a->seed == b->seed
           && a->data_hash == b->data_hash && a->n_training_tokens == b->n_training_tokens
           && !strcmp(a->skip_samples, b->skip_samples) && yokei_box_computes_alike(a, b);
}

/* Whether the records of the old file fit the new head and its tables. */
static bool is_alike(const struct yokei_box *old, const struct yokei_box_head *h,
                     const struct yokei_box_layer *layers, const struct yokei_box_tensor *tensors)
{
    const struct yokei_box_head *o = &old->head;
    return !old->is_cut && o->file_bytes == h->file_bytes && o->record_bytes == h->record_bytes
           && o->n_records == h->n_records && o->n_layers == h->n_layers && o->n_tensors == h->n_tensors
           && is_same_run(o, h) && !memcmp(old->layers, layers, h->n_layers * sizeof *layers)
           && !memcmp(old->tensors, tensors, h->n_tensors * sizeof *tensors);
}

/* Go on in the file that is there. False: it is missing, damaged, or of another kind of run. */
static bool go_on(struct yokei_box_writer *w, const struct yokei_box_layer *layers,
                  const struct yokei_box_tensor *tensors)
{
    struct yokei_box *old = NULL;
    if (yokei_box_read(w->path, &old)) return false;
    const bool fits = is_alike(old, &w->head, layers, tensors) && !open_file(w, 0);
    if (fits) {
        w->head.attempt = old->head.attempt + 1;
        w->status = old->status;
        if (old->n) {
            w->n_records = yokei_box_record(old, old->n - 1)->number;
            w->last_step = yokei_box_record(old, old->n - 1)->step;
        }
        if (old->n_events) w->n_events = old->events[old->n_events - 1].number;
    }
    yokei_box_free(old);
    return fits;
}

static void path_of(const char *folder, int rank, const char *suffix, char *out, size_t bytes)
{
    char name[64];
    yokei_box_name(rank, suffix, name, sizeof name);
    yokei_text(out, bytes, "%s/%s", folder, name);
}

/* The copies that an earlier run made belong to the file that is removed. */
static void remove_copies(const char *folder, int rank, const struct yokei_box *old)
{
    char path[4200], suffix[40];
    for (int i = 0; old && i < old->n_events; i++) {
        yokei_text(suffix, sizeof suffix, ".step-%lld", (long long)old->events[i].step);
        path_of(folder, rank, suffix, path, sizeof path);
        unlink(path);
    }
}

/* Make room for a new file. */
static void move_away(const char *folder, int rank, bool keeps)
{
    char path[4200], before[4200];
    struct yokei_box *old = NULL;
    path_of(folder, rank, "", path, sizeof path);
    path_of(folder, rank, ".before", before, sizeof before);
    if (keeps) {
        yokei_disk_rename(path, before);
        return;
    }
    if (!yokei_box_read(path, &old)) remove_copies(folder, rank, old);
    yokei_box_free(old);
    unlink(before);
    unlink(path);
}

yoke_status yokei_box_create(const char *folder, const struct yokei_box_head *head,
                             const struct yokei_box_layer *layers, const struct yokei_box_tensor *tensors,
                             bool goes_on, struct yokei_box_writer **writer_out)
{
    struct yokei_box_writer *w = calloc(1, sizeof *w);
    if (!w) return yoke_fail(YOKE_ENOMEM, "black box: no host memory");
    w->head = *head;
    w->status = (struct yokei_box_status){ .number = 0 };
    lay_out(&w->head);
    yokei_text(w->folder, sizeof w->folder, "%s", folder);
    path_of(folder, w->head.rank, "", w->path, sizeof w->path);
    const bool went_on = goes_on && go_on(w, layers, tensors);
    if (!went_on) {
        move_away(folder, w->head.rank, goes_on);
        const yoke_status status = open_file(w, O_CREAT | O_EXCL);
        if (status) {
            free(w);
            return status;
        }
        memcpy(w->file + w->head.layers_at, layers, w->head.n_layers * sizeof *layers);
        memcpy(w->file + w->head.tensors_at, tensors, w->head.n_tensors * sizeof *tensors);
    }
    write_head(w);
    atomic_store(begun_at(w), 0);
    w->status.end = YOKEI_BOX_RUNS;
    w->status.error = YOKE_OK;
    w->status.text[0] = '\0';
    yokei_box_note(w, YOKEI_BOX_EVENT_START, head->first_step, (double)head->first_step,
                   (double)w->head.attempt, 0, NULL);
    yokei_box_audited(w, w->status.audit_step, w->status.audit_ratio, w->status.audit_seconds,
                      (yoke_status)w->status.audit_status);
    *writer_out = w;
    return YOKE_OK;
}

void yokei_box_drop(const char *folder, int first, bool goes_on)
{
    char path[4200];
    for (int r = first; r < YOKEI_BOX_MOST_RANKS; r++) {
        path_of(folder, r, "", path, sizeof path);
        if (access(path, F_OK)) return;
        move_away(folder, r, goes_on);
    }
}

/* ---- writing ---- */

void yokei_box_begin(struct yokei_box_writer *w, int64_t step)
{
    atomic_store_explicit(begun_at(w), step, memory_order_relaxed);
    w->status.end_step = step;
}

void yokei_box_append(struct yokei_box_writer *w, const struct yokei_box_record *record,
                      const struct yokei_box_values *values)
{
    struct yokei_box_record r = *record;
    const size_t rest = w->head.record_bytes - sizeof r;
    r.number = ++w->n_records;
    r.attempt = w->head.attempt;
    r.time = yokei_wall();
    char *const to = record_at(w, r.number);
    /* the hash of the record seeds the hash of its layers, so both parts lie where they are written from */
    r.checksum = yokei_hash(values, rest, sum_of(&r, sizeof r));
    replace(to, &r, sizeof r, values, rest, r.checksum);
    w->last_step = r.step;
}

int64_t yokei_box_last_step(const struct yokei_box_writer *w) { return w->last_step; }

void yokei_box_note(struct yokei_box_writer *w, enum yokei_box_kind kind, int64_t step, double a, double b,
                    double c, const char *text)
{
    struct yokei_box_event e = { .number = ++w->n_events,
                                 .step = step,
                                 .time = yokei_wall(),
                                 .kind = (int32_t)kind,
                                 .attempt = w->head.attempt,
                                 .a = a,
                                 .b = b,
                                 .c = c };
    if (text) yokei_text(e.text, sizeof e.text, "%s", text);
    replace((char *)event_at(w, e.number), &e, sizeof e, NULL, 0, sum_of(&e, sizeof e));
}

static void write_status(struct yokei_box_writer *w)
{
    w->status.number++;
    w->status.time = yokei_wall();
    replace((char *)status_at(w, w->status.number), &w->status, sizeof w->status, NULL, 0,
            sum_of(&w->status, sizeof w->status));
}

void yokei_box_audited(struct yokei_box_writer *w, int64_t step, double ratio, double seconds,
                       yoke_status status)
{
    w->status.audit_step = step;
    w->status.audit_ratio = ratio;
    w->status.audit_seconds = seconds;
    w->status.audit_status = (int32_t)status;
    write_status(w);
}

yoke_status yokei_box_copy(struct yokei_box_writer *w, int64_t step)
{
    char suffix[40], path[4200];
    if (w->n_copies == YOKEI_BOX_MOST_COPIES) return YOKE_OK;
    w->n_copies++;
    yokei_text(suffix, sizeof suffix, ".step-%lld", (long long)step);
    path_of(w->folder, w->head.rank, suffix, path, sizeof path);
    return yokei_file_write(path, w->file, w->head.file_bytes);
}

void yokei_box_close(struct yokei_box_writer *w, enum yokei_box_end end, yoke_status status, const char *text)
{
    if (!w) return;
    w->status.end = (int32_t)end;
    w->status.error = (int32_t)status;
    yokei_text(w->status.text, sizeof w->status.text, "%s", text ? text : "");
    yokei_box_note(w, YOKEI_BOX_EVENT_END, w->status.end_step, (double)end, (double)status, 0, NULL);
    write_status(w);
    msync(w->file, w->head.file_bytes, MS_SYNC);
    yokei_unmap_shared(w->file, w->head.file_bytes);
    free(w);
}

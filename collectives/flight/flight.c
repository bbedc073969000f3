/* SPDX-License-Identifier: Apache-2.0 */
/* Flight records: see flight.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "collectives/flight/flight.h"
#include "core/base/base.h"
#include "core/base/map_shared.h"

static const char *const kind_names[YOKEI_N_KINDS] = {
    "all_reduce", "reduce_scatter", "all_gather", "broadcast",  "send",   "recv",    "barrier",
    "group",      "comm_destroy",   "reduce",     "all_to_all", "gather", "scatter",
};

const char *yokei_kind_name(unsigned kind) { return kind < YOKEI_N_KINDS ? kind_names[kind] : "?"; }

#define NAME_OF(ID, name, can_be_named, in_rank_order, reach) #name,
static const char *const algorithm_names[YOKEI_N_ALGORITHMS] = { YOKE_ALGORITHMS(NAME_OF) };
#undef NAME_OF

const char *yokei_algorithm_name(unsigned id) { return id < YOKEI_N_ALGORITHMS ? algorithm_names[id] : "?"; }

void yokei_flight_name(int rank, char *name_out, size_t bytes)
{
    yokei_text(name_out, bytes, "flight-%05d.bin", rank);
}

static void flight_path(const char *folder, int rank, char path[4096])
{
    char name[32];
    yokei_flight_name(rank, name, sizeof name);
    yokei_text(path, 4096, "%s/%s", folder, name);
}

/* CLOCK_REALTIME - CLOCK_MONOTONIC. Of a few readings the one with the shortest interval counts. */
static int64_t clock_offset(void)
{
    int64_t offset = 0;
    uint64_t width = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        struct timespec wall;
        const uint64_t before = yokei_now_ns();
        clock_gettime(CLOCK_REALTIME, &wall);
        const uint64_t after = yokei_now_ns();
        if (after - before >= width) continue;
        width = after - before;
        offset = (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - (int64_t)(before + width / 2);
    }
    return offset;
}

/*
 * If another process shortens the record, the next access raises SIGBUS. The command then names the file.
 * Without host memory for this note the record is used all the same, because ranks that cannot read it would
 * take its rank for dead.
 */
static void note_mapping(const struct yokei_flight_file *file, const char *path, int fd)
{
    (void)yokei_mapped_add(file, sizeof *file, path, fd);
}

/* Give the file behind `fd` its size, and map it. `name` is for error texts. */
static yoke_status map_for_writing(int fd, const char *name, int rank, struct yokei_flight_file **file_out)
{
    void *memory;
    YOKE_TRY(yokei_map_shared(fd, sizeof(struct yokei_flight_file), "flight record", name, &memory));
    struct yokei_flight_file *file = memory;
    if (atomic_load(&file->magic) != YOKEI_FLIGHT_MAGIC) {
        file->bytes = sizeof *file;
        file->n_entries = YOKEI_FLIGHT_ENTRIES;
        file->rank = rank;
        file->clock_offset_ns = clock_offset();
        file->host_id = yokei_host_id();
        atomic_store(&file->waits_for, YOKEI_WAITS_FOR_NONE);
        atomic_store(&file->culprit, -1);
        atomic_store(&file->first_gone, -1);
        atomic_store(&file->magic, YOKEI_FLIGHT_MAGIC);
    }
    *file_out = file;
    return YOKE_OK;
}

yoke_status yokei_flight_create(const char *folder, int rank, bool fresh, struct yokei_flight_file **file_out)
{
    char path[4096];
    flight_path(folder, rank, path);
    if (fresh) unlink(path);
    int fd = yokei_open_shared(path, O_CREAT | (fresh ? O_EXCL : 0));
    if (fd < 0) return yoke_fail(YOKE_EIO, "flight record %s: cannot be created: %s", path, strerror(errno));
    const yoke_status status = map_for_writing(fd, path, rank, file_out);
    close(fd);
    return status;
}

void yokei_flight_drop(const char *folder, int first)
{
    char path[4096];
    do flight_path(folder, first++, path);
    while (!unlink(path));
}

yoke_status yokei_flight_create_memory(int rank, int *fd_out, struct yokei_flight_file **file_out)
{
    int fd = memfd_create("yoke-flight", MFD_CLOEXEC);
    if (fd < 0) return yoke_fail(YOKE_EIO, "flight record: memfd_create: %s", strerror(errno));
    const yoke_status status = fchmod(fd, 0600)
                                   ? yoke_fail(YOKE_EIO, "flight record: fchmod: %s", strerror(errno))
                                   : map_for_writing(fd, "in memory", rank, file_out);
    if (status)
        close(fd);
    else
        *fd_out = fd;
    return status;
}

/*
 * Whether the file behind `fd` is a record that this code can read. The version is checked before the length,
 * because the length differs between versions.
 */
static yoke_status check_file(int fd, const char *path)
{
    const uint64_t version = 0xffull << 48;
    uint64_t magic = 0;
    uint32_t bytes = 0;
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return yoke_fail(YOKE_EDATA, "flight record %s: not a file", path);
    if (pread(fd, &magic, sizeof magic, 0) == (ssize_t)sizeof magic && magic != YOKEI_FLIGHT_MAGIC
        && (magic & ~version) == (YOKEI_FLIGHT_MAGIC & ~version))
        return yoke_fail(
            YOKE_EDATA,
            "flight record %s: format '%c', and this version of Yoke reads '%c'; use the Yoke that wrote it",
            path, (char)(magic >> 48) >= ' ' && (char)(magic >> 48) <= '~' ? (char)(magic >> 48) : '?',
            (char)(YOKEI_FLIGHT_MAGIC >> 48));
    if (st.st_size < (off_t)sizeof(struct yokei_flight_file))
        return yoke_fail(YOKE_EDATA, "flight record %s: %lld bytes, shorter than a record's %zu", path,
                         (long long)st.st_size, sizeof(struct yokei_flight_file));
    if (magic != YOKEI_FLIGHT_MAGIC
        || pread(fd, &bytes, sizeof bytes, offsetof(struct yokei_flight_file, bytes)) != (ssize_t)sizeof bytes
        || bytes != sizeof(struct yokei_flight_file))
        return yoke_fail(YOKE_EDATA, "flight record %s: not a flight record", path);
    return YOKE_OK;
}

/* Another process's descriptor may be anything, so never block on it. */
static yoke_status open_checked(const char *path, int flags, int *fd_out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (fd < 0)
        return yoke_fail(yokei_input_status(errno, YOKE_EDATA), "flight record %s: cannot be opened: %s",
                         path, yokei_why(errno));
    const yoke_status status = check_file(fd, path);
    if (status)
        close(fd);
    else
        *fd_out = fd;
    return status;
}

static yoke_status open_path(const char *path, int flags, const struct yokei_flight_file **file_out)
{
    int fd = -1;
    YOKE_TRY(open_checked(path, flags, &fd));
    const struct yokei_flight_file *file = mmap(NULL, sizeof *file, PROT_READ, MAP_SHARED, fd, 0);
    int error = errno;
    if (file != MAP_FAILED) note_mapping(file, path, fd);
    close(fd);
    if (file == MAP_FAILED)
        return yoke_fail(YOKE_EIO, "flight record %s: cannot be mapped: %s", path, strerror(error));
    *file_out = file;
    return YOKE_OK;
}

static void clean_text(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~') *c = *c == '\n' || *c == '\t' ? ' ' : '?';
}

yoke_status yokei_flight_read(const char *path, struct yokei_flight_file **copy_out)
{
    int fd = -1;
    YOKE_TRY(open_checked(path, O_NOFOLLOW, &fd));
    struct yokei_flight_file *copy = malloc(sizeof *copy);
    /* read and not mapped, because the file may become shorter at any time */
    const ssize_t got = copy ? pread(fd, copy, sizeof *copy, 0) : 0;
    const int error = errno;
    close(fd);
    if (got != (ssize_t)sizeof *copy) {
        free(copy);
        return copy ? yoke_fail(YOKE_EIO, "flight record %s: cannot be read: %s", path,
                                got < 0 ? strerror(error) : "it became shorter")
                    : yoke_fail(YOKE_ENOMEM, "flight record %s: no memory for %zu bytes", path, sizeof *copy);
    }
    clean_text(copy->host, sizeof copy->host);
    clean_text(copy->device, sizeof copy->device);
    clean_text(copy->comm_name, sizeof copy->comm_name);
    clean_text(copy->busy, sizeof copy->busy);
    clean_text(copy->error, sizeof copy->error);
    for (int i = 0; i < YOKEI_FLIGHT_COMMS; i++) clean_text(copy->comms[i].name, sizeof copy->comms[i].name);
    *copy_out = copy;
    return YOKE_OK;
}

yoke_status yokei_flight_open(const char *folder, int rank, const struct yokei_flight_file **file_out)
{
    char path[4096];
    flight_path(folder, rank, path);
    return open_path(path, O_NOFOLLOW, file_out);
}

yoke_status yokei_flight_open_memory(int pid, int fd, const struct yokei_flight_file **file_out)
{
    char path[64];
    yokei_text(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    return open_path(path, 0, file_out); /* an entry in /proc is always a link */
}

yoke_status yokei_flight_look(const char *folder, int rank, const struct yokei_flight_file **copy)
{
    static const size_t HEAD = offsetof(struct yokei_flight_file, entries);
    char path[4096], head[offsetof(struct yokei_flight_file, entries)];
    flight_path(folder, rank, path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return yoke_fail(YOKE_EIO, "flight record %s: cannot be opened: %s", path, strerror(errno));
    const ssize_t n = read(fd, head, HEAD);
    close(fd);
    uint64_t magic;
    memcpy(&magic, head, sizeof magic); /* the first field */
    if (n != (ssize_t)HEAD || magic != YOKEI_FLIGHT_MAGIC)
        return yoke_fail(YOKE_EDATA, "flight record %s: not a flight record of this version", path);
    if (!*copy) {
        void *memory = mmap(NULL, sizeof **copy, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return yoke_fail(YOKE_ENOMEM, "flight record %s: no memory for a copy", path);
        *copy = memory;
    }
    memcpy((void *)(uintptr_t)*copy, head, HEAD);
    return YOKE_OK;
}

void yokei_flight_publish(struct yokei_flight_file *file)
{
    msync(file, offsetof(struct yokei_flight_file, entries), MS_SYNC);
}

void yokei_flight_close(const struct yokei_flight_file *file) { yokei_unmap_shared(file, sizeof *file); }

void yokei_flight_set_agent(struct yokei_flight_file *file, enum yokei_agent_state state, int pid, int signal,
                            int exit_code)
{
    uint64_t word = (uint64_t)(state & 0xff) | (uint64_t)(signal & 0xff) << 8
                    | (uint64_t)(exit_code & 0xffff) << 16 | (uint64_t)(uint32_t)pid << 32;
    uint64_t start = 0;
    if (state == YOKEI_AGENT_ALIVE && yokei_process_state(pid, &start))
        atomic_store(&file->rank_start, start);
    atomic_store_explicit(&file->agent_ns, yokei_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&file->agent, word, memory_order_release);
}

struct yokei_agent_verdict yokei_flight_agent(const struct yokei_flight_file *file)
{
    uint64_t word = atomic_load_explicit(&file->agent, memory_order_acquire);
    uint64_t now = yokei_now_ns(), then = atomic_load_explicit(&file->agent_ns, memory_order_relaxed);
    return (struct yokei_agent_verdict){ .state = (enum yokei_agent_state)(word & 0xff),
                                         .pid = (int)(word >> 32),
                                         .signal = (int)(word >> 8 & 0xff),
                                         .exit_code = (int)(word >> 16 & 0xffff),
                                         .age_ns = now > then ? now - then : 0 };
}

uint64_t yokei_beats_stand(struct yokei_beats *beats, const struct yokei_flight_file *file, uint64_t now)
{
    static const uint64_t AWAY_NS = 1000000000;
    const uint64_t count = atomic_load(&file->agent_beats);
    if (!count || count != beats->count || now - beats->looked_ns > AWAY_NS) beats->since_ns = now;
    beats->count = count;
    beats->looked_ns = now;
    return now - beats->since_ns;
}

bool yokei_flight_ended_badly(const char *folder, int rank, int *signal_out, int *code_out)
{
    const struct yokei_flight_file *file;
    if (yokei_flight_open(folder, rank, &file)) return false;
    const struct yokei_agent_verdict word = yokei_flight_agent(file);
    yokei_flight_close(file);
    *signal_out = word.signal;
    *code_out = word.exit_code;
    return word.state == YOKEI_AGENT_DEAD && (word.signal || word.exit_code);
}

bool yokei_stopped_for_long(const struct yokei_agent_verdict *verdict, uint64_t seen_ns, bool here)
{
    static const uint64_t SINCE_NS = 1000000000, SEEN_NS = 250000000;
    return (here && verdict->pid ? verdict->age_ns : seen_ns) > SINCE_NS && seen_ns > SEEN_NS;
}

/* strsignal allocates memory for a number that is no signal, and a damaged record may hold any number. */
static const char *signal_text(int signal)
{
    const char *text = sigdescr_np(signal);
    return text ? text : "unknown";
}

void yokei_agent_verdict_text(const struct yokei_agent_verdict *verdict, char *text_out, size_t bytes)
{
    if (verdict->state == YOKEI_AGENT_DEAD && verdict->signal)
        yokei_text(text_out, bytes, "died by signal %d (%s)", verdict->signal, signal_text(verdict->signal));
    else if (verdict->state == YOKEI_AGENT_DEAD)
        yokei_text(text_out, bytes, "exited with code %d", verdict->exit_code);
    else if (verdict->state == YOKEI_AGENT_ENDED)
        yokei_text(text_out, bytes, "was ended by its agent");
    else if (verdict->state == YOKEI_AGENT_LOST)
        yokei_text(text_out, bytes, "ended when its agent was killed");
    else if (verdict->state == YOKEI_AGENT_SILENT)
        yokei_text(text_out, bytes,
                   "gives no sign of life, nor does its agent: its host is down or cannot be reached");
    else if (verdict->state == YOKEI_AGENT_STOPPED)
        yokei_text(text_out, bytes, "was stopped by signal %d (%s)", verdict->signal,
                   signal_text(verdict->signal));
    else
        yokei_text(text_out, bytes, "runs");
}

/* The time since `then`, for readers, between two texts; "" if it cannot be known. */
static void age_text(bool here, const char *before, uint64_t then, const char *after, char *text_out,
                     size_t bytes)
{
    uint64_t now = yokei_now_ns();
    text_out[0] = '\0';
    if (here)
        yokei_text(text_out, bytes, "%s%.1f s%s", before, now > then ? (double)(now - then) * 1e-9 : 0.0,
                   after);
}

static void describe_inside(const struct yokei_flight_file *file, bool here, char *text_out, size_t bytes)
{
    char age[64], waits[48] = "";
    age_text(here, ", last step ", atomic_load(&file->progress_ns), " ago", age, sizeof age);
    int waits_for = atomic_load(&file->waits_for);
    if (waits_for >= 0) yokei_text(waits, sizeof waits, ", waiting for rank %d", waits_for);
    if (waits_for == YOKEI_WAITS_FOR_DEVICE) yokei_text(waits, sizeof waits, ", waiting for its device");
    yokei_text(text_out, bytes, "in %s #%u of \"%.31s\", step %u%s%s",
               yokei_kind_name(atomic_load(&file->kind)), atomic_load(&file->sequence), file->comm_name,
               atomic_load(&file->step), waits, age);
}

void yokei_flight_describe(const struct yokei_flight_file *file, bool here, char *text_out, size_t bytes)
{
    char age[64];
    age_text(here, " for ", atomic_load(&file->heartbeat_ns), "", age, sizeof age);
    switch (atomic_load_explicit(&file->state, memory_order_acquire)) {
    case YOKEI_RANK_UNBORN: yokei_text(text_out, bytes, "before its first collective"); return;
    case YOKEI_RANK_INSIDE: describe_inside(file, here, text_out, bytes); return;
    case YOKEI_RANK_BUSY: yokei_text(text_out, bytes, "busy%s: %.63s", age, file->busy); return;
    case YOKEI_RANK_FAILED: yokei_text(text_out, bytes, "failed: %.1023s", file->error); return;
    case YOKEI_RANK_STARTING: yokei_text(text_out, bytes, "starting MPI"); return;
    case YOKEI_RANK_MEETING:
        yokei_text(text_out, bytes,
                   atomic_load(&file->n_comms)
                       ? "waiting for the others to make the communicator \"%.31s\""
                       : "waiting for the others to make its first communicator, \"%.31s\"",
                   file->comm_name);
        return;
    case YOKEI_RANK_LEFT: yokei_text(text_out, bytes, "done with all collectives"); return;
    default: break;
    }
    if (atomic_load(&file->n_operations) == 0) {
        yokei_text(text_out, bytes, "outside collectives, none called yet");
        return;
    }
    yokei_text(text_out, bytes, "outside collectives%s, the last was %s #%u of \"%.31s\"", age,
               yokei_kind_name(atomic_load(&file->kind)), atomic_load(&file->sequence), file->comm_name);
}

char yokei_process_state(int pid, uint64_t *start_time_out)
{
    char path[64], line[1024];
    yokei_text(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return '\0';
    ssize_t length = read(fd, line, sizeof line - 1);
    close(fd);
    if (length <= 0) return '\0';
    line[length] = '\0';
    /* The name in field 2 may contain any character, so the fields after it are counted from its last
       bracket. */
    const char *after = strrchr(line, ')');
    char state;
    unsigned long long start;
    if (!after
        || sscanf(after + 1,
                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
                  &start)
               != 2)
        return '\0';
    if (start_time_out) *start_time_out = start;
    return state;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The events of timelines of other programs: PyTorch's profiler (also of Megatron and DeepSpeed), and XLA. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/diagnose/foreign.h"
#include "core/base/base.h"

enum { MOST_OPEN = 4096, MOST_EVENTS = 40 << 20 };

yoke_status foreign_grow(void *list, size_t n, size_t *capacity, size_t size)
{
    void *old, *more;
    if (n < *capacity) return YOKE_OK;
    const size_t wanted = *capacity ? 2 * *capacity : 256;
    memcpy(&old, list, sizeof old);
    more = realloc(old, wanted * size);
    if (!more) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for the events");
    memcpy(list, &more, sizeof more);
    *capacity = wanted;
    return YOKE_OK;
}

/* ---- names ---- */

static bool begins(const char *text, const char *with) { return !strncasecmp(text, with, strlen(with)); }
static bool has(const char *text, const char *word) { return strcasestr(text, word) != NULL; }

static bool is_message(const char *name)
{
    return has(name, "SendRecv") || has(name, "send") || has(name, "recv") || has(name, "collective-permute");
}

static bool is_compile(const char *name)
{
    return has(name, "torch.compile") || has(name, "inductor") || has(name, "compile_fx")
           || has(name, "CompileToExecutable") || has(name, "XlaCompile") || has(name, "backend_compile");
}

/* Collectives of XLA, as its operations and its kernels are named. */
static bool is_xla_collective(const char *name)
{
    static const char *const names[] = {
        "all-reduce",         "all-gather",           "reduce-scatter", "all-to-all",
        "collective-permute", "collective-broadcast", "send",           "recv"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(name, names[i])) return true;
    return false;
}

/* 0: the event is not counted. */
static int class_of(const char *category, const char *name)
{
    const bool device = !strcmp(category, "kernel") || begins(category, "gpu_mem");
    if (has(category, "gpu_user_annotation")) return 0;
    if (device && (has(name, "nccl") || has(name, "rccl") || is_xla_collective(name)))
        return is_message(name) ? FOREIGN_MESSAGE : FOREIGN_COLLECTIVE;
    if (device) return FOREIGN_KERNEL;
    if (begins(name, "nccl:") || begins(name, "gloo:") || begins(name, "mpi:") || begins(name, "xccl:")
        || begins(name, "ucc:") || begins(name, "hccl:"))
        return is_message(name) ? FOREIGN_HOST_MESSAGE : FOREIGN_HOST_COLLECTIVE;
    if (begins(name, "c10d::") || !strcmp(name, "record_param_comms")) return FOREIGN_CALL;
    if (!strcmp(category, "python_function"))
        return has(name, ": save_checkpoint") || has(name, "serialization.py") ? FOREIGN_SAVE
               : has(name, ": get_batch") || has(name, "dataloader.py")        ? FOREIGN_DATA
                                                                               : 0;
    if (has(name, "DataLoader") || has(name, "get_batch")) return FOREIGN_DATA;
    if (has(name, "save_checkpoint") || has(name, "torch.save") || has(name, "dcp.save")) return FOREIGN_SAVE;
    if (is_compile(name)) return FOREIGN_COMPILE;
    return !strcmp(category, "cpu_op") ? FOREIGN_OPERATOR : 0;
}

/* Groups of ranks that share tensors, experts or sequences. Their collectives sum no gradients. */
static bool is_inner_group(const json_t *args)
{
    static const char *const words[] = { "TENSOR", "EXPERT", "CONTEXT", "SEQUENCE", "EMBEDDING", "PIPELINE" };
    const char *group = json_string_value(json_object_get(args, "Process Group Description"));
    if (!group) return false;
    if (!strcasecmp(group, "tp") || has(group, "_tp") || has(group, "_cp") || has(group, "_ep")) return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has(group, words[i])) return true;
    return false;
}

static uint32_t hash(uint32_t seed, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) seed = (seed ^ p[i]) * 16777619u;
    return seed;
}

/* A number for all numbers of a list of lists. */
static uint32_t hash_shape(uint32_t seed, const json_t *value, int depth)
{
    size_t i;
    const json_t *item;
    const json_int_t n = json_integer_value(value);
    seed = hash(seed, &n, sizeof n);
    if (depth < 4) json_array_foreach(value, i, item) seed = hash_shape(seed, item, depth + 1);
    return seed;
}

static uint32_t hash_name(const char *name, const json_t *args)
{
    static const char *const keys[] = { "Input Dims", "grid", "block" };
    uint32_t seed = hash(2166136261u, name, strlen(name));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        seed = hash_shape(seed, json_object_get(args, keys[i]), 0);
    return seed;
}

/* ---- values ---- */

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        char *end;
        const double number = strtod(text, &end);
        return end > text ? number : NAN;
    }
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static int rank_in(const json_t *args, const char *key)
{
    const double rank = number_of(args, key);
    return rank >= 0 && rank < FOREIGN_MOST_RANKS ? (int)rank : -1;
}
static int rank_of(const json_t *args)
{
    const int rank = rank_in(args, "rank");
    return rank >= 0 ? rank : rank_in(args, "Rank");
}

/* A process or thread. It may be a name, such as "Spans", which becomes a number below 0. */
static int64_t id_of(const json_t *e, const char *key)
{
    const json_t *id = json_object_get(e, key);
    const char *text = json_string_value(id);
    if (text) return -1 - (int64_t)hash(2166136261u, text, strlen(text));
    return json_is_integer(id) ? (int64_t)json_integer_value(id) : -1;
}

static double size_of_type(const char *type)
{
    static const struct {
        const char *word;
        int bytes;
    } types[] = { { "half", 2 },  { "bfloat16", 2 }, { "float16", 2 }, { "int16", 2 },
                  { "short", 2 }, { "double", 8 },   { "long", 8 },    { "int64", 8 },
                  { "byte", 1 },  { "int8", 1 },     { "char", 1 },    { "bool", 1 },
                  { "e4m3", 1 },  { "e5m2", 1 },     { "float8", 1 },  { "complexfloat", 8 } };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (has(type, types[i].word)) return types[i].bytes;
    return 4;
}

/* The elements of all tensors of a list of shapes, which may have lists of shapes in it. */
static double elements_of(const json_t *shape, int depth)
{
    double sum = 0, product = 1;
    size_t i;
    const json_t *item;
    if (!json_array_size(shape) || depth > 3) return 0;
    json_array_foreach(shape, i, item)
    {
        if (json_is_array(item)) sum += elements_of(item, depth + 1);
        product *= json_number_value(item);
    }
    return json_is_array(json_array_get(shape, 0)) ? sum : product;
}

/* The bytes of a collective or message, as PyTorch's profiler says them. NaN: unknown. */
static double bytes_of(const json_t *args)
{
    const char *type = json_string_value(json_object_get(args, "dtype"));
    const double in = number_of(args, "In msg nelems"), out = number_of(args, "Out msg nelems");
    if (type && (in >= 0 || out >= 0)) return fmax(in >= 0 ? in : 0, out >= 0 ? out : 0) * size_of_type(type);
    const json_t *dims = json_object_get(args, "Input Dims");
    type = json_string_value(json_array_get(json_object_get(args, "Input type"), 0));
    const double n = elements_of(dims, 0);
    return n > 0 && n < 1e15 ? n * size_of_type(type ? type : "") : NAN;
}

/* Who is at the other end of a message, and which way it goes. */
static void find_peer(const char *name, const json_t *args, struct foreign_interval *v)
{
    const char *said = json_string_value(json_object_get(args, "Collective name"));
    const bool sends = has(name, "send") || (said && has(said, "send")),
               receives = has(name, "recv") || (said && has(said, "recv"));
    if (said && (has(said, "send") || has(said, "recv"))) v->direction = has(said, "send") ? 's' : 'r';
    if (!v->direction && sends != receives) v->direction = sends ? 's' : 'r';
    v->peer = rank_in(args, v->direction == 's' ? "Dst Rank" : "Src Rank");
    if (v->peer < 0 && v->class == FOREIGN_CALL) { /* c10d::send(tensors, group, rank, tag) */
        const char *rank = json_string_value(json_array_get(json_object_get(args, "Concrete Inputs"), 2));
        if (rank && *rank >= '0' && *rank <= '9')
            v->peer = (int)YOKE_MIN(strtol(rank, NULL, 10), FOREIGN_MOST_RANKS - 1);
    }
}

/* ---- events ---- */

yoke_status foreign_window_add(struct foreign_job *j, const struct foreign_window *window)
{
    YOKE_TRY(foreign_grow(&j->windows, j->n_windows, &j->window_capacity, sizeof *j->windows));
    j->windows[j->n_windows++] = *window;
    return YOKE_OK;
}

/* "rank 3", "/device:GPU:1" */
static yoke_status name_process(struct foreign_job *j, const json_t *e)
{
    const char *name = json_string_value(json_object_get(json_object_get(e, "args"), "name"));
    const char *at = name ? strcasestr(name, "rank ") : NULL,
               *device = name ? strstr(name, "/device:") : NULL;
    if (device) at = strrchr(device, ':');
    const char *digits = at ? at + (device ? 1 : 5) : NULL;
    if (!digits || *digits < '0' || *digits > '9') return YOKE_OK;
    const long number = YOKE_MIN(strtol(digits, NULL, 10), FOREIGN_MOST_RANKS),
               rank = number + (device ? j->first_device : 0);
    if (rank >= FOREIGN_MOST_RANKS) return YOKE_OK;
    YOKE_TRY(foreign_grow(&j->processes, j->n_processes, &j->process_capacity, sizeof *j->processes));
    j->processes[j->n_processes++] = (struct foreign_process){ id_of(e, "pid"), (int)rank, j->file,
                                                               device != NULL };
    return YOKE_OK;
}

/* Threads of XLA's devices: "Steps", "XLA Ops", "Stream #13(compute)" */
static yoke_status name_thread(struct foreign_job *j, const json_t *e)
{
    const char *name = json_string_value(json_object_get(json_object_get(e, "args"), "name"));
    const struct foreign_thread t = { id_of(e, "pid"), id_of(e, "tid"), name && !strcmp(name, "Steps"),
                                      name && (!strcmp(name, "XLA Ops") || begins(name, "Stream #")) };
    if (!t.has_steps && !t.has_kernels) return YOKE_OK;
    YOKE_TRY(foreign_grow(&j->threads, j->n_threads, &j->thread_capacity, sizeof *j->threads));
    j->threads[j->n_threads++] = t;
    return YOKE_OK;
}

static const struct foreign_thread *thread_of(const struct foreign_job *j, int64_t pid, int64_t tid)
{
    for (size_t i = 0; i < j->n_threads; i++)
        if (j->threads[i].pid == pid && j->threads[i].tid == tid) return &j->threads[i];
    return NULL;
}

/* The number of a step, if the event is one. Below 0: it is none. */
static double step_of(const struct foreign_thread *thread, const char *category, const char *name,
                      const json_t *args)
{
    const double named = number_of(args, "step_num");
    char *end;
    if (begins(name, "ProfilerStep#")) return has(category, "gpu") ? -1 : strtod(name + 13, NULL);
    if (thread) {
        const double number = strtod(name, &end);
        return thread->has_steps && end > name ? number : -1;
    }
    return named >= 0 && !has(category, "gpu") ? named : -1;
}

static yoke_status complete(struct foreign_job *j, const json_t *e, const char *name, double begin,
                            double length)
{
    const json_t *args = json_object_get(e, "args");
    const char *said = json_string_value(json_object_get(e, "cat")), *category = said ? said : "";
    const int64_t pid = id_of(e, "pid"), tid = id_of(e, "tid");
    const struct foreign_thread *thread = j->n_threads ? thread_of(j, pid, tid) : NULL;
    if (!(length >= 0) || length > 1e9 || !(fabs(begin) < 1e15)) {
        j->n_impossible++;
        return YOKE_OK;
    }
    const double number = step_of(thread, category, name, args), step = number_of(args, "step");
    if (number >= 0 && number < 1e15)
        return foreign_window_add(j, &(struct foreign_window){ (int64_t)number, begin, begin + length,
                                                               rank_of(args), pid, tid });
    const int class = thread && thread->has_steps ? 0 : class_of(thread ? "kernel" : category, name);
    if (!class) return YOKE_OK;
    if (j->n == MOST_EVENTS)
        return yoke_fail(YOKE_EDATA,
                         "%s: the files have more than %d events of computing and communication; "
                         "profile fewer steps",
                         j->path, MOST_EVENTS);
    YOKE_TRY(foreign_grow(&j->intervals, j->n, &j->capacity, sizeof *j->intervals));
    struct foreign_interval v = { .begin = begin,
                                  .end = begin + length,
                                  .class = class,
                                  .rank = rank_of(args),
                                  .pid = pid,
                                  .tid = tid,
                                  .step = step >= 0 && step < 1e15 ? (int64_t)step : -1,
                                  .bytes = NAN,
                                  .peer = -1 };
    if (class & (FOREIGN_KERNEL | FOREIGN_OPERATOR)) {
        v.name = hash_name(name, args);
    } else if (class & (FOREIGN_COLLECTIVE | FOREIGN_MESSAGE | FOREIGN_ON_HOST)) {
        v.bytes = bytes_of(args);
        v.is_sum = (has(name, "reduce") || has(name, "AllReduce")) && !is_inner_group(args);
        if (is_message(name)) find_peer(name, args, &v);
    }
    j->intervals[j->n++] = v;
    return YOKE_OK;
}

/* An event that begins here ends in another event of the same thread. */
static yoke_status open_event(struct foreign_job *j, const json_t *e)
{
    if (j->n_open == MOST_OPEN) return YOKE_OK;
    YOKE_TRY(foreign_grow(&j->open, j->n_open, &j->open_capacity, sizeof *j->open));
    json_t *copy = json_deep_copy(e);
    if (!copy) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for the events");
    j->open[j->n_open++] = (struct foreign_open){ id_of(e, "pid"), id_of(e, "tid"), copy };
    return YOKE_OK;
}

static yoke_status close_event(struct foreign_job *j, const json_t *e)
{
    const int64_t pid = id_of(e, "pid"), tid = id_of(e, "tid");
    for (size_t i = j->n_open; i-- > 0;) {
        if (j->open[i].pid != pid || j->open[i].tid != tid) continue;
        json_t *first = j->open[i].event;
        memmove(&j->open[i], &j->open[i + 1], (--j->n_open - i) * sizeof *j->open); /* the order stays */
        const char *name = json_string_value(json_object_get(first, "name"));
        const double begin = number_of(first, "ts");
        const yoke_status status = complete(j, first, name ? name : "", begin * 1e-6,
                                            (number_of(e, "ts") - begin) * 1e-6);
        json_decref(first);
        return status;
    }
    return YOKE_OK;
}

static yoke_status take_event(struct foreign_job *j, const json_t *e)
{
    const char *phase = json_string_value(json_object_get(e, "ph")),
               *name = json_string_value(json_object_get(e, "name"));
    if (!phase || (!name && *phase != 'E')) return YOKE_OK;
    switch (*phase) {
    case 'X': return complete(j, e, name, number_of(e, "ts") * 1e-6, number_of(e, "dur") * 1e-6);
    case 'B': return open_event(j, e);
    case 'E': return close_event(j, e);
    case 'M':
        if (!strcmp(name, "process_name")) return name_process(j, e);
        return !strcmp(name, "thread_name") ? name_thread(j, e) : YOKE_OK;
    default: return YOKE_OK;
    }
}

yoke_status foreign_event(void *context, const char *key, const json_t *value)
{
    struct foreign_job *j = context;
    if (!key) return take_event(j, value);
    if (!strcmp(key, "baseTimeNanoseconds") && json_is_number(value) && fabs(json_number_value(value)) < 1e19)
        j->base = json_number_value(value) * 1e-9;
    if (!strcmp(key, "distributedInfo")) {
        const double world = number_of(value, "world_size");
        j->file_rank = rank_of(value);
        if (world >= 1 && world <= FOREIGN_MOST_RANKS) j->world = YOKE_MAX(j->world, (int)world);
    }
    return YOKE_OK;
}

void foreign_file_end(struct foreign_job *j)
{
    for (size_t i = 0; i < j->n_open; i++) json_decref(j->open[i].event);
    j->n_open = j->n_threads = 0;
}

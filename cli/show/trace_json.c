/* SPDX-License-Identifier: Apache-2.0 */
/* yoke trace for programs: Yoke's own JSON, and the trace-event format of Chrome and Perfetto. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>

#include "cli/show/trace.h"
#include "core/base/base.h"

/* ---- JSON; the manual promises the field names ---- */

static json_t *rank_or_null(int rank) { return rank >= 0 ? json_integer(rank) : json_null(); }
static json_t *string_or_null(const char *text) { return text[0] ? json_string(text) : json_null(); }

static json_t *operation_json(const struct cli_trace *t, int r, const struct yokei_flight_entry *e)
{
    const int waits_for = atomic_load(&e->waits_for);
    return json_pack("{s:I, s:s, s:I, s:s, s:s, s:s, s:s, s:I, s:f, s:o, s:i, s:f, s:o, s:o, s:o}",
                     "sequence", (json_int_t)e->sequence, "communicator",
                     cli_trace_comm_name(t->files[r], e->comm), "communicator_id", (json_int_t)e->comm,
                     "collective", yokei_kind_name(e->kind), "algorithm", yokei_algorithm_name(e->algorithm),
                     "dtype", yoke_dtype_name((yoke_dtype)e->dtype), "reduction",
                     yoke_reduction_name((yoke_reduction)e->reduction), "count",
                     (json_int_t)YOKE_MIN(e->count, (uint64_t)INT64_MAX), "bytes", cli_trace_bytes(e), "root",
                     e->root >= 0 ? json_integer(e->root) : json_null(), "step", e->step, "start",
                     cli_trace_seconds(t, r, e->start_ns), "end",
                     e->end_ns ? json_real(cli_trace_seconds(t, r, e->end_ns)) : json_null(), "waits_for",
                     rank_or_null(waits_for < t->n ? waits_for : -1), "status",
                     e->status ? json_string(yoke_status_name((yoke_status)e->status)) : json_null());
}

static json_t *operations_json(const struct cli_trace *t, int r)
{
    json_t *list = json_array();
    for (uint64_t i = YOKE_MIN((uint64_t)t->last, YOKEI_FLIGHT_ENTRIES); i-- > 0;) {
        const struct yokei_flight_entry *e = yokei_flight_operation(t->files[r], i);
        if (e) json_array_append_new(list, operation_json(t, r, e));
    }
    return list;
}

static json_t *json_of_rank(const struct cli_trace *t, int r)
{
    const struct yokei_flight_file *f = t->files[r];
    const struct cli_trace_share *share = &t->shares[r];
    char fate[160], doing[256];
    cli_trace_fate_text(t, r, fate, sizeof fate);
    cli_trace_doing(t, r, doing, sizeof doing);
    if (!f)
        return json_pack("{s:i, s:s, s:s, s:o}", "rank", r, "state", yokei_fate_name(t->fates[r]),
                         "state_text", fate, "problem", string_or_null(t->problems[r]));
    const struct yokei_agent_verdict agent = yokei_flight_agent(f);
    const bool dead = t->fates[r] == YOKEI_FATE_DEAD, failed = t->fates[r] == YOKEI_FATE_FAILED;
    const int seen = atomic_load(&f->first_gone);
    json_t *out = json_pack("{s:i, s:s, s:s, s:s, s:i, s:s, s:s}", "rank", r, "state",
                            yokei_fate_name(t->fates[r]), "state_text", fate, "host", f->host, "pid", f->pid,
                            "device", f->device, "doing", doing);
    if (!out) return NULL;
    json_object_set_new(out, "signal", dead && agent.signal ? json_integer(agent.signal) : json_null());
    json_object_set_new(out, "exit_code",
                        dead && !agent.signal ? json_integer(agent.exit_code) : json_null());
    json_object_set_new(out, "status",
                        failed ? json_string(yoke_status_name((yoke_status)atomic_load(&f->status)))
                               : json_null());
    json_object_set_new(out, "error", failed ? json_string(f->error) : json_null());
    json_object_set_new(out, "waits_for", rank_or_null(cli_trace_waits_for(t, r)));
    json_object_set_new(out, "saw_first_end_of", rank_or_null(seen < t->n ? seen : -1));
    json_object_set_new(out, "last_activity", json_real(cli_trace_seconds(t, r, yokei_last_activity(f))));
    json_object_set_new(out, "n_operations", json_integer((json_int_t)atomic_load(&f->n_operations)));
    json_object_set_new(out, "compared",
                        json_pack("{s:i, s:i, s:f, s:f}", "operations", share->n_operations, "last",
                                  share->n_last, "waited", share->waited, "caused", share->caused));
    json_object_set_new(out, "operations", operations_json(t, r));
    return out;
}

static json_t *culprit_json(const struct cli_trace *t)
{
    char text[4608];
    cli_trace_blame_text(t, text, sizeof text);
    json_t *candidates = json_array();
    for (int r = 0; r < t->n; r++)
        if (t->candidates[r]) json_array_append_new(candidates, json_integer(r));
    json_t *lost = json_array();
    for (int r = 0; r < t->n; r++)
        if (yokei_was_lost(&t->lost, r)) json_array_append_new(lost, json_integer(r));
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:s}", "rank", rank_or_null(t->blame.rank), "evidence",
                     yokei_evidence_name(t->blame.evidence), "by", rank_or_null(t->blame.by), "candidates",
                     candidates, "went_on_without", lost, "text", text);
}

yoke_status cli_trace_json(const struct cli_trace *t, FILE *to)
{
    json_t *ranks = json_array();
    for (int r = 0; r < t->n; r++) json_array_append_new(ranks, json_of_rank(t, r));
    json_t *folder = json_string(t->folder);
    json_t *root = json_pack("{s:i, s:o, s:i, s:f, s:f, s:o, s:o}", "schema", 1, "folder",
                             folder ? folder : json_null(), "n_ranks", t->n, "origin",
                             (double)t->origin * 1e-9, "end", (double)(int64_t)(t->end - t->origin) * 1e-9,
                             "culprit", culprit_json(t), "ranks", ranks);
    if (!root) return yoke_fail(YOKE_EINTERNAL, "yoke trace: the records' contents make no JSON");
    const int failed = json_dumpf(root, to, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    fputc('\n', to);
    json_decref(root);
    /* main checks stdout */
    return failed && to != stdout ? yoke_fail(YOKE_ENOMEM, "yoke trace: no memory for the JSON") : YOKE_OK;
}

/* ---- trace events: one process per rank, one thread per communicator, times in microseconds ---- */

static void quote(const char *text, FILE *to)
{
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', to);
        fputc(*text, to);
    }
    fputc('"', to);
}

static double micros(const struct cli_trace *t, int r, uint64_t ns)
{
    return cli_trace_seconds(t, r, ns) * 1e6;
}

/*
 * The communicator's number among the communicators of the rank. Ranks that are in the same communicators
 * show them in the same order.
 */
static unsigned thread_of(const struct yokei_flight_file *file, uint32_t comm)
{
    const uint32_t n = YOKE_MIN(atomic_load(&file->n_comms), YOKEI_FLIGHT_COMMS);
    for (uint32_t i = 0; i < n; i++)
        if (file->comms[i].uid == comm) return i + 1;
    return 0;
}

static void names(const struct cli_trace *t, int r, FILE *to)
{
    const struct yokei_flight_file *f = t->files[r];
    char name[256];
    yokei_text(name, sizeof name, "rank %d (host %s, device %s)", r, f->host[0] ? f->host : "unknown",
               f->device[0] ? f->device : "host");
    fprintf(to, ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":", r);
    quote(name, to);
    fprintf(
        to,
        "}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"tid\":0,\"args\":{\"sort_index\":%d}}",
        r, r);
    for (uint32_t i = 0; i < YOKE_MIN(atomic_load(&f->n_comms), YOKEI_FLIGHT_COMMS); i++) {
        fprintf(to, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":", r,
                i + 1);
        quote(f->comms[i].name, to);
        fputs("}}", to);
    }
}

/*
 * Write one end of the arrow from a send to its receive. Both ends name the sender, the receiver and the
 * number of the message between the two.
 */
static void arrow(const struct cli_trace *t, int r, const struct yokei_flight_entry *e, double at, FILE *to)
{
    const struct yokei_flight_comm *comm = yokei_flight_comm_of(t->files[r], e->comm);
    const int peer = comm ? cli_trace_member(t, e->comm, e->root) : -1;
    const bool sends = e->kind == YOKEI_SEND;
    if (peer < 0 || (!sends && e->kind != YOKEI_RECV)) return;
    fprintf(
        to,
        ",\n{\"ph\":\"%s\",\"cat\":\"message\",\"name\":\"message\",\"id\":\"%u:%d:%d:%u\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f}",
        sends ? "s" : "f\",\"bp\":\"e", e->comm, sends ? comm->rank : e->root, sends ? e->root : comm->rank,
        e->sequence, r, thread_of(t->files[r], e->comm), at);
}

static void event(const struct cli_trace *t, int r, const struct yokei_flight_entry *e, FILE *to)
{
    const struct yokei_flight_file *f = t->files[r];
    const uint64_t end = e->end_ns ? e->end_ns : YOKE_MAX(yokei_last_activity(f), e->start_ns);
    const int waits_for = atomic_load(&e->waits_for);
    const double start = micros(t, r, e->start_ns), length = (double)(end - e->start_ns) * 1e-3;
    fprintf(
        to,
        ",\n{\"ph\":\"X\",\"cat\":\"collective\",\"name\":\"%s\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,"
        "\"args\":{\"seq\":%u,\"bytes\":%.17g,\"count\":%.17g,"
        "\"dtype\":\"%s\",\"op\":\"%s\",\"algorithm\":\"%s\",\"steps\":%d",
        yokei_kind_name(e->kind), r, thread_of(f, e->comm), start, length, e->sequence, cli_trace_bytes(e),
        (double)e->count, yoke_dtype_name((yoke_dtype)e->dtype),
        yoke_reduction_name((yoke_reduction)e->reduction), yokei_algorithm_name(e->algorithm), e->step);
    if (e->root >= 0) fprintf(to, ",\"%s\":%d", e->algorithm == YOKEI_PAIRS ? "peer" : "root", e->root);
    if (waits_for >= 0 && waits_for < t->n)
        fprintf(to, ",\"%s\":%d", e->end_ns ? "waited_for" : "waits_for", waits_for);
    if (e->status) fprintf(to, ",\"status\":\"%s\"", yoke_status_name((yoke_status)e->status));
    if (!e->end_ns) fputs(",\"unfinished\":true", to);
    fputs("}}", to);
    /* A message leaves when its send begins, and has arrived when its receive ends. */
    arrow(t, r, e, e->kind == YOKEI_SEND ? start : start + length, to);
}

void cli_trace_chrome(const struct cli_trace *t, FILE *to)
{
    char text[4608];
    cli_trace_blame_text(t, text, sizeof text);
    fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"verdict\":", to);
    quote(text, to);
    fprintf(
        to,
        ",\"origin\":%.6f},\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"yoke\",\"pid\":0,\"tid\":0,\"args\":{}}",
        (double)t->origin * 1e-9);
    for (int r = 0; r < t->n; r++) {
        if (!t->files[r]) continue;
        names(t, r, to);
        for (uint64_t i = YOKEI_FLIGHT_ENTRIES; i-- > 0;) {
            const struct yokei_flight_entry *e = yokei_flight_operation(t->files[r], i);
            if (e) event(t, r, e, to);
        }
    }
    fputs("\n]}\n", to);
}

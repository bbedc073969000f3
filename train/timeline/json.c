/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write a timeline in the trace-event format of chrome://tracing and Perfetto. It has one process per rank
 * and one track per stream, then the same for the simulated step. Times are in microseconds since the start
 * of the first collected step.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "parallel/program.h"
#include "train/timeline/timeline.h"

static const char *const track_names[YOKEI_N_STREAMS] = { "computation",          "communication",
                                                          "sends of activations", "receives of activations",
                                                          "sends of gradients",   "receives of gradients" };

struct writer {
    const struct yokei_timeline *timeline;
    const struct yokei_timeline_simulation *simulation;
    FILE *to;
    double origin; /* the second that is written as 0 */
    /* end of the last event on each track of the current process; events on a track do not overlap */
    double free_at[YOKEI_N_STREAMS];
};

/* The place of an instruction: process, track, and times. */
struct place {
    int process, track;
    double begin, end; /* microseconds */
};

/* Write a JSON string. The name of a layer or a host may contain any bytes. */
static void quote(struct writer *w, const char *text)
{
    json_t *string = json_string(text);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    fputs(quoted ? quoted : "\"?\"", w->to);
    free(quoted);
    json_decref(string);
}

static void name_process(struct writer *w, int process, int order, const char *name)
{
    fprintf(w->to,
            ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":", process);
    quote(w, name);
    fprintf(
        w->to,
        "}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"tid\":0,\"args\":{\"sort_index\":%d}}",
        process, order);
    for (int s = 0; s < YOKEI_N_STREAMS; s++)
        fprintf(w->to,
                ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
                process, s + 1, track_names[s]);
}

static const char *layer_of(const struct writer *w, const struct yokei_timeline_instruction *i)
{
    return i->layer >= 0 ? w->timeline->layers[i->layer]->name : "";
}

static bool has_micro_batch(int kind)
{
    return kind == YOKEI_FORWARD || kind == YOKEI_BACKWARD_INPUT || kind == YOKEI_BACKWARD_WEIGHT
           || yokei_is_message((enum yokei_instruction_kind)kind);
}

/* "F h.0.mlp mb 3", "R ..." where it recomputes, "send activation mb 3", "reduce bucket 1", "step" */
static void event_name(const struct writer *w, const struct yokei_timeline_instruction *i, char *out,
                       size_t bytes)
{
    const char *kind = i->recomputes ? "R" : yokei_instruction_names[i->kind], *layer = layer_of(w, i);
    if (has_micro_batch(i->kind))
        yokei_text(out, bytes, "%s%s%s mb %d", kind, *layer ? " " : "", layer, i->micro_batch);
    else if (i->kind == YOKEI_REDUCE || i->kind == YOKEI_STEP || i->kind == YOKEI_GATHER)
        yokei_text(out, bytes, "%s bucket %d", kind, i->bucket);
    else
        yokei_text(out, bytes, "%s", kind);
}

/*
 * The place of an instruction. If it would overlap the event before it on its track, it begins after that
 * event.
 */
static struct place place_of(struct writer *w, int process, const struct yokei_timeline_instruction *i,
                             const struct yokei_timeline_span *span)
{
    struct place p = { process, i->stream + 1, fmax((span->begin - w->origin) * 1e6, 0),
                       fmax((span->end - w->origin) * 1e6, 0) };
    p.begin = fmax(p.begin, w->free_at[i->stream]);
    p.end = fmax(p.end, p.begin);
    w->free_at[i->stream] = p.end;
    return p;
}

static void instruction(struct writer *w, const struct place *p, const struct yokei_timeline_instruction *i,
                        int64_t step, const char *group)
{
    char name[256];
    event_name(w, i, name, sizeof name);
    fprintf(w->to, ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":", group);
    quote(w, name);
    fprintf(w->to, ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"step\":%lld", p->process,
            p->track, p->begin, p->end - p->begin, (long long)step);
    if (has_micro_batch(i->kind))
        fprintf(w->to, ",\"micro-batch\":%d,\"chunk\":%d", i->micro_batch, i->chunk);
    if (i->layer >= 0) fputs(",\"layer\":", w->to), quote(w, layer_of(w, i));
    if (i->kind == YOKEI_REDUCE || i->kind == YOKEI_STEP || i->kind == YOKEI_GATHER)
        fprintf(w->to, ",\"bucket\":%d", i->bucket);
    fprintf(w->to, ",\"bytes\":%.0f,\"flops\":%.0f}}", i->bytes, i->flops);
}

/* Write one end of an arrow. Both ends have the same id. */
static void arrow_end(struct writer *w, const struct place *p, bool begins, const char *name, const char *id)
{
    fprintf(
        w->to,
        ",\n{\"ph\":\"%s\",\"cat\":\"%s\",\"name\":\"%s\",\"id\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f}",
        begins ? "s" : "f\",\"bp\":\"e", name, name, id, p->process, p->track, begins ? p->begin : p->end);
}

/*
 * Write the arrow of a message. Its id has the receiver's rank, chunk and micro-batch. If two stages have
 * different widths, a rank may send to no rank or to several ranks of the other stage. Each receiver gets its
 * arrow from the rank that sends the first of its rows.
 */
static void message_arrow(struct writer *w, const struct place *p, int rank,
                          const struct yokei_timeline_instruction *i, const char *group, int64_t step)
{
    const struct yokei_mesh *m = &w->timeline->mesh;
    const struct yokei_timeline_rank *r = &w->timeline->rank[rank];
    const bool sends = i->kind == YOKEI_SEND_ACTIVATION || i->kind == YOKEI_SEND_GRADIENT;
    const bool forward = i->kind == YOKEI_SEND_ACTIVATION || i->kind == YOKEI_RECEIVE_ACTIVATION;
    char id[96];
    if (!yokei_is_message((enum yokei_instruction_kind)i->kind)) return;
    if (!sends) {
        yokei_text(id, sizeof id, "%s:%lld:%s:%d:%d:%d", group, (long long)step, forward ? "a" : "g", rank,
                   i->chunk, i->micro_batch);
        arrow_end(w, p, false, "message", id);
        return;
    }
    const int to = (r->s + (forward ? 1 : m->pipeline - 1)) % m->pipeline, width = yokei_mesh_width(m, r->s),
              there = yokei_mesh_width(m, to);
    const int chunk = i->chunk + (forward ? r->s == m->pipeline - 1 : -(r->s == 0));
    for (int t = 0; t < there; t++) {
        if (t * width / there != r->t) continue;
        yokei_text(id, sizeof id, "%s:%lld:%s:%d:%d:%d", group, (long long)step, forward ? "a" : "g",
                   yokei_mesh_rank(m, r->d, to, t), chunk, i->micro_batch);
        arrow_end(w, p, true, "message", id);
    }
}

/*
 * Where ranks meet, write arrows from the rank that came last to the other ranks, because they waited for it.
 */
static void meeting_arrow(struct writer *w, const struct place *p, int rank,
                          const struct yokei_timeline_instruction *i, int step)
{
    const struct yokei_timeline *t = w->timeline;
    const struct yokei_timeline_rank *r = &t->rank[rank];
    int last = -1, others = 0;
    double latest = -INFINITY;
    char id[96];
    if (i->kind != YOKEI_REDUCE && i->kind != YOKEI_AGREE) return;
    for (int q = 0; q < t->n_ranks; q++) {
        const struct yokei_timeline_rank *o = &t->rank[q];
        if (i->kind == YOKEI_REDUCE && (o->s != r->s || o->t != r->t)) continue;
        for (int k = 0; k < o->n; k++) {
            const double begin = yokei_timeline_span_of(t, q, step, k)->begin;
            if (o->list[k].kind != i->kind || (i->kind == YOKEI_REDUCE && o->list[k].bucket != i->bucket)
                || isnan(begin))
                continue;
            others += q != rank;
            if (begin > latest) latest = begin, last = q;
            break;
        }
    }
    if (last < 0 || !others) return;
    for (int q = 0; q < t->n_ranks; q++) {
        const struct yokei_timeline_rank *o = &t->rank[q];
        if (q == last || (rank != last && q != rank)) continue;
        if (i->kind == YOKEI_REDUCE && (o->s != r->s || o->t != r->t)) continue;
        yokei_text(id, sizeof id, "%s:%d:%d:%d:%d:%d", i->kind == YOKEI_REDUCE ? "sum" : "agree", step, r->s,
                   r->t, i->kind == YOKEI_REDUCE ? i->bucket : 0, q);
        if (i->kind == YOKEI_AGREE) yokei_text(id, sizeof id, "agree:%d:%d", step, q);
        arrow_end(w, p, rank == last, "meeting", id);
    }
}

static void memory(struct writer *w, const struct place *p, double bytes)
{
    fprintf(
        w->to,
        ",\n{\"ph\":\"C\",\"name\":\"memory in use\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"args\":{\"bytes\":%.0f}}",
        p->process, p->begin, bytes);
}

static void measured_rank(struct writer *w, int rank)
{
    const struct yokei_timeline *t = w->timeline;
    const struct yokei_timeline_rank *r = &t->rank[rank];
    char name[256];
    double in_use = -1;
    yokei_text(name, sizeof name, "rank %d (host %s, device %s): replica %d, stage %d, tensor %d", rank,
               r->host, r->device, r->d, r->s, r->t);
    name_process(w, rank, rank, name);
    for (int s = 0; s < YOKEI_N_STREAMS; s++) w->free_at[s] = 0;
    for (int step = 0; step < t->n_steps; step++)
        for (int n = 0; n < r->n; n++) {
            const struct yokei_timeline_span *span = yokei_timeline_span_of(t, rank, step, n);
            if (isnan(span->posted)) continue;
            const struct place p = place_of(w, rank, &r->list[n], span);
            instruction(w, &p, &r->list[n], t->first_step + step, "measured");
            message_arrow(w, &p, rank, &r->list[n], "measured", t->first_step + step);
            meeting_arrow(w, &p, rank, &r->list[n], step);
            if (r->list[n].memory != in_use && r->list[n].stream == YOKEI_COMPUTE)
                memory(w, &p, in_use = r->list[n].memory);
        }
}

/*
 * Write the simulated times of a rank. Ranks that share a stage's tensors all get the simulated times of the
 * first of them.
 */
static void simulated_rank(struct writer *w, int rank)
{
    const struct yokei_timeline *t = w->timeline;
    const struct yokei_timeline_rank *r = &t->rank[rank];
    const int line = r->d * t->mesh.pipeline + r->s, process = t->n_ranks + rank;
    char name[128];
    yokei_text(name, sizeof name, "simulated rank %d: replica %d, stage %d, tensor %d", rank, r->d, r->s,
               r->t);
    name_process(w, process, process, name);
    for (int s = 0; s < YOKEI_N_STREAMS; s++) w->free_at[s] = 0;
    for (int n = 0; n < r->n && n < t->rank[yokei_mesh_rank(&t->mesh, r->d, r->s, 0)].n; n++) {
        struct yokei_timeline_span span = w->simulation->span[line][n];
        span.begin += w->origin, span.end += w->origin;
        const struct place p = place_of(w, process, &r->list[n], &span);
        instruction(w, &p, &r->list[n], t->first_step, "simulated");
        message_arrow(w, &p, rank, &r->list[n], "simulated", t->first_step);
    }
}

static void metadata(struct writer *w)
{
    const struct yokei_timeline *t = w->timeline;
    const struct yokei_timeline_summary *s = &w->simulation->summary;
    fprintf(
        w->to,
        "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"version\":\"%s\",\"first_step\":%lld,\"steps\":%d,\"measured_seconds\":%.9g,"
        "\"simulated_seconds\":%.9g,\"bubble_measured\":%.6f,\"bubble_simulated\":%.6f,\"clocks\":[",
        yoke_version(), (long long)t->first_step, t->n_steps, s->measured, s->simulated, s->bubble_measured,
        s->bubble_simulated);
    for (int r = 0; r < t->n_ranks; r++)
        fprintf(w->to, "%s{\"rank\":%d,\"offset_seconds\":%.9f,\"error_seconds\":%.9f}", r ? "," : "", r,
                t->rank[r].clock_offset, t->rank[r].clock_error);
    fputs("]},\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"yoke\",\"pid\":0,\"tid\":0,\"args\":{}}", w->to);
}

void yokei_timeline_json(const struct yokei_timeline *timeline,
                         const struct yokei_timeline_simulation *simulation, FILE *to)
{
    struct writer w = { .timeline = timeline, .simulation = simulation, .to = to, .origin = INFINITY };
    for (int r = 0; r < timeline->n_ranks; r++)
        for (int n = 0; n < timeline->rank[r].n * timeline->n_steps; n++)
            w.origin = fmin(w.origin, timeline->rank[r].span[n].posted);
    metadata(&w);
    for (int r = 0; r < timeline->n_ranks; r++) measured_rank(&w, r);
    for (int r = 0; r < timeline->n_ranks; r++) simulated_rank(&w, r);
    fputs("\n]}\n", to);
}

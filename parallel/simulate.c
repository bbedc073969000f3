/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator. An action is resolved as soon as everything that it waits for is resolved; the order of
 * times does not matter. Each stage's list is worked off as far as possible, in turn, until no stage can go
 * on. If actions are left then, the stages wait for each other in a circle.
 */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/simulate.h"

enum { N_CHANNELS = 4, UNRESOLVED = -1 };

/* What the simulator knows of an action. */
struct state {
    /*
     * For a message and for TIED: the index in the other stage's list. For F and B: the index of their
     * receive in their own list. -1: none.
     */
    int partner;
    double ready; /* when all computation listed before it was done; UNRESOLVED: not yet known */
    double start, end;
};

struct stage {
    const struct yokei_actions *list;
    struct state *state;
    int first;                      /* index of the first action that is not resolved */
    int agree;                      /* index of AGREE; the list's length if there is none */
    double computed, sent, reduced; /* ends of the last computation, the last send and the last REDUCE */
    double channel[N_CHANNELS];
};

struct simulation {
    const struct yokei_schedule *schedule;
    const struct yokei_costs *costs;
    struct stage *stage;   /* [n_lines] */
    int n_lines, n_stages; /* n_stages: stages of each replica */
};

static bool is_send(enum yokei_action_kind k) { return k == YOKEI_ACTION_SA || k == YOKEI_ACTION_SG; }
static bool is_receive(enum yokei_action_kind k) { return k == YOKEI_ACTION_RA || k == YOKEI_ACTION_RG; }
static bool is_compute(enum yokei_action_kind k) { return k <= YOKEI_ACTION_R; }

/*
 * Stages are identified by their lines: stage s of replica r is line r * n_stages + s. line_at is the line of
 * the stage that comes `stages_on` stages later in the same replica. receiver_of is the line that receives
 * what `line` sends, and chunk_there is the chunk in which the message arrives.
 */
static int line_at(const struct simulation *u, int line, int stages_on)
{
    const int stage = line % u->n_stages;
    return line - stage + (stage + stages_on) % u->n_stages;
}
static int receiver_of(const struct simulation *u, int line, enum yokei_action_kind send)
{
    return line_at(u, line, send == YOKEI_ACTION_SA ? 1 : u->n_stages - 1);
}
static int chunk_there(const struct simulation *u, int line, const struct yokei_action *send)
{
    const int stage = line % u->n_stages;
    if (send->kind == YOKEI_ACTION_SA) return send->chunk + (stage == u->n_stages - 1);
    return send->chunk - (stage == 0);
}

/* ---- which actions belong together ---- */

/* The index of the next action of a kind at or after `from`; the list's length if there is none. */
static int next_of(const struct yokei_actions *list, enum yokei_action_kind kind, int from)
{
    while (from < list->n && list->action[from].kind != kind) from++;
    return from;
}

static yoke_status broken_channel(int from, int i, int to, int j, const struct yokei_actions *sends,
                                  const struct yokei_actions *receives)
{
    char a[48], b[48];
    if (i < sends->n) yokei_action_text(&sends->action[i], a, sizeof a);
    if (j < receives->n) yokei_action_text(&receives->action[j], b, sizeof b);
    if (j == receives->n)
        return yoke_fail(YOKE_ECONFIG,
                         "schedule, stage %d, action %d: stage %d has no receive for %s: add it there", from,
                         i + 1, to, a);
    if (i == sends->n)
        return yoke_fail(YOKE_ECONFIG,
                         "schedule, stage %d, action %d: stage %d sends nothing for %s: add the send there",
                         to, j + 1, from, b);
    return yoke_fail(
        YOKE_ECONFIG,
        "schedule, stage %d, action %d: %s arrives at stage %d where that expects %s (its action %d): messages keep "
        "their order, so list both ends in the same",
        from, i + 1, a, to, b, j + 1);
}

/* Link both ends of each message: the k-th send of a channel belongs to its k-th receive. */
static yoke_status link_channel(struct simulation *u, int from, enum yokei_action_kind send)
{
    const enum yokei_action_kind receive = send == YOKEI_ACTION_SA ? YOKEI_ACTION_RA : YOKEI_ACTION_RG;
    const int to = receiver_of(u, from, send);
    const struct yokei_actions *sends = u->stage[from].list, *receives = u->stage[to].list;
    for (int i = next_of(sends, send, 0), j = next_of(receives, receive, 0); i < sends->n || j < receives->n;
         i = next_of(sends, send, i + 1), j = next_of(receives, receive, j + 1)) {
        const struct yokei_action *a = &sends->action[i], *b = &receives->action[j];
        if (i == sends->n || j == receives->n || a->index != b->index || chunk_there(u, from, a) != b->chunk)
            return broken_channel(from, i, to, j, sends, receives);
        u->stage[from].state[i].partner = j;
        u->stage[to].state[j].partner = i;
    }
    return YOKE_OK;
}

/*
 * Link F to its RA, and B to its RG: the last such receive before it in the list. F of the first virtual
 * stage and B of the last one have no receive.
 */
static void link_receives(struct simulation *u, int at)
{
    const struct yokei_actions *list = u->stage[at].list;
    const int last = u->n_stages * u->costs->n_chunks - 1;
    for (int i = 0; i < list->n; i++) {
        const struct yokei_action *a = &list->action[i];
        const int place = a->chunk * u->n_stages + at % u->n_stages;
        const enum yokei_action_kind receive = a->kind == YOKEI_ACTION_F ? YOKEI_ACTION_RA : YOKEI_ACTION_RG;
        if (!(a->kind == YOKEI_ACTION_F && place > 0) && !(a->kind == YOKEI_ACTION_B && place < last))
            continue;
        int j = i - 1;
        while (j >= 0
               && !(list->action[j].kind == receive && list->action[j].index == a->index
                    && list->action[j].chunk == a->chunk))
            j--;
        u->stage[at].state[i].partner = j;
    }
}

static yoke_status link_tied(struct simulation *u, int replica)
{
    struct stage *first = &u->stage[replica * u->n_stages], *last = first + u->n_stages - 1;
    const int i = next_of(first->list, YOKEI_ACTION_TIED, 0), j = next_of(last->list, YOKEI_ACTION_TIED, 0);
    if (i == first->list->n && j == last->list->n) return YOKE_OK;
    if (i == first->list->n || j == last->list->n)
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule, stage %d: TIED is missing, which stage %d has: the first and the last stage need it both",
            j == last->list->n ? u->n_stages - 1 : 0, j == last->list->n ? 0 : u->n_stages - 1);
    first->state[i].partner = j;
    last->state[j].partner = i;
    return YOKE_OK;
}

static yoke_status link_actions(struct simulation *u)
{
    for (int s = 0; s < u->n_lines; s++) {
        u->stage[s].agree = next_of(u->stage[s].list, YOKEI_ACTION_AGREE, 0);
        link_receives(u, s);
        YOKE_TRY(link_channel(u, s, YOKEI_ACTION_SA));
        YOKE_TRY(link_channel(u, s, YOKEI_ACTION_SG));
    }
    for (int first = 0; first < u->n_lines; first += u->n_stages) YOKE_TRY(link_tied(u, first / u->n_stages));
    return YOKE_OK;
}

/* ---- working a list off ---- */

static double duration(const struct simulation *u, int stage, const struct yokei_action *a)
{
    const struct yokei_chunk_costs *c = &u->costs->chunk[stage * u->costs->n_chunks + a->chunk];
    switch (a->kind) {
    case YOKEI_ACTION_F: return c->F;
    case YOKEI_ACTION_B: return c->B;
    case YOKEI_ACTION_W: return c->W;
    default: return c->R;
    }
}

static void set(struct state *x, double start, double end)
{
    x->start = start;
    x->end = end;
}

static bool resolve_compute(struct simulation *u, int s, int i, bool send_pending)
{
    struct stage *stage = &u->stage[s];
    struct state *x = &stage->state[i];
    const struct state *data = x->partner >= 0 ? &stage->state[x->partner] : NULL;
    if ((data && data->end < 0) || (u->costs->waits_for_receiver && send_pending)) return false;
    double start = YOKE_MAX(stage->computed, data ? data->end : 0);
    if (u->costs->waits_for_receiver) start = YOKE_MAX(start, stage->sent);
    set(x, start, start + duration(u, s, &stage->list->action[i]));
    stage->computed = x->end;
    return true;
}

/*
 * The hop that a message crosses. Activations cross the hop of their sender, gradients that of their
 * receiver.
 */
static const struct yokei_hop *hop_of(const struct simulation *u, int from, enum yokei_action_kind send)
{
    return &u->costs->hop[send == YOKEI_ACTION_SA ? from : receiver_of(u, from, send)];
}

static bool resolve_send(struct simulation *u, int s, int i)
{
    struct stage *stage = &u->stage[s];
    struct state *x = &stage->state[i];
    const enum yokei_action_kind kind = stage->list->action[i].kind;
    const struct state *receive = &u->stage[receiver_of(u, s, kind)].state[x->partner];
    const struct yokei_hop *hop = hop_of(u, s, kind);
    const bool meets = u->costs->waits_for_receiver || u->costs->receiver_takes;
    double *channel = &stage->channel[kind - YOKEI_ACTION_SA], start = YOKE_MAX(x->ready, *channel);
    if (meets && receive->ready < 0) return false;
    if (meets) start = YOKE_MAX(start, receive->ready);
    set(x, start, start + (hop->bytes > 0 ? hop->bytes / hop->bytes_per_second : 0));
    *channel = x->end;
    stage->sent = YOKE_MAX(stage->sent, x->end);
    return true;
}

static bool resolve_receive(struct simulation *u, int s, int i)
{
    struct state *x = &u->stage[s].state[i];
    const enum yokei_action_kind send = u->stage[s].list->action[i].kind == YOKEI_ACTION_RA ? YOKEI_ACTION_SA
                                                                                            : YOKEI_ACTION_SG;
    const int from = line_at(u, s, send == YOKEI_ACTION_SA ? u->n_stages - 1 : 1);
    const struct state *sent = &u->stage[from].state[x->partner];
    if (sent->end < 0) return false;
    set(x, x->ready, YOKE_MAX(x->ready, sent->end + hop_of(u, from, send)->latency));
    return true;
}

/* Resolve TIED or AGREE. No stage leaves it before the last one has reached it. */
static bool resolve_meeting(struct simulation *u, int s, int i)
{
    struct state *x = &u->stage[s].state[i];
    const bool tied = u->stage[s].list->action[i].kind == YOKEI_ACTION_TIED;
    const int first = tied ? s - s % u->n_stages : 0, end = tied ? first + u->n_stages : u->n_lines;
    double start = x->ready;
    for (int other = first; other < end; other += tied ? YOKE_MAX(u->n_stages - 1, 1) : 1) {
        const struct stage *o = &u->stage[other];
        const int j = !tied ? o->agree : other == s ? i : x->partner;
        if (j == o->list->n) continue;
        if (o->state[j].ready < 0) return false;
        start = YOKE_MAX(start, o->state[j].ready);
    }
    set(x, start, start + (tied ? u->costs->tied : u->costs->agree));
    if (!tied)
        u->stage[s].computed = YOKE_MAX(u->stage[s].computed, x->end);
    else
        u->stage[s].reduced = x->end;
    return true;
}

/*
 * Resolve a REDUCE. The sum of a bucket begins when all replicas of the stage have reached it, and their
 * earlier sums are complete.
 */
static bool resolve_sum(struct simulation *u, int s, int i)
{
    struct stage *stage = &u->stage[s];
    const int bucket = stage->list->action[i].index;
    const struct yokei_sum_costs *cost = u->costs->sum && bucket < u->costs->n_sums
                                             ? &u->costs->sum[s * u->costs->n_sums + bucket]
                                             : NULL;
    double start = stage->reduced;
    for (int other = s % u->n_stages; other < u->n_lines; other += u->n_stages) {
        const struct stage *o = &u->stage[other];
        int j = next_of(o->list, YOKEI_ACTION_REDUCE, 0);
        while (j < o->list->n && o->list->action[j].index != bucket)
            j = next_of(o->list, YOKEI_ACTION_REDUCE, j + 1);
        if (j == o->list->n) continue;
        if (o->state[j].ready < 0) return false;
        start = YOKE_MAX(start, o->state[j].ready);
    }
    set(&stage->state[i], start, start + (cost ? cost->seconds : u->costs->reduce));
    stage->reduced = stage->state[i].end;
    if (u->costs->sums_block) stage->computed = YOKE_MAX(stage->computed, stage->reduced);
    return true;
}

/*
 * When a bucket's sum can begin. Its gradients may be complete before the end of the pass that computes the
 * last ones.
 */
static double ready_of_sum(const struct simulation *u, int s, int bucket)
{
    const struct stage *stage = &u->stage[s];
    const bool known = u->costs->sum && bucket < u->costs->n_sums && !u->costs->sums_block;
    return YOKE_MAX(stage->computed - (known ? u->costs->sum[s * u->costs->n_sums + bucket].early : 0), 0);
}

static bool resolve(struct simulation *u, int s, int i, bool all_before, bool send_pending)
{
    struct stage *stage = &u->stage[s];
    struct state *x = &stage->state[i];
    const enum yokei_action_kind kind = stage->list->action[i].kind;
    if (x->ready < 0 && kind == YOKEI_ACTION_REDUCE)
        x->ready = ready_of_sum(u, s, stage->list->action[i].index);
    if (x->ready < 0 && kind != YOKEI_ACTION_TIED && kind != YOKEI_ACTION_AGREE) x->ready = stage->computed;
    if (is_compute(kind)) return resolve_compute(u, s, i, send_pending);
    if (is_send(kind)) return resolve_send(u, s, i);
    if (is_receive(kind)) return resolve_receive(u, s, i);
    if (kind == YOKEI_ACTION_REDUCE) return resolve_sum(u, s, i);
    if (!all_before) return false;
    if (kind == YOKEI_ACTION_STEP) {
        const double start = YOKE_MAX(x->ready, stage->reduced);
        set(x, start, start + (u->costs->once ? u->costs->once[s].step : u->costs->step));
        return true;
    }
    x->ready = YOKE_MAX(stage->computed, YOKE_MAX(stage->reduced, stage->sent));
    if (kind == YOKEI_ACTION_AGREE && u->costs->once) x->ready += u->costs->once[s].norms;
    return resolve_meeting(u, s, i);
}

/*
 * Resolve the actions of a stage as far as possible, up to the first computation or meeting that must wait.
 * Returns whether anything was resolved or posted. Messages that wait are passed over. The messages of one
 * channel still keep their order, because both ends list them in the same order.
 */
static bool advance(struct simulation *u, int s)
{
    struct stage *stage = &u->stage[s];
    bool progress = false, send_pending = false, sum_pending = false, all_before = true;
    for (int i = stage->first; i < stage->list->n; i++) {
        struct state *x = &stage->state[i];
        const enum yokei_action_kind kind = stage->list->action[i].kind;
        if (x->end < 0 && !(sum_pending && kind == YOKEI_ACTION_REDUCE)) {
            const bool was_ready = x->ready >= 0, done = resolve(u, s, i, all_before, send_pending);
            sum_pending |= !done && kind == YOKEI_ACTION_REDUCE;
            progress |= done || (!was_ready && x->ready >= 0);
            if (!done && !is_send(kind) && !is_receive(kind)
                && !(kind == YOKEI_ACTION_REDUCE && !u->costs->sums_block))
                break;
            send_pending |= !done && is_send(kind);
        }
        all_before &= x->end >= 0;
        if (all_before) stage->first = i + 1;
    }
    return progress;
}

/* ---- what each stage waits for ---- */

/* Describe what keeps a stage from its next computation or meeting, which is action i. */
static void say_wait(const struct simulation *u, int s, int i, char *out, size_t bytes)
{
    const struct stage *stage = &u->stage[s];
    const struct yokei_action *a = &stage->list->action[i];
    char word[48], other[48];
    int j = stage->state[i].partner;
    yokei_action_text(a, word, sizeof word);
    if (is_compute(a->kind) && j >= 0 && stage->state[j].end < 0) {
        const struct yokei_action *receive = &stage->list->action[j];
        const bool up = receive->kind == YOKEI_ACTION_RA;
        const int from = line_at(u, s, up ? u->n_stages - 1 : 1);
        yokei_text(out, bytes,
                   "stage %d waits at action %d (%s) for %s from stage %d, which has it as action %d", s,
                   i + 1, word, yokei_action_text(receive, other, sizeof other), from,
                   stage->state[j].partner + 1);
        return;
    }
    for (j = 0; j < i && !(is_send(stage->list->action[j].kind) && stage->state[j].end < 0);) j++;
    if (j < i) {
        const struct yokei_action *send = &stage->list->action[j];
        yokei_text(out, bytes, "stage %d waits at action %d (%s) until stage %d takes %s (action %d there)",
                   s, i + 1, word, receiver_of(u, s, send->kind),
                   yokei_action_text(send, other, sizeof other), stage->state[j].partner + 1);
    } else {
        yokei_text(out, bytes, "stage %d waits at action %d (%s) for the others", s, i + 1, word);
    }
}

static yoke_status stuck(const struct simulation *u)
{
    char text[2048] = "";
    int n = 0;
    for (int s = 0; s < u->n_lines; s++) {
        const struct stage *stage = &u->stage[s];
        int i = stage->first;
        while (i < stage->list->n
               && (stage->state[i].end >= 0 || is_send(stage->list->action[i].kind)
                   || is_receive(stage->list->action[i].kind)))
            i++;
        if (i == stage->list->n || n++ >= 8) continue;
        char wait[200];
        say_wait(u, s, i, wait, sizeof wait);
        const size_t used = strlen(text);
        yokei_text(text + used, sizeof text - used, "%s%s", used ? "; " : "", wait);
    }
    return yoke_fail(
        YOKE_ECONFIG,
        "schedule: it stands still: %s%s. List receives and sends where the other side can get to them", text,
        n > 8 ? "; and others" : "");
}

/* ---- results ---- */

static void measure_stage(const struct simulation *u, int s, struct yokei_stage_times *out)
{
    const struct stage *stage = &u->stage[s];
    const int n_chunks = u->costs->n_chunks;
    bool recomputed = false, any = false;
    double held = 0;
    for (int i = 0; i < stage->list->n; i++) recomputed |= stage->list->action[i].kind == YOKEI_ACTION_R;
    for (int i = 0; i < stage->list->n; i++) {
        const struct yokei_action *a = &stage->list->action[i];
        out->span[i] = (struct yokei_span){ stage->state[i].start, stage->state[i].end };
        if (!is_compute(a->kind)) continue;
        const struct yokei_chunk_costs *c = &u->costs->chunk[s * n_chunks + a->chunk];
        const double length = out->span[i].end - out->span[i].start, stash = c->until_b + c->until_w;
        if (!any) out->first = out->span[i].start;
        any = true;
        out->last = out->span[i].end;
        out->busy += length;
        if (a->kind != YOKEI_ACTION_R) out->useful += length;
        if (a->kind == YOKEI_ACTION_F) held += recomputed ? c->input : stash;
        if (a->kind == YOKEI_ACTION_R) held += stash;
        out->peak = YOKE_MAX(out->peak, held);
        if (a->kind == YOKEI_ACTION_B) held -= c->until_b;
        if (a->kind == YOKEI_ACTION_W) held -= c->until_w + (recomputed ? c->input : 0);
    }
}

/*
 * The fraction of `whole` that `part` leaves. A sum of times may exceed the span of the same times because of
 * rounding; then the fraction is 0.
 */
static double share_left(double part, double whole) { return YOKE_MAX(1 - part / whole, 0); }

static yoke_status measure(const struct simulation *u, struct yokei_simulated *out)
{
    out->stage = calloc((size_t)u->n_lines, sizeof *out->stage);
    if (!out->stage) return yoke_fail(YOKE_ENOMEM, "simulator: no host memory for %d stages", u->n_lines);
    out->n_stages = u->n_lines;
    double useful = 0;
    for (int s = 0; s < u->n_lines; s++) {
        struct yokei_stage_times *stage = &out->stage[s];
        stage->span = calloc((size_t)u->stage[s].list->n + 1, sizeof *stage->span);
        if (!stage->span)
            return yoke_fail(YOKE_ENOMEM, "simulator: no host memory for %d actions", u->stage[s].list->n);
        measure_stage(u, s, stage);
        out->longest = YOKE_MAX(out->longest, stage->last - stage->first);
        for (int i = 0; i < u->stage[s].list->n; i++) out->total = YOKE_MAX(out->total, stage->span[i].end);
        useful += stage->useful;
    }
    for (int s = 0; s < u->n_lines && out->longest > 0; s++)
        out->stage[s].idle = share_left(out->stage[s].busy, out->longest);
    if (out->longest > 0) out->bubble = share_left(useful / u->n_lines, out->longest);
    return YOKE_OK;
}

/* ---- the simulation ---- */

static yoke_status begin(struct simulation *u)
{
    const int n_chunks = u->costs->n_chunks;
    u->stage = calloc((size_t)u->n_lines, sizeof *u->stage);
    if (!u->stage) return yoke_fail(YOKE_ENOMEM, "simulator: no host memory for %d stages", u->n_lines);
    if (u->n_lines != u->n_stages * YOKE_MAX(u->costs->n_replicas, 1))
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule: it has %d lines, but there are costs of %d stages: a line per stage is needed",
            u->n_lines, u->n_stages * YOKE_MAX(u->costs->n_replicas, 1));
    for (int s = 0; s < u->n_lines; s++) {
        struct stage *stage = &u->stage[s];
        stage->list = &u->schedule->rank[s];
        stage->computed = u->costs->once ? u->costs->once[s].begin : 0;
        stage->state = malloc(((size_t)stage->list->n + 1) * sizeof *stage->state);
        if (!stage->state)
            return yoke_fail(YOKE_ENOMEM, "simulator: no host memory for %d actions", stage->list->n);
        for (int i = 0; i < stage->list->n; i++) {
            stage->state[i] = (struct state){ -1, UNRESOLVED, UNRESOLVED, UNRESOLVED };
            if (stage->list->action[i].chunk >= n_chunks)
                return yoke_fail(YOKE_ECONFIG,
                                 "schedule, stage %d, action %d: chunk %d, but there are costs of %d chunks",
                                 s, i + 1, stage->list->action[i].chunk, n_chunks);
        }
    }
    return YOKE_OK;
}

yoke_status yokei_simulate(const struct yokei_schedule *schedule, const struct yokei_costs *costs,
                           struct yokei_simulated *simulated_out)
{
    struct simulation u = {
        .schedule = schedule, .costs = costs, .n_lines = schedule->n_ranks, .n_stages = costs->n_stages
    };
    struct yokei_simulated simulated = { 0 };
    yoke_status status = begin(&u);
    if (!status) status = link_actions(&u);
    for (bool progress = true; !status && progress;) {
        progress = false;
        for (int s = 0; s < u.n_lines; s++) progress |= advance(&u, s);
    }
    for (int s = 0; s < u.n_lines && !status; s++)
        if (u.stage[s].first < u.stage[s].list->n) status = stuck(&u);
    if (!status) status = measure(&u, &simulated);
    for (int s = 0; s < u.n_lines && u.stage; s++) free(u.stage[s].state);
    free(u.stage);
    if (status)
        yokei_simulated_free(&simulated);
    else
        *simulated_out = simulated;
    return status;
}

void yokei_simulated_free(struct yokei_simulated *simulated)
{
    for (int s = 0; s < simulated->n_stages; s++) free(simulated->stage[s].span);
    free(simulated->stage);
    memset(simulated, 0, sizeof *simulated);
}

yoke_status yokei_costs_equal(int n_stages, int n_chunks, double F, double B, double W, double latency,
                              struct yokei_costs *costs_out)
{
    struct yokei_costs costs = { .n_stages = n_stages, .n_chunks = n_chunks };
    costs.chunk = calloc((size_t)n_stages * (size_t)n_chunks, sizeof *costs.chunk);
    costs.hop = calloc((size_t)n_stages, sizeof *costs.hop);
    if (!costs.chunk || !costs.hop) {
        yokei_costs_free(&costs);
        return yoke_fail(YOKE_ENOMEM, "simulator: no host memory for %d stages", n_stages);
    }
    for (int i = 0; i < n_stages * n_chunks; i++)
        costs.chunk[i] = (struct yokei_chunk_costs){ F / n_chunks, B / n_chunks, W / n_chunks, F / n_chunks,
                                                     .until_w = 1.0 / n_chunks };
    for (int s = 0; s < n_stages; s++) costs.hop[s].latency = latency;
    *costs_out = costs;
    return YOKE_OK;
}

yoke_status yokei_costs_stages(int n_stages, int n_chunks, const struct yokei_stage_costs *stages,
                               bool receiver_takes, struct yokei_costs *out)
{
    YOKE_TRY(yokei_costs_equal(n_stages, n_chunks, 1, 1, 1, 0, out));
    for (int i = 0; i < n_stages * n_chunks; i++) {
        const struct yokei_stage_costs *x = &stages[i / n_chunks];
        struct yokei_chunk_costs *c = &out->chunk[i];
        c->F = x->F / n_chunks, c->B = x->B / n_chunks, c->W = x->W / n_chunks, c->R = x->R / n_chunks;
        /* a message of as many bytes as it takes seconds, at a byte a second */
        out->hop[i / n_chunks] = (struct yokei_hop){ x->latency, x->transfer, 1 };
    }
    out->receiver_takes = receiver_takes;
    return YOKE_OK;
}

void yokei_costs_free(struct yokei_costs *costs)
{
    free(costs->chunk);
    free(costs->hop);
    free(costs->sum);
    free(costs->once);
    memset(costs, 0, sizeof *costs);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline of a foreign job: its ranks, its micro-batches, and how long messages take. */
#include <math.h>
#include <stdlib.h>

#include "cli/diagnose/foreign.h"
#include "core/base/base.h"
#include "core/base/times.h"

enum { MOST_MESSAGES = 4096 };

struct chain {
    int n_stages, n_replicas;
    int *at;         /* [n_ranks] replica * n_stages + stage of each rank */
    int *rank;       /* [n_ranks] the rank at replica * n_stages + stage */
    bool peers_said; /* the events say where messages go */
};

static bool is_message_of(const struct foreign_job *j, const struct foreign_interval *v)
{
    return v->rank < j->n_ranks
           && (v->class == (j->has_kernels[v->rank] ? FOREIGN_MESSAGE : FOREIGN_HOST_MESSAGE)
               || (v->class == FOREIGN_CALL && v->peer >= 0));
}

/* ---- places ---- */

/* The events that start a message say its peer: links[a * n + b], if a and b exchange messages. */
static bool find_links(const struct foreign_job *j, bool *links)
{
    const size_t n = (size_t)j->n_ranks;
    bool any = false;
    for (size_t i = 0; i < j->n; i++) {
        const struct foreign_interval *v = &j->intervals[i];
        if (!is_message_of(j, v) || v->peer < 0 || v->peer >= j->n_ranks || v->peer == v->rank) continue;
        links[(size_t)v->rank * n + (size_t)v->peer] = links[(size_t)v->peer * n + (size_t)v->rank] = any =
            true;
    }
    return any;
}

/* Follow the links from the lowest rank with one neighbour. False: they form no chains of equal length. */
static bool follow(const struct foreign_job *j, const bool *links, struct chain *c)
{
    const int n = j->n_ranks;
    int placed = 0;
    for (int r = 0; r < n; r++) c->at[r] = -1;
    for (int first = 0; first < n; first++) {
        int neighbours = 0, length = 0;
        for (int q = 0; q < n; q++) neighbours += links[first * n + q];
        if (c->at[first] >= 0 || neighbours != 1) continue;
        for (int r = first, next = 0; next >= 0; r = next) {
            c->at[r] = placed;
            c->rank[placed++] = r;
            length++;
            next = -1;
            for (int q = n - 1; q >= 0; q--)
                if (links[r * n + q] && c->at[q] < 0) next = q;
        }
        if (c->n_replicas && length != c->n_stages) return false;
        c->n_stages = length;
        c->n_replicas++;
    }
    return placed == n && c->n_stages > 1;
}

/* Without peers, all ranks that have messages form one pipeline in their order. */
static bool in_order(const struct foreign_job *j, struct chain *c)
{
    bool *sends = calloc((size_t)j->n_ranks + 1, sizeof *sends), all = sends != NULL, sums = false;
    for (size_t i = 0; i < j->n && sends; i++) {
        const struct foreign_interval *v = &j->intervals[i];
        if (is_message_of(j, v)) sends[v->rank] = true;
        sums = sums || ((v->class & (FOREIGN_COLLECTIVE | FOREIGN_HOST_COLLECTIVE)) && v->is_sum);
    }
    for (int r = 0; r < j->n_ranks && sends; r++) {
        all = all && sends[r];
        c->at[r] = c->rank[r] = r;
    }
    free(sends);
    *c = (struct chain){ j->n_ranks, 1, c->at, c->rank, j->n_ranks == 2 };
    return all && !sums && j->n_ranks > 1;
}

/* ---- messages ---- */

struct message {
    double begin, end, bytes;
};

/*
 * The messages of a step that rank r sends to the peer, or receives from it, in their order. If no event says
 * the peer, all messages of the direction: out [MOST_MESSAGES].
 */
static int list_messages(const struct foreign_job *j, const struct foreign_window *w, int peer,
                         char direction, struct message *out)
{
    const bool device = j->has_kernels[w->rank];
    int n = 0, said = -1;
    for (size_t i = foreign_first(j, w->rank, w->begin);
         i < j->n && j->intervals[i].rank == w->rank && j->intervals[i].begin < w->end; i++) {
        const struct foreign_interval *v = &j->intervals[i];
        if (v->begin < w->begin) continue;
        if (v->class == FOREIGN_CALL && v->peer >= 0) said = v->peer; /* of the message that follows */
        if (v->class != (device ? FOREIGN_MESSAGE : FOREIGN_HOST_MESSAGE)) continue;
        const int to = v->peer >= 0 ? v->peer : device ? -1 : said;
        if (v->direction == direction && (to < 0 || peer < 0 || to == peer) && n < MOST_MESSAGES)
            out[n++] = (struct message){ v->begin, v->end, v->bytes };
        if (!device) said = -1;
    }
    return n;
}

static const struct foreign_window *window_of(const struct foreign_job *j, size_t first, size_t last,
                                              int rank)
{
    for (size_t w = first; w < last; w++)
        if (j->windows[w].rank == rank) return &j->windows[w];
    return NULL;
}

/* The messages of a link in all steps. */
struct link {
    double seconds[2 * MOST_MESSAGES], bytes;
    int n;
    double least[2]; /* from a send to its receive, in both directions, by the clocks of the ranks */
    bool waited;     /* `seconds` are those of messages for which the receiver waited */
    double offset;   /* of the clocks, when they contradict each other */
    struct message sent[MOST_MESSAGES], received[MOST_MESSAGES];
};

static void pair(struct link *l, int n, int way, bool measures)
{
    const double shift = way ? -l->offset : l->offset; /* seconds by which the receiver's clock is ahead */
    for (int k = 0; k < n; k++) {
        const double begin = l->received[k].begin - shift, end = l->received[k].end - shift;
        if (!measures) {
            l->least[way] = fmin(l->least[way], end - l->sent[k].begin);
        } else if (l->n < 2 * MOST_MESSAGES && (begin <= l->sent[k].begin || !l->waited)) {
            /* where the receiver was there first, the message's time is exact: forget the others */
            if (begin <= l->sent[k].begin && !l->waited) l->waited = true, l->n = 0;
            l->seconds[l->n++] = fmax(end - fmax(begin, l->sent[k].begin), 0);
            if (isfinite(l->received[k].bytes)) l->bytes = fmax(l->bytes, l->received[k].bytes);
        }
    }
}

/* Look at the messages between two ranks, in both directions. */
static void look_at_link(const struct foreign_job *j, const struct chain *c, int a, int b, bool measures,
                         struct link *l)
{
    for (size_t w = 0, end; w < j->n_windows; w = end) {
        for (end = w; end < j->n_windows && j->windows[end].step == j->windows[w].step;) end++;
        for (int way = 0; way < 2; way++) {
            const int from = way ? b : a, to = way ? a : b;
            const struct foreign_window *sender = window_of(j, w, end, from),
                                        *receiver = window_of(j, w, end, to);
            if (!sender || !receiver || !c->peers_said) continue;
            const int n = list_messages(j, sender, to, 's', l->sent);
            if (n && n == list_messages(j, receiver, from, 'r', l->received)) pair(l, n, way, measures);
        }
    }
}

/* A low quantile of the receives of a rank, because most others wait for their sender, too. */
static double quick_receive(const struct foreign_job *j, int rank, struct link *l)
{
    l->n = 0;
    for (size_t i = foreign_first(j, rank, -INFINITY); i < j->n && j->intervals[i].rank == rank; i++) {
        const struct foreign_interval *v = &j->intervals[i];
        if (v->class == FOREIGN_CALL || !is_message_of(j, v) || v->direction == 's'
            || l->n == 2 * MOST_MESSAGES)
            continue;
        l->seconds[l->n++] = v->end - v->begin;
        if (isfinite(v->bytes)) l->bytes = fmax(l->bytes, v->bytes);
    }
    yokei_sort(l->seconds, l->n);
    return l->n ? l->seconds[l->n / 5] : 0;
}

/* The seconds and bytes of a message between two ranks. */
static double seconds_of_link(const struct foreign_job *j, const struct chain *c, int a, int b,
                              struct link *l)
{
    l->n = 0, l->bytes = 0, l->offset = 0, l->waited = false;
    l->least[0] = l->least[1] = INFINITY;
    look_at_link(j, c, a, b, false, l);
    /* Nothing is received before it is sent. If it seems so, the clocks differ: make both ways equal. */
    if (isfinite(l->least[0]) && isfinite(l->least[1]) && fmin(l->least[0], l->least[1]) < 0)
        l->offset = (l->least[0] - l->least[1]) / 2;
    look_at_link(j, c, a, b, true, l);
    return l->n ? yokei_median(l->seconds, l->n) : quick_receive(j, b, l);
}

/* ---- costs ---- */

/* Micro-batches: the gradients that the first stage receives in a step, or what it sends. */
static int count_micro_batches(const struct foreign_job *j, const struct chain *c, struct link *l)
{
    const int first = c->rank[0], next = c->peers_said ? c->rank[1] : -1;
    int most = 0;
    for (size_t w = 0; w < j->n_windows; w++) {
        if (j->windows[w].rank != first) continue;
        const int n = list_messages(j, &j->windows[w], next, 'r', l->received);
        most = YOKE_MAX(most, n ? n : list_messages(j, &j->windows[w], next, 's', l->sent));
        if (most) continue;
        const int both = list_messages(j, &j->windows[w], next, 0, l->sent); /* the direction is not said */
        most = YOKE_MAX(most, both > 1 ? both / 2 : both);
    }
    return most;
}

static yoke_status add_lines(struct diagnose_run *run, const struct chain *c, int micro_batches)
{
    const struct yokei_pipeline shape = {
        .kind = YOKEI_PIPELINE_1F1B, .n_stages = c->n_stages, .n_chunks = 1, .n_micro_batches = micro_batches
    };
    run->schedule = (struct yokei_schedule){ 0, calloc((size_t)run->facts.n_ranks + 1,
                                                       sizeof *run->schedule.rank) };
    if (!run->schedule.rank) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a pipeline");
    for (int d = 0; d < c->n_replicas; d++) {
        struct yokei_schedule one = { 0, NULL };
        YOKE_TRY(yokei_schedule_pipeline(&shape, &one));
        for (int s = 0; s < c->n_stages; s++) run->schedule.rank[run->schedule.n_ranks++] = one.rank[s];
        free(one.rank);
    }
    return YOKE_OK;
}

static yoke_status make_costs(struct foreign_job *j, const struct chain *c, int micro_batches, struct link *l)
{
    struct diagnose_run *run = j->run;
    struct yokei_facts *f = &run->facts;
    struct yokei_costs *k = &run->costs;
    const size_t lines = (size_t)f->n_ranks;
    *k = (struct yokei_costs){ .n_stages = c->n_stages,
                               .n_chunks = 1,
                               .n_replicas = c->n_replicas,
                               .receiver_takes = true,
                               .chunk = calloc(lines, sizeof *k->chunk),
                               .hop = calloc(lines, sizeof *k->hop),
                               .sum = calloc(1, sizeof *k->sum),
                               .once = calloc(lines, sizeof *k->once) };
    run->sum_bytes = calloc(1, sizeof(double));
    run->hop_bytes = calloc(lines, sizeof(double));
    if (!k->chunk || !k->hop || !k->sum || !k->once || !run->sum_bytes || !run->hop_bytes)
        return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a pipeline");
    YOKE_TRY(add_lines(run, c, micro_batches));
    for (int at = 0; at < f->n_ranks; at++) {
        const double pass = f->rank[c->rank[at]].busy / (3.0 * micro_batches);
        k->chunk[at] = (struct yokei_chunk_costs){ pass, pass, pass, 0, 0, 0, 0 };
        if (at % c->n_stages == c->n_stages - 1) continue;
        const double seconds = seconds_of_link(j, c, c->rank[at], c->rank[at + 1], l);
        k->hop[at] = (struct yokei_hop){ .bytes = seconds, .bytes_per_second = 1 };
        run->hop_bytes[at] = l->bytes;
    }
    f->knows_latency = true;
    f->costs = k, f->schedule = &run->schedule;
    f->sum_bytes = run->sum_bytes, f->hop_bytes = run->hop_bytes;
    return YOKE_OK;
}

/* Stages of different work: their blocks are not known, so the work is cut into equal pieces. */
static yoke_status cut_work(struct diagnose_run *run, const struct chain *c)
{
    struct yokei_facts *f = &run->facts;
    double least = INFINITY, most = 0;
    for (int at = 0; at < c->n_stages; at++) {
        const double work = f->rank[c->rank[at]].work;
        least = fmin(least, isfinite(work) ? work : 0), most = fmax(most, isfinite(work) ? work : 0);
    }
    if (!(least > 0) || most > 100 * least) return YOKE_OK;
    run->blocks = calloc((size_t)c->n_stages, sizeof *run->blocks);
    if (!run->blocks) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a pipeline");
    for (int at = 0; at < c->n_stages; at++) run->blocks[at] = lround(16 * f->rank[c->rank[at]].work / least);
    f->blocks = run->blocks;
    return YOKE_OK;
}

yoke_status foreign_stages(struct foreign_job *j, bool *is_pipeline_out)
{
    struct yokei_facts *f = &j->run->facts;
    const size_t n = (size_t)j->n_ranks;
    struct chain c = { .at = calloc(n + 1, sizeof *c.at), .rank = calloc(n + 1, sizeof *c.rank) };
    bool *links = calloc(n * n + 1, sizeof *links);
    struct link *l = malloc(sizeof *l);
    yoke_status status = c.at && c.rank && links && l
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a pipeline");
    bool any = false;
    *is_pipeline_out = false;
    if (!status) {
        c.peers_said = find_links(j, links);
        any = c.peers_said ? follow(j, links, &c) : in_order(j, &c);
    }
    const int micro_batches = any ? count_micro_batches(j, &c, l) : 0;
    if (!status && micro_batches > 0) {
        *is_pipeline_out = true;
        f->pipeline = c.n_stages, f->data = c.n_replicas;
        for (int r = 0; r < j->n_ranks; r++) {
            f->rank[r].d = c.at[r] / c.n_stages, f->rank[r].s = c.at[r] % c.n_stages, f->rank[r].t = 0;
        }
        status = make_costs(j, &c, micro_batches, l);
        if (!status) status = cut_work(j->run, &c);
        if (!c.peers_said)
            diagnose_problem(
                j->run,
                "the events do not say to which rank messages go, so the ranks count as stages in their "
                "order, and slow links are not told apart; profile with record_shapes=True");
    } else if (!status) {
        diagnose_problem(j->run, "the ranks that send messages form no pipeline that the events describe, so "
                                 "micro-batches and links are not looked at");
    }
    free(c.at);
    free(c.rank);
    free(links);
    free(l);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault injection for tests of the checks: a transport around the real transports of a rank. It delays,
 * drops, doubles or damages what the rank receives, through shared slots and over MPI. It is installed when a
 * communicator is made and YOKE_INJECT is set. Without it the engine calls the real transports directly.
 *   YOKE_INJECT=seed=7,rank=1,delay=0.01:5ms,drop=0.001,duplicate=0.001,flip=0.001:header,after=20,most=1
 *   rank=N               a rank of the job; may be repeated; default all ranks
 *   delay=P:TIME         with probability P a message is seen TIME (us, ms, s) later
 *   drop=P, duplicate=P  the message never arrives; the message arrives twice
 *   misroute=P           a message that the rank sends goes to another rank than its receiver
 *   flip=P[:header|:payload]   one bit of the message is flipped; default in either part
 *   after=N, most=N      leave the first N messages unharmed; harm at most N messages
 * What happens to a message depends only on the seed, the rank, the communicator and the message's place in
 * its stream.
 * Collectives through shared memory exchange no messages (see YOKE_NO_SHARED and YOKE_ALGORITHM). Control
 * messages are not harmed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collectives/transport/inject.h"
#include "collectives/transport/transport.h"

enum fault { NONE, DELAY, DROP, DUPLICATE, FLIP, MISROUTE, N_FAULTS };
enum part { ANY_PART, HEADER, PAYLOAD };

/* The messages of one lane from one rank. */
struct stream {
    uint64_t n; /* number of messages seen so far, the present one included */
    uint64_t n_sent;
    bool decided; /* the fault of the present message is chosen */
    enum fault fault;
    uint64_t due_ns; /* for a delay: when the message is seen */
    const void *message;
    void *copy; /* for a doubled message: its copy, which comes once more; NULL: none */
    size_t bytes;
};

struct yokei_inject {
    uint64_t seed, delay_ns, after, most;
    double p[N_FAULTS];
    enum part part;
    uint64_t n_seen, n_sent, n_harmed;
    struct stream *streams; /* [size][YOKEI_LANES + 1] */
};

/* ---- the words of YOKE_INJECT ---- */

static bool read_whole(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

/* Read a probability such as "0.5". *rest is the text behind it. */
static bool read_probability(const char *text, double *value, const char **rest)
{
    char *end;
    *value = strtod(text, &end);
    *rest = *end == ':' ? end + 1 : end;
    return end != text && (!*end || *end == ':') && *value >= 0 && *value <= 1;
}

static bool read_time(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = { { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
    char *end;
    const double value = strtod(text, &end);
    for (size_t i = 0; i < YOKE_COUNT(units); i++)
        if (end != text && value >= 0 && value < 1e6 && !strcmp(end, units[i].unit)) {
            *ns = (uint64_t)(value * units[i].ns);
            return true;
        }
    return false;
}

static bool read_word(struct yokei_inject *inject, const char *name, const char *value, bool *named,
                      bool *here)
{
    static const char *const faults[N_FAULTS] = { "", "delay", "drop", "duplicate", "flip", "misroute" };
    uint64_t number = 0;
    const char *rest = "";
    if (!strcmp(name, "seed")) return read_whole(value, &inject->seed);
    if (!strcmp(name, "after")) return read_whole(value, &inject->after);
    if (!strcmp(name, "most")) return read_whole(value, &inject->most);
    if (!strcmp(name, "rank")) {
        *named = true;
        if (!read_whole(value, &number)) return false;
        *here |= number == (uint64_t)yokei_process.world_rank;
        return true;
    }
    for (int f = DELAY; f < N_FAULTS; f++) {
        if (strcmp(name, faults[f])) continue;
        if (!read_probability(value, &inject->p[f], &rest)) return false;
        if (f == DELAY) return read_time(rest, &inject->delay_ns);
        if (f == FLIP && *rest)
            inject->part = !strcmp(rest, "header") ? HEADER : !strcmp(rest, "payload") ? PAYLOAD : ANY_PART;
        return !*rest || (f == FLIP && inject->part != ANY_PART);
    }
    return false;
}

static yoke_status parse(struct yokei_inject *inject, const char *text, bool *here_out)
{
    bool named = false, here = false;
    char words[512], *place = NULL;
    if (strlen(text) >= sizeof words)
        return yoke_fail(YOKE_ECONFIG, "YOKE_INJECT: longer than %zu letters", sizeof words - 1);
    yokei_text(words, sizeof words, "%s", text);
    for (char *word = strtok_r(words, ",", &place); word; word = strtok_r(NULL, ",", &place)) {
        char *value = strchr(word, '=');
        if (value) *value++ = '\0';
        if (!value || !read_word(inject, word, value, &named, &here))
            return yoke_fail(
                YOKE_ECONFIG,
                "YOKE_INJECT: '%s%s%s' is none of seed=N, rank=N, after=N, most=N, delay=P:TIME (such as 5ms), drop=P, "
                "duplicate=P, misroute=P, flip=P[:header|:payload], with P from 0 to 1",
                word, value ? "=" : "", value ? value : "");
    }
    *here_out = here || !named;
    return YOKE_OK;
}

yoke_status yokei_inject_begin(yoke_comm *comm)
{
    const char *text = getenv("YOKE_INJECT");
    if (!text || !*text) return YOKE_OK;
    struct yokei_inject read = { .most = UINT64_MAX };
    bool here = false;
    YOKE_TRY(parse(&read, text, &here));
    if (!here) return YOKE_OK;
    struct yokei_inject *inject = malloc(sizeof *inject);
    struct stream *streams = calloc((size_t)comm->size * (YOKEI_LANES + 1), sizeof *streams);
    if (!inject || !streams) {
        free(inject);
        free(streams);
        return yoke_fail(YOKE_ENOMEM, "YOKE_INJECT: no memory for %d ranks", comm->size);
    }
    *inject = read;
    inject->streams = streams;
    comm->inject = inject;
    yoke_log(YOKE_LOG_WARN, "communicator \"%s\": rank %d harms its messages on purpose (YOKE_INJECT=%s)",
             comm->name, comm->rank, text);
    return YOKE_OK;
}

void yokei_inject_end(yoke_comm *comm)
{
    if (!comm->inject) return;
    for (size_t i = 0; i < (size_t)comm->room * (YOKEI_LANES + 1); i++) free(comm->inject->streams[i].copy);
    free(comm->inject->streams);
    free(comm->inject);
    comm->inject = NULL;
}

/* ---- the transport ---- */

static struct stream *stream_at(const yoke_comm *comm, const struct yokei_lane *lane, int from)
{
    return &comm->inject->streams[(size_t)from * (YOKEI_LANES + 1) + (size_t)lane->id];
}

/* A pseudorandom number for this message, number n from or to the peer, and for this purpose. */
static uint64_t draw(const yoke_comm *comm, const struct yokei_lane *lane, int peer, uint64_t n,
                     uint64_t purpose)
{
    const uint64_t key[6] = {
        (uint64_t)yokei_process.world_rank, comm->context, (uint64_t)peer, (uint64_t)lane->id, n, purpose
    };
    return yokei_hash(key, sizeof key, comm->inject->seed);
}

static bool happens(const yoke_comm *comm, const struct yokei_lane *lane, int peer, uint64_t n, enum fault f)
{
    return (double)(draw(comm, lane, peer, n, f) >> 11) * 0x1p-53 < comm->inject->p[f];
}

static void flip(const yoke_comm *comm, const struct yokei_lane *lane, int from, const struct stream *s)
{
    const uint64_t where = draw(comm, lane, from, s->n, N_FAULTS);
    const size_t header = sizeof(struct yokei_header), payload = s->bytes - header;
    const enum part part = comm->inject->part ? comm->inject->part : where >> 63 ? HEADER : PAYLOAD;
    const bool in_payload = part == PAYLOAD && payload;
    const uint64_t bit = (in_payload ? header * 8 : 0)
                         + (where & INT64_MAX) % ((in_payload ? payload : header) * 8);
    /* Only the sender writes the slot or the receive buffer, and it has finished writing. */
    ((unsigned char *)(uintptr_t)s->message)[bit / 8] ^= (unsigned char)(1u << bit % 8);
}

static void decide_fault(yoke_comm *comm, const struct yokei_lane *lane, int from, struct stream *s)
{
    struct yokei_inject *inject = comm->inject;
    s->decided = true;
    s->fault = NONE;
    s->due_ns = 0;
    s->n++;
    if (++inject->n_seen <= inject->after) return;
    for (enum fault f = DELAY; f < MISROUTE && !s->fault && inject->n_harmed < inject->most; f++)
        if (happens(comm, lane, from, s->n, f)) s->fault = f;
    const bool has_part = inject->part != PAYLOAD || s->bytes > sizeof(struct yokei_header);
    if (s->fault == FLIP && !has_part) s->fault = NONE;
    if (!s->fault) return;
    inject->n_harmed++;
    if (s->fault == DELAY) s->due_ns = yokei_now_ns() + inject->delay_ns;
    if (s->fault == FLIP) flip(comm, lane, from, s);
    static const char *const what[] = { "", "delayed", "dropped", "doubled", "changed" };
    yoke_log(YOKE_LOG_DEBUG, "YOKE_INJECT: rank %d: message %llu from rank %d in lane %d (%zu bytes) is %s",
             comm->rank, (unsigned long long)s->n, from, lane->id, s->bytes, what[s->fault]);
}

static yoke_status inject_poll(yoke_comm *comm, struct yokei_lane *lane, int from, const void **message_out,
                               size_t *bytes_out)
{
    const struct yokei_transport *beneath = comm->peers[from].beneath;
    struct stream *s = stream_at(comm, lane, from);
    if (s->copy) {
        *message_out = s->copy;
        *bytes_out = s->bytes;
        return YOKE_OK;
    }
    YOKE_TRY(beneath->poll(comm, lane, from, message_out, bytes_out));
    if (!*message_out) return YOKE_OK;
    s->message = *message_out;
    s->bytes = *bytes_out;
    if (!s->decided) decide_fault(comm, lane, from, s);
    if (s->fault == DROP) {
        beneath->release(comm, lane, from);
        s->decided = false;
        *message_out = NULL;
    } else if (s->due_ns && yokei_now_ns() < s->due_ns) {
        *message_out = NULL;
    }
    return YOKE_OK;
}

static void inject_release(yoke_comm *comm, struct yokei_lane *lane, int from)
{
    struct stream *s = stream_at(comm, lane, from);
    if (s->copy) { /* this was the second time */
        free(s->copy);
        s->copy = NULL;
        return;
    }
    if (s->fault == DUPLICATE && (s->copy = malloc(s->bytes))) memcpy(s->copy, s->message, s->bytes);
    comm->peers[from].beneath->release(comm, lane, from);
    s->decided = false;
}

static yoke_status inject_reserve(yoke_comm *comm, struct yokei_lane *lane, int to, void **room_out)
{
    return comm->peers[to].beneath->reserve(comm, lane, to, room_out);
}

/*
 * The rank to which a message for rank `to` goes instead: the next one that is reached in the same way; -1:
 * there is none.
 */
static int wrong_receiver(const yoke_comm *comm, int to)
{
    for (int i = 1; i < comm->size; i++) {
        const int r = (to + i) % comm->size;
        if (r != comm->rank && comm->peers[r].beneath == comm->peers[to].beneath) return r;
    }
    return -1;
}

static yoke_status inject_post(yoke_comm *comm, struct yokei_lane *lane, int to, size_t bytes)
{
    struct yokei_inject *inject = comm->inject;
    struct stream *s = stream_at(comm, lane, to);
    /* a slot for sends and receives belongs to one receiver */
    const int wrong = lane->id == YOKEI_LANE_PAIR ? -1 : wrong_receiver(comm, to);
    s->n_sent++;
    if (wrong >= 0 && ++inject->n_sent > inject->after && inject->n_harmed < inject->most
        && happens(comm, lane, to, s->n_sent, MISROUTE)) {
        inject->n_harmed++;
        yoke_log(YOKE_LOG_DEBUG, "YOKE_INJECT: rank %d: message %llu for rank %d in lane %d goes to rank %d",
                 comm->rank, (unsigned long long)s->n_sent, to, lane->id, wrong);
        to = wrong;
    }
    return comm->peers[to].beneath->post(comm, lane, to, bytes);
}

static yoke_status inject_drained(yoke_comm *comm, struct yokei_lane *lane, bool *drained_out)
{
    return yokei_mpi_transport.drained(comm, lane, drained_out);
}

static const struct yokei_transport inject_transport = { "inject",    inject_reserve, inject_post,
                                                         inject_poll, inject_release, inject_drained };

void yokei_inject_wrap(yoke_comm *comm)
{
    for (int r = 0; r < comm->size && comm->inject; r++) comm->peers[r].transport = &inject_transport;
}

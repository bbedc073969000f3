/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences of calls in which one rank deviates once. It uses another count, type, reduction, root,
 * counts per rank or collective. Or it exchanges two calls, leaves one out, makes one too many, or makes one
 * on another communicator. Every rank must get an error, at the latest at the next barrier. No result that a
 * rank got before may be wrong. The allowed errors are:
 * - YOKE_EMISMATCH that names the deviating rank, another rank, and both calls: if the collectives of one
 *   communicator differ.
 * - YOKE_ETIMEOUT (stuck after stall_ms): also allowed if sends and receives are missing or too many, because
 *   they are not part of the order that all ranks share, and if a rank is in another communicator. A send or
 *   receive that only comes earlier or later may do no harm.
 * - YOKE_ETIMEOUT (has not called, after timeout_ms): if a rank makes no more calls.
 * Sequences without a deviation must end without an error.
 *   tests/ranks/illegal [TRIALS [SEED]]
 */
#include "tests/ranks/calls.h"

enum how {
    LEGAL,
    COUNT,
    TYPE,
    REDUCTION,
    ROOT,
    COUNTS,
    COLLECTIVE,
    EXCHANGED,
    LEFT_OUT,
    TOO_MANY,
    ELSEWHERE,
    GONE,
    N_HOWS
};
static const char *const hows[N_HOWS] = { "no deviation",
                                          "another count",
                                          "another type",
                                          "another reduction",
                                          "another root",
                                          "other counts per rank",
                                          "another collective",
                                          "two calls exchanged",
                                          "a call left out",
                                          "a call too many",
                                          "a call on another communicator",
                                          "no call any more" };
static const struct {
    const char *algorithm;
    bool no_shared;
    size_t chunk;
    bool shares;
} kinds[] = {
    { NULL, false, 0, false },         { NULL, true, 0, false },       { "slices", false, 0, false },
    { "oneshot", false, 0, false },    { "direct", false, 0, true },   { "ring", false, 0, false },
    { "ring", true, 0, false },        { "chain", true, 1024, false }, { "doubling", false, 4096, false },
    { "exchange", true, 2048, false },
};
enum { MOST_CALLS = 8, SOME_CALLS = 2 };

struct trial {
    enum how how;
    size_t kind;
    int odd, at, n; /* the rank that deviates; the call at which it does; the number of calls */
    bool sends;     /* the deviation involves sends and receives, or another communicator */
    struct call calls[MOST_CALLS], other;
};

static bool reduces(const struct call *c)
{
    return c->what == ALL_REDUCE || c->what == REDUCE || c->what == REDUCE_SCATTER;
}
static bool has_root(const struct call *c)
{
    return c->what == REDUCE || c->what == BROADCAST || c->what == GATHER || c->what == SCATTER;
}

/* Another type that is not longer, because the buffers must be long enough. */
static yoke_dtype other_type(yoke_dtype dtype)
{
    switch (dtype) {
    case YOKE_F32: return YOKE_I32;
    case YOKE_F16: return YOKE_BF16;
    case YOKE_BF16: return YOKE_F16;
    case YOKE_F64: return YOKE_F32;
    case YOKE_I64: return YOKE_F64;
    case YOKE_I32: return YOKE_F32;
    case YOKE_I8: return YOKE_U8;
    default: return YOKE_I8;
    }
}

static bool may_deviate(const struct trial *t, const struct call *c)
{
    const bool data = c->what != BARRIER && (c->what != RING || ranks_size > 1);
    switch (t->how) {
    case COUNT:
        return data && !c->uneven && c->counts[0] < 4 * (size_t)MOST_BYTES / 5 / 8 / (size_t)ranks_size;
    case TYPE:
        return data && c->op != YOKE_AVG && (c->counts[0] || c->what != RING)
               && !(c->what == ALL_TO_ALL && c->uneven);
    case REDUCTION: return reduces(c);
    case ROOT: return has_root(c);
    case COUNTS:
        return c->uneven && has_slices(c) && c->what != ALL_TO_ALL && c->counts[0] + c->counts[1] > 0
               && c->counts[0] != c->counts[1];
    case LEFT_OUT:
        return c->what != BARRIER; /* at the end, one barrier less than the others make is no call at all */
    default: return true;
    }
}

/* The call that the deviating rank makes instead. */
static void deviate(struct trial *t, const struct place *p)
{
    struct call *c = &t->other;
    *c = t->calls[t->at];
    switch (t->how) {
    case COUNT:
        for (int r = 0; r < p->size; r++) c->counts[r]++, c->at[r + 1] = c->at[r] + c->counts[r];
        break;
    case TYPE: c->dtype = other_type(c->dtype); break;
    case REDUCTION: c->op = c->op == YOKE_SUM ? YOKE_MAX : YOKE_SUM; break;
    case ROOT:
        c->root = (c->root + 1) % p->size;
        c->in_place = false;
        break;
    case COUNTS: /* exchange the first two counts; the sum stays the same */
        c->counts[0] = t->calls[t->at].counts[1];
        c->counts[1] = t->calls[t->at].counts[0];
        c->at[1] = c->counts[0];
        break;
    default:
        do draw_call(c, p);
        while (c->what == BARRIER || c->what == t->calls[t->at].what
               || c->counts[0] == t->calls[t->at].counts[0]);
        break;
    }
}

static bool draw_trial(struct trial *t, const struct place *p)
{
    t->how = draw(12) ? (enum how)draw(GONE) : GONE;
    t->kind = draw(YOKE_COUNT(kinds));
    t->odd = (int)draw((uint32_t)ranks_size);
    t->n = 1 + (int)draw(MOST_CALLS - 1);
    t->at = (int)draw((uint32_t)t->n);
    for (int i = 0; i < MOST_CALLS; i++) {
        int tries = 0;
        do draw_call(&t->calls[i], p);
        while ((i == t->at && !may_deviate(t, &t->calls[i]) && tries++ < 200)
               || (t->how == EXCHANGED && i == t->at + 1
                   && (t->calls[i].what == t->calls[i - 1].what
                       || t->calls[i].counts[0] == t->calls[i - 1].counts[0])));
        if (i == t->at && tries > 200) return false;
    }
    if (t->how == EXCHANGED) t->n = t->at + 2 < t->n ? t->n : t->at + 2;
    if (t->n > MOST_CALLS) return false;
    deviate(t, p);
    bool pairs = t->calls[t->at].what == RING
                 || t->other.what == RING; /* the number of calls that may match each other */
    for (int i = t->at; i < t->n && t->how > COLLECTIVE; i++) pairs |= t->calls[i].what == RING;
    t->sends = t->how == ELSEWHERE || (pairs && t->how > COUNTS);
    return true;
}

static yoke_status issue_one(struct call *c, const struct place *p)
{
    static char *send, *recv;
    if (!send) send = malloc(MOST_BYTES + GUARD), recv = malloc(MOST_BYTES + GUARD);
    if (!send || !recv) exit(99);
    c->send = p->send ? p->send : send;
    c->recv = p->recv ? p->recv : recv;
    prepare(c, p);
    return issue(c, p);
}

/* Make this rank's calls until one fails. *right becomes false if a call succeeds with a wrong result. */
static yoke_status run_calls(struct trial *t, struct place *p, const struct place *elsewhere, bool *right)
{
    const bool odd = ranks_rank == t->odd;
    yoke_status status = YOKE_OK;
    for (int i = 0; i < t->n && !status && *right; i++) {
        struct call *c = &t->calls[i];
        const bool here = odd && i == t->at;
        if (t->how == GONE && here) return YOKE_OK;
        if (here && t->how == LEFT_OUT) continue;
        if (here && t->how == TOO_MANY) status = issue_one(&t->other, p);
        if (t->how == EXCHANGED && odd && (i == t->at || i == t->at + 1))
            c = &t->calls[i == t->at ? i + 1 : i - 1];
        if (here && t->how != LEGAL && t->how < EXCHANGED) c = &t->other;
        if (!status) status = issue_one(c, here && t->how == ELSEWHERE ? elsewhere : p);
        /*
         * The result of a call that only the deviating rank makes is not judged. And one send too many may
         * match a later receive.
         */
        const bool judged = !odd ? !t->sends || i < t->at : i < t->at || t->how == LEGAL;
        if (!status && judged) *right = is_right(c, p);
    }
    return status ? status : yoke_barrier(p->comm, NULL);
}

static bool named(const struct trial *t, yoke_status status, const char *text)
{
    char rank[32];
    snprintf(rank, sizeof rank, "rank %d ", t->odd);
    const char *first = strstr(text, " called "), *second = first ? strstr(first + 1, " called ") : NULL;
    if (status == YOKE_EMISMATCH)
        return strstr(text, rank) && (second || (strstr(text, "sent") && strstr(text, "expects")));
    return strstr(text, t->how == GONE ? rank : "rank ")
           && strstr(text, t->how == GONE ? "has not called" : "");
}

static bool create(const struct trial *t, const char *name, struct place *p)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.algorithm = kinds[t->kind].algorithm;
    config.no_shared = kinds[t->kind].no_shared;
    config.chunk_bytes = kinds[t->kind].chunk;
    config.stall_ms = t->how == GONE ? 10000 : t->sends ? 700 : 10000;
    config.timeout_ms = t->how == GONE ? 2000 : t->sends ? 2000 : 30000;
    config.name = name;
    *p = (struct place){ .size = ranks_size, .rank = ranks_rank };
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &p->comm));
    if (!kinds[t->kind].shares) return true;
    RANKS_TRY(yoke_comm_alloc(p->comm, MOST_BYTES + GUARD, &p->send));
    RANKS_TRY(yoke_comm_alloc(p->comm, MOST_BYTES + GUARD, &p->recv));
    return true;
}

static int run_trial(struct trial *t)
{
    struct place at, elsewhere;
    if (!create(t, "illegal", &at) || !create(t, "elsewhere", &elsewhere)) return 0;
    bool right = true;
    const uint64_t begin = yokei_now_ns();
    yoke_status status = run_calls(t, &at, &elsewhere, &right);
    const double seconds = (double)(yokei_now_ns() - begin) * 1e-9;
    char text[1024];
    snprintf(text, sizeof text, "%s", status ? yoke_last_error() : "");
    const bool gone = t->how == GONE && ranks_rank == t->odd;
    const bool expected = t->how == LEGAL || gone ? status == YOKE_OK
                          : t->how == GONE        ? status == YOKE_ETIMEOUT
                                           : status == YOKE_EMISMATCH || (t->sends && status == YOKE_ETIMEOUT)
                                                 || (t->sends && t->how == EXCHANGED && !status);
    const int ok = right && expected && (!status || named(t, status, text)) && seconds < ranks_limit(8);
    if (!ok)
        fprintf(
            stderr,
            "# rank %d of %d: %s (%d bytes) by rank %d at call %d (%s, instead: %s) of %d, %s over %s: status %d after %.3f s%s: %s\n",
            ranks_rank, ranks_size, hows[t->how],
            (int)(t->calls[t->at].counts[0] * yoke_dtype_bytes(t->calls[t->at].dtype)), t->odd, t->at,
            names[t->calls[t->at].what], names[t->other.what], t->n,
            kinds[t->kind].algorithm ? kinds[t->kind].algorithm : "auto",
            kinds[t->kind].no_shared ? "MPI" : "shared memory", (int)status, seconds,
            right ? "" : ", a wrong result", text);
    const int all = ranks_all(ok); /* because the others may still read this rank's record */
    /*
     * Either no rank has called anything on that communicator, or all ranks that did failed. So a barrier
     * would not match.
     */
    if (t->how == ELSEWHERE || gone) yoke_comm_abort(elsewhere.comm, "end of the trial");
    if (gone || !all) yoke_comm_abort(at.comm, "end of the trial");
    ranks_all(1);
    yoke_comm_destroy(elsewhere.comm);
    yoke_comm_destroy(at.comm);
    return all;
}

int main(int argc, char **argv)
{
    static struct trial trial;
    ranks_start();
    const int trials = argc > 1 ? atoi(argv[1]) : 100;
    begin_drawing(argc > 2 ? argv[2] : NULL);
    const struct place world = { .size = ranks_size, .rank = ranks_rank };
    int n[N_HOWS] = { 0 }, bad[N_HOWS] = { 0 };
    for (int i = 0; i < trials; i++) {
        while (!draw_trial(&trial, &world)) continue;
        n[trial.how]++;
        const uint64_t state = ranks_state;
        if (!run_trial(&trial)) {
            bad[trial.how]++;
            if (ranks_rank == 0) fprintf(stderr, "# trial %d\n", i);
        }
        ranks_state = state;
    }
    for (int h = 0; h < N_HOWS; h++)
        ranks_check(!bad[h], "%s of one rank%s: %d trials", hows[h],
                    h ? " is an error on all" : ", and all is well", n[h]);
    if (ranks_hosts()) ranks_check(ranks_only_records(), "nothing but records is in the run directories");
    return ranks_end();
}

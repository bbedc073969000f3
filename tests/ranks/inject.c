/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that come late, never, twice, or changed (YOKE_INJECT). Late messages must change nothing. All
 * others must lead to an error on every rank, in bounded time, and the error must name the two ranks. No call
 * before the error may return a wrong result.
 *   tests/ranks/inject [TRIALS [SEED]]
 * With YOKE_ISLAND_OF the ranks are in these islands. Then messages between islands are lost, doubled, or
 * sent to another column.
 */
#include "tests/ranks/ranks.h"

enum { LARGEST = 200000, N_CALLS = 60 };

static float send_buffer[LARGEST], recv_buffer[LARGEST];
static int n_alarms;

static void count_alarms(void *context, yoke_log_level level, const char *text)
{
    (void)context;
    n_alarms += level <= YOKE_LOG_WARN && !strstr(text, "YOKE_INJECT");
}

static float value(int rank, size_t i, int turn)
{
    return (float)((i * 3 + (size_t)rank * 5 + (size_t)turn) % 17);
}

static bool same(const char *what, size_t n, float (*want)(size_t i, int turn), int turn)
{
    for (size_t i = 0; i < n; i++)
        if (recv_buffer[i] != want(i, turn)) {
            fprintf(stderr, "# rank %d: %s %d: element %zu of %zu is %g, not %g\n", ranks_rank, what, turn, i,
                    n, recv_buffer[i], want(i, turn));
            return false;
        }
    return true;
}

static float summed(size_t i, int turn)
{
    float sum = 0;
    for (int r = 0; r < ranks_size; r++) sum += value(r, i, turn);
    return sum;
}

static float of_root(size_t i, int turn) { return value(turn % ranks_size, i, turn); }
static float of_last(size_t i, int turn)
{
    return value((ranks_rank + ranks_size - 1) % ranks_size, i, turn);
}
static float own_slice(size_t i, int turn) { return summed((size_t)ranks_rank * 500 + i, turn); }

static yoke_status pass_on(yoke_comm *comm, size_t n)
{
    YOKE_TRY(yoke_group_start());
    const yoke_status a = yoke_send(send_buffer, n, YOKE_F32, (ranks_rank + 1) % ranks_size, comm, NULL);
    const yoke_status b = yoke_recv(recv_buffer, n, YOKE_F32, (ranks_rank + ranks_size - 1) % ranks_size,
                                    comm, NULL);
    const yoke_status end = yoke_group_end();
    return a ? a : b ? b : end;
}

/*
 * Make one call; its kind changes from turn to turn. *right becomes false if it succeeds with a wrong result.
 */
static yoke_status call(yoke_comm *comm, int turn, bool *right)
{
    static const size_t counts[] = { 5, 700, 30000, LARGEST };
    const size_t n = counts[turn / 5 % 4];
    for (size_t i = 0; i < n; i++) send_buffer[i] = value(ranks_rank, i, turn);
    yoke_status status;
    switch (turn % 5) {
    case 0:
        status = yoke_all_reduce(send_buffer, recv_buffer, n, YOKE_F32, YOKE_SUM, comm, NULL);
        if (!status) *right = same("all_reduce", n, summed, turn);
        return status;
    case 1:
        status = yoke_broadcast(send_buffer, recv_buffer, n, YOKE_F32, turn % ranks_size, comm, NULL);
        if (!status) *right = same("broadcast", n, of_root, turn);
        return status;
    case 2:
        for (size_t i = n; i < 500 * (size_t)ranks_size; i++) send_buffer[i] = value(ranks_rank, i, turn);
        status = yoke_reduce_scatter(send_buffer, recv_buffer, 500, YOKE_F32, YOKE_SUM, comm, NULL);
        if (!status) *right = same("reduce_scatter", 500, own_slice, turn);
        return status;
    case 3: return yoke_barrier(comm, NULL);
    default:
        status = pass_on(comm, n);
        if (!status) *right = same("a send in a ring", n, of_last, turn);
        return status;
    }
}

struct fault {
    const char *name, *spec; /* spec: the text of YOKE_INJECT after the rank */
    enum yoke_check check;
    bool harmless, once;    /* once: one random message; else all messages from a random one on */
    yoke_status one, other; /* errors with which it may end */
    int stall_ms;           /* short where the ranks wait for the verdict */
};
enum { SOON = 500, NEVER = 60000 };
static const struct fault faults[] = {
    { "late by 5 ms, one in ten", "delay=0.1:5ms", YOKE_CHECK_HEADER, true, false, YOKE_OK, YOKE_OK, NEVER },
    { "late by 1 s, far below the time to a verdict", "delay=1:1000ms", YOKE_CHECK_HEADER, true, true,
      YOKE_OK, YOKE_OK, 20000 },
    { "dropped", "drop=1", YOKE_CHECK_HEADER, false, true, YOKE_ETIMEOUT, YOKE_EDATA, SOON },
    { "all dropped", "drop=1", YOKE_CHECK_HEADER, false, false, YOKE_ETIMEOUT, YOKE_ETIMEOUT, SOON },
    { "doubled", "duplicate=1", YOKE_CHECK_HEADER, false, true, YOKE_EDATA, YOKE_EDATA, NEVER },
    { "sent to another rank", "misroute=1", YOKE_CHECK_HEADER, false, true, YOKE_EDATA, YOKE_ETIMEOUT, SOON },
    { "changed in the header", "flip=1:header", YOKE_CHECK_HEADER, false, true, YOKE_EDATA, YOKE_EDATA,
      NEVER },
    { "changed in the data, with check full", "flip=1:payload", YOKE_CHECK_FULL, false, true, YOKE_EDATA,
      YOKE_EDATA, NEVER },
    { "changed anywhere, with check full", "flip=0.25", YOKE_CHECK_FULL, false, false, YOKE_EDATA, YOKE_EDATA,
      NEVER },
};

static bool names_two_ranks(const char *text)
{
    int n = 0;
    for (int r = 0; r < ranks_size; r++) {
        char name[32];
        snprintf(name, sizeof name, "rank %d", r);
        n += strstr(text, name) != NULL;
    }
    return n >= 2 && strchr(text, '#');
}

static bool by_islands(void) { return getenv("YOKE_ISLAND_OF") != NULL; }

static int trial(const struct fault *f, int victim, bool over_mpi)
{
    char spec[128];
    snprintf(spec, sizeof spec, "rank=%d,seed=%u,%s", victim, draw(1000000), f->spec);
    /* between islands a rank that is no leader sends few messages */
    snprintf(spec + strlen(spec), sizeof spec - strlen(spec), ",after=%u%s", draw(by_islands() ? 8 : 40),
             f->once ? ",most=1" : "");
    setenv("YOKE_INJECT", spec, 1);
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.no_shared = over_mpi;
    /* otherwise one host exchanges no messages */
    config.algorithm = by_islands() ? "hierarchy" : "ring";
    if (by_islands()) config.island = YOKE_ISLAND_VENDOR;
    config.stall_ms = f->stall_ms;
    config.timeout_ms = 3 * f->stall_ms;
    config.check = f->check;
    config.name = "inject";
    yoke_comm *comm;
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &comm));
    unsetenv("YOKE_INJECT");
    n_alarms = 0;
    yoke_status status = YOKE_OK;
    bool right = true;
    int turn = 0;
    uint64_t begin = 0;
    for (; turn < N_CALLS && !status && right; turn++) {
        begin = yokei_now_ns();
        status = call(comm, turn, &right);
    }
    const double seconds = (double)(yokei_now_ns() - begin) * 1e-9,
                 limit = ranks_limit(1e-3 * 4 * (f->stall_ms == NEVER ? SOON : f->stall_ms) + 2);
    char text[1024];
    snprintf(text, sizeof text, "%s", status ? yoke_last_error() : "");
    int ok = right && seconds < limit
             && (f->harmless ? !status && !n_alarms
                             : status && (status == f->one || status == f->other) && names_two_ranks(text));
    if (!ok)
        fprintf(stderr, "# rank %d of %d: YOKE_INJECT=%s: call %d: status %d after %.3f s, %d alarms%s: %s\n",
                ranks_rank, ranks_size, spec, turn, (int)status, seconds, n_alarms,
                right ? "" : ", a wrong result", text);
    ok = ranks_all(ok); /* because the others may still read this rank's record */
    RANKS_TRY(yoke_comm_destroy(comm));
    return ok;
}

/* A text that Yoke cannot read is an error on all ranks. */
static int refused(const char *variable, const char *text)
{
    yoke_comm *comm;
    setenv(variable, text, 1);
    const yoke_status status = yoke_comm_create(ranks_world, NULL, NULL, &comm);
    unsetenv(variable);
    return status == YOKE_ECONFIG && strstr(yoke_last_error(), variable) != NULL;
}

int main(int argc, char **argv)
{
    ranks_start();
    const int trials = argc > 1 ? atoi(argv[1]) : getenv("YOKE_SOAK") ? 50 : 2;
    begin_drawing(argc > 2 ? argv[2] : NULL);
    yoke_log_set(count_alarms, NULL, YOKE_LOG_WARN);
    for (int over_mpi = ranks_hosts() != NULL; over_mpi < (by_islands() ? 1 : 2); over_mpi++)
        for (size_t f = 0; f < YOKE_COUNT(faults); f++) {
            int ok = 1;
            if (ranks_size < 3 && strstr(faults[f].spec, "misroute")) continue; /* there is no third rank */
            /* islands of one host: only what may happen to a bucket between them */
            if (by_islands() && (!faults[f].once || faults[f].harmless || strstr(faults[f].spec, "flip")))
                continue;
            for (int t = 0; t < trials && ok; t++)
                ok = trial(&faults[f], (int)draw((uint32_t)ranks_size), over_mpi);
            ranks_check(ok, "messages that are %s, over %s: %s, %d times", faults[f].name,
                        by_islands()    ? "shared slots between islands"
                        : ranks_hosts() ? "MPI between hosts"
                        : over_mpi      ? "MPI"
                                        : "shared slots",
                        faults[f].harmless ? "right results without alarm" : "named on all ranks", trials);
        }
    if (by_islands()) return ranks_end();
    static const char *const wrong[] = { "drop",          "drop=2", "delay=0.5", "delay=0.5:7",
                                         "flip=0.1:tail", "rank=x", "lose=1",    "seed=-1" };
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++)
        ranks_check(refused("YOKE_INJECT", wrong[i]), "YOKE_INJECT=%s is refused", wrong[i]);
    static const struct {
        const char *variable, *text;
    } others[] = {
        { "YOKE_CHECK", "data" },    { "YOKE_CHUNK_BYTES", "0" }, { "YOKE_STALL_MS", "soon" },
        { "YOKE_TIMEOUT_MS", "-1" }, { "YOKE_NO_SHARED", "no" },
    };
    for (size_t i = 0; i < YOKE_COUNT(others); i++)
        ranks_check(refused(others[i].variable, others[i].text), "%s=%s is refused", others[i].variable,
                    others[i].text);
    if (ranks_hosts()) ranks_check(ranks_only_records(), "nothing but records is in the run directories");
    return ranks_end();
}

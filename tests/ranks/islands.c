/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Islands: groups of ranks that first combine their data among themselves (yoke_comm_config.island). The
 * ranks run on one host, and labels take the place of vendors. tests/ranks/property compares random calls by
 * islands with a model, and tests/ranks/inject loses messages between islands.
 *   tests/ranks/islands [members | vendors SPEC...]
 * members: only split and shrink, with 8 ranks. vendors: the ranks open these devices in turn.
 */
#include "tests/ranks/ranks.h"

enum { MOST = 100003, MOST_RANKS = 8 };

static union {
    float f[MOST * MOST_RANKS];
    int32_t i[MOST * MOST_RANKS];
} send_buffer, recv_buffer, other_buffer;

/* Labels for all ranks: in halves, all but the last rank and the last rank, and in turn. */
enum layout { HALVES, ONE_APART, IN_TURN, N_LAYOUTS };
static const char *const layout_names[] = { "halves", "one rank apart", "labels in turn" };

static const char *label_of(enum layout layout, int r)
{
    if (layout == HALVES) return r < (ranks_size + 1) / 2 ? "left" : "right";
    if (layout == ONE_APART) return r < ranks_size - 1 ? "left" : "right";
    return r % 2 ? "right" : "left";
}

static const char *labels(enum layout layout)
{
    static char text[16 * MOST_RANKS];
    text[0] = '\0';
    for (int r = 0; r < ranks_size; r++)
        yokei_text(text + strlen(text), sizeof text - strlen(text), "%s%s", r ? "," : "",
                   label_of(layout, r));
    return text;
}

static struct yoke_comm_config config_of(enum yoke_island island, enum layout layout)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.island = island;
    config.island_of = labels(layout);
    return config;
}

static void fill(size_t n)
{
    for (size_t i = 0; i < n; i++)
        send_buffer.f[i] = (float)((i * 7 + (size_t)ranks_rank * 13) % 1000) * 0.1f + 1e-3f;
}

static uint64_t sum_of(uint64_t mine)
{
    uint64_t all = 0;
    PMPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, ranks_world);
    return all;
}

/* ---- which islands ---- */

static int islands_are_explained(void)
{
    struct yoke_comm_config config = config_of(YOKE_ISLAND_VENDOR, HALVES);
    struct yoke_comm_choice choice;
    yoke_comm *comm;
    char want[64];
    const int half = (ranks_size + 1) / 2, right = ranks_size - half;
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &comm));
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", MOST, YOKE_F32, YOKE_SUM, &choice));
    yokei_text(want, sizeof want, right > 1 ? "left 0-%d, right %d-%d" : "left 0-%d, right %d", half - 1,
               half, ranks_size - 1);
    int ok = !strcmp(choice.algorithm, "hierarchy") && !strcmp(choice.grouping, "labels")
             && !strcmp(choice.islands, want) && choice.n_islands == 2 && choice.n_columns == right
             && choice.bridge_bytes == 2.0 * MOST * 4 && strstr(choice.why, "by label: the configuration");
    RANKS_TRY(yoke_comm_explain(comm, "gather", MOST, YOKE_F32, YOKE_SUM, &choice));
    ok = ok && !strcmp(choice.grouping, "none") && !choice.n_islands
         && strstr(choice.why, "not by label: the hierarchy does not serve");
    if (!ok) fprintf(stderr, "# %s: %s; %s\n", choice.algorithm, choice.islands, choice.why);
    RANKS_TRY(yoke_comm_destroy(comm));
    /* Without labels all ranks are of the vendor "host". */
    config.island_of = NULL;
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &comm));
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", MOST, YOKE_F32, YOKE_SUM, &choice));
    ok = ok && !strcmp(choice.grouping, "none") && strstr(choice.why, "not by vendor: each host has one");
    RANKS_TRY(yoke_comm_destroy(comm));
    config.island = YOKE_ISLAND_OFF;
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &comm));
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", MOST, YOKE_F32, YOKE_SUM, &choice));
    ok = ok && !strcmp(choice.grouping, "none") && strstr(choice.why, "allows no groups");
    RANKS_TRY(yoke_comm_destroy(comm));
    return ok;
}

/* A model in which memory is slow and messages are fast, or the other way round. */
static int the_model_chooses(void)
{
    static const char *const models[] = {
        "sync_us=0.1,shared_gbps=0.01,long_gbps=0.01,sum_gbps=1000,message_us=0.1,message_gbps=1000,oneshot_bytes=65536",
        "sync_us=0.1,shared_gbps=100,long_gbps=100,sum_gbps=1000,message_us=100,message_gbps=0.1,oneshot_bytes=65536"
    };
    int ok = 1;
    for (int fast = 0; fast < 2; fast++) {
        struct yoke_comm_config config = config_of(YOKE_ISLAND_AUTO, HALVES);
        struct yoke_comm_choice exact, rounded;
        yoke_comm *comm;
        config.costs = models[fast];
        RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &comm));
        RANKS_TRY(yoke_comm_explain(comm, "all_reduce", 1000, YOKE_I32, YOKE_SUM, &exact));
        RANKS_TRY(yoke_comm_explain(comm, "all_reduce", 1000, YOKE_F32, YOKE_SUM, &rounded));
        ok = ok && !strcmp(exact.grouping, fast ? "none" : "labels")
             && strstr(exact.why, "for which the model predicts") && !strcmp(rounded.grouping, "none")
             && strstr(rounded.why, "which no measurement may decide");
        if (!ok) fprintf(stderr, "# model %d: %s; %s\n", fast, exact.why, rounded.why);
        fill(1000);
        RANKS_TRY(yoke_all_reduce(send_buffer.i, recv_buffer.i, 1000, YOKE_I32, YOKE_SUM, comm, NULL));
        uint32_t want = 0, mine;
        memcpy(&mine, &send_buffer.i[999], sizeof mine);
        PMPI_Allreduce(&mine, &want, 1, MPI_UINT32_T, MPI_SUM, ranks_world);
        ok = ok && !memcmp(&want, &recv_buffer.i[999], sizeof want);
        RANKS_TRY(yoke_comm_destroy(comm));
    }
    return ok;
}

/* ---- what crosses ---- */

static yoke_status call(const char *kind, size_t n, yoke_comm *comm)
{
    const float *from = send_buffer.f;
    float *to = recv_buffer.f;
    if (!strcmp(kind, "all_reduce")) return yoke_all_reduce(from, to, n, YOKE_F32, YOKE_SUM, comm, NULL);
    if (!strcmp(kind, "reduce_scatter"))
        return yoke_reduce_scatter(from, to, n, YOKE_F32, YOKE_SUM, comm, NULL);
    if (!strcmp(kind, "all_gather")) return yoke_all_gather(from, to, n, YOKE_F32, comm, NULL);
    if (!strcmp(kind, "broadcast")) return yoke_broadcast(from, to, n, YOKE_F32, 0, comm, NULL);
    if (!strcmp(kind, "reduce")) return yoke_reduce(from, to, n, YOKE_F32, YOKE_SUM, 0, comm, NULL);
    return yoke_all_to_all(from, to, n, YOKE_F32, comm, NULL);
}

/* All ranks together send as many bytes between islands as yoke_comm_explain says. */
static int crosses_as_said(yoke_comm *comm, const char *kind, size_t n)
{
    struct yoke_comm_choice choice;
    RANKS_TRY(yoke_comm_explain(comm, kind, n, YOKE_F32, YOKE_SUM, &choice));
    const uint64_t before = yoke_comm_bridged(comm);
    RANKS_TRY(call(kind, n, comm));
    const uint64_t sent = sum_of(yoke_comm_bridged(comm) - before);
    const int ok = !strcmp(choice.algorithm, "hierarchy") && (double)sent == choice.bridge_bytes && sent;
    if (!ok)
        fprintf(stderr, "# %s of %zu: %llu bytes between islands, %.0f by %s (%s)\n", kind, n,
                (unsigned long long)sent, choice.bridge_bytes, choice.algorithm, choice.why);
    return ok;
}

/* In all_reduce over two islands each byte crosses once in each direction, in equal columns. */
static int once_in_each_direction(yoke_comm *comm, enum layout layout)
{
    int columns = 0, place = 0, lefts = 0;
    for (int r = 0; r < ranks_size; r++) {
        lefts += !strcmp(label_of(layout, r), "left");
        place += r < ranks_rank && !strcmp(label_of(layout, r), label_of(layout, ranks_rank));
    }
    columns = lefts < ranks_size - lefts ? lefts : ranks_size - lefts;
    const bool left = !strcmp(label_of(layout, ranks_rank), "left");
    const uint64_t before = yoke_comm_bridged(comm);
    RANKS_TRY(call("all_reduce", MOST, comm));
    const uint64_t mine = yoke_comm_bridged(comm) - before, to_right = sum_of(left ? mine : 0),
                   to_left = sum_of(left ? 0 : mine), all = (uint64_t)MOST * 4,
                   share = place < columns ? all / (uint64_t)columns : 0;
    const int ok = to_right == all && to_left == all && mine <= share + share / 8
                   && mine >= share - share / 8;
    if (!ok)
        fprintf(stderr, "# rank %d: sent %llu bytes, %llu to the right, %llu to the left\n", ranks_rank,
                (unsigned long long)mine, (unsigned long long)to_right, (unsigned long long)to_left);
    return ok;
}

/* The flat ring sends each byte more than once in each direction. */
static int a_ring_sends_more(void)
{
    struct yoke_comm_config config = config_of(YOKE_ISLAND_OFF, HALVES);
    yoke_comm *comm;
    config.algorithm = "ring";
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &comm));
    const uint64_t before = yoke_comm_bridged(comm);
    RANKS_TRY(call("all_reduce", MOST, comm));
    const uint64_t sent = sum_of(yoke_comm_bridged(comm) - before);
    RANKS_TRY(yoke_comm_destroy(comm));
    return sent > (uint64_t)MOST * 4 * 2;
}

static int bytes_cross_once(enum layout layout)
{
    static const char *const kinds[] = { "all_reduce", "reduce_scatter", "all_gather",
                                         "broadcast",  "reduce",         "all_to_all" };
    int ok = 1;
    yoke_comm *comm;
    for (int shape = 0; shape < 2; shape++) {
        struct yoke_comm_config config = config_of(YOKE_ISLAND_VENDOR, layout);
        config.shares = "equal";
        if (shape) config.reproducible = YOKE_REPRODUCIBLE_SHAPE;
        RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &comm));
        fill(MOST);
        for (size_t k = 0; k < YOKE_COUNT(kinds); k++) {
            const bool served = strcmp(kinds[k], "all_to_all")
                                && !(shape && (layout == IN_TURN || !strcmp(kinds[k], "reduce_scatter")));
            ok = ok && crosses_as_said(comm, kinds[k], 3)
                 && (!served || crosses_as_said(comm, kinds[k], MOST / MOST_RANKS));
        }
        if (!shape) ok = ok && once_in_each_direction(comm, layout);
        RANKS_TRY(yoke_comm_destroy(comm));
    }
    return ok;
}

/* ---- bits ---- */

/* The bits by islands are those by host, where this is promised. */
static int bits_are_equal(enum layout layout)
{
    static const size_t counts[] = { 1, 77, 20011, MOST };
    yoke_comm *by_label, *by_host;
    struct yoke_comm_config config = config_of(YOKE_ISLAND_VENDOR, layout);
    config.reproducible = YOKE_REPRODUCIBLE_SHAPE;
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &by_label));
    config.island = YOKE_ISLAND_HOST;
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &by_host));
    int ok = 1;
    for (size_t c = 0; c < YOKE_COUNT(counts); c++) {
        struct yoke_comm_choice choice;
        const size_t n = counts[c];
        RANKS_TRY(yoke_comm_explain(by_label, "all_reduce", n, YOKE_F32, YOKE_SUM, &choice));
        /* Small data of all ranks goes in one message. A chain of islands keeps the order of the ranks only
           if they are numbered island by island. */
        const bool grouped = layout != IN_TURN || n < 100;
        ok = ok && !strcmp(choice.grouping, grouped ? "labels" : "none")
             && (grouped || strstr(choice.why, "reproducible=shape, and the order"));
        fill(n);
        RANKS_TRY(yoke_all_reduce(send_buffer.f, recv_buffer.f, n, YOKE_F32, YOKE_AVG, by_label, NULL));
        RANKS_TRY(yoke_all_reduce(send_buffer.f, other_buffer.f, n, YOKE_F32, YOKE_AVG, by_host, NULL));
        ok = ok && !memcmp(recv_buffer.f, other_buffer.f, n * 4);
        if (!ok) fprintf(stderr, "# %s, %zu: %s\n", layout_names[layout], n, choice.why);
    }
    RANKS_TRY(yoke_comm_destroy(by_label));
    RANKS_TRY(yoke_comm_destroy(by_host));
    return ok;
}

/* ---- operations with different groups, one after the other ---- */

/*
 * The hierarchy waits for ranks of an island, and gather for all ranks of the host. A rank that is late must
 * still find the data of the operation before.
 */
static int groups_change(int turns)
{
    struct yoke_comm_config config = config_of(YOKE_ISLAND_VENDOR, HALVES);
    yoke_comm *comm;
    int ok = 1;
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &comm));
    for (int turn = 0; turn < turns && ok; turn++) {
        const size_t n = draw(3) ? 1 + draw(300) : 20000 + draw(20000);
        const int root = (int)draw((uint32_t)ranks_size), kind = (int)draw(4),
                  late = (int)draw((uint32_t)ranks_size);
        const unsigned us = draw(4) ? 0 : draw(400);
        if (ranks_rank == late && us) usleep(us);
        for (size_t i = 0; i < n; i++) send_buffer.i[i] = (int32_t)i + ranks_rank * 1000 + turn;
        if (kind == 0) {
            RANKS_TRY(yoke_gather(send_buffer.i, recv_buffer.i, n, YOKE_I32, root, comm, NULL));
            for (int r = 0; r < ranks_size && ranks_rank == root; r++)
                ok = ok && recv_buffer.i[(size_t)r * n + n - 1] == (int32_t)n - 1 + r * 1000 + turn
                     && recv_buffer.i[(size_t)r * n] == r * 1000 + turn;
        } else if (kind == 1) {
            RANKS_TRY(yoke_all_gather(send_buffer.i, recv_buffer.i, n, YOKE_I32, comm, NULL));
            for (int r = 0; r < ranks_size; r++)
                ok = ok && recv_buffer.i[(size_t)r * n + n - 1] == (int32_t)n - 1 + r * 1000 + turn;
        } else if (kind == 2) {
            RANKS_TRY(yoke_broadcast(send_buffer.i, recv_buffer.i, n, YOKE_I32, root, comm, NULL));
            ok = ok && recv_buffer.i[n - 1] == (int32_t)n - 1 + root * 1000 + turn;
        } else {
            RANKS_TRY(yoke_all_reduce(send_buffer.i, recv_buffer.i, n, YOKE_I32, YOKE_MAX, comm, NULL));
            ok = ok && recv_buffer.i[n - 1] == (int32_t)n - 1 + (ranks_size - 1) * 1000 + turn;
        }
    }
    RANKS_TRY(yoke_comm_destroy(comm));
    return ok;
}

/* ---- communicators of some ranks ---- */

/* Whether the communicator has the islands `want`, and sums right by them. */
static int has_islands(yoke_comm *comm, const char *want, int n_columns)
{
    struct yoke_comm_choice choice;
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", MOST, YOKE_I32, YOKE_SUM, &choice));
    for (size_t i = 0; i < MOST; i++) send_buffer.i[i] = (int32_t)i + yoke_comm_rank(comm);
    RANKS_TRY(yoke_all_reduce(send_buffer.i, recv_buffer.i, MOST, YOKE_I32, YOKE_SUM, comm, NULL));
    const int p = yoke_comm_size(comm);
    int ok = !strcmp(choice.islands, want) && choice.n_columns == n_columns;
    if (!ok) fprintf(stderr, "# islands %s, wanted %s: %s\n", choice.islands, want, choice.why);
    for (size_t i = 0; i < MOST && ok; i++) ok = recv_buffer.i[i] == (int32_t)i * p + p * (p - 1) / 2;
    return ok;
}

/* 8 ranks, labels 5 + 3. The odd ranks 1 3 | 5 7 and the even ranks 0 2 4 | 6; then without rank 2. */
static int members_keep_their_islands(bool by_variable)
{
    static const char list[] = "left*5,right*3";
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    yoke_comm *comm, *half, *less;
    config.island = YOKE_ISLAND_VENDOR;
    if (by_variable)
        setenv("YOKE_ISLAND_OF", list, 1);
    else
        config.island_of = list;
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &comm));
    RANKS_TRY(yoke_comm_split(comm, ranks_rank % 2, ranks_rank, NULL, &half));
    int ok = has_islands(half, ranks_rank % 2 ? "left 0-1, right 2-3" : "left 0-2, right 3",
                         ranks_rank % 2 ? 2 : 1);
    RANKS_TRY(yoke_comm_destroy(half));
    if (ranks_rank != 2) {
        RANKS_TRY(yoke_comm_shrink(comm, (const int[]){ 2 }, 1, &less));
        ok = ok && has_islands(less, "left 0-3, right 4-6", 3);
        RANKS_TRY(yoke_comm_destroy(less));
    }
    ok = ranks_all(ok);
    yoke_comm_destroy(comm);
    unsetenv("YOKE_ISLAND_OF");
    return ok;
}

/* ---- vendors ---- */

/* The islands by the vendors of all ranks, "nvidia 0+2, host 1+3". */
static void islands_by_vendor(const char vendors[][16], char *text, size_t bytes)
{
    text[0] = '\0';
    for (int r = 0; r < ranks_size; r++) {
        int first = 0;
        while (strcmp(vendors[first], vendors[r])) first++;
        if (first < r) continue;
        yokei_text(text + strlen(text), bytes - strlen(text), "%s%s %d", r ? ", " : "", vendors[r], r);
        for (int q = r + 1; q < ranks_size; q++)
            if (!strcmp(vendors[q], vendors[r]))
                yokei_text(text + strlen(text), bytes - strlen(text), "+%d", q);
    }
}

/* Neighbours have different devices, so the ranks of an island are listed one by one. */
static int devices_of_one_vendor(const char *spec)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    struct yoke_comm_choice choice;
    char vendors[MOST_RANKS][16] = { "" }, want[160];
    yoke_device *device;
    yoke_comm *comm;
    RANKS_TRY(yoke_device_open(spec, NULL, &device));
    PMPI_Allgather(yoke_device_info(device)->vendor, 16, MPI_CHAR, vendors, 16, MPI_CHAR, ranks_world);
    islands_by_vendor((const char(*)[16])vendors, want, sizeof want);
    config.island = YOKE_ISLAND_VENDOR;
    RANKS_TRY(yoke_comm_create(ranks_world, device, &config, &comm));
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", MOST, YOKE_F32, YOKE_SUM, &choice));
    const bool cuda = !strncmp(spec, "cuda:", 5), hip = !strncmp(spec, "hip:", 4);
    const int ok = !strcmp(choice.grouping, "vendor") && !strcmp(choice.islands, want)
                   && !strcmp(vendors[ranks_rank], cuda  ? "nvidia"
                                                   : hip ? "amd"
                                                         : "host");
    if (!ok) fprintf(stderr, "# %s: %s, wanted %s: %s\n", spec, choice.islands, want, choice.why);
    float *data, x[3] = { 1, 2, 3 };
    yoke_stream *stream;
    RANKS_TRY(yoke_stream_create(device, &stream));
    RANKS_TRY(yoke_alloc(device, sizeof x, (void **)&data));
    RANKS_TRY(yoke_copy_to_device(stream, data, x, sizeof x));
    RANKS_TRY(yoke_all_reduce(data, data, 3, YOKE_F32, YOKE_SUM, comm, stream));
    RANKS_TRY(yoke_copy_to_host(stream, x, data, sizeof x));
    RANKS_TRY(yoke_stream_sync(stream));
    RANKS_TRY(yoke_free(device, data));
    RANKS_TRY(yoke_stream_destroy(stream));
    RANKS_TRY(yoke_comm_destroy(comm));
    RANKS_TRY(yoke_device_close(device));
    return ok && x[0] == (float)ranks_size && x[2] == 3.0f * (float)ranks_size;
}

/* ---- refusals ---- */

static int refused(const struct yoke_comm_config *config, yoke_status want, const char *text)
{
    yoke_comm *comm;
    const yoke_status status = yoke_comm_create(ranks_world, NULL, config, &comm);
    const int ok = status == want && strstr(yoke_last_error(), text);
    if (!ok) fprintf(stderr, "# status %d, not %d with '%s': %s\n", status, want, text, yoke_last_error());
    return ok;
}

static int refusals(void)
{
    static const struct {
        const char *labels, *text;
    } lists[] = { { "a", "fewer labels than ranks" },   { "a*99", "more labels than ranks" },
                  { "a,,b", "there is no label" },      { "a*0", "no number of ranks" },
                  { "a*2x,b", "no number of ranks" },   { "a,", "there is no label" },
                  { "sixteen-letters-", "is too long" } };
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    int ok = 1;
    for (size_t i = 0; i < YOKE_COUNT(lists); i++) {
        config.island_of = lists[i].labels;
        ok = ok && refused(&config, YOKE_ECONFIG, lists[i].text);
    }
    setenv("YOKE_ISLAND_OF", "a", 1);
    ok = ok && refused(NULL, YOKE_ECONFIG, "YOKE_ISLAND_OF=a");
    unsetenv("YOKE_ISLAND_OF");
    setenv("YOKE_ISLAND", "vender", 1);
    ok = ok && refused(NULL, YOKE_ECONFIG, "did you mean 'vendor'");
    unsetenv("YOKE_ISLAND");
    config = config_of(ranks_rank == ranks_size - 1 ? YOKE_ISLAND_OFF : YOKE_ISLAND_VENDOR, HALVES);
    ok = ok && refused(&config, YOKE_EMISMATCH, "island is vendor on rank 0 and off on rank");
    config = config_of(YOKE_ISLAND_VENDOR, ranks_rank == ranks_size - 1 ? IN_TURN : HALVES);
    ok = ok && refused(&config, YOKE_EMISMATCH, "island_of");
    config = config_of(YOKE_ISLAND_OFF, HALVES);
    config.algorithm = "hierarchy";
    ok = ok && refused(&config, YOKE_EINVAL, "island=off allows no groups");
    config = config_of((enum yoke_island)7, HALVES);
    return ok && refused(&config, YOKE_EINVAL, "island is out of range");
}

int main(int argc, char **argv)
{
    ranks_start();
    if (argc > 2 && !strcmp(argv[1], "vendors")) {
        ranks_check(devices_of_one_vendor(argv[2 + ranks_rank % (argc - 2)]), "islands by vendor");
        return ranks_end();
    }
    begin_drawing(getenv("YOKE_SEED"));
    if (ranks_size == 8) {
        ranks_check(members_keep_their_islands(false), "split and shrink keep the islands");
        ranks_check(members_keep_their_islands(true), "split and shrink keep the islands of YOKE_ISLAND_OF");
    }
    if (argc > 1 && !strcmp(argv[1], "members")) return ranks_end();
    ranks_check(islands_are_explained(), "the islands of a call are explained");
    if (ranks_size > 3) ranks_check(the_model_chooses(), "the cost model chooses where bits stay the same");
    for (enum layout l = HALVES; l < N_LAYOUTS; l++) {
        ranks_check(bytes_cross_once(l), "each byte crosses once in each direction, %s", layout_names[l]);
        ranks_check(bits_are_equal(l), "reproducible sums have the same bits, %s", layout_names[l]);
    }
    ranks_check(a_ring_sends_more(), "a flat ring sends more");
    ranks_check(groups_change(getenv("YOKE_SOAK") ? 20000 : 200), "operations by island and by host in turn");
    ranks_check(refusals(), "what cannot be is refused");
    return ranks_end();
}

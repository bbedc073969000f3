/* SPDX-License-Identifier: Apache-2.0 */
/* Place the ranks on the mesh, and leave ranks out of the run. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>
#include "core/base/base.h"
#include "core/base/binding.h"
#include "core/base/emulated.h"
#include "train/run/loop.h"
#include "train/trainer/trainer.h"

void yokei_run_begin_ranks(struct yokei_run_state *s)
{
    const struct yoke_trainer_config ranks = { .comm = s->t->comm, .control = s->t->control };
    s->job.comm = s->comm = s->t->comm;
    s->job.control = s->control = s->t->control;
    yokei_ranks(&ranks, &s->rank, &s->n_ranks);
    s->job.rank = s->rank;
    s->job.n_ranks = s->n_ranks;
}

/*
 * The length of "opencl" in "opencl:0". Ranks that share tensors get the same bits only if this kind is the
 * same.
 */
static size_t kind_length(const char *device) { return strcspn(device, ":"); }

static bool same_kind(const struct yokei_run_state *s, int a, int b)
{
    const char *x = s->ranks[a].device, *y = s->ranks[b].device;
    return kind_length(x) == kind_length(y) && strncmp(x, y, kind_length(x)) == 0;
}

/* Gather every rank's device as text, and its number of host threads. */
static yoke_status gather_devices(struct yokei_run_state *s)
{
    enum { THREADS = sizeof s->ranks->device / sizeof(double), EMULATED, WORDS };
    const struct yoke_trainer_config c = yokei_run_trainer_config(s);
    const char *spec = yoke_device_info(s->t->device)->spec;
    double mine[WORDS] = { 0 }, *all = calloc((size_t)s->n_ranks * WORDS, sizeof *all);
    struct yokei_topology topology = { 0 };
    s->emulated_rank = -1;
    if (!all)
        return yokei_ranks_revoke(&c,
                                  yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks));
    yoke_status status = yokei_topology(&topology);
    /* the same number as in the host backend */
    mine[THREADS] = YOKE_MIN(omp_get_max_threads(), topology.n_cores);
    mine[EMULATED] = yokei_is_emulated(yoke_device_info(s->t->device)->features);
    memcpy(mine, spec, YOKE_MIN(strlen(spec), sizeof s->ranks->device - 1));
    status = status ? yokei_ranks_revoke(&c, status) : yokei_ranks_gather(&c, mine, WORDS, all);
    for (int r = 0; r < s->n_ranks && !status; r++) {
        memcpy(s->ranks[r].device, all + (size_t)r * WORDS, sizeof s->ranks[r].device);
        s->ranks[r].device[sizeof s->ranks[r].device - 1] = 0;
        s->threads[r] = (int64_t)all[(size_t)r * WORDS + THREADS];
        if (all[(size_t)r * WORDS + EMULATED] != 0 && s->emulated_rank < 0) s->emulated_rank = r;
        s->job.host_of[r] = s->comm ? yoke_comm_host(s->comm, r) : 0;
    }
    free(all);
    return status;
}

/* The lowest rank with the same kind of device as `rank`. It defines the order of the kinds. */
static int kind_of(const struct yokei_run_state *s, int rank)
{
    int first = 0;
    while (!same_kind(s, first, rank)) first++;
    return first;
}

static bool comes_before(const struct yokei_run_state *s, int a, int b)
{
    if (s->job.host_of[a] != s->job.host_of[b]) return s->job.host_of[a] < s->job.host_of[b];
    if (kind_of(s, a) != kind_of(s, b)) return kind_of(s, a) < kind_of(s, b);
    return a < b;
}

/* Reorder all lists of ranks: the new entry `place` is the old entry `from[place]`. */
static yoke_status reorder(struct yokei_run_state *s, const int *from)
{
    const size_t n = (size_t)s->n_ranks;
    struct yokei_metrics_rank *ranks = malloc(n * sizeof *ranks);
    int64_t *threads = malloc(n * sizeof *threads);
    int *hosts = malloc(n * sizeof *hosts);
    const bool ok = ranks && threads && hosts;
    for (size_t i = 0; i < n && ok; i++) {
        ranks[i] = s->ranks[from[i]];
        threads[i] = s->threads[from[i]];
        hosts[i] = s->job.host_of[from[i]];
        s->job.rank_of[i] = from[i];
    }
    if (ok) {
        memcpy(s->ranks, ranks, n * sizeof *ranks);
        memcpy(s->threads, threads, n * sizeof *threads);
        memcpy(s->job.host_of, hosts, n * sizeof *hosts);
    }
    free(ranks);
    free(threads);
    free(hosts);
    return ok ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
}

/* Split both communicators into groups of ranks with the same colour, ordered by key. */
static yoke_status split_both(const struct yokei_run_state *s, const char *what, int color, int key,
                              yoke_comm *out[2])
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    char name[32];
    for (int i = 0; i < 2; i++) {
        yokei_text(name, sizeof name, "%s, %s", i ? "control" : "gradients", what);
        config.name = name;
        YOKE_TRY(yoke_comm_split(i ? s->control : s->comm, color, key, &config, &out[i]));
    }
    return YOKE_OK;
}

static yoke_status order_ranks(struct yokei_run_state *s)
{
    int *from = malloc((size_t)s->n_ranks * sizeof *from), place = 0;
    const struct yoke_trainer_config ranks = { .comm = s->comm, .control = s->control };
    bool moved = false;
    yoke_status status = yokei_ranks_all_well(
        &ranks, from ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks));
    if (status) {
        free(from);
        return status;
    }
    for (int r = 0; r < s->n_ranks; r++) {
        int at = r;
        for (; at > 0 && comes_before(s, r, from[at - 1]); at--) from[at] = from[at - 1];
        from[at] = r;
    }
    for (int i = 0; i < s->n_ranks; i++) {
        if (from[i] == s->rank) place = i;
        moved = moved || from[i] != i;
    }
    status = moved ? reorder(s, from) : YOKE_OK;
    free(from);
    YOKE_TRY(yokei_ranks_all_well(&ranks, status));
    if (!moved) return YOKE_OK;
    YOKE_TRY(split_both(s, "placed", 0, place, s->job.ordered));
    s->job.comm = s->comm = s->job.ordered[0];
    s->job.control = s->control = s->job.ordered[1];
    s->job.rank = s->rank = place;
    return YOKE_OK;
}

/*
 * Tell the user about groups that share tensors over hosts or kinds of devices, because such a group
 * communicates in every layer.
 */
static void note_wide_groups(const struct yokei_run_state *s)
{
    for (int first = 0, width; first < s->n_ranks; first += width) {
        bool hosts = false, kinds = false;
        width = yokei_mesh_at(&s->mesh, first).tensor;
        for (int r = first + 1; r < first + width; r++) {
            hosts = hosts || s->job.host_of[r] != s->job.host_of[first];
            kinds = kinds || !same_kind(s, r, first);
        }
        if (hosts || kinds)
            yokei_run_note(
                s,
                "ranks %d to %d share tensors across %s, and every layer waits for that: a --tp that divides the ranks of each "
                "host and kind of device avoids it",
                first, first + width - 1,
                hosts && kinds ? "hosts and kinds of devices"
                : hosts        ? "hosts"
                               : "kinds of devices");
    }
}

/*
 * Gather the processing units of all ranks on this rank's host. *n_out is the number of these ranks that
 * work, and *index_out is this rank's index among them. Collective.
 */
static yoke_status gather_cores(const struct yokei_run_state *s, bool all_work,
                                uint64_t of_host[YOKEI_UNIT_WORDS], int *index_out, int *n_out)
{
    enum { WORDS = YOKEI_UNIT_WORDS };
    const struct yoke_trainer_config c = { .comm = s->comm, .control = s->control };
    uint64_t units[WORDS];
    double report[WORDS], *all = calloc((size_t)s->n_ranks * WORDS, sizeof *all);
    if (!all)
        return yokei_ranks_revoke(&c,
                                  yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks));
    if (yokei_bound_units(units)) memset(units, 0, sizeof units);
    memcpy(report, units, sizeof units);
    const yoke_status status = yokei_ranks_gather(&c, report, WORDS, all);
    memset(of_host, 0, sizeof units);
    *index_out = -1;
    *n_out = 0;
    for (int r = 0; r < s->n_ranks && !status; r++) {
        if (s->job.host_of[s->placed[r]] != s->job.host_of[s->placed[s->rank]]) continue;
        memcpy(units, all + (size_t)r * WORDS, sizeof units);
        for (int w = 0; w < WORDS; w++) of_host[w] |= units[w];
        if (r == s->rank && (all_work || s->shares[r])) *index_out = *n_out;
        *n_out += all_work || s->shares[r];
    }
    free(all);
    return status;
}

/*
 * Adapt the cores of this rank. yoke run gave each rank of a host its own cores. If there are fewer cores
 * than ranks, some ranks share a core and others do not, so equal ranks would be unequally fast. Such ranks
 * may then use all cores. If ranks are left out, each rank that works also gets a part of their cores. Its
 * number of threads stays the same, because its device was opened with this number. Collective.
 */
static yoke_status share_cores(const struct yokei_run_state *s, bool all_work)
{
    const char *bind = getenv("YOKE_BIND");
    uint64_t units[YOKEI_UNIT_WORDS];
    int index, n, n_cores = 0, n_units = 0;
    YOKE_TRY(gather_cores(s, all_work, units, &index, &n));
    for (int w = 0; w < YOKEI_UNIT_WORDS; w++) n_units += __builtin_popcountll(units[w]);
    const bool is_uneven = n > n_units && n_units && n % n_units;
    if (!bind || strcmp(bind, "cores") != 0 || !n_units || index < 0 || (all_work && !is_uneven))
        return YOKE_OK;
    if (yokei_bind_to_units(units, is_uneven ? 0 : index, is_uneven ? 1 : n, &n_cores))
        yoke_log(YOKE_LOG_WARN, "this rank keeps the cores that it was given: %s", yoke_last_error());
    else if (!is_uneven && n_cores > s->threads[s->rank])
        yokei_run_note(
            s,
            "rank %d has %d cores now, but computes with %lld threads: started without the ranks that are left out, it would use all",
            s->job.rank_of[s->placed[s->rank]], n_cores, (long long)s->threads[s->rank]);
    return YOKE_OK;
}

/* With --verbose: the processing units of each rank. Collective. */
static yoke_status note_units(const struct yokei_run_state *s)
{
    enum { WORDS = YOKEI_UNIT_WORDS };
    const struct yoke_trainer_config c = yokei_run_trainer_config(s);
    uint64_t units[WORDS];
    double report[WORDS], *all = calloc((size_t)s->n_ranks * WORDS, sizeof *all);
    char text[1024];
    if (!all)
        return yokei_ranks_revoke(&c,
                                  yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks));
    if (yokei_bound_units(units)) memset(units, 0, sizeof units);
    memcpy(report, units, sizeof units);
    const yoke_status status = yokei_ranks_gather(&c, report, WORDS, all);
    for (int r = 0; r < s->n_ranks && !status; r++) {
        memcpy(units, all + (size_t)r * WORDS, sizeof units);
        yokei_units_text(units, text, sizeof text);
        yokei_run_note(s, "rank %d %s: runs on processing units %s", s->job.rank_of[r], s->ranks[r].device,
                       text);
    }
    free(all);
    return status;
}

yoke_status yokei_run_lay_mesh(struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    const size_t n = (size_t)s->n_ranks;
    s->job.rank_of = calloc(n, sizeof *s->job.rank_of);
    s->job.host_of = calloc(n, sizeof *s->job.host_of);
    s->placed = calloc(n, sizeof *s->placed);
    if (!s->job.rank_of || !s->job.host_of || !s->placed)
        return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    for (int r = 0; r < s->n_ranks; r++) s->job.rank_of[r] = s->placed[r] = r;
    YOKE_TRY(yokei_plan_widths(p, &s->widths));
    return yokei_mesh_create(s->n_ranks, s->rank, (int)p->data, (int)p->pipeline, (int)p->tensor, s->widths,
                             (int)p->chunks, &s->mesh);
}

yoke_status yokei_run_place(struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    YOKE_TRY(yokei_run_lay_mesh(s));
    YOKE_TRY(gather_devices(s));
    /* If each replica has one rank, no order brings replicas closer to each other. */
    if (strcmp(p->placement, "host") == 0 && s->mesh.data < s->n_ranks) YOKE_TRY(order_ranks(s));
    s->mesh = yokei_mesh_at(&s->mesh, s->rank);
    note_wide_groups(s);
    if (s->n_ranks > 1) YOKE_TRY(share_cores(s, true));
    return s->t->verbose ? note_units(s) : YOKE_OK;
}

/*
 * Create the communicator on which ranks that are left out wait while the other ranks train. The wait has no
 * deadline and no warning, and uses little of a core.
 */
static yoke_status open_end(struct yokei_run_state *s)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    if (s->job.end) return YOKE_OK;
    config.name = "end of the run";
    config.timeout_ms = YOKE_NO_TIMEOUT;
    config.wait = YOKE_WAIT_SLEEP;
    return yoke_comm_split(s->job.control, 0, 0, &config, &s->job.end);
}

yoke_status yokei_run_leave_out(struct yokei_run_state *s, bool *any_out)
{
    int n = 0, rank = -1, n_replicas = 0;
    *any_out = false;
    for (int r = 0; r < s->n_ranks; r++) *any_out = *any_out || !s->shares[r];
    if (!*any_out) return YOKE_OK;
    yoke_comm *working[2] = { NULL, NULL };
    YOKE_TRY(open_end(s));
    YOKE_TRY(share_cores(s, false));
    YOKE_TRY(split_both(s, "working", s->shares[s->rank] ? 0 : YOKE_NO_COLOR, s->rank, working));
    for (int i = 0; i < 2; i++) {
        if (s->job.working[i]) yoke_comm_destroy(s->job.working[i]);
        s->job.working[i] = working[i];
    }
    for (int d = 0; d < s->mesh.data; d++) n_replicas += s->shares[yokei_mesh_rank(&s->mesh, d, 0, 0)] > 0;
    for (int r = 0; r < s->n_ranks; r++) {
        if (!s->shares[r]) continue;
        if (r == s->rank) rank = n;
        s->ranks[n] = s->ranks[r];
        s->shares[n] = s->shares[r];
        s->threads[n] = s->threads[r];
        s->placed[n] = s->placed[r];
        n++;
    }
    s->comm = working[0];
    s->control = working[1];
    s->rank = rank;
    s->n_ranks = n;
    if (rank < 0) return YOKE_OK;
    return yokei_mesh_create(n, rank, n_replicas, s->mesh.pipeline, s->mesh.tensor, s->widths, s->mesh.chunks,
                             &s->mesh);
}

yoke_status yokei_run_meet(const struct yokei_run_state *s, yoke_status mine)
{
    double report = mine, *all = calloc((size_t)s->job.n_ranks, sizeof *all);
    if (!s->job.end || (mine && mine != YOKE_EPREEMPTED)) {
        free(all);
        return mine;
    }
    if (!all) {
        /* the other ranks wait there without a time limit */
        yoke_comm_abort(s->job.end, "no host memory for the end of the run");
        return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->job.n_ranks);
    }
    yoke_status status = yoke_all_gather(&report, all, 1, YOKE_F64, s->job.end, NULL);
    for (int r = 0; r < s->job.n_ranks && !status && !mine; r++)
        if (all[r] > 0)
            status = yoke_fail((yoke_status)all[r], "asked to stop: the ranks that work saved the run");
    free(all);
    return status ? status : mine;
}

void yokei_run_end_ranks(struct yokei_run_state *s)
{
    yoke_comm *const all[] = { s->job.working[0], s->job.working[1], s->job.end, s->job.ordered[0],
                               s->job.ordered[1] };
    for (size_t i = 0; i < YOKE_COUNT(all); i++)
        if (all[i]) yoke_comm_destroy(all[i]);
}

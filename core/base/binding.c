/* SPDX-License-Identifier: Apache-2.0 */
/* The places of GPUs in their host, and the cores and memory nearest to them. */
#include "core/base/binding.h"

#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/emulated.h"

enum { MOST_TO_DRIVE = 2 }; /* cores: one for the rank's thread, and one for its progress thread */

/* The host's cores, or a locality's. A core is a set of processing units that the process may use. */
struct cores {
    int n;
    hwloc_cpuset_t *of; /* [n] */
};

static yoke_status load_with_pci(hwloc_topology_t *topology_out)
{
    hwloc_topology_t topology = NULL;
    if (hwloc_topology_init(&topology)) return yoke_fail(YOKE_EBACKEND, "hwloc: cannot initialise");
    hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology)) {
        hwloc_topology_destroy(topology);
        return yoke_fail(YOKE_EBACKEND, "hwloc: cannot read this host's topology");
    }
    *topology_out = topology;
    return YOKE_OK;
}

/* The units that this process may use. In a topology from a file these are all units. */
static hwloc_cpuset_t usable_units(hwloc_topology_t topology)
{
    hwloc_cpuset_t set = hwloc_bitmap_alloc();
    if (!set) return NULL;
    if (!hwloc_topology_is_thissystem(topology) || hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS)
        || hwloc_bitmap_iszero(set))
        hwloc_bitmap_copy(set, hwloc_topology_get_allowed_cpuset(topology));
    return set;
}

static void free_cores(struct cores *cores)
{
    for (int c = 0; c < cores->n; c++) hwloc_bitmap_free(cores->of[c]);
    free(cores->of);
    *cores = (struct cores){ 0 };
}

/* List the cores that have a unit in `set`. On a host without core objects each unit is a core. */
static yoke_status list_cores(hwloc_topology_t topology, hwloc_const_cpuset_t set, struct cores *out)
{
    const hwloc_obj_type_t type = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE
                                                                                         : HWLOC_OBJ_PU;
    const int n = hwloc_get_nbobjs_by_type(topology, type);
    *out = (struct cores){ .of = calloc((size_t)YOKE_MAX(n, 1), sizeof *out->of) };
    if (!out->of) return yoke_fail(YOKE_ENOMEM, "binding: no memory for %d cores", n);
    for (int c = 0; c < n; c++) {
        const hwloc_obj_t core = hwloc_get_obj_by_type(topology, type, (unsigned)c);
        if (!hwloc_bitmap_intersects(core->cpuset, set)) continue;
        hwloc_cpuset_t units = hwloc_bitmap_alloc();
        if (!units) {
            free_cores(out);
            return yoke_fail(YOKE_ENOMEM, "binding: no memory for %d cores", n);
        }
        hwloc_bitmap_and(units, core->cpuset, set);
        out->of[out->n++] = units;
    }
    return YOKE_OK;
}

/* The object of the host that a GPU is attached to. NULL: the address is unknown. */
static hwloc_obj_t attached_to(hwloc_topology_t topology, const char *pci)
{
    unsigned domain, bus, slot, function;
    if (sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return NULL;
    const hwloc_obj_t device = hwloc_get_pcidev_by_busid(topology, domain, bus, slot, function);
    return device ? hwloc_get_non_io_ancestor_obj(topology, device) : NULL;
}

/* The division of one host's cores. */
struct division {
    const struct yokei_place *ranks;
    int n, n_on_cores; /* ranks; those that compute on cores */
    struct cores all;
    hwloc_obj_t *near;          /* [n] the object that the rank's GPU is attached to; NULL: unknown */
    bool *taken;                /* [all.n] */
    struct yokei_binding *made; /* [n] */
};

static void give(struct division *d, int rank, int core)
{
    struct yokei_binding *b = &d->made[rank];
    hwloc_cpuset_t units = d->all.of[core];
    for (int u = hwloc_bitmap_first(units); u >= 0 && u < YOKEI_UNIT_WORDS * 64;
         u = hwloc_bitmap_next(units, u))
        b->units[u / 64] |= (uint64_t)1 << u % 64;
    b->n_cores++;
    d->taken[core] = true;
}

static bool is_near(const struct division *d, int rank, int core)
{
    return hwloc_bitmap_intersects(d->near[rank]->cpuset, d->all.of[core]);
}

/* Give a rank its share of the cores near its GPU, `most` of them at most. False: there are too few. */
static bool give_near(struct division *d, int rank, int most)
{
    int index = 0, n_ranks = 0, n_cores = 0, first, end;
    for (int r = 0; r < d->n; r++) {
        const bool same = d->near[r] && hwloc_bitmap_isequal(d->near[r]->cpuset, d->near[rank]->cpuset);
        if (same && r < rank) index++;
        n_ranks += same;
    }
    for (int c = 0; c < d->all.n; c++) n_cores += is_near(d, rank, c);
    if (n_cores < n_ranks) return false;
    yokei_bind_range(n_cores, index, n_ranks, &first, &end);
    end = YOKE_MIN(end, first + most);
    for (int c = 0, at = 0; c < d->all.n; c++) {
        if (!is_near(d, rank, c)) continue;
        if (at >= first && at < end) give(d, rank, c);
        at++;
    }
    return true;
}

/* Give cores `first` to end - 1 of those that nobody has. */
static void give_free(struct division *d, int rank, int first, int end)
{
    for (int c = 0, at = 0; c < d->all.n; c++) {
        if (d->taken[c]) continue;
        if (at >= first && at < end) give(d, rank, c);
        at++;
    }
}

static int n_free(const struct division *d)
{
    int n = 0;
    for (int c = 0; c < d->all.n; c++) n += !d->taken[c];
    return n;
}

/* Divide by the places. False: equal shares are to be used. */
static bool divide_by_places(struct division *d)
{
    int n_near = 0;
    for (int r = 0; r < d->n; r++) n_near += d->near[r] != NULL;
    const bool any_gpu = d->n_on_cores < d->n, others = n_near < d->n;
    int most = others ? d->all.n / d->n : d->all.n;
    if (d->n_on_cores) most = YOKE_MIN(most, MOST_TO_DRIVE);
    if (!any_gpu || d->n >= d->all.n || (!n_near && !d->n_on_cores)) return false;
    for (int r = 0; r < d->n; r++)
        if (d->near[r] && !give_near(d, r, most)) return false;
    for (int r = 0; r < d->n; r++)
        if (d->ranks[r].is_gpu && !d->near[r]) give_free(d, r, 0, most);
    /* The shares of all are fixed before the first is given, because a share that is given is not free. */
    const int n = n_free(d);
    if (n < d->n_on_cores) return false;
    for (int r = 0, index = 0, given = 0; r < d->n; r++) {
        int first, end;
        if (d->ranks[r].is_gpu) continue;
        yokei_bind_range(n, index++, d->n_on_cores, &first, &end);
        give_free(d, r, first - given, end - given);
        given = end;
    }
    for (int r = 0; r < d->n; r++)
        if (!d->made[r].n_cores) return false;
    return true;
}

static void divide_equally(struct division *d)
{
    for (int r = 0; r < d->n; r++) {
        int first, end;
        d->made[r] = (struct yokei_binding){ .node = -1 }; /* its cores may be on any node */
        yokei_bind_range(d->all.n, r, d->n, &first, &end);
        for (int c = first; c < end; c++) give(d, r, c);
    }
}

/* Find the object and the node near each GPU. */
static void find_localities(hwloc_topology_t topology, struct division *d)
{
    const hwloc_const_nodeset_t every = hwloc_topology_get_topology_nodeset(topology);
    for (int r = 0; r < d->n; r++) {
        d->made[r] = (struct yokei_binding){ .node = -1 };
        d->n_on_cores += !d->ranks[r].is_gpu;
        if (!d->ranks[r].is_gpu) continue;
        d->near[r] = attached_to(topology, d->ranks[r].pci);
        /* On a host with several nodes, a GPU without a node of its own has no known place. */
        if (d->near[r] == hwloc_get_root_obj(topology) && hwloc_bitmap_weight(every) > 1) d->near[r] = NULL;
        const hwloc_const_nodeset_t nodes = d->near[r] ? d->near[r]->nodeset : NULL;
        if (nodes && hwloc_bitmap_weight(nodes) == 1 && hwloc_bitmap_weight(every) > 1)
            d->made[r].node = hwloc_bitmap_first(nodes);
    }
}

/* Whether every known GPU is as near to all cores, so that only equal shares make sense. */
static bool all_alike(hwloc_topology_t topology, const struct division *d)
{
    const hwloc_obj_t root = hwloc_get_root_obj(topology);
    for (int r = 0; r < d->n; r++)
        if (d->near[r] && !hwloc_bitmap_isequal(d->near[r]->cpuset, root->cpuset)) return false;
    return !d->n_on_cores;
}

yoke_status yokei_bindings(const struct yokei_place *ranks, int n, struct yokei_binding *out,
                           bool *is_placed_out)
{
    hwloc_topology_t topology = NULL;
    struct division d = { .ranks = ranks, .n = n, .made = out };
    yoke_status status;
    YOKE_TRY(load_with_pci(&topology));
    hwloc_cpuset_t usable = usable_units(topology);
    d.near = calloc((size_t)YOKE_MAX(n, 1), sizeof *d.near);
    status = usable && d.near ? list_cores(topology, usable, &d.all)
                              : yoke_fail(YOKE_ENOMEM, "binding: no memory for %d ranks", n);
    if (!status) d.taken = calloc((size_t)YOKE_MAX(d.all.n, 1), sizeof *d.taken);
    if (!status && !d.taken) status = yoke_fail(YOKE_ENOMEM, "binding: no memory for %d cores", d.all.n);
    if (!status) {
        find_localities(topology, &d);
        *is_placed_out = !all_alike(topology, &d) && divide_by_places(&d);
        if (!*is_placed_out) divide_equally(&d);
    }
    free_cores(&d.all);
    free(d.near);
    free(d.taken);
    hwloc_bitmap_free(usable);
    hwloc_topology_destroy(topology);
    return status;
}

yoke_status yokei_bind_as(const struct yokei_binding *binding)
{
    hwloc_topology_t topology = NULL;
    YOKE_TRY(load_with_pci(&topology));
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    yoke_status status = set ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "binding: no memory");
    for (unsigned u = 0; set && u < YOKEI_UNIT_WORDS * 64; u++)
        if (binding->units[u / 64] >> u % 64 & 1) hwloc_bitmap_set(set, u);
    if (!status && hwloc_set_cpubind(topology, set, HWLOC_CPUBIND_PROCESS | HWLOC_CPUBIND_STRICT))
        status = yoke_fail(YOKE_EBACKEND, "binding to %d core(s) failed: %s", binding->n_cores,
                           strerror(errno));
    if (!status && binding->node >= 0) {
        /* Without STRICT this is a preference. A container may forbid it, and then first use decides. */
        hwloc_bitmap_only(set, (unsigned)binding->node);
        hwloc_set_membind(topology, set, HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_PROCESS | HWLOC_MEMBIND_BYNODESET);
    }
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(topology);
    return status;
}

bool yokei_has_places(void)
{
    hwloc_topology_t topology = NULL;
    if (load_with_pci(&topology)) return false;
    bool any = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) > 1;
    for (hwloc_obj_t d = NULL; !any && (d = hwloc_get_next_pcidev(topology, d));) {
        const unsigned class = d->attr->pcidev.class_id >> 8; /* display, coprocessor, accelerator */
        any = class == 0x03 || d->attr->pcidev.class_id == 0x0b40 || class == 0x12;
    }
    hwloc_topology_destroy(topology);
    return any;
}

/* ---- texts ---- */

void yokei_place_of(const char *features, struct yokei_place *out)
{
    const char *at = strstr(features, " pci=");
    const bool counts = !yokei_is_emulated(features) || getenv("HWLOC_XMLFILE");
    *out = (struct yokei_place){ .is_gpu = !strncmp(features, "gpu ", 4) && counts };
    if (out->is_gpu && at) yokei_text(out->pci, sizeof out->pci, "%.*s", (int)strcspn(at + 5, " "), at + 5);
}

void yokei_units_text(const uint64_t units[YOKEI_UNIT_WORDS], char *text, size_t bytes)
{
    enum { ALL = YOKEI_UNIT_WORDS * 64 };
    yokei_text(text, bytes, "none");
    for (int u = 0, used = 0; u < ALL; u++) {
        int end = u;
        while (end < ALL && units[end / 64] >> end % 64 & 1) end++;
        if (end == u) continue;
        char range[32];
        yokei_text(range, sizeof range, end - u > 1 ? "%s%d-%d" : "%s%d", used ? "," : "", u, end - 1);
        yokei_text(text + used, bytes - (size_t)used, "%s", range);
        used = (int)strlen(text);
        u = end;
    }
}

bool yokei_units_read(const char *text, uint64_t units_out[YOKEI_UNIT_WORDS])
{
    memset(units_out, 0, YOKEI_UNIT_WORDS * sizeof *units_out);
    while (*text) {
        char *end;
        const long first = strtol(text, &end, 10);
        if (end == text || first < 0) return false;
        long last = first;
        if (*end == '-') {
            text = end + 1;
            last = strtol(text, &end, 10);
            if (end == text) return false;
        }
        if (last < first || last >= YOKEI_UNIT_WORDS * 64 || (*end && *end != ',')) return false;
        for (long u = first; u <= last; u++) units_out[u / 64] |= (uint64_t)1 << u % 64;
        text = end + (*end == ',');
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The cores of this host, and this process's share of them. */
#include "core/base/base.h"

#include <errno.h>
#include <hwloc.h>
#include <string.h>
#include <unistd.h>

static yoke_status load(hwloc_topology_t *topology_out)
{
    hwloc_topology_t topology = NULL;
    if (hwloc_topology_init(&topology)) return yoke_fail(YOKE_EBACKEND, "hwloc: cannot initialise");
    if (hwloc_topology_load(topology)) {
        hwloc_topology_destroy(topology);
        return yoke_fail(YOKE_EBACKEND, "hwloc: cannot read this host's topology");
    }
    *topology_out = topology;
    return YOKE_OK;
}

/* The processing units that this process may run on now. */
static hwloc_cpuset_t allowed_now(hwloc_topology_t topology)
{
    hwloc_cpuset_t set = hwloc_bitmap_alloc();
    if (set && (hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) || hwloc_bitmap_iszero(set)))
        hwloc_bitmap_copy(set, hwloc_topology_get_allowed_cpuset(topology));
    return set;
}

static uint64_t cache_bytes(hwloc_topology_t topology, hwloc_obj_type_t type)
{
    const hwloc_obj_t cache = hwloc_get_next_obj_by_type(topology, type, NULL);
    return cache ? cache->attr->cache.size : 0;
}

yoke_status yokei_topology(struct yokei_topology *out)
{
    hwloc_topology_t topology = NULL;
    YOKE_TRY(load(&topology));
    hwloc_cpuset_t set = allowed_now(topology);
    struct yokei_topology t = { 0 };
    t.n_cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, set, HWLOC_OBJ_CORE);
    t.n_processing_units = hwloc_bitmap_weight(set);
    if (t.n_cores < 1) t.n_cores = YOKE_MAX(1, t.n_processing_units);
    t.n_packages = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE);
    t.n_numa_nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    /*
     * hwloc adds up the NUMA nodes of sysfs. Some virtual machines never update them after memory was added.
     */
    t.memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    t.l2_bytes = cache_bytes(topology, HWLOC_OBJ_L2CACHE);
    t.l3_bytes = cache_bytes(topology, HWLOC_OBJ_L3CACHE);
    const hwloc_obj_t package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, NULL);
    const char *cpu = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    yokei_text(t.cpu, sizeof t.cpu, "%s", cpu ? cpu : "unknown CPU");
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(topology);
    *out = t;
    return YOKE_OK;
}

void yokei_bind_range(int n_cores, int index, int n_slots, int *first_out, int *end_out)
{
    *first_out = (int)((int64_t)n_cores * index / n_slots);
    /*
     * There are more slots than cores, so neighbours share a core. The numbers of slots per core differ by at
     * most one.
     */
    *end_out = n_slots > n_cores ? *first_out + 1 : (int)((int64_t)n_cores * (index + 1) / n_slots);
}

/* Bind the process to share `index` of the cores that have a processing unit in `allowed`. */
static yoke_status bind_within(hwloc_topology_t topology, hwloc_const_cpuset_t allowed, int index,
                               int n_slots, int *n_cores_out)
{
    hwloc_cpuset_t mine = hwloc_bitmap_alloc();
    int n_cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, allowed, HWLOC_OBJ_CORE);
    yoke_status status = YOKE_OK;
    int first, end;
    yokei_bind_range(n_cores, index, n_slots, &first, &end);
    for (int c = first; c < end; c++) {
        const hwloc_obj_t core = hwloc_get_obj_inside_cpuset_by_type(topology, allowed, HWLOC_OBJ_CORE,
                                                                     (unsigned)c);
        hwloc_bitmap_or(mine, mine, core->cpuset);
    }
    hwloc_bitmap_and(mine, mine, allowed);
    if (n_cores < 1) {
        n_cores = 0; /* a host without core objects: do not change the binding */
        end = first = 0;
    } else if (hwloc_set_cpubind(topology, mine, HWLOC_CPUBIND_PROCESS | HWLOC_CPUBIND_STRICT)) {
        status = yoke_fail(YOKE_EBACKEND, "binding to %d core(s) failed: %s", end - first, strerror(errno));
    }
    hwloc_bitmap_free(mine);
    if (!status && n_cores_out) *n_cores_out = YOKE_MAX(1, end - first);
    return status;
}

yoke_status yokei_bind(int index, int n_slots, int *n_cores_out)
{
    if (n_slots < 1 || index < 0 || index >= n_slots)
        return yoke_fail(YOKE_EINVAL, "binding: slot %d of %d does not exist", index, n_slots);
    hwloc_topology_t topology = NULL;
    YOKE_TRY(load(&topology));
    hwloc_cpuset_t allowed = allowed_now(topology);
    const yoke_status status = bind_within(topology, allowed, index, n_slots, n_cores_out);
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(topology);
    return status;
}

yoke_status yokei_bound_units(uint64_t units_out[YOKEI_UNIT_WORDS])
{
    hwloc_topology_t topology = NULL;
    YOKE_TRY(load(&topology));
    hwloc_cpuset_t allowed = allowed_now(topology);
    memset(units_out, 0, YOKEI_UNIT_WORDS * sizeof *units_out);
    for (int u = hwloc_bitmap_first(allowed); u >= 0 && u < YOKEI_UNIT_WORDS * 64;
         u = hwloc_bitmap_next(allowed, u))
        units_out[u / 64] |= (uint64_t)1 << u % 64;
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(topology);
    return YOKE_OK;
}

yoke_status yokei_bind_to_units(const uint64_t units[YOKEI_UNIT_WORDS], int index, int n_slots,
                                int *n_cores_out)
{
    if (n_slots < 1 || index < 0 || index >= n_slots)
        return yoke_fail(YOKE_EINVAL, "binding: slot %d of %d does not exist", index, n_slots);
    hwloc_topology_t topology = NULL;
    YOKE_TRY(load(&topology));
    hwloc_cpuset_t allowed = hwloc_bitmap_alloc();
    for (unsigned u = 0; u < YOKEI_UNIT_WORDS * 64; u++)
        if (units[u / 64] >> u % 64 & 1) hwloc_bitmap_set(allowed, u);
    const yoke_status status = bind_within(topology, allowed, index, n_slots, n_cores_out);
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(topology);
    return status;
}

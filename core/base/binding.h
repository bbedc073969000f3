/* SPDX-License-Identifier: Apache-2.0 */
/** Which cores and which memory of a host belong to which rank, by the places of the ranks' GPUs (hwloc). */
#ifndef CORE_BASE_BINDING_H
#define CORE_BASE_BINDING_H

#include "core/base/base.h"

/** What the device of a rank needs of the host's cores. */
struct yokei_place {
    bool is_gpu;  /* the cores only drive the device; else the device computes on the cores */
    char pci[24]; /* the device's address on the PCI bus, such as "0000:17:00.0"; "": unknown */
};

/** What one rank of a host is bound to. */
struct yokei_binding {
    uint64_t units[YOKEI_UNIT_WORDS]; /* processing units, as in yokei_bound_units */
    int n_cores;
    int node; /* the NUMA node nearest to the rank's GPU, by the kernel's number; -1: none is nearer */
};

/**
 * Read a place from the features of a device (yoke_discover). An emulated device computes on the host's
 * cores, and its address is not one of this machine. It counts as a GPU only if HWLOC_XMLFILE replaces the
 * machine by another one, which tests do.
 */
void yokei_place_of(const char *features, struct yokei_place *out);

/**
 * Divide the cores that this process may use among n ranks of this host.
 *  - A GPU whose address hwloc knows has a locality: the cores that are nearest to it. Ranks with the same
 *    locality share its cores evenly, in their order.
 *  - If there are ranks that compute on cores, or whose GPU has no known address, each GPU gets at most
 *    n_cores / n cores, and at most 2 if a rank computes on cores. The other ranks share the rest.
 *  - All ranks get equal shares, as by yokei_bind, if no GPU has a locality smaller than the host and no rank
 *    computes on cores, if there are at least as many ranks as cores, and if a locality has fewer cores than
 *    GPUs.
 * *is_placed_out: the shares depend on the places. Errors: YOKE_EBACKEND, YOKE_ENOMEM.
 */
yoke_status yokei_bindings(const struct yokei_place *ranks, int n, struct yokei_binding *out,
                           bool *is_placed_out);

/**
 * Bind this process to these units. New memory then comes from the binding's node while that node has room.
 * Errors: YOKE_EBACKEND.
 */
yoke_status yokei_bind_as(const struct yokei_binding *binding);

/** Whether this machine has a PCI device of the kinds that may be a GPU, or memory of more than one node. */
bool yokei_has_places(void);

/** The units as a list, such as "0-3,8", or "none". */
void yokei_units_text(const uint64_t units[YOKEI_UNIT_WORDS], char *text, size_t bytes);
/** The reverse. False: the text is no such list. */
bool yokei_units_read(const char *text, uint64_t units_out[YOKEI_UNIT_WORDS]);

#endif

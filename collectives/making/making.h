/* SPDX-License-Identifier: Apache-2.0 */
/** Making a communicator and ending it. */
#ifndef COLLECTIVES_MAKING_MAKING_H
#define COLLECTIVES_MAKING_MAKING_H

#include "collectives/ground/comm.h"

/* ---- settings.c: the configuration ---- */
/** How long a rank waits for a living rank, if the configuration does not say. */
enum { YOKEI_DEFAULT_TIMEOUT_MS = 600000 };
/** The settings before the configuration is read. */
void yokei_settings_begin(yoke_comm *comm, const struct yoke_comm_config *config);
/** Read the configuration (NULL: the defaults), and the environment. YOKE_EINVAL, YOKE_ECONFIG. */
yoke_status yokei_settings_read(yoke_comm *comm, const struct yoke_comm_config *config);
/**
 * Read chunk_bytes and no_shared of a configuration, or YOKE_CHUNK_BYTES and YOKE_NO_SHARED. *chunk_out is 0
 * if neither gives the chunk. YOKE_ECONFIG, YOKE_EINVAL.
 */
yoke_status yokei_read_messages(size_t chunk_bytes, bool no_shared, size_t *chunk_out, bool *no_shared_out);
/** The chunk as given, or the default, as a multiple of 64. */
size_t yokei_chunk_bytes(size_t given);
/** The configuration that a communicator made from this one inherits. */
struct yoke_comm_config yokei_comm_config(const yoke_comm *comm, const char *name);
/**
 * If *value is 0, read the environment variable into it: a whole number of at least `least`. An unset
 * variable leaves 0. YOKE_ECONFIG if the text is not such a number.
 */
yoke_status yokei_read_number(const char *variable, int64_t least, int64_t *value);

/* ---- create.c ---- */
/**
 * Create a communicator that the other ranks do not know yet. If this function fails, *comm_out may still be
 * set, because the caller must still report the failure to the other ranks.
 */
yoke_status yokei_comm_new(int rank, int size, yoke_device *device, const struct yoke_comm_config *config,
                           yoke_comm **comm_out);
/** Put the communicator into use, or destroy it if `status` is an error. The lock is held. */
yoke_status yokei_comm_enter(yoke_comm *comm, yoke_status status, yoke_comm **comm_out);
/**
 * Page-lock memory of a new communicator for its device. *comm may be NULL. The lock is not held, because the
 * driver may wait for the device. On failure the communicator is destroyed.
 */
yoke_status yokei_comm_equip(yoke_comm **comm);
/**
 * Write the communicator's name and this rank's number to the flight record. From then on the communicator is
 * the caller's.
 */
void yokei_comm_record(const yoke_comm *comm);

/* ---- process.c: the process's own record ---- */
yoke_status yokei_check_mpi(void); /* YOKE_EINVAL if MPI is not initialised */
yoke_status yokei_process_begin(void);
void yokei_process_end(void); /* call this when the last communicator is gone */

/* ---- setup.c: what the ranks exchange when a communicator is made ---- */
/**
 * Exchange the peers' data. Collective. `status` is this rank's result so far. If one rank has an error, all
 * ranks fail. comm is NULL for a rank that could not make its part; then `status` says why. `name` is the
 * name of the communicator.
 */
yoke_status yokei_setup(yoke_comm *comm, MPI_Comm mpi_comm, const char *name, yoke_status status);
/**
 * The same exchange over a communicator that works. members[r] is the rank in `parent` of rank r of `comm`.
 * All ranks of parent call. comm is NULL for a rank that will be in no new communicator, or that could not
 * make its part (`status`).
 */
yoke_status yokei_setup_within(yoke_comm *comm, yoke_comm *parent, const int members[], yoke_status status);
/**
 * The data that this rank sends to the others. comm NULL: only `status` and the reason for it. The second
 * function maps the record of rank r, from what rank r has sent.
 */
void yokei_describe_self(yoke_comm *comm, struct yokei_peer_info *info, yoke_status status);
void yokei_map_record(yoke_comm *comm, int r);
/**
 * From what all ranks have sent: check that they agree, and set the communicator's context and uid. The
 * result is the same on all ranks.
 */
yoke_status yokei_agree(yoke_comm *comm);
/** All ranks are known now: count the ranks on this host and their processors. */
void yokei_count_host(yoke_comm *comm);
/** Leave the process set and unmap the peers. */
void yokei_setup_undo(yoke_comm *comm);

/* ---- crowd.c ---- */
/** Number of threads that compute for this rank on the host while it uses the communicator's device. */
int yokei_own_threads(const yoke_comm *comm);
/**
 * On the job's first rank, once: warn if the ranks of its host have more threads than cores and are not bound
 * to cores.
 */
void yokei_warn_of_crowd(const yoke_comm *comm);

/* ---- hosts.c ---- */
yoke_status yokei_hosts_begin(yoke_comm *comm); /* allocates the arrays; at first each rank is alone */
void yokei_hosts_end(yoke_comm *comm);
/**
 * Group the ranks by shared memory: rank a sees b's segment if sees[a * width + b] has `bit`. All ranks pass
 * the same input.
 */
void yokei_hosts_find(yoke_comm *comm, const char *sees, size_t width, int bit);
/** All ranks are on one host. */
void yokei_hosts_one(yoke_comm *comm);

/* ---- islands.c ---- */
/**
 * Read how the ranks are grouped, and this rank's label, from the configuration's fields, else from
 * YOKE_ISLAND and YOKE_ISLAND_OF. YOKE_ECONFIG.
 */
yoke_status yokei_islands_read(yoke_comm *comm, enum yoke_island island, const char *labels);
/** Use the parent's label of this rank, unless the configuration gives labels. */
void yokei_islands_inherit(yoke_comm *comm, const yoke_comm *parent);
/** The name of this rank's island: its label, or the vendor of its device. */
const char *yokei_islands_own(const yoke_comm *comm);
/** "auto", "vendor", "host" or "off". */
const char *yokei_island_name(unsigned island);

/* ---- alloc.c ---- */
void yokei_free_allocations(yoke_comm *comm);

#endif

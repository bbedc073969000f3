/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank can know of ranks on other hosts without their help: their records, if the run directory is
 * shared, and whether the network carries anything.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <linux/tcp.h>
#include <sys/socket.h>

#include "collectives/faults/far.h"
#include "collectives/transport/mpi.h"

static const uint64_t READ_EVERY_NS = 50000000;
enum { MUCH = 4 << 10 }; /* bytes, not counting the probes of waiting ranks and their answers */

bool yokei_has_far(const yoke_comm *comm)
{
    for (int r = 0; r < comm->size; r++)
        if (!comm->peers[r].flight) return true;
    return false;
}

const struct yokei_flight_file *yokei_record_of(yoke_comm *comm, int rank, uint64_t now)
{
    struct yokei_peer *peer = &comm->peers[rank];
    if (peer->flight || !yokei_process.run_dir[0]) return peer->flight;
    if (peer->watch.far_ns && now - peer->watch.far_ns < READ_EVERY_NS) return peer->watch.far;
    peer->watch.far_ns = now;
    /* A record that cannot be read is no error of the call that waits, whose own error may stand already. */
    struct yokei_error before;
    yokei_error_save(&before);
    const bool read = !yokei_flight_look(yokei_process.run_dir, peer->info.world_rank, &peer->watch.far);
    yokei_error_restore(&before);
    if (read && peer->watch.far->nonce == peer->info.nonce && peer->watch.far->pid == peer->info.pid)
        return peer->watch.far;
    yokei_flight_close(peer->watch.far); /* it is in another folder of the same name */
    peer->watch.far = NULL;
    return NULL;
}

int yokei_next_far(yoke_comm *comm)
{
    for (int i = 0; i < comm->size; i++) {
        comm->watch.next_far = (comm->watch.next_far + 1) % comm->size;
        if (!comm->peers[comm->watch.next_far].flight) return comm->watch.next_far;
    }
    return -1;
}

/* Bytes that have arrived, and bytes whose arrival was confirmed, on all connections of this process. */
static uint64_t count_bytes(void)
{
    uint64_t bytes = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *e; folder && (e = readdir(folder));) {
        struct tcp_info info = { 0 };
        socklen_t size = sizeof info;
        if (e->d_name[0] == '.' || getsockopt(atoi(e->d_name), IPPROTO_TCP, TCP_INFO, &info, &size)) continue;
        bytes += info.tcpi_bytes_acked + info.tcpi_bytes_received;
    }
    if (folder) closedir(folder);
    return bytes;
}

/*
 * Whether the network carried something for a rank of this host since the last look. The ranks of a host
 * share the link. On a slow link there may be seconds of another rank's data before this rank's data. As long
 * as that data moves, this rank's data is on its way.
 */
bool yokei_network_moved(const yoke_comm *comm)
{
    static uint64_t counted, asked, seen_ns;
    const uint64_t bytes = count_bytes(), questions = yokei_mpi_control_bytes(), before = seen_ns;
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && comm->peers[r].flight)
            seen_ns = YOKE_MAX(seen_ns, atomic_load(&comm->peers[r].flight->network_ns));
    if (bytes >= counted && bytes - counted < 2 * (questions - asked) + MUCH) return seen_ns > before;
    counted = bytes;
    asked = questions;
    atomic_store(&yokei_process.flight->network_ns, yokei_now_ns());
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators made from a communicator that works. The ranks exchange their data through its own
 * collectives.
 */
#include <string.h>

#include "collectives/call/internal.h"
#include "collectives/choice/costs.h"
#include "collectives/choice/shares.h"
#include "collectives/engine/engine.h"
#include "collectives/making/making.h"
#include "collectives/transport/inject.h"

struct choice {
    int32_t color, key;
};

/*
 * The ranks of this rank's color, in the order of key, then of rank. Returns their number, 0 for no color.
 * *place_out is this rank's place among them.
 */
static int find_members(const yoke_comm *parent, const struct choice *all, int *members, int *place_out)
{
    const int color = all[parent->rank].color;
    int n = 0;
    for (int r = 0; r < parent->size && color >= 0; r++) {
        if (all[r].color != color) continue;
        int at = n++;
        for (; at > 0 && all[members[at - 1]].key > all[r].key; at--) members[at] = members[at - 1];
        members[at] = r;
    }
    for (int i = 0; i < n; i++)
        if (members[i] == parent->rank) *place_out = i;
    return n;
}

/* The lock is held. */
static yoke_status make(yoke_comm *parent, const struct yoke_comm_config *config, int color,
                        const int members[], int n, int place, yoke_comm **comm_out)
{
    char name[sizeof parent->name + 16];
    yokei_text(name, sizeof name, "%s.%d", parent->name, color);
    const struct yoke_comm_config inherited = yokei_comm_config(parent, name);
    yoke_comm *comm = NULL;
    yoke_status status = n ? yokei_comm_new(place, n, parent->device, config ? config : &inherited, &comm)
                           : YOKE_OK;
    if (comm) yokei_islands_inherit(comm, parent);
    status = yokei_setup_within(comm, parent, members, status);
    if (comm && !status) yokei_costs_inherit(comm, parent);
    if (comm && !status) yokei_shares_inherit(comm, parent);
    if (comm) status = yokei_comm_enter(comm, status, comm_out);
    if (comm && !status) yokei_inject_wrap(comm);
    if (comm && !status) yokei_comm_record(comm);
    return status;
}

yoke_status yoke_comm_split(yoke_comm *comm, int color, int key, const struct yoke_comm_config *config,
                            yoke_comm **comm_out)
{
    if (!comm || !comm_out) return yoke_fail(YOKE_EINVAL, "yoke_comm_split: a NULL argument");
    YOKE_TRY(yokei_check_process("yoke_comm_split", comm));
    *comm_out = NULL;
    if (color < YOKE_NO_COLOR)
        return yoke_fail(YOKE_EINVAL, "yoke_comm_split: color %d is neither YOKE_NO_COLOR nor at least 0",
                         color);
    const size_t size = (size_t)comm->size;
    const struct choice mine = { color, key };
    struct choice *all = malloc(size * sizeof *all);
    int *members = malloc(size * sizeof *members), place = 0;
    yoke_status status = all && members
                             ? yokei_gather_on_host(comm, &mine, all, sizeof mine)
                             : yokei_give_up_outside(
                                 comm, yoke_fail(YOKE_ENOMEM, "no memory for the list of %zu ranks", size));
    if (!status) {
        const int n = find_members(comm, all, members, &place);
        pthread_mutex_lock(&yokei_process.lock);
        status = make(comm, config, color, members, n, place, comm_out);
        pthread_mutex_unlock(&yokei_process.lock);
    }
    if (!status) status = yokei_comm_equip(comm_out);
    free(all);
    free(members);
    return status ? yoke_fail_context(status, "yoke_comm_split") : YOKE_OK;
}

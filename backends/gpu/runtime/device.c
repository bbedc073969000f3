/* SPDX-License-Identifier: Apache-2.0 */
/** What devices of CUDA and HIP have in common when they open and close, and when they are listed. */
#include <string.h>
#include <unistd.h>

#include "backends/gpu/runtime/runtime.h"

void yokei_rt_begin(struct yokei_rt *rt, const struct yokei_rt_calls *calls,
                    const struct yokei_stand_in *stand_in)
{
    static atomic_ullong opened;
    rt->calls = calls;
    rt->stand_in = stand_in;
    rt->serial = atomic_fetch_add(&opened, 1) + 1;
    rt->mark_every = yokei_rt_mark_every(calls);
    pthread_mutex_init(&rt->lock, NULL);
}

void yokei_rt_end(yoke_device *device, bool has_context, void (*detach)(yoke_device *device, bool entered))
{
    yokei_gpu_programs_destroy(device);
    if (has_context) {
        const bool entered = !yokei_rt_enter(device);
        if (detach) detach(device, entered);
        yokei_rt_pinned_destroy(device);
        if (entered) yokei_rt_leave(device);
        yokei_rt_forget(device);
    }
    pthread_mutex_destroy(&yokei_rt(device)->lock);
}

static yoke_status ask_memory(const yoke_device *device, size_t *left, size_t *total)
{
    YOKEI_RT_TRY(device, mem_info, left, total);
    return YOKE_OK;
}

yoke_status yokei_rt_memory(const yoke_device *device, uint64_t *free_out, uint64_t *total_out)
{
    size_t left = 0, total = 0;
    YOKE_TRY(yokei_rt_enter(device));
    const yoke_status status = ask_memory(device, &left, &total);
    yokei_rt_leave(device);
    *free_out = left;
    *total_out = total;
    return status;
}

/* ---- processes that were forked ---- */

bool yokei_rt_is_forked(const struct yokei_rt_known *known)
{
    return known->process && known->process != getpid();
}

void yokei_rt_explain_fork(const struct yokei_rt_known *known, const char *vendor, char *reason, size_t bytes)
{
    yokei_text(reason, bytes,
               "process %d used %s and then forked this process, where %s cannot work; start the process by "
               "exec, or fork before the first device is opened",
               (int)known->process, vendor, vendor);
}

void yokei_rt_keep_list(struct yokei_rt_known *known,
                        void (*list)(const char *folders, struct yoke_probe *out), const char *folders)
{
    pthread_mutex_lock(&known->lock);
    if (!atomic_load(&known->is_known)) {
        list(folders, &known->list);
        atomic_store(&known->is_known, true);
    }
    pthread_mutex_unlock(&known->lock);
}

bool yokei_rt_probe_forked(const struct yokei_rt_known *known, struct yoke_probe *out)
{
    memset(out, 0, sizeof *out);
    if (!yokei_rt_is_forked(known) || !atomic_load(&known->is_known)) return false;
    *out = known->list;
    return true;
}

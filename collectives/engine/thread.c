/* SPDX-License-Identifier: Apache-2.0 */
/* The progress thread, which carries asynchronous operations on. */
#include <string.h>

#include "collectives/engine/engine.h"
#include "core/base/bell.h"

static void *progress_thread(void *unused)
{
    (void)unused;
    yokei_thread_set_own();
    struct yokei_process *p = &yokei_process;
    pthread_mutex_lock(&p->lock);
    yokei_wait_in_thread();
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

yoke_status yokei_thread_start(void)
{
    struct yokei_process *p = &yokei_process;
    if (!p->thread_runs) {
        p->thread_ends = false;
        yokei_bell_hang();
        const int error = yokei_thread_without_signals(&p->thread, progress_thread, NULL);
        if (!error) pthread_setname_np(p->thread, "yoke-progress");
        if (error)
            return yoke_fail(YOKE_ENOMEM, "the progress thread could not be started: %s", strerror(error));
        p->thread_runs = true;
    }
    pthread_cond_signal(&p->wake);
    return YOKE_OK;
}

void yokei_thread_end(void)
{
    struct yokei_process *p = &yokei_process;
    pthread_mutex_lock(&p->lock);
    const bool runs = p->thread_runs;
    p->thread_runs = false;
    p->thread_ends = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    if (runs) pthread_join(p->thread, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Signals, code during which no handler may run, and threads of the library. */
#include "core/base/base.h"

#include <signal.h>

static _Thread_local bool is_own;

void yokei_signals_hold(sigset_t *was_out)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < YOKE_COUNT(faults); i++) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_BLOCK, &all, was_out);
}

void yokei_signals_release(const sigset_t *was) { pthread_sigmask(SIG_SETMASK, was, NULL); }

int yokei_thread_without_signals(pthread_t *thread_out, void *(*run)(void *), void *context)
{
    sigset_t was;
    yokei_signals_hold(&was);
    const int error = pthread_create(thread_out, NULL, run, context);
    yokei_signals_release(&was);
    return error;
}

void yokei_thread_set_own(void) { is_own = true; }
bool yokei_thread_is_own(void) { return is_own; }

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Each call of the backend makes the device's context current, and then restores the thread's own. On threads
 * that run no code of the caller, the context of the last call stays current instead, which saves two calls
 * of the driver. With the stand-in driver the depth of the thread's stack of contexts is compared at each
 * entry and exit.
 */
#include <stdio.h>

#include "backends/gpu/runtime/runtime.h"

/* The depth of this thread's stack before its last entry. `is_inside` is true until the call leaves. */
static _Thread_local struct {
    bool is_inside;
    int depth;
} entry;

static void check_entry(const yoke_device *device)
{
    const struct yokei_stand_in *say = yokei_rt(device)->stand_in;
    char text[200];
    if (!say->stack_depth) return;
    const int depth = say->stack_depth();
    if (entry.is_inside && depth > entry.depth) {
        snprintf(text, sizeof text, "%s: an earlier call of the %s backend has not popped its context",
                 device->info.spec, yokei_rt(device)->calls->name);
        say->leak(text);
    }
    entry.is_inside = true;
    entry.depth = depth;
}

static void check_exit(const yoke_device *device)
{
    const struct yokei_stand_in *say = yokei_rt(device)->stand_in;
    char text[200];
    if (!say->stack_depth) return;
    entry.is_inside = false;
    if (say->stack_depth() == entry.depth) return;
    snprintf(text, sizeof text,
             "%s: a call of the %s backend leaves %d contexts on the thread's stack, where %d were before",
             device->info.spec, yokei_rt(device)->calls->name, say->stack_depth(), entry.depth);
    say->leak(text);
}

/* What this thread's last call found or left. */
static _Thread_local struct {
    uint64_t serial;    /* own threads: the device whose context is current; 0: none */
    bool pushed;        /* other threads: the call must pop the context */
    bool was_current;   /* other threads: the caller had made the context current before the last call */
    unsigned n_unasked; /* other threads: calls since the driver was asked for the current context */
} here = { .was_current = true };

/* After so many calls the driver is asked again whether the caller has made the context current. */
enum { ASK_EVERY = 64 };

static int make_current(const struct yokei_rt *rt)
{
    if (here.serial == rt->serial) return 0;
    const int error = rt->calls->set_current(rt);
    here.serial = error ? 0 : rt->serial;
    return error;
}

/* Asking costs less than both, but a caller that never makes the context current would pay for all. */
static int push(const struct yokei_rt *rt)
{
    bool is_current = false;
    here.pushed = false;
    if (here.was_current || ++here.n_unasked >= ASK_EVERY) {
        here.n_unasked = 0;
        here.was_current = !rt->calls->get_current(rt, &is_current) && is_current;
        if (here.was_current) return 0;
    }
    const int error = rt->calls->push_current(rt);
    here.pushed = !error;
    return error;
}

yoke_status yokei_rt_enter(const yoke_device *device)
{
    const struct yokei_rt *rt = yokei_rt(device);
    if (atomic_load(&rt->is_dead)) return yoke_fail(YOKE_EBACKEND, "%s", rt->dead);
    const bool own = yokei_thread_is_own();
    const int error = own ? make_current(rt) : 0;
    check_entry(device);
    const int pushed = own ? 0 : push(rt);
    if (error || pushed) entry.is_inside = false;
    return error || pushed ? yokei_rt_fail(device, "making the context current", error ? error : pushed)
                           : YOKE_OK;
}

void yokei_rt_leave(const yoke_device *device)
{
    const struct yokei_rt *rt = yokei_rt(device);
    if (!yokei_thread_is_own() && here.pushed) rt->calls->pop_current(rt);
    check_exit(device);
}

void yokei_rt_forget(const yoke_device *device)
{
    const struct yokei_rt *rt = yokei_rt(device);
    if (!rt->serial || here.serial != rt->serial) return;
    here.serial = 0;
    rt->calls->set_none(rt);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What takes long inside the libraries: callbacks for the process. */
#include "core/base/busy.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/base.h"

static _Atomic(const struct yokei_busy *) callbacks;

static _Atomic uint64_t compiled_ns;

double yokei_compiled_seconds(void)
{
    return (double)atomic_load_explicit(&compiled_ns, memory_order_relaxed) * 1e-9;
}

void yokei_compiled_add(double seconds)
{
    atomic_fetch_add_explicit(&compiled_ns, (uint64_t)(seconds * 1e9), memory_order_relaxed);
}

void yokei_busy_set(const struct yokei_busy *with) { atomic_store(&callbacks, with); }

void yokei_busy_begin(const char *format, ...)
{
    const struct yokei_busy *const with = atomic_load(&callbacks);
    if (!with) return;
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    with->begin(text);
}

void yokei_busy_at(double done, double total)
{
    const struct yokei_busy *const with = atomic_load_explicit(&callbacks, memory_order_acquire);
    if (with && total > 0) with->at(done / total);
}

void yokei_busy_end(void)
{
    const struct yokei_busy *const with = atomic_load(&callbacks);
    if (with) with->end();
}

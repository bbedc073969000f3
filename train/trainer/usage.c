/* SPDX-License-Identifier: Apache-2.0 */
#include "train/trainer/usage.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/busy.h"

static double seconds_of(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

/* The second number of the file: the nanoseconds in which the thread was ready and did not run. */
static double queued(const struct yokei_usage *u)
{
    char text[96], *second, *end;
    const ssize_t n = u->has_file ? pread(u->file, text, sizeof text - 1, 0) : 0;
    if (n <= 0) return NAN;
    text[n] = '\0';
    strtoull(text, &second, 10);
    const unsigned long long waited = strtoull(second, &end, 10);
    return end > second ? 1e-9 * (double)waited : NAN;
}

/* The values since the process began. */
static struct yokei_usage_values look(const struct yokei_usage *u)
{
    struct rusage r;
    struct yokei_usage_values v = { NAN, queued(u), NAN, NAN, yokei_compiled_seconds() };
    if (getrusage(RUSAGE_SELF, &r)) return v;
    v.processor_seconds = seconds_of(r.ru_utime) + seconds_of(r.ru_stime);
    v.preemptions = (double)r.ru_nivcsw;
    v.major_faults = (double)r.ru_majflt;
    return v;
}

void yokei_usage_begin(struct yokei_usage *u)
{
    struct yokei_error text;
    size_t bytes;
    yokei_error_save(&text);
    u->has_file = !yokei_file_open("/proc/thread-self/schedstat", YOKE_EDATA, &u->file, &bytes);
    yokei_error_restore(&text); /* without the file a value is unknown, and this is no error */
    u->before = look(u);
}

void yokei_usage_take(struct yokei_usage *u, struct yokei_usage_values *out)
{
    const struct yokei_usage_values now = look(u), *before = &u->before;
    *out = (struct yokei_usage_values){ now.processor_seconds - before->processor_seconds,
                                        now.queued_seconds - before->queued_seconds,
                                        now.preemptions - before->preemptions,
                                        now.major_faults - before->major_faults,
                                        now.compile_seconds - before->compile_seconds };
    u->before = now;
}

void yokei_usage_end(struct yokei_usage *u)
{
    if (u->has_file) close(u->file);
    u->has_file = false;
}

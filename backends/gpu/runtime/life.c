/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Errors of the driver. Some errors of a kernel, such as an access outside of memory, make the whole context
 * unusable. All later calls on the context then return the same error.
 */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/runtime/runtime.h"

/*
 * The ops of the stream's first groups that may not have ended, at most `most`, in the order of the queue.
 * The failed one is among the first rt->mark_every, because behind these the queue would have written its
 * progress. Returns their number.
 */
static int unfinished(const struct yokei_rt_stream *s, const char *ops[], int most)
{
    const uint32_t group = atomic_load(&s->group),
                   done = yokei_rt_later(atomic_load(yokei_rt_word(s->done)), atomic_load(&s->ended));
    int n = 0;
    if (group - done > YOKEI_RT_FOLLOWED) {
        ops[n++] = "one of many commands";
        return n;
    }
    for (uint32_t g = done; g != group && n < most;) ops[n++] = atomic_load(&s->ops[++g % YOKEI_RT_FOLLOWED]);
    return n;
}

/* Whether the text lists this op already. The names are divided by " or ". */
static bool lists(const char *text, const char *op)
{
    const size_t n = strlen(op);
    for (const char *at = text; (at = strstr(at, op)); at++)
        if ((at == text || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
    return false;
}

/** List the ops that may have failed, those of each stream that may not have ended. Returns their number. */
static int suspects(const struct yokei_rt *rt, char *text, size_t bytes)
{
    const char *ops[YOKEI_RT_MARK_EVERY];
    int listed = 0;
    text[0] = '\0';
    for (const struct yokei_rt_stream *s = rt->streams; s; s = s->next) {
        const int n = unfinished(s, ops, (int)rt->mark_every);
        for (int i = 0; i < n; i++) {
            const size_t used = strlen(text);
            if (lists(text, ops[i])) continue;
            yokei_text(text + used, bytes - used, "%s%s", used ? " or " : "", ops[i]);
            listed++;
        }
    }
    return listed;
}

static void die(struct yokei_rt *rt, const char *spec, const char *call, int error)
{
    char ops[400], more[120] = "";
    const struct yokei_rt_calls *calls = rt->calls;
    pthread_mutex_lock(&rt->lock);
    if (!rt->dead[0]) {
        const int n = suspects(rt, ops, sizeof ops);
        const char *text = calls->error_text(rt, error);
        const char *fault = rt->stand_in->last_fault ? rt->stand_in->last_fault() : "";
        if (n > 1 && rt->mark_every > 1)
            yokei_text(more, sizeof more, "With %s=1 the error names the one op that failed. ",
                       calls->blocking);
        yokei_text(
            rt->dead, sizeof rt->dead,
            "%s: %s%sfailed on the device: %s (%d): %s. %s%sThe %s context is lost: start the process again",
            spec, n ? ops : call, n ? ", issued earlier, " : " ", calls->error_name(rt, error), error,
            *fault ? fault : text, calls->error_advice(error), more, calls->name);
        atomic_store(&rt->is_dead, true);
    }
    pthread_mutex_unlock(&rt->lock);
}

yoke_status yokei_rt_fail(const yoke_device *device, const char *call, int error)
{
    struct yokei_rt *rt = yokei_rt(device);
    const enum yokei_rt_meaning meaning = rt->calls->meaning(error);
    if (meaning == YOKEI_RT_FATAL) {
        die(rt, device->info.spec, call, error);
        return yoke_fail(YOKE_EBACKEND, "%s", rt->dead);
    }
    return yokei_gpu_call_failed(device, meaning == YOKEI_RT_NO_MEMORY ? YOKE_ENOMEM : YOKE_EBACKEND, call,
                                 rt->calls->error_name(rt, error), error, rt->calls->error_text(rt, error));
}

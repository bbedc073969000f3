/* SPDX-License-Identifier: Apache-2.0 */
/** Stand-ins for the vendors' drivers, which execute kernels on the CPU (folder emulate). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/gpu/runtime/runtime.h"

void yokei_stand_in_path(const char *vendor, const char *file, char *path, size_t bytes)
{
    const char *given = getenv("YOKE_DATA_DIR");
    Dl_info here;
    char built[1024] = "";
    if (given && *given) {
        yokei_text(path, bytes, "%s/emulate/%s/%s", given, vendor, file);
        return;
    }
    yokei_text(path, bytes, "%s/emulate/%s/%s", YOKE_PKGLIBDIR, vendor, file);
    /*
     * The path contains libtool's own folder, so this library runs from the build tree and is not installed.
     */
    if (!dladdr((void *)(uintptr_t)&yokei_stand_in_path, &here) || !here.dli_fname) return;
    const char *end = strstr(here.dli_fname, ".libs/");
    if (!end) return;
    yokei_text(built, sizeof built, "%.*semulate/%s/.libs/%s", (int)(end - here.dli_fname), here.dli_fname,
               vendor, file);
    if (!access(built, R_OK)) yokei_text(path, bytes, "%s", built);
}

void yokei_stand_in_load(const char *path, struct yokei_stand_in *out)
{
    const struct yokei_symbol fault = { "yoke_emulate_last_fault", &out->last_fault },
                              counts = { "yoke_emulate_counts", &out->counts },
                              calls = { "yoke_emulate_calls", &out->calls };
    const struct yokei_symbol memory[] = { { "yoke_emulate_annotate", &out->annotate },
                                           { "yoke_emulate_annotate_async", &out->annotate_async },
                                           { "yoke_emulate_begin", &out->begin },
                                           { "yoke_emulate_end", &out->end },
                                           { "yoke_emulate_name", &out->label } },
                              contexts[] = { { "yoke_emulate_stack_depth", &out->stack_depth },
                                             { "yoke_emulate_leak", &out->leak } };
    const char *const names[] = { path, NULL };
    char why[YOKE_REASON_BYTES];
    yokei_dl_open(names, &fault, 1, why, sizeof why);
    yokei_dl_open(names, &counts, 1, why, sizeof why);
    yokei_dl_open(names, &calls, 1, why, sizeof why);
    yokei_dl_open(names, memory, YOKE_COUNT(memory), why, sizeof why);
    yokei_dl_open(names, contexts, YOKE_COUNT(contexts), why, sizeof why);
}

bool yokei_rt_counts(const yoke_device *device, struct yokei_counts *out)
{
    const struct yokei_stand_in *say = yokei_rt(device)->stand_in;
    uint64_t n[10];
    if (!say->counts || !say->calls) return false;
    const uint64_t launches = say->counts(NULL, n);
    *out = (struct yokei_counts){ launches, n[0], n[1], n[2], n[3], n[4],
                                  n[5],     n[6], n[7], n[8], n[9], say->calls() };
    return true;
}

/** Only a stand-in checks accesses, so only with a stand-in does core call this function. */
static int annotate(const struct yokei_stand_in *say, void *queue, bool is_ordered,
                    const struct yokei_annotation *note)
{
    const uint64_t at = (uint64_t)(uintptr_t)note->address;
    const bool is_lifetime = is_ordered && note->streams > 0;
    if (is_lifetime && note->state == YOKEI_MEMORY_UNDEFINED)
        return say->begin(at, note->bytes, note->streams, note->name ? note->name : "a tensor", queue);
    if (is_lifetime && note->state == YOKEI_MEMORY_FORBIDDEN) return say->end(at, note->bytes, queue);
    int error = 0;
    if (note->state != YOKEI_MEMORY_AS_IS)
        error = is_ordered ? say->annotate_async(at, note->bytes, note->state, queue)
                           : say->annotate(at, note->bytes, note->state);
    return error || !note->name ? error : say->label(at, note->bytes, note->name);
}

yoke_status yokei_rt_annotate(yoke_device *device, yoke_stream *stream, const struct yokei_annotation *note)
{
    YOKE_TRY(yokei_rt_enter(device));
    yoke_status status = stream ? yokei_rt_command(stream) : YOKE_OK;
    const int error = status ? 0
                             : annotate(yokei_rt(device)->stand_in,
                                        stream ? yokei_rt_stream(stream)->queue : NULL, stream != NULL, note);
    if (error) status = yokei_rt_fail(device, "an annotation of memory", error);
    yokei_rt_leave(device);
    return status;
}

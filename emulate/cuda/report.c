/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses of the host to device memory, and what a program did not free. */
#include <signal.h>

#include "emulate/cuda/driver.h"

/* ---- the host ---- */

/* The access happens once more when this function returns, and SIGSEGV then ends the program. */
static void touched(int number, siginfo_t *info, void *context)
{
    const uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    char text[500] = "";
    (void)context;
    signal(number, SIG_DFL);
    if (address < emulate_base || address - emulate_base >= emulate_bytes) return;
    if (emulate_try_lock()) { /* this thread may hold the lock */
        emulate_describe(address, text, sizeof text);
        emulate_unlock();
    }
    emulate_print("the host touches %s at 0x%llx (%s), where only the device may; SIGSEGV ends the program",
                  emulate_context_of(address) ? "device memory" : "memory that is not pinned any more",
                  (unsigned long long)address, text);
}

void emulate_watch_host(void)
{
    struct sigaction old, new = { .sa_flags = SA_SIGINFO };
    new.sa_sigaction = touched;
    sigemptyset(&new.sa_mask);
    /* A program with a handler of its own keeps it. */
    if (!sigaction(SIGSEGV, NULL, &old) && !(old.sa_flags & SA_SIGINFO) && old.sa_handler == SIG_DFL)
        sigaction(SIGSEGV, &new, NULL);
}

/* ---- leaks ---- */

static void report_object(struct object *object)
{
    static const char *const kinds[] = { "a stream", "an event", "a module" };
    if (object->kind != KIND_FUNCTION)
        emulate_print("cuda:%d: not destroyed: %s, %p", object->context->ordinal, kinds[object->kind],
                      (void *)object);
}

void emulate_report_leaks(struct CUctx_st *context)
{
    for (const struct block *b = context->zone.blocks; b; b = b->next) {
        const char *name = emulate_plain_name(b->address);
        emulate_print("cuda:%d: not freed: %llu bytes at 0x%llx, allocation %llu%s%s", context->ordinal,
                      (unsigned long long)b->bytes, (unsigned long long)b->address, b->id, name ? ", " : "",
                      name ? name : "");
    }
    for (const struct block *b = emulate_host_zone.blocks; b; b = b->next)
        if (b->owner == context)
            emulate_print("cuda:%d: not freed: %llu bytes of pinned memory at 0x%llx", context->ordinal,
                          (unsigned long long)b->bytes, (unsigned long long)b->address);
    emulate_objects(context, report_object);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses of the host to device memory, and what a program did not free. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "emulate/gpu/driver.h"

/* ---- the host ---- */

/* The access happens once more when this function returns, and SIGSEGV then ends the program. */
static void touched(int number, siginfo_t *info, void *context)
{
    const uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    char text[500] = "";
    (void)context;
    signal(number, SIG_DFL);
    bool is_registered = false;
    if (emulate_try_lock()) { /* this thread may hold the lock */
        is_registered = emulate_registered_holds(address);
        emulate_describe(address, text, sizeof text);
        emulate_unlock();
    }
    if (!is_registered && (address < emulate_base || address - emulate_base >= emulate_bytes)) return;
    const bool is_red = is_registered
                        || (!emulate_context_of(address) && emulate_block_of(&emulate_host_zone, address));
    emulate_print("the host touches %s at 0x%llx (%s)%s; SIGSEGV ends the program",
                  is_red                        ? "a red zone between pieces of pinned memory"
                  : emulate_context_of(address) ? "device memory"
                                                : "memory that is not pinned any more",
                  (unsigned long long)address, text, is_red ? "" : ", where only the device may");
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

static int n_leaks;

bool emulate_leaks_are_errors(void)
{
    const char *text = getenv("YOKE_EMULATE_LEAKS");
    return text && *text;
}

static void report_object(struct object *object)
{
    static const char *const kinds[] = { "a stream", "an event", "a module" };
    if (object->kind == KIND_FUNCTION) return;
    emulate_print("%s:%d: not destroyed: %s, %p", emulate_vendor.word, object->context->ordinal,
                  kinds[object->kind], (void *)object);
    n_leaks++;
}

static void report_block(const struct context *context, const struct block *b, const char *kind)
{
    if (b->is_reserved) return; /* no memory is lost */
    const char *name = emulate_plain_name(b->address);
    emulate_print("%s:%d: not freed: %llu bytes%s at 0x%llx, allocation %llu%s%s", emulate_vendor.word,
                  context->ordinal, (unsigned long long)b->bytes, kind, (unsigned long long)b->address, b->id,
                  name ? ", " : "", name ? name : "");
    n_leaks++;
}

static int reported_device;

static void report_registered(uint64_t address, uint64_t bytes)
{
    const char *name = emulate_plain_name(address);
    emulate_print("%s:%d: not unregistered: %llu bytes of the host's memory at 0x%llx%s%s",
                  emulate_vendor.word, reported_device, (unsigned long long)bytes,
                  (unsigned long long)address, name ? ", " : "", name ? name : "");
    n_leaks++;
}

int emulate_report_leaks(struct context *context)
{
    n_leaks = 0;
    if (!emulate_log_is_set() && !emulate_leaks_are_errors()) return 0;
    for (const struct block *b = context->zone.blocks; b; b = b->next) report_block(context, b, "");
    for (const struct block *b = emulate_host_zone.blocks; b; b = b->next)
        if (b->owner == context) report_block(context, b, " of pinned memory");
    reported_device = context->ordinal;
    emulate_registered_visit(context, report_registered);
    emulate_objects(context, report_object);
    return n_leaks += emulate_vendor.report_leaks ? emulate_vendor.report_leaks(context) : 0;
}

void emulate_leaks_found(void)
{
    if (!emulate_leaks_are_errors()) return;
    emulate_print("YOKE_EMULATE_LEAKS is set, so the leaks above end the process");
    fflush(NULL);
    _exit(EMULATE_LEAK_EXIT);
}

enum emulate_error emulate_no_object(enum emulate_error error, const char *what, const void *handle)
{
    if (error != EMULATE_INVALID_HANDLE || !emulate_leaks_are_errors()) return error;
    emulate_print("%s: %p is no %s, or it was destroyed before", emulate_vendor.word, handle, what);
    emulate_leaks_found();
    return error;
}

void yoke_emulate_leak(const char *text)
{
    emulate_print("%s", text);
    emulate_leaks_found();
}

/* A program that failed need not have freed anything. */
static void process_ends(int status, void *unused)
{
    (void)unused;
    if (status || emulate_enter_plain()) return;
    bool found = false;
    for (int i = 0; i < emulate_settings.n_visible; i++) {
        struct context *context = &emulate_contexts[i];
        if (!context->active || context->lost) continue;
        if (!emulate_vendor.ends_with_process)
            emulate_print("%s:%d: not released: the primary context, which was retained %d times more",
                          emulate_vendor.word, i, context->references);
        found = emulate_report_leaks(context) || !emulate_vendor.ends_with_process || found;
    }
    emulate_unlock();
    if (found) emulate_leaks_found();
}

void emulate_watch_exit(void)
{
    if (emulate_leaks_are_errors()) on_exit(process_ends, NULL);
}

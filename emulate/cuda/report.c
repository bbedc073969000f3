/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-in driver says of its own: faults, names of addresses, and what was not freed. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulate/cuda/driver.h"

enum { N_FREED = 64 };

struct name {
    struct name *next; /* an older one */
    uint64_t address, bytes;
    char text[];
};
static struct name *names;
static struct block freed[N_FREED]; /* a ring of those that were freed last */
static unsigned n_freed;
static char last_fault[1400];

bool emulate_log_is_set(void)
{
    const char *path = getenv("YOKE_EMULATE_LOG");
    return path && *path;
}

void emulate_print(const char *format, ...)
{
    static const char prefix[] = "yoke: stand-in CUDA driver: ";
    char line[1600];
    memcpy(line, prefix, sizeof prefix);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line + sizeof prefix - 1, sizeof line - sizeof prefix, format, arguments);
    va_end(arguments);
    length += (int)sizeof prefix - 1;
    if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
    line[length++] = '\n';
    /* One write a line, so that the lines of several processes do not mix. */
    const int file = emulate_log_is_set()
                         ? open(getenv("YOKE_EMULATE_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)
                         : -1;
    if (write(file >= 0 ? file : STDERR_FILENO, line, (size_t)length) < 0) {
        /* Nobody is left to whom this could be said. */
    }
    if (file >= 0) close(file);
}

void emulate_keep_fault(const char *text) { snprintf(last_fault, sizeof last_fault, "%s", text); }

const char *yoke_emulate_last_fault(void)
{
    static __thread char copy[sizeof last_fault];
    emulate_lock();
    memcpy(copy, last_fault, sizeof copy);
    emulate_unlock();
    return copy;
}

/* ---- names ---- */

static const struct name *find_name(uint64_t address)
{
    const struct name *name = names;
    while (name && (address < name->address || address >= name->address + name->bytes)) name = name->next;
    return name;
}

/* The allocation whose bytes and red zones hold the address, or was when it was freed. */
static const struct block *find_block(uint64_t address, bool *freed_out)
{
    const struct CUctx_st *owner = emulate_context_of(address);
    *freed_out = false;
    for (const struct block *b = owner ? owner->zone.blocks : emulate_host_zone.blocks; b; b = b->next)
        if (address >= b->first && address < b->end) return b;
    *freed_out = true;
    for (unsigned i = 0; i < N_FREED && i < n_freed; i++) {
        const struct block *b = &freed[(n_freed - 1 - i) % N_FREED];
        if (address >= b->first && address < b->end) return b;
    }
    return NULL;
}

const char *emulate_name_of(void *context, uint64_t address)
{
    (void)context;
    static __thread char text[400];
    size_t used = 0;
    text[0] = 0;
    emulate_lock();
    const struct name *name = find_name(address);
    if (name)
        used = (size_t)snprintf(text, sizeof text, "%.200s + %llu, ", name->text,
                                (unsigned long long)(address - name->address));
    bool was_freed;
    const struct block *b = find_block(address, &was_freed);
    const char *state = was_freed ? " that were freed" : "";
    if (!b)
        snprintf(text + used, sizeof text - used, "near no allocation");
    else if (address < b->address)
        snprintf(text + used, sizeof text - used, "%llu bytes before the %llu bytes at 0x%llx%s",
                 (unsigned long long)(b->address - address), (unsigned long long)b->bytes,
                 (unsigned long long)b->address, state);
    else if (address < b->address + b->bytes)
        snprintf(text + used, sizeof text - used, "byte %llu of the %llu bytes at 0x%llx%s",
                 (unsigned long long)(address - b->address), (unsigned long long)b->bytes,
                 (unsigned long long)b->address, state);
    else
        snprintf(text + used, sizeof text - used, "%llu bytes behind the end of the %llu bytes at 0x%llx%s",
                 (unsigned long long)(address - b->address - b->bytes), (unsigned long long)b->bytes,
                 (unsigned long long)b->address, state);
    emulate_unlock();
    return text;
}

void emulate_names_remove(uint64_t address, uint64_t bytes)
{
    for (struct name **at = &names; *at;) {
        struct name *name = *at;
        if (name->address >= address && name->address + name->bytes <= address + bytes) {
            *at = name->next;
            free(name);
        } else {
            at = &name->next;
        }
    }
}

int yoke_emulate_name(uint64_t address, size_t bytes, const char *text)
{
    struct CUctx_st *context;
    struct place place;
    CUresult result = emulate_enter(&context);
    if (result) return result;
    result = bytes ? emulate_place(address, bytes, true, &place) : CUDA_ERROR_INVALID_VALUE;
    if (result) return emulate_leave(result);
    emulate_names_remove(address, bytes);
    if (!text || !*text) return emulate_leave(CUDA_SUCCESS);
    struct name *name = malloc(sizeof *name + strlen(text) + 1);
    if (!name) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *name = (struct name){ names, address, bytes };
    strcpy(name->text, text);
    names = name;
    return emulate_leave(CUDA_SUCCESS);
}

void emulate_remember_freed(const struct block *block) { freed[n_freed++ % N_FREED] = *block; }

/* ---- states ---- */

static CUresult run_annotate(struct command *command, char *text, size_t text_bytes)
{
    struct place *to = &command->to;
    /* The allocation may have been freed since the call. */
    if (!memchr(to->state, PTX_OUTSIDE, command->bytes)) {
        memset(to->state, (int)command->value, command->bytes);
        return CUDA_SUCCESS;
    }
    snprintf(text, text_bytes, "yoke_emulate_annotate of %zu bytes at 0x%llx that were freed", command->bytes,
             (unsigned long long)to->address);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult annotate(uint64_t address, size_t bytes, int state, CUstream handle, bool async)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    struct place place;
    CUresult result = emulate_enter(&context);
    if (result) return result;
    if (state < YOKE_EMULATE_UNDEFINED || state > YOKE_EMULATE_FORBIDDEN)
        return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    result = emulate_stream_of(context, handle, &stream);
    if (!result) result = emulate_place(address, bytes, true, &place);
    if (!result && !place.state) result = CUDA_ERROR_INVALID_VALUE; /* pinned memory has no states */
    if (result || !bytes) return emulate_leave(result);
    if (!async) {
        memset(place.state, state, bytes);
        return emulate_leave(CUDA_SUCCESS);
    }
    struct command *command = emulate_command_new();
    if (!command) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    command->run = run_annotate;
    command->to = place;
    command->bytes = bytes;
    command->value = (uint32_t)state;
    return emulate_leave(emulate_submit(stream, command));
}

int yoke_emulate_annotate(uint64_t address, size_t bytes, int state)
{
    return annotate(address, bytes, state, NULL, false);
}

int yoke_emulate_annotate_async(uint64_t address, size_t bytes, int state, CUstream stream)
{
    return annotate(address, bytes, state, stream, true);
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
        const struct name *name = find_name(b->address);
        emulate_print("cuda:%d: not freed: %llu bytes at 0x%llx, allocation %llu%s%s", context->ordinal,
                      (unsigned long long)b->bytes, (unsigned long long)b->address, b->id, name ? ", " : "",
                      name ? name->text : "");
    }
    for (const struct block *b = emulate_host_zone.blocks; b; b = b->next)
        if (b->owner == context)
            emulate_print("cuda:%d: not freed: %llu bytes of pinned memory at 0x%llx", context->ordinal,
                          (unsigned long long)b->bytes, (unsigned long long)b->address);
    emulate_objects(context, report_object);
}

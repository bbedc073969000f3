/* SPDX-License-Identifier: Apache-2.0 */
/* The names of memory, for messages, and what was freed last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/gpu/driver.h"
#include "emulate/gpu/labels.h"

enum {
    N_FREED = 64,
    NEAR = 256, /* an address that lies so many bytes behind a name is described by this name, too */
};

struct name *emulate_names;
static struct block freed[N_FREED]; /* a ring of those that were freed last */
static unsigned n_freed;

static bool is_over(const struct name *name) { return name->begins && !name->users; }

static const struct name *find_name(uint64_t address)
{
    const struct name *name = emulate_names;
    while (name && (address < name->address || address - name->address >= name->bytes)) name = name->next;
    return name;
}

/* The name of bytes that are in use, and end directly before the address. */
static const struct name *find_before(uint64_t address)
{
    const struct name *best = NULL;
    uint64_t least = NEAR;
    for (const struct name *name = emulate_names; name; name = name->next) {
        const uint64_t end = name->address + name->bytes;
        if (is_over(name) || address < end || address - end >= least) continue;
        least = address - end;
        best = name;
    }
    return best;
}

const char *emulate_plain_name(uint64_t address)
{
    const struct name *name = find_name(address);
    return name ? name->text : NULL;
}

/* The allocation whose bytes and red zones hold the address, or was when it was freed. */
static const struct block *find_block(uint64_t address, bool *freed_out)
{
    const struct context *owner = emulate_context_of(address);
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

static size_t describe_name(uint64_t address, char *text, size_t bytes)
{
    const struct name *name = find_name(address),
                      *before = !name || is_over(name) ? find_before(address) : NULL;
    size_t used = 0;
    if (before)
        used = (size_t)snprintf(text, bytes, "%llu bytes behind the end of %.120s, ",
                                (unsigned long long)(address - before->address - before->bytes),
                                before->text);
    if (name)
        used += (size_t)snprintf(text + used, bytes - used, "%.120s%s + %llu, ", name->text,
                                 is_over(name) ? ", which has ended," : "",
                                 (unsigned long long)(address - name->address));
    return used;
}

void emulate_describe(uint64_t address, char *text, size_t bytes)
{
    const size_t used = describe_name(address, text, bytes);
    bool was_freed;
    const struct block *b = find_block(address, &was_freed);
    const char *state = was_freed ? " that were freed" : "";
    if (emulate_registered_holds(address))
        snprintf(text + used, bytes - used, "in registered memory of the host");
    else if (!b)
        snprintf(text + used, bytes - used, "near no allocation");
    else if (address < b->address)
        snprintf(text + used, bytes - used, "%llu bytes before the %llu bytes at 0x%llx%s",
                 (unsigned long long)(b->address - address), (unsigned long long)b->bytes,
                 (unsigned long long)b->address, state);
    else if (address < b->address + b->bytes)
        snprintf(text + used, bytes - used, "byte %llu of the %llu bytes at 0x%llx%s",
                 (unsigned long long)(address - b->address), (unsigned long long)b->bytes,
                 (unsigned long long)b->address, state);
    else
        snprintf(text + used, bytes - used, "%llu bytes behind the end of the %llu bytes at 0x%llx%s",
                 (unsigned long long)(address - b->address - b->bytes), (unsigned long long)b->bytes,
                 (unsigned long long)b->address, state);
}

const char *emulate_name_of(void *context, uint64_t address)
{
    static __thread char text[500];
    (void)context;
    emulate_lock();
    emulate_describe(address, text, sizeof text);
    emulate_unlock();
    return text;
}

void emulate_names_remove(uint64_t address, uint64_t bytes)
{
    for (struct name **at = &emulate_names; *at;) {
        struct name *name = *at;
        if (name->address >= address && name->address + name->bytes <= address + bytes) {
            *at = name->next;
            free(name);
        } else {
            at = &name->next;
        }
    }
}

struct name *emulate_name_new(uint64_t address, uint64_t bytes, const char *text)
{
    struct name *name = malloc(sizeof *name + strlen(text) + 1);
    if (!name) return NULL;
    *name = (struct name){ .address = address, .bytes = bytes };
    strcpy(name->text, text);
    return name;
}

/* The newest name counts, so it comes first. It takes the place of the names that lie in its range. */
void emulate_name_add(struct name *name)
{
    emulate_names_remove(name->address, name->bytes);
    name->next = emulate_names;
    emulate_names = name;
}

void emulate_remember_freed(const struct block *block) { freed[n_freed++ % N_FREED] = *block; }

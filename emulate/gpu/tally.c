/* SPDX-License-Identifier: Apache-2.0 */
/* How often each kernel ran, and what its launches counted. */
#include <stdlib.h>
#include <string.h>

#include "emulate/gpu/driver.h"

static struct tally *tallies;

struct tally *emulate_tally_of(const char *name)
{
    struct tally *tally = tallies;
    while (tally && strcmp(tally->name, name) != 0) tally = tally->next;
    if (tally) return tally;
    tally = calloc(1, sizeof *tally + strlen(name) + 1);
    if (!tally) return NULL;
    strcpy(tally->name, name);
    tally->next = tallies;
    tallies = tally;
    return tally;
}

static void add(struct kernel_counts *sum, const struct kernel_counts *part)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)part;
    _Static_assert(sizeof *sum % sizeof *to == 0, "all counts are 64-bit numbers");
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++) to[i] += from[i];
}

void emulate_tally_add(struct tally *tally, const struct kernel_counts *counts)
{
    tally->launches++;
    add(&tally->counts, counts);
}

uint64_t yoke_emulate_counts(const char *kernel, struct kernel_counts *counts_out)
{
    uint64_t launches = 0;
    struct kernel_counts sum = { 0 };
    emulate_lock();
    for (const struct tally *tally = tallies; tally; tally = tally->next) {
        if (kernel && strcmp(kernel, tally->name) != 0) continue;
        launches += tally->launches;
        add(&sum, &tally->counts);
    }
    emulate_unlock();
    if (counts_out) *counts_out = sum;
    return launches;
}

uint64_t yoke_emulate_calls(void)
{
    emulate_lock();
    const uint64_t calls = emulate_n_calls;
    emulate_unlock();
    return calls;
}

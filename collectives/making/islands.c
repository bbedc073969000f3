/* SPDX-License-Identifier: Apache-2.0 */
/* How the configuration groups the ranks: the kind of groups, and the label of this rank's island. */
#include <string.h>

#include "collectives/making/making.h"

static const char *const names[] = { "auto", "vendor", "host", "off", NULL };

const char *yokei_island_name(unsigned island)
{
    return island < YOKE_COUNT(names) - 1 ? names[island] : "?";
}

static yoke_status read_island(enum yoke_island *island)
{
    const char *text = getenv("YOKE_ISLAND");
    if (!text || !*text || *island) return YOKE_OK;
    for (int i = 0; names[i]; i++)
        if (!strcmp(text, names[i])) {
            *island = (enum yoke_island)i;
            return YOKE_OK;
        }
    const char *near = yokei_nearest(text, names);
    return yoke_fail(YOKE_ECONFIG, "YOKE_ISLAND=%s: one of auto, vendor, host, off%s%s%s", text,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* A list of labels for n ranks. This rank is rank `own` of them. */
struct list {
    const char *text, *what; /* `what`: the name of the field or of the variable */
    int n, own;
};

static yoke_status refuse(const struct list *l, const char *at, const char *why)
{
    return yoke_fail(
        YOKE_ECONFIG,
        "%s=%.80s: at \"%.40s\": %s; wanted one label of at most %d letters for each of %d ranks, such as 0,0,1,1 or left*2,right*2",
        l->what, l->text, at, why, YOKEI_ISLAND_NAME - 1, l->n);
}

/* Read a label, or LABEL*K. *end_out is the comma behind it, or the end of the text. */
static yoke_status read_label(const struct list *l, const char *at, char *label_out, long *times_out,
                              const char **end_out)
{
    const size_t length = strcspn(at, ",*");
    char *end = (char *)(uintptr_t)(at + length);
    *times_out = 1;
    if (!length) return refuse(l, at, "there is no label");
    if (length >= YOKEI_ISLAND_NAME) return refuse(l, at, "this label is too long");
    memcpy(label_out, at, length);
    label_out[length] = '\0';
    if (*end == '*') {
        const bool digit = end[1] >= '0' && end[1] <= '9';
        *times_out = digit ? strtol(end + 1, &end, 10) : 0;
        if (*times_out < 1 || (*end && *end != ',')) return refuse(l, at, "this is no number of ranks");
    }
    *end_out = end;
    return YOKE_OK;
}

static yoke_status read_labels(yoke_comm *comm, const struct list *l)
{
    long r = 0, times = 0;
    for (const char *at = l->text, *end = at; at; at = *end ? end + 1 : NULL) {
        char label[YOKEI_ISLAND_NAME];
        YOKE_TRY(read_label(l, at, label, &times, &end));
        if (times > l->n - r) return refuse(l, at, "there are more labels than ranks");
        if (l->own >= r && l->own < r + times) memcpy(comm->settings.label, label, sizeof label);
        r += times;
    }
    if (r < l->n) return refuse(l, l->text, "there are fewer labels than ranks");
    comm->settings.labels = YOKE_MAX(yokei_hash32(l->text, strlen(l->text), (uint32_t)l->n), 1u);
    return YOKE_OK;
}

yoke_status yokei_islands_read(yoke_comm *comm, enum yoke_island island, const char *labels)
{
    comm->settings.island = island;
    YOKE_TRY(read_island(&comm->settings.island));
    comm->settings.labels_in_config = labels && *labels;
    if (comm->settings.labels_in_config)
        return read_labels(comm, &(struct list){ labels, "island_of", comm->size, comm->rank });
    labels = getenv("YOKE_ISLAND_OF");
    if (!labels || !*labels) return YOKE_OK;
    return read_labels(comm, &(struct list){ labels, "YOKE_ISLAND_OF", yokei_process.n_world,
                                             yokei_process.world_rank });
}

void yokei_islands_inherit(yoke_comm *comm, const yoke_comm *parent)
{
    if (comm->settings.labels_in_config) return;
    memcpy(comm->settings.label, parent->settings.label, sizeof comm->settings.label);
    comm->settings.labels = parent->settings.labels;
}

const char *yokei_islands_own(const yoke_comm *comm)
{
    if (comm->settings.labels) return comm->settings.label;
    return comm->device ? yoke_device_info(comm->device)->vendor : "host";
}

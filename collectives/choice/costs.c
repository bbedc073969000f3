/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model as a text. making/measure.c measures the costs.
 * The costs never change a sum's bits. They only decide between algorithms that all add in the order of the
 * ranks. The text form ("sync_us=0.25,shared_gbps=21,...") is used in the configuration, YOKE_COSTS and
 * plan.json.
 */
#include <stdio.h>
#include <string.h>

#include "collectives/choice/costs.h"

static const struct {
    const char *name;
    size_t at;
} fields[] = {
    { "sync_us", offsetof(struct yokei_costs, sync_us) },
    { "shared_gbps", offsetof(struct yokei_costs, shared_gbps) },
    { "long_gbps", offsetof(struct yokei_costs, long_gbps) },
    { "sum_gbps", offsetof(struct yokei_costs, sum_gbps) },
    { "message_us", offsetof(struct yokei_costs, message_us) },
    { "message_gbps", offsetof(struct yokei_costs, message_gbps) },
    { "oneshot_bytes", offsetof(struct yokei_costs, oneshot_bytes) },
};

static double *field(struct yokei_costs *costs, size_t i)
{
    return (double *)(void *)((char *)costs + fields[i].at);
}

yoke_status yokei_costs_read(const char *text, struct yokei_costs *costs)
{
    const char *names[YOKE_COUNT(fields) + 1] = { NULL };
    for (size_t i = 0; i < YOKE_COUNT(fields); i++) names[i] = fields[i].name;
    *costs = (struct yokei_costs){ 0 };
    unsigned seen = 0;
    for (const char *at = text; *at;) {
        char name[32] = "";
        double value = -1;
        int length = 0;
        const int n = sscanf(at, "%31[a-z_]=%lf%n", name, &value, &length);
        size_t i = 0;
        while (i < YOKE_COUNT(fields) && strcmp(fields[i].name, name)) i++;
        if (n != 2 || i == YOKE_COUNT(fields) || !(value >= 0 && value < 1e12)
            || (at[length] && at[length] != ',')) {
            const char *near = i == YOKE_COUNT(fields) ? yokei_nearest(name, names) : NULL;
            return yoke_fail(YOKE_ECONFIG,
                             "costs \"%s\": at \"%.40s\": wanted name=number, parted by commas%s%s%s", text,
                             at, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        }
        *field(costs, i) = value;
        seen |= 1u << i;
        at += length;
        if (*at == ',') at++;
    }
    for (size_t i = 0; i < YOKE_COUNT(fields); i++)
        if (!(seen >> i & 1))
            return yoke_fail(YOKE_ECONFIG, "costs \"%s\": %s is missing", text, fields[i].name);
    return YOKE_OK;
}

void yokei_costs_text(const struct yokei_costs *costs, char *text_out, size_t bytes)
{
    size_t used = 0;
    text_out[0] = '\0';
    for (size_t i = 0; i < YOKE_COUNT(fields) && used < bytes; i++) {
        yokei_text(text_out + used, bytes - used, "%s%s=%.4g", i ? "," : "", fields[i].name,
                   *field((struct yokei_costs *)(uintptr_t)costs, i));
        used = strlen(text_out);
    }
}

void yokei_costs_inherit(yoke_comm *comm, const yoke_comm *parent)
{
    if (!comm->settings.costs_given) comm->costs = parent->costs;
    if (!comm->all_shared || parent->all_shared) return;
    /* The parent's messages went between hosts. The fixed rule applies, without a measurement. */
    comm->costs.message_us = comm->costs.message_gbps = comm->costs.oneshot_bytes = 0;
}

size_t yokei_costs_count(void) { return YOKE_COUNT(fields); }

double *yokei_costs_value(struct yokei_costs *costs, size_t i, bool *more_is_worse_out)
{
    *more_is_worse_out = strstr(fields[i].name, "_us") != NULL;
    return field(costs, i);
}

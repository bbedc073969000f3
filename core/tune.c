/* SPDX-License-Identifier: Apache-2.0 */
/* The chosen variants of a device: their storage, and the choice of the variant for each call. */
#include "core/tune.h"
#include "core/base/base.h"

#include <stdlib.h>
#include <string.h>

yoke_status yokei_tuning_create(yoke_device *device, const char *file)
{
    struct yokei_tuning *t = calloc(1, sizeof *t);
    if (!t) return yoke_fail(YOKE_ENOMEM, "tuning: no memory");
    for (int op = 0; op < YOKE_N_OPS; op++) {
        t->forced[op] = -1;
        atomic_init(&t->asked[op].variant, -1);
    }
    device->tuning = t;
    const yoke_status status = yokei_tuning_find(device, file, t);
    if (status) yokei_tuning_destroy(device);
    return status;
}

void yokei_tuning_destroy(yoke_device *device)
{
    if (device->tuning) free(device->tuning->choices);
    free(device->tuning);
    device->tuning = NULL;
}

const struct yokei_tuning_source *yokei_tuning_source(const yoke_device *device)
{
    return &device->tuning->source;
}

/*
 * Whether line `a` has priority over line `b`, if both apply to a call. A line that names the type has
 * priority, then the line with the greater edge, then the line with the greater size.
 */
static bool is_closer(const struct yokei_choice *a, const struct yokei_choice *b)
{
    if (!b) return true;
    if ((a->dtype < 0) != (b->dtype < 0)) return b->dtype < 0;
    return a->edge != b->edge ? a->edge > b->edge : a->size > b->size;
}

/* The line that applies to a call, or NULL. */
static const struct yokei_choice *closest(const struct yokei_tuning *t, const struct yokei_call *call)
{
    const struct yokei_choice *best = NULL;
    for (size_t i = 0; i < t->n; i++) {
        const struct yokei_choice *c = &t->choices[i];
        const bool holds = c->op == call->op && (c->dtype < 0 || c->dtype == (int)call->dtype)
                           && c->size <= call->size && c->edge <= call->edge;
        if (holds && is_closer(c, best)) best = c;
    }
    return best;
}

static int chosen(const struct yokei_tuning *t, const struct yokei_call *call, int otherwise)
{
    const struct yokei_choice *best = closest(t, call);
    return best && best->variant != YOKEI_BY_RULE ? best->variant : otherwise;
}

int yokei_variant(const yoke_device *device, const struct yokei_call *call, int otherwise)
{
    struct yokei_tuning *t = device->tuning;
    struct yokei_asked *asked = &t->asked[call->op];
    const int forced = t->forced[call->op], unforced = chosen(t, call, otherwise),
              variant = forced >= 0 ? forced : unforced;
    if (unforced >= 0 && unforced < 64)
        atomic_fetch_or_explicit(&asked->unforced, UINT64_C(1) << unforced, memory_order_relaxed);
    atomic_store_explicit(&asked->size, call->size, memory_order_relaxed);
    atomic_store_explicit(&asked->edge, call->edge, memory_order_relaxed);
    atomic_store_explicit(&asked->variant, variant, memory_order_relaxed);
    return variant;
}

const char *yokei_variant_detail(const yoke_device *device, const struct yokei_call *call)
{
    const struct yokei_tuning *t = device->tuning;
    if (t->forced[call->op] >= 0) return t->forced_detail[call->op];
    const struct yokei_choice *best = closest(t, call);
    return best ? best->detail : "";
}

void yokei_variant_ran(const yoke_device *device, enum yoke_op_id op, int variant)
{
    atomic_store_explicit(&device->tuning->asked[op].variant, variant, memory_order_relaxed);
}

unsigned yokei_variant_facts(const yoke_device *device, enum yoke_op_id op)
{
    const int variant = atomic_load(&device->tuning->asked[op].variant);
    const struct yoke_device_extras *extras = device->backend->device->extras;
    return variant < 0 || !extras || !extras->facts ? 0 : extras->facts(device, op, variant);
}

void yokei_algorithm_used(const yoke_device *device, enum yoke_op_id op, char *text, size_t bytes)
{
    const struct yoke_device_extras *extras = device->backend->device->extras;
    text[0] = '\0';
    if (yokei_variant_facts(device, op) & YOKEI_VARIANT_LIBRARY && extras->algorithm)
        extras->algorithm(device, op, text, bytes);
}

uint64_t yokei_variants_unforced(const yoke_device *device, enum yoke_op_id op)
{
    return atomic_exchange(&device->tuning->asked[op].unforced, 0);
}

bool yokei_variant_is_forced(const yoke_device *device, enum yoke_op_id op)
{
    return device->tuning->forced[op] >= 0;
}

const char *yokei_variant_used(const yoke_device *device, enum yoke_op_id op, double *size_out,
                               double *edge_out)
{
    const struct yokei_asked *asked = &device->tuning->asked[op];
    *size_out = atomic_load(&asked->size);
    *edge_out = atomic_load(&asked->edge);
    const char *name = yoke_variant_name(device, yokei_op_names[op], atomic_load(&asked->variant));
    return name ? name : "";
}

const char *yoke_variant_name(const yoke_device *device, const char *op, int index)
{
    const int id = device && op ? yokei_op_named(op) : -1;
    if (id < 0 || index < 0 || !device->backend->device->variant) return NULL;
    if (yokei_check_maker("yoke_variant_name", device)) return NULL;
    return device->backend->device->variant(device, (enum yoke_op_id)id, index);
}

yoke_status yoke_variant_force(yoke_device *device, const char *op, const char *variant)
{
    const int id = device && op ? yokei_op_named(op) : -1;
    if (id < 0) return yoke_fail(YOKE_EINVAL, "yoke_variant_force: no op is called '%s'", op ? op : "(null)");
    YOKE_TRY(yokei_check_maker("yoke_variant_force", device));
    int v = -1;
    if (variant) {
        v = yokei_variant_named(device, (enum yoke_op_id)id, variant);
        if (v < 0)
            return yoke_fail(YOKE_EINVAL, "yoke_variant_force: device %s has no variant '%s' of %s",
                             device->info.spec, variant, op);
    }
    const char *colon = variant ? strchr(variant, ':') : NULL;
    yokei_text(device->tuning->forced_detail[id], YOKEI_DETAIL_BYTES, "%s", colon ? colon + 1 : "");
    device->tuning->forced[id] = v;
    return YOKE_OK;
}

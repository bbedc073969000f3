/* SPDX-License-Identifier: Apache-2.0 */
/* What the public functions of all ops do before and after the checks of their family. */
#include "core/ops/check.h"

#include <string.h>

/* `call` is the name of the public function. The first member of all arguments is their size. */
static yoke_status begin(enum yoke_op_id op, const char *call, const yoke_device *device, const void *args,
                         size_t bytes)
{
    if (!device || !args) return yoke_fail(YOKE_EINVAL, "%s: a NULL argument", call);
    YOKE_TRY(yokei_check_maker(call, device));
    return yokei_check_size(yokei_op_names[op], *(const size_t *)args, bytes);
}

yoke_status yokei_op_begin(enum yoke_op_id op, const yoke_stream *stream, const void *args, size_t bytes)
{
    return begin(op, yokei_op_names[op], stream ? stream->device : NULL, args, bytes);
}

yoke_status yokei_op_begin_can(enum yoke_op_id op, const yoke_device *device, const void *args, size_t bytes)
{
    char call[64];
    yokei_text(call, sizeof call, "%s_can", yokei_op_names[op]);
    return begin(op, call, device, args, bytes);
}

/* The types that the device stores, as "f32, f16 or bf16". */
static void name_types(const struct yoke_device_info *info, char *text, size_t bytes)
{
    uint32_t left = info->storage;
    text[0] = '\0';
    for (int t = 0; t < YOKE_N_DTYPES; t++) {
        if (!(left >> t & 1)) continue;
        left &= ~(1u << t);
        const size_t used = strlen(text);
        yokei_text(text + used, bytes - used, "%s%s",
                   !used  ? ""
                   : left ? ", "
                          : " or ",
                   yoke_dtype_name((yoke_dtype)t));
    }
}

static yoke_status check_type(const yoke_device *device, const struct yokei_call *call, yoke_dtype dtype)
{
    char types[64];
    if ((unsigned)dtype < YOKE_N_DTYPES && device->info.storage >> dtype & 1) return YOKE_OK;
    name_types(&device->info, types, sizeof types);
    return yoke_fail(YOKE_EUNSUPPORTED, "%s: type %s is not offered on device %s; use %s",
                     yokei_op_names[call->op], yoke_dtype_name(dtype), device->info.spec, types);
}

/* The backend's entry of the op. *entry_out is valid without an error alone. */
static yoke_status find(const yoke_device *device, const struct yokei_call *call,
                        const struct yoke_op **entry_out)
{
    *entry_out = device->backend->ops[call->op];
    if (!*entry_out)
        return yoke_fail(YOKE_EUNSUPPORTED, "%s: device %s does not have this operation",
                         yokei_op_names[call->op], device->info.spec);
    YOKE_TRY(check_type(device, call, call->dtype));
    return check_type(device, call, call->second);
}

yoke_status yokei_op_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_op *entry;
    YOKE_TRY(find(stream->device, call, &entry));
    stream->last_op = yokei_op_names[call->op];
    return entry->run(stream, call);
}

/* Compile and load the programs of a call. The addresses are those of a plan. */
static yoke_status prepare(const yoke_device *device, const struct yoke_op *entry,
                           const struct yokei_call *call)
{
    yoke_stream dry = { .device = (yoke_device *)(uintptr_t)device,
                        .scratch_bytes = SIZE_MAX,
                        .last_op = yokei_op_names[call->op],
                        .is_dry = true };
    return entry->run(&dry, call);
}

yoke_status yokei_op_can(const yoke_device *device, const struct yokei_call *call, struct yoke_cost *cost_out)
{
    struct yoke_cost cost = { .size = sizeof cost, .flops = call->flops, .bytes = call->bytes };
    const struct yoke_op *entry;
    YOKE_TRY(find(device, call, &entry));
    if (entry->can) YOKE_TRY(entry->can(device, call, &cost.scratch_bytes));
    if (device->prepares) YOKE_TRY(prepare(device, entry, call));
    if (cost_out) *cost_out = cost;
    return YOKE_OK;
}

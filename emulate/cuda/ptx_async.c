/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cp.async: copies from global to shared memory that do not wait. A copy reads when it is executed, and
 * writes when its lane waits for it, which is the latest moment that a program may see. Until then the bytes
 * in shared memory count as never written, so a missing wait is found when they are read. The write is an
 * access of the waiting lane, so a missing barrier behind the wait is found as a race.
 */
#include "emulate/cuda/ptx_run.h"

#include <stdlib.h>
#include <string.h>

static uint32_t bytes_of(const struct ptx_instruction *I)
{
    return I->type == PTX_U32 ? 4 : 8 * (uint32_t)I->vector;
}

static struct kernel_access access_of(const struct ptx_warp *warp, const struct ptx_instruction *I,
                                      enum kernel_access_kind kind, uint32_t lanes)
{
    return (struct kernel_access){ .kind = kind,
                                   .bytes = bytes_of(I),
                                   .align = bytes_of(I),
                                   .warp = warp->index,
                                   .warp_epoch = warp->epoch,
                                   .lanes = lanes,
                                   .where = I };
}

/* The bytes that the lanes read, at least 0. Fails if a lane reads a part, which is not done here. */
static bool lanes_that_read(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I,
                            uint32_t lanes, uint32_t *reading_out)
{
    char *const bases[2] = { warp->registers, s->constants };
    const union ptx_slot *count = ptx_at(bases, I->c);
    *reading_out = lanes;
    for (int l = 0; l < PTX_LANES && I->counted; l++) {
        if (!(lanes >> l & 1)) continue;
        if (!count->w[l])
            *reading_out &= ~((uint32_t)1 << l);
        else if (count->w[l] != bytes_of(I))
            return ptx_fault_at(s, warp, l, I, KERNEL_LIMIT,
                                "copies %u of %u bytes, but this executor copies all or none", count->w[l],
                                bytes_of(I));
    }
    return true;
}

static bool read_global(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I,
                        uint32_t lanes, struct ptx_pending *pending)
{
    char *const bases[2] = { warp->registers, s->constants };
    const union ptx_slot *from = ptx_at(bases, I->a);
    struct kernel_row row;
    uint32_t reading;
    if (!lanes_that_read(s, warp, I, lanes, &reading)) return false;
    memset(pending->data, 0, sizeof pending->data);
    if (!reading) return true;
    struct kernel_access access = access_of(warp, I, KERNEL_LOAD, reading);
    for (int l = 0; l < PTX_LANES; l++) access.addresses[l] = from->q[l] + (uint64_t)I->offset;
    if (!kernel_check_global(&s->b, &access, &row)) return false;
    for (uint32_t left = reading; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        memcpy(pending->data[lane], kernel_global_at(&s->b, access.addresses[lane]), bytes_of(I));
    }
    return true;
}

/* Check a write of pending bytes to shared memory. */
static bool check_write(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_pending *pending,
                        uint32_t lanes)
{
    struct kernel_access access = access_of(warp, pending->I, KERNEL_STORE, lanes);
    for (int l = 0; l < PTX_LANES; l++) access.addresses[l] = pending->at[l];
    return kernel_check_shared(&s->b, &access);
}

bool ptx_copy(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I, uint32_t lanes)
{
    char *const bases[2] = { warp->registers, s->constants };
    const union ptx_slot *to = ptx_at(bases, I->b);
    const uint32_t shift = s->b.shared_shift;
    if (warp->n_pending == warp->pending_capacity) {
        const int more = warp->pending_capacity ? 2 * warp->pending_capacity : 32;
        void *grown = realloc(warp->pending, (size_t)more * sizeof *warp->pending);
        if (!grown)
            return ptx_fault_at(s, warp, __builtin_ctz(lanes), I, KERNEL_NO_MEMORY,
                                "has more pending copies than there is memory for");
        warp->pending = grown;
        warp->pending_capacity = more;
    }
    struct ptx_pending *pending = &warp->pending[warp->n_pending];
    pending->I = I;
    pending->lanes = lanes;
    memcpy(pending->group, warp->copy_groups, sizeof pending->group);
    for (int l = 0; l < PTX_LANES; l++)
        pending->at[l] = (uint32_t)((I->wide_from ? to->q[l] : to->w[l]) + (uint64_t)(int64_t)I->target);
    if (!read_global(s, warp, I, lanes, pending) || !check_write(s, warp, pending, lanes)) return false;
    for (uint32_t left = lanes; left; left &= left - 1) {
        uint64_t *entry = &s->b.shadow[pending->at[__builtin_ctz(left)] >> shift];
        for (uint32_t i = 0; i < bytes_of(I) >> shift; i++) entry[i] &= ~(uint64_t)1; /* never written */
    }
    warp->n_pending++;
    return true;
}

void ptx_copy_commit(struct ptx_warp *warp, uint32_t lanes)
{
    for (int l = 0; l < PTX_LANES; l++) warp->copy_groups[l] += lanes >> l & 1;
}

bool ptx_copy_wait(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I,
                   uint32_t lanes)
{
    int kept = 0;
    for (int i = 0; i < warp->n_pending; i++) {
        struct ptx_pending *pending = &warp->pending[i];
        uint32_t done = 0;
        for (int l = 0; l < PTX_LANES; l++)
            done |= (uint32_t)(I->offset < 0 || pending->group[l] + I->offset < warp->copy_groups[l]) << l;
        done &= lanes & pending->lanes;
        if (done && !check_write(s, warp, pending, done)) return false;
        for (uint32_t left = done; left; left &= left - 1) {
            const int lane = __builtin_ctz(left);
            memcpy(s->b.shared + pending->at[lane], pending->data[lane], bytes_of(pending->I));
        }
        pending->lanes &= ~done;
        if (!pending->lanes) continue;
        if (kept != i) warp->pending[kept] = *pending;
        kept++;
    }
    warp->n_pending = kept;
    return true;
}

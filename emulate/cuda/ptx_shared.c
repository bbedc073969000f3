/* SPDX-License-Identifier: Apache-2.0 */
/* Shared and local memory. The checks are those of emulate/gpu. */
#include "emulate/cuda/ptx_run.h"

#include <string.h>

/* ---- shared memory ---- */

/* Words between shared memory and the registers of all lanes, whose addresses are good. */
static void move_words(const struct ptx_access *access, unsigned char *shared, uint32_t *slot)
{
    const uint64_t *at = access->a.addresses;
    if (access->I->kind == PTX_LOAD)
        for (int l = 0; l < PTX_LANES; l++) memcpy(&slot[l], shared + at[l], 4);
    else
        for (int l = 0; l < PTX_LANES; l++) memcpy(shared + at[l], &slot[l], 4);
}

/* The same for single lanes, and for several registers of a lane. */
static void move_vectors(const struct ptx_access *access, char *const bases[2], unsigned char *shared)
{
    for (int i = 0; i < access->I->vector; i++) {
        uint32_t *slot = ((union ptx_slot *)ptx_at(bases, access->I->d[i]))->w;
        for (uint32_t left = access->a.lanes; left; left &= left - 1) {
            const int lane = __builtin_ctz(left);
            unsigned char *data = shared + access->a.addresses[lane] + 4 * i;
            if (access->I->kind == PTX_LOAD)
                memcpy(&slot[lane], data, 4);
            else
                memcpy(data, &slot[lane], 4);
        }
    }
}

bool ptx_access_shared(struct ptx_state *s, struct ptx_access *access)
{
    const struct ptx_instruction *I = access->I;
    char *const bases[2] = { access->warp->registers, s->constants };
    if (!kernel_check_shared(&s->b, &access->a)) return false;
    const bool words = I->kind != PTX_ATOM && access->bytes == 4 && !I->wide;
    if (words && I->vector == 1 && access->a.lanes == PTX_ALL_LANES) {
        move_words(access, s->b.shared, ((union ptx_slot *)ptx_at(bases, I->d[0]))->w);
        return true;
    }
    if (words) {
        move_vectors(access, bases, s->b.shared);
        return true;
    }
    for (uint32_t left = access->a.lanes; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        ptx_move(I, bases, lane, access->bytes, s->b.shared + access->a.addresses[lane]);
    }
    return true;
}

/* ---- local memory ---- */

/* Words of all lanes at one address: the word of the lanes lies as their registers do. */
static void move_same(const struct ptx_state *s, const struct ptx_access *access)
{
    const struct ptx_instruction *I = access->I;
    struct ptx_warp *warp = access->warp;
    char *const bases[2] = { warp->registers, s->constants };
    const uint32_t lanes = access->a.lanes;
    const uint64_t at = access->a.addresses[__builtin_ctz(lanes)];
    for (int i = 0; i < I->vector; i++) {
        uint32_t *row = (uint32_t *)(void *)warp->local + (at / 4 + (uint64_t)i) * PTX_LANES;
        uint32_t *slot = ((union ptx_slot *)ptx_at(bases, I->d[i]))->w;
        const uint32_t *from = I->kind == PTX_LOAD ? row : slot;
        uint32_t *to = I->kind == PTX_LOAD ? slot : row;
        if (lanes == PTX_ALL_LANES)
            memcpy(to, from, 4 * PTX_LANES);
        else
            PTX_EACH_LANE to[l] = lanes >> l & 1 ? from[l] : to[l];
    }
}

bool ptx_access_local(struct ptx_state *s, struct ptx_access *access)
{
    const struct ptx_instruction *I = access->I;
    struct ptx_warp *warp = access->warp;
    char *const bases[2] = { warp->registers, s->constants };
    bool same;
    if (!kernel_check_local(&s->b, &access->a, s->kernel->local_bytes, warp->local_defined, "local", &same))
        return false;
    if (same && access->bytes == 4 && !I->wide) {
        move_same(s, access);
        return true;
    }
    for (uint32_t left = access->a.lanes; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        unsigned char bytes[16];
        const uint64_t at = access->a.addresses[lane];
        const uint32_t n = access->bytes * I->vector;
        for (uint32_t i = 0; i < n; i++)
            bytes[i] = warp->local[((at + i) / 4 * PTX_LANES + (uint64_t)lane) * 4 + (at + i) % 4];
        ptx_move(I, bases, lane, access->bytes, bytes);
        for (uint32_t i = 0; i < n; i++)
            warp->local[((at + i) / 4 * PTX_LANES + (uint64_t)lane) * 4 + (at + i) % 4] = bytes[i];
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores and atomics of memory, and loads of scalars. */
#include "emulate/hip/gcn_memory_name.h"
#include "emulate/hip/gcn_run.h"

#include <string.h>

static uint32_t rows_of(const struct gcn_memory_part *m) { return m->bytes < 4 ? 1 : m->bytes / 4; }

/* ---- elements between memory and registers ---- */

static uint32_t load_short(const struct gcn_memory_part *m, const unsigned char *from, uint32_t old)
{
    uint32_t x = from[0] | (m->bytes == 2 ? (uint32_t)from[1] << 8 : 0);
    const bool is_signed = m->extend == GCN_X_SIGN || m->extend == GCN_X_SIGN_LOW
                           || m->extend == GCN_X_SIGN_HIGH;
    if (is_signed) x = m->bytes == 1 ? (uint32_t)(int8_t)x : (uint32_t)(int16_t)x;
    switch (m->extend) {
    case GCN_X_LOW:
    case GCN_X_SIGN_LOW: return (old & 0xffff0000) | (x & 0xffff);
    case GCN_X_HIGH:
    case GCN_X_SIGN_HIGH: return (old & 0xffff) | x << 16;
    default: return x;
    }
}

static void store_short(const struct gcn_memory_part *m, uint32_t x, unsigned char *to)
{
    if (m->extend == GCN_X_HIGH) x >>= 16;
    to[0] = (unsigned char)x;
    if (m->bytes == 2) to[1] = (unsigned char)(x >> 8);
}

/* One lane's element; `reg` is its first row. */
static void move_lane(struct gcn_wave *w, const struct gcn_memory_part *m, uint32_t reg, int lane,
                      unsigned char *memory)
{
    if (m->bytes < 4) {
        if (m->kind == GCN_A_LOAD)
            w->v[reg][lane] = load_short(m, memory, w->v[reg][lane]);
        else
            store_short(m, w->v[reg][lane], memory);
        return;
    }
    for (uint32_t i = 0; i < m->bytes / 4u; i++) {
        if (m->kind == GCN_A_LOAD)
            memcpy(&w->v[reg + i][lane], memory + 4 * i, 4);
        else
            memcpy(memory + 4 * i, &w->v[reg + i][lane], 4);
    }
}

/* The elements of neighbouring lanes, which lie one after another. */
static void move_row(struct gcn_wave *w, const struct gcn_memory_part *m, uint32_t reg,
                     const struct kernel_row *row)
{
    const int n = row->n;
    const uint32_t words = m->bytes / 4;
    if (m->bytes == 4) {
        if (m->kind == GCN_A_LOAD)
            memcpy(&w->v[reg][row->first], row->data, (size_t)n * 4);
        else
            memcpy(row->data, &w->v[reg][row->first], (size_t)n * 4);
        return;
    }
    if (m->bytes == 2 && m->extend == GCN_X_ZERO) {
        uint16_t halves[KERNEL_LANES];
        uint32_t *to = &w->v[reg][row->first];
        if (m->kind == GCN_A_LOAD) {
            memcpy(halves, row->data, (size_t)n * 2);
            for (int l = 0; l < n; l++) to[l] = halves[l];
        } else {
            for (int l = 0; l < n; l++) halves[l] = (uint16_t)to[l];
            memcpy(row->data, halves, (size_t)n * 2);
        }
        return;
    }
    if (m->bytes > 4) {
        for (uint32_t i = 0; i < words; i++) {
            uint32_t *slot = &w->v[reg + i][row->first];
            unsigned char *at = row->data + 4 * i;
            if (m->kind == GCN_A_LOAD)
                for (int l = 0; l < n; l++) memcpy(&slot[l], at + (size_t)l * 4 * words, 4);
            else
                for (int l = 0; l < n; l++) memcpy(at + (size_t)l * 4 * words, &slot[l], 4);
        }
        return;
    }
    for (int l = 0; l < n; l++) move_lane(w, m, reg, row->first + l, row->data + (size_t)l * m->bytes);
}

/* ---- atomics ---- */

static uint64_t changed(enum gcn_atomic what, uint64_t old, uint64_t x, uint64_t compared, bool wide)
{
    const int64_t a = wide ? (int64_t)old : (int32_t)old, b = wide ? (int64_t)x : (int32_t)x;
    union {
        uint32_t w;
        float f;
    } f = { (uint32_t)old }, g = { (uint32_t)x };
    switch (what) {
    case GCN_AT_ADD: return old + x;
    case GCN_AT_SUB: return old - x;
    case GCN_AT_SMIN: return a < b ? old : x;
    case GCN_AT_SMAX: return a > b ? old : x;
    case GCN_AT_UMIN: return old < x ? old : x;
    case GCN_AT_UMAX: return old > x ? old : x;
    case GCN_AT_AND: return old & x;
    case GCN_AT_OR: return old | x;
    case GCN_AT_XOR: return old ^ x;
    case GCN_AT_SWAP: return x;
    case GCN_AT_COMPARE: return old == compared ? x : old;
    default: f.f += g.f; return f.w;
    }
}

static uint64_t register_of(const struct gcn_wave *w, uint32_t reg, bool wide, int lane)
{
    return wide ? (uint64_t)w->v[reg + 1][lane] << 32 | w->v[reg][lane] : w->v[reg][lane];
}

static void atomic(struct gcn_wave *w, const struct gcn_instruction *I, int lane, unsigned char *memory)
{
    const struct gcn_memory_part *m = &I->m;
    const bool wide = m->bytes == 8;
    uint64_t old = 0, x = register_of(w, m->data, wide, lane), compared = 0;
    if (m->atomic == GCN_AT_COMPARE) {
        /* in LDS the first register is compared; in global memory the second pair is */
        compared = m->space == GCN_S_SHARED ? x : register_of(w, m->data + m->bytes / 4u, wide, lane);
        if (m->space == GCN_S_SHARED) x = register_of(w, m->data2, wide, lane);
    }
    memcpy(&old, memory, m->bytes);
    const uint64_t now = changed((enum gcn_atomic)m->atomic, old, x, compared, wide);
    memcpy(memory, &now, m->bytes);
    if (!m->returns) return;
    w->v[I->d.reg][lane] = (uint32_t)old;
    if (wide) w->v[I->d.reg + 1][lane] = (uint32_t)(old >> 32);
}

/* ---- spaces ---- */

static void begin(const struct gcn_wave *w, const struct gcn_instruction *I, struct kernel_access *access)
{
    static const enum kernel_access_kind kinds[] = {
        [GCN_A_LOAD] = KERNEL_LOAD, [GCN_A_STORE] = KERNEL_STORE, [GCN_A_ATOMIC] = KERNEL_ATOMIC
    };
    access->kind = kinds[I->m.kind];
    access->synchronises = false;
    access->bytes = I->m.bytes;
    /*
     * ROCm allows vectors to lie at any address of global memory, and compilers merge elements of 16 bits.
     */
    access->align = I->m.bytes < 4 ? I->m.bytes : 4;
    if (I->m.kind != GCN_A_ATOMIC && (I->m.space == GCN_S_GLOBAL || I->m.space == GCN_S_FLAT))
        access->align = 1;
    access->warp = w->index;
    access->warp_epoch = 0;
    access->lanes = gcn_exec(w);
    access->where = I;
}

/* The row that a lane's element begins in. */
static uint32_t register_for(const struct gcn_instruction *I, bool second)
{
    const struct gcn_memory_part *m = &I->m;
    if (m->kind == GCN_A_LOAD) return I->d.reg + (second ? rows_of(m) : 0);
    return second ? m->data2 : m->data;
}

/* Bytes of the code object or of the kernel's arguments; NULL: the address is not there. */
static const unsigned char *constant_at(const struct gcn_state *s, uint64_t address, uint64_t bytes)
{
    const struct gcn_object *o = s->module ? s->module->object : NULL;
    const uint64_t at = address - GCN_IMAGE, argument = address - GCN_ARGUMENTS;
    const uint64_t packet = address - GCN_PACKET;
    if (o && at < o->image_bytes && o->image_bytes - at >= bytes) return o->image + at;
    if (argument < s->argument_bytes && s->argument_bytes - argument >= bytes) return s->arguments + argument;
    if (packet < sizeof s->packet && sizeof s->packet - packet >= bytes) return s->packet + packet;
    return NULL;
}

static bool access_global(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I,
                          struct kernel_access *access)
{
    const struct gcn_memory_part *m = &I->m;
    const uint32_t reg = register_for(I, false);
    struct kernel_row row;
    if (!access->lanes) return true;
    if (m->kind == GCN_A_LOAD && access->addresses[kernel_first_lane(access->lanes)] >= GCN_PACKET)
        for (kernel_lanes left = access->lanes; left; left &= left - 1) {
            const int lane = kernel_first_lane(left);
            unsigned char copy[16];
            const unsigned char *from = constant_at(s, access->addresses[lane], m->bytes);
            if (!from) continue;
            memcpy(copy, from, m->bytes);
            move_lane(w, m, reg, lane, copy);
            access->lanes &= ~KERNEL_LANE(lane);
        }
    if (!access->lanes) return true;
    if (!kernel_check_global(&s->b, access, &row)) return false;
    if (row.n) {
        move_row(w, m, reg, &row);
        return true;
    }
    for (kernel_lanes left = access->lanes; left; left &= left - 1) {
        const int lane = kernel_first_lane(left);
        unsigned char *memory = kernel_global_at(&s->b, access->addresses[lane]);
        if (m->kind == GCN_A_ATOMIC)
            atomic(w, I, lane, memory);
        else
            move_lane(w, m, reg, lane, memory);
    }
    return true;
}

static void move_shared_words(struct gcn_wave *w, const struct gcn_memory_part *m, uint32_t reg,
                              const struct kernel_access *access, unsigned char *shared)
{
    const uint32_t words = m->bytes / 4;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t *slot = w->v[reg + i];
        if (m->kind == GCN_A_LOAD)
            for (int l = 0; l < KERNEL_LANES; l++) memcpy(&slot[l], shared + access->addresses[l] + 4 * i, 4);
        else
            for (int l = 0; l < KERNEL_LANES; l++) memcpy(shared + access->addresses[l] + 4 * i, &slot[l], 4);
    }
}

static bool access_shared(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I,
                          struct kernel_access *access, bool second)
{
    const struct gcn_memory_part *m = &I->m;
    const uint32_t reg = register_for(I, second);
    if (!access->lanes) return true;
    if (!kernel_check_shared(&s->b, access)) return false;
    if (access->lanes == KERNEL_ALL_LANES && m->bytes >= 4 && m->kind != GCN_A_ATOMIC) {
        move_shared_words(w, m, reg, access, s->b.shared);
        return true;
    }
    for (kernel_lanes left = access->lanes; left; left &= left - 1) {
        const int lane = kernel_first_lane(left);
        unsigned char *memory = s->b.shared + access->addresses[lane];
        if (m->kind == GCN_A_ATOMIC)
            atomic(w, I, lane, memory);
        else
            move_lane(w, m, reg, lane, memory);
    }
    return true;
}

/* Words of all lanes at one address: the word of the lanes lies as their registers do. */
static void move_same(struct gcn_wave *w, const struct gcn_memory_part *m, uint32_t reg,
                      const struct kernel_access *access)
{
    const kernel_lanes lanes = access->lanes;
    uint32_t *row = w->scratch + access->addresses[kernel_first_lane(lanes)] / 4 * KERNEL_LANES;
    for (uint32_t i = 0; i < rows_of(m); i++, row += KERNEL_LANES) {
        uint32_t *const to = m->kind == GCN_A_LOAD ? w->v[reg + i] : row;
        const uint32_t *const from = m->kind == GCN_A_LOAD ? row : w->v[reg + i];
        if (lanes == KERNEL_ALL_LANES)
            memcpy(to, from, sizeof *w->v);
        else
            GCN_EACH_LANE to[l] = lanes >> l & 1 ? from[l] : to[l];
    }
}

/*
 * A load from a place that is the same for all lanes may bring back registers. The compiler puts them aside
 * for the lanes of the moment and brings them back for others, and so it loads what was never written. Only
 * accesses by an address in a register, those of arrays, are checked for that.
 */
static void believe(const struct gcn_state *s, struct gcn_wave *w, const struct kernel_access *access)
{
    const uint64_t at = access->addresses[kernel_first_lane(access->lanes)];
    for (uint64_t i = at; i < at + access->bytes && i < s->scratch_bytes; i++)
        w->scratch_defined[i] |= access->lanes;
}

static bool access_scratch(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I,
                           struct kernel_access *access)
{
    const struct gcn_memory_part *m = &I->m;
    const uint32_t reg = register_for(I, false);
    bool same;
    if (!access->lanes) return true;
    if (m->kind == GCN_A_LOAD && !m->has_address) believe(s, w, access);
    if (!kernel_check_local(&s->b, access, s->scratch_bytes, w->scratch_defined, "scratch", &same))
        return false;
    if (same && m->bytes >= 4 && m->kind != GCN_A_ATOMIC) {
        move_same(w, m, reg, access);
        return true;
    }
    for (kernel_lanes left = access->lanes; left; left &= left - 1) {
        const int lane = kernel_first_lane(left);
        const uint64_t at = access->addresses[lane];
        uint32_t *word = &w->scratch[at / 4 * KERNEL_LANES + (uint64_t)lane];
        unsigned char bytes[16];
        for (uint32_t i = 0; i < rows_of(m); i++) memcpy(bytes + 4 * i, word + (size_t)i * KERNEL_LANES, 4);
        if (m->kind == GCN_A_ATOMIC)
            atomic(w, I, lane, bytes + at % 4);
        else
            move_lane(w, m, reg, lane, bytes + at % 4);
        for (uint32_t i = 0; i < rows_of(m); i++) memcpy(word + (size_t)i * KERNEL_LANES, bytes + 4 * i, 4);
    }
    return true;
}

/* ---- addresses ---- */

static void vector_addresses(const struct gcn_wave *w, const struct gcn_memory_part *m, uint64_t base,
                             uint64_t *to)
{
    const uint32_t *low = w->v[m->address], *high = w->v[m->address + 1];
    if (!m->has_address)
        GCN_EACH_LANE to[l] = base;
    else if (m->wide_address)
        GCN_EACH_LANE to[l] = ((uint64_t)high[l] << 32 | low[l]) + base;
    else
        GCN_EACH_LANE to[l] = low[l] + base;
}

/* Scratch memory and LDS have addresses of 32 bits. */
static void short_addresses(const struct gcn_wave *w, const struct gcn_memory_part *m, uint32_t base,
                            uint64_t *to)
{
    const uint32_t *low = w->v[m->address];
    if (m->has_address)
        GCN_EACH_LANE to[l] = low[l] + base;
    else
        GCN_EACH_LANE to[l] = base;
}

/* flat_*: the lanes may be in different memories. */
static bool access_flat(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I,
                        struct kernel_access *access)
{
    struct kernel_access shared = *access, scratch = *access;
    shared.lanes = scratch.lanes = 0;
    for (kernel_lanes left = access->lanes; left; left &= left - 1) {
        const int lane = kernel_first_lane(left);
        const uint64_t address = access->addresses[lane], window = address >> 62 << 62;
        if (!window) continue;
        struct kernel_access *part = window == GCN_SHARED_WINDOW ? &shared : &scratch;
        part->lanes |= KERNEL_LANE(lane);
        part->addresses[lane] = address - window;
        access->lanes &= ~KERNEL_LANE(lane);
    }
    return access_global(s, w, I, access) && access_shared(s, w, I, &shared, false)
           && access_scratch(s, w, I, &scratch);
}

/*
 * gfx90a reaches scratch memory by a buffer, whose descriptor the kernel gets and may move by its wave's
 * offset.
 */
static bool is_scratch_buffer(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    const uint32_t *d = &w->s[I->m.descriptor];
    const uint64_t base = ((uint64_t)d[1] << 32 | d[0]) & 0xffffffffffff;
    if (base == GCN_SCRATCH_BASE) return true;
    return gcn_stop(s, w, I, KERNEL_OUT_OF_BOUNDS,
                    "uses a buffer at 0x%llx, and only the buffer of scratch memory is known",
                    (unsigned long long)base);
}

static bool access_once(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I,
                        struct kernel_access *access)
{
    short_addresses(w, &I->m, (uint32_t)I->m.offset[0], access->addresses);
    return access_shared(s, w, I, access, false);
}

/* ds_read2 and ds_write2. The first element that is read may overwrite the address. */
static bool access_twice(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I,
                         struct kernel_access *access)
{
    struct kernel_access second = *access;
    short_addresses(w, &I->m, (uint32_t)I->m.offset[1], second.addresses);
    return access_once(s, w, I, access) && access_shared(s, w, I, &second, true);
}

bool gcn_access(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    const struct gcn_memory_part *m = &I->m;
    struct kernel_access access;
    bool good;
    begin(w, I, &access);
    const uint64_t offset = (uint64_t)(int64_t)m->offset[0];
    switch ((enum gcn_space)m->space) {
    case GCN_S_GLOBAL:
    case GCN_S_FLAT: {
        const uint64_t base = m->has_base ? (uint64_t)w->s[m->base + 1] << 32 | w->s[m->base] : 0;
        vector_addresses(w, m, base + offset, access.addresses);
        good = m->space == GCN_S_FLAT ? access_flat(s, w, I, &access) : access_global(s, w, I, &access);
        break;
    }
    case GCN_S_SCRATCH: {
        uint32_t base = (uint32_t)m->offset[0] + (m->has_base ? w->s[m->base] : 0);
        /* the distance of a buffer is that of all lanes together */
        if (I->n_sources) {
            if (!is_scratch_buffer(s, w, I)) return false;
            base += (uint32_t)gcn_read_scalar(w, &I->s[0]) / KERNEL_LANES;
        }
        short_addresses(w, m, base, access.addresses);
        good = access_scratch(s, w, I, &access);
        break;
    }
    default: good = m->twice ? access_twice(s, w, I, &access) : access_once(s, w, I, &access); break;
    }
    if (good) gcn_issue(s, w, I);
    return good;
}

/* ---- scalars ---- */

/* At most four words of global memory. */
static bool load_words(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I,
                       uint64_t address, uint32_t words, uint32_t *to)
{
    const unsigned char *from = constant_at(s, address, 4 * (uint64_t)words);
    if (!from && address - GCN_ARGUMENTS < s->argument_bytes + 4 * 16u)
        return gcn_stop(s, w, I, KERNEL_OUT_OF_BOUNDS,
                        "reads %u bytes at %llu of its arguments, which have %u bytes", 4 * words,
                        (unsigned long long)(address - GCN_ARGUMENTS), s->argument_bytes);
    if (!from) {
        struct kernel_access access;
        struct kernel_row row;
        begin(w, I, &access);
        access.kind = KERNEL_LOAD;
        access.bytes = 4 * words;
        access.align = 4;
        access.lanes = KERNEL_LANE(0);
        memset(access.addresses, 0, sizeof access.addresses);
        access.addresses[0] = address;
        if (!kernel_check_global(&s->b, &access, &row)) return false;
        from = kernel_global_at(&s->b, address);
    }
    memcpy(to, from, 4 * (size_t)words);
    return true;
}

bool gcn_scalar_load(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    const uint64_t base = (uint64_t)w->s[I->m.base + 1] << 32 | w->s[I->m.base];
    const uint64_t offset = (uint64_t)(int64_t)I->m.offset[0]
                            + (I->s[0].kind ? gcn_read_scalar(w, &I->s[0]) : 0);
    const uint64_t address = (base + offset) & ~(uint64_t)3;
    const uint32_t words = I->m.bytes / 4;
    uint32_t loaded[16];
    for (uint32_t i = 0; i < words; i += 4)
        if (!load_words(s, w, I, address + 4 * (uint64_t)i, words - i < 4 ? words - i : 4, &loaded[i]))
            return false;
    memcpy(&w->s[I->d.reg], loaded, 4 * (size_t)words);
    gcn_issue(s, w, I);
    return true;
}

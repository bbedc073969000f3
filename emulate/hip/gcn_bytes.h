/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A reader of bytes that never leaves them. After the first read beyond the end `torn` stays true and all
 * reads give zero, so a caller may read a whole structure and ask once.
 */
#ifndef EMULATE_HIP_GCN_BYTES_H
#define EMULATE_HIP_GCN_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct gcn_bytes {
    const unsigned char *data;
    size_t bytes, at;
    bool torn;
};

/** The next n bytes, or NULL where fewer are left. */
static inline const unsigned char *gcn_take(struct gcn_bytes *b, uint64_t n)
{
    if (b->torn || n > b->bytes - b->at) {
        b->torn = true;
        return NULL;
    }
    const unsigned char *at = b->data + b->at;
    b->at += (size_t)n;
    return at;
}

/** An unsigned number of n bytes, 1 to 8, the lowest byte first. */
static inline uint64_t gcn_low_first(struct gcn_bytes *b, int n)
{
    const unsigned char *at = gcn_take(b, (uint64_t)n);
    uint64_t value = 0;
    for (int i = 0; at && i < n; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/** An unsigned number of n bytes, 1 to 8, the highest byte first. */
static inline uint64_t gcn_high_first(struct gcn_bytes *b, int n)
{
    const unsigned char *at = gcn_take(b, (uint64_t)n);
    uint64_t value = 0;
    for (int i = 0; at && i < n; i++) value = value << 8 | at[i];
    return value;
}

static inline uint8_t gcn_u8(struct gcn_bytes *b) { return (uint8_t)gcn_low_first(b, 1); }
static inline uint16_t gcn_u16(struct gcn_bytes *b) { return (uint16_t)gcn_low_first(b, 2); }
static inline uint32_t gcn_u32(struct gcn_bytes *b) { return (uint32_t)gcn_low_first(b, 4); }
static inline uint64_t gcn_u64(struct gcn_bytes *b) { return gcn_low_first(b, 8); }

/** A text that ends with a zero byte, or NULL where no zero byte follows. */
static inline const char *gcn_text(struct gcn_bytes *b)
{
    const unsigned char *start = b->data + b->at;
    const unsigned char *end = b->torn || b->at == b->bytes ? NULL : memchr(start, 0, b->bytes - b->at);
    if (!end) {
        b->torn = true;
        return NULL;
    }
    b->at += (size_t)(end - start) + 1;
    return (const char *)start;
}

/** The bytes from `at` on, at most `bytes` of them; torn where they do not lie in `whole`. */
static inline struct gcn_bytes gcn_part(const struct gcn_bytes *whole, uint64_t at, uint64_t bytes)
{
    if (at > whole->bytes || bytes > whole->bytes - at) return (struct gcn_bytes){ whole->data, 0, 0, true };
    return (struct gcn_bytes){ whole->data + at, (size_t)bytes, 0, false };
}

/** The text at this offset of a table of texts, or NULL where none begins and ends in the table. */
static inline const char *gcn_text_at(const struct gcn_bytes *table, uint64_t at)
{
    struct gcn_bytes rest = *table;
    if (table->torn || at >= table->bytes) return NULL;
    rest.at = (size_t)at;
    return gcn_text(&rest);
}

#endif

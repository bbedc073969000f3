/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of MessagePack that the metadata of code objects use (github.com/msgpack/msgpack, spec.md). The
 * stand-in must not add a library to what Yoke needs, and this is shorter than the calls of one would be.
 */
#include "emulate/hip/gcn_read.h"

/* A count or a number that stands in the byte itself (tag, under a mask), or in 1, 2 or 4 bytes behind it. */
static bool length(struct gcn_bytes *b, unsigned tag, unsigned mask, const unsigned wide[3], uint32_t *out)
{
    static const int bytes[3] = { 1, 2, 4 };
    if (b->torn || b->at == b->bytes) return false;
    const unsigned first = b->data[b->at];
    if ((first & mask) == tag) {
        b->at++;
        *out = first & ~mask & 0xff;
        return true;
    }
    for (int i = 0; i < 3; i++)
        if (first == wide[i] && wide[i]) {
            b->at++;
            *out = (uint32_t)gcn_high_first(b, bytes[i]);
            return !b->torn;
        }
    return false;
}

bool gcn_msgpack_map(struct gcn_bytes *b, uint32_t *pairs_out)
{
    return length(b, 0x80, 0xf0, (const unsigned[3]){ 0, 0xde, 0xdf }, pairs_out);
}

bool gcn_msgpack_array(struct gcn_bytes *b, uint32_t *members_out)
{
    return length(b, 0x90, 0xf0, (const unsigned[3]){ 0, 0xdc, 0xdd }, members_out);
}

bool gcn_msgpack_text(struct gcn_bytes *b, const char **text_out, uint32_t *bytes_out)
{
    if (!length(b, 0xa0, 0xe0, (const unsigned[3]){ 0xd9, 0xda, 0xdb }, bytes_out)) return false;
    *text_out = (const char *)gcn_take(b, *bytes_out);
    return *text_out != NULL;
}

bool gcn_msgpack_number(struct gcn_bytes *b, uint64_t *number_out)
{
    if (b->torn || b->at == b->bytes) return false;
    const unsigned first = b->data[b->at];
    if (first < 0x80 || first == 0xc2 || first == 0xc3) {
        b->at++;
        *number_out = first < 0x80 ? first : first & 1;
        return true;
    }
    if (first < 0xcc || first > 0xcf) return false;
    b->at++;
    *number_out = gcn_high_first(b, 1 << (first - 0xcc));
    return !b->torn;
}

/* The bytes behind the first one of a value that has no members. */
static bool behind(struct gcn_bytes *b, unsigned first)
{
    static const unsigned char fixed[] = { /* 0xca to 0xd8: numbers and small extensions */
                                           4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 2, 3, 5, 9, 17
    };
    if (first >= 0xca && first <= 0xd8) return gcn_take(b, fixed[first - 0xca]) != NULL;
    if (first >= 0xc4 && first <= 0xc6) return gcn_take(b, gcn_high_first(b, 1 << (first - 0xc4))) != NULL;
    if (first >= 0xc7 && first <= 0xc9)
        return gcn_take(b, 1 + gcn_high_first(b, 1 << (first - 0xc7))) != NULL;
    return first != 0xc1; /* a small number, nil, true or false */
}

bool gcn_msgpack_skip(struct gcn_bytes *b)
{
    /* Each value has at least one byte, so the loop ends at the end of the bytes at the latest. */
    for (uint64_t values = 1; values; values--) {
        uint32_t n;
        const char *text;
        if (b->torn || b->at == b->bytes) return false;
        if (gcn_msgpack_map(b, &n)) {
            values += 2 * (uint64_t)n;
        } else if (gcn_msgpack_array(b, &n)) {
            values += n;
        } else if (!gcn_msgpack_text(b, &text, &n)) {
            const unsigned first = b->torn ? 0xc1 : b->data[b->at++];
            if (!behind(b, first)) return false;
        }
    }
    return true;
}

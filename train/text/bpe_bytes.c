/* SPDX-License-Identifier: Apache-2.0 */
/* The spelling of bytes in a byte-level vocabulary, and the needed parts of Unicode. */
#include <string.h>

#include "core/base/base.h"
#include "train/text/bpe_inside.h"

/*
 * Bytes that are printable in Latin-1 spell themselves. The other 68 bytes are spelled, in order, as the
 * characters from U+0100 on.
 */
static bool spells_itself(int byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* The order of the bytes that do not spell themselves is 0-32, then 127-160, then 173. */
static uint32_t code_of(unsigned char byte)
{
    if (spells_itself(byte)) return byte;
    if (byte <= 0x20) return 256u + byte;
    return byte == 0xad ? 256 + 67 : 256u + 33u + (byte - 0x7fu);
}

static int byte_of(uint32_t code)
{
    if (code < 256) return spells_itself((int)code) ? (int)code : -1;
    const uint32_t index = code - 256;
    if (index > 67) return -1;
    return index <= 32 ? (int)index : index == 67 ? 0xad : (int)(index - 33 + 0x7f);
}

int yokei_bpe_spell(unsigned char byte, char out[2])
{
    const uint32_t code = code_of(byte);
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

int64_t yokei_bpe_unspell(const char *name, size_t n, unsigned char *out)
{
    int64_t count = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        const int length = yokei_utf8((const unsigned char *)name + i, n - i, &code);
        const int byte = length ? byte_of(code) : -1;
        if (byte < 0) return -1;
        out[count++] = (unsigned char)byte;
        i += (size_t)length;
    }
    return count;
}

/* Unicode 15, table 3-7: there are no overlong forms, no surrogates, and nothing above U+10FFFF. */
int yokei_utf8(const unsigned char *text, size_t bytes, uint32_t *code_out)
{
    if (bytes == 0) return 0;
    const unsigned char first = text[0];
    if (first < 0x80) {
        if (code_out) *code_out = first;
        return 1;
    }
    const int length = first >= 0xc2 && first <= 0xdf   ? 2
                       : (first & 0xf0) == 0xe0         ? 3
                       : first >= 0xf0 && first <= 0xf4 ? 4
                                                        : 0;
    if (length == 0 || (size_t)length > bytes) return 0;
    uint32_t code = first & (0xffu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    if ((length == 3 && (code < 0x800 || (code >= 0xd800 && code <= 0xdfff)))
        || (length == 4 && (code < 0x10000 || code > 0x10ffff)))
        return 0;
    if (code_out) *code_out = code;
    return length;
}

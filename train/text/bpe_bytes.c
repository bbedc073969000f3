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

/*
 * These ranges have no combining mark, no character that combines with the one before it, and no character
 * that NFC replaces. They are whole blocks, and letters of widely used scripts. Characters outside these
 * ranges may be in NFC too.
 */
bool yokei_is_surely_nfc(uint32_t code)
{
    static const uint32_t ranges[][2] = {
        { 0, 0x2ff },         { 0x370, 0x373 },   { 0x375, 0x377 },   { 0x37b, 0x37d },
        { 0x388, 0x482 },     { 0x48a, 0x52f },   { 0x531, 0x58f },   { 0x5d0, 0x5ea },
        { 0x620, 0x64a },     { 0x660, 0x66f },   { 0xe01, 0xe37 },   { 0xe3f, 0xe47 },
        { 0xe4f, 0xe5b },     { 0x1e00, 0x1eff }, { 0x2002, 0x20a8 }, { 0x2030, 0x20c0 },
        { 0x2190, 0x2328 },   { 0x232b, 0x23ff }, { 0x2500, 0x2adb }, { 0x3000, 0x3029 },
        { 0x3030, 0x3096 },   { 0x309b, 0x30ff }, { 0x3400, 0x4dbf }, { 0x4e00, 0x9fff },
        { 0xac00, 0xd7a3 },   { 0xfe00, 0xfe1f }, { 0xff01, 0xffee }, { 0x1f000, 0x1faff },
        { 0x20000, 0x2a6df },
    };
    for (size_t i = 0; i < YOKE_COUNT(ranges) && code >= ranges[i][0]; i++)
        if (code <= ranges[i][1]) return true;
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from other sources (names of files, keys, tokens, generated text), converted to text that a terminal
 * can show. A terminal takes control characters for commands, which could change what it shows. Control
 * characters are written as \xNN, and so are bytes that are not UTF-8.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/*
 * The code point at `text`, and its length in bytes. Length 0: the bytes are not UTF-8. Length -1: more bytes
 * are needed.
 */
static uint32_t decode(const unsigned char *text, size_t n, int *length_out)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = { { 0x80, 0, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 } };
    for (int more = 0; more < 4; more++) {
        if ((text[0] & forms[more].mask) != forms[more].lead) continue;
        uint32_t code = text[0] & (unsigned char)~forms[more].mask;
        for (int i = 1; i <= more; i++) {
            if ((size_t)i >= n) return *length_out = -1, 0;
            if ((text[i] & 0xc0) != 0x80) return *length_out = 0, 0;
            code = code << 6 | (text[i] & 0x3f);
        }
        const bool good = code >= forms[more].least && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        return *length_out = good ? more + 1 : 0, code;
    }
    return *length_out = 0, 0;
}

/* Control characters, and marks that change the writing direction of the text behind them. */
static bool is_command(uint32_t code)
{
    if (code == '\n' || code == '\t') return false;
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0x200e
           || code == 0x200f || code == 0x061c || (code >= 0x202a && code <= 0x202e)
           || (code >= 0x2066 && code <= 0x2069);
}

static void put_escaped(const unsigned char *bytes, size_t n, FILE *to)
{
    for (size_t i = 0; i < n; i++) fprintf(to, "\\x%02x", bytes[i]);
}

/* Write the whole characters among the held bytes. At the end, write the rest of a character too. */
static void put_whole(struct cli_printer *p, bool last, FILE *to)
{
    while (p->n) {
        int length;
        const uint32_t code = decode(p->held, p->n, &length);
        if (length < 0 && !last) return;
        if (length <= 0)
            put_escaped(p->held, (size_t)(length = 1), to);
        else if (is_command(code))
            put_escaped(p->held, (size_t)length, to);
        else
            fwrite(p->held, 1, (size_t)length, to);
        p->n -= (size_t)length;
        memmove(p->held, p->held + length, p->n);
    }
}

void cli_put_printable(struct cli_printer *p, const void *bytes, size_t n, bool last, FILE *to)
{
    for (size_t i = 0; i < n; i++) {
        p->held[p->n++] = ((const unsigned char *)
                               bytes)[i]; /* a character has at most 4 bytes, and put_whole() takes it out */
        put_whole(p, false, to);
    }
    if (last) put_whole(p, true, to);
}

char *cli_printable(const char *text)
{
    char *out = NULL;
    size_t bytes = 0;
    struct cli_printer p = { .n = 0 };
    FILE *to = open_memstream(&out, &bytes);
    if (!to) return NULL;
    for (const char *line = text;;) {
        const size_t n = strcspn(line, "\n");
        cli_put_printable(&p, line, n, true, to);
        line += n;
        if (!*line) break;
        fputs(*++line ? "\n  " : "\n",
              to); /* later lines are indented, so that a name cannot look like a message of its own */
    }
    return fclose(to) ? NULL : out;
}

/* Characters that a terminal shows in two columns, such as those of Chinese, Japanese and Korean. */
static bool is_wide(uint32_t c)
{
    return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3)
           || (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60)
           || (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1faff)
           || (c >= 0x20000 && c <= 0x3fffd);
}

size_t cli_fitting(const char *text, int columns)
{
    const unsigned char *c = (const unsigned char *)text;
    for (size_t n = 0;;) {
        const size_t length = c[n] < 0x80 ? 1 : c[n] < 0xe0 ? 2 : c[n] < 0xf0 ? 3 : 4;
        uint32_t code = length == 1 ? c[n] : c[n] & (0xffu >> (length + 1));
        if (!c[n]) return n;
        for (size_t i = 1; i < length && c[n + i]; i++) code = code << 6 | (c[n + i] & 0x3f);
        columns -= is_wide(code) ? 2 : 1;
        if (columns < 0 || strnlen(text + n, length) < length) return n;
        n += length;
    }
}

void cli_put_word(const char *word, FILE *to)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:,=+%";
    if (*word && strspn(word, plain) == strlen(word)) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", to);
        else
            fputc(*word, to);
    }
    fputc('\'', to);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a PTX text. */
#include "emulate/cuda/ptx_parse.h"

#include <string.h>

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$'
           || c == '%' || c == '.';
}

static void skip_blanks(struct ptx_parser *p)
{
    while (p->at < p->end) {
        const size_t left = (size_t)(p->end - p->at);
        if (*p->at == '\n') {
            p->line++;
            p->at++;
        } else if (*p->at == ' ' || *p->at == '\t' || *p->at == '\r' || *p->at == '\0') {
            p->at++;
        } else if (left > 1 && !memcmp(p->at, "//", 2)) {
            while (p->at < p->end && *p->at != '\n') p->at++;
        } else if (left > 1 && !memcmp(p->at, "/*", 2)) {
            for (p->at += 2; p->at < p->end && !(p->at[-1] == '/' && p->at[-2] == '*'); p->at++)
                p->line += *p->at == '\n';
        } else {
            return;
        }
    }
}

bool ptx_next(struct ptx_parser *p)
{
    skip_blanks(p);
    p->token = (struct ptx_token){ p->at, 0, p->line };
    if (p->at >= p->end) return true;
    if (is_word(*p->at)) {
        /* "::" is inside a word: .shared::cta */
        while (p->at < p->end
               && (is_word(*p->at)
                   || (*p->at == ':' && p->end - p->at > 2 && p->at[1] == ':' && is_word(p->at[2])))) {
            p->at += *p->at == ':' ? 2 : 1;
        }
    } else if (*p->at == '"') {
        do p->at++;
        while (p->at < p->end && *p->at != '"' && *p->at != '\n');
        if (p->at >= p->end || *p->at != '"')
            return ptx_parse_error(p, KERNEL_SYNTAX, p->line, "a string has no closing quote");
        p->at++;
    } else if (strchr(",;:(){}[]<>+-|!@=*", *p->at)) {
        p->at++;
    } else {
        return ptx_parse_error(p, KERNEL_SYNTAX, p->line, "character 0x%02x is not PTX",
                               (unsigned char)*p->at);
    }
    p->token.length = (int)(p->at - p->token.text);
    return true;
}

bool ptx_expect(struct ptx_parser *p, const char *word)
{
    if (!ptx_is(&p->token, word))
        return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line, "'%s' is expected, not '%.*s'", word,
                               p->token.length, p->token.text);
    return ptx_next(p);
}

bool ptx_integer(const struct ptx_token *token, uint64_t *value_out)
{
    const char *c = token->text, *end = c + token->length;
    uint64_t base = 10, value = 0;
    if (c < end && end[-1] == 'U') end--;
    if (c == end) return false;
    if (*c == '0' && end - c > 1) {
        base = c[1] == 'x' || c[1] == 'X' ? 16 : c[1] == 'b' || c[1] == 'B' ? 2 : 8;
        c += base == 8 ? 1 : 2;
        if (c == end) return false;
    }
    for (; c < end; c++) {
        const uint64_t digit = *c >= '0' && *c <= '9'   ? (uint64_t)(*c - '0')
                               : *c >= 'a' && *c <= 'f' ? (uint64_t)(*c - 'a') + 10
                               : *c >= 'A' && *c <= 'F' ? (uint64_t)(*c - 'A') + 10
                                                        : 99;
        if (digit >= base || value > (~(uint64_t)0 - digit) / base) return false;
        value = value * base + digit;
    }
    *value_out = value;
    return true;
}

bool ptx_number(struct ptx_parser *p, int64_t *value_out)
{
    const bool negative = ptx_is(&p->token, "-");
    uint64_t value;
    if ((negative || ptx_is(&p->token, "+")) && !ptx_next(p)) return false;
    if (!ptx_integer(&p->token, &value))
        return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line, "a number is expected, not '%.*s'",
                               p->token.length, p->token.text);
    *value_out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return ptx_next(p);
}

uint32_t ptx_hash(const char *text, int length)
{
    uint32_t h = 2166136261u;
    for (int i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
    return (h ^ h >> 15) % PTX_BUCKETS;
}

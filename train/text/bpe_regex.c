/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convert the patterns of tokenizer files to PCRE2. The patterns were written for Oniguruma and Rust's
 * engines. Syntax that has the same meaning in PCRE2 is copied. The classes \s and \d are written out as
 * Unicode defines them, because PCRE2's \s includes U+180E. Everything else is refused. \w is refused because
 * it is a different set of characters in each of the three engines.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/text/bpe_inside.h"

/* The state while a pattern is converted: the pattern that is read, and the text that is written. */
struct reader {
    const char *where, *pattern;
    size_t at;
    char *out;
    size_t n;
};

/* No word or escape may become longer than this. */
enum { LONGEST = 64 };

static yoke_status refuse(const struct reader *r, const char *what)
{
    return yoke_fail(
        YOKE_ECONFIG,
        "%s: the expression has %s at character %zu, which engines understand differently: write it in another way: %.200s",
        r->where, what, r->at, r->pattern);
}

static void put(struct reader *r, const char *text, size_t n)
{
    memcpy(r->out + r->n, text, n);
    r->n += n;
}

/*
 * \p{L}, \P{Nd}, \p{^L}, \pL. Only general categories are allowed, because engines disagree about other names
 * (for scripts: extensions).
 */
static yoke_status property(struct reader *r)
{
    static const char *const categories[] = { "C",  "Cc", "Cf", "Cn", "Co", "L",  "Ll", "Lm", "Lo",
                                              "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N",  "Nd", "Nl",
                                              "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps",
                                              "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs" };
    const char *at = r->pattern + r->at, *name = at[2] == '{' ? at + 3 + (at[3] == '^') : at + 2;
    const size_t n = at[2] == '{' ? strcspn(name, "}") : at[2] != 0;
    bool known = n > 0 && (at[2] != '{' || name[n] == '}');
    size_t i = 0;
    while (known && i < YOKE_COUNT(categories)
           && (strlen(categories[i]) != n || strncmp(categories[i], name, n) != 0))
        i++;
    if (!known || i == YOKE_COUNT(categories)) return refuse(r, "a \\p that is no general category");
    const size_t length = (size_t)(name - at) + n + (at[2] == '{');
    put(r, at, length);
    r->at += length;
    return YOKE_OK;
}

/* `\` and the character after it. */
static yoke_status escape(struct reader *r)
{
    static const struct {
        char letter;
        const char *meaning;
    } classes[] = {
        { 's', "\\p{White_Space}" },
        { 'S', "\\P{White_Space}" },
        { 'd', "\\p{Nd}" },
        { 'D', "\\P{Nd}" },
    };
    const char c = r->pattern[r->at + 1];
    for (size_t i = 0; i < YOKE_COUNT(classes); i++) {
        if (c != classes[i].letter) continue;
        put(r, classes[i].meaning, strlen(classes[i].meaning));
        r->at += 2;
        return YOKE_OK;
    }
    if (c == 'p' || c == 'P') return property(r);
    const bool is_control = c && strchr("rntfv", c), is_mark = c && ispunct((unsigned char)c) && c > 0;
    if (!is_control && !is_mark && c != ' ') {
        char what[8];
        yokei_text(what, sizeof what, "\\%c", c ? c : ' ');
        return refuse(r, what);
    }
    if (c == 'v')
        put(r, "\\x0b", 4); /* in PCRE2, \v is any vertical space */
    else
        put(r, r->pattern + r->at, 2);
    r->at += 2;
    return YOKE_OK;
}

static yoke_status class(struct reader *r)
{
    const char *p = r->pattern;
    put(r, p + r->at++, 1);
    if (p[r->at] == '^') put(r, p + r->at++, 1);
    if (p[r->at] == ']') return refuse(r, "] at the begin of a class");
    while (p[r->at] && p[r->at] != ']') {
        if (p[r->at] == '\\')
            YOKE_TRY(escape(r));
        else if (p[r->at] == '[')
            return refuse(r, "[ in a class");
        else if ((p[r->at] == '&' || p[r->at] == '-' || p[r->at] == '~') && p[r->at] == p[r->at + 1])
            return refuse(r, "&&, -- or ~~ in a class");
        else
            put(r, p + r->at++, 1);
    }
    if (!p[r->at]) return refuse(r, "an unfinished class");
    put(r, p + r->at++, 1);
    return YOKE_OK;
}

/* "(" and the characters that say which kind of group it is. */
static yoke_status group(struct reader *r)
{
    static const char *const kinds[] = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)", "(?-i:"
    };
    const char *at = r->pattern + r->at;
    size_t length = at[1] == '?' || at[1] == '*' ? 0 : 1;
    for (size_t i = 0; i < YOKE_COUNT(kinds) && !length; i++)
        if (strncmp(at, kinds[i], strlen(kinds[i])) == 0) length = strlen(kinds[i]);
    if (!length) return refuse(r, "a group of this kind");
    /* engines differ in how far it reaches */
    if (length == 4 && !strncmp(at, "(?i)", 4) && r->at) return refuse(r, "(?i) in the middle");
    put(r, at, length);
    r->at += length;
    return YOKE_OK;
}

/* "{": a count, as in {1,3}. A `+` after it is possessive in one engine and a repetition in the other. */
static yoke_status count(struct reader *r)
{
    const char *at = r->pattern + r->at;
    size_t n = 1 + strspn(at + 1, "0123456789");
    if (n == 1) return refuse(r, "{ without a count");
    if (at[n] == ',') n += 1 + strspn(at + n + 1, "0123456789");
    if (at[n] != '}') return refuse(r, "{ without a count");
    if (at[n + 1] == '+') return refuse(r, "}+");
    /* {n}? means n times or none in one engine, and exactly n times (lazily) in the other */
    if (at[n + 1] == '?' && !memchr(at, ',', n)) return refuse(r, "}?");
    put(r, at, n + 1);
    r->at += n + 1;
    return YOKE_OK;
}

static yoke_status translate(struct reader *r)
{
    const char *p = r->pattern;
    while (p[r->at]) {
        switch (p[r->at]) {
        case '\\': YOKE_TRY(escape(r)); break;
        case '[': YOKE_TRY(class(r)); break;
        case '(': YOKE_TRY(group(r)); break;
        case '{': YOKE_TRY(count(r)); break;
        case '^':
        case '$': return refuse(r, "an anchor");
        default: put(r, p + r->at++, 1);
        }
    }
    return YOKE_OK;
}

static yoke_status compile(const char *where, const char *shown, const char *pattern, size_t n,
                           uint32_t options, pcre2_code **code_out)
{
    int error;
    size_t offset;
    uint32_t matches_empty = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return yoke_fail(YOKE_ENOMEM, "%s: no memory for an expression", where);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, n, options | PCRE2_UTF, &error, &offset, context);
    pcre2_compile_context_free(context);
    if (!code) {
        PCRE2_UCHAR text[160];
        pcre2_get_error_message(error, text, sizeof text);
        return yoke_fail(YOKE_ECONFIG, "%s: is no expression that PCRE2 takes: %s: %.200s", where,
                         (const char *)text, shown);
    }
    pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty) {
        pcre2_code_free(code);
        return yoke_fail(YOKE_ECONFIG, "%s: matches the empty text, so there is nothing to cut at: %.200s",
                         where, shown);
    }
    /* without JIT, the interpreter gives the same result more slowly */
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    *code_out = code;
    return YOKE_OK;
}

yoke_status yokei_bpe_compile(const char *where, const char *pattern, bool is_plain, pcre2_code **code_out)
{
    const size_t n = strlen(pattern);
    if (is_plain)
        return n ? compile(where, pattern, pattern, n, PCRE2_LITERAL, code_out)
                 : yoke_fail(YOKE_ECONFIG, "%s: is empty, so there is nothing to cut at", where);
    struct reader r = { .where = where, .pattern = pattern, .out = malloc(n * LONGEST + 1) };
    if (!r.out) return yoke_fail(YOKE_ENOMEM, "%s: no memory for an expression", where);
    yoke_status status = translate(&r);
    if (!status) status = compile(where, pattern, r.out, r.n, PCRE2_UCP, code_out);
    free(r.out);
    return status;
}

/* The same set as Rust's \w, which is Unicode's (UTS 18, annex C). */
yoke_status yokei_bpe_compile_word(pcre2_code **code_out)
{
    static const char pattern[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]";
    return compile("a character of a word", pattern, pattern, sizeof pattern - 1, PCRE2_UCP, code_out);
}

yoke_status yokei_bpe_match(const struct yokei_bpe *bpe, const pcre2_code *code, pcre2_match_data *data,
                            const char *text, size_t n, size_t from, bool *found, size_t *begin, size_t *end)
{
    const int result = pcre2_match(code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, data, bpe->match);
    *found = result >= 0;
    if (result == PCRE2_ERROR_NOMATCH) return YOKE_OK;
    if (result < 0) {
        PCRE2_UCHAR why[160];
        pcre2_get_error_message(result, why, sizeof why);
        return yoke_fail(YOKE_ENOMEM, "%s: the pre_tokenizer's expression gave up on a text: %s", bpe->path,
                         (const char *)why);
    }
    const size_t *range = pcre2_get_ovector_pointer(data);
    *begin = range[0];
    *end = range[1];
    return YOKE_OK;
}

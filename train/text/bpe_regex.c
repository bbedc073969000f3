/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convert the patterns of tokenizer files to PCRE2. The patterns were written for Oniguruma and Rust's
 * engines. Syntax that has the same meaning in PCRE2 is copied. The classes \s and \d are written out as
 * Unicode defines them, because PCRE2's \s includes U+180E. Everything else is refused. \w is refused because
 * it is a different set of characters in each of the three engines.
 *
 * If PCRE2 lacks characters that the tokenizers library knows, each pattern is converted a second time, with
 * these characters in its classes ("wider"). In this form a class may need more than one class of PCRE2.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/text/bpe_inside.h"

/* A text that grows. After a failure it stays as it is, and `failed` is set. */
struct text {
    char *at; /* ends in a zero byte; NULL: empty */
    size_t n, room;
    bool failed;
};

enum { LEVELS = 250 }; /* PCRE2's own limit for groups in groups */

/* The state while a pattern is converted. */
struct reader {
    const char *where, *pattern;
    size_t at;
    struct text out;
    const struct yokei_bpe_lacking *lacking; /* [n_lacking] what is added; none in the first form */
    size_t n_lacking;
    bool ignores_case[LEVELS + 1]; /* for each open group; [0] is the whole pattern */
    int level;
};

static yoke_status refuse(const struct reader *r, const char *what)
{
    return yoke_fail(
        YOKE_ECONFIG,
        "%s: the expression has %s at character %zu, which engines understand differently: write it in another way: %.200s",
        r->where, what, r->at, r->pattern);
}

static void put(struct text *to, const char *text, size_t n)
{
    if (!n) return;
    if (to->n + n + 1 > to->room && !to->failed) {
        const size_t room = 2 * (to->n + n + 1) + 256;
        char *larger = realloc(to->at, room);
        to->failed = !larger;
        if (larger) to->at = larger, to->room = room;
    }
    if (to->failed) return;
    memcpy(to->at + to->n, text, n);
    to->n += n;
    to->at[to->n] = 0;
}

static void put_text(struct text *to, const char *text) { put(to, text, strlen(text)); }

static void put_character(struct text *to, uint32_t code)
{
    char text[16];
    yokei_text(text, sizeof text, "\\x{%x}", (unsigned)code);
    put_text(to, text);
}

/* ---- properties ---- */

static bool is_in(const char *name, const char category[3])
{
    return name[1] ? strcmp(name, category) == 0 : name[0] == category[0];
}

/*
 * Put the ranges of characters that belong to a property now and did not for PCRE2, or the other way round
 * (`gone`). Returns their number.
 */
static int put_ranges(const struct reader *r, struct text *to, const char *name, bool gone)
{
    int n = 0;
    for (size_t i = 0; i < r->n_lacking; i++) {
        const struct yokei_bpe_lacking *l = &r->lacking[i];
        const bool now = is_in(name, l->now), had = is_in(name, l->had);
        if (now == had || had != gone) continue;
        put_character(to, l->first);
        if (l->last > l->first) {
            put_text(to, "-");
            put_character(to, l->last);
        }
        n++;
    }
    return n;
}

/*
 * If case is ignored, Oniguruma adds to a class the characters that differ from a member only in case, and
 * PCRE2 does not do this for properties. Only \p{L} can be made the same: U+0345 is no letter, but an iota
 * without regard to case.
 */
static yoke_status fold_property(struct reader *r, const char *name, bool negated, struct text *items)
{
    static const char *const open[] = { "L", "Lu", "Ll", "Lt", "M", "Mn" };
    for (size_t i = 0; i < YOKE_COUNT(open); i++) {
        if (strcmp(name, open[i]) != 0) continue;
        if (i > 0 || negated) return refuse(r, "a property whose case counts in a class that ignores case");
        put_character(items, 0x345);
    }
    return YOKE_OK;
}

/*
 * Put a property. In a class, `items` is the class's content, and `others` gets what cannot be a part of it:
 * alternatives that each begin with "|". Outside a class `others` is NULL.
 */
static yoke_status put_property(struct reader *r, const char *name, bool negated, struct text *items,
                                struct text *others)
{
    struct text more = { .n = 0 }, gone = { .n = 0 };
    /* some versions of PCRE2 ignore the case of \p{Lu} here, Oniguruma does not */
    const bool keeps_case = !others && r->ignores_case[r->level] && name[0] == 'L' && name[1];
    if (others && r->ignores_case[r->level]) YOKE_TRY(fold_property(r, name, negated, items));
    const int n_more = put_ranges(r, &more, name, false), n_gone = put_ranges(r, &gone, name, true);
    char plain[24];
    if (keeps_case) put_text(items, "(?-i:");
    yokei_text(plain, sizeof plain, "\\%c{%s}", negated && !n_more && !n_gone ? 'P' : 'p',
               strcmp(name, "s") == 0 ? "White_Space" : name);
    if ((!n_more && !n_gone) || (others && !negated && !n_gone)) {
        put_text(items, plain);
        put(items, more.at, more.n);
    } else {
        struct text *to = others ? others : items;
        if (others) put_text(others, "|");
        if (n_gone) put_text(to, negated ? "(?:[" : "(?:(?![");
        if (n_gone) put(to, gone.at, gone.n);
        if (n_gone) put_text(to, negated ? "]|" : "])");
        put_text(to, negated ? "[^" : "[");
        put_text(to, plain);
        put(to, more.at, more.n);
        put_text(to, n_gone ? "])" : "]");
    }
    if (keeps_case) put_text(items, ")");
    const bool failed = more.failed || gone.failed;
    free(more.at);
    free(gone.at);
    return failed ? yoke_fail(YOKE_ENOMEM, "%s: no memory for an expression", r->where) : YOKE_OK;
}

/*
 * \p{L}, \P{Nd}, \p{^L}. Only general categories are allowed, because engines disagree about other names (for
 * scripts: extensions). For Oniguruma, \pL is the letters p and L.
 */
static yoke_status property(struct reader *r, struct text *items, struct text *others)
{
    static const char *const categories[] = { "C",  "Cc", "Cf", "Cn", "Co", "L",  "Ll", "Lm", "Lo",
                                              "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N",  "Nd", "Nl",
                                              "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps",
                                              "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs" };
    const char *at = r->pattern + r->at;
    if (at[2] != '{') return refuse(r, "a \\p without { }");
    const bool caret = at[3] == '^';
    const char *name = at + 3 + caret;
    const size_t n = strcspn(name, "}");
    const bool known = n > 0 && name[n] == '}';
    size_t i = 0;
    while (known && i < YOKE_COUNT(categories)
           && (strlen(categories[i]) != n || strncmp(categories[i], name, n) != 0))
        i++;
    if (!known || i == YOKE_COUNT(categories)) return refuse(r, "a \\p that is no general category");
    YOKE_TRY(put_property(r, categories[i], (at[1] == 'P') != caret, items, others));
    r->at += (size_t)(name - at) + n + 1;
    return YOKE_OK;
}

/* `\` and the character after it. */
static yoke_status escape(struct reader *r, struct text *items, struct text *others)
{
    const char c = r->pattern[r->at + 1];
    if (c && strchr("sSdD", c)) {
        YOKE_TRY(put_property(r, c == 's' || c == 'S' ? "s" : "Nd", c == 'S' || c == 'D', items, others));
        r->at += 2;
        return YOKE_OK;
    }
    if (c == 'p' || c == 'P') return property(r, items, others);
    const bool is_control = c && strchr("rntfv", c), is_mark = c && ispunct((unsigned char)c) && c > 0;
    if (!is_control && !is_mark && c != ' ') {
        char what[8];
        yokei_text(what, sizeof what, "\\%c", c ? c : ' ');
        return refuse(r, what);
    }
    if (c == 'v')
        put(items, "\\x0b", 4); /* in PCRE2, \v is any vertical space */
    else
        put(items, r->pattern + r->at, 2);
    r->at += 2;
    return YOKE_OK;
}

/* ---- letters that differ only in case, of which PCRE2 lacks one ---- */

/* The pairs of such letters, one after another. False: there are no more. */
static bool next_pair(const struct reader *r, size_t *index, uint32_t pair[2])
{
    if (!r->ignores_case[r->level] || !r->n_lacking) return false;
    while ((pair[1] = yokei_bpe_other_case((*index)++, &pair[0])))
        if (yokei_bpe_is_lacking(pair[0])) return true;
    return false;
}

/* Add to a class the other case of its members. PCRE2 itself is asked which characters are members. */
static void fold_class(const struct reader *r, struct text *items)
{
    struct text class = { .n = 0 };
    uint32_t pair[2];
    int error;
    size_t offset, index = 0;
    if (!r->ignores_case[r->level] || !r->n_lacking || !items->n) return;
    put_text(&class, "(?i)[");
    put(&class, items->at, items->n);
    put_text(&class, "]");
    pcre2_code *code = class.failed ? NULL
                                    : pcre2_compile((PCRE2_SPTR) class.at, class.n, PCRE2_UTF | PCRE2_UCP,
                                                    &error, &offset, NULL);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    /* without `code` the whole pattern is refused, too, because it has this class */
    while (code && data && next_pair(r, &index, pair))
        for (int k = 0; k < 2; k++) {
            char text[4];
            const size_t n = (size_t)yokei_utf8_write(pair[k], text);
            if (pcre2_match(code, (PCRE2_SPTR)text, n, 0, 0, data, NULL) >= 0) put_character(items, pair[!k]);
        }
    items->failed |= !data || class.failed;
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    free(class.at);
}

/* A character of the pattern that stands for itself. */
static void literal(struct reader *r)
{
    const char *at = r->pattern + r->at;
    uint32_t code, pair[2];
    size_t index = 0, others = 0;
    int length = (unsigned char)*at < 0x80 ? 0 : yokei_utf8((const unsigned char *)at, strlen(at), &code);
    while (length && next_pair(r, &index, pair))
        for (int k = 0; k < 2; k++) {
            if (pair[k] != code) continue;
            if (!others++) {
                put_text(&r->out, "[");
                put_character(&r->out, code);
            }
            put_character(&r->out, pair[!k]);
        }
    if (others)
        put_text(&r->out, "]");
    else
        put(&r->out, at, length ? (size_t)length : 1);
    r->at += length ? (size_t)length : 1;
}

/* ---- classes, groups, counts ---- */

/* Write a class: [items] or [^items], or the same with alternatives beside the class. */
static void put_class(struct text *to, bool negated, const struct text *items, const struct text *others)
{
    if (!others->n) {
        put_text(to, negated ? "[^" : "[");
        put(to, items->at, items->n);
        put_text(to, "]");
        return;
    }
    put_text(to, negated ? "(?:(?!" : "(?:");
    if (items->n) {
        put_text(to, "[");
        put(to, items->at, items->n);
        put_text(to, "]");
    }
    put(to, others->at + !items->n, others->n - !items->n);
    put_text(to, negated ? ")[\\x{0}-\\x{10ffff}])" : ")");
}

static yoke_status read_items(struct reader *r, struct text *items, struct text *others)
{
    const char *p = r->pattern;
    if (p[r->at] == ']') return refuse(r, "] at the begin of a class");
    while (p[r->at] && p[r->at] != ']') {
        if (p[r->at] == '\\')
            YOKE_TRY(escape(r, items, others));
        else if (p[r->at] == '[')
            return refuse(r, "[ in a class");
        else if ((p[r->at] == '&' || p[r->at] == '-' || p[r->at] == '~') && p[r->at] == p[r->at + 1])
            return refuse(r, "&&, -- or ~~ in a class");
        else
            put(items, p + r->at++, 1);
    }
    if (!p[r->at]) return refuse(r, "an unfinished class");
    r->at++;
    return YOKE_OK;
}

static yoke_status class(struct reader *r)
{
    struct text items = { .n = 0 }, others = { .n = 0 };
    const bool negated = r->pattern[++r->at] == '^';
    r->at += negated;
    const yoke_status status = read_items(r, &items, &others);
    if (!status) {
        fold_class(r, &items);
        put_class(&r->out, negated, &items, &others);
        r->out.failed |= items.failed || others.failed;
    }
    free(items.at);
    free(others.at);
    return status;
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
    const bool is_option = !strncmp(at, "(?i)", length) && length == 4;
    /* engines differ in how far it reaches */
    if (is_option && r->at) return refuse(r, "(?i) in the middle");
    if (r->level == LEVELS) return refuse(r, "more than 250 groups in groups");
    bool ignores = r->ignores_case[r->level];
    if (is_option || !strncmp(at, "(?i:", 4)) ignores = true;
    if (!strncmp(at, "(?-i:", 5)) ignores = false;
    r->ignores_case[is_option ? r->level : ++r->level] = ignores;
    put(&r->out, at, length);
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
    put(&r->out, at, n + 1);
    r->at += n + 1;
    return YOKE_OK;
}

static yoke_status translate(struct reader *r)
{
    const char *p = r->pattern;
    while (p[r->at]) {
        switch (p[r->at]) {
        case '\\': YOKE_TRY(escape(r, &r->out, NULL)); break;
        case '[': YOKE_TRY(class(r)); break;
        case '(': YOKE_TRY(group(r)); break;
        case '{': YOKE_TRY(count(r)); break;
        case '^':
        case '$': return refuse(r, "an anchor");
        default: r->level -= p[r->at] == ')' && r->level > 0; literal(r);
        }
    }
    return r->out.failed ? yoke_fail(YOKE_ENOMEM, "%s: no memory for an expression", r->where) : YOKE_OK;
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

/* Compile both forms of a pattern, or one if they are the same. */
static yoke_status compile_forms(const char *where, const char *shown, const struct text *narrow,
                                 const struct text *wider, bool always_wider, struct yokei_bpe_pattern *out)
{
    struct yokei_bpe_pattern made = { .code = NULL };
    const bool differs = wider->n != narrow->n || (wider->n && memcmp(wider->at, narrow->at, wider->n) != 0);
    const struct text *first = always_wider ? wider : narrow;
    YOKE_TRY(compile(where, shown, first->at ? first->at : "", first->n, PCRE2_UCP, &made.code));
    if (differs && !always_wider) {
        const yoke_status status = compile(where, shown, wider->at, wider->n, PCRE2_UCP, &made.wider);
        if (status) {
            yokei_bpe_pattern_free(&made);
            return status;
        }
    }
    *out = made;
    return YOKE_OK;
}

yoke_status yokei_bpe_compile(const char *where, const char *pattern, bool is_plain,
                              struct yokei_bpe_pattern *pattern_out)
{
    const size_t n = strlen(pattern);
    *pattern_out = (struct yokei_bpe_pattern){ .code = NULL };
    if (is_plain)
        return n ? compile(where, pattern, pattern, n, PCRE2_LITERAL, &pattern_out->code)
                 : yoke_fail(YOKE_ECONFIG, "%s: is empty, so there is nothing to cut at", where);
    struct reader r = { .where = where, .pattern = pattern }, wide = r;
    yoke_status status = yokei_bpe_ask_pcre2(&wide.lacking, &wide.n_lacking);
    if (!status) status = translate(&r);
    if (!status) status = translate(&wide);
    /* A pattern with such a letter may match the letter's other case, which PCRE2 may know. */
    if (!status)
        status = compile_forms(where, pattern, &r.out, &wide.out, yokei_bpe_has_lacking(pattern, n),
                               pattern_out);
    free(r.out.at);
    free(wide.out.at);
    return status;
}

/* The same set as Rust's \w, which is Unicode's (UTS 18, annex C). */
yoke_status yokei_bpe_compile_word(struct yokei_bpe_pattern *pattern_out)
{
    static const char *const more[] = { "L", "M", "Nd", "Pc" };
    static const char set[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}";
    struct reader r = { .where = "a character of a word" };
    struct text narrow = { .n = 0 }, wider = { .n = 0 };
    yoke_status status = yokei_bpe_ask_pcre2(&r.lacking, &r.n_lacking);
    put_text(&narrow, set);
    put_text(&wider, set);
    for (size_t i = 0; i < YOKE_COUNT(more); i++) put_ranges(&r, &wider, more[i], false);
    put_text(&narrow, "]");
    put_text(&wider, "]");
    if (!status && (narrow.failed || wider.failed))
        status = yoke_fail(YOKE_ENOMEM, "%s: no memory for an expression", r.where);
    if (!status) status = compile_forms(r.where, set, &narrow, &wider, false, pattern_out);
    free(narrow.at);
    free(wider.at);
    return status;
}

void yokei_bpe_pattern_free(struct yokei_bpe_pattern *pattern)
{
    pcre2_code_free(pattern->code);
    pcre2_code_free(pattern->wider);
    *pattern = (struct yokei_bpe_pattern){ .code = NULL };
}

const pcre2_code *yokei_bpe_code(const struct yokei_bpe_pattern *pattern, const char *text, size_t n)
{
    return pattern->wider && yokei_bpe_has_lacking(text, n) ? pattern->wider : pattern->code;
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

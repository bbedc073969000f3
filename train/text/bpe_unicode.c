/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tokenizers library knows of characters. The first part is characters that the linked PCRE2 does
 * not know, or knows with another class. A committed table has all of them since Unicode 14. PCRE2 is asked
 * once which of them it lacks. So a newer PCRE2 gets fewer additions, and one with the library's version of
 * Unicode gets none.
 */
#include <pthread.h>
#include <string.h>

#include "core/base/base.h"
#include "train/text/bpe_inside.h"
#include "train/text/bpe_unicode_table.h"

const char yokei_bpe_digits_pattern[] = DIGITS_PATTERN;

enum { MAX_LACKING = 512, MAX_RANGE = 0x2000, N_PAGES = 0x1100 };
static struct yokei_bpe_lacking lacking[MAX_LACKING];
static size_t n_lacking;
static unsigned char page_has[N_PAGES]; /* [code / 256] whether a character of `lacking` is in this page */
static yoke_status asked;

static const char CATEGORIES[][3] = { "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                      "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                      "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co" };
struct categories {
    pcre2_code *runs[YOKE_COUNT(CATEGORIES)]; /* \p{Cn}+ and so on */
    pcre2_match_data *found;
};

static yoke_status open_categories(struct categories *c)
{
    c->found = pcre2_match_data_create(1, NULL);
    for (size_t i = 0; i < YOKE_COUNT(CATEGORIES); i++) {
        char text[16];
        int error;
        size_t offset;
        yokei_text(text, sizeof text, "\\p{%s}+", CATEGORIES[i]);
        c->runs[i] = pcre2_compile((PCRE2_SPTR)text, strlen(text), PCRE2_UTF | PCRE2_ANCHORED, &error,
                                   &offset, NULL);
        if (!c->runs[i] || !c->found)
            return yoke_fail(YOKE_ENOMEM, "no memory to ask PCRE2 for the characters that it knows");
    }
    return YOKE_OK;
}

static void close_categories(struct categories *c)
{
    for (size_t i = 0; i < YOKE_COUNT(CATEGORIES); i++) pcre2_code_free(c->runs[i]);
    pcre2_match_data_free(c->found);
}

int yokei_utf8_write(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    out[0] = (char)((0xf0 << (4 - length) & 0xff) | code >> 6 * (length - 1));
    for (int k = 1; k < length; k++) out[k] = (char)(0x80 | (code >> 6 * (length - 1 - k) & 0x3f));
    return length;
}

/*
 * Find the category that PCRE2 gives to the first character of a text. Returns the bytes of the run of
 * characters that have it.
 */
static size_t run_of(const struct categories *c, const char *text, size_t n, char category_out[3])
{
    for (size_t i = 0; i < YOKE_COUNT(CATEGORIES); i++) {
        if (pcre2_match(c->runs[i], (PCRE2_SPTR)text, n, 0, PCRE2_NO_UTF_CHECK, c->found, NULL) < 0) continue;
        memcpy(category_out, CATEGORIES[i], 3);
        return pcre2_get_ovector_pointer(c->found)[1];
    }
    memcpy(category_out, "Cn", 3);
    return n;
}

/* Note the characters of a range of the table for which PCRE2 has another category. */
static void ask_range(const struct categories *c, uint32_t first, uint32_t last, const char *now)
{
    static char text[4 * MAX_RANGE]; /* static, because it is large; only one thread asks */
    size_t n = 0;
    for (uint32_t code = first; code <= last && n + 4 <= sizeof text; code++)
        n += (size_t)yokei_utf8_write(code, text + n);
    char width[4];
    const size_t bytes = (size_t)yokei_utf8_write(first, width);
    for (size_t at = 0; at < n && n_lacking < MAX_LACKING;) {
        struct yokei_bpe_lacking *l = &lacking[n_lacking];
        const size_t run = run_of(c, text + at, n - at, l->had);
        l->first = first + (uint32_t)(at / bytes);
        at += run;
        l->last = first + (uint32_t)(at / bytes) - 1;
        memcpy(l->now, now, 3);
        if (strcmp(l->now, l->had) == 0) continue;
        n_lacking++;
        for (uint32_t page = l->first >> 8; page <= l->last >> 8; page++) page_has[page] = 1;
    }
}

static void ask(void)
{
    struct categories c = { .found = NULL };
    asked = open_categories(&c);
    for (size_t i = 0; i < YOKE_COUNT(NEWER) && !asked; i++)
        ask_range(&c, NEWER[i].first, NEWER[i].last, NEWER[i].category);
    close_categories(&c);
}

yoke_status yokei_bpe_ask_pcre2(const struct yokei_bpe_lacking **lacking_out, size_t *n_out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask);
    *lacking_out = lacking;
    *n_out = n_lacking;
    return asked ? yoke_fail(asked, "no memory to ask PCRE2 for the characters that it knows") : YOKE_OK;
}

bool yokei_bpe_is_lacking(uint32_t code)
{
    if (!page_has[code >> 8]) return false;
    size_t lo = 0, hi = n_lacking;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (lacking[middle].last < code)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < n_lacking && lacking[lo].first <= code;
}

bool yokei_bpe_has_lacking(const char *text, size_t n)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + n;
    while (n_lacking && at < end) {
        uint32_t code;
        if (*at < 0xe0) { /* no character of the table is below U+0800 */
            at++;
            continue;
        }
        const int length = yokei_utf8(at, (size_t)(end - at), &code);
        if (length && yokei_bpe_is_lacking(code)) return true;
        at += length ? length : 1;
    }
    return false;
}

uint32_t yokei_bpe_other_case(size_t index, uint32_t *code_out)
{
    if (index >= YOKE_COUNT(CASES)) return 0;
    *code_out = CASES[index][0];
    return CASES[index][1];
}

bool yokei_is_surely_nfc(uint32_t code)
{
    size_t lo = 0, hi = YOKE_COUNT(NFC_TOUCHES);
    if (code < NFC_TOUCHES[0][0]) return true;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (NFC_TOUCHES[middle][1] < code)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo == YOKE_COUNT(NFC_TOUCHES) || code < NFC_TOUCHES[lo][0];
}

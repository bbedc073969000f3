/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split text into words. First the runs of valid UTF-8 are found, then the added tokens in them. The text
 * between added tokens goes through the steps of the pre-tokenizer.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/busy.h"
#include "train/text/bpe_inside.h"

/* The state while a text is split. */
struct cutter {
    struct yokei_bpe *bpe;
    const unsigned char *text;
    size_t bytes;
    struct yokei_ids *ids;
    /* the next piece comes after bytes that are not valid UTF-8 and continues the text, so no space is put in
     * front of it */
    bool goes_on;
};

static int by_content(const void *a, const void *b)
{
    const struct yokei_bpe_added *x = a, *y = b;
    const int order = memcmp(x->content, y->content, YOKE_MIN(x->bytes, y->bytes));
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

void yokei_bpe_sort_added(struct yokei_bpe_added_set *set)
{
    if (set->n) qsort(set->item, set->n, sizeof *set->item, by_content);
    for (size_t i = 0; i < set->n; i++) set->begins[(unsigned char)set->item[i].content[0]] = true;
}

/*
 * Find the first item whose next byte is at least `byte` among the items [lo, hi), which have `depth` equal
 * first bytes; 256: hi.
 */
static size_t first_with(const struct yokei_bpe_added_set *set, size_t lo, size_t hi, size_t depth, int byte)
{
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        const struct yokei_bpe_added *item = &set->item[middle];
        const int there = item->bytes > depth ? (unsigned char)item->content[depth] : -1;
        if (there < byte)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* The longest added token with which the text begins. */
static const struct yokei_bpe_added *longest(const struct yokei_bpe_added_set *set, const unsigned char *text,
                                             size_t n)
{
    const struct yokei_bpe_added *found = NULL;
    size_t lo = 0, hi = set->n;
    for (size_t depth = 0; depth < n && lo < hi; depth++) {
        lo = first_with(set, lo, hi, depth, text[depth]);
        hi = first_with(set, lo, hi, depth, text[depth] + 1);
        if (lo < hi && set->item[lo].bytes == depth + 1) found = &set->item[lo];
    }
    return found;
}

/* ---- added tokens ---- */

/* Unicode's White_Space, which is the meaning of \s. */
static bool is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680
           || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f
           || code == 0x205f || code == 0x3000;
}

/* The length in bytes of the character that ends before `at` > 0 in valid UTF-8. */
static size_t character_before(const unsigned char *run, size_t at)
{
    size_t length = 1;
    while (length < at && (run[at - length] & 0xc0) == 0x80) length++;
    return length;
}

static yoke_status is_word(struct cutter *c, const unsigned char *character, size_t n, bool *word_out)
{
    size_t begin, end;
    const char *text = (const char *)character;
    const pcre2_code *code = yokei_bpe_code(&c->bpe->word, text, n);
    return yokei_bpe_match(c->bpe, code, c->bpe->word_found, text, n, 0, word_out, &begin, &end);
}

/*
 * Extend a match to the spaces beside it, as the token requires: [*begin, *end). False if the match is a part
 * of a word and the token must not be.
 */
static yoke_status widen(struct cutter *c, const struct yokei_bpe_added *token, const unsigned char *run,
                         size_t n, size_t from, size_t *begin, size_t *end, bool *taken)
{
    bool before = false, after = false;
    uint32_t code = 0;
    if (token->single_word && *begin > 0) {
        const size_t length = character_before(run, *begin);
        YOKE_TRY(is_word(c, run + *begin - length, length, &before));
    }
    if (token->single_word && *end < n)
        YOKE_TRY(is_word(c, run + *end, (size_t)yokei_utf8(run + *end, n - *end, NULL), &after));
    *taken = !before && !after;
    while (*taken && token->lstrip && *begin > from) {
        const size_t length = character_before(run, *begin);
        (void)yokei_utf8(run + *begin - length, length, &code);
        if (!is_space(code)) break;
        *begin -= length;
    }
    while (*taken && token->rstrip && *end < n) {
        const size_t length = (size_t)yokei_utf8(run + *end, n - *end, &code);
        if (!is_space(code)) break;
        *end += length;
    }
    return YOKE_OK;
}

typedef yoke_status between(struct cutter *c, const unsigned char *piece, size_t n);

/*
 * Find the tokens of `set` in a piece, the leftmost first and among these the longest. The text between
 * tokens goes to `next`.
 */
static yoke_status cut_added(struct cutter *c, const struct yokei_bpe_added_set *set,
                             const unsigned char *piece, size_t n, between *next)
{
    size_t done = 0;
    for (size_t at = 0; at < n && set->n;) {
        const struct yokei_bpe_added *token = set->begins[piece[at]] ? longest(set, piece + at, n - at)
                                                                     : NULL;
        if (!token) {
            at++;
            continue;
        }
        size_t begin = at, end = at + token->bytes;
        bool taken = true;
        at = end;
        if (token->single_word || token->lstrip || token->rstrip)
            YOKE_TRY(widen(c, token, piece, n, done, &begin, &end, &taken));
        if (!taken) continue;
        if (begin > done) YOKE_TRY(next(c, piece + done, begin - done));
        YOKE_TRY(yokei_ids_add(c->ids, token->id));
        c->goes_on = false;
        done = YOKE_MAX(done, end);
    }
    return done < n ? next(c, piece + done, n - done) : YOKE_OK;
}

/* ---- the pre-tokenizer ---- */

static yoke_status cut_by_step(struct cutter *c, int step, const unsigned char *piece, size_t n,
                               size_t offset);

/*
 * The state of one step, whose pieces go to the next step. One piece is held back, because behaviours that
 * merge pieces depend on the piece after it.
 */
struct holder {
    struct cutter *c;
    const struct yokei_bpe_step *step;
    const unsigned char *piece;
    size_t offset;
    int index;
    bool holds, was_match;
    size_t begin, end;
};

static yoke_status let_go(struct holder *h)
{
    if (!h->holds) return YOKE_OK;
    h->holds = false;
    return cut_by_step(h->c, h->index + 1, h->piece + h->begin, h->end - h->begin, h->offset + h->begin);
}

static yoke_status hold(struct holder *h, size_t begin, size_t end, bool is_match)
{
    if (begin == end) return YOKE_OK;
    is_match = is_match != h->step->invert;
    const bool joins = h->holds
                       && ((h->step->behavior == YOKEI_BPE_CONTIGUOUS && is_match == h->was_match)
                           || (h->step->behavior == YOKEI_BPE_WITH_PREVIOUS && is_match && !h->was_match)
                           || (h->step->behavior == YOKEI_BPE_WITH_NEXT && !is_match && h->was_match));
    h->was_match = is_match;
    if (joins) {
        h->end = end;
        return YOKE_OK;
    }
    YOKE_TRY(let_go(h));
    if (h->step->behavior == YOKEI_BPE_REMOVED && is_match) return YOKE_OK;
    h->holds = true;
    h->begin = begin;
    h->end = end;
    return YOKE_OK;
}

/*
 * Spell the bytes of a piece as in the vocabulary. at_out gives for each byte of the result the byte of the
 * piece. The memory is allocated, because steps are nested.
 */
static yoke_status spell_piece(const unsigned char *piece, size_t n, char **text_out, size_t **at_out,
                               size_t *n_out)
{
    char *text = malloc(2 * n + 1);
    size_t *at = malloc((2 * n + 1) * sizeof *at), length = 0;
    if (!text || !at) {
        free(text);
        free(at);
        return yoke_fail(YOKE_ENOMEM, "no memory to cut a piece of %zu bytes into words", n);
    }
    for (size_t i = 0; i < n; i++) {
        const int more = yokei_bpe_spell(piece[i], text + length);
        for (int k = 0; k < more; k++) at[length++] = i;
    }
    at[length] = n;
    *text_out = text;
    *at_out = at;
    *n_out = length;
    return YOKE_OK;
}

/* Every step has its own match data, and reads it before the next step runs. */
static yoke_status cut(struct holder *h, const char *text, size_t n, const size_t *at)
{
    size_t done = 0, begin, end;
    bool found = true;
    const pcre2_code *code = yokei_bpe_code(&h->step->pattern, text, n);
    while (done < n) {
        YOKE_TRY(yokei_bpe_match(h->c->bpe, code, h->step->found, text, n, done, &found, &begin, &end));
        if (!found) break;
        YOKE_TRY(hold(h, at ? at[done] : done, at ? at[begin] : begin, false));
        YOKE_TRY(hold(h, at ? at[begin] : begin, at ? at[end] : end, true));
        done = end;
    }
    YOKE_TRY(hold(h, at ? at[done] : done, at ? at[n] : n, false));
    return let_go(h);
}

/* Put a space in front of a text that does not begin with one. The copy is cut instead of the piece. */
static yoke_status with_space(struct cutter *c, int step, const unsigned char *piece, size_t n, size_t offset)
{
    unsigned char *longer = malloc(n + 1);
    if (!longer) return yoke_fail(YOKE_ENOMEM, "no memory to put a space in front of %zu bytes", n);
    longer[0] = ' ';
    memcpy(longer + 1, piece, n);
    const yoke_status status = cut_by_step(c, step, longer, n + 1, offset);
    free(longer);
    return status;
}

/* Run the steps from `index` on for a piece at `offset` in the text. */
static yoke_status cut_by_step(struct cutter *c, int index, const unsigned char *piece, size_t n,
                               size_t offset)
{
    struct yokei_bpe *bpe = c->bpe;
    if (n == 0) return YOKE_OK;
    if (index == bpe->n_steps) {
        yokei_busy_at((double)offset, (double)c->bytes);
        return yokei_bpe_word(bpe, piece, n, offset, c->ids);
    }
    const struct yokei_bpe_step *step = &bpe->step[index];
    if (step->prefix && piece[0] != ' ' && !c->goes_on) return with_space(c, index, piece, n, offset);
    if (!step->pattern.code) return cut_by_step(c, index + 1, piece, n, offset);
    struct holder h = { .c = c, .step = step, .piece = piece, .offset = offset, .index = index };
    if (!step->spelled) return cut(&h, (const char *)piece, n, NULL);
    char *text = NULL;
    size_t *at = NULL, length = 0;
    YOKE_TRY(spell_piece(piece, n, &text, &at, &length));
    const yoke_status status = cut(&h, text, length, at);
    free(text);
    free(at);
    return status;
}

/* ---- the text ---- */

static yoke_status words(struct cutter *c, const unsigned char *piece, size_t n)
{
    return cut_by_step(c, 0, piece, n, (size_t)(piece - c->text));
}

static yoke_status normalized(struct cutter *c, const unsigned char *piece, size_t n)
{
    uint32_t code = 0;
    for (size_t i = 0; i < n && c->bpe->is_nfc;) {
        const size_t length = (size_t)yokei_utf8(piece + i, n - i, &code);
        if (!yokei_is_surely_nfc(code))
            return yoke_fail(
                YOKE_EDATA,
                "%s normalizes text to NFC, which Yoke does not compute, and U+%04X at byte %zu of the text may be changed by it: "
                "give it text without combining marks",
                c->bpe->path, (unsigned)code, (size_t)(piece + i - c->text));
        i += length;
    }
    return cut_added(c, &c->bpe->normalized, piece, n, words);
}

static yoke_status encode(struct yokei_bpe *bpe, const void *text, size_t bytes, unsigned flags,
                          struct yokei_ids *ids)
{
    struct cutter c = { .bpe = bpe, .text = text, .bytes = bytes, .ids = ids };
    for (size_t i = 0; i < bpe->n_prefix && flags & YOKEI_BPE_TEMPLATE; i++)
        YOKE_TRY(yokei_ids_add(ids, bpe->prefix[i]));
    for (size_t at = 0; at < bytes;) {
        const size_t begin = at;
        size_t length;
        while (at < bytes && (length = (size_t)yokei_utf8(c.text + at, bytes - at, NULL)) > 0) at += length;
        if (at > begin) YOKE_TRY(cut_added(&c, &bpe->raw, c.text + begin, at - begin, normalized));
        const size_t broken = at;
        while (at < bytes && yokei_utf8(c.text + at, bytes - at, NULL) == 0) at++;
        if (at > broken) YOKE_TRY(yokei_bpe_word(bpe, c.text + broken, at - broken, broken, ids));
        c.goes_on = true;
    }
    for (size_t i = 0; i < bpe->n_suffix && flags & YOKEI_BPE_TEMPLATE; i++)
        YOKE_TRY(yokei_ids_add(ids, bpe->suffix[i]));
    return YOKE_OK;
}

yoke_status yokei_bpe_encode(struct yokei_bpe *bpe, const void *text, size_t bytes, unsigned flags,
                             struct yokei_ids *ids)
{
    yokei_busy_begin("encoding the text");
    const yoke_status status = encode(bpe, text, bytes, flags, ids);
    yokei_busy_end();
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The internals of the tokenizer, shared by its files: bpe.c (tokens, merging), bpe_json.c (the file),
 * bpe_split.c (text into words), bpe_regex.c (patterns), bpe_unicode.c (characters that PCRE2 lacks).
 */
#ifndef TRAIN_TEXT_BPE_INSIDE_H
#define TRAIN_TEXT_BPE_INSIDE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "train/text/bpe.h"

enum { YOKEI_BPE_MAX_IDS = 1 << 24, YOKEI_BPE_MAX_STEPS = 16 };

struct yokei_bpe_token {
    char *name;           /* as the file spells it; NULL: no token has this id */
    unsigned char *bytes; /* the bytes that the token stands for */
    uint32_t n_name, n_bytes;
    bool is_added, is_special;
};
/** A hash table from the spelling of tokens to ids, with open addressing. An empty place is -1. */
struct yokei_bpe_names {
    int32_t *place;
    size_t mask;
};
/** Two neighbouring tokens that are merged into one. The merge with the lowest rank is done first. */
struct yokei_bpe_merge {
    uint64_t pair; /* left << 32 | right */
    uint32_t rank;
    int32_t id; /* id of the merged token; -1: an empty place */
};
/** An added token. It is found in the text itself, before the text is cut into words. */
struct yokei_bpe_added {
    const char *content;
    size_t bytes;
    int32_t id;
    bool single_word, lstrip, rstrip;
};
/** A set of added tokens, sorted by content. */
struct yokei_bpe_added_set {
    struct yokei_bpe_added *item;
    size_t n;
    bool begins[256]; /* [byte] whether an item begins with this byte */
};

/** The treatment of a match of a step's pattern. */
enum yokei_bpe_behavior {
    YOKEI_BPE_REMOVED,
    YOKEI_BPE_ISOLATED,
    YOKEI_BPE_WITH_PREVIOUS,
    YOKEI_BPE_WITH_NEXT,
    YOKEI_BPE_CONTIGUOUS
};
/** A compiled pattern. */
struct yokei_bpe_pattern {
    pcre2_code *code; /* for a text whose characters PCRE2 knows; NULL: there is no pattern */
    /*
     * The pattern with the characters that PCRE2 lacks, for a text that has one of them. It is slower,
     * because its classes have long lists. NULL: `code` is right for every text.
     */
    pcre2_code *wider;
};
/** One step of the pre-tokenizer. It cuts the text by a pattern. */
struct yokei_bpe_step {
    struct yokei_bpe_pattern pattern; /* without code: nothing is cut */
    pcre2_match_data *found;
    enum yokei_bpe_behavior behavior;
    bool invert; /* exchange the matches and the text between matches */
    bool prefix; /* put a space in front of a text that does not begin with one */
    /* the step comes after ByteLevel, so the pattern sees bytes as the vocabulary spells them */
    bool spelled;
};

enum { YOKEI_BPE_CACHED_BYTES = 23, YOKEI_BPE_CACHED_IDS = 8, YOKEI_BPE_CACHE = 1 << 14 };
struct yokei_bpe_cached {
    uint8_t n_bytes, n_ids; /* n_bytes 0: empty */
    unsigned char bytes[YOKEI_BPE_CACHED_BYTES];
    int32_t id[YOKEI_BPE_CACHED_IDS];
};

/**
 * The state while a word's tokens are merged: a list of symbols, and a heap of the possible merges with the
 * lowest rank first.
 */
struct yokei_bpe_symbol {
    int32_t id;              /* -1: merged into the symbol before */
    uint32_t previous, next; /* UINT32_MAX: none */
};
struct yokei_bpe_work {
    struct yokei_bpe_symbol *symbol;
    uint64_t *heap; /* rank << 32 | index of the left symbol */
    size_t room, n_heap;
    char *text; /* [2 room] scratch memory for a spelling */
};

struct yokei_bpe {
    char *path;
    struct yokei_bpe_token *token; /* [n_ids] */
    int64_t n_ids, ids_room;
    size_t n_tokens;
    struct yokei_bpe_names names;
    struct yokei_bpe_merge *merge;
    size_t merge_mask;
    int32_t byte_id[256]; /* -1: the vocabulary has no token for this byte */
    bool ignore_merges, is_nfc, is_byte_level;
    struct yokei_bpe_added_set raw,
        normalized; /* added tokens that are found before and after the normalizer */
    /* matches a word character, for added tokens that may not be a part of a word */
    struct yokei_bpe_pattern word;
    pcre2_match_data *word_found;
    struct yokei_bpe_step step[YOKEI_BPE_MAX_STEPS];
    int n_steps;
    int32_t *prefix, *suffix; /* tokens of the template before and after the text */
    size_t n_prefix, n_suffix;
    pcre2_match_context *match;
    pcre2_jit_stack *stack;
    struct yokei_bpe_cached *cache;
    struct yokei_bpe_work work;
};

/* ---- bpe_bytes.c: the spelling of bytes, and UTF-8 ---- */
/**
 * Write GPT-2's spelling of a byte as a printable character in UTF-8. Returns its length, one or two bytes.
 */
int yokei_bpe_spell(unsigned char byte, char out[2]);
/**
 * Convert a spelled token to its bytes out [n]. Returns their number, or -1 if a character is not the
 * spelling of a byte.
 */
int64_t yokei_bpe_unspell(const char *name, size_t n, unsigned char *out);
/** The length of the valid UTF-8 character at `text`; 0: there is none. `code_out` may be NULL. */
int yokei_utf8(const unsigned char *text, size_t bytes, uint32_t *code_out);

/* ---- bpe_unicode.c: what the tokenizers library knows of characters, and PCRE2 may not ---- */
/** Characters [first, last]: their category for the tokenizers library, and for PCRE2 ("Cn": unassigned). */
struct yokei_bpe_lacking {
    uint32_t first, last;
    char now[3], had[3];
};
/**
 * The list of characters for which PCRE2 has another category than the tokenizers library, in ascending
 * order. PCRE2 is asked at the first call. Thread-safe. YOKE_ENOMEM.
 */
yoke_status yokei_bpe_ask_pcre2(const struct yokei_bpe_lacking **lacking_out, size_t *n_out);
/** Whether a character is in this list, and whether a text has one. Call yokei_bpe_ask_pcre2 before. */
bool yokei_bpe_is_lacking(uint32_t code);
bool yokei_bpe_has_lacking(const char *text, size_t n);
/**
 * Pair `index` of letters that differ only in case: *code_out gets a new letter, and the function returns the
 * other. 0: there are no more pairs.
 */
uint32_t yokei_bpe_other_case(size_t index, uint32_t *code_out);
/**
 * True if the NFC normalizer of the tokenizers library changes no text that has only such characters. This
 * holds for all unassigned and private characters.
 */
bool yokei_is_surely_nfc(uint32_t code);
/** The pattern of the step "Digits". */
extern const char yokei_bpe_digits_pattern[];
/** Write a character as UTF-8. Returns the number of bytes. */
int yokei_utf8_write(uint32_t code, char out[4]);

/* ---- bpe_json.c ---- */
yoke_status yokei_bpe_read(struct yokei_bpe *bpe, const char *text, size_t bytes);

/* ---- bpe.c ---- */
/**
 * Add an entry of the vocabulary, or an added token, which may also be in the vocabulary. YOKE_EDATA if
 * another token has this id or this spelling.
 */
yoke_status yokei_bpe_add_token(struct yokei_bpe *bpe, const char *name, int64_t id, bool is_added,
                                const char *where);
/** Reserve room for n merges once, then add each merge in the order of the ranks. */
yoke_status yokei_bpe_reserve_merges(struct yokei_bpe *bpe, size_t n);
void yokei_bpe_add_merge(struct yokei_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id);
int32_t yokei_bpe_find_bytes(const struct yokei_bpe *bpe, const char *name, size_t n);
/** Append the tokens of a word. `offset` is the word's place in the text, for messages. */
yoke_status yokei_bpe_word(struct yokei_bpe *bpe, const unsigned char *word, size_t n, size_t offset,
                           struct yokei_ids *ids);

/* ---- bpe_regex.c ---- */
/**
 * Compile a pattern of Hugging Face's (Oniguruma, Rust) for PCRE2, with Unicode's meaning of its classes.
 * `is_plain`: the pattern is literal text, not an expression. YOKE_ECONFIG, with `where` in front of the
 * message, for a pattern that the engines understand differently, that is not valid, or that matches the
 * empty text.
 */
yoke_status yokei_bpe_compile(const char *where, const char *pattern, bool is_plain,
                              struct yokei_bpe_pattern *pattern_out);
/**
 * Compile the pattern of a word character. A token with single_word does not match beside such a character.
 */
yoke_status yokei_bpe_compile_word(struct yokei_bpe_pattern *pattern_out);
void yokei_bpe_pattern_free(struct yokei_bpe_pattern *pattern);
/** The form of the pattern that is right for all of a text. */
const pcre2_code *yokei_bpe_code(const struct yokei_bpe_pattern *pattern, const char *text, size_t n);
/**
 * Find the first match at or after `from` in text [n]: [*begin, *end). *found is false if there is no match.
 */
yoke_status yokei_bpe_match(const struct yokei_bpe *bpe, const pcre2_code *code, pcre2_match_data *data,
                            const char *text, size_t n, size_t from, bool *found, size_t *begin, size_t *end);

/* ---- bpe_split.c ---- */
/** Sort a set of added tokens for matching. */
void yokei_bpe_sort_added(struct yokei_bpe_added_set *set);

#endif

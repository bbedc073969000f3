/* SPDX-License-Identifier: Apache-2.0 */
/** The tokenizer's inside, shared by its files: bpe.c (tokens, merging), bpe_json.c (the file), bpe_split.c (text into words), bpe_regex.c. */
#ifndef TRAIN_TEXT_BPE_INSIDE_H
#define TRAIN_TEXT_BPE_INSIDE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "train/text/bpe.h"

enum { YOKEI_BPE_MAX_IDS = 1 << 24, YOKEI_BPE_MAX_STEPS = 16 };

struct yokei_bpe_token {
    char *name;           /* as the file spells it; NULL: no token has this id */
    unsigned char *bytes; /* that it stands for */
    uint32_t n_name, n_bytes;
    bool is_added, is_special;
};
/** A set of ids by the spelling of their tokens; open addressing, -1: empty. */
struct yokei_bpe_names {
    int32_t *place;
    size_t mask;
};
/** Two neighbouring tokens that become one; the lowest rank first. */
struct yokei_bpe_merge {
    uint64_t pair; /* left << 32 | right */
    uint32_t rank;
    int32_t id;    /* of both together; -1: an empty place */
};
/** A token that is found in the text itself, before it is cut into words. */
struct yokei_bpe_added {
    const char *content;
    size_t bytes;
    int32_t id;
    bool single_word, lstrip, rstrip;
};
/** Sorted by content. */
struct yokei_bpe_added_set {
    struct yokei_bpe_added *item;
    size_t n;
    bool begins[256]; /* the first bytes that there are */
};

/** What becomes of a match of a step's pattern. */
enum yokei_bpe_behavior { YOKEI_BPE_REMOVED, YOKEI_BPE_ISOLATED, YOKEI_BPE_WITH_PREVIOUS, YOKEI_BPE_WITH_NEXT, YOKEI_BPE_CONTIGUOUS };
/** A step of the pre-tokenizer: cut by a pattern. */
struct yokei_bpe_step {
    pcre2_code *pattern;    /* NULL: nothing is cut */
    pcre2_match_data *found;
    enum yokei_bpe_behavior behavior;
    bool invert;            /* what matches and what lies between matches change places */
    bool prefix;            /* put a space in front of what does not begin with one */
    bool spelled;           /* behind ByteLevel: the pattern sees bytes as the vocabulary spells them */
};

enum { YOKEI_BPE_CACHED_BYTES = 23, YOKEI_BPE_CACHED_IDS = 8, YOKEI_BPE_CACHE = 1 << 14 };
struct yokei_bpe_cached {
    uint8_t n_bytes, n_ids; /* n_bytes 0: empty */
    unsigned char bytes[YOKEI_BPE_CACHED_BYTES];
    int32_t id[YOKEI_BPE_CACHED_IDS];
};

/** A word while its tokens are merged: a list of symbols, and the merges that may be done, lowest rank first. */
struct yokei_bpe_symbol {
    int32_t id;               /* -1: merged into the one before */
    uint32_t previous, next;  /* UINT32_MAX: none */
};
struct yokei_bpe_work {
    struct yokei_bpe_symbol *symbol;
    uint64_t *heap;           /* rank << 32 | index of the left symbol */
    size_t room, n_heap;
    char *text;               /* [2 room] scratch of a spelling */
};

struct yokei_bpe {
    char *path;
    struct yokei_bpe_token *token; /* [n_ids] */
    int64_t n_ids, ids_room;
    size_t n_tokens;
    struct yokei_bpe_names names;
    struct yokei_bpe_merge *merge;
    size_t merge_mask;
    int32_t byte_id[256];          /* -1: the vocabulary lacks it */
    bool ignore_merges, is_nfc, is_byte_level;
    struct yokei_bpe_added_set raw, normalized; /* found before and behind the normalizer */
    pcre2_code *word;              /* a character of a word, for added tokens that ask to be none of one */
    pcre2_match_data *word_found;
    struct yokei_bpe_step step[YOKEI_BPE_MAX_STEPS];
    int n_steps;
    int32_t *prefix, *suffix;      /* of the template */
    size_t n_prefix, n_suffix;
    pcre2_match_context *match;
    pcre2_jit_stack *stack;
    struct yokei_bpe_cached *cache;
    struct yokei_bpe_work work;
};

/* ---- bpe_bytes.c: the spelling of bytes, and UTF-8 ---- */
/** GPT-2's spelling of a byte as a printable character: its UTF-8, of one or two bytes; returns their number. */
int yokei_bpe_spell(unsigned char byte, char out[2]);
/** The bytes of a spelled token into out [n]; their number, or -1 where it has a character that spells no byte. */
int64_t yokei_bpe_unspell(const char *name, size_t n, unsigned char *out);
/** Bytes of the valid UTF-8 character at `text`; 0: it is none. `code_out` may be NULL. */
int yokei_utf8(const unsigned char *text, size_t bytes, uint32_t *code_out);
/** Whether no NFC normalizer changes a text of such characters: true is certain, false is not. */
bool yokei_is_surely_nfc(uint32_t code);

/* ---- bpe_json.c ---- */
yoke_status yokei_bpe_read(struct yokei_bpe *bpe, const char *text, size_t bytes);

/* ---- bpe.c ---- */
/** An entry of the vocabulary, or an added token, which may stand in the vocabulary too. YOKE_EDATA: another token has this id, or this spelling. */
yoke_status yokei_bpe_add_token(struct yokei_bpe *bpe, const char *name, int64_t id, bool is_added, const char *where);
/** Room for n merges, once; then each, in the order of their ranks. */
yoke_status yokei_bpe_reserve_merges(struct yokei_bpe *bpe, size_t n);
void yokei_bpe_add_merge(struct yokei_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id);
int32_t yokei_bpe_find_bytes(const struct yokei_bpe *bpe, const char *name, size_t n);
/** A word's tokens. `offset`: where it lies in the text, for messages. */
yoke_status yokei_bpe_word(struct yokei_bpe *bpe, const unsigned char *word, size_t n, size_t offset, struct yokei_ids *ids);

/* ---- bpe_regex.c ---- */
/**
 * Compile a pattern of Hugging Face's (Oniguruma, Rust) for PCRE2, with Unicode's meaning of its classes. YOKE_ECONFIG, after `where`: what
 * the engines understand differently, what is not valid, and what matches the empty text. `is_plain`: the text itself, no expression.
 */
yoke_status yokei_bpe_compile(const char *where, const char *pattern, bool is_plain, pcre2_code **code_out);
/** A character of a word, beside which a token with single_word is none. */
yoke_status yokei_bpe_compile_word(pcre2_code **code_out);
/** The first match in text [n] at or behind `from`: [*begin, *end); false in *found where there is none. */
yoke_status yokei_bpe_match(const struct yokei_bpe *bpe, const pcre2_code *code, pcre2_match_data *data, const char *text, size_t n, size_t from,
                            bool *found, size_t *begin, size_t *end);

/* ---- bpe_split.c ---- */
/** Sort a set of added tokens for matching. */
void yokei_bpe_sort_added(struct yokei_bpe_added_set *set);

#endif

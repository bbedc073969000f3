/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Byte-level BPE: text to tokens and back, as described by Hugging Face's tokenizer.json (GPT-2, Llama 3 and
 * similar models).
 *
 * A text may have any bytes. Bytes that are not valid UTF-8 belong to no character, so patterns and added
 * tokens do not match them. Each run of such bytes is a separate word and is decoded unchanged. (Hugging
 * Face's library takes only valid text.)
 *
 * These parts of tokenizer.json are supported: model BPE (vocab, merges in both spellings, ignore_merges);
 * added_tokens; normalizer null or NFC; pre_tokenizer ByteLevel, Split, Digits and sequences of them; decoder
 * ByteLevel; post_processor null, ByteLevel and TemplateProcessing. Anything else that changes the tokens is
 * refused by its name. `truncation` and `padding` are ignored: the whole text is encoded, and nothing is
 * added.
 */
#ifndef TRAIN_TEXT_BPE_H
#define TRAIN_TEXT_BPE_H

#include <yoke/base.h>

struct yokei_bpe;

/**
 * Open a tokenizer.json, or the folder that holds it. Each error names the file, the place in it and the
 * reason. Errors: YOKE_EDATA (missing; not JSON, with line and column; merges that name no token; two tokens
 * with one id), YOKE_ECONFIG (wrong types, and anything that is not byte-level BPE), YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_bpe_open(const char *path, struct yokei_bpe **bpe_out);
/** The same from the JSON text in memory; `path` is for messages. */
yoke_status yokei_bpe_parse(const char *path, const char *text, size_t bytes, struct yokei_bpe **bpe_out);
/** NULL is allowed. */
void yokei_bpe_close(struct yokei_bpe *bpe);
/**
 * Refuse a SentencePiece tokenizer with YOKE_ECONFIG. The message says how it was recognised, and what to do
 * instead.
 */
yoke_status yokei_bpe_refuse_sentencepiece(const char *file, const char *where, const char *mark);
/**
 * For a folder without tokenizer.json. YOKE_ECONFIG or YOKE_EDATA if it has a tokenizer in another form; the
 * message says how to get a form that Yoke reads.
 */
yoke_status yokei_bpe_look_for_others(const char *folder);
/** The path of the file. */
const char *yokei_bpe_path(const struct yokei_bpe *bpe);
/** The largest id + 1. A model's vocab_size is at least this number. Some ids below it may be unused. */
int64_t yokei_bpe_n_ids(const struct yokei_bpe *bpe);
/** The id of the token with exactly this spelling, such as "<|endoftext|>"; -1: there is none. */
int32_t yokei_bpe_find(const struct yokei_bpe *bpe, const char *name);
/** The bytes that a token stands for, and their number. NULL if no token has this id. */
const unsigned char *yokei_bpe_token(const struct yokei_bpe *bpe, int64_t id, size_t *bytes_out);
/** Whether `id` is an added token that the file calls special, such as the begin or the end of a text. */
bool yokei_bpe_is_special(const struct yokei_bpe *bpe, int64_t id);

/** A growing array of tokens in host memory. The owner calls free() on `id`. */
struct yokei_ids {
    int32_t *id;
    size_t n, room;
};
yoke_status yokei_ids_add(struct yokei_ids *ids, int32_t id);
/* add what the post-processor puts around a text, such as Llama 3's begin of text */
enum yokei_bpe_flags { YOKEI_BPE_TEMPLATE = 1 };
/**
 * Append a text's tokens to `ids`. O(n log n) in the bytes, also for long words. Not thread-safe, because a
 * tokenizer has a cache. If it fails, `ids` holds the tokens before the error. Errors: YOKE_EDATA (a byte for
 * which the vocabulary has no token, or text that the NFC normalizer might change; with its offset),
 * YOKE_EUNSUPPORTED (a word of 2^31 bytes), YOKE_ENOMEM.
 */
yoke_status yokei_bpe_encode(struct yokei_bpe *bpe, const void *text, size_t bytes, unsigned flags,
                             struct yokei_ids *ids);
/** Decode tokens to bytes in malloc'ed memory that ends in a zero byte. YOKE_EDATA: no token has this id. */
yoke_status yokei_bpe_decode(const struct yokei_bpe *bpe, const int32_t *ids, size_t n, char **text_out,
                             size_t *bytes_out);

#endif

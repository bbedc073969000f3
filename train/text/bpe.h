/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Byte-level BPE: text to tokens and back, as Hugging Face's tokenizer.json describes it (GPT-2, Llama 3 and their like).
 *
 * Text is any bytes. What is no valid UTF-8 belongs to no character, so patterns and added tokens do not see it: each run of such
 * bytes is a word of its own, and comes back as it was. (Hugging Face's library takes valid text only.)
 *
 * Read: model BPE (vocab, merges in both spellings, ignore_merges); added_tokens; normalizer null or NFC; pre_tokenizer ByteLevel, Split,
 * Digits and sequences of them; decoder ByteLevel; post_processor null, ByteLevel and TemplateProcessing. Whatever else changes
 * the tokens is refused by its name. `truncation` and `padding` are passed over: all of a text is encoded, and nothing more.
 */
#ifndef TRAIN_TEXT_BPE_H
#define TRAIN_TEXT_BPE_H

#include <yoke/base.h>

struct yokei_bpe;

/**
 * Open a tokenizer.json, or the folder that holds it.
 * Errors, with file, place in it and reason: YOKE_EDATA (missing, not JSON: line and column; merges that name no token, two tokens
 * of one id), YOKE_ECONFIG (types, and what is not byte-level BPE), YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_bpe_open(const char *path, struct yokei_bpe **bpe_out);
/** The same from the JSON's text; `path` is for messages. */
yoke_status yokei_bpe_parse(const char *path, const char *text, size_t bytes, struct yokei_bpe **bpe_out);
/** NULL is allowed. */
void yokei_bpe_close(struct yokei_bpe *bpe);
/** A SentencePiece tokenizer, by what it was known by; and what to do instead. YOKE_ECONFIG. */
yoke_status yokei_bpe_refuse_sentencepiece(const char *file, const char *where, const char *mark);
/** For a folder without tokenizer.json: YOKE_ECONFIG or YOKE_EDATA where it holds a tokenizer in another form, with how to come to one that is read. */
yoke_status yokei_bpe_look_for_others(const char *folder);
/** The file's path. */
const char *yokei_bpe_path(const struct yokei_bpe *bpe);
/** The largest id + 1: a model's vocab_size is at least this. Ids below it may be unused. */
int64_t yokei_bpe_n_ids(const struct yokei_bpe *bpe);
/** The token of exactly this spelling, such as "<|endoftext|>"; -1: none. */
int32_t yokei_bpe_find(const struct yokei_bpe *bpe, const char *name);
/** The bytes that a token stands for, and their number; NULL where no token has this id. */
const unsigned char *yokei_bpe_token(const struct yokei_bpe *bpe, int64_t id, size_t *bytes_out);
/** Whether `id` is an added token that the file calls special (the begin of a text, its end, …). */
bool yokei_bpe_is_special(const struct yokei_bpe *bpe, int64_t id);

/** Tokens in host memory that grows; free() `id`. */
struct yokei_ids {
    int32_t *id;
    size_t n, room;
};
yoke_status yokei_ids_add(struct yokei_ids *ids, int32_t id);
enum yokei_bpe_flags { YOKEI_BPE_TEMPLATE = 1 /* with what the post-processor puts around a text, such as Llama 3's begin of text */ };
/**
 * Append a text's tokens to `ids`. O(n log n) in the bytes, words of any length included. Not thread-safe: a tokenizer keeps a cache.
 * Errors (`ids` then holds what came before): YOKE_EDATA (a byte that the vocabulary has no token for; text that the NFC normalizer might
 * change: with its offset), YOKE_EUNSUPPORTED (a word of 2^31 bytes), YOKE_ENOMEM.
 */
yoke_status yokei_bpe_encode(struct yokei_bpe *bpe, const void *text, size_t bytes, unsigned flags, struct yokei_ids *ids);
/** The bytes of tokens, one after the other, in malloc'ed memory that ends in a zero byte. YOKE_EDATA: an id that no token has. */
yoke_status yokei_bpe_decode(const struct yokei_bpe *bpe, const int32_t *ids, size_t n, char **text_out, size_t *bytes_out);

#endif

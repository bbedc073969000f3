/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Token files: the data that a run trains on, its split into a training and a validation part, and the order
 * of its samples.
 *
 * The first four bytes decide the format:
 *   - llm.c: 256 little-endian int32 {magic, version, number of tokens, 0 …}, then the tokens. magic 20240520
 *     version 1: uint16; magic 20240801 version 7: uint32
 *   - anything else is text, with one token per byte (vocabulary 256). A file whose name ends in .bin must
 *     have llm.c's format.
 * Files are mapped, not read. The validation part is the end of the file and never occurs in a training
 * sample.
 */
#ifndef TRAIN_TEXT_TOKENS_H
#define TRAIN_TEXT_TOKENS_H

#include <yoke/base.h>

struct yokei_tokens;

enum yokei_tokens_format { YOKEI_TOKENS_AUTO = 0, YOKEI_TOKENS_BYTES, YOKEI_TOKENS_LLMC };
enum yokei_tokens_part { YOKEI_TOKENS_TRAIN, YOKEI_TOKENS_VALIDATION, YOKEI_TOKENS_ALL };

/** A field of zero means its default. */
struct yokei_tokens_config {
    size_t size;
    enum yokei_tokens_format format;
    int64_t vocab; /* every token must be smaller; 0: 256 for text, no limit for llm.c files */
    /* share of the tokens for validation, at the file's end; in (0, 0.5]; default 0.05, negative: none */
    double validation_share;
    bool no_scan; /* do not check all tokens at open (tokens are always checked when they are read) */
};
/* clang-format off */
#define YOKEI_TOKENS_CONFIG_INIT { sizeof(struct yokei_tokens_config), YOKEI_TOKENS_AUTO, 0, 0, false }
/* clang-format on */

/**
 * Map a token file and check it: magic, version, the size in the header, and that every token is smaller than
 * the vocabulary. config NULL: defaults. Each error names the file, the byte offset and the reason. Errors:
 * YOKE_EDATA (missing, empty, truncated, longer than its header says, token too large, vocabulary below 256
 * for text), YOKE_EIO (cannot be read), YOKE_EINVAL (share), YOKE_ENOMEM.
 */
yoke_status yokei_tokens_open(const char *path, const struct yokei_tokens_config *config,
                              struct yokei_tokens **tokens_out);
/**
 * Tokens from memory instead of a file. `ids` is malloc'ed. This function takes ownership of it, also if it
 * fails. `path` says where the tokens came from, for messages. Errors: YOKE_EDATA (no tokens; one that is
 * negative or not below config->vocab), YOKE_EINVAL (share), YOKE_ENOMEM.
 */
yoke_status yokei_tokens_of(const char *path, int32_t *ids, size_t n,
                            const struct yokei_tokens_config *config, struct yokei_tokens **tokens_out);
/**
 * Write a file in llm.c's format. It has uint16 if every id of a vocabulary of `vocab` fits, otherwise
 * uint32. YOKE_EDATA (an id outside the vocabulary), YOKE_EUNSUPPORTED (2^31 tokens), YOKE_EIO.
 */
yoke_status yokei_tokens_write(const char *path, const int32_t *ids, size_t n, int64_t vocab);
/** NULL is allowed. */
void yokei_tokens_close(struct yokei_tokens *tokens);

const char *yokei_tokens_path(const struct yokei_tokens *tokens);
/** Whether a token is a byte of text. Then losses are nats per byte, and samples can be written unchanged. */
bool yokei_tokens_are_bytes(const struct yokei_tokens *tokens);
/** Number of tokens of a part. */
int64_t yokei_tokens_count(const struct yokei_tokens *tokens, enum yokei_tokens_part part);
/**
 * XXH3 of the format, the count and all tokens' bytes; the path does not count. Runs compare it between ranks
 * and with a plan.
 */
uint64_t yokei_tokens_hash(const struct yokei_tokens *tokens);

/**
 * Check that the mapped file still has the tokens that yokei_tokens_hash gave as `hash`. The size and the
 * time of the last change are compared first, and the tokens are hashed only if one of them differs. So the
 * call is cheap for a file that nobody changes. Another file that takes the path is no change, because the
 * mapped file stays. YOKE_EDATA.
 */
yoke_status yokei_tokens_unchanged(struct yokei_tokens *tokens, uint64_t hash);

/**
 * Set tokens_out[i] to token first + i of the part. Errors: YOKE_EINVAL (range), YOKE_EDATA (token >=
 * vocabulary: file and offset).
 */
yoke_status yokei_tokens_read(const struct yokei_tokens *tokens, enum yokei_tokens_part part, int64_t first,
                              int64_t n, int32_t *tokens_out);

/**
 * Refuse a sequence length for which the file is too short. T + 1 tokens are needed in the training part, and
 * also in the validation part if there is one. Errors: YOKE_EDATA; the message says how many tokens are
 * needed and how many there are.
 */
yoke_status yokei_tokens_check_length(const struct yokei_tokens *tokens, int64_t T);

/**
 * Training sample number `global_sample`: inputs [T] and targets [T], where the targets are the inputs
 * shifted by one. Numbers 0, 1, … run over the whole run and count every sequence of every rank and
 * micro-batch. The sample depends only on (seed, global_sample, T, file), so every layout gets the same
 * samples.
 *
 * Order: epoch e = global_sample / N, with N = max(1, (n_train - 1) / T - 1) windows of T tokens. All windows
 * of an epoch are shifted by the same phase in [0, T), which is drawn for the epoch (a smaller one if the
 * part is too short for it). Within the epoch the sample is window perm_e(global_sample mod N). perm_e is a
 * bijection of four Feistel rounds of Philox (cycle-walking). So an epoch visits each window once, and no
 * table is stored.
 *
 * Errors: as yokei_tokens_read; YOKE_EINVAL (T, negative sample).
 */
yoke_status yokei_tokens_sample(const struct yokei_tokens *tokens, uint64_t seed, int64_t global_sample,
                                int64_t T, int32_t *inputs_out, int32_t *targets_out);
/**
 * The token of the training part at which a sample begins, without the file. n_train is the number of tokens
 * of that part. -1: the sample is negative, or the part is too short for T.
 */
int64_t yokei_tokens_first(int64_t n_train, uint64_t seed, int64_t global_sample, int64_t T);
/**
 * Where the tokens lie in their file: the offset of the first token, and the bytes of a token. Both are 0 if
 * a tokenizer made the tokens.
 */
void yokei_tokens_place(const struct yokei_tokens *tokens, int64_t *first_byte_out, int64_t *token_bytes_out);
/**
 * N of yokei_tokens_sample: training windows of T tokens in one epoch; 0 if the part is shorter than T + 1.
 */
int64_t yokei_tokens_n_samples(const struct yokei_tokens *tokens, int64_t T);

/**
 * Validation windows of T tokens in file order, without overlap of targets. Window w covers tokens [w T, w T
 * + T].
 */
int64_t yokei_tokens_n_windows(const struct yokei_tokens *tokens, int64_t T);
yoke_status yokei_tokens_window(const struct yokei_tokens *tokens, int64_t window, int64_t T,
                                int32_t *inputs_out, int32_t *targets_out);

#endif

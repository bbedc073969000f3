/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Token files: what a run trains on, split into a training and a validation part, and the order of its samples.
 *
 * Formats, told apart by the first four bytes:
 *  - llm.c: 256 little-endian int32 {magic, version, number of tokens, 0 …}, then the tokens:
 *    magic 20240520 version 1: uint16;  magic 20240801 version 7: uint32
 *  - anything else is text, one token per byte (vocabulary 256). A name ending in .bin must be llm.c's.
 * Files are mapped, not read. The validation part is the file's tail and never appears in a training sample.
 */
#ifndef TRAIN_TEXT_TOKENS_H
#define TRAIN_TEXT_TOKENS_H

#include <yoke/base.h>

struct yokei_tokens;

enum yokei_tokens_format { YOKEI_TOKENS_AUTO = 0, YOKEI_TOKENS_BYTES, YOKEI_TOKENS_LLMC };
enum yokei_tokens_part { YOKEI_TOKENS_TRAIN, YOKEI_TOKENS_VALIDATION, YOKEI_TOKENS_ALL };

/** Zero means the default everywhere. */
struct yokei_tokens_config {
    size_t size;
    enum yokei_tokens_format format;
    int64_t vocab;           /* every token must be below it; 0: 256 for text, no limit for llm.c files */
    double validation_share; /* of the tokens, at the file's end; in (0, 0.5]; default 0.05, negative: none */
    bool no_scan;            /* do not look through a token file at open (tokens are checked when read, always) */
};
#define YOKEI_TOKENS_CONFIG_INIT { sizeof(struct yokei_tokens_config), YOKEI_TOKENS_AUTO, 0, 0, false }

/**
 * Map a token file and check it: magic, version, size against the header, every token below the vocabulary.
 * config NULL: defaults. Errors, with file, byte offset and reason: YOKE_EDATA (missing, empty, truncated, longer than
 * its header says, token too large, vocabulary below 256 for text), YOKE_EIO (cannot be read), YOKE_EINVAL (share), YOKE_ENOMEM.
 */
yoke_status yokei_tokens_open(const char *path, const struct yokei_tokens_config *config, struct yokei_tokens **tokens_out);
/**
 * Tokens in memory as if a file had held them: `ids`, malloc'ed, becomes the tokens' own also where this fails. `path`: where they came from, for
 * messages. Errors: YOKE_EDATA (none; one that is negative or not below config->vocab), YOKE_EINVAL (share), YOKE_ENOMEM.
 */
yoke_status yokei_tokens_of(const char *path, int32_t *ids, size_t n, const struct yokei_tokens_config *config, struct yokei_tokens **tokens_out);
/** Write llm.c's format: uint16 where every id of a vocabulary of `vocab` fits, else uint32. YOKE_EDATA (an id outside), YOKE_EUNSUPPORTED (2^31 tokens), YOKE_EIO. */
yoke_status yokei_tokens_write(const char *path, const int32_t *ids, size_t n, int64_t vocab);
/** NULL is allowed. */
void yokei_tokens_close(struct yokei_tokens *tokens);

const char *yokei_tokens_path(const struct yokei_tokens *tokens);
/** Whether a token is a byte of text: then losses are nats per byte, and samples can be written as they are. */
bool yokei_tokens_are_bytes(const struct yokei_tokens *tokens);
int64_t yokei_tokens_vocab(const struct yokei_tokens *tokens);
/** Number of tokens of a part. */
int64_t yokei_tokens_count(const struct yokei_tokens *tokens, enum yokei_tokens_part part);
/** XXH3 of path-independent facts: format, count and all tokens' bytes. Runs compare it between ranks and with a plan. */
uint64_t yokei_tokens_hash(const struct yokei_tokens *tokens);

/** tokens_out[i] = token first + i of the part. Errors: YOKE_EINVAL (range), YOKE_EDATA (token >= vocabulary: file and offset). */
yoke_status yokei_tokens_read(const struct yokei_tokens *tokens, enum yokei_tokens_part part, int64_t first, int64_t n,
                              int32_t *tokens_out);

/**
 * Refuse a sequence length that the file cannot serve: T + 1 tokens are needed in the training part, and in the
 * validation part where there is one. Errors: YOKE_EDATA with need and have.
 */
yoke_status yokei_tokens_check_length(const struct yokei_tokens *tokens, int64_t T);

/**
 * Training sample number `global_sample` (0, 1, … over the whole run, counting every sequence of every rank and
 * micro-batch): inputs [T] and targets [T], the inputs shifted by one. Depends on (seed, global_sample, T, file) alone,
 * so every layout sees the same samples.
 * Order: epoch e = global_sample / N with N = max(1, (n_train - 1) / T - 1) windows of T tokens, shifted together by a
 * phase in [0, T) drawn for the epoch (less where the part leaves less room); within it window
 * perm_e(global_sample mod N), a bijection made of four Feistel rounds of Philox (cycle-walking), so that an epoch visits
 * each window once and no table is stored.
 * Errors: as yokei_tokens_read; YOKE_EINVAL (T, negative sample).
 */
yoke_status yokei_tokens_sample(const struct yokei_tokens *tokens, uint64_t seed, int64_t global_sample, int64_t T,
                                int32_t *inputs_out, int32_t *targets_out);
/** N above: training windows of T tokens in one epoch; 0 where the part is shorter than T + 1. */
int64_t yokei_tokens_n_samples(const struct yokei_tokens *tokens, int64_t T);

/** Validation windows of T tokens, in file order, without overlap of targets; window w covers tokens [w T, w T + T]. */
int64_t yokei_tokens_n_windows(const struct yokei_tokens *tokens, int64_t T);
yoke_status yokei_tokens_window(const struct yokei_tokens *tokens, int64_t window, int64_t T, int32_t *inputs_out,
                                int32_t *targets_out);

#endif

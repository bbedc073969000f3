/* SPDX-License-Identifier: Apache-2.0 */
#include "train/text/tokens.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/base.h"
#include "train/files/map.h"

enum { HEADER_BYTES = 1024, MAGIC_U16 = 20240520, VERSION_U16 = 1, MAGIC_U32 = 20240801, VERSION_U32 = 7 };

struct yokei_tokens {
    struct yokei_map map;
    struct stat stat; /* of the mapped file, when it was opened or last found unchanged */
    void *owned;      /* memory of tokens that were never in a file */
    char *path;
    const unsigned char *first; /* the first token's bytes */
    int token_bytes;            /* 1, 2 or 4, little-endian */
    bool are_bytes;
    int64_t n, n_validation;
    int64_t vocab; /* 0: no limit */
};

static uint32_t load_u32(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static uint32_t load_token(const unsigned char *first, int token_bytes, int64_t index)
{
    if (token_bytes == 1) return first[index];
    if (token_bytes == 4) return load_u32(first + 4 * index);
    uint16_t v;
    memcpy(&v, first + 2 * index, sizeof v);
    return le16toh(v);
}

static yoke_status refuse_token(const struct yokei_tokens *tokens, int64_t index)
{
    long long offset = (long long)(tokens->owned ? 0 : tokens->first - tokens->map.data)
                       + (long long)index * tokens->token_bytes;
    return yoke_fail(YOKE_EDATA,
                     "%s: token %lld at byte offset %lld is %lu, but the vocabulary has %lld entries; "
                     "the file was made by another tokenizer, or is corrupt",
                     tokens->path, (long long)index, offset,
                     (unsigned long)load_token(tokens->first, tokens->token_bytes, index),
                     (long long)tokens->vocab);
}

/* The largest possible token is 2^31 - 1, because tokens are returned as int32. */
static uint32_t token_limit(const struct yokei_tokens *tokens)
{
    return tokens->vocab > 0 && tokens->vocab <= INT32_MAX ? (uint32_t)tokens->vocab : (uint32_t)INT32_MAX;
}

static yoke_status scan_tokens(const struct yokei_tokens *tokens)
{
    uint32_t limit = token_limit(tokens);
    if (tokens->token_bytes == 1 ? limit >= 256 : tokens->token_bytes == 2 && limit >= 65536) return YOKE_OK;
    for (int64_t i = 0; i < tokens->n; i++)
        if (load_token(tokens->first, tokens->token_bytes, i) >= limit) return refuse_token(tokens, i);
    return YOKE_OK;
}

/* Check the header of an llm.c file against the size of the file. */
static yoke_status read_header(struct yokei_tokens *tokens)
{
    const unsigned char *data = tokens->map.data;
    size_t bytes = tokens->map.bytes;
    if (bytes < HEADER_BYTES)
        return yoke_fail(YOKE_EDATA,
                         "%s: has %zu bytes, less than the %d of an llm.c token header; it is truncated",
                         tokens->path, bytes, HEADER_BYTES);
    uint32_t magic = load_u32(data), version = load_u32(data + 4), n = load_u32(data + 8);
    if (magic != MAGIC_U16 && magic != MAGIC_U32)
        return yoke_fail(
            YOKE_EDATA,
            "%s: magic number at byte offset 0 is %lu; token files have %d (uint16) or %d (uint32)",
            tokens->path, (unsigned long)magic, MAGIC_U16, MAGIC_U32);
    uint32_t expected = magic == MAGIC_U16 ? VERSION_U16 : VERSION_U32;
    if (version != expected)
        return yoke_fail(YOKE_EDATA, "%s: version at byte offset 4 is %lu; magic %lu goes with version %lu",
                         tokens->path, (unsigned long)version, (unsigned long)magic, (unsigned long)expected);
    tokens->token_bytes = magic == MAGIC_U16 ? 2 : 4;
    uint64_t need = HEADER_BYTES + (uint64_t)n * (uint64_t)tokens->token_bytes;
    if (n > INT32_MAX || need != bytes)
        return yoke_fail(
            YOKE_EDATA,
            "%s: the header at byte offset 8 says %lu tokens, that is %llu bytes, but the file has %zu; "
            "it is %s",
            tokens->path, (unsigned long)n, (unsigned long long)need, bytes,
            bytes < need ? "truncated" : "longer than it says");
    if (n == 0)
        return yoke_fail(YOKE_EDATA,
                         "%s: the header at byte offset 8 says 0 tokens; there is nothing to train on",
                         tokens->path);
    tokens->first = data + HEADER_BYTES;
    tokens->n = n;
    return YOKE_OK;
}

static bool looks_like_llmc(const char *path, const struct yokei_map *map)
{
    size_t length = strlen(path);
    if (length >= 4 && strcmp(path + length - 4, ".bin") == 0) return true;
    if (map->bytes < 4) return false;
    uint32_t magic = load_u32(map->data);
    return magic == MAGIC_U16 || magic == MAGIC_U32;
}

static yoke_status read_format(struct yokei_tokens *tokens, const struct yokei_tokens_config *config)
{
    if (tokens->map.bytes == 0)
        return yoke_fail(YOKE_EDATA, "%s: the file is empty; there is nothing to train on", tokens->path);
    bool llmc = config->format == YOKEI_TOKENS_AUTO ? looks_like_llmc(tokens->path, &tokens->map)
                                                    : config->format == YOKEI_TOKENS_LLMC;
    tokens->vocab = config->vocab;
    if (llmc) return read_header(tokens);
    if (tokens->vocab == 0) tokens->vocab = 256;
    if (tokens->vocab < 256)
        return yoke_fail(YOKE_EDATA,
                         "%s: text has 256 possible bytes, but the model's vocabulary has %lld entries; "
                         "use a model with vocab_size 256 or more",
                         tokens->path, (long long)tokens->vocab);
    tokens->are_bytes = true;
    tokens->token_bytes = 1;
    tokens->first = tokens->map.data;
    tokens->n = (int64_t)tokens->map.bytes;
    return YOKE_OK;
}

/* Set up everything that does not depend on the file's content. */
static yoke_status begin(const char *path, const struct yokei_tokens_config *config,
                         struct yokei_tokens **tokens_out, double *share_out)
{
    const double share = config->validation_share == 0  ? 0.05
                         : config->validation_share < 0 ? 0
                                                        : config->validation_share;
    if (config->size != sizeof *config || !(share <= 0.5) || config->vocab < 0)
        return yoke_fail(YOKE_EINVAL,
                         "%s: validation share %g must be at most 0.5, and the vocabulary %lld not negative",
                         path, share, (long long)config->vocab);
    struct yokei_tokens *tokens = calloc(1, sizeof *tokens);
    if (!tokens || !(tokens->path = strdup(path))) {
        free(tokens);
        return yoke_fail(YOKE_ENOMEM, "%s: no memory to open it", path);
    }
    *tokens_out = tokens;
    *share_out = share;
    return YOKE_OK;
}

yoke_status yokei_tokens_open(const char *path, const struct yokei_tokens_config *config,
                              struct yokei_tokens **tokens_out)
{
    struct yokei_tokens_config standard = YOKEI_TOKENS_CONFIG_INIT;
    struct yokei_tokens *tokens = NULL;
    double share = 0;
    if (!path || !tokens_out)
        return yoke_fail(YOKE_EINVAL, "yokei_tokens_open: path and tokens_out must not be NULL");
    if (!config) config = &standard;
    YOKE_TRY(begin(path, config, &tokens, &share));
    yoke_status status;
    /* before the file is mapped, so that no later change is overlooked; the map reports a missing file */
    if (stat(path, &tokens->stat)) memset(&tokens->stat, 0, sizeof tokens->stat);
    YOKE_TRY_GOTO(yokei_map_open(path, YOKE_EDATA, &tokens->map), fail);
    YOKE_TRY_GOTO(read_format(tokens, config), fail);
    if (!config->no_scan) YOKE_TRY_GOTO(scan_tokens(tokens), fail);
    tokens->n_validation = (int64_t)floor((double)tokens->n * share);
    *tokens_out = tokens;
    return YOKE_OK;
fail:
    yokei_tokens_close(tokens);
    return status;
}

yoke_status yokei_tokens_of(const char *path, int32_t *ids, size_t n,
                            const struct yokei_tokens_config *config, struct yokei_tokens **tokens_out)
{
    struct yokei_tokens *tokens = NULL;
    double share = 0;
    yoke_status status = n ? begin(path, config, &tokens, &share)
                           : yoke_fail(YOKE_EDATA, "%s: the text is empty; there is nothing to train on",
                                       path);
    if (status) {
        free(ids);
        return status;
    }
    tokens->owned = ids;
    tokens->first = (const unsigned char *)ids;
    tokens->token_bytes = 4;
    tokens->n = (int64_t)n;
    tokens->n_validation = (int64_t)floor((double)n * share);
    tokens->vocab = config->vocab;
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)htole32((uint32_t)ids[i]);
    status = scan_tokens(tokens);
    if (status)
        yokei_tokens_close(tokens);
    else
        *tokens_out = tokens;
    return status;
}

yoke_status yokei_tokens_write(const char *path, const int32_t *ids, size_t n, int64_t vocab)
{
    const bool is_short = vocab <= 65536;
    const size_t width = is_short ? 2 : 4;
    if (n > INT32_MAX)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "%s: %zu tokens do not go into one file of llm.c's format; cut the text", path, n);
    unsigned char *data = calloc(HEADER_BYTES + n * width, 1);
    if (!data) return yoke_fail(YOKE_ENOMEM, "%s: no memory to write %zu tokens", path, n);
    const uint32_t header[3] = { htole32(is_short ? MAGIC_U16 : MAGIC_U32),
                                 htole32(is_short ? VERSION_U16 : VERSION_U32), htole32((uint32_t)n) };
    memcpy(data, header, sizeof header);
    yoke_status status = YOKE_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const uint16_t narrow = htole16((uint16_t)ids[i]);
        const uint32_t wide = htole32((uint32_t)ids[i]);
        memcpy(data + HEADER_BYTES + i * width, is_short ? (const void *)&narrow : &wide, width);
        if (ids[i] < 0 || ids[i] >= vocab)
            status = yoke_fail(YOKE_EDATA, "%s: token %zu is %d, outside of the vocabulary of %lld", path, i,
                               (int)ids[i], (long long)vocab);
    }
    if (!status) status = yokei_file_write(path, data, HEADER_BYTES + n * width);
    free(data);
    return status;
}

void yokei_tokens_close(struct yokei_tokens *tokens)
{
    if (!tokens) return;
    yokei_map_close(&tokens->map);
    free(tokens->owned);
    free(tokens->path);
    free(tokens);
}

const char *yokei_tokens_path(const struct yokei_tokens *tokens) { return tokens->path; }
bool yokei_tokens_are_bytes(const struct yokei_tokens *tokens) { return tokens->are_bytes; }

int64_t yokei_tokens_count(const struct yokei_tokens *tokens, enum yokei_tokens_part part)
{
    if (part == YOKEI_TOKENS_ALL) return tokens->n;
    return part == YOKEI_TOKENS_VALIDATION ? tokens->n_validation : tokens->n - tokens->n_validation;
}

uint64_t yokei_tokens_hash(const struct yokei_tokens *tokens)
{
    return yokei_hash(tokens->first, (size_t)tokens->n * (size_t)tokens->token_bytes,
                      (uint64_t)tokens->token_bytes);
}

yoke_status yokei_tokens_unchanged(struct yokei_tokens *tokens, uint64_t hash)
{
    const struct stat *was = &tokens->stat;
    struct stat now;
    /* if the path names another file now, the mapped file still has its bytes */
    if (tokens->owned || stat(tokens->path, &now) || now.st_dev != was->st_dev || now.st_ino != was->st_ino)
        return YOKE_OK;
    if (now.st_size == was->st_size && now.st_mtim.tv_sec == was->st_mtim.tv_sec
        && now.st_mtim.tv_nsec == was->st_mtim.tv_nsec)
        return YOKE_OK;
    if ((uint64_t)now.st_size < (uint64_t)tokens->map.bytes)
        return yoke_fail(YOKE_EDATA,
                         "%s: it became shorter while it was used: it had %zu bytes, and now it has %lld. "
                         "Write the file again, and change no file that is in use",
                         tokens->path, tokens->map.bytes, (long long)now.st_size);
    if (yokei_tokens_hash(tokens) != hash)
        return yoke_fail(YOKE_EDATA,
                         "%s: another program has changed it while it was used, so its tokens are not those "
                         "with which the run began. Write the file again as it was, and change no file that "
                         "is in use",
                         tokens->path);
    tokens->stat = now; /* it was touched, or something was appended */
    return YOKE_OK;
}

yoke_status yokei_tokens_read(const struct yokei_tokens *tokens, enum yokei_tokens_part part, int64_t first,
                              int64_t n, int32_t *tokens_out)
{
    int64_t have = yokei_tokens_count(tokens, part);
    if (first < 0 || n < 0 || first > have || n > have - first)
        return yoke_fail(YOKE_EINVAL, "%s: tokens %lld to %lld do not exist; this part has %lld",
                         tokens->path, (long long)first, (long long)first + (long long)n, (long long)have);
    int64_t start = first + (part == YOKEI_TOKENS_VALIDATION ? tokens->n - tokens->n_validation : 0);
    uint32_t limit = token_limit(tokens);
    for (int64_t i = 0; i < n;
         i++) /* check before the first write, because the outputs change only on success */
        if (load_token(tokens->first, tokens->token_bytes, start + i) >= limit)
            return refuse_token(tokens, start + i);
    for (int64_t i = 0; i < n; i++)
        tokens_out[i] = (int32_t)load_token(tokens->first, tokens->token_bytes, start + i);
    return YOKE_OK;
}

static yoke_status check_training_length(const struct yokei_tokens *tokens, int64_t T)
{
    int64_t n_train = tokens->n - tokens->n_validation;
    if (T < 1) return yoke_fail(YOKE_EINVAL, "sequence length %lld must be at least 1", (long long)T);
    if (n_train < T + 1)
        return yoke_fail(
            YOKE_EDATA,
            "%s: its training part has %lld tokens; sequences of %lld need %lld: lower the sequence "
            "length or use more text",
            tokens->path, (long long)n_train, (long long)T, (long long)T + 1);
    return YOKE_OK;
}

yoke_status yokei_tokens_check_length(const struct yokei_tokens *tokens, int64_t T)
{
    YOKE_TRY(check_training_length(tokens, T));
    if (tokens->n_validation > 0 && tokens->n_validation < T + 1)
        return yoke_fail(
            YOKE_EDATA,
            "%s: its validation part has %lld tokens; sequences of %lld need %lld: lower the sequence "
            "length, raise the validation share or use more text",
            tokens->path, (long long)tokens->n_validation, (long long)T, (long long)T + 1);
    return YOKE_OK;
}

static int64_t samples_in(int64_t n_train, int64_t T)
{
    return T < 1 || n_train < T + 1 ? 0 : YOKE_MAX((int64_t)1, (n_train - 1) / T - 1);
}

int64_t yokei_tokens_n_samples(const struct yokei_tokens *tokens, int64_t T)
{
    return samples_in(tokens->n - tokens->n_validation, T);
}

/*
 * One word of the random stream of the sample order. which = 0: the epoch's phase; 1..4: the rounds of its
 * permutation.
 */
static uint64_t order_word(struct yokei_philox_key key, uint32_t which, uint64_t epoch, uint32_t value)
{
    const uint32_t counter[4] = { value, which, (uint32_t)epoch, (uint32_t)(epoch >> 32) };
    uint32_t out[4];
    yokei_philox(key, counter, out);
    return ((uint64_t)out[1] << 32) | out[0];
}

/*
 * perm_epoch(index). A Feistel network permutes [0, 4^h) >= N. A value outside [0, N) is permuted again until
 * it is inside.
 */
static uint64_t permute(struct yokei_philox_key key, uint64_t epoch, uint64_t index, uint64_t n)
{
    unsigned half = 1;
    while (half < 31 && ((uint64_t)1 << (2 * half)) < n) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = index >> half, right = index & mask;
        for (uint32_t round = 1; round <= 4; round++) {
            uint64_t next = left ^ (order_word(key, round, epoch, (uint32_t)right) & mask);
            left = right;
            right = next;
        }
        index = left << half | right;
    } while (index >= n);
    return index;
}

static yoke_status read_pair(const struct yokei_tokens *tokens, enum yokei_tokens_part part, int64_t first,
                             int64_t T, int32_t *inputs_out, int32_t *targets_out)
{
    int32_t last = 0;
    YOKE_TRY(yokei_tokens_read(tokens, part, first + T, 1, &last));
    YOKE_TRY(yokei_tokens_read(tokens, part, first, T, inputs_out));
    memcpy(targets_out, inputs_out + 1, (size_t)(T - 1) * sizeof *targets_out);
    targets_out[T - 1] = last;
    return YOKE_OK;
}

int64_t yokei_tokens_first(int64_t n_train, uint64_t seed, int64_t global_sample, int64_t T)
{
    const int64_t n = samples_in(n_train, T);
    if (n < 1 || global_sample < 0) return -1;
    uint64_t epoch = (uint64_t)(global_sample / n);
    struct yokei_philox_key key = yokei_philox_named(seed, "sample order");
    int64_t room = YOKE_MIN(n_train - 1 - n * T, T - 1);
    int64_t phase = (int64_t)(order_word(key, 0, epoch, 0) % (uint64_t)(room + 1));
    int64_t window = (int64_t)permute(key, epoch, (uint64_t)(global_sample % n), (uint64_t)n);
    return phase + window * T;
}

void yokei_tokens_place(const struct yokei_tokens *tokens, int64_t *first_byte_out, int64_t *token_bytes_out)
{
    const bool is_file = !tokens->owned;
    *first_byte_out = is_file ? (int64_t)(tokens->first - (const unsigned char *)tokens->map.data) : 0;
    *token_bytes_out = is_file ? tokens->token_bytes : 0;
}

yoke_status yokei_tokens_sample(const struct yokei_tokens *tokens, uint64_t seed, int64_t global_sample,
                                int64_t T, int32_t *inputs_out, int32_t *targets_out)
{
    if (global_sample < 0)
        return yoke_fail(YOKE_EINVAL, "sample number %lld must not be negative", (long long)global_sample);
    YOKE_TRY(check_training_length(tokens, T));
    const int64_t first = yokei_tokens_first(tokens->n - tokens->n_validation, seed, global_sample, T);
    return read_pair(tokens, YOKEI_TOKENS_TRAIN, first, T, inputs_out, targets_out);
}

int64_t yokei_tokens_n_windows(const struct yokei_tokens *tokens, int64_t T)
{
    return T < 1 || tokens->n_validation < T + 1 ? 0 : (tokens->n_validation - 1) / T;
}

yoke_status yokei_tokens_window(const struct yokei_tokens *tokens, int64_t window, int64_t T,
                                int32_t *inputs_out, int32_t *targets_out)
{
    int64_t n = yokei_tokens_n_windows(tokens, T);
    if (window < 0 || window >= n)
        return yoke_fail(YOKE_EINVAL,
                         "%s: validation window %lld of %lld tokens does not exist; there are %lld",
                         tokens->path, (long long)window, (long long)T, (long long)n);
    return read_pair(tokens, YOKEI_TOKENS_VALIDATION, window * T, T, inputs_out, targets_out);
}

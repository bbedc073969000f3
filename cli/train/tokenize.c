/* SPDX-License-Identifier: Apache-2.0 */
/* yoke tokenize: convert text to tokens and back. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/base.h"
#include "train/text/bpe.h"
#include "train/files/map.h"
#include "train/text/tokens.h"

/* Read all of stdin. The caller frees *text_out with free(). */
static yoke_status read_stdin(char **text_out, size_t *bytes_out)
{
    size_t room = 1 << 16, n = 0;
    char *text = malloc(room);
    while (text) {
        n += fread(text + n, 1, room - n, stdin);
        if (n < room) break;
        char *longer = realloc(text, room *= 2);
        if (!longer) free(text);
        text = longer;
    }
    if (!text) return yoke_fail(YOKE_ENOMEM, "stdin: no memory to read it");
    if (ferror(stdin)) {
        free(text);
        return yoke_fail(YOKE_EIO, "stdin: cannot be read: %s", strerror(errno));
    }
    *text_out = text;
    *bytes_out = n;
    return YOKE_OK;
}

/* Read ids as `yoke tokenize` prints them: numbers with spaces, commas or new lines between them. */
static yoke_status parse_ids(const char *path, const char *text, size_t bytes, struct yokei_ids *ids)
{
    static const char between[] = " \t\r\n,[]";
    for (size_t at = 0; at < bytes;) {
        if (memchr(between, text[at], sizeof between - 1)) {
            at++;
            continue;
        }
        const size_t begin = at;
        int64_t id = 0;
        for (; at < bytes && text[at] >= '0' && text[at] <= '9' && id <= INT32_MAX; at++)
            id = 10 * id + (text[at] - '0');
        if (at == begin || id > INT32_MAX || (at < bytes && !memchr(between, text[at], sizeof between - 1)))
            return yoke_fail(
                YOKE_EDATA,
                "%s: what stands at byte %zu is no id of a token: whole numbers with spaces between them are wanted",
                path, begin);
        YOKE_TRY(yokei_ids_add(ids, (int32_t)id));
    }
    return YOKE_OK;
}

static yoke_status read_tokens(const char *path, struct yokei_ids *ids)
{
    const struct yokei_tokens_config c = { .size = sizeof c,
                                           .format = YOKEI_TOKENS_LLMC,
                                           .validation_share = -1 };
    struct yokei_tokens *tokens = NULL;
    YOKE_TRY(yokei_tokens_open(path, &c, &tokens));
    const size_t n = (size_t)yokei_tokens_count(tokens, YOKEI_TOKENS_ALL);
    yoke_status status = (ids->id = malloc(n * sizeof *ids->id))
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "%s: no memory for %zu tokens", path, n);
    if (!status) status = yokei_tokens_read(tokens, YOKEI_TOKENS_ALL, 0, (int64_t)n, ids->id);
    ids->n = ids->room = n;
    yokei_tokens_close(tokens);
    return status;
}

static yoke_status put_tokens_text(const char *to, const char *text, size_t bytes)
{
    if (to) return yokei_file_write(to, text, bytes);
    cli_put_text(&(struct cli_printer){ .n = 0 }, text, bytes, true);
    return YOKE_OK; /* main checks whether stdout was written */
}

static yoke_status put_ids(const struct cli_options *o, const struct yokei_bpe *bpe,
                           const struct yokei_ids *ids, size_t bytes, double seconds)
{
    const char *to = cli_text(o, "output");
    if (to) {
        YOKE_TRY(yokei_tokens_write(to, ids->id, ids->n, yokei_bpe_n_ids(bpe)));
        cli_note("%s: %zu tokens of %zu bytes, in %.2f s (%.1f MB/s)", to, ids->n, bytes, seconds,
                 seconds > 0 ? (double)bytes / seconds * 1e-6 : 0.0);
        return YOKE_OK;
    }
    if (cli_flag(o, "json"))
        printf("{\"schema\": 1, \"bytes\": %zu, \"vocabulary\": %lld, \"tokens\": [", bytes,
               (long long)yokei_bpe_n_ids(bpe));
    for (size_t i = 0; i < ids->n; i++)
        printf("%s%d", i ? cli_flag(o, "json") ? ", " : " " : "", (int)ids->id[i]);
    puts(cli_flag(o, "json") ? "]}" : "");
    return YOKE_OK;
}

/* Convert the text to ids, or the ids that it holds to text. */
static yoke_status convert(const struct cli_options *o, struct yokei_bpe *bpe, const char *path,
                           const char *text, size_t bytes)
{
    struct yokei_ids ids = { 0 };
    char *back = NULL;
    size_t n = 0;
    yoke_status status;
    const uint64_t begun = yokei_now_ns();
    if (cli_flag(o, "decode")) {
        status = text ? parse_ids(path, text, bytes, &ids) : read_tokens(path, &ids);
        if (!status) status = yokei_bpe_decode(bpe, ids.id, ids.n, &back, &n);
        cli_progress_end();
        if (!status) status = put_tokens_text(cli_text(o, "output"), back, n);
    } else {
        status = yokei_bpe_encode(bpe, text, bytes, cli_flag(o, "template") ? YOKEI_BPE_TEMPLATE : 0, &ids);
        cli_progress_end();
        if (status)
            status = yoke_fail_context(status, "%s", path);
        else
            status = put_ids(o, bpe, &ids, bytes, (double)(yokei_now_ns() - begun) * 1e-9);
    }
    free(back);
    free(ids.id);
    return status;
}

yoke_status cli_tokenize(const struct cli_context *context)
{
    const struct cli_options *o = context->options;
    const char *path = cli_text(o, "text"), *tokens = cli_text(o, "tokens");
    struct yokei_bpe *bpe = NULL;
    struct yokei_map map = { NULL, 0 };
    char *typed = NULL;
    size_t bytes = 0;
    if (!cli_text(o, "tokenizer"))
        return yoke_fail(YOKE_EINVAL,
                         "tokenize: give the tokenizer with --tokenizer DIR, or tokenizer.json's path");
    if (!path == !tokens)
        return yoke_fail(
            YOKE_EINVAL,
            "tokenize: give either --text FILE (- is stdin) or, with --decode, --tokens FILE.bin");
    if (tokens && !cli_flag(o, "decode"))
        return yoke_fail(YOKE_EINVAL,
                         "tokenize: --tokens %s are tokens already: add --decode to make text of them",
                         tokens);
    cli_progress_begin("tokenize %s", path ? path : tokens);
    cli_progress_now("reading the tokenizer");
    YOKE_TRY(yokei_bpe_open(cli_text(o, "tokenizer"), &bpe));
    cli_progress_now("%s", cli_flag(o, "decode") ? "making text of tokens" : "reading the text");
    yoke_status status = YOKE_OK;
    if (path && strcmp(path, "-") == 0)
        status = read_stdin(&typed, &bytes);
    else if (path)
        status = yokei_map_open(path, YOKE_EDATA, &map);
    if (!status)
        status = tokens ? convert(o, bpe, tokens, NULL, 0)
                        : convert(o, bpe, path,
                                  typed      ? typed
                                  : map.data ? (const char *)map.data
                                             : "",
                                  typed ? bytes : map.bytes);
    free(typed);
    yokei_map_close(&map);
    yokei_bpe_close(bpe);
    return status;
}

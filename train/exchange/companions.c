/* SPDX-License-Identifier: Apache-2.0 */
#include "train/exchange/companions.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"

#define LIMIT ((size_t)1 << 30)
static const char GENERATION[] = "generation_config.json", TOKENIZER[] = "tokenizer.json";
/* The files that belong to tokenizer.json. Yoke reads none of them. */
static const char *const BESIDE_TOKENIZER[] = {
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
    "tokenizer.model",       "chat_template.jinja",     "chat_template.json"
};
_Static_assert(YOKE_COUNT(BESIDE_TOKENIZER) + 2 <= YOKEI_MAX_COMPANIONS, "a run may have all of them");

static void folder_of(const char *path, char *out, size_t bytes)
{
    const char *slash = strrchr(path, '/');
    if (yokei_is_folder(path))
        yokei_text(out, bytes, "%s", path);
    else
        yokei_text(out, bytes, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
}

/* Read FOLDER/name; *data_out is NULL if there is no such file. */
static yoke_status read_one(const char *folder, const char *name, void **data_out, size_t *bytes_out)
{
    char path[4400];
    *data_out = NULL;
    *bytes_out = 0;
    if (!*folder) return YOKE_OK;
    yokei_text(path, sizeof path, "%s/%s", folder, name);
    if (!yokei_is_there(path)) return YOKE_OK;
    const yoke_status status = yokei_file_read_as(path, YOKE_EDATA, LIMIT, data_out, bytes_out);
    return status ? yoke_fail_context(status, "a file that belongs to the model") : YOKE_OK;
}

static yoke_status add(struct yokei_companions *c, const char *folder, const char *name)
{
    void *data;
    size_t bytes;
    for (int i = 0; i < c->n_files; i++)
        if (!strcmp(c->file[i].name, name)) return YOKE_OK; /* an earlier folder has this file */
    YOKE_TRY(read_one(folder, name, &data, &bytes));
    if (!data) return YOKE_OK;
    c->file[c->n_files].name = name;
    c->file[c->n_files].data = data;
    c->file[c->n_files++].bytes = bytes;
    return YOKE_OK;
}

static yoke_status add_tokenizer(struct yokei_companions *c, const char *folder)
{
    YOKE_TRY(add(c, folder, TOKENIZER));
    for (size_t i = 0; i < YOKE_COUNT(BESIDE_TOKENIZER); i++) YOKE_TRY(add(c, folder, BESIDE_TOKENIZER[i]));
    return YOKE_OK;
}

/*
 * Add the tokenizer of the run's text. The files beside it are added if it has its usual name. The files of
 * `from` are added if `from` has an identical tokenizer.
 */
static yoke_status add_given_tokenizer(struct yokei_companions *c, const struct yokei_bpe *bpe,
                                       const char *from)
{
    char folder[4200];
    void *mine, *theirs;
    size_t n_mine, n_theirs;
    const char *path = yokei_bpe_path(bpe), *slash = strrchr(path, '/');
    folder_of(path, folder, sizeof folder);
    const yoke_status status = yokei_file_read_as(path, YOKE_EDATA, LIMIT, &mine, &n_mine);
    if (status) return yoke_fail_context(status, "the tokenizer");
    c->file[c->n_files].name = TOKENIZER;
    c->file[c->n_files].data = mine;
    c->file[c->n_files++].bytes = n_mine;
    if (!strcmp(slash ? slash + 1 : path, TOKENIZER)) YOKE_TRY(add_tokenizer(c, folder));
    YOKE_TRY(read_one(from, TOKENIZER, &theirs, &n_theirs));
    const bool same = theirs && n_mine == n_theirs && memcmp(mine, theirs, n_mine) == 0;
    free(theirs);
    return same ? add_tokenizer(c, from) : YOKE_OK;
}

static int64_t id_of(const struct yokei_bpe *bpe, const char *const names[])
{
    for (; *names; names++) {
        const int32_t id = yokei_bpe_find(bpe, *names);
        if (id >= 0 && yokei_bpe_is_special(bpe, id)) return id;
    }
    return -1;
}

/*
 * Choose ids for a model whose weights were not loaded. If config.json has no ids, readers assume the ids of
 * GPT-2's or Llama's own vocabulary.
 */
static void choose_ids(struct yokei_companions *c, const struct yokei_bpe *bpe, struct yokei_model model)
{
    static const char *const begins[] = { "<|begin_of_text|>", "<s>", "<|endoftext|>", NULL };
    /* the same list as in yoke sample */
    static const char *const ends[] = { "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "</s>", NULL };
    const int64_t vocabulary = yokei_model_vocabulary(model);
    c->bos = bpe ? id_of(bpe, begins) : -1;
    c->eos = bpe ? id_of(bpe, ends) : vocabulary == 257 ? 256 : -1;
    const int64_t own = model.row->kind->own_vocabulary;
    if (!bpe && own && vocabulary >= own) c->bos = c->eos = -2;
}

static yoke_status read_all(const struct yokei_companion_sources *s, struct yokei_companions *c)
{
    char from[4200] = "", config[4200] = "";
    void *text = NULL;
    size_t bytes;
    if (s->from && yokei_checkpoint_is(s->from))
        YOKE_TRY(yokei_checkpoint_locate(s->from, from, sizeof from));
    else if (s->from)
        folder_of(s->from, from, sizeof from);
    if (s->config) folder_of(s->config, config, sizeof config);
    const char *slash = s->config ? strrchr(s->config, '/') : NULL;
    if (s->config && !yokei_is_folder(s->config))
        YOKE_TRY(read_one(config, slash ? slash + 1 : s->config, &text, &bytes));
    else if (s->config)
        YOKE_TRY(read_one(config, "config.json", &text, &bytes));
    if (!text) YOKE_TRY(read_one(from, "config.json", &text, &bytes));
    c->config = text; /* the text ends with a zero byte */
    if (!s->from) choose_ids(c, s->bpe, s->model);
    YOKE_TRY(add(c, from, GENERATION));
    YOKE_TRY(add(c, config, GENERATION));
    if (s->bpe) return add_given_tokenizer(c, s->bpe, from);
    YOKE_TRY(add_tokenizer(c, from));
    if (!*from || !yokei_checkpoint_is(s->from)) return YOKE_OK;
    char parent[4300];
    yokei_text(parent, sizeof parent, "%s/..", from);
    return add(c, parent,
               TOKENIZER); /* the folder of all checkpoints, which may have one tokenizer for all of them */
}

yoke_status yokei_companions_read(const struct yokei_companion_sources *sources, struct yokei_companions *out)
{
    struct yokei_companions c = { .bos = -2, .eos = -2 };
    const yoke_status status = read_all(sources, &c);
    if (status)
        yokei_companions_free(&c);
    else
        *out = c;
    return status;
}

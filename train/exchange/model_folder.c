/* SPDX-License-Identifier: Apache-2.0 */
#include "train/exchange/model_folder.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"
#include "train/files/json.h"
#include "train/exchange/weights_file.h"

/* Make "DIR/name" if `path` is a folder. If it is a file, take the file's folder. */
static void beside(const char *path, const char *name, char *out, size_t bytes)
{
    const char *slash = strrchr(path, '/');
    if (yokei_is_folder(path))
        yokei_text(out, bytes, "%s/%s", path, name);
    else
        yokei_text(out, bytes, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name);
}

yoke_status yokei_model_config(const char *path, struct yokei_model_config *config_out)
{
    char file[4200];
    if (yokei_checkpoint_is(path)) {
        struct yokei_manifest manifest;
        YOKE_TRY(yokei_checkpoint_locate(path, file, sizeof file));
        YOKE_TRY(yokei_manifest_read(file, &manifest));
        *config_out = manifest.plan.model;
        yokei_manifest_free(&manifest);
        return YOKE_OK;
    }
    struct stat st;
    if (stat(path, &st))
        return yoke_fail(yokei_input_status(errno, YOKE_EDATA), "%s: cannot be opened: %s", path,
                         yokei_why(errno));
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return yoke_fail(YOKE_EDATA, "%s: is %s; the folder of a model is wanted", path,
                         yokei_file_kind(st.st_mode));
    beside(path, "config.json", file, sizeof file);
    const yoke_status status = yokei_model_read(file, config_out);
    return status && !S_ISDIR(st.st_mode) ? yoke_fail_context(status, "beside %s", path) : status;
}

yoke_status yokei_model_check_tokenizer(const struct yokei_bpe *bpe, int64_t vocab_size)
{
    if (yokei_bpe_n_ids(bpe) <= vocab_size) return YOKE_OK;
    return yoke_fail(
        YOKE_ECONFIG,
        "%s has ids up to %lld, but the model's vocab_size is %lld: take a model with vocab_size %lld or more (in its config.json), or "
        "the tokenizer that belongs to it",
        yokei_bpe_path(bpe), (long long)yokei_bpe_n_ids(bpe) - 1, (long long)vocab_size,
        (long long)yokei_bpe_n_ids(bpe));
}

/*
 * Find tokenizer.json in or beside `path`. For a checkpoint it is in the checkpoint's folder or in the folder
 * of all checkpoints. False: there is none.
 */
static bool find_tokenizer(const char *path, char *file_out, size_t bytes)
{
    static const char *const places[] = { "tokenizer.json", "../tokenizer.json" };
    char folder[4100];
    const bool is_checkpoint = yokei_checkpoint_is(path)
                               && yokei_checkpoint_locate(path, folder, sizeof folder) == YOKE_OK;
    for (size_t i = 0; i < (is_checkpoint ? 2 : 1); i++) {
        beside(is_checkpoint ? folder : path, places[i], file_out, bytes);
        if (yokei_is_there(file_out)) return true;
    }
    return false;
}

static yoke_status open_tokenizer(const char *tokenizer, struct yokei_model_folder *f)
{
    char file[4200];
    if (!tokenizer && find_tokenizer(f->path, file, sizeof file)) tokenizer = file;
    if (tokenizer) {
        YOKE_TRY(yokei_bpe_open(tokenizer, &f->bpe));
        return yokei_model_check_tokenizer(f->bpe, f->vocab_size);
    }
    if (f->vocab_size == 256 || f->vocab_size == 257) return YOKE_OK;
    if (yokei_is_folder(f->path)) YOKE_TRY(yokei_bpe_look_for_others(f->path));
    return yoke_fail(
        YOKE_ECONFIG,
        "%s: holds no tokenizer.json, and its vocab_size is %lld, so its tokens are no bytes (256, or 257 with an end of text): give "
        "the tokenizer with --tokenizer",
        f->path, (long long)f->vocab_size);
}

static yoke_status add_stop(struct yokei_model_folder *f, const char *file, const json_t *id)
{
    if (!json_is_integer(id))
        return yoke_fail(YOKE_ECONFIG,
                         "%s: eos_token_id is %s; the id of a token, or a list of such ids, is wanted", file,
                         yokei_json_kind(id));
    if (json_integer_value(id) < 0 || json_integer_value(id) >= f->vocab_size)
        return yoke_fail(YOKE_ECONFIG,
                         "%s: eos_token_id is %lld; it must be at least 0 and below vocab_size %lld", file,
                         (long long)json_integer_value(id), (long long)f->vocab_size);
    if (f->n_stop == YOKEI_MAX_STOPS)
        return yoke_fail(YOKE_ECONFIG, "%s: eos_token_id lists more than %d tokens", file, YOKEI_MAX_STOPS);
    f->stop[f->n_stop++] = (int32_t)json_integer_value(id);
    return YOKE_OK;
}

/*
 * Read the stop tokens of a file: a number, a list of numbers or null. *is_given tells whether the file has
 * the key.
 */
static yoke_status read_stops(struct yokei_model_folder *f, const char *file, bool *is_given)
{
    json_t *root;
    YOKE_TRY(yokei_json_load(file, YOKE_EDATA, &root));
    const json_t *eos = json_object_get(root, "eos_token_id");
    yoke_status status = YOKE_OK;
    *is_given = eos != NULL;
    if (json_is_array(eos))
        for (size_t i = 0; i < json_array_size(eos) && !status; i++)
            status = add_stop(f, file, json_array_get(eos, i));
    else if (eos && !json_is_null(eos))
        status = add_stop(f, file, eos);
    json_decref(root);
    return status;
}

/*
 * As in transformers, config.json says the end of a text only if there is no generation_config.json. In both
 * files null means that no token ends a text, and so does a missing key in generation_config.json. For a
 * missing key in config.json, version 4 of transformers assumes the id of GPT-2's or Llama's own vocabulary,
 * and version 5 assumes nothing. Here Yoke takes the special tokens of the tokenizer.
 */
static yoke_status find_stops(struct yokei_model_folder *f)
{
    static const char *const names[] = { "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "</s>" };
    char file[4200];
    bool is_given = false;
    if (!f->bpe) {
        if (f->vocab_size == 257) f->stop[f->n_stop++] = 256;
        return YOKE_OK;
    }
    beside(f->path, "generation_config.json", file, sizeof file);
    if (yokei_is_there(file)) return read_stops(f, file, &is_given);
    beside(f->path, "config.json", file, sizeof file);
    if (yokei_is_there(file)) YOKE_TRY(read_stops(f, file, &is_given));
    for (size_t i = 0; i < YOKE_COUNT(names) && !is_given; i++) {
        const int32_t id = yokei_bpe_find(f->bpe, names[i]);
        if (id >= 0 && yokei_bpe_is_special(f->bpe, id)) f->stop[f->n_stop++] = id;
    }
    return YOKE_OK;
}

static struct yokei_model model_of(const struct yokei_model_folder *f) { return yokei_model_of(&f->config); }

yoke_status yokei_model_folder_open(const char *path, const char *tokenizer,
                                    struct yokei_model_folder *folder_out)
{
    struct yokei_model_folder f = { .n_stop = 0 };
    YOKE_TRY(yokei_model_config(path, &f.config));
    if (yokei_checkpoint_is(path))
        YOKE_TRY(yokei_checkpoint_locate(path, f.path, sizeof f.path));
    else
        yokei_text(f.path, sizeof f.path, "%s", path);
    f.vocab_size = yokei_model_vocabulary(model_of(&f));
    f.n_positions = yokei_model_longest(model_of(&f), NULL);
    yoke_status status = open_tokenizer(tokenizer, &f);
    if (!status) status = find_stops(&f);
    if (status)
        yokei_model_folder_close(&f);
    else
        *folder_out = f;
    return status;
}

yoke_status yokei_model_folder_model(const struct yokei_model_folder *f, yoke_model **model_out)
{
    return yokei_model_create(model_of(f), model_out);
}

yoke_status yokei_model_folder_load(const struct yokei_model_folder *f, yoke_trainer *trainer)
{
    return yokei_weights_load(trainer, model_of(f), f->path);
}

void yokei_model_folder_close(struct yokei_model_folder *f)
{
    yokei_bpe_close(f->bpe);
    f->bpe = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read tokenizer.json. Everything that belongs to byte-level BPE is read. Everything else that would change
 * tokens is refused by its name.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/text/bpe_inside.h"
#include "train/files/json.h"

enum { WHERE_BYTES = 200 };

static const char GPT2_PATTERN[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static yoke_status wrong(const struct yokei_bpe *bpe, const char *where, const json_t *value,
                         const char *wanted)
{
    return yoke_fail(YOKE_ECONFIG, "%s: %s is %s; %s is wanted", bpe->path, where,
                     value ? yokei_json_kind(value) : "missing", wanted);
}

static yoke_status refuse(const struct yokei_bpe *bpe, const char *where, const char *name, const char *why)
{
    return yoke_fail(YOKE_ECONFIG, "%s: %s is %s, which is not byte-level BPE as Yoke reads it: %s",
                     bpe->path, where, name, why);
}

/* NULL if the key is missing, or if its value is null. */
static json_t *get(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static yoke_status get_flag(const struct yokei_bpe *bpe, const char *where, const json_t *object,
                            const char *key, bool otherwise, bool *out)
{
    char place[WHERE_BYTES];
    const json_t *value = get(object, key);
    yokei_text(place, sizeof place, "%s.%s", where, key);
    if (value && !json_is_boolean(value)) return wrong(bpe, place, value, "true or false");
    *out = value ? json_is_true(value) : otherwise;
    return YOKE_OK;
}

/*
 * Get a required text. If `otherwise` is not NULL, the text may be missing, and `otherwise` is used instead.
 */
static yoke_status get_text(const struct yokei_bpe *bpe, const char *where, const json_t *object,
                            const char *key, const char *otherwise, const char **out)
{
    char place[WHERE_BYTES];
    const json_t *value = get(object, key);
    yokei_text(place, sizeof place, "%s.%s", where, key);
    if (!json_is_string(value) && (value || !otherwise)) return wrong(bpe, place, value, "a string");
    *out = value ? json_string_value(value) : otherwise;
    return YOKE_OK;
}

/* ---- the model ---- */

static yoke_status read_vocab(struct yokei_bpe *bpe, json_t *vocab)
{
    const char *name;
    json_t *id;
    if (!json_is_object(vocab)) return wrong(bpe, "model.vocab", vocab, "an object of tokens and their ids");
    if (json_object_size(vocab) == 0) return yoke_fail(YOKE_EDATA, "%s: model.vocab is empty", bpe->path);
    json_object_foreach(vocab, name, id)
    {
        char place[WHERE_BYTES];
        yokei_text(place, sizeof place, "model.vocab[\"%.60s\"]", name);
        if (!json_is_integer(id)) return wrong(bpe, place, id, "an integer");
        YOKE_TRY(yokei_bpe_add_token(bpe, name, json_integer_value(id), false, "model.vocab"));
    }
    return YOKE_OK;
}

/* Split a merge into its two sides. It is written as "a b" or as ["a", "b"]. */
static yoke_status merge_sides(const struct yokei_bpe *bpe, size_t index, const json_t *merge,
                               const char *side[2], size_t n[2])
{
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    char place[WHERE_BYTES];
    yokei_text(place, sizeof place, "model.merges[%zu]", index);
    if (space && space > text && space[1] && !strchr(space + 1, ' ')) {
        side[0] = text, n[0] = (size_t)(space - text);
        side[1] = space + 1, n[1] = strlen(space + 1);
        return YOKE_OK;
    }
    if (text)
        return yoke_fail(YOKE_ECONFIG, "%s: %s is \"%.60s\"; two tokens with a space between them are wanted",
                         bpe->path, place, text);
    if (!json_is_array(merge)) return wrong(bpe, place, merge, "\"a b\" or [\"a\", \"b\"]");
    for (size_t i = 0; i < 2; i++) {
        side[i] = json_string_value(json_array_get(merge, i));
        if (!side[i] || json_array_size(merge) != 2)
            return yoke_fail(YOKE_ECONFIG, "%s: %s is a list, but not of two strings", bpe->path, place);
        n[i] = strlen(side[i]);
    }
    return YOKE_OK;
}

static yoke_status unknown_in_merge(const struct yokei_bpe *bpe, size_t index, const char *name, size_t n)
{
    return yoke_fail(YOKE_EDATA, "%s: model.merges[%zu] names \"%.*s\", which is not in model.vocab",
                     bpe->path, index, (int)YOKE_MIN(n, (size_t)60), name);
}

static yoke_status read_merges(struct yokei_bpe *bpe, const json_t *merges)
{
    const size_t n_merges = json_array_size(merges);
    char *both = NULL;
    size_t room = 0;
    if (!json_is_array(merges)) return wrong(bpe, "model.merges", merges, "a list");
    YOKE_TRY(yokei_bpe_reserve_merges(bpe, n_merges));
    yoke_status status = YOKE_OK;
    for (size_t i = 0; i < n_merges && !status; i++) {
        const char *side[2], *text = json_string_value(json_array_get(merges, i));
        size_t n[2];
        int32_t id[2];
        if (text && strncmp(text, "#version", 8) == 0)
            continue; /* the first line of merges.txt, which some files still have */
        if ((status = merge_sides(bpe, i, json_array_get(merges, i), side, n))) break;
        for (int k = 0; k < 2 && !status; k++)
            if ((id[k] = yokei_bpe_find_bytes(bpe, side[k], n[k])) < 0)
                status = unknown_in_merge(bpe, i, side[k], n[k]);
        if (status) break;
        if (n[0] + n[1] > room) {
            free(both);
            both = malloc(room = 2 * (n[0] + n[1]));
            if (!both) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its merges", bpe->path);
        }
        memcpy(both, side[0], n[0]);
        memcpy(both + n[0], side[1], n[1]);
        const int32_t joined = yokei_bpe_find_bytes(bpe, both, n[0] + n[1]);
        if (joined < 0)
            status = unknown_in_merge(bpe, i, both, n[0] + n[1]);
        else
            yokei_bpe_add_merge(bpe, id[0], id[1], (uint32_t)i, joined);
    }
    free(both);
    return status;
}

static yoke_status read_model(struct yokei_bpe *bpe, const json_t *model)
{
    const char *type, *text;
    bool byte_fallback = false;
    if (!json_is_object(model)) return wrong(bpe, "model", model, "an object");
    YOKE_TRY(get_text(bpe, "model", model, "type", "BPE", &type)); /* older files do not have the type */
    if (strcmp(type, "BPE") != 0) {
        char name[80];
        yokei_text(name, sizeof name, "\"%.60s\"", type);
        return refuse(bpe, "model.type", name, "\"BPE\" is wanted");
    }
    /* byte_fallback must be false: see refuse_sentencepiece */
    YOKE_TRY(get_flag(bpe, "model", model, "byte_fallback", false, &byte_fallback));
    const json_t *dropout = get(model, "dropout");
    if (dropout && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return refuse(bpe, "model.dropout", "set", "merges would be left out at random; write null");
    static const char *const affixes[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    for (size_t i = 0; i < YOKE_COUNT(affixes); i++) {
        char place[WHERE_BYTES], value[80];
        YOKE_TRY(get_text(bpe, "model", model, affixes[i], "", &text));
        yokei_text(place, sizeof place, "model.%s", affixes[i]);
        yokei_text(value, sizeof value, "\"%.60s\"", text);
        if (*text)
            return refuse(bpe, place, value, "tokens that know their place in a word are of another kind");
    }
    YOKE_TRY(get_flag(bpe, "model", model, "ignore_merges", false, &bpe->ignore_merges));
    YOKE_TRY(read_vocab(bpe, json_object_get(model, "vocab")));
    return read_merges(bpe, json_object_get(model, "merges"));
}

/* ---- added tokens ---- */

/* Refuse an added token whose text NFC would change before the token is looked for. */
static yoke_status check_nfc(const struct yokei_bpe *bpe, const char *where, const char *content)
{
    uint32_t code = 0;
    for (size_t i = 0, n = strlen(content); i < n && bpe->is_nfc;) {
        /* the text is valid UTF-8, because jansson accepts nothing else */
        i += (size_t)yokei_utf8((const unsigned char *)content + i, n - i, &code);
        if (!yokei_is_surely_nfc(code))
            return yoke_fail(
                YOKE_ECONFIG,
                "%s: %s.content is normalized to NFC, which Yoke does not compute, and has U+%04X", bpe->path,
                where, (unsigned)code);
    }
    return YOKE_OK;
}

static yoke_status read_added(struct yokei_bpe *bpe, const json_t *item, size_t index)
{
    struct yokei_bpe_added added;
    char where[WHERE_BYTES];
    bool special = false, normalized = false;
    yokei_text(where, sizeof where, "added_tokens[%zu]", index);
    if (!json_is_object(item)) return wrong(bpe, where, item, "an object");
    YOKE_TRY(get_text(bpe, where, item, "content", NULL, &added.content));
    YOKE_TRY(get_flag(bpe, where, item, "special", false, &special));
    YOKE_TRY(get_flag(bpe, where, item, "normalized", !special, &normalized));
    YOKE_TRY(get_flag(bpe, where, item, "single_word", false, &added.single_word));
    YOKE_TRY(get_flag(bpe, where, item, "lstrip", false, &added.lstrip));
    YOKE_TRY(get_flag(bpe, where, item, "rstrip", false, &added.rstrip));
    const json_t *id = get(item, "id");
    if (!json_is_integer(id)) {
        char place[WHERE_BYTES];
        yokei_text(place, sizeof place, "added_tokens[%zu].id", index);
        return wrong(bpe, place, id, "an integer");
    }
    if (!added.content[0]) return yoke_fail(YOKE_EDATA, "%s: %s.content is empty", bpe->path, where);
    if (normalized) YOKE_TRY(check_nfc(bpe, where, added.content));
    YOKE_TRY(yokei_bpe_add_token(bpe, added.content, json_integer_value(id), true, where));
    added.id = (int32_t)json_integer_value(id);
    bpe->token[added.id].is_special = special;
    added.content = bpe->token[added.id].name;
    added.bytes = bpe->token[added.id].n_name;
    struct yokei_bpe_added_set *set = normalized ? &bpe->normalized : &bpe->raw;
    set->item[set->n++] = added;
    return YOKE_OK;
}

static yoke_status read_all_added(struct yokei_bpe *bpe, const json_t *list)
{
    const size_t n = json_array_size(list);
    if (!list) return YOKE_OK;
    if (!json_is_array(list)) return wrong(bpe, "added_tokens", list, "a list");
    bpe->raw.item = calloc(n + 1, sizeof *bpe->raw.item);
    bpe->normalized.item = calloc(n + 1, sizeof *bpe->normalized.item);
    if (!bpe->raw.item || !bpe->normalized.item)
        return yoke_fail(YOKE_ENOMEM, "%s: no memory for its added tokens", bpe->path);
    for (size_t i = 0; i < n; i++) YOKE_TRY(read_added(bpe, json_array_get(list, i), i));
    yokei_bpe_sort_added(&bpe->raw);
    yokei_bpe_sort_added(&bpe->normalized);
    YOKE_TRY(yokei_bpe_compile_word(&bpe->word));
    bpe->word_found = pcre2_match_data_create(1, NULL);
    return bpe->word_found ? YOKE_OK
                           : yoke_fail(YOKE_ENOMEM, "%s: no memory for its added tokens", bpe->path);
}

/* ---- normalizer, pre_tokenizer, decoder, post_processor: an object with a type, or a Sequence of them ----
 */

/* The function that reads one of these objects. */
typedef yoke_status reader(struct yokei_bpe *bpe, const char *where, const json_t *object, const char *type);

/* Read each object in turn. `list` is the key of the list in a Sequence. */
static yoke_status each(struct yokei_bpe *bpe, const char *where, const json_t *object, const char *list,
                        reader *read)
{
    const char *type;
    if (!json_is_object(object)) return wrong(bpe, where, object, "an object");
    YOKE_TRY(get_text(bpe, where, object, "type", NULL, &type));
    if (strcmp(type, "Sequence") != 0) return read(bpe, where, object, type);
    const json_t *items = get(object, list);
    char place[WHERE_BYTES];
    yokei_text(place, sizeof place, "%s.%s", where, list);
    if (!json_is_array(items)) return wrong(bpe, place, items, "a list");
    for (size_t i = 0; i < json_array_size(items); i++) {
        yokei_text(place, sizeof place, "%s.%s[%zu]", where, list, i);
        YOKE_TRY(each(bpe, place, json_array_get(items, i), list, read));
    }
    return YOKE_OK;
}

static yoke_status read_normalizer(struct yokei_bpe *bpe, const char *where, const json_t *object,
                                   const char *type)
{
    (void)object;
    bpe->is_nfc = strcmp(type, "NFC") == 0;
    return bpe->is_nfc ? YOKE_OK : refuse(bpe, where, type, "NFC, or none, is read");
}

static yoke_status add_step(struct yokei_bpe *bpe, const char *where, const char *pattern, bool is_plain,
                            enum yokei_bpe_behavior behavior, bool invert)
{
    char place[4400];
    yokei_text(place, sizeof place, "%s: %s", bpe->path, where);
    if (bpe->n_steps == YOKEI_BPE_MAX_STEPS)
        return yoke_fail(YOKE_ECONFIG, "%s: more than %d steps are not taken", place, YOKEI_BPE_MAX_STEPS);
    struct yokei_bpe_step *step = &bpe->step[bpe->n_steps++];
    step->behavior = behavior;
    step->invert = invert;
    step->spelled = bpe->is_byte_level;
    if (!pattern) return YOKE_OK;
    YOKE_TRY(yokei_bpe_compile(place, pattern, is_plain, &step->pattern));
    step->found = pcre2_match_data_create(1, NULL);
    return step->found ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "%s: no memory for an expression", place);
}

static yoke_status read_split(struct yokei_bpe *bpe, const char *where, const json_t *object)
{
    static const char *const behaviors[] = { "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                             "Contiguous" };
    const json_t *pattern = get(object, "pattern"), *regex = get(pattern, "Regex"),
                 *plain = get(pattern, "String");
    char place[WHERE_BYTES];
    const char *name;
    bool invert = false;
    size_t behavior = 0;
    yokei_text(place, sizeof place, "%s.pattern", where);
    if (!json_is_string(regex) && !json_is_string(plain))
        return wrong(bpe, place, pattern, "{\"Regex\": \"...\"} or {\"String\": \"...\"}");
    YOKE_TRY(get_text(bpe, where, object, "behavior", NULL, &name));
    while (behavior < YOKE_COUNT(behaviors) && strcmp(behaviors[behavior], name) != 0) behavior++;
    if (behavior == YOKE_COUNT(behaviors))
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: %s.behavior is \"%.60s\"; it must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
            bpe->path, where, name);
    YOKE_TRY(get_flag(bpe, where, object, "invert", false, &invert));
    return add_step(bpe, place, json_string_value(json_is_string(regex) ? regex : plain),
                    !json_is_string(regex), (enum yokei_bpe_behavior)behavior, invert);
}

static yoke_status read_pre_tokenizer(struct yokei_bpe *bpe, const char *where, const json_t *object,
                                      const char *type)
{
    bool flag = false, prefix = false;
    if (strcmp(type, "Split") == 0) return read_split(bpe, where, object);
    if (strcmp(type, "Digits") == 0) {
        YOKE_TRY(get_flag(bpe, where, object, "individual_digits", false, &flag));
        return add_step(bpe, where, yokei_bpe_digits_pattern, false,
                        flag ? YOKEI_BPE_ISOLATED : YOKEI_BPE_CONTIGUOUS, false);
    }
    if (strcmp(type, "ByteLevel") != 0)
        return refuse(bpe, where, type, "ByteLevel, Split and Digits are read");
    if (bpe->is_byte_level) return refuse(bpe, where, type, "there is one before it already");
    YOKE_TRY(get_flag(bpe, where, object, "use_regex", true, &flag));
    YOKE_TRY(get_flag(bpe, where, object, "add_prefix_space", true, &prefix));
    YOKE_TRY(add_step(bpe, where, flag ? GPT2_PATTERN : NULL, false, YOKEI_BPE_ISOLATED, false));
    bpe->step[bpe->n_steps - 1].prefix = prefix;
    bpe->is_byte_level = true;
    return YOKE_OK;
}

static yoke_status read_decoder(struct yokei_bpe *bpe, const char *where, const json_t *object,
                                const char *type)
{
    (void)object;
    return strcmp(type, "ByteLevel") == 0 ? YOKE_OK : refuse(bpe, where, type, "ByteLevel is wanted");
}

/* Append the ids of a template's special token to a list. */
static yoke_status add_special(struct yokei_bpe *bpe, const char *where, const json_t *template,
                               const char *name, int32_t **list, size_t *n)
{
    const json_t *ids = get(get(get(template, "special_tokens"), name), "ids");
    if (!json_is_array(ids))
        return yoke_fail(YOKE_ECONFIG,
                         "%s: %s.special_tokens has no ids of \"%.60s\", which its template names", bpe->path,
                         where, name);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        size_t bytes;
        if (!json_is_integer(id) || !yokei_bpe_token(bpe, json_integer_value(id), &bytes))
            return yoke_fail(YOKE_EDATA,
                             "%s: %s.special_tokens[\"%.60s\"].ids has something that is no token's id",
                             bpe->path, where, name);
        int32_t *longer = realloc(*list, (*n + 1) * sizeof *longer);
        if (!longer) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its template", bpe->path);
        *list = longer;
        longer[(*n)++] = (int32_t)json_integer_value(id);
    }
    return YOKE_OK;
}

/*
 * Read what a template puts before and after text A. If there are several templates, a later one is put
 * around the result of the earlier ones.
 */
static yoke_status read_template(struct yokei_bpe *bpe, const char *where, const json_t *object)
{
    const json_t *single = get(object, "single");
    int32_t *before = NULL;
    size_t n_before = 0, n_texts = 0;
    yoke_status status = json_is_array(single)
                             ? YOKE_OK
                             : yoke_fail(YOKE_ECONFIG, "%s: %s.single: a list is wanted", bpe->path, where);
    for (size_t i = 0; i < json_array_size(single) && !status; i++) {
        const json_t *piece = json_array_get(single, i);
        const char *special = json_string_value(get(get(piece, "SpecialToken"), "id")),
                   *text = json_string_value(get(get(piece, "Sequence"), "id"));
        if (text && strcmp(text, "A") == 0)
            n_texts++;
        else if (!special)
            status = yoke_fail(YOKE_ECONFIG,
                               "%s: %s.single[%zu] is neither a SpecialToken nor the Sequence A", bpe->path,
                               where, i);
        else if (n_texts == 0)
            status = add_special(bpe, where, object, special, &before, &n_before);
        else
            status = add_special(bpe, where, object, special, &bpe->suffix, &bpe->n_suffix);
    }
    if (!status && n_texts != 1)
        status = yoke_fail(YOKE_ECONFIG, "%s: %s.single has the text %zu times; once is wanted", bpe->path,
                           where, n_texts);
    if (!status && n_before) {
        int32_t *all = realloc(before, (n_before + bpe->n_prefix) * sizeof *all);
        if (!all)
            status = yoke_fail(YOKE_ENOMEM, "%s: no memory for its template", bpe->path);
        else {
            if (bpe->n_prefix) memcpy(all + n_before, bpe->prefix, bpe->n_prefix * sizeof *all);
            free(bpe->prefix);
            bpe->prefix = all;
            bpe->n_prefix += n_before;
            before = NULL;
        }
    }
    free(before);
    return status;
}

static yoke_status read_post_processor(struct yokei_bpe *bpe, const char *where, const json_t *object,
                                       const char *type)
{
    if (strcmp(type, "ByteLevel") == 0) return YOKE_OK; /* it changes only offsets */
    if (strcmp(type, "TemplateProcessing") == 0) return read_template(bpe, where, object);
    return refuse(bpe, where, type, "ByteLevel and TemplateProcessing are read");
}

/*
 * A property of the tokenizer.json that only SentencePiece's vocabularies have, in words; NULL: there is
 * none. Their sign for a space is U+2581.
 */
static const char *mark_of_sentencepiece(const json_t *value)
{
    static const char *const types[] = { "Metaspace", "Precompiled", "ByteFallback" };
    const char *text = json_string_value(value), *key, *found = NULL;
    json_t *item;
    size_t i;
    if (text && strstr(text, "\xe2\x96\x81")) return "spaces are written as U+2581";
    json_array_foreach(value, i, item) if ((found = mark_of_sentencepiece(item))) return found;
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        for (i = 0; i < YOKE_COUNT(types) && !strcmp(key, "type"); i++)
            if (json_is_string(item) && !strcmp(json_string_value(item), types[i])) return types[i];
        if ((found = mark_of_sentencepiece(item))) return found;
    }
    return NULL;
}

/* Refuse a SentencePiece tokenizer by this name, and not by the first unsupported detail. */
static yoke_status refuse_sentencepiece(const struct yokei_bpe *bpe, const json_t *root)
{
    static const char *const parts[] = { "normalizer", "pre_tokenizer", "decoder" };
    const json_t *model = get(root, "model");
    const char *type = json_string_value(json_object_get(model, "type")), *where = "model", *mark = NULL;
    if (type && !strcmp(type, "Unigram"))
        mark = "type Unigram";
    else if (json_is_true(json_object_get(model, "byte_fallback")))
        mark = "byte_fallback";
    for (size_t i = 0; i < YOKE_COUNT(parts) && !mark; i++) {
        where = parts[i];
        mark = mark_of_sentencepiece(get(root, parts[i]));
    }
    if (!mark) return YOKE_OK;
    return yokei_bpe_refuse_sentencepiece(bpe->path, where, mark);
}

static yoke_status read_root(struct yokei_bpe *bpe, const json_t *root)
{
    const char *version;
    const json_t *normalizer = get(root, "normalizer"), *processor = get(root, "post_processor"),
                 *decoder = get(root, "decoder"), *pre_tokenizer = get(root, "pre_tokenizer");
    if (!json_is_object(root)) return wrong(bpe, "the whole", root, "an object");
    YOKE_TRY(get_text(bpe, "the whole", root, "version", "1.0", &version));
    if (strcmp(version, "1.0") != 0)
        return yoke_fail(YOKE_ECONFIG, "%s: version is \"%.40s\"; \"1.0\" is read", bpe->path, version);
    /* The kind of tokenizer is reported before any other error. */
    YOKE_TRY(refuse_sentencepiece(bpe, root));
    if (normalizer) YOKE_TRY(each(bpe, "normalizer", normalizer, "normalizers", read_normalizer));
    YOKE_TRY(read_model(bpe, get(root, "model")));
    YOKE_TRY(read_all_added(bpe, get(root, "added_tokens")));
    if (pre_tokenizer)
        YOKE_TRY(each(bpe, "pre_tokenizer", pre_tokenizer, "pretokenizers", read_pre_tokenizer));
    if (!bpe->is_byte_level)
        return refuse(bpe, "pre_tokenizer", pre_tokenizer ? "without ByteLevel" : "missing",
                      "the vocabulary would be one of characters");
    if (!decoder) return refuse(bpe, "decoder", "missing", "ByteLevel is wanted");
    YOKE_TRY(each(bpe, "decoder", decoder, "decoders", read_decoder));
    if (processor) YOKE_TRY(each(bpe, "post_processor", processor, "processors", read_post_processor));
    return YOKE_OK;
}

yoke_status yokei_bpe_read(struct yokei_bpe *bpe, const char *text, size_t bytes)
{
    json_error_t error;
    if (bytes == 0) return yoke_fail(YOKE_EDATA, "%s: is empty; a tokenizer.json is wanted", bpe->path);
    /* A tokenizer.model is a protobuf message. It begins with a piece, and the piece begins with its text. */
    if (bytes > 2 && text[0] == 0x0a && (unsigned char)text[1] < 0x80 && text[1] > 2 && text[2] == 0x0a
        && text[1] != '{' && text[1] != '[')
        return yokei_bpe_refuse_sentencepiece(bpe->path, "the file", "tokenizer.model");
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return yoke_fail(YOKE_EDATA, "%s: is not valid JSON: line %d, column %d: %s", bpe->path, error.line,
                         error.column, error.text);
    const yoke_status status = read_root(bpe, root);
    json_decref(root);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a byte-level vocabulary: merging the bytes of a word into tokens, and decoding tokens. */
#include "train/text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/text/bpe_inside.h"

/* ---- tokens by their spelling ---- */

static size_t name_place(const struct yokei_bpe *bpe, const char *name, size_t n)
{
    const struct yokei_bpe_names *names = &bpe->names;
    size_t place = (size_t)yokei_hash(name, n, 0) & names->mask;
    for (int32_t id; (id = names->place[place]) >= 0; place = (place + 1) & names->mask)
        if (bpe->token[id].n_name == n && memcmp(bpe->token[id].name, name, n) == 0) break;
    return place;
}

int32_t yokei_bpe_find_bytes(const struct yokei_bpe *bpe, const char *name, size_t n)
{
    return bpe->names.place ? bpe->names.place[name_place(bpe, name, n)] : -1;
}

int32_t yokei_bpe_find(const struct yokei_bpe *bpe, const char *name)
{
    return yokei_bpe_find_bytes(bpe, name, strlen(name));
}

/* Double the table. It is at most half full. */
static yoke_status grow_names(struct yokei_bpe *bpe)
{
    const struct yokei_bpe_names before = bpe->names;
    struct yokei_bpe_names larger = { .mask = before.place ? 2 * before.mask + 1 : 4095 };
    larger.place = malloc((larger.mask + 1) * sizeof *larger.place);
    if (!larger.place) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its vocabulary", bpe->path);
    for (size_t i = 0; i <= larger.mask; i++) larger.place[i] = -1;
    bpe->names = larger;
    for (size_t i = 0; before.place && i <= before.mask; i++)
        if (before.place[i] >= 0)
            bpe->names.place[name_place(bpe, bpe->token[before.place[i]].name,
                                        bpe->token[before.place[i]].n_name)] = before.place[i];
    free(before.place);
    return YOKE_OK;
}

static yoke_status reserve_ids(struct yokei_bpe *bpe, int64_t n)
{
    if (n <= bpe->n_ids) return YOKE_OK;
    if (n > bpe->ids_room) {
        const int64_t room = YOKE_MAX(n, 2 * bpe->ids_room);
        struct yokei_bpe_token *longer = realloc(bpe->token, (size_t)room * sizeof *longer);
        if (!longer) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its vocabulary", bpe->path);
        memset(longer + bpe->ids_room, 0, (size_t)(room - bpe->ids_room) * sizeof *longer);
        bpe->token = longer;
        bpe->ids_room = room;
    }
    bpe->n_ids = n;
    return YOKE_OK;
}

/*
 * Set the bytes that a token stands for. For an added token they are its text. For a token of the vocabulary
 * they are the bytes that it spells.
 */
static yoke_status set_bytes(struct yokei_bpe *bpe, struct yokei_bpe_token *token, bool is_added)
{
    unsigned char *bytes = malloc(token->n_name + 1u);
    if (!bytes) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its vocabulary", bpe->path);
    int64_t n = is_added ? -1 : yokei_bpe_unspell(token->name, token->n_name, bytes);
    if (n < 0) memcpy(bytes, token->name, (size_t)(n = token->n_name));
    free(token->bytes);
    token->bytes = bytes;
    token->n_bytes = (uint32_t)n;
    return YOKE_OK;
}

yoke_status yokei_bpe_add_token(struct yokei_bpe *bpe, const char *name, int64_t id, bool is_added,
                                const char *where)
{
    const size_t n = strlen(name);
    if (id < 0 || id >= YOKEI_BPE_MAX_IDS)
        return yoke_fail(YOKE_EDATA, "%s: %s: the id of \"%.60s\" is %lld; it must be between 0 and %d",
                         bpe->path, where, name, (long long)id, YOKEI_BPE_MAX_IDS - 1);
    const int32_t there = yokei_bpe_find_bytes(bpe, name, n);
    if (there >= 0 && there != id)
        return yoke_fail(YOKE_EDATA, "%s: %s: \"%.60s\" has id %lld, but %d elsewhere in the file", bpe->path,
                         where, name, (long long)id, (int)there);
    if (there < 0 && id < bpe->n_ids && bpe->token[id].name)
        return yoke_fail(YOKE_EDATA, "%s: %s: \"%.60s\" has id %lld, which \"%.60s\" has, too", bpe->path,
                         where, name, (long long)id, bpe->token[id].name);
    if (there >= 0 && is_added == bpe->token[id].is_added)
        return yoke_fail(YOKE_EDATA, "%s: %s: \"%.60s\", of id %lld, is there twice", bpe->path, where, name,
                         (long long)id);
    if (there >= 0) {
        bpe->token[id].is_added = true;
        return set_bytes(bpe, &bpe->token[id], true);
    }
    if (!bpe->names.place || 2 * (bpe->n_tokens + 1) > bpe->names.mask) YOKE_TRY(grow_names(bpe));
    YOKE_TRY(reserve_ids(bpe, id + 1));
    struct yokei_bpe_token *token = &bpe->token[id];
    if (!(token->name = strdup(name)))
        return yoke_fail(YOKE_ENOMEM, "%s: no memory for its vocabulary", bpe->path);
    token->n_name = (uint32_t)n;
    token->is_added = is_added;
    bpe->n_tokens++;
    bpe->names.place[name_place(bpe, name, n)] = (int32_t)id;
    return set_bytes(bpe, token, is_added);
}

/* ---- merges ---- */

static size_t merge_place(const struct yokei_bpe *bpe, uint64_t pair)
{
    uint64_t hash = pair * 0x9e3779b97f4a7c15u;
    size_t place = (size_t)(hash ^ hash >> 32) & bpe->merge_mask;
    while (bpe->merge[place].id >= 0 && bpe->merge[place].pair != pair) place = (place + 1) & bpe->merge_mask;
    return place;
}

yoke_status yokei_bpe_reserve_merges(struct yokei_bpe *bpe, size_t n)
{
    size_t size = 16;
    while (size < 2 * n) size *= 2;
    bpe->merge = malloc(size * sizeof *bpe->merge);
    if (!bpe->merge) return yoke_fail(YOKE_ENOMEM, "%s: no memory for %zu merges", bpe->path, n);
    for (size_t i = 0; i < size; i++) bpe->merge[i].id = -1;
    bpe->merge_mask = size - 1;
    return YOKE_OK;
}

void yokei_bpe_add_merge(struct yokei_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    bpe->merge[merge_place(bpe, pair)] = (struct yokei_bpe_merge){ pair, rank, id };
}

static const struct yokei_bpe_merge *find_merge(const struct yokei_bpe *bpe, int32_t left, int32_t right)
{
    const struct yokei_bpe_merge *merge =
        &bpe->merge[merge_place(bpe, (uint64_t)(uint32_t)left << 32 | (uint32_t)right)];
    return merge->id >= 0 ? merge : NULL;
}

/* ---- the tokens of a word ---- */

yoke_status yokei_ids_add(struct yokei_ids *ids, int32_t id)
{
    if (ids->n == ids->room) {
        const size_t room = ids->room ? ids->room + ids->room / 2 : 256;
        int32_t *longer = realloc(ids->id, room * sizeof *longer);
        if (!longer) return yoke_fail(YOKE_ENOMEM, "no memory for %zu tokens", room);
        ids->id = longer;
        ids->room = room;
    }
    ids->id[ids->n++] = id;
    return YOKE_OK;
}

static void push(struct yokei_bpe_work *w, uint64_t key)
{
    size_t at = w->n_heap++;
    for (; at > 0 && w->heap[(at - 1) / 2] > key; at = (at - 1) / 2) w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = key;
}

static uint64_t pop(struct yokei_bpe_work *w)
{
    const uint64_t least = w->heap[0], last = w->heap[--w->n_heap];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < w->n_heap; at = child) {
        if (child + 1 < w->n_heap && w->heap[child + 1] < w->heap[child]) child++;
        if (w->heap[child] >= last) break;
        w->heap[at] = w->heap[child];
    }
    w->heap[at] = last;
    return least;
}

/*
 * Allocate symbols for n bytes. Each merge removes one symbol and adds at most two new pairs, so the heap
 * holds fewer than 3 n entries.
 */
static yoke_status reserve_work(struct yokei_bpe *bpe, size_t n)
{
    struct yokei_bpe_work *w = &bpe->work;
    if (n <= w->room) return YOKE_OK;
    const size_t room = YOKE_MAX(n, (size_t)256);
    free(w->symbol);
    free(w->heap);
    free(w->text);
    w->room = 0;
    w->symbol = malloc(room * sizeof *w->symbol);
    w->heap = malloc(3 * room * sizeof *w->heap);
    w->text = malloc(2 * room);
    if (!w->symbol || !w->heap || !w->text)
        return yoke_fail(YOKE_ENOMEM, "no memory to encode a word of %zu bytes", n);
    w->room = room;
    return YOKE_OK;
}

static void offer(struct yokei_bpe *bpe, uint32_t left)
{
    const struct yokei_bpe_symbol *s = bpe->work.symbol;
    if (left == UINT32_MAX || s[left].next == UINT32_MAX) return;
    const struct yokei_bpe_merge *merge = find_merge(bpe, s[left].id, s[s[left].next].id);
    if (merge) push(&bpe->work, (uint64_t)merge->rank << 32 | left);
}

/*
 * Merge the pair with the lowest rank, and among equal ranks the leftmost pair, until no pair is left
 * (Sennrich et al. 2016). An entry of the heap may be out of date. It is valid if both its symbols still
 * exist and have that rank.
 */
static void merge_all(struct yokei_bpe *bpe)
{
    struct yokei_bpe_symbol *s = bpe->work.symbol;
    while (bpe->work.n_heap) {
        const uint64_t key = pop(&bpe->work);
        const uint32_t left = (uint32_t)key, right = s[left].id >= 0 ? s[left].next : UINT32_MAX;
        if (right == UINT32_MAX) continue;
        const struct yokei_bpe_merge *merge = find_merge(bpe, s[left].id, s[right].id);
        if (!merge || merge->rank != key >> 32) continue;
        s[left].id = merge->id;
        s[left].next = s[right].next;
        s[right].id = -1;
        if (s[left].next != UINT32_MAX) s[s[left].next].previous = left;
        offer(bpe, s[left].previous);
        offer(bpe, left);
    }
}

static yoke_status encode_word(struct yokei_bpe *bpe, const unsigned char *word, size_t n, size_t offset,
                               struct yokei_ids *ids)
{
    struct yokei_bpe_work *w = &bpe->work;
    if (n > INT32_MAX)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "the word at byte %zu of the text has %zu bytes; at most %d are taken", offset, n,
                         INT32_MAX);
    YOKE_TRY(reserve_work(bpe, n));
    if (bpe->ignore_merges) {
        size_t length = 0;
        for (size_t i = 0; i < n; i++) length += (size_t)yokei_bpe_spell(word[i], w->text + length);
        const int32_t whole = yokei_bpe_find_bytes(bpe, w->text, length);
        if (whole >= 0) return yokei_ids_add(ids, whole);
    }
    for (size_t i = 0; i < n; i++) {
        w->symbol[i] = (struct yokei_bpe_symbol){ bpe->byte_id[word[i]], i ? (uint32_t)i - 1 : UINT32_MAX,
                                                  i + 1 < n ? (uint32_t)i + 1 : UINT32_MAX };
        if (w->symbol[i].id < 0)
            return yoke_fail(
                YOKE_EDATA,
                "%s: its vocabulary has no token for the byte 0x%02x, which is at byte %zu of the text: take a tokenizer with all "
                "256 bytes",
                bpe->path, word[i], offset + i);
    }
    w->n_heap = 0;
    for (size_t i = 0; i + 1 < n; i++) offer(bpe, (uint32_t)i);
    merge_all(bpe);
    for (uint32_t i = 0; i != UINT32_MAX; i = w->symbol[i].next)
        YOKE_TRY(yokei_ids_add(ids, w->symbol[i].id));
    return YOKE_OK;
}

/* Few words make up most of a text, so the tokens of recent words are cached. */
yoke_status yokei_bpe_word(struct yokei_bpe *bpe, const unsigned char *word, size_t n, size_t offset,
                           struct yokei_ids *ids)
{
    if (n > YOKEI_BPE_CACHED_BYTES) return encode_word(bpe, word, n, offset, ids);
    struct yokei_bpe_cached *c = &bpe->cache[yokei_hash(word, n, 1) % YOKEI_BPE_CACHE];
    if (c->n_bytes == n && memcmp(c->bytes, word, n) == 0) {
        for (int i = 0; i < c->n_ids; i++) YOKE_TRY(yokei_ids_add(ids, c->id[i]));
        return YOKE_OK;
    }
    const size_t before = ids->n;
    YOKE_TRY(encode_word(bpe, word, n, offset, ids));
    if (ids->n - before > YOKEI_BPE_CACHED_IDS) return YOKE_OK;
    c->n_bytes = (uint8_t)n;
    c->n_ids = (uint8_t)(ids->n - before);
    memcpy(c->bytes, word, n);
    memcpy(c->id, ids->id + before, c->n_ids * sizeof *c->id);
    return YOKE_OK;
}

/* ---- decoding ---- */

const unsigned char *yokei_bpe_token(const struct yokei_bpe *bpe, int64_t id, size_t *bytes_out)
{
    if (id < 0 || id >= bpe->n_ids || !bpe->token[id].name) return NULL;
    *bytes_out = bpe->token[id].n_bytes;
    return bpe->token[id].bytes;
}

yoke_status yokei_bpe_decode(const struct yokei_bpe *bpe, const int32_t *ids, size_t n, char **text_out,
                             size_t *bytes_out)
{
    size_t total = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (!yokei_bpe_token(bpe, ids[i], &bytes))
            return yoke_fail(
                YOKE_EDATA,
                "%s: has no token of id %d, which stands at place %zu of the tokens: they were made by another tokenizer",
                bpe->path, (int)ids[i], i);
        total += bytes;
    }
    char *text = malloc(total + 1);
    if (!text) return yoke_fail(YOKE_ENOMEM, "no memory for the text of %zu tokens", n);
    total = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char *token = yokei_bpe_token(bpe, ids[i], &bytes);
        memcpy(text + total, token, bytes);
        total += bytes;
    }
    text[total] = 0;
    *text_out = text;
    *bytes_out = total;
    return YOKE_OK;
}

/* ---- creating a tokenizer ---- */

const char *yokei_bpe_path(const struct yokei_bpe *bpe) { return bpe->path; }
int64_t yokei_bpe_n_ids(const struct yokei_bpe *bpe) { return bpe->n_ids; }
bool yokei_bpe_is_special(const struct yokei_bpe *bpe, int64_t id)
{
    return id >= 0 && id < bpe->n_ids && bpe->token[id].is_special;
}

yoke_status yokei_bpe_refuse_sentencepiece(const char *file, const char *where, const char *mark)
{
    return yoke_fail(
        YOKE_ECONFIG,
        "%s: is a SentencePiece tokenizer (%s: %s), not byte-level BPE as GPT-2's and Llama 3's are, and Yoke does not read it: take a model with "
        "a byte-level tokenizer, or make the tokens with Hugging Face's tokenizers and give them with --tokens FILE.bin",
        file, where, mark);
}

void yokei_bpe_close(struct yokei_bpe *bpe)
{
    if (!bpe) return;
    for (int64_t i = 0; i < bpe->n_ids; i++) {
        free(bpe->token[i].name);
        free(bpe->token[i].bytes);
    }
    for (int i = 0; i < bpe->n_steps; i++) {
        pcre2_match_data_free(bpe->step[i].found);
        yokei_bpe_pattern_free(&bpe->step[i].pattern);
    }
    pcre2_match_data_free(bpe->word_found);
    yokei_bpe_pattern_free(&bpe->word);
    pcre2_match_context_free(bpe->match);
    pcre2_jit_stack_free(bpe->stack);
    void *const memory[] = { bpe->token,           bpe->names.place, bpe->merge,     bpe->raw.item,
                             bpe->normalized.item, bpe->prefix,      bpe->suffix,    bpe->cache,
                             bpe->work.symbol,     bpe->work.heap,   bpe->work.text, bpe->path };
    for (size_t i = 0; i < YOKE_COUNT(memory); i++) free(memory[i]);
    free(bpe);
}

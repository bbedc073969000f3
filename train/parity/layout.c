/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts as text: a table of the words, and the built-in lists. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/schedule.h"
#include "train/parity/parity.h"

enum { MOST_RANKS = 1024 };

enum word_type { WORD_NUMBER, WORD_FLAG, WORD_NUMBERS, WORD_TEXT, WORD_TEXTS };

/*
 * A word of a layout: its field, and the values that may follow "=". To add a word, add a line here and a
 * field.
 */
static const struct word {
    const char *name;
    enum word_type type;
    size_t at, count_at; /* offset of the field; offset of the number of values, or the size of a text */
    int64_t least, most;
    const char *choices;
} words[] = {
#define FIELD(field) offsetof(struct yokei_parity_layout, field)
#define ROOM(field) sizeof(((struct yokei_parity_layout *)0)->field)
    { "dp", WORD_NUMBER, FIELD(data), 0, 1, YOKEI_PARITY_MOST, NULL },
    { "pp", WORD_NUMBER, FIELD(pipeline), 0, 1, YOKEI_PARITY_MOST, NULL },
    { "tp", WORD_NUMBERS, FIELD(tensor), FIELD(n_tensor), 1, YOKE_MAX_TENSOR, NULL },
    { "chunks", WORD_NUMBER, FIELD(chunks), 0, 1, YOKEI_PARITY_MOST, NULL },
    { "micro-batch", WORD_NUMBER, FIELD(micro_batch), 0, 1, 1 << 20, NULL },
    { "steps", WORD_NUMBER, FIELD(steps), 0, 1, YOKEI_PARITY_STEPS, NULL },
    { "from", WORD_NUMBER, FIELD(from), 0, 0, 1 << 20, NULL },
    { "zero", WORD_NUMBER, FIELD(zero), 0, 0, 1, NULL },
    { "sequence-parallel", WORD_FLAG, FIELD(sequence_parallel), 0, 0, 0, NULL },
    { "shares", WORD_NUMBERS, FIELD(shares), FIELD(n_shares), 0, 1 << 20, NULL },
    { "tensor-shares", WORD_NUMBERS, FIELD(tensor_shares), FIELD(n_tensor_shares), 1, 1 << 20, NULL },
    { "layers", WORD_NUMBERS, FIELD(layers), FIELD(n_layers), 1, 1 << 20, NULL },
    { "schedule", WORD_TEXT, FIELD(schedule), ROOM(schedule), 0, 0, YOKEI_PIPELINE_CHOICES },
    { "recompute", WORD_TEXTS, FIELD(recompute), ROOM(recompute), 0, 0, "none|attention|full" },
    { "precision", WORD_TEXTS, FIELD(precision), ROOM(precision), 0, 0, "f32|bf16|f16" },
#undef FIELD
#undef ROOM
};

struct reader {
    const char *name;
    int line, n; /* the current line and word, counted from 1 */
    char word[128];
};

static yoke_status wrong(const struct reader *r, const char *what)
{
    return yoke_fail(YOKE_ECONFIG, "%s:%d: word %d, \"%s\": %s", r->name, r->line, r->n, r->word, what);
}

static bool is_one_of(const char *text, size_t n, const char *choices)
{
    for (const char *c = choices; *c; c += strcspn(c, "|"), c += *c == '|')
        if (strcspn(c, "|") == n && !strncmp(c, text, n)) return true;
    return false;
}

/* Read numbers from `at`, separated by : or commas. *n_out is their number. */
static yoke_status read_numbers(const struct reader *r, const struct word *w, const char *at, int most,
                                int64_t *out, int64_t *n_out)
{
    char what[128];
    int n = 0;
    for (bool more = true; more; n++) {
        char *end;
        const long long value = strtoll(at, &end, 10);
        more = *end == ':' || *end == ',';
        const bool is_number = end > at && *at >= '0' && *at <= '9' && (!*end || more);
        if (!is_number || value < w->least || value > w->most || n == most || (more && most == 1)) {
            yokei_text(what, sizeof what, "%s takes %s from %lld to %lld", w->name,
                       most == 1 ? "a whole number" : "whole numbers, such as 3:1,", (long long)w->least,
                       (long long)w->most);
            return wrong(r, what);
        }
        out[n] = value;
        at = end + more;
    }
    *n_out = n;
    return YOKE_OK;
}

static yoke_status read_texts(const struct reader *r, const struct word *w, const char *text, char *out)
{
    char what[128];
    for (const char *at = text;; at++) {
        const size_t n = strcspn(at, ",");
        if (!is_one_of(at, n, w->choices) || (at[n] && w->type == WORD_TEXT) || strlen(text) >= w->count_at) {
            yokei_text(what, sizeof what, "%s takes %s%s", w->name,
                       w->type == WORD_TEXT ? "one of " : "one or several by commas of ", w->choices);
            return wrong(r, what);
        }
        at += n;
        if (!*at) break;
    }
    yokei_text(out, w->count_at, "%s", text);
    return YOKE_OK;
}

static yoke_status unknown(const struct reader *r)
{
    const char *names[YOKE_COUNT(words) + 1] = { NULL };
    char name[128], what[192];
    for (size_t i = 0; i < YOKE_COUNT(words); i++) names[i] = words[i].name;
    yokei_text(name, sizeof name, "%.*s", (int)strcspn(r->word, "="), r->word);
    const char *nearest = yokei_nearest(name, names);
    if (nearest)
        yokei_text(what, sizeof what, "there is no such word; did you mean %s?", nearest);
    else
        yokei_text(
            what, sizeof what,
            "there is no such word; layouts are written like \"dp=2 pp=2 schedule=zb-h1 recompute=full\"");
    return wrong(r, what);
}

static yoke_status read_word(const struct reader *r, struct yokei_parity_layout *l)
{
    const size_t n = strcspn(r->word, "=");
    const char *value = r->word[n] ? r->word + n + 1 : NULL;
    int64_t one;
    for (const struct word *w = words; w < words + YOKE_COUNT(words); w++) {
        char *const field = (char *)l + w->at;
        if (strlen(w->name) != n || strncmp(w->name, r->word, n)) continue;
        if (w->type == WORD_FLAG && value) return wrong(r, "takes no value: leave out what is behind the =");
        if (w->type != WORD_FLAG && !value)
            return wrong(r, "a value is missing: write =, and the value right behind it");
        switch (w->type) {
        case WORD_FLAG: *(int64_t *)(void *)field = 1; return YOKE_OK;
        case WORD_NUMBER: return read_numbers(r, w, value, 1, (int64_t *)(void *)field, &one);
        case WORD_NUMBERS:
            return read_numbers(r, w, value, YOKEI_PARITY_MOST, (int64_t *)(void *)field,
                                (int64_t *)(void *)((char *)l + w->count_at));
        case WORD_TEXT:
        case WORD_TEXTS: return read_texts(r, w, value, field);
        }
    }
    return unknown(r);
}

/* The ranks of one replica, over all its stages. */
static int64_t width_of(const struct yokei_parity_layout *l)
{
    int64_t n = 0;
    for (int64_t s = 0; s < l->pipeline; s++) n += l->tensor[l->n_tensor > 1 ? s : 0];
    return n;
}

int yokei_parity_n_ranks(const struct yokei_parity_layout *l) { return (int)(l->data * width_of(l)); }

/* Check that the words of a line are consistent. */
static yoke_status check_line(const struct reader *r, const struct yokei_parity_layout *l)
{
    const bool differ = l->n_tensor > 1;
    const struct {
        const char *what, *of;
        int64_t n, wanted;
    } lists[] = { { "tp", "pp", differ ? l->n_tensor : 0, l->pipeline },
                  { "shares", "dp", l->n_shares, l->data },
                  { "tensor-shares", differ ? "the sum of tp" : "tp", l->n_tensor_shares,
                    differ ? width_of(l) : l->tensor[0] },
                  { "layers", l->chunks > 1 ? "pp times chunks" : "pp", l->n_layers,
                    l->pipeline * l->chunks } };
    for (size_t i = 0; i < YOKE_COUNT(lists); i++)
        if (lists[i].n && lists[i].n != lists[i].wanted)
            return yoke_fail(YOKE_ECONFIG, "%s:%d: %s has %lld numbers, but %s is %lld: give as many numbers",
                             r->name, r->line, lists[i].what, (long long)lists[i].n, lists[i].of,
                             (long long)lists[i].wanted);
    if (l->data * width_of(l) > MOST_RANKS)
        return yoke_fail(YOKE_ECONFIG, "%s:%d: dp times pp times tp is more than %d ranks: lower one of them",
                         r->name, r->line, MOST_RANKS);
    return YOKE_OK;
}

/* Read the words of one line of `n` bytes. *used_out says whether there are any. */
static yoke_status read_line(struct reader *r, const char *line, size_t n, struct yokei_parity_layout *l,
                             bool *used_out)
{
    *l = (struct yokei_parity_layout){
        .line = r->line, .data = 1, .pipeline = 1, .tensor = { 1 }, .n_tensor = 1, .chunks = 1, .from = -1
    };
    r->n = 0;
    for (size_t at = 0; at < n && line[at] != '#';) {
        const size_t length = strcspn(line + at, " \t\r\n#");
        if (!length) {
            at++;
            continue;
        }
        r->n++;
        yokei_text(r->word, sizeof r->word, "%.*s", (int)YOKE_MIN(length, sizeof r->word - 1), line + at);
        if (length >= sizeof r->word) return wrong(r, "is longer than any word of a layout");
        YOKE_TRY(read_word(r, l));
        const size_t used = strlen(l->text);
        if (used + length + 2 > sizeof l->text) return wrong(r, "the line is too long");
        yokei_text(l->text + used, sizeof l->text - used, "%s%s", used ? " " : "", r->word);
        at += length;
    }
    *used_out = r->n > 0;
    return *used_out ? check_line(r, l) : YOKE_OK;
}

static yoke_status append(struct yokei_parity_list *list, const struct yokei_parity_layout *l)
{
    if (list->n == list->capacity) {
        const int capacity = list->capacity ? 2 * list->capacity : 64;
        struct yokei_parity_layout *item = realloc(list->item, (size_t)capacity * sizeof *item);
        if (!item) return yoke_fail(YOKE_ENOMEM, "parity: no host memory for %d layouts", capacity);
        list->item = item;
        list->capacity = capacity;
    }
    list->item[list->n++] = *l;
    return YOKE_OK;
}

yoke_status yokei_parity_parse(const char *text, const char *name, struct yokei_parity_list *list_out)
{
    struct yokei_parity_list list = { 0, 0, NULL };
    struct reader r = { .name = name };
    yoke_status status = YOKE_OK;
    for (const char *at = text; *at && !status;) {
        const size_t n = strcspn(at, "\n");
        struct yokei_parity_layout l;
        bool used = false;
        r.line++;
        status = read_line(&r, at, n, &l, &used);
        if (!status && used) status = append(&list, &l);
        at += n + (at[n] == '\n');
    }
    if (!status && !list.n)
        status = yoke_fail(
            YOKE_ECONFIG,
            "%s: there is no layout in it; write one per line, such as \"dp=2 pp=2 schedule=zb-h1\"", name);
    if (status)
        yokei_parity_list_free(&list);
    else
        *list_out = list;
    return status;
}

void yokei_parity_list_free(struct yokei_parity_list *list)
{
    free(list->item);
    *list = (struct yokei_parity_list){ 0, 0, NULL };
}

bool yokei_parity_wants(const struct yokei_parity_layout *l, yoke_dtype precision)
{
    char name[16];
    for (const char *at = l->precision; *at; at += strcspn(at, ","), at += *at == ',') {
        yoke_dtype type;
        yokei_text(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        if (!yoke_dtype_parse(name, &type) && type == precision) return true;
    }
    return false;
}

/* ---- the built-in lists ---- */

static const char *const recomputations[] = { "none", "attention", "full" };

struct mesh {
    int dp, pp, tp;
    bool sequence_parallel;
};

static void add_line(FILE *to, const struct mesh *m, enum yokei_pipeline_kind kind, const char *recompute)
{
    const struct {
        const char *word;
        int n;
    } axes[] = { { "dp", m->dp }, { "pp", m->pp }, { "tp", m->tp } };
    for (size_t i = 0; i < YOKE_COUNT(axes); i++)
        if (axes[i].n > 1) fprintf(to, "%s=%d ", axes[i].word, axes[i].n);
    if (m->sequence_parallel) fprintf(to, "sequence-parallel ");
    fprintf(to, "micro-batch=%d", m->pp > 1 ? 1 : 2);
    if (m->pp > 1)
        fprintf(to, " schedule=%s%s", yokei_pipeline_names[kind],
                yokei_pipeline_has_chunks(kind) ? " chunks=2" : "");
    if (strcmp(recompute, "none") != 0) fprintf(to, " recompute=%s", recompute);
    fputc('\n', to);
}

static void add_all(FILE *to, const struct mesh *m)
{
    for (int k = 0; k < (m->pp > 1 ? YOKEI_N_PIPELINES : 1); k++)
        for (size_t i = 0; i < YOKE_COUNT(recomputations); i++)
            add_line(to, m, (enum yokei_pipeline_kind)k, recomputations[i]);
}

/*
 * Two lines that must have the same bits: a pipeline with the default schedule, and the same pipeline with
 * one of the other schedules in turn. Kinds with chunks come last, because a small model has too few blocks
 * for them. The first kind comes after the other kinds without chunks.
 */
static void add_few(FILE *to, const struct mesh *m, int64_t n_blocks, int turn)
{
    enum yokei_pipeline_kind others[YOKEI_N_PIPELINES];
    const enum yokei_pipeline_kind usual = yokei_pipeline_default(1);
    int n = 0;
    for (int chunks = 0; chunks < (2 * m->pp <= n_blocks ? 2 : 1); chunks++)
        for (int k = 1; k <= YOKEI_N_PIPELINES; k++) {
            const enum yokei_pipeline_kind kind = (enum yokei_pipeline_kind)(k % YOKEI_N_PIPELINES);
            if (kind != usual && yokei_pipeline_has_chunks(kind) == (chunks == 1)) others[n++] = kind;
        }
    add_line(to, m, usual, "none");
    add_line(to, m, others[turn % n], recomputations[m->pp > 1 ? turn % 3 : 1 + turn % 2]);
}

static void add_mesh(FILE *to, bool all, struct mesh m, int64_t n_blocks, int turn)
{
    m.sequence_parallel = !all && m.tp > 1 && turn % 2;
    if (!all)
        add_few(to, &m, n_blocks, turn);
    else
        add_all(to, &m);
    m.sequence_parallel = true;
    if (all && m.tp > 1) add_all(to, &m);
}

/* Uneven shares of the batch, of tensors and of layers, and uneven numbers of ranks. */
static void add_uneven(FILE *to, int n_ranks, int64_t n_blocks)
{
    char layers[32];
    yokei_text(layers, sizeof layers, "%lld,1", (long long)n_blocks - 1);
    if (n_ranks >= 2) {
        fprintf(
            to,
            "dp=2 shares=5:3 micro-batch=2\ndp=2 shares=5:3 micro-batch=2 zero=1\ndp=2 shares=1:7 recompute=full micro-batch=2\n");
        fprintf(
            to,
            "tp=2 tensor-shares=3:1 micro-batch=2\ntp=2 tensor-shares=1:3 sequence-parallel recompute=full micro-batch=2\n");
    }
    if (n_ranks >= 2 && n_blocks > 2)
        fprintf(to,
                "pp=2 layers=%s micro-batch=1\npp=2 layers=%s schedule=zb-h1 recompute=full micro-batch=1\n",
                layers, layers);
    if (n_ranks >= 3) /* stages of different widths */
        fprintf(
            to,
            "pp=2 tp=2,1 micro-batch=2\npp=2 tp=1,2 sequence-parallel tensor-shares=1:3:1 schedule=zb-h1 recompute=full micro-batch=2\n");
    if (n_ranks >= 4) {
        fprintf(
            to,
            "dp=4 shares=4:1:2:1 micro-batch=2\ndp=2 tp=2 shares=5:3 tensor-shares=1:3 sequence-parallel micro-batch=2\n");
        fprintf(to, "dp=2 pp=2 shares=3:1 schedule=gpipe recompute=full,attention micro-batch=1\n");
        fprintf(to, "dp=2 pp=2 shares=3:1 schedule=1f1b micro-batch=1 zero=1\n");
    }
    if (n_ranks >= 8)
        fprintf(
            to,
            "dp=2 pp=2 tp=2 shares=5:3 tensor-shares=3:1 schedule=zb-h1 recompute=attention micro-batch=1\n");
}

yoke_status yokei_parity_built_in(bool all, int n_ranks, int64_t n_blocks, struct yokei_parity_list *list_out)
{
    char *text = NULL;
    size_t bytes = 0;
    int turn = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "parity: no host memory for the layouts");
    for (int n = 1; n <= n_ranks && n <= 64; n *= 2) /* meshes of few ranks come first */
        for (int dp = 4; dp >= 1; dp /= 2)
            for (int tp = 4; tp >= 1; tp /= 2)
                for (int pp = 4; pp >= 1; pp /= 2)
                    if (dp * tp * pp == n)
                        add_mesh(to, all, (struct mesh){ dp, pp, tp, false }, n_blocks, turn++);
    add_uneven(to, n_ranks, n_blocks);
    const bool written = !fclose(to);
    const yoke_status status = written ? yokei_parity_parse(text, all ? "all" : "quick", list_out)
                                       : yoke_fail(YOKE_ENOMEM, "parity: no host memory for the layouts");
    free(text);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The black boxes of all ranks of a run, step by step. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/blackbox/box.h"

static yoke_status no_memory(void) { return yoke_fail(YOKE_ENOMEM, "black box: no host memory"); }

/* The highest rank that has a file; -1: none has. */
static yoke_status highest_rank(const char *folder, const char *suffix, int *highest_out)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return yoke_fail(yokei_input_status(errno, YOKE_EDATA),
                         "%s: %s; give the run directory of a training", folder, yokei_why(errno));
    *highest_out = -1;
    for (struct dirent *e; (e = readdir(dir));) {
        char name[40];
        int rank = -1;
        if (sscanf(e->d_name, "blackbox-%5d", &rank) != 1 || rank < 0 || rank >= YOKEI_BOX_MOST_RANKS)
            continue;
        yokei_box_name(rank, suffix, name, sizeof name);
        if (!strcmp(name, e->d_name)) *highest_out = YOKE_MAX(*highest_out, rank);
    }
    closedir(dir);
    return YOKE_OK;
}

/* The files, and the number of ranks by the files that can be read. */
static yoke_status read_files(struct yokei_boxes *b, const char *suffix, int n_files)
{
    char first[512] = "";
    int most = n_files, n_read = 0;
    b->n = n_files;
    b->box = calloc((size_t)n_files, sizeof *b->box);
    b->problem = calloc((size_t)n_files, sizeof *b->problem);
    if (!b->box || !b->problem) return no_memory();
    for (int r = 0; r < n_files; r++) {
        char name[40], path[1100];
        yokei_box_name(r, suffix, name, sizeof name);
        yokei_text(path, sizeof path, "%s/%s", b->folder, name);
        if (yokei_box_read(path, &b->box[r]))
            yokei_text(b->problem[r], sizeof b->problem[r], "%s", yoke_last_error());
        else if (b->box[r]->head.rank != r) {
            yokei_text(b->problem[r], sizeof b->problem[r], "black box %s: it is of rank %d", path,
                       b->box[r]->head.rank);
            yokei_box_free(b->box[r]);
            b->box[r] = NULL;
        }
        if (b->problem[r][0] && !first[0]) yokei_text(first, sizeof first, "%s", b->problem[r]);
        if (!b->box[r]) continue;
        n_read++;
        most = YOKE_MAX(most, b->box[r]->head.n_ranks);
    }
    if (!n_read) return yoke_fail(YOKE_EDATA, "%s", first);
    struct yokei_box **box = realloc(b->box, (size_t)most * sizeof *box);
    if (box) b->box = box;
    char(*problem)[512] = realloc(b->problem, (size_t)most * sizeof *problem);
    if (problem) b->problem = problem;
    if (!box || !problem) return no_memory();
    for (int r = n_files; r < most; r++) {
        b->box[r] = NULL;
        yokei_text(b->problem[r], sizeof b->problem[r], "black box of rank %d: it is missing", r);
    }
    b->n = most;
    return YOKE_OK;
}

static yoke_status name_layers(struct yokei_boxes *b)
{
    for (int r = 0; r < b->n; r++)
        if (b->box[r]) b->n_model_layers = YOKE_MAX(b->n_model_layers, b->box[r]->head.n_model_layers);
    b->layer = calloc((size_t)b->n_model_layers + 1, sizeof *b->layer);
    if (!b->layer) return no_memory();
    for (int r = 0; r < b->n; r++)
        for (uint32_t i = 0; b->box[r] && i < b->box[r]->head.n_layers; i++) {
            const struct yokei_box_layer *l = &b->box[r]->layers[i];
            if (l->layer >= 0 && l->layer < b->n_model_layers)
                yokei_text(b->layer[l->layer], sizeof b->layer[l->layer], "%s", l->name);
        }
    return YOKE_OK;
}

/* ---- the steps ---- */

/* A record of a rank. All ranks of a step have the same attempt and step. */
struct entry {
    uint32_t attempt;
    int rank;
    int64_t step, at;
};

static int entry_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->attempt != y->attempt) return x->attempt < y->attempt ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/*
 * Starts are counted from the newest one, which all ranks have in common. A rank whose file was made later
 * counts fewer starts.
 */
static struct entry *list_records(const struct yokei_boxes *b, size_t *n_out)
{
    uint32_t newest = 0;
    size_t n = 0;
    for (int r = 0; r < b->n; r++) {
        if (!b->box[r]) continue;
        n += (size_t)b->box[r]->n;
        newest = YOKE_MAX(newest, b->box[r]->head.attempt);
    }
    struct entry *list = calloc(n + 1, sizeof *list);
    if (!list) return NULL;
    *n_out = n;
    n = 0;
    for (int r = 0; r < b->n; r++)
        for (int64_t i = 0; b->box[r] && i < b->box[r]->n; i++) {
            const struct yokei_box_record *record = yokei_box_record(b->box[r], i);
            list[n++] = (struct entry){ record->attempt + newest - b->box[r]->head.attempt, r, record->step,
                                        i };
        }
    qsort(list, n, sizeof *list, entry_order);
    return list;
}

static yoke_status join_steps(struct yokei_boxes *b)
{
    size_t n = 0, n_steps = 0;
    struct entry *list = list_records(b, &n);
    if (!list) return no_memory();
    for (size_t i = 0; i < n; i++) n_steps += i == 0 || entry_order(&list[i - 1], &list[i]);
    b->steps = calloc(n_steps + 1, sizeof *b->steps);
    b->places = malloc((n_steps * (size_t)b->n + 1) * sizeof *b->places);
    if (!b->steps || !b->places) {
        free(list);
        return no_memory();
    }
    for (size_t i = 0; i < n_steps * (size_t)b->n; i++) b->places[i] = -1;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || entry_order(&list[i - 1], &list[i])) {
            struct yokei_boxes_step *s = &b->steps[b->n_steps++];
            s->step = list[i].step;
            s->attempt = list[i].attempt;
            s->at = b->places + (b->n_steps - 1) * b->n;
        }
        b->steps[b->n_steps - 1].at[list[i].rank] = list[i].at;
    }
    free(list);
    return YOKE_OK;
}

/* One file, such as a copy. The other ranks of its run are not read. */
static yoke_status read_one(const char *path, struct yokei_boxes *b)
{
    struct yokei_box *box;
    YOKE_TRY(yokei_box_read(path, &box));
    b->box = calloc((size_t)box->head.n_ranks, sizeof *b->box);
    b->problem = calloc((size_t)box->head.n_ranks, sizeof *b->problem);
    if (!b->box || !b->problem) {
        yokei_box_free(box);
        return no_memory();
    }
    b->n = box->head.n_ranks;
    b->box[box->head.rank] = box;
    YOKE_TRY(name_layers(b));
    return join_steps(b);
}

static yoke_status read_all(const char *folder, const char *suffix, struct yokei_boxes *b)
{
    int highest = -1;
    yokei_text(b->folder, sizeof b->folder, "%s", folder);
    if (yokei_is_there(folder) && !yokei_is_folder(folder)) return read_one(folder, b);
    YOKE_TRY(highest_rank(folder, suffix, &highest));
    if (highest < 0)
        return yoke_fail(
            YOKE_EDATA,
            "%s: no black box here; yoke train writes one into its run directory, unless it runs "
            "with --black-box off",
            folder);
    YOKE_TRY(read_files(b, suffix, highest + 1));
    YOKE_TRY(name_layers(b));
    return join_steps(b);
}

static yoke_status read_with(const char *folder, const char *suffix, struct yokei_boxes **boxes_out)
{
    struct yokei_boxes *b = calloc(1, sizeof *b);
    if (!b) return no_memory();
    const yoke_status status = read_all(folder, suffix, b);
    if (status)
        yokei_boxes_free(b);
    else
        *boxes_out = b;
    return status;
}

yoke_status yokei_boxes_read(const char *folder, struct yokei_boxes **boxes_out)
{
    return read_with(folder, "", boxes_out);
}

yoke_status yokei_boxes_read_before(const char *folder, struct yokei_boxes **boxes_out)
{
    return read_with(folder, ".before", boxes_out);
}

void yokei_boxes_free(struct yokei_boxes *b)
{
    if (!b) return;
    for (int r = 0; r < b->n && b->box; r++) yokei_box_free(b->box[r]);
    free(b->box);
    free(b->problem);
    free(b->layer);
    free(b->steps);
    free(b->places);
    free(b);
}

/* ---- one step ---- */

/* Add sums of squares; NaN: none yet. */
static void add(double *sum, double squares)
{
    if (!isnan(squares)) *sum = (isnan(*sum) ? 0 : *sum) + squares;
}

static void add_layers(const struct yokei_boxes *b, int r, int64_t at, struct yokei_boxes_layer *layers)
{
    const struct yokei_box *box = b->box[r];
    const struct yokei_box_values *values = yokei_box_values(box, at);
    for (uint32_t i = 0; i < box->head.n_layers; i++) {
        const int l = box->layers[i].layer;
        if (l < 0 || l >= b->n_model_layers) continue;
        add(&layers[l].gradient_norm, values[i].squares);
        add(&layers[l].update_norm, values[i].update_squares);
        add(&layers[l].weight_norm, values[i].weight_squares);
        layers[l].largest = fmax(layers[l].largest, values[i].largest); /* the other one, if one is NaN */
        layers[l].n_bad += values[i].n_bad;
        layers[l].outputs_bad += values[i].outputs_bad;
    }
}

static void put_layers(const struct yokei_boxes *b, const struct yokei_boxes_step *s,
                       struct yokei_boxes_layer *layers)
{
    for (int l = 0; l < b->n_model_layers; l++)
        layers[l] = (struct yokei_boxes_layer){
            .gradient_norm = NAN, .largest = NAN, .update_norm = NAN, .weight_norm = NAN, .update_ratio = NAN
        };
    for (int r = 0; r < b->n; r++)
        if (s->at[r] >= 0) add_layers(b, r, s->at[r], layers);
    for (int l = 0; l < b->n_model_layers; l++) {
        layers[l].gradient_norm = sqrt(layers[l].gradient_norm);
        layers[l].update_norm = sqrt(layers[l].update_norm);
        layers[l].weight_norm = sqrt(layers[l].weight_norm);
        if (layers[l].weight_norm > 0) layers[l].update_ratio = layers[l].update_norm / layers[l].weight_norm;
    }
}

/* The layer of the model to which a tensor belongs; -1: none. */
static int layer_of(const struct yokei_box *box, int32_t tensor)
{
    return tensor >= 0 && tensor < (int64_t)box->head.n_tensors ? box->tensors[tensor].layer : -1;
}

/* The backward pass goes from the last layer to the first one, so the highest layer is the first. */
static void find_bad(const struct yokei_boxes *b, int r, const struct yokei_box_record *record, int *highest,
                     int *own_highest, int *lowest, struct yokei_boxes_total *out)
{
    const struct yokei_box *box = b->box[r];
    if (layer_of(box, record->bad_tensor) > *highest) {
        *highest = layer_of(box, record->bad_tensor);
        out->bad_tensor = yokei_box_tensor_name(box, record->bad_tensor);
        out->bad_rank = r;
    }
    if (record->flags & YOKEI_BOX_TRACED && layer_of(box, record->own_bad_tensor) > *own_highest) {
        *own_highest = layer_of(box, record->own_bad_tensor);
        out->own_bad_tensor = yokei_box_tensor_name(box, record->own_bad_tensor);
        out->own_bad_rank = r;
    }
    if (record->bad_layer >= 0 && record->bad_layer < *lowest) {
        *lowest = record->bad_layer;
        out->bad_layer = yokei_box_layer_name(box, record->bad_layer);
        out->bad_layer_rank = r;
        out->bad_micro_batch = record->bad_micro_batch;
    }
}

/* A loss that is not a number is worse than any other one. */
static void find_worst(const struct yokei_box_record *record, struct yokei_boxes_total *out)
{
    if (record->worst_sample < 0) return;
    if (out->worst_sample >= 0 && !(record->worst_loss > out->worst_loss)
        && !(isnan(record->worst_loss) && !isnan(out->worst_loss)))
        return;
    out->worst_sample = record->worst_sample;
    out->worst_loss = record->worst_loss;
}

void yokei_boxes_step(const struct yokei_boxes *b, int64_t i, struct yokei_boxes_total *out,
                      struct yokei_boxes_layer *layers_out)
{
    const struct yokei_boxes_step *s = &b->steps[i];
    int highest = -1, own_highest = -1, lowest = INT32_MAX;
    *out = (struct yokei_boxes_total){ .step = s->step,
                                       .attempt = s->attempt,
                                       .bad_rank = -1,
                                       .own_bad_rank = -1,
                                       .bad_layer_rank = -1,
                                       .worst_sample = -1,
                                       .worst_loss = NAN,
                                       .bad_micro_batch = -1,
                                       .time = NAN,
                                       .seconds = NAN,
                                       .loss = NAN,
                                       .gradient_norm = NAN,
                                       .learning_rate = NAN,
                                       .loss_scale = NAN,
                                       .audit_ratio = NAN };
    for (int r = 0; r < b->n; r++) {
        if (s->at[r] < 0) continue;
        const struct yokei_box_record *record = yokei_box_record(b->box[r], s->at[r]);
        if (!out->n_ranks++) {
            out->time = record->time;
            out->seconds = record->seconds;
            out->loss = record->loss;
            out->gradient_norm = record->gradient_norm;
            out->learning_rate = record->learning_rate;
            out->loss_scale = record->loss_scale;
            out->first_sample = record->first_sample;
            out->audit_ratio = record->audit_ratio;
        }
        out->flags |= record->flags;
        out->n_bad += (uint64_t)record->n_bad;
        find_worst(record, out);
        find_bad(b, r, record, &highest, &own_highest, &lowest, out);
    }
    out->is_whole = out->n_ranks == b->n;
    if (layers_out) put_layers(b, s, layers_out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks gradients by central differences in f64 on the reference backend. A forward op with outputs Y gets
 * the loss L = sum of W * Y with random W. Its backward op, given dY = W, must return dL/dX. For each element
 * x, with the step h = 2^-17 max(1, |x|):
 *   numeric = (L(x + h) - L(x - h)) / 2h
 * The error of `numeric` is h^2 L'''/6 (about 1e-10 here) plus 2^-53 sum|W Y| / h (about 1e-10). The bound is
 * 1e-8 times the tensor's largest gradient (but at least 1e-8). No wrong formula is within this bound.
 * The pairs of ops and their shapes are in the files of the families.
 */
#include "conform/gradient_pairs.h"

#include <stdlib.h>
#include <string.h>

static double *numbers(struct gradient_check *c, const char *name, int64_t n, double scale)
{
    double *x = calloc((size_t)n + 1, sizeof *x);
    if (!x) {
        c->status = yoke_fail(YOKE_ENOMEM, "gradient check: no memory");
        return NULL;
    }
    const struct yokei_philox_key key = yokei_philox_named(c->seed, name);
    for (int64_t i = 0; i < n; i++) x[i] = scale * yokei_normal(key, (uint64_t)i);
    return x;
}

void gradient_input(struct gradient_check *c, const char *name, int64_t n)
{
    const int i = c->n_inputs++;
    c->input[i].name = name;
    c->input[i].n = n;
    c->input[i].x = numbers(c, name, n, 1);
    c->input[i].dx = numbers(c, "", n, 0);
}

void gradient_output(struct gradient_check *c, int64_t n, int64_t n_extra)
{
    c->n_y = n;
    c->y = numbers(c, "", n, 0);
    c->w = numbers(c, "weights", n, 1);
    c->extra = numbers(c, "", n_extra, 0);
}

void gradient_tokens(struct gradient_check *c, int64_t n, int64_t vocabulary, bool some_ignored)
{
    c->tokens = calloc((size_t)n, sizeof *c->tokens);
    if (!c->tokens) {
        c->status = yoke_fail(YOKE_ENOMEM, "gradient check: no memory");
        return;
    }
    const struct yokei_philox_key key = yokei_philox_named(c->seed, "tokens");
    for (int64_t i = 0; i < n; i++)
        c->tokens[i] = some_ignored && i % 4 == 3
                           ? -1
                           : (int32_t)(yokei_uniform(key, (uint64_t)i) * (double)vocabulary);
}

static yoke_status loss(struct gradient_check *c, const struct gradient_pair *pair, double *loss_out)
{
    YOKE_TRY(pair->forward(c));
    double sum = 0;
    for (int64_t i = 0; i < c->n_y; i++) sum += c->w[i] * c->y[i];
    *loss_out = sum;
    return YOKE_OK;
}

static yoke_status compare_input(struct gradient_check *c, const struct gradient_pair *pair, int which,
                                 struct conform_line *line)
{
    double largest = 1, *const x_of = c->input[which].x;
    const double *const dx = c->input[which].dx;
    for (int64_t i = 0; i < c->input[which].n; i++) largest = fmax(largest, fabs(dx[i]));
    for (int64_t i = 0; i < c->input[which].n; i++) {
        const double x = x_of[i], h = ldexp(fmax(1, fabs(x)), -17);
        double above, below;
        x_of[i] = x + h;
        YOKE_TRY(loss(c, pair, &above));
        x_of[i] = x - h;
        YOKE_TRY(loss(c, pair, &below));
        x_of[i] = x;
        const double numeric = (above - below) / ((x + h) - (x - h)), bound = 1e-8 * largest;
        const double ratio = fabs(dx[i] - numeric) / bound;
        line->n_cases++;
        if (line->n_cases > 1 && ratio <= line->ratio) continue;
        line->ratio = isnan(ratio) ? INFINITY : ratio;
        line->worst_index[2] = i;
        line->got = dx[i], line->wanted = numeric, line->bound = bound;
        line->has_element = true;
    }
    return YOKE_OK;
}

/* Write the dimensions that the pair uses, by their letters. */
static void describe(const struct gradient_shape *s, char *text, size_t bytes)
{
    static const char *const letters[] = { "B", "T", "H", "Hkv", "D", "C", "V", "M", "N", "K" };
    const int64_t extents[] = { s->B, s->T, s->H, s->Hkv, s->D, s->C, s->V, s->M, s->N, s->K };
    text[0] = '\0';
    for (size_t i = 0; i < YOKE_COUNT(letters); i++) {
        const size_t used = strlen(text);
        if (extents[i])
            yokei_text(text + used, bytes - used, "%s%s %d", used ? " " : "", letters[i], (int)extents[i]);
    }
    const size_t used = strlen(text);
    yokei_text(text + used, bytes - used, "%s%s%s", s->causal ? " causal" : "", s->ta ? " ta" : "",
               s->tb ? " tb" : "");
}

static void release(struct gradient_check *c)
{
    for (int i = 0; i < c->n_inputs; i++) {
        free(c->input[i].x);
        free(c->input[i].dx);
    }
    free(c->y);
    free(c->w);
    free(c->extra);
    free(c->tokens);
}

static yoke_status check_pair(yoke_stream *stream, enum yoke_op_id op, const struct gradient_pair *pair,
                              uint64_t seed, conform_callback callback, void *context,
                              struct conform_summary *summary)
{
    struct gradient_check c = { .stream = stream, .seed = seed, .shape = pair->shape };
    yoke_status status;
    pair->setup(&c);
    YOKE_TRY_GOTO(c.status, release_arrays);
    YOKE_TRY_GOTO(pair->forward(&c), release_arrays);
    YOKE_TRY_GOTO(pair->run_backward(&c), release_arrays);
    for (int which = 0; which < c.n_inputs; which++) {
        struct conform_line line = { .size = sizeof line,
                                     .op = yokei_op_names[op],
                                     .dtype = YOKE_F64,
                                     .variant = "gradient",
                                     .device = "reference",
                                     .seed = seed };
        yokei_text(line.worst_output, sizeof line.worst_output, "d%s", c.input[which].name);
        describe(&pair->shape, line.worst_case, sizeof line.worst_case);
        YOKE_TRY_GOTO(compare_input(&c, pair, which, &line), release_arrays);
        if (line.ratio > 1) {
            line.verdict = CONFORM_FAIL;
            yokei_text(line.reason, sizeof line.reason, "the formula disagrees with central differences");
        }
        summary->n_cases += line.n_cases;
        *(line.verdict == CONFORM_PASS ? &summary->n_pass : &summary->n_fail) += 1;
        if (callback) callback(context, &line);
    }
release_arrays:
    release(&c);
    return status;
}

static yoke_status check_gradient_options(const struct conform_options *options)
{
    YOKE_TRY(conform_check_options(options));
    if (options->dtype && strcmp(options->dtype, "f64"))
        return yoke_fail(YOKE_EINVAL, "gradient check: central differences are taken in f64 alone, not in %s",
                         options->dtype);
    if (options->variant && strcmp(options->variant, "gradient"))
        return yoke_fail(YOKE_EINVAL, "gradient check: the reference has no variants, '%s' neither",
                         options->variant);
    if (options->only_case)
        return yoke_fail(YOKE_EINVAL, "gradient check: its lines have elements, not cases; choose by the op");
    for (int op = 0; op < YOKE_N_OPS; op++)
        if (conform_selected(options, (enum yoke_op_id)op)
            && conform_row_of((enum yoke_op_id)op)->gradients.n)
            return YOKE_OK;
    return yoke_fail(
        YOKE_EINVAL,
        "gradient check: %s has no gradient of its own to be held to central differences; a backward op has",
        options->op);
}

static yoke_status check_pairs(yoke_device *device, const struct conform_options *options,
                               conform_callback callback, void *context, struct conform_summary *summary)
{
    yoke_stream *stream;
    yoke_status status = YOKE_OK;
    size_t n = 0, done = 0;
    for (int i = 0; i < YOKE_N_OPS; i++)
        if (!options || conform_selected(options, (enum yoke_op_id)i))
            n += conform_row_of((enum yoke_op_id)i)->gradients.n;
    YOKE_TRY(yoke_stream_create(device, &stream));
    for (int i = 0; i < YOKE_N_OPS; i++) {
        const enum yoke_op_id op = (enum yoke_op_id)i;
        const struct gradient_pairs pairs = conform_row_of(op)->gradients;
        if (options && !conform_selected(options, op)) continue;
        for (size_t p = 0; p < pairs.n && !status; p++) {
            if (options && options->share) options->share(context, (double)done++ / (double)n);
            status = check_pair(stream, op, &pairs.list[p], options && options->seed ? options->seed : 1,
                                callback, context, summary);
        }
    }
    yoke_stream_destroy(stream);
    return status;
}

yoke_status conform_gradients(const struct conform_options *options, conform_callback callback, void *context,
                              struct conform_summary *summary_out)
{
    struct conform_summary summary = { .size = sizeof summary };
    yoke_device *own = NULL, *device = options ? options->gradient_device : NULL;
    if (options) YOKE_TRY(check_gradient_options(options));
    if (!device) {
        YOKE_TRY(yoke_device_open("reference", NULL, &own));
        device = own;
    }
    const struct yoke_device_info *info = yoke_device_info(device);
    yoke_status status;
    if (info->host_visible && info->storage & 1u << YOKE_F64)
        status = check_pairs(device, options, callback, context, &summary);
    else
        status = yoke_fail(
            YOKE_EUNSUPPORTED,
            "gradient check: device %s does not store f64 where the host sees it; use \"reference\"",
            info->spec);
    yoke_device_close(own);
    if (!status && summary_out) *summary_out = summary;
    return status;
}

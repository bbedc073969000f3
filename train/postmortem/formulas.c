/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 (Radford et al. 2019) and models with Llama's layers (Touvron et al. 2023), as the papers and Hugging
 * Face's models define them.
 */
#include "train/postmortem/formulas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

struct weight {
    char name[YOKEI_WEIGHT_NAME_BYTES];
    int64_t n;
    double *value;
};

struct yokei_formulas {
    bool is_gpt2, has_bias, is_tied;
    int64_t L, C, F, H, Hkv, D, V;
    double eps, theta;
    int n_weights;
    struct weight *weight;
};

static void set_sizes(struct yokei_formulas *f, struct yokei_model model)
{
    if (!strcmp(model.row->type, "gpt2")) {
        const struct yoke_gpt2_config *c = model.config;
        *f = (struct yokei_formulas){ .is_gpt2 = true,
                                      .has_bias = true,
                                      .is_tied = true,
                                      .L = c->n_layer,
                                      .C = c->n_embd,
                                      .F = 4 * c->n_embd,
                                      .H = c->n_head,
                                      .Hkv = c->n_head,
                                      .D = c->n_embd / c->n_head,
                                      .V = c->vocab_size,
                                      .eps = c->layer_norm_epsilon };
        return;
    }
    const struct yoke_llama_config *c = model.config;
    *f = (struct yokei_formulas){ .has_bias = c->qkv_bias,
                                  .is_tied = c->tie_word_embeddings,
                                  .L = c->num_hidden_layers,
                                  .C = c->hidden_size,
                                  .F = c->intermediate_size,
                                  .H = c->num_attention_heads,
                                  .Hkv = c->num_key_value_heads,
                                  .D = c->head_dim ? c->head_dim : c->hidden_size / c->num_attention_heads,
                                  .V = c->vocab_size,
                                  .eps = c->rms_norm_eps,
                                  .theta = c->rope_theta };
}

yoke_status yokei_formulas_create(struct yokei_model model, struct yokei_formulas **out)
{
    struct yokei_formulas *f = calloc(1, sizeof *f);
    if (!f) return yoke_fail(YOKE_ENOMEM, "the formulas: no host memory");
    set_sizes(f, model);
    const int64_t n = yokei_model_n_tensors(model);
    f->weight = calloc((size_t)n, sizeof *f->weight);
    bool ok = f->weight != NULL;
    for (int64_t i = 0; i < n && ok; i++) {
        struct yokei_weight w;
        struct weight *own = &f->weight[f->n_weights++];
        ok = !yokei_model_tensor(model, i, &w);
        yokei_text(own->name, sizeof own->name, "%s", w.name);
        own->n = w.shape[0] * (w.n_dims > 1 ? w.shape[1] : 1);
        own->value = ok ? calloc((size_t)own->n, sizeof *own->value) : NULL;
        ok = own->value != NULL;
    }
    if (ok) {
        *out = f;
        return YOKE_OK;
    }
    yokei_formulas_free(f);
    return yoke_fail(YOKE_ENOMEM, "the formulas: no host memory for the weights");
}

void yokei_formulas_free(struct yokei_formulas *f)
{
    if (!f) return;
    for (int i = 0; i < f->n_weights; i++) free(f->weight[i].value);
    free(f->weight);
    free(f);
}

double *yokei_formulas_weight(struct yokei_formulas *f, const char *name, int64_t *n_out)
{
    for (int i = 0; i < f->n_weights; i++)
        if (!strcmp(f->weight[i].name, name)) {
            *n_out = f->weight[i].n;
            return f->weight[i].value;
        }
    return NULL;
}

int yokei_formulas_n_outputs(const struct yokei_formulas *f) { return (int)(2 + 2 * f->L); }

/* ---- the formulas ---- */

/* A weight of a block (l at least 0), or of the model. A name of which there is no weight gives NULL. */
static const double *get(const struct yokei_formulas *f, int64_t l, const char *name)
{
    char full[2 * YOKEI_WEIGHT_NAME_BYTES];
    int64_t n;
    yokei_text(full, sizeof full, "%s", name);
    if (l >= 0)
        yokei_text(full, sizeof full, "%s%lld.%s", f->is_gpt2 ? "h." : "model.layers.", (long long)l, name);
    return yokei_formulas_weight((struct yokei_formulas *)(uintptr_t)f, full, &n);
}

/* y [T][out] = x [T][in] W + b. GPT-2 keeps W as [in][out], and Llama as [out][in]. */
static void multiply(bool is_in_out, const double *x, int64_t T, int64_t in, int64_t out, const double *W,
                     const double *b, double *y)
{
#pragma omp parallel for
    for (int64_t t = 0; t < T; t++) {
        double *row = y + t * out;
        const double *from = x + t * in;
        for (int64_t o = 0; o < out; o++) row[o] = b ? b[o] : 0;
        for (int64_t i = 0; i < in && is_in_out; i++)
            for (int64_t o = 0; o < out; o++) row[o] += from[i] * W[i * out + o];
        for (int64_t o = 0; o < out && !is_in_out; o++)
            for (int64_t i = 0; i < in; i++) row[o] += from[i] * W[o * in + i];
    }
}

/* GPT-2 normalises by mean and variance, Llama by the mean square. */
static void normalise(const struct yokei_formulas *f, const double *x, int64_t T, const double *gain,
                      const double *bias, double *y)
{
    const int64_t C = f->C;
    for (int64_t t = 0; t < T; t++) {
        double mean = 0, square = 0;
        for (int64_t c = 0; c < C && f->is_gpt2; c++) mean += x[t * C + c] / (double)C;
        for (int64_t c = 0; c < C; c++) square += (x[t * C + c] - mean) * (x[t * C + c] - mean) / (double)C;
        for (int64_t c = 0; c < C; c++)
            y[t * C + c] = (x[t * C + c] - mean) / sqrt(square + f->eps) * gain[c] + (bias ? bias[c] : 0);
    }
}

/* Turn channel i of each head with channel i + D / 2, by the position. */
static void turn(const struct yokei_formulas *f, double *x, int64_t T, int64_t heads)
{
    const int64_t D = f->D;
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < D / 2; i++) {
                double *a = x + (t * heads + h) * D + i, *b = a + D / 2;
                const double angle = (double)t * pow(f->theta, -2.0 * (double)i / (double)D), p = *a, q = *b;
                *a = p * cos(angle) - q * sin(angle);
                *b = q * cos(angle) + p * sin(angle);
            }
}

/* Causal attention of one head and position: softmax(q k / sqrt(D)) v. The strides are between positions. */
static void attend(int64_t D, int64_t t, const double *q, const double *k, int64_t k_step, const double *v,
                   int64_t v_step, double *scores, double *out)
{
    double most = -INFINITY, sum = 0;
    for (int64_t s = 0; s <= t; s++) {
        scores[s] = 0;
        for (int64_t d = 0; d < D; d++) scores[s] += q[d] * k[s * k_step + d];
        scores[s] /= sqrt((double)D);
        most = fmax(most, scores[s]);
    }
    for (int64_t s = 0; s <= t; s++) sum += scores[s] = exp(scores[s] - most);
    for (int64_t d = 0; d < D; d++) out[d] = 0;
    for (int64_t s = 0; s <= t; s++)
        for (int64_t d = 0; d < D; d++) out[d] += scores[s] / sum * v[s * v_step + d];
}

/* Memory of a sequence: the residual stream, and what a layer needs. */
struct room {
    double *x, *normed, *a, *b, *c, *scores;
};

static void run_heads(const struct yokei_formulas *f, int64_t T, const double *q, int64_t q_step,
                      const double *k, int64_t k_step, const double *v, int64_t v_step, struct room *r,
                      double *out)
{
    const int64_t D = f->D, group = f->H / f->Hkv;
#pragma omp parallel for
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < f->H; h++)
            attend(D, t, q + t * q_step + h * D, k + h / group * D, k_step, v + h / group * D, v_step,
                   r->scores + t * T, out + (t * f->H + h) * D);
}

static void add(double *x, const double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

static void gpt2_attention(const struct yokei_formulas *f, int64_t l, int64_t T, struct room *r)
{
    const int64_t C = f->C;
    normalise(f, r->x, T, get(f, l, "ln_1.weight"), get(f, l, "ln_1.bias"), r->normed);
    multiply(true, r->normed, T, C, 3 * C, get(f, l, "attn.c_attn.weight"), get(f, l, "attn.c_attn.bias"),
             r->a);
    run_heads(f, T, r->a, 3 * C, r->a + C, 3 * C, r->a + 2 * C, 3 * C, r, r->b);
    multiply(true, r->b, T, C, C, get(f, l, "attn.c_proj.weight"), get(f, l, "attn.c_proj.bias"), r->normed);
}

/* GELU by the formula with tanh. */
static double gelu(double x) { return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))); }

static void gpt2_mlp(const struct yokei_formulas *f, int64_t l, int64_t T, struct room *r)
{
    normalise(f, r->x, T, get(f, l, "ln_2.weight"), get(f, l, "ln_2.bias"), r->normed);
    multiply(true, r->normed, T, f->C, f->F, get(f, l, "mlp.c_fc.weight"), get(f, l, "mlp.c_fc.bias"), r->a);
    for (int64_t i = 0; i < T * f->F; i++) r->a[i] = gelu(r->a[i]);
    multiply(true, r->a, T, f->F, f->C, get(f, l, "mlp.c_proj.weight"), get(f, l, "mlp.c_proj.bias"),
             r->normed);
}

static void llama_attention(const struct yokei_formulas *f, int64_t l, int64_t T, struct room *r)
{
    const int64_t C = f->C, q = f->H * f->D, kv = f->Hkv * f->D;
    normalise(f, r->x, T, get(f, l, "input_layernorm.weight"), NULL, r->normed);
    multiply(false, r->normed, T, C, q, get(f, l, "self_attn.q_proj.weight"),
             f->has_bias ? get(f, l, "self_attn.q_proj.bias") : NULL, r->a);
    multiply(false, r->normed, T, C, kv, get(f, l, "self_attn.k_proj.weight"),
             f->has_bias ? get(f, l, "self_attn.k_proj.bias") : NULL, r->b);
    multiply(false, r->normed, T, C, kv, get(f, l, "self_attn.v_proj.weight"),
             f->has_bias ? get(f, l, "self_attn.v_proj.bias") : NULL, r->b + T * kv);
    turn(f, r->a, T, f->H);
    turn(f, r->b, T, f->Hkv);
    run_heads(f, T, r->a, q, r->b, kv, r->b + T * kv, kv, r, r->c);
    multiply(false, r->c, T, q, C, get(f, l, "self_attn.o_proj.weight"), NULL, r->normed);
}

static void llama_mlp(const struct yokei_formulas *f, int64_t l, int64_t T, struct room *r)
{
    normalise(f, r->x, T, get(f, l, "post_attention_layernorm.weight"), NULL, r->normed);
    multiply(false, r->normed, T, f->C, f->F, get(f, l, "mlp.gate_proj.weight"), NULL, r->a);
    multiply(false, r->normed, T, f->C, f->F, get(f, l, "mlp.up_proj.weight"), NULL, r->b);
    for (int64_t i = 0; i < T * f->F; i++) r->a[i] *= r->b[i] / (1 + exp(-r->a[i])); /* SiLU */
    multiply(false, r->a, T, f->F, f->C, get(f, l, "mlp.down_proj.weight"), NULL, r->normed);
}

static void note_largest(const double *x, int64_t n, double *largest)
{
    for (int64_t i = 0; i < n && largest; i++)
        if (!(fabs(x[i]) <= *largest)) *largest = fabs(x[i]);
}

static void run_layers(const struct yokei_formulas *f, const int32_t *inputs, int64_t T, struct room *r,
                       double *largest)
{
    const int64_t C = f->C;
    const double *embedding = get(f, -1, f->is_gpt2 ? "wte.weight" : "model.embed_tokens.weight"),
                 *positions = f->is_gpt2 ? get(f, -1, "wpe.weight") : NULL;
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++)
            r->x[t * C + c] = embedding[inputs[t] * C + c] + (positions ? positions[t * C + c] : 0);
    note_largest(r->x, T * C, largest);
    for (int64_t l = 0; l < f->L; l++)
        for (int part = 0; part < 2; part++) {
            void (*const layers[])(const struct yokei_formulas *, int64_t, int64_t,
                                   struct room *) = { gpt2_attention, gpt2_mlp, llama_attention, llama_mlp };
            layers[(f->is_gpt2 ? 0 : 2) + part](f, l, T, r);
            add(r->x, r->normed, T * C);
            note_largest(r->x, T * C, largest ? &largest[1 + 2 * l + part] : NULL);
        }
    normalise(f, r->x, T, get(f, -1, f->is_gpt2 ? "ln_f.weight" : "model.norm.weight"),
              f->is_gpt2 ? get(f, -1, "ln_f.bias") : NULL, r->normed);
    note_largest(r->normed, T * C, largest ? &largest[1 + 2 * f->L] : NULL);
}

/* The sum of -log softmax(logits)[target]. */
static double sum_losses(const double *logits, const int32_t *targets, int64_t T, int64_t V)
{
    double total = 0;
    for (int64_t t = 0; t < T; t++) {
        const double *row = logits + t * V;
        double most = -INFINITY, sum = 0;
        if (targets[t] < 0) continue;
        for (int64_t v = 0; v < V; v++) most = fmax(most, row[v]);
        for (int64_t v = 0; v < V; v++) sum += exp(row[v] - most);
        total += most + log(sum) - row[targets[t]];
    }
    return total;
}

yoke_status yokei_formulas_loss(const struct yokei_formulas *f, const int32_t *inputs, const int32_t *targets,
                                int64_t T, double *sum, double *largest)
{
    const int64_t wide = YOKE_MAX(YOKE_MAX(3 * f->C, f->F), YOKE_MAX(f->H * f->D, 2 * f->Hkv * f->D));
    const size_t n = (size_t)T * (size_t)(2 * f->C + 3 * wide + T + f->V);
    struct room r = { .x = malloc(n * sizeof(double)) };
    if (!r.x) return yoke_fail(YOKE_ENOMEM, "the formulas: no host memory for a sequence");
    r.normed = r.x + T * f->C;
    r.a = r.normed + T * f->C;
    r.b = r.a + T * wide;
    r.c = r.b + T * wide;
    r.scores = r.c + T * wide;
    double *logits = r.scores + T * T;
    run_layers(f, inputs, T, &r, largest);
    const char *head = !f->is_tied  ? "lm_head.weight"
                       : f->is_gpt2 ? "wte.weight"
                                    : "model.embed_tokens.weight";
    multiply(false, r.normed, T, f->C, f->V, get(f, -1, head), NULL, logits);
    *sum += sum_losses(logits, targets, T, f->V);
    free(r.x);
    return YOKE_OK;
}

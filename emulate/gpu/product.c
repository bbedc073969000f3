/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices as commands of a stream. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/gpu/errors.h"
#include "emulate/gpu/product.h"

/* A product that runs. */
struct work {
    struct product p;
    float *op_a, *op_b, *out; /* [m, k], [n, k], [m] of one matrix */
    char *text;
    size_t text_bytes;
};

/* ---- the driver ---- */

void *product_symbol(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    return handle ? dlsym(handle, name) : NULL;
}

bool product_driver_find(const char *library, struct product_driver *driver_out)
{
    void *const symbols[] = { product_symbol(library, "yoke_emulate_enqueue"),
                              product_symbol(library, "yoke_emulate_bytes"),
                              product_symbol(library, "yoke_emulate_fails") };
    _Static_assert(sizeof *driver_out == sizeof symbols, "the members are these functions");
    memcpy(driver_out, symbols, sizeof symbols);
    return symbols[0] && symbols[1] && symbols[2];
}

/* ---- objects ---- */

bool product_set(void *member, size_t member_bytes, const void *value, size_t bytes)
{
    if (!value || bytes != member_bytes) return false;
    memcpy(member, value, bytes);
    return true;
}

bool product_give(void *object, void *object_out)
{
    if (object) memcpy(object_out, &object, sizeof object);
    return object != NULL;
}

/* ---- types ---- */

size_t product_type_bytes(int type)
{
    return type == PRODUCT_F32 ? 4 : type == PRODUCT_F16 || type == PRODUCT_BF16 ? 2 : 0;
}

static float from_half(uint16_t h)
{
    const int e = h >> 10 & 31, f = h & 1023;
    const float sign = h & 0x8000 ? -1.0f : 1.0f;
    if (e == 31) return f ? NAN : sign * INFINITY;
    return sign * (e ? ldexpf((float)(1024 + f), e - 25) : ldexpf((float)f, -24));
}

static uint16_t to_half(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const float size = fabsf(x);
    if (isnan(x)) return 0x7fff;
    if (size >= 65520.0f) return sign | 0x7c00;
    if (size < 0x1p-14f) return (uint16_t)(sign | (uint16_t)lrintf(size * 0x1p24f));
    bits = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | ((bits - 0x38000000u) >> 13));
}

static float from_bfloat(uint16_t b)
{
    const uint32_t bits = (uint32_t)b << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t to_bfloat(float x)
{
    uint32_t bits;
    if (isnan(x)) return 0x7fff;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float load(const void *from, int64_t i, int type)
{
    if (type == PRODUCT_F32) return ((const float *)from)[i];
    const uint16_t bits = ((const uint16_t *)from)[i];
    return type == PRODUCT_F16 ? from_half(bits) : from_bfloat(bits);
}

static void store(void *to, int64_t i, int type, float x)
{
    if (type == PRODUCT_F32)
        ((float *)to)[i] = x;
    else
        ((uint16_t *)to)[i] = type == PRODUCT_F16 ? to_half(x) : to_bfloat(x);
}

static float rounded(float x, int type)
{
    uint32_t place;
    store(&place, 0, type, x);
    return load(&place, 0, type);
}

/* f32 shortened to 10 bits, as TF32 has. */
static float shortened(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xffffe000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A subnormal number of a 16-bit type as a zero of its sign. */
static float flushed(float x, int type)
{
    const float least = type == PRODUCT_F16 ? 0x1p-14f : 0x1p-126f;
    return type != PRODUCT_F32 && fabsf(x) < least ? copysignf(0, x) : x;
}

static float operand(const struct product *p, float x, int type)
{
    if (p->shorten) x = shortened(x);
    return p->flush ? flushed(x, type) : x;
}

/* ---- shapes ---- */

enum product_fit product_shape_check(struct product_shape *s)
{
    const struct product_layout *all[] = { s->a, s->b, s->c, s->d };
    for (int i = 0; i < 4; i++) {
        if (!all[i]) return PRODUCT_WRONG;
        if (!all[i]->rows || !all[i]->columns || all[i]->ld < (int64_t)all[i]->rows || all[i]->batch < 1
            || all[i]->batch != s->a->batch)
            return PRODUCT_WRONG;
        if (!product_type_bytes(all[i]->type)) return PRODUCT_UNSUPPORTED;
    }
    s->m = (int64_t)(s->trans_a ? s->a->columns : s->a->rows);
    s->n = (int64_t)(s->trans_b ? s->b->rows : s->b->columns);
    s->k = (int64_t)(s->trans_a ? s->a->rows : s->a->columns);
    if ((int64_t)(s->trans_b ? s->b->columns : s->b->rows) != s->k || (int64_t)s->d->rows != s->m
        || (int64_t)s->d->columns != s->n || s->c->rows != s->d->rows || s->c->columns != s->d->columns)
        return PRODUCT_WRONG;
    if (s->a->type != s->b->type || s->c->type != s->d->type
        || (s->d->type != s->a->type && s->d->type != PRODUCT_F32))
        return PRODUCT_UNSUPPORTED;
    return s->d->batch > 1 && s->d->stride < s->d->ld * (s->n - 1) + s->m ? PRODUCT_WRONG : PRODUCT_FITS;
}

/* ---- the product ---- */

/* `what` names the access: "A", or NULL for the call alone. */
static void *bytes_at(const struct work *w, uint64_t address, size_t bytes, int writes, const char *what)
{
    char name[80];
    snprintf(name, sizeof name, "%s: %s", w->p.name, what);
    return w->p.driver->bytes(address, bytes, writes, name, w->text, w->text_bytes);
}

static void *column(const struct work *w, const struct product_layout *l, uint64_t at, int64_t batch,
                    int64_t j, int writes, const char *what)
{
    const uint64_t element = (uint64_t)(batch * (l->batch > 1 ? l->stride : 0) + j * l->ld);
    const size_t one = product_type_bytes(l->type);
    return bytes_at(w, at + element * one, l->rows * one, writes, what);
}

/* Copy a matrix to out[i * k + kk], where i counts rows of op(A) or columns of op(B). */
static bool fetch(const struct work *w, const struct product_layout *l, uint64_t at, int64_t batch,
                  bool k_is_row, const char *what, float *out)
{
    const int64_t k = w->p.k;
    for (int64_t j = 0; j < (int64_t)l->columns; j++) {
        const void *from = column(w, l, at, batch, j, 0, what);
        if (!from) return false;
        for (int64_t i = 0; i < (int64_t)l->rows; i++)
            out[k_is_row ? j * k + i : i * k + j] = operand(&w->p, load(from, i, l->type), l->type);
    }
    return true;
}

/* The sum of one element. Parts that are added in f32 also lie in the workspace. */
static float sum_of(const struct work *w, int64_t i, int64_t j, float *parts)
{
    const struct product *p = &w->p;
    const float *a = w->op_a + i * p->k, *b = w->op_b + j * p->k;
    if (p->parts <= 1) return product_dot(a, b, p->k, p->block);
    float sum = 0;
    for (int64_t i_part = 0; i_part < p->parts; i_part++) {
        const int64_t s = p->backwards ? p->parts - 1 - i_part : i_part;
        const int64_t begin = p->k * s / p->parts, end = p->k * (s + 1) / p->parts;
        const float part = product_dot(a + begin, b + begin, end - begin, p->block);
        if (parts) parts[s * p->m * p->n + j * p->m + i] = part;
        sum = p->in_f32 ? sum + part : rounded(sum + rounded(part, p->d.type), p->d.type);
    }
    return sum;
}

/* The product and the bias, before the last rounding. */
static float with_bias(const struct product *p, float x, const void *bias, int64_t i)
{
    const float b = load(bias, i, p->bias_type);
    if (p->bias_type == p->d.type) return x + b;
    switch (p->bias_rounding) {
    case PRODUCT_BIAS_TWICE: return rounded(x, p->d.type) + b;
    case PRODUCT_BIAS_SHORT: return x + rounded(b, p->d.type);
    default: return x + b;
    }
}

static int multiply(struct work *w, int64_t batch, const void *bias)
{
    const struct product *p = &w->p;
    float *parts = NULL;
    if (!fetch(w, &p->a, p->a_at, batch, p->trans_a, "A", w->op_a)
        || !fetch(w, &p->b, p->b_at, batch, !p->trans_b, "B", w->op_b))
        return EMULATE_ILLEGAL_ADDRESS;
    if (p->parts > 1 && p->in_f32) {
        parts = bytes_at(w, p->workspace, 4 * (size_t)(p->parts * p->m * p->n), 1, "the workspace");
        if (!parts) return EMULATE_ILLEGAL_ADDRESS;
    }
    for (int64_t j = 0; j < p->n; j++) {
        const void *c = p->beta != 0 ? column(w, &p->c, p->c_at, batch, j, 0, "C") : NULL;
        if (p->beta != 0 && !c) return EMULATE_ILLEGAL_ADDRESS;
        for (int64_t i = 0; i < p->m; i++) {
            float x = p->alpha * sum_of(w, i, j, parts);
            if (c) x = fmaf(p->beta, load(c, i, p->c.type), x);
            x = bias ? with_bias(p, x, bias, i) : x;
            w->out[i] = p->flush ? flushed(x, p->d.type) : x;
        }
        void *d = column(w, &p->d, p->d_at, batch, j, 1, "D");
        if (!d) return EMULATE_ILLEGAL_ADDRESS;
        for (int64_t i = 0; i < p->m; i++) store(d, i, p->d.type, w->out[i]);
    }
    return EMULATE_OK;
}

static int run_product(void *user, char *text, size_t text_bytes)
{
    struct work *w = user;
    const struct product *p = &w->p;
    const void *bias = NULL;
    int error = EMULATE_OK;
    w->text = text, w->text_bytes = text_bytes;
    w->op_a = malloc(sizeof(float) * (size_t)(p->m * p->k));
    w->op_b = malloc(sizeof(float) * (size_t)(p->n * p->k));
    w->out = malloc(sizeof(float) * (size_t)p->m);
    if (!w->op_a || !w->op_b || !w->out) {
        snprintf(text, text_bytes, "the host has no memory for a product of %s", p->name);
        return EMULATE_OUT_OF_MEMORY;
    }
    if (p->bias_at) {
        bias = bytes_at(w, p->bias_at, (size_t)p->m * product_type_bytes(p->bias_type), 0, "the bias");
        if (!bias) return EMULATE_ILLEGAL_ADDRESS;
    }
    for (int64_t batch = 0; batch < p->d.batch && !error; batch++) error = multiply(w, batch, bias);
    return error;
}

static void release(void *user)
{
    struct work *w = user;
    free(w->op_a);
    free(w->op_b);
    free(w->out);
    free(w);
}

int product_enqueue(const struct product *product, void *stream)
{
    struct work *w = calloc(1, sizeof *w);
    if (!w) return EMULATE_OUT_OF_MEMORY;
    w->p = *product;
    return product->driver->enqueue(stream, product->name, run_product, release, w);
}

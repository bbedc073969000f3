/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products by oneDNN 2 on the host backend. The library is found at run time; its headers give the
 * prototypes.
 *
 * The primitive of a product is made once and kept in a table of bounded size. One thread at a time uses an
 * entry, because the entry has memory objects whose addresses are set in each call. If a second thread has
 * the same product, it makes an entry of its own. The scratchpad is the stream's, so running an op allocates
 * nothing.
 */
#include "backends/host/host.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define FUNCTIONS(F) \
    F(version) F(get_effective_cpu_isa) F(engine_create) F(engine_destroy) F(stream_create) \
    F(stream_destroy) F(stream_wait) \
    F(memory_desc_init_by_strides) F(memory_desc_get_size) F(memory_create) F(memory_destroy) \
    F(memory_set_data_handle) \
    F(primitive_attr_create) F(primitive_attr_destroy) F(primitive_attr_set_scratchpad_mode) \
    F(primitive_attr_set_fpmath_mode) F(primitive_attr_set_output_scales) F(primitive_attr_set_post_ops) \
    F(post_ops_create) F(post_ops_destroy) F(post_ops_append_sum) F(post_ops_append_binary) \
    F(matmul_desc_init) \
    F(primitive_desc_create) F(primitive_desc_destroy) F(primitive_desc_query) F(primitive_desc_query_md) \
    F(primitive_create) F(primitive_destroy) F(primitive_execute)
/* clang-format on */

/*
 * The key of a primitive. Two products with equal keys have the same primitive. All fields are 64 bits wide,
 * so keys can be compared as bytes.
 */
struct key {
    int64_t dtype, out_dtype, trans_a, trans_b, M, N, K, batch;
    int64_t lda, stride_a, ldb, stride_b, ldc, stride_c;
    int64_t with_bias, n_threads;
    double alpha, beta;
};

enum { A, B, C, BIAS, SCRATCH, N_MEMORIES };

/* See run_primitive. oneDNN's limits are 84 (AVX-512) and 252 (AVX2). */
enum { STACK_K = 64 };

struct entry {
    struct key key;
    bool used, busy;
    uint64_t last_use;
    bool optimised;   /* not oneDNN's plain reference code */
    bool moves_stack; /* its code moves the stack pointer: see run_primitive */
    /* the status of making it; a failed entry is kept, so that the next call fails quickly */
    dnnl_status_t status;
    dnnl_primitive_t primitive;
    dnnl_memory_t memories[N_MEMORIES];
    size_t scratch_bytes;
};

enum { MOST_ENTRIES = YOKEI_HOST_PRODUCTS };

struct host_onednn {
#define MEMBER(name) __typeof__(dnnl_##name) *name;
    FUNCTIONS(MEMBER)
    char version_text[32];
    bool has[YOKE_N_DTYPES], amx;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    pthread_mutex_t lock;
    uint64_t clock;
    int n_evicted;
    struct entry entries[MOST_ENTRIES];
};

static const char *status_text(dnnl_status_t status)
{
    static const char *const texts[] = { "success",       "out of memory", "invalid arguments",
                                         "unimplemented", "iterator ends", "runtime error",
                                         "not required" };
    return (unsigned)status < YOKE_COUNT(texts) ? texts[status] : "unknown status";
}

static dnnl_data_type_t type_of(yoke_dtype dtype)
{
    return dtype == YOKE_F16 ? dnnl_f16 : dtype == YOKE_BF16 ? dnnl_bf16 : dnnl_f32;
}

#define DNNL_TRY(x)                        \
    do {                                   \
        const dnnl_status_t s_ = (x);      \
        if (s_ != dnnl_success) return s_; \
    } while (0)

/* ---- making a primitive ---- */
/* A single matrix has two dimensions; a batch has three. */
static dnnl_status_t init_matrices(const struct host_onednn *o, dnnl_memory_desc_t *md, dnnl_data_type_t type,
                                   bool alone, const int64_t dims[3], const int64_t strides[3])
{
    const int skip = alone ? 1 : 0;
    dnnl_dims_t d = { 0 }, s = { 0 };
    for (int i = skip; i < 3; i++) d[i - skip] = dims[i], s[i - skip] = strides[i];
    return o->memory_desc_init_by_strides(md, 3 - skip, d, type, s);
}

/* [batch, rows, columns]. A matrix that all products share has batch 1, which oneDNN broadcasts. */
static dnnl_status_t describe(const struct host_onednn *o, dnnl_memory_desc_t *md, dnnl_data_type_t type,
                              int64_t batch, int64_t rows, int64_t columns, bool transposed, int64_t ld,
                              int64_t stride)
{
    const bool shared = batch > 1 && stride == 0;
    const int64_t plain = transposed ? columns * ld : rows * ld; /* used if the given stride has no meaning */
    const int64_t dims[3] = { shared ? 1 : batch, rows, columns };
    const int64_t strides[3] = { batch == 1 || shared ? plain : stride, transposed ? 1 : ld,
                                 transposed ? ld : 1 };
    return init_matrices(o, md, type, batch == 1, dims, strides);
}

/* Set alpha, beta and, if alpha would scale the bias too, the bias. */
static dnnl_status_t set_attributes(const struct host_onednn *o, const struct key *k,
                                    const dnnl_memory_desc_t *bias, dnnl_primitive_attr_t attr)
{
    DNNL_TRY(o->primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    DNNL_TRY(o->primitive_attr_set_fpmath_mode(attr, dnnl_fpmath_mode_strict));
    const float alpha = (float)k->alpha;
    if (alpha != 1) DNNL_TRY(o->primitive_attr_set_output_scales(attr, 1, 0, &alpha));
    const bool late_bias = k->with_bias && alpha != 1;
    if (k->beta == 0 && !late_bias) return dnnl_success;
    dnnl_post_ops_t ops;
    DNNL_TRY(o->post_ops_create(&ops));
    dnnl_status_t status = k->beta != 0 ? o->post_ops_append_sum(ops, (float)k->beta) : dnnl_success;
    if (!status && late_bias) status = o->post_ops_append_binary(ops, dnnl_binary_add, bias);
    if (!status) status = o->primitive_attr_set_post_ops(attr, ops);
    o->post_ops_destroy(ops);
    return status;
}

static dnnl_status_t make_memories(const struct host_onednn *o, struct entry *e,
                                   const dnnl_memory_desc_t md[N_MEMORIES])
{
    for (int i = 0; i < N_MEMORIES; i++)
        if (i != BIAS || e->key.with_bias)
            DNNL_TRY(o->memory_create(&e->memories[i], &md[i], o->engine, DNNL_MEMORY_NONE));
    return dnnl_success;
}

static dnnl_status_t make_primitive(const struct host_onednn *o, struct entry *e)
{
    const struct key *k = &e->key;
    const dnnl_data_type_t in = type_of((yoke_dtype)k->dtype), out = type_of((yoke_dtype)k->out_dtype);
    dnnl_memory_desc_t md[N_MEMORIES];
    DNNL_TRY(describe(o, &md[A], in, k->batch, k->M, k->K, k->trans_a, k->lda, k->stride_a));
    DNNL_TRY(describe(o, &md[B], in, k->batch, k->K, k->N, k->trans_b, k->ldb, k->stride_b));
    DNNL_TRY(describe(o, &md[C], out, k->batch, k->M, k->N, false, k->ldc, k->stride_c));
    const int64_t bias_dims[3] = { 1, 1, k->N }, bias_strides[3] = { k->N, k->N, 1 };
    DNNL_TRY(init_matrices(o, &md[BIAS], dnnl_f32, k->batch == 1, bias_dims, bias_strides));
    dnnl_primitive_attr_t attr;
    DNNL_TRY(o->primitive_attr_create(&attr));
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status = set_attributes(o, k, &md[BIAS], attr);
    if (!status)
        status = o->matmul_desc_init(&desc, &md[A], &md[B], k->with_bias && k->alpha == 1 ? &md[BIAS] : NULL,
                                     &md[C]);
    if (!status) status = o->primitive_desc_create(&pd, &desc, attr, o->engine, NULL);
    o->primitive_attr_destroy(attr);
    DNNL_TRY(status);
    const char *code = "";
    o->primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &code);
    e->optimised = strncmp(code, "ref", 3) != 0;
    e->moves_stack = strncmp(code, "gemm", 4) == 0 && k->K > STACK_K;
    md[SCRATCH] = *o->primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    e->scratch_bytes = o->memory_desc_get_size(&md[SCRATCH]);
    status = o->primitive_create(&e->primitive, pd);
    o->primitive_desc_destroy(pd);
    return status ? status : make_memories(o, e, md);
}

static void clear(const struct host_onednn *o, struct entry *e)
{
    for (int i = 0; i < N_MEMORIES; i++)
        if (e->memories[i]) o->memory_destroy(e->memories[i]);
    if (e->primitive) o->primitive_destroy(e->primitive);
    memset(e, 0, sizeof *e);
}

/* ---- the table ---- */
static struct key key_of(const struct yoke_gemm_args *a, int64_t ldc, int64_t stride_c, int n_threads)
{
    const bool many = a->batch > 1;
    return (struct key){ .dtype = a->dtype,
                         .out_dtype = a->out_dtype,
                         .trans_a = a->trans_a,
                         .trans_b = a->trans_b,
                         .M = a->M,
                         .N = a->N,
                         .K = a->K,
                         .batch = a->batch,
                         .lda = a->lda,
                         .stride_a = many ? a->stride_a : 0,
                         .ldb = a->ldb,
                         .stride_b = many ? a->stride_b : 0,
                         .ldc = ldc,
                         .stride_c = many ? stride_c : 0,
                         .with_bias = a->epilogue != YOKE_EPILOGUE_NONE,
                         .n_threads = n_threads,
                         .alpha = a->alpha,
                         .beta = a->beta };
}

/*
 * Find an idle entry with this key, else a free one, else the one that has been idle for the longest time.
 * NULL if all are busy. The lock is held.
 */
static struct entry *find(struct host_onednn *o, const struct key *key)
{
    struct entry *best = NULL;
    for (int i = 0; i < MOST_ENTRIES; i++) {
        struct entry *e = &o->entries[i];
        if (e->busy) continue;
        if (e->used && !memcmp(&e->key, key, sizeof *key)) return e;
        if (!best || (best->used && (!e->used || e->last_use < best->last_use))) best = e;
    }
    if (best && best->used) {
        clear(o, best);
        o->n_evicted++;
    }
    return best;
}

/*
 * Take an entry for this thread alone, and make it if necessary. Its status says whether it can be used. Give
 * it back afterwards.
 */
static struct entry *take(struct host_onednn *o, const struct key *key)
{
    pthread_mutex_lock(&o->lock);
    struct entry *e = find(o, key);
    if (e) {
        e->busy = true;
        e->last_use = ++o->clock;
    }
    pthread_mutex_unlock(&o->lock);
    if (e && !e->used) { /* no other thread looks at a busy entry */
        e->key = *key;
        e->used = true;
        e->status = make_primitive(o, e);
    }
    return e;
}

static void give_back(struct host_onednn *o, struct entry *e)
{
    pthread_mutex_lock(&o->lock);
    e->busy = false;
    pthread_mutex_unlock(&o->lock);
}

void yokei_host_products(const yoke_device *device, int *held_out, int *evicted_out)
{
    const struct host_onednn *o = host_device(device)->onednn;
    *held_out = *evicted_out = 0;
    if (!o) return;
    for (int i = 0; i < MOST_ENTRIES; i++) *held_out += o->entries[i].used;
    *evicted_out = o->n_evicted;
}

/* ---- opening ---- */
static bool try_type(struct host_onednn *o, yoke_dtype dtype)
{
    struct entry e = { .key = { .dtype = dtype,
                                .out_dtype = dtype,
                                .M = 64,
                                .N = 64,
                                .K = 64,
                                .batch = 1,
                                .lda = 64,
                                .ldb = 64,
                                .ldc = 64,
                                .alpha = 1 } };
    const bool has = make_primitive(o, &e) == dnnl_success && e.optimised;
    clear(o, &e);
    return has;
}

struct host_onednn *host_onednn_open(char *reason, size_t reason_bytes)
{
    static const char *const names[] = { "libdnnl.so.2", NULL }; /* version 3 has another interface */
    struct host_onednn *o = calloc(1, sizeof *o);
    if (!o) {
        yokei_text(reason, reason_bytes, "no memory");
        return NULL;
    }
/* clang-format off */
#define SYMBOL(name) { "dnnl_" #name, &o->name },
    /* clang-format on */
    const struct yokei_symbol symbols[] = { FUNCTIONS(SYMBOL) };
    if (!yokei_dl_open(names, symbols, YOKE_COUNT(symbols), reason, reason_bytes)) {
        free(o);
        return NULL;
    }
    pthread_mutex_init(&o->lock, NULL);
    const dnnl_version_t *v = o->version();
    yokei_text(o->version_text, sizeof o->version_text, "%d.%d.%d", v->major, v->minor, v->patch);
    o->amx = (o->get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
    dnnl_status_t status = o->engine_create(&o->engine, dnnl_cpu, 0);
    if (!status) status = o->stream_create(&o->stream, o->engine, dnnl_stream_default_flags);
    if (status) {
        yokei_text(reason, reason_bytes, "oneDNN %s has no CPU engine: %s", o->version_text,
                   status_text(status));
        host_onednn_close(o);
        return NULL;
    }
    for (int dtype = 0; dtype < YOKE_N_DTYPES; dtype++)
        o->has[dtype] = (dtype == YOKE_F32 || dtype == YOKE_F16 || dtype == YOKE_BF16)
                        && try_type(o, (yoke_dtype)dtype);
    return o;
}

void host_onednn_close(struct host_onednn *o)
{
    if (!o) return;
    for (int i = 0; i < MOST_ENTRIES; i++) clear(o, &o->entries[i]);
    if (o->stream) o->stream_destroy(o->stream);
    if (o->engine) o->engine_destroy(o->engine);
    pthread_mutex_destroy(&o->lock);
    /*
     * The library stays loaded, because OpenMP's threads outlive the device and may hold thread-local memory
     * of the library.
     */
    free(o);
}

const char *host_onednn_version(const struct host_onednn *o) { return o->version_text; }
bool host_onednn_has(const struct host_onednn *o, yoke_dtype dtype) { return o->has[dtype]; }
bool host_onednn_amx(const struct host_onednn *o) { return o && o->amx; }

/* ---- the op ---- */
/*
 * oneDNN uses OpenMP's number of threads. So this number is set to the device's while oneDNN makes or runs a
 * primitive.
 */
struct team {
    int before;
};

static struct team enter_team(const yoke_device *device)
{
    const struct team t = { omp_get_max_threads() };
    if (host_n_threads(device) != t.before) omp_set_num_threads(host_n_threads(device));
    return t;
}

static void leave_team(struct team t)
{
    if (omp_get_max_threads() != t.before) omp_set_num_threads(t.before);
}

/*
 * If there is an aux, the product goes to aux, and GELU goes from aux to C. This is not possible if C has to
 * be read.
 */
static bool product_to_aux(const struct yoke_gemm_args *a)
{
    return a->epilogue == YOKE_EPILOGUE_BIAS_GELU && a->aux && a->beta == 0;
}

static struct entry *take_for(const yoke_device *device, const struct yoke_gemm_args *a)
{
    const bool to_aux = product_to_aux(a);
    const struct key key = key_of(a, to_aux ? a->ldaux : a->ldc, to_aux ? a->stride_aux : a->stride_c,
                                  host_n_threads(device));
    const struct team team = enter_team(device);
    struct entry *e = take(host_device(device)->onednn, &key);
    leave_team(team);
    return e;
}

/* A product without terms or without elements is left to the panels, because there is nothing to multiply. */
static bool is_empty(const struct yoke_gemm_args *a) { return !a->M || !a->N || !a->K; }

bool host_onednn_offers(const yoke_device *device, const struct yoke_gemm_args *a)
{
    struct host_onednn *o = host_device(device)->onednn;
    if (is_empty(a) || (unsigned)a->dtype >= YOKE_N_DTYPES || !o->has[a->dtype]) return false;
    struct entry *e = take_for(device, a);
    if (!e) return false;
    const bool offers = e->status == dnnl_success && e->optimised;
    give_back(o, e);
    return offers;
}

/* The panels run an empty product. */
static yoke_status onednn_gemm_can(const yoke_device *device, const struct yokei_call *call,
                                   size_t *scratch_bytes_out)
{
    const struct yoke_gemm_args *a = call->args;
    struct host_onednn *o = host_device(device)->onednn;
    if (is_empty(a))
        return host_device(device)->isas[0]->ops[YOKE_OP_gemm]->can(device, call, scratch_bytes_out);
    if (!o->has[a->dtype])
        return yoke_fail(YOKE_EUNSUPPORTED, "gemm by oneDNN %s: it has no %s products on this CPU",
                         o->version_text, yoke_dtype_name(a->dtype));
    struct entry *e = take_for(device, a);
    if (!e)
        return yoke_fail(YOKE_EBUSY, "gemm by oneDNN: %d products run at this moment, no more are offered",
                         MOST_ENTRIES);
    const dnnl_status_t status = e->status;
    const size_t scratch = e->scratch_bytes;
    give_back(o, e);
    if (status)
        return yoke_fail(YOKE_EUNSUPPORTED, "gemm by oneDNN %s: it does not offer this product: %s",
                         o->version_text, status_text(status));
    *scratch_bytes_out = scratch;
    return YOKE_OK;
}

/* A thread of the team takes no signals from the first call on. The calling thread holds them already. */
static void hold_in_team(int n_threads)
{
    static _Thread_local bool holds;
#pragma omp parallel num_threads(n_threads)
    if (omp_get_thread_num() && !holds) {
        sigset_t was;
        yokei_signals_hold(&was);
        holds = true;
    }
}

/*
 * The code that oneDNN before 3.11.2 calls "gemm:jit" sets the stack pointer to memory of the heap if K is
 * above a limit. If a signal arrives there, the kernel writes the handler's frame below this memory, over
 * whatever the heap has there (oneDNN's issue 4845). So no thread of the team may take a signal during such a
 * product.
 */
static dnnl_status_t run_primitive(const struct host_onednn *o, const struct entry *e, int n_args,
                                   const dnnl_exec_arg_t *args)
{
    sigset_t was;
    if (e->moves_stack) {
        yokei_signals_hold(&was);
        if (e->key.n_threads > 1) hold_in_team((int)e->key.n_threads);
    }
    dnnl_status_t status = o->primitive_execute(e->primitive, o->stream, n_args, args);
    if (!status) status = o->stream_wait(o->stream);
    if (e->moves_stack) yokei_signals_release(&was);
    return status;
}

static dnnl_status_t execute(const struct host_onednn *o, const struct entry *e,
                             const struct yoke_gemm_args *a, void *c, void *scratch)
{
    const void *const addresses[N_MEMORIES] = {
        [A] = a->a, [B] = a->b, [C] = c, [BIAS] = a->bias, [SCRATCH] = scratch
    };
    const int bias_arg = e->key.alpha == 1
                             ? DNNL_ARG_BIAS
                             : DNNL_ARG_ATTR_MULTIPLE_POST_OP(e->key.beta != 0) | DNNL_ARG_SRC_1;
    const int names[N_MEMORIES] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, bias_arg,
                                    DNNL_ARG_SCRATCHPAD };
    dnnl_exec_arg_t args[N_MEMORIES];
    int n = 0;
    for (int i = 0; i < N_MEMORIES; i++) {
        if (!e->memories[i]) continue;
        DNNL_TRY(o->memory_set_data_handle(e->memories[i], (void *)(uintptr_t)addresses[i]));
        args[n++] = (dnnl_exec_arg_t){ names[i], e->memories[i] };
    }
    return run_primitive(o, e, n, args);
}

/* C = gelu(pre-activation). The product has rounded the pre-activation to out_dtype, in aux or in C. */
static void finish_gelu(yoke_stream *stream, const struct yoke_gemm_args *a)
{
    const struct host_isa *isa = host_device(stream->device)->isas[0];
    const size_t element = yoke_dtype_bytes(a->out_dtype);
    for (int64_t i = 0; i < a->batch; i++) {
        char *c = (char *)a->c + (size_t)(i * a->stride_c) * element;
        char *aux = a->aux ? (char *)a->aux + (size_t)(i * a->stride_aux) * element : NULL;
        if (aux && !product_to_aux(a))
            for (int64_t m = 0; m < a->M; m++)
                memcpy(aux + (size_t)(m * a->ldaux) * element, c + (size_t)(m * a->ldc) * element,
                       (size_t)a->N * element);
        isa->gelu_rows(stream, a->out_dtype, a->M, a->N, aux ? aux : c, aux ? a->ldaux : a->ldc, c, a->ldc);
    }
}

static yoke_status onednn_gemm_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gemm_args *a = call->args;
    const yoke_device *device = stream->device;
    struct host_onednn *o = host_device(device)->onednn;
    void *scratch;
    if (is_empty(a)) return host_device(device)->isas[0]->ops[YOKE_OP_gemm]->run(stream, call);
    struct entry *e = take_for(device, a);
    if (!e)
        return yoke_fail(YOKE_EBUSY, "gemm by oneDNN: %d products run at this moment, no more are offered",
                         MOST_ENTRIES);
    yoke_status status = yokei_scratch(stream, YOKE_OP_gemm, e->scratch_bytes, &scratch);
    if (!status) {
        const struct team team = enter_team(device);
        const dnnl_status_t s = execute(o, e, a, product_to_aux(a) ? a->aux : a->c, scratch);
        leave_team(team);
        if (s) status = yoke_fail(YOKE_EBACKEND, "gemm by oneDNN %s: %s", o->version_text, status_text(s));
    }
    give_back(o, e);
    if (!status && a->epilogue == YOKE_EPILOGUE_BIAS_GELU) finish_gelu(stream, a);
    return status;
}
const struct yoke_op host_onednn_gemm = { .can = onednn_gemm_can, .run = onednn_gemm_run };

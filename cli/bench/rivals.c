/* SPDX-License-Identifier: Apache-2.0 */
/* The known libraries oneDNN and OpenBLAS on the host, loaded at run time. Only benchmarks use them. */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/gemm.h"
#include "core/base/base.h"

/* ---- oneDNN: a matmul primitive on plain row-major memory ---- */

static struct {
    const dnnl_version_t *(*version)(void);
    dnnl_status_t (*engine_create)(dnnl_engine_t *, dnnl_engine_kind_t, size_t);
    dnnl_status_t (*engine_destroy)(dnnl_engine_t);
    dnnl_status_t (*stream_create)(dnnl_stream_t *, dnnl_engine_t, unsigned);
    dnnl_status_t (*stream_wait)(dnnl_stream_t);
    dnnl_status_t (*stream_destroy)(dnnl_stream_t);
    dnnl_status_t (*md_by_tag)(dnnl_memory_desc_t *, int, const dnnl_dims_t, dnnl_data_type_t,
                               dnnl_format_tag_t);
    dnnl_status_t (*matmul_init)(dnnl_matmul_desc_t *, const dnnl_memory_desc_t *, const dnnl_memory_desc_t *,
                                 const dnnl_memory_desc_t *, const dnnl_memory_desc_t *);
    dnnl_status_t (*pd_create)(dnnl_primitive_desc_t *, const_dnnl_op_desc_t, const_dnnl_primitive_attr_t,
                               dnnl_engine_t, const_dnnl_primitive_desc_t);
    dnnl_status_t (*pd_destroy)(dnnl_primitive_desc_t);
    dnnl_status_t (*primitive_create)(dnnl_primitive_t *, const_dnnl_primitive_desc_t);
    dnnl_status_t (*primitive_destroy)(dnnl_primitive_t);
    dnnl_status_t (*memory_create)(dnnl_memory_t *, const dnnl_memory_desc_t *, dnnl_engine_t, void *);
    dnnl_status_t (*memory_destroy)(dnnl_memory_t);
    dnnl_status_t (*execute)(const_dnnl_primitive_t, dnnl_stream_t, int, const dnnl_exec_arg_t *);
} dnnl;

static bool load_onednn(char *reason, size_t bytes)
{
    const struct yokei_symbol symbols[] = {
        { "dnnl_version", &dnnl.version },
        { "dnnl_engine_create", &dnnl.engine_create },
        { "dnnl_engine_destroy", &dnnl.engine_destroy },
        { "dnnl_stream_create", &dnnl.stream_create },
        { "dnnl_stream_wait", &dnnl.stream_wait },
        { "dnnl_stream_destroy", &dnnl.stream_destroy },
        { "dnnl_memory_desc_init_by_tag", &dnnl.md_by_tag },
        { "dnnl_matmul_desc_init", &dnnl.matmul_init },
        { "dnnl_primitive_desc_create", &dnnl.pd_create },
        { "dnnl_primitive_desc_destroy", &dnnl.pd_destroy },
        { "dnnl_primitive_create", &dnnl.primitive_create },
        { "dnnl_primitive_destroy", &dnnl.primitive_destroy },
        { "dnnl_memory_create", &dnnl.memory_create },
        { "dnnl_memory_destroy", &dnnl.memory_destroy },
        { "dnnl_primitive_execute", &dnnl.execute },
    };
    static void *handle;
    if (!handle)
        handle = yokei_dl_open((const char *const[]){ "libdnnl.so.2", NULL }, symbols, YOKE_COUNT(symbols),
                               reason, bytes);
    return handle != NULL;
}

struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[3];
};

static void onednn_release(struct gemm_side *side)
{
    struct onednn *s = side->state;
    if (!s) return;
    for (int i = 0; i < 3; i++)
        if (s->memory[i]) dnnl.memory_destroy(s->memory[i]);
    if (s->primitive) dnnl.primitive_destroy(s->primitive);
    if (s->descriptor) dnnl.pd_destroy(s->descriptor);
    if (s->stream) dnnl.stream_destroy(s->stream);
    if (s->engine) dnnl.engine_destroy(s->engine);
    free(s);
    side->state = NULL;
}

static bool onednn_build(struct onednn *s, const struct gemm_problem *p)
{
    const dnnl_data_type_t type = p->dtype == YOKE_F32    ? dnnl_f32
                                  : p->dtype == YOKE_BF16 ? dnnl_bf16
                                                          : dnnl_f16;
    const dnnl_dims_t dims[3] = { { p->M, p->K }, { p->K, p->N }, { p->M, p->N } };
    void *data[3] = { p->a, p->b, p->c };
    dnnl_memory_desc_t md[3];
    dnnl_matmul_desc_t product;
    if (dnnl.engine_create(&s->engine, dnnl_cpu, 0)
        || dnnl.stream_create(&s->stream, s->engine, dnnl_stream_default_flags))
        return false;
    for (int i = 0; i < 3; i++)
        if (dnnl.md_by_tag(&md[i], 2, dims[i], type, dnnl_ab)) return false;
    if (dnnl.matmul_init(&product, &md[0], &md[1], NULL, &md[2])) return false;
    if (dnnl.pd_create(&s->descriptor, &product, NULL, s->engine, NULL)) return false;
    if (dnnl.primitive_create(&s->primitive, s->descriptor)) return false;
    for (int i = 0; i < 3; i++)
        if (dnnl.memory_create(&s->memory[i], &md[i], s->engine, data[i])) return false;
    return true;
}

static bool onednn_prepare(struct gemm_side *side, const struct gemm_problem *problem, char *reason,
                           size_t bytes)
{
    if (!load_onednn(reason, bytes)) return false;
    const dnnl_version_t *v = dnnl.version();
    yokei_text(side->version, sizeof side->version, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    struct onednn *s = side->state = calloc(1, sizeof *s);
    if (s && onednn_build(s, problem)) return true;
    onednn_release(side);
    yokei_text(reason, bytes, "%s does not offer %s here", side->version, yoke_dtype_name(problem->dtype));
    return false;
}

static bool onednn_run(struct gemm_side *side)
{
    struct onednn *s = side->state;
    const dnnl_exec_arg_t args[3] = { { DNNL_ARG_SRC, s->memory[0] },
                                      { DNNL_ARG_WEIGHTS, s->memory[1] },
                                      { DNNL_ARG_DST, s->memory[2] } };
    return !dnnl.execute(s->primitive, s->stream, 3, args) && !dnnl.stream_wait(s->stream);
}

static bool in_place(struct gemm_side *side)
{
    (void)side; /* the result is already in problem->c */
    return true;
}

const struct gemm_side cli_side_onednn = { .name = "oneDNN",
                                           .prepare = onednn_prepare,
                                           .run = onednn_run,
                                           .fetch = in_place,
                                           .release = onednn_release };

/* ---- OpenBLAS ---- */

enum { ROW_MAJOR = 101, NO_TRANS = 111 }; /* values of CBLAS */

static struct {
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    char *(*config)(void);
} blas;

static bool openblas_prepare(struct gemm_side *side, const struct gemm_problem *problem, char *reason,
                             size_t bytes)
{
    const struct yokei_symbol symbols[] = { { "cblas_sgemm", &blas.sgemm },
                                            { "openblas_get_config", &blas.config } };
    static void *handle;
    if (!handle)
        handle = yokei_dl_open((const char *const[]){ "libopenblas.so.0", NULL }, symbols, 2, reason, bytes);
    if (!handle) return false;
    yokei_text(side->version, sizeof side->version, "%s", blas.config());
    if (problem->dtype != YOKE_F32) {
        yokei_text(reason, bytes, "OpenBLAS offers f32 only");
        return false;
    }
    side->state = (void *)problem;
    return true;
}

static bool openblas_run(struct gemm_side *side)
{
    const struct gemm_problem *p = side->state;
    int m = (int)p->M, n = (int)p->N, k = (int)p->K;
    blas.sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, m, n, k, 1, p->a, k, p->b, n, 0, p->c, n);
    return true;
}

static void openblas_release(struct gemm_side *side) { side->state = NULL; }

const struct gemm_side cli_side_openblas = { .name = "OpenBLAS",
                                             .prepare = openblas_prepare,
                                             .run = openblas_run,
                                             .fetch = in_place,
                                             .release = openblas_release };

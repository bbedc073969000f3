/* SPDX-License-Identifier: Apache-2.0 */
/* CLBlast, loaded at run time, with its own context on the same OpenCL device. Only benchmarks use it. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/gemm.h"
#include "core/base/base.h"

enum { ROW_MAJOR = 101, NO_TRANS = 111 }; /* values of CLBlastLayout and CLBlastTranspose */

static struct {
    cl_int (*platforms)(cl_uint, cl_platform_id *, cl_uint *);
    cl_int (*devices)(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
    cl_context (*create_context)(const cl_context_properties *, cl_uint, const cl_device_id *,
                                 void (*)(const char *, const void *, size_t, void *), void *, cl_int *);
    cl_command_queue (*create_queue)(cl_context, cl_device_id, cl_command_queue_properties, cl_int *);
    cl_mem (*create_buffer)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    cl_int (*read)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *,
                   cl_event *);
    cl_int (*finish)(cl_command_queue);
    cl_int (*release_mem)(cl_mem);
    cl_int (*release_queue)(cl_command_queue);
    cl_int (*release_context)(cl_context);
    int (*sgemm)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                 size_t a_offset, size_t lda, cl_mem b, size_t b_offset, size_t ldb, float beta, cl_mem c,
                 size_t c_offset, size_t ldc, cl_command_queue *queue, cl_event *event);
    int (*hgemm)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, cl_half alpha, cl_mem a,
                 size_t a_offset, size_t lda, cl_mem b, size_t b_offset, size_t ldb, cl_half beta, cl_mem c,
                 size_t c_offset, size_t ldc, cl_command_queue *queue, cl_event *event);
} cl;

struct clblast {
    const struct gemm_problem *problem;
    cl_context context;
    cl_command_queue queue;
    cl_mem memory[3];
};

static bool clblast_load(char *reason, size_t bytes)
{
    const struct yokei_symbol opencl[] = {
        { "clGetPlatformIDs", &cl.platforms },
        { "clGetDeviceIDs", &cl.devices },
        { "clCreateContext", &cl.create_context },
        { "clCreateCommandQueue", &cl.create_queue },
        { "clCreateBuffer", &cl.create_buffer },
        { "clEnqueueReadBuffer", &cl.read },
        { "clFinish", &cl.finish },
        { "clReleaseMemObject", &cl.release_mem },
        { "clReleaseCommandQueue", &cl.release_queue },
        { "clReleaseContext", &cl.release_context },
    };
    const struct yokei_symbol clblast[] = { { "CLBlastSgemm", &cl.sgemm }, { "CLBlastHgemm", &cl.hgemm } };
    static void *handles[2];
    if (!handles[0])
        handles[0] = yokei_dl_open((const char *const[]){ "libOpenCL.so.1", NULL }, opencl,
                                   YOKE_COUNT(opencl), reason, bytes);
    if (handles[0] && !handles[1])
        handles[1] = yokei_dl_open((const char *const[]){ "libclblast.so.1", NULL }, clblast,
                                   YOKE_COUNT(clblast), reason, bytes);
    return handles[0] && handles[1];
}

/* Find device number `index` over all platforms, in the order of the OpenCL backend. */
static bool find_device(int index, cl_device_id *out)
{
    cl_platform_id platforms[16];
    cl_uint n_platforms = 0;
    if (cl.platforms(16, platforms, &n_platforms)) return false;
    for (cl_uint p = 0; p < YOKE_MIN(n_platforms, 16u); p++) {
        cl_device_id devices[16];
        cl_uint n = 0;
        if (cl.devices(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &n)) continue;
        if (index < (int)YOKE_MIN(n, 16u)) {
            *out = devices[index];
            return true;
        }
        index -= (int)YOKE_MIN(n, 16u);
    }
    return false;
}

static void clblast_release(struct gemm_side *side)
{
    struct clblast *s = side->state;
    if (!s) return;
    for (int i = 0; i < 3; i++)
        if (s->memory[i]) cl.release_mem(s->memory[i]);
    if (s->queue) cl.release_queue(s->queue);
    if (s->context) cl.release_context(s->context);
    free(s);
    side->state = NULL;
}

static bool clblast_build(struct clblast *s, int index)
{
    const struct gemm_problem *p = s->problem;
    size_t size = yoke_dtype_bytes(p->dtype);
    const size_t bytes[3] = { (size_t)(p->M * p->K) * size, (size_t)(p->K * p->N) * size,
                              (size_t)(p->M * p->N) * size };
    void *data[3] = { p->a, p->b, p->c };
    cl_device_id device;
    cl_int error;
    if (!find_device(index, &device)) return false;
    s->context = cl.create_context(NULL, 1, &device, NULL, NULL, &error);
    s->queue = s->context ? cl.create_queue(s->context, device, 0, &error) : NULL;
    if (!s->queue) return false;
    for (int i = 0; i < 3; i++) {
        s->memory[i] = cl.create_buffer(s->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes[i],
                                        data[i], &error);
        if (!s->memory[i]) return false;
    }
    return true;
}

static int product(struct clblast *s)
{
    const struct gemm_problem *p = s->problem;
    size_t m = (size_t)p->M, n = (size_t)p->N, k = (size_t)p->K;
    cl_half one = 0x3c00;
    if (p->dtype == YOKE_F32)
        return cl.sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, m, n, k, 1, s->memory[0], 0, k, s->memory[1], 0, n, 0,
                        s->memory[2], 0, n, &s->queue, NULL);
    return cl.hgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, m, n, k, one, s->memory[0], 0, k, s->memory[1], 0, n, 0,
                    s->memory[2], 0, n, &s->queue, NULL);
}

static bool clblast_run(struct gemm_side *side)
{
    struct clblast *s = side->state;
    return !product(s) && !cl.finish(s->queue);
}

static bool clblast_prepare(struct gemm_side *side, const struct gemm_problem *problem, char *reason,
                            size_t bytes)
{
    if (!clblast_load(reason, bytes)) return false;
    if (problem->dtype == YOKE_BF16) {
        yokei_text(reason, bytes, "CLBlast offers f32 and f16 only");
        return false;
    }
    struct clblast *s = side->state = calloc(1, sizeof *s);
    if (s) s->problem = problem;
    if (!s || !clblast_build(s, side->device_index)) {
        yokei_text(reason, bytes, "no OpenCL context for CLBlast");
    } else {
        int error = product(s); /* compiles its kernels */
        if (!error && !cl.finish(s->queue)) return true;
        yokei_text(reason, bytes, "CLBlast does not offer %s on this device (its error %d)",
                   yoke_dtype_name(problem->dtype), error);
    }
    clblast_release(side);
    return false;
}

static bool clblast_fetch(struct gemm_side *side)
{
    struct clblast *s = side->state;
    const struct gemm_problem *p = s->problem;
    return !cl.read(s->queue, s->memory[2], CL_TRUE, 0, (size_t)(p->M * p->N) * yoke_dtype_bytes(p->dtype),
                    p->c, 0, NULL, NULL);
}

struct gemm_side cli_side_clblast(int device_index)
{
    return (struct gemm_side){ .name = "CLBlast",
                               .prepare = clblast_prepare,
                               .run = clblast_run,
                               .fetch = clblast_fetch,
                               .release = clblast_release,
                               .device_index = device_index,
                               .version = "CLBlast, default parameters" };
}

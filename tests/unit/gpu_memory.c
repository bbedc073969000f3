/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of OpenCL memory, in both memory modes: arithmetic, limits, wrapping, and the table behind the
 * addresses.
 */
#include "tests/unit/gpu_test.h"

/* Operands that begin inside allocations, and a NULL one, in each mode. */
static void arithmetic(void **state)
{
    (void)state;
    for (size_t m = 0; m < YOKE_COUNT(gpu_modes); m++) {
        enum { N = 1000, PAD = 37 };
        GPU_OPEN(device, gpu_modes[m], NULL);
        yoke_stream *stream;
        float *a, *b, host[N + 2 * PAD], x[N], y[N];
        assert_ok(yoke_stream_create(device, &stream));
        assert_ok(yoke_alloc(device, sizeof host, (void **)&a));
        assert_ok(yoke_alloc(device, sizeof host, (void **)&b));
        for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 0.5f * (float)i;
        assert_ok(yoke_fill(stream, a, 0, sizeof host));
        assert_ok(yoke_copy_to_device(stream, a + PAD, x, sizeof x));
        assert_ok(yoke_copy_to_device(stream, b + 3, y, sizeof y));
        assert_ok(yoke_add(stream, &YOKE_ARGS(add, .dtype = YOKE_F32, .n = N - 1, .x = a + PAD, .y = b + 3,
                                              .z = a + PAD)));
        assert_ok(yoke_copy(stream, b + 2, a, sizeof host - 2 * sizeof(float)));
        assert_ok(yoke_copy_to_host(stream, host, a, sizeof host));
        assert_ok(yoke_stream_sync(stream));
        for (int i = 0; i < N + 2 * PAD; i++) {
            int j = i - PAD;
            assert_true(host[i] == (j < 0 || j >= N ? 0.0f : j == N - 1 ? x[j] : x[j] + y[j]));
        }
        bool seen = !strcmp(gpu_modes[m], "svm") && yoke_device_info(device)->host_visible;
        assert_true((yoke_host_ptr(device, a + 5) != NULL) == seen);
        if (seen) assert_true(((float *)yoke_host_ptr(device, a + PAD))[7] == x[7] + y[7]);
        assert_non_null(strstr(yoke_device_info(device)->features, seen ? "svm-fine" : "buffer-offsets"));

        /* mean and rstd may be NULL: a null (buffer, offset) pair. */
        assert_ok(yoke_layernorm_forward(
            stream, &YOKE_ARGS(layernorm_forward, .dtype = YOKE_F32, .N = 2, .C = 16, .x = a + PAD, .ldx = 16,
                               .gamma = b, .beta = b + 16, .eps = 1e-5f, .y = a + PAD, .ldy = 16)));
        assert_ok(yoke_stream_sync(stream));
        assert_ok(yoke_free(device, a));
        assert_ok(yoke_free(device, b));
        assert_ok(yoke_stream_destroy(stream));
        assert_ok(yoke_device_close(device));
    }
}

/* An address outside of device memory must be refused if the driver can tell; in buffer mode, always. */
static void outside(void **state)
{
    (void)state;
    GPU_OPEN(device, "buffer", NULL);
    yoke_stream *stream;
    char *a, *b, host[64];
    void *too_much;
    assert_ok(yoke_stream_create(device, &stream));
    assert_ok(yoke_alloc(device, 0, (void **)&a));
    assert_ok(yoke_alloc(device, 0, (void **)&b));
    assert_true(a != b);
    assert_ok(yoke_free(device, a));
    assert_ok(yoke_alloc(device, 64, (void **)&a));
    assert_ok(yoke_copy_to_device(stream, a, host, 64));
    assert_fails(YOKE_EINVAL, "one allocation", yoke_copy_to_device(stream, a + 1, host, 64));
    assert_fails(YOKE_EINVAL, "one allocation", yoke_fill(stream, a + 60, 0, 5));
    assert_fails(YOKE_EINVAL, "no memory of this device", yoke_copy_to_device(stream, host, a, 4));
    assert_fails(YOKE_EINVAL, "no memory of this device", yoke_fill(stream, host, 0, 4));
    assert_fails(YOKE_EINVAL, "no memory of this device",
                 yoke_scale(stream,
                            &YOKE_ARGS(scale, .dtype = YOKE_F32, .n = 4, .alpha = 2, .x = host, .y = a)));
    assert_fails(YOKE_ENOMEM, "at once", yoke_alloc(device, (size_t)1 << 50, &too_much));
    assert_fails(YOKE_ENODEV, "index", yoke_device_open("opencl:9", NULL, (yoke_device **)&too_much));
    setenv("YOKE_OPENCL_ADDRESS", "both", 1);
    assert_fails(YOKE_ECONFIG, "svm or buffer",
                 yoke_device_open("opencl:0", NULL, (yoke_device **)&too_much));
    unsetenv("YOKE_OPENCL_ADDRESS");
    uint64_t left, total, used;
    assert_ok(yoke_device_memory(device, &left, &total));
    assert_ok(yoke_device_allocated(device, &used, NULL));
    assert_true(left <= total - used && total == yoke_device_info(device)->memory_bytes);
    assert_ok(yoke_free(device, a));
    assert_ok(yoke_free(device, b));
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
}

/*
 * These must be refused: more bytes than the buffer has, a buffer or queue of another context, a queue that
 * is out of order, and a missing device.
 */
static void wrong_wrappings(const char *mode, yoke_device *device, const struct yoke_native *native,
                            cl_mem buffer)
{
    const struct opencl_library *cl = opencl_device(device)->cl;
    cl_int error;
    void *address;
    assert_fails(YOKE_EINVAL, "has 400 bytes", yoke_buffer_wrap(device, buffer, 401, &address));
    yoke_device *other = gpu_open(mode, NULL);
    yoke_stream *wrong;
    assert_fails(YOKE_EINVAL, "another context", yoke_buffer_wrap(other, buffer, 400, &address));
    assert_fails(YOKE_EINVAL, "another context", yoke_stream_wrap(other, native, &wrong));
    assert_ok(yoke_device_close(other));
    struct yoke_native unordered = *native;
    unordered.queue = cl->clCreateCommandQueue(native->context, native->device,
                                               CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
    if (!error) {
        assert_fails(YOKE_EUNSUPPORTED, "in order", yoke_stream_wrap(device, &unordered, &wrong));
        cl->clReleaseCommandQueue(unordered.queue);
    }
    unordered.device = NULL;
    assert_fails(YOKE_EINVAL, "native.device", yoke_device_wrap("opencl", &unordered, NULL, &other));
}

/*
 * A foreign context, queue and buffer; the buffer used from its middle, beside memory of the device's own
 * mode.
 */
static void wrapping(void **state)
{
    (void)state;
    for (size_t m = 0; m < YOKE_COUNT(gpu_modes); m++) {
        GPU_OPEN(plain, gpu_modes[m], NULL);
        const struct opencl_library *cl = opencl_device(plain)->cl;
        struct yoke_native native = { .size = sizeof native,
                                      .context = opencl_device(plain)->context,
                                      .device = opencl_device(plain)->id };
        cl_int error;
        native.queue = cl->clCreateCommandQueue(native.context, native.device, 0, &error);
        assert_int_equal(error, CL_SUCCESS);
        cl_mem buffer = cl->clCreateBuffer(native.context, CL_MEM_READ_WRITE, 400, NULL, &error);
        assert_int_equal(error, CL_SUCCESS);
        float host[100], back[100];
        for (int i = 0; i < 100; i++) host[i] = (float)i;
        assert_int_equal(cl->clEnqueueWriteBuffer(native.queue, buffer, CL_TRUE, 0, 400, host, 0, NULL, NULL),
                         CL_SUCCESS);

        setenv("YOKE_OPENCL_ADDRESS", gpu_modes[m], 1);
        yoke_device *device;
        yoke_stream *stream;
        float *foreign, *own;
        assert_ok(yoke_device_wrap("opencl", &native, NULL, &device));
        assert_ok(yoke_stream_wrap(device, &native, &stream));
        assert_ok(yoke_buffer_wrap(device, buffer, 400, (void **)&foreign));
        assert_ok(yoke_alloc(device, 400, (void **)&own));
        assert_null(yoke_host_ptr(device, foreign));
        assert_ok(yoke_scale(stream, &YOKE_ARGS(scale, .dtype = YOKE_F32, .n = 50, .alpha = 2,
                                                .x = foreign + 30, .y = own + 10)));
        assert_ok(yoke_add(stream, &YOKE_ARGS(add, .dtype = YOKE_F32, .n = 50, .x = foreign + 30,
                                              .y = own + 10, .z = foreign + 30)));
        assert_ok(yoke_copy(stream, own, foreign, 4));
        assert_ok(yoke_copy(stream, foreign + 1, own, 4));
        assert_ok(yoke_copy(stream, foreign + 2, foreign + 40, 4));
        assert_ok(yoke_copy_to_host(stream, back, foreign, 400));
        assert_ok(yoke_stream_sync(stream));
        for (int i = 3; i < 100; i++) assert_true(back[i] == (i >= 30 && i < 80 ? 3 * host[i] : host[i]));
        assert_true(back[0] == 0 && back[1] == 0 && back[2] == 120);

        wrong_wrappings(gpu_modes[m], device, &native, buffer);
        assert_ok(yoke_free(device, foreign));
        assert_ok(yoke_free(device, own));
        assert_ok(yoke_stream_destroy(stream));
        assert_ok(yoke_device_close(device));
        unsetenv("YOKE_OPENCL_ADDRESS");
        /* The foreign objects are as they were. */
        assert_int_equal(cl->clEnqueueReadBuffer(native.queue, buffer, CL_TRUE, 0, 4, back, 0, NULL, NULL),
                         CL_SUCCESS);
        cl->clReleaseMemObject(buffer);
        cl->clReleaseCommandQueue(native.queue);
        assert_ok(yoke_device_close(plain));
    }
}

/* The table alone, against a plain list: 20,000 random entries and removals. */
static void table(void **state)
{
    (void)state;
    enum { MOST = 300, STEPS = 20000 };
    struct opencl_addresses addresses;
    struct {
        char *start;
        size_t bytes;
        cl_mem buffer;
    } live[MOST];
    int n = 0;
    uint32_t random = 12345;
    print_message("seed %u\n", random);
    yokei_opencl_addresses_create(&addresses);
    for (uintptr_t step = 1; step <= STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        if (n < MOST && (n == 0 || random >> 31)) {
            live[n].bytes = 1 + (random >> 8) % 100000;
            live[n].buffer = (cl_mem)step;
            void *address;
            assert_ok(yokei_opencl_addresses_add(
                &addresses, (struct opencl_allocation){ .bytes = live[n].bytes, .buffer = live[n].buffer },
                &address));
            live[n].start = address;
            assert_int_equal((uintptr_t)address % 64, 0);
            assert_true(yokei_opencl_in_range(&addresses, address));
            n++;
        } else {
            int i = (int)((random >> 8) % (uint32_t)n);
            struct opencl_allocation out;
            assert_false(yokei_opencl_addresses_remove(&addresses, live[i].start + 1, &out));
            assert_true(yokei_opencl_addresses_remove(&addresses, live[i].start, &out));
            assert_ptr_equal(out.buffer, live[i].buffer);
            size_t offset;
            assert_false(yokei_opencl_addresses_find(&addresses, live[i].start, &out, &offset));
            live[i] = live[--n];
        }
        if (step % 97) continue;
        for (int i = 0; i < n; i++) {
            struct opencl_allocation out;
            size_t offset, probe = (random >> 4) % (live[i].bytes + 1);
            assert_true(yokei_opencl_addresses_find(&addresses, live[i].start + probe, &out, &offset));
            assert_true(out.buffer == live[i].buffer && offset == probe);
            assert_false(
                yokei_opencl_addresses_find(&addresses, live[i].start + live[i].bytes + 1, &out, &offset));
        }
    }
    assert_int_equal(addresses.n, n);
    yokei_opencl_addresses_destroy(&addresses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(outside),
        cmocka_unit_test(wrapping),
        cmocka_unit_test(table),
    };
    return cmocka_run_group_tests_name("gpu_memory", tests, NULL, NULL);
}

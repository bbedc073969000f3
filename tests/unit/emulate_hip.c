/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in libamdhip64: its calls and their errors, settings, devices, memory, modules and launches. */
#include "tests/unit/emulate_hip.h"

#include <dlfcn.h>

#include "emulate/gpu/driver.h"

/* ---- devices ---- */

static int attribute(int number)
{
    int value = -1;
    OK(hipDeviceGetAttribute(&value, (hipDeviceAttribute_t)number, 0));
    return value;
}

static const char *processor; /* that the case has */
static int lanes, units, major;

static void devices(void)
{
    int n, version;
    size_t bytes;
    char text[100], properties[4096];
    OK(hipInit(0));
    GIVES(hipErrorInvalidValue, hipInit(1));
    OK(hipGetDeviceCount(&n));
    CHECK(n == 2);
    OK(hipRuntimeGetVersion(&version));
    CHECK(version / 10000000 == major);
    OK(hipDeviceGetName(text, sizeof text, 1));
    CHECK(strstr(text, processor));
    GIVES(hipErrorInvalidDevice, hipDeviceGetName(text, sizeof text, 2));
    OK(hipDeviceTotalMem(&bytes, 0));
    CHECK(bytes == 512u << 20);
    CHECK(attribute(hipDeviceAttributeWarpSize) == lanes);
    CHECK(attribute(hipDeviceAttributeMultiprocessorCount) == units);
    CHECK(attribute(hipDeviceAttributeMaxSharedMemoryPerBlock) == 65536);
    CHECK(attribute(hipDeviceAttributeMaxThreadsPerBlock) == 1024);
    GIVES(hipErrorInvalidValue, hipDeviceGetAttribute(&n, (hipDeviceAttribute_t)5000, 0));
    OK(hipDeviceGetPCIBusId(text, sizeof text, 0));
    OK(hipDeviceGetPCIBusId(text + 50, 50, 1));
    CHECK(strcmp(text, text + 50) != 0);
    /* the two layouts of the struct of properties */
    memset(properties, 'x', sizeof properties);
    OK(hipGetDeviceProperties((hipDeviceProp_t *)properties, 0));
    CHECK(!strncmp(properties + 396, processor, strlen(processor)) && properties[791] != 'x');
    CHECK(properties[792] == 'x' && strncmp(properties + 1160, "gfx", 3) != 0);
    memset(properties, 'x', sizeof properties);
    if (major < 6) {
        GIVES(hipErrorNotSupported, hipGetDevicePropertiesR0600(properties, 0));
    } else {
        OK(hipGetDevicePropertiesR0600(properties, 0));
        CHECK(!strncmp(properties + 1160, processor, strlen(processor)) && properties[1472] == 'x');
        CHECK(strncmp(properties + 396, "gfx", 3) != 0);
    }
}

static void no_devices(void)
{
    int n = 7;
    close(STDERR_FILENO); /* the driver may say why */
    GIVES(hipErrorNoDevice, hipGetDeviceCount(&n));
    CHECK(n == 0);
    GIVES(hipErrorNoDevice, hipInit(0));
    GIVES(hipErrorNoDevice, hipPeekAtLastError());
}

static void no_variable(void)
{
    unsetenv("YOKE_EMULATE");
    no_devices();
}

static void one_device(void)
{
    int n;
    char id[20];
    OK(hipGetDeviceCount(&n));
    CHECK(n == 1);
    OK(hipDeviceGetPCIBusId(id, sizeof id, 0));
    CHECK(!strcmp(id, "0000:43:00.0")); /* the third one */
}

static void test_devices(void **state)
{
    (void)state;
#define TWO " YOKE_EMULATE_DEVICES=2 YOKE_EMULATE_MEMORY=512M"
    processor = "gfx942", lanes = 64, units = 304, major = 6;
    run_case("" TWO, devices);
    processor = "gfx90a", units = 104, major = 5;
    run_case("YOKE_EMULATE=cuda:9.0,hip:gfx90a YOKE_EMULATE_HIP=5.2" TWO, devices);
    processor = "gfx1100", lanes = 32, units = 9, major = 7;
    run_case("YOKE_EMULATE=hip:gfx1100 YOKE_EMULATE_HIP=7.0 YOKE_EMULATE_SMS=9" TWO, devices);
    run_case("", no_variable);
    run_case("YOKE_EMULATE=cuda:9.0", no_devices);
    run_case("HIP_VISIBLE_DEVICES=", no_devices);
    run_case("ROCR_VISIBLE_DEVICES=-1", no_devices);
    run_case("YOKE_EMULATE_FAIL=no-kfd@1", no_devices);
    run_case("YOKE_EMULATE_FAIL=no-permission@1", no_devices);
    run_case("YOKE_EMULATE_DEVICES=4 ROCR_VISIBLE_DEVICES=1,2 HIP_VISIBLE_DEVICES=1", one_device);
}

static void refused(void)
{
    int n;
    close(STDERR_FILENO);
    GIVES(hipErrorInvalidValue, hipGetDeviceCount(&n));
}

static void test_settings(void **state)
{
    (void)state;
    static const char *const wrong[] = { "YOKE_EMULATE=hip",          "YOKE_EMULATE=hip:gfx9",
                                         "YOKE_EMULATE=hip:gfx942x",  "YOKE_EMULATE=hip:gfx942,hip:gfx90a",
                                         "YOKE_EMULATE=hip:gfx942,",  "GPU_MAX_HW_QUEUES=0",
                                         "YOKE_EMULATE_HIP=six",      "YOKE_EMULATE_FAIL=device-busy@1",
                                         "YOKE_EMULATE_MEMORY=little" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) run_case(wrong[i], refused);
}

/* ---- errors ---- */

static void last_errors(void)
{
    int n;
    GIVES(hipErrorInvalidDevice, hipSetDevice(5));
    GIVES(hipErrorInvalidDevice, hipPeekAtLastError());
    OK(hipGetDevice(&n));
    CHECK(n == 0);
    /* until version 6 a call that succeeds forgets the error */
    GIVES(major < 6 ? hipSuccess : hipErrorInvalidDevice, hipGetLastError());
    OK(hipGetLastError());
    CHECK(!strcmp(hipGetErrorName(hipErrorNoBinaryForGpu), "hipErrorNoBinaryForGpu"));
    CHECK(!strcmp(hipGetErrorString(hipErrorOutOfMemory), "out of memory"));
    CHECK(!strcmp(hipGetErrorName((hipError_t)12345), "hipErrorUnknown"));
}

static void lost(void)
{
    void *words, *more;
    hipFunction_t function = kernel("add_one");
    OK(hipMalloc(&words, 256));
    OK(add_one(function, words, 65, NULL)); /* a word behind the end, and all of them undefined */
    GIVES(hipErrorLaunchFailure, hipDeviceSynchronize());
    CHECK(strstr(yoke_emulate_last_fault(), "hip:0: hipErrorLaunchFailure"));
    CHECK(strstr(yoke_emulate_last_fault(), "never written"));
    GIVES(hipErrorLaunchFailure, hipMalloc(&more, 256)); /* it stays */
    GIVES(hipErrorLaunchFailure, hipStreamQuery(NULL));
}

static void injected(void)
{
    void *words;
    GIVES(hipErrorOutOfMemory, hipMalloc(&words, 256));
    OK(hipMalloc(&words, 256));
    OK(hipMemsetAsync(words, 0, 256, NULL));
    OK(add_one(kernel("add_one"), words, 64, NULL));
    GIVES(hipErrorIllegalAddress, hipStreamSynchronize(NULL));
}

static void test_errors(void **state)
{
    (void)state;
    major = 6;
    run_case("", last_errors);
    major = 5;
    run_case("YOKE_EMULATE_HIP=5.7", last_errors);
    run_case("", lost);
    run_case("YOKE_EMULATE_FAIL=out-of-memory@1,illegal-address@1", injected);
}

/* ---- memory ---- */

static void memory(void)
{
    void *device, *pinned, *base, *at;
    char pageable[64], other[64];
    size_t bytes, free_before, free_after, total;
    hipPointerAttribute_t what;
    hipDeviceptr_t start;
    OK(hipMemGetInfo(&free_before, &total));
    OK(hipMalloc(&device, 3 << 20));
    OK(hipMemGetInfo(&free_after, &total));
    CHECK(free_before - free_after == 4 << 20 && total == 4ull << 30);
    OK(hipMalloc(&base, 0));
    CHECK(!base);
    GIVES(hipErrorOutOfMemory, hipMalloc(&base, 5ull << 30));
    GIVES(hipErrorInvalidValue, hipMalloc(NULL, 5));
    OK(hipHostMalloc(&pinned, 4096, hipHostMallocPortable | hipHostMallocMapped));
    GIVES(hipErrorInvalidValue, hipHostMalloc(&at, 4096, hipHostMallocCoherent | hipHostMallocNonCoherent));
    OK(hipMemGetAddressRange(&start, &bytes, (char *)device + 100));
    CHECK(start == device && bytes == 3 << 20);
    GIVES(hipErrorNotFound, hipMemGetAddressRange(&start, &bytes, pageable));
    OK(hipHostGetDevicePointer(&at, (char *)pinned + 8, 0));
    OK(hipPointerGetAttributes(&what, device));
    CHECK(what.type == (major < 6 ? 1 : 2) && what.device == 0 && what.devicePointer == device);
    OK(hipPointerGetAttributes(&what, pinned));
    CHECK(what.type == (major < 6 ? 0 : 1) && what.hostPointer == pinned);
    GIVES(major < 6 ? hipErrorInvalidValue : hipSuccess, hipPointerGetAttributes(&what, pageable));
    memset(pageable, 5, sizeof pageable);
    OK(hipMemcpyHtoDAsync(device, pageable, 64, NULL));
    OK(hipMemcpyDtoDAsync((char *)device + 64, device, 64, NULL));
    OK(hipMemsetD8Async((char *)device + 128, 6, 64, NULL));
    OK(hipMemsetD32Async((char *)device + 192, 0x07070707, 16, NULL));
    OK(hipMemcpyAsync(pinned, (char *)device + 64, 192, hipMemcpyDeviceToHost, NULL));
    OK(hipStreamSynchronize(NULL));
    CHECK(((char *)pinned)[63] == 5 && ((char *)pinned)[64] == 6 && ((char *)pinned)[191] == 7);
    OK(hipMemcpy(other, (char *)device + 128, 64, hipMemcpyDefault));
    CHECK(other[0] == 6);
    GIVES(hipErrorInvalidValue, hipMemcpy(other, pageable, 64, hipMemcpyDeviceToHost));
    GIVES(hipErrorInvalidValue, hipMemcpy(other, pageable, 64, (hipMemcpyKind)5));
    GIVES(hipErrorInvalidValue, hipFree((char *)device + 256));
    OK(hipFree(device));
    OK(hipFree(NULL));
    OK(hipHostFree(pinned));
    GIVES(hipErrorInvalidValue, hipHostFree(pinned));
    OK(hipHostRegister(pageable, 64, 0));
    GIVES(hipErrorHostMemoryAlreadyRegistered, hipHostRegister(pageable, 64, 0));
    OK(hipHostUnregister(pageable));
    GIVES(hipErrorHostMemoryNotRegistered, hipHostUnregister(pageable));
}

static void two_devices(void)
{
    void *first, *second;
    hipStream_t stream;
    hipPointerAttribute_t what;
    int device;
    OK(hipMalloc(&first, 256));
    OK(hipSetDevice(1));
    OK(hipMalloc(&second, 256));
    OK(hipStreamCreate(&stream));
    OK(hipPointerGetAttributes(&what, second));
    CHECK(what.device == 1);
    OK(hipSetDevice(0));
    OK(hipStreamGetDevice(stream, &device));
    CHECK(device == 1);
    OK(hipMemsetAsync(second, 1, 256, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipDeviceReset());
    GIVES(hipErrorInvalidValue, hipFree(first)); /* the reset has freed it */
}

static void test_memory(void **state)
{
    (void)state;
    major = 6;
    run_case("", memory);
    major = 5;
    run_case("YOKE_EMULATE_HIP=5.2", memory);
    run_case("YOKE_EMULATE_DEVICES=2", two_devices);
}

/* ---- modules ---- */

/* A kernel for which no GPU has room is refused when its program is loaded. */
static void refuses(uint32_t shared, uint32_t local, const char *words)
{
    const struct kernel_info info = { .name = "big",
                                      .shared_bytes = shared,
                                      .local_bytes = local,
                                      .most_local_bytes = 131056,
                                      .target = 0x942,
                                      .source = "big.yk",
                                      .source_line = 7 };
    char text[400] = "";
    CHECK(emulate_vendor.check_kernel(&info, text, sizeof text) == EMULATE_INVALID_IMAGE);
    CHECK(strstr(text, words));
}

static void modules(void)
{
    void *words, *copy;
    hipModule_t module;
    hipFunction_t add, copies, large;
    int value, n = 64;
    uint32_t result[64];
    struct kernel_counts counts;
    OK(hipMalloc(&words, 256));
    OK(hipMalloc(&copy, 256));
    OK(hipMemsetD32Async(words, 41, 64, NULL));
    GIVES(hipErrorInvalidImage, hipModuleLoadData(&module, "no program"));
    GIVES(hipErrorInvalidImage, hipModuleLoadData(&module, "toy gfx942 sub_one"));
    GIVES(hipErrorNoBinaryForGpu, hipModuleLoadData(&module, "toy gfx90a add_one"));
    refuses(65540, 0, "the kernel big (big.yk:7) uses 65540 bytes of LDS, and a block has at most 65536");
    refuses(64, 131060,
            "the kernel big (big.yk:7) uses 131060 bytes of scratch memory, and a thread has at most");
    OK(hipModuleLoadData(&module, program));
    GIVES(hipErrorNotFound, hipModuleGetFunction(&add, module, "nothing"));
    OK(hipModuleGetFunction(&add, module, "add_one"));
    OK(hipModuleGetFunction(&copies, module, "copy_words"));
    OK(hipModuleGetFunction(&large, module, "large"));
    OK(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, large));
    CHECK(value == 40960);
    GIVES(hipErrorInvalidHandle, hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_NUM_REGS, (hipFunction_t)&n));
    OK(add_one(add, words, n, NULL));
    struct {
        void *to, *from;
        int n;
    } block = { copy, words, n };
    size_t bytes = sizeof block;
    void *extra[] = { HIP_LAUNCH_PARAM_BUFFER_POINTER, &block, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                      HIP_LAUNCH_PARAM_END };
    OK(hipModuleLaunchKernel(copies, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    OK(hipMemcpyDtoH(result, copy, sizeof result));
    CHECK(result[0] == 42 && result[63] == 42);
    bytes = 8; /* shorter than the parameters */
    GIVES(hipErrorInvalidValue, hipModuleLaunchKernel(copies, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    GIVES(hipErrorInvalidValue, hipModuleLaunchKernel(copies, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    GIVES(hipErrorInvalidValue, hipModuleLaunchKernel(large, 1, 1, 1, 2048, 1, 1, 0, NULL, NULL, NULL));
    GIVES(hipErrorInvalidValue, hipModuleLaunchKernel(large, 1u << 26, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    OK(hipModuleLaunchKernel(large, 1, 1, 1, 64, 1, 1, 24576, NULL, NULL, NULL));
    GIVES(hipErrorLaunchOutOfResources,
          hipModuleLaunchKernel(large, 1, 1, 1, 64, 1, 1, 24577, NULL, NULL, NULL));
    OK(hipDeviceSynchronize());
    CHECK(yoke_emulate_counts("add_one", &counts) == 1 && counts.bytes_stored == 256);
    OK(hipModuleUnload(module));
    GIVES(hipErrorInvalidHandle, hipModuleUnload(module));
}

static void test_modules(void **state)
{
    (void)state;
    run_case("", modules);
}

/* ---- leaks, and two vendors ---- */

static void leave_nothing(void)
{
    void *device, *pinned;
    hipModule_t module;
    hipStream_t stream;
    OK(hipMalloc(&device, 100));
    OK(hipHostMalloc(&pinned, 100, hipHostMallocNonCoherent));
    OK(hipModuleLoadData(&module, program));
    OK(hipStreamCreate(&stream));
    OK(hipStreamDestroy(stream));
    OK(hipModuleUnload(module));
    OK(hipHostFree(pinned));
    OK(hipFree(device));
}

static void leave_memory(void)
{
    void *device;
    OK(hipMalloc(&device, 100));
}

static void leave_event(void)
{
    hipEvent_t event;
    OK(hipEventCreate(&event));
}

static void leave_pinned(void)
{
    void *pinned;
    OK(hipHostMalloc(&pinned, 100, 0));
}

static void leave_registered(void)
{
    static char memory[64];
    void *device; /* no context is made before the first allocation */
    OK(hipMalloc(&device, 100));
    OK(hipFree(device));
    OK(hipHostRegister(memory, sizeof memory, 0));
}

static void leave_stream(void)
{
    hipStream_t stream;
    OK(hipStreamCreate(&stream));
}

static void leave_module(void)
{
    hipModule_t module;
    OK(hipModuleLoadData(&module, program));
}

static void destroy_event_twice(void)
{
    hipEvent_t event;
    OK(hipEventCreate(&event));
    OK(hipEventDestroy(event));
    hipEventDestroy(event);
}

static void destroy_stream_twice(void)
{
    hipStream_t stream;
    OK(hipStreamCreate(&stream));
    OK(hipStreamDestroy(stream));
    hipStreamDestroy(stream);
}

static void test_leaks(void **state)
{
    static void (*const cases[])(void) = { leave_memory,        leave_pinned,        leave_registered,
                                           leave_stream,        leave_event,         leave_module,
                                           destroy_event_twice, destroy_stream_twice };
    (void)state;
    run_case("YOKE_EMULATE_LEAKS=1", leave_nothing);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int status = run_status("YOKE_EMULATE_LEAKS=1", cases[i]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 86) fail_msg("case %zu: status 0x%x", i, status);
    }
}

/* The stand-in of the other vendor in the same process has its own lock, memory and faults. */
static void with_cuda(void)
{
    void *library = dlopen("emulate/cuda/.libs/libcuda-emulated.so.1", RTLD_NOW | RTLD_GLOBAL);
    int (*init)(unsigned), n;
    const char *(*fault)(void);
    CHECK(library);
    void *symbol = dlsym(library, "cuInit");
    memcpy(&init, &symbol, sizeof symbol);
    symbol = dlsym(library, "yoke_emulate_last_fault");
    memcpy(&fault, &symbol, sizeof symbol);
    OK(hipGetDeviceCount(&n));
    GIVES(0, init(0));
    lost();
    CHECK(!*fault());
}

static void test_two(void **state)
{
    (void)state;
    run_case("YOKE_EMULATE=cuda:9.0,hip:gfx942 YOKE_EMULATE_FAIL=no-lock@5,cublaslt-create@1,rocblas-gemm@1",
             with_cuda);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices), cmocka_unit_test(test_settings), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_modules),  cmocka_unit_test(test_leaks),
        cmocka_unit_test(test_two),
    };
    return cmocka_run_group_tests_name("emulate_hip", tests, NULL, NULL);
}

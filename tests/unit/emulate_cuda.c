/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in CUDA driver: its calls and their errors, its settings, memory, modules and launches. */
#include "tests/unit/emulate_cuda.h"

#include <signal.h>
#include <sys/mman.h>

static void before_init(void)
{
    int n;
    CUcontext context;
    CUdeviceptr p;
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetCount(&n));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuDevicePrimaryCtxRetain(&context, 0));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemAlloc_v2(&p, 4));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuInit(1));
    OK(cu.cuDriverGetVersion(&n));
    CHECK(n == 13000);
    OK(cu.cuInit(0));
    OK(cu.cuInit(0));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuMemAlloc_v2(&p, 4));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxSynchronize());
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxPopCurrent_v2(&context));
    /* The driver cannot be used in a child process of a process that initialised it. */
    const pid_t child = fork();
    if (!child) _exit(cu.cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && !status);
}

static void names(void)
{
    const char *text;
    OK(cu.cuGetErrorName(700, &text));
    CHECK(!strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    OK(cu.cuGetErrorString(2, &text));
    CHECK(!strcmp(text, "out of memory"));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGetErrorName(12345, &text));
    CHECK(!text);
    void *function;
    int status;
    OK(cu.cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &status));
    CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS && !memcmp(&function, &cu.cuMemAlloc_v2, sizeof function));
    OK(cu.cuGetProcAddress_v2("cuEventElapsedTime", &function, 12000, 0, NULL));
    CHECK(!memcmp(&function, &cu.cuEventElapsedTime, sizeof function));
    OK(cu.cuGetProcAddress_v2("cuEventElapsedTime", &function, 13000, 0, NULL));
    CHECK(!memcmp(&function, &cu.cuEventElapsedTime_v2, sizeof function));
    OK(cu.cuGetProcAddress_v2("cuLaunchHostFunc", &function, 9000, 0, &status));
    CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT && !function);
    OK(cu.cuGetProcAddress_v2("cuNothing", &function, 12000, 0, &status));
    CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND && !function);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGetProcAddress_v2("cuInit", &function, 99000, 0, NULL));
}

static int attribute(int which, CUdevice device)
{
    int value = -1;
    OK(cu.cuDeviceGetAttribute(&value, which, device));
    return value;
}

static void devices(void)
{
    OK(cu.cuInit(0));
    int n, can;
    CUdevice device;
    OK(cu.cuDeviceGetCount(&n));
    CHECK(n == 3);
    GIVES(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGet(&device, 3));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGet(&device, -1));
    OK(cu.cuDeviceGet(&device, 2));
    char name[64], id[2][16];
    CUuuid uuid[2];
    for (int i = 0; i < 2; i++) {
        OK(cu.cuDeviceGetUuid_v2(&uuid[i], i));
        OK(cu.cuDeviceGetPCIBusId(id[i], sizeof id[i], i));
    }
    CHECK(memcmp(&uuid[0], &uuid[1], sizeof *uuid) && strcmp(id[0], id[1]) && !strcmp(id[0], "0000:01:00.0"));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuDeviceGetPCIBusId(id[0], 4, 0));
    OK(cu.cuDeviceGetName(name, sizeof name, device));
    CHECK(strstr(name, "stand-in") && strstr(name, "9.9"));
    size_t bytes;
    OK(cu.cuDeviceTotalMem_v2(&bytes, device));
    CHECK(bytes == 512 << 20);
    CHECK(attribute(75, device) == 9 && attribute(76, device) == 9 && attribute(16, device) == 7);
    CHECK(attribute(10, device) == 32 && attribute(8, device) == 49152
          && attribute(97, device) == 227 * 1024);
    CHECK(attribute(1, device) == 1024 && attribute(6, device) == 65535 && attribute(41, device) == 1);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuDeviceGetAttribute(&n, 0, device));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuDeviceGetAttribute(&n, 100000, device));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGetAttribute(&n, 1, 3));
    OK(cu.cuDeviceCanAccessPeer(&can, 0, 1));
    CHECK(!can);
}

static void visible(void)
{
    OK(cu.cuInit(0));
    int n;
    char id[16];
    OK(cu.cuDeviceGetCount(&n));
    OK(cu.cuDeviceGetPCIBusId(id, sizeof id, 0));
    CHECK(n == 2 && !strcmp(id, "0000:03:00.0"));
}

static void contexts(void)
{
    CUcontext a, b, c;
    CUdevice device;
    unsigned flags;
    int active;
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK(!active && !flags);
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuDevicePrimaryCtxRelease_v2(0));
    OK(cu.cuDevicePrimaryCtxSetFlags_v2(0, 4));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuDevicePrimaryCtxSetFlags_v2(0, 3));
    OK(cu.cuDevicePrimaryCtxRetain(&a, 0));
    OK(cu.cuDevicePrimaryCtxRetain(&c, 0));
    OK(cu.cuDevicePrimaryCtxRetain(&b, 1));
    OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK(active && flags == 4 && a == c && a != b);
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxPushCurrent_v2((CUcontext)&device));
    OK(cu.cuCtxPushCurrent_v2(a));
    OK(cu.cuCtxPushCurrent_v2(b));
    OK(cu.cuCtxGetDevice(&device));
    CHECK(device == 1);
    OK(cu.cuCtxPopCurrent_v2(&c));
    CHECK(c == b);
    OK(cu.cuCtxGetCurrent(&c));
    CHECK(c == a);
    OK(cu.cuCtxSetCurrent(b));
    OK(cu.cuCtxGetDevice(&device));
    CHECK(device == 1);
    OK(cu.cuCtxSetCurrent(NULL));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxGetDevice(&device));
    OK(cu.cuCtxSetCurrent(a));
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    OK(cu.cuCtxSynchronize());
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuCtxSynchronize());
    OK(cu.cuDevicePrimaryCtxReset_v2(1));
    OK(cu.cuDevicePrimaryCtxGetState(1, &flags, &active));
    CHECK(!active);
}

static void memory(void)
{
    start(0);
    size_t free_before, free_after, total, bytes;
    CUdeviceptr p, q, base;
    OK(cu.cuMemGetInfo_v2(&free_before, &total));
    CHECK(total == 1 << 30 && total - free_before >= 200 << 20 && total - free_before <= 400 << 20);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemAlloc_v2(&p, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemAlloc_v2(NULL, 4));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&p, 1 << 30));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&p, free_before + 1));
    OK(cu.cuMemAlloc_v2(&p, (3 << 20) + 1));
    OK(cu.cuMemAlloc_v2(&q, 10));
    CHECK(p % 256 == 0 && q % 256 == 0);
    OK(cu.cuMemGetInfo_v2(&free_after, &total));
    CHECK(free_before - free_after == 6 << 20); /* two pages of 2 MiB, and one for the small allocation */
    OK(cu.cuMemGetAddressRange_v2(&base, &bytes, p + 77));
    CHECK(base == p && bytes == (3 << 20) + 1);
    GIVES(CUDA_ERROR_NOT_FOUND, cu.cuMemGetAddressRange_v2(&base, &bytes, q + 10));
    unsigned type;
    OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, q + 9));
    CHECK(type == CU_MEMORYTYPE_DEVICE);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuPointerGetAttribute(&type, 2, (CUdeviceptr)(uintptr_t)&type));
    CUpointer_attribute asked[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE };
    size_t range = 7;
    void *values[] = { &type, &range };
    OK(cu.cuPointerGetAttributes(2, asked, values, q + 9));
    CHECK(type == CU_MEMORYTYPE_DEVICE && range == 10);
    OK(cu.cuPointerGetAttributes(2, asked, values, (CUdeviceptr)(uintptr_t)&type)); /* knows nothing of it */
    CHECK(!type && !range);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuPointerGetAttributes(0, asked, values, q));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(p + 1));
    OK(cu.cuMemFree_v2(0));
    OK(cu.cuMemFree_v2(p));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(p));
    OK(cu.cuMemFree_v2(q));
    OK(cu.cuMemGetInfo_v2(&free_after, &total));
    CHECK(free_before == free_after);
}

/* All of the memory many times over: the addresses do not run out, and new memory is undefined. */
static void memory_again(void)
{
    start(0);
    size_t bytes, total;
    CUdeviceptr p;
    unsigned char last;
    OK(cu.cuMemGetInfo_v2(&bytes, &total));
    for (int i = 0; i < 20; i++) {
        OK(cu.cuMemAlloc_v2(&p, bytes));
        OK(cu.cuMemcpyDtoH_v2(&last, p + bytes - 1, 1));
        CHECK(last == 0xff);
        OK(cu.cuMemsetD8Async(p, 1, bytes, NULL));
        OK(cu.cuCtxSynchronize());
        OK(cu.cuMemFree_v2(p));
    }
}

static void copies(void)
{
    start(0);
    unsigned char host[64], back[64];
    CUdeviceptr p, q;
    OK(cu.cuMemAlloc_v2(&p, 64));
    OK(cu.cuMemAlloc_v2(&q, 64));
    for (int i = 0; i < 64; i++) host[i] = (unsigned char)i;
    OK(cu.cuMemcpyHtoD_v2(p, host, 32));
    OK(cu.cuMemcpyDtoDAsync_v2(q, p, 48, NULL));
    OK(cu.cuMemcpyDtoH_v2(back, q, 64));
    CHECK(!memcmp(back, host, 32));
    /* Bytes that were never written arrive as 0xff, also after a copy of them. */
    for (int i = 32; i < 64; i++) CHECK(back[i] == 0xff);
    OK(cu.cuMemsetD32Async(q, 0x01020304, 16, NULL));
    OK(cu.cuMemsetD8Async(q + 60, 9, 4, NULL));
    OK(cu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)back, q, 64,
                        NULL)); /* waits, because the memory is pageable */
    CHECK(back[0] == 4 && back[59] == 1 && back[60] == 9);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32Async(q + 2, 0, 1, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8Async(q, 0, 65, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(q + 1, host, 64));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)back, host, 64));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoH_v2((void *)(uintptr_t)q, p, 64));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoDAsync_v2(q, 0, 4, NULL));
    OK(cu.cuMemcpyDtoDAsync_v2(q, p, 0, NULL));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuMemcpyDtoDAsync_v2(q, p, 4, (CUstream)&p));
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cu.cuMemcpyDtoDAsync_v2(q, p, 4, CU_STREAM_PER_THREAD));
    OK(cu.cuMemcpyDtoDAsync_v2(q, p, 4, CU_STREAM_LEGACY));
}

static void pinned(void)
{
    start(0);
    uint32_t *host, *shared;
    CUdeviceptr p;
    OK(cu.cuMemHostAlloc((void **)&host, 4096 * 3, CU_MEMHOSTALLOC_DEVICEMAP));
    host[0] = 41;
    OK(cu.cuMemHostGetDevicePointer_v2(&p, host, 0));
    CUfunction function = kernel("add_one");
    OK(add_one(function, p, 1, NULL));
    OK(cu.cuCtxSynchronize());
    CHECK(host[0] == 42);
    unsigned type;
    OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cu.cuMemFreeHost(host));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeHost(host));
    /* Pages of shared memory can be seen by kernels; other memory can be registered for copies. */
    shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu.cuMemHostUnregister(shared));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostGetDevicePointer_v2(&p, shared, 0));
    OK(cu.cuMemHostRegister_v2(shared, 8192, 0));
    GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cu.cuMemHostRegister_v2(shared + 1, 4, 0));
    shared[5] = 10;
    OK(cu.cuMemHostGetDevicePointer_v2(&p, shared + 5, 0));
    OK(add_one(function, p, 1, NULL));
    OK(cu.cuCtxSynchronize());
    CHECK(shared[5] == 11);
    OK(cu.cuMemHostUnregister(shared));
    uint32_t own[4] = { 1, 2, 3, 4 };
    OK(cu.cuMemHostRegister_v2(own, sizeof own, 0));
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cu.cuMemHostGetDevicePointer_v2(&p, own, 0));
    OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)(own + 2)));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cu.cuMemHostUnregister(own));
    OK(add_one(function, (CUdeviceptr)(uintptr_t)host, 1, NULL));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
}

static void modules(void)
{
    start(0);
    CUmodule module;
    CUfunction function, again;
    char log[256] = "x", wrong[sizeof program + 16];
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)sizeof log };
    snprintf(wrong, sizeof wrong, "%s", program);
    memcpy(strstr(wrong, "mad.lo.s32"), "bogus.u.32", 10);
    GIVES(CUDA_ERROR_INVALID_PTX, cu.cuModuleLoadDataEx(&module, wrong, 2, options, values));
    CHECK(strstr(log, "bogus") && (size_t)values[1] == strlen(log));
    GIVES(CUDA_ERROR_NO_BINARY_FOR_GPU, cu.cuModuleLoadData(&module, "\177ELF\2\1\1"));
    GIVES(CUDA_ERROR_INVALID_IMAGE, cu.cuModuleLoadData(&module, ""));
    snprintf(wrong, sizeof wrong, "%s", program);
    memcpy(strstr(wrong, "sm_75"), "sm_99", 5);
    GIVES(CUDA_ERROR_INVALID_PTX, cu.cuModuleLoadData(&module, wrong));
    memcpy(strstr(wrong, "8.0"), "8.9", 3);
    GIVES(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, cu.cuModuleLoadData(&module, wrong));
    options[0] = 100000;
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuModuleLoadDataEx(&module, program, 1, options, values));
    OK(cu.cuModuleLoadData(&module, program));
    GIVES(CUDA_ERROR_NOT_FOUND, cu.cuModuleGetFunction(&function, module, "nothing"));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuModuleGetFunction(&function, (CUmodule)log, "add_one"));
    OK(cu.cuModuleGetFunction(&function, module, "add_one"));
    OK(cu.cuModuleGetFunction(&again, module, "add_one"));
    CHECK(function == again);
    int value, blocks;
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    CHECK(value == 1024);
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
    CHECK(value == 48 * 1024);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 0));
    CHECK(blocks == 8);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 32, 40000));
    CHECK(blocks == 5);
    const int most = 227 * 1024;
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuFuncSetAttribute(function, 8, most + 1));
    OK(cu.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
    OK(cu.cuModuleUnload(module));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuModuleUnload(module));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuFuncGetAttribute(&value, 0, function));
}

static void launches(void)
{
    start(0);
    CUfunction function = kernel("add_one");
    CUdeviceptr p;
    uint32_t words[100], back[100];
    int n = 100;
    OK(cu.cuMemAlloc_v2(&p, sizeof words));
    for (int i = 0; i < n; i++) words[i] = (uint32_t)i * 3;
    OK(cu.cuMemcpyHtoD_v2(p, words, sizeof words));
    OK(add_one(function, p, n, NULL));
    struct {
        CUdeviceptr p;
        int n;
    } block = { p, n };
    size_t bytes = 12;
    void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                      CU_LAUNCH_PARAM_END };
    OK(cu.cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    OK(cu.cuMemcpyDtoH_v2(back, p, sizeof back));
    for (int i = 0; i < n; i++) CHECK(back[i] == words[i] + 2);
    void *parameters[] = { &p, &n };
#define LAUNCH(gx, gy, gz, bx, by, bz, shared) \
    cu.cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, NULL, parameters, NULL)
    GIVES(CUDA_ERROR_INVALID_VALUE, LAUNCH(0, 1, 1, 64, 1, 1, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 65536, 1, 64, 1, 1, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 1025, 1, 1, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 64, 32, 1, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 1, 1, 65, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 64, 1, 1, 49153));
    OK(cu.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 50000));
    OK(LAUNCH(1, 1, 1, 64, 1, 1, 49153));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, extra));
    GIVES(CUDA_ERROR_INVALID_HANDLE,
          cu.cuLaunchKernel((CUfunction)words, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cu.cuCtxSynchronize());
    struct kernel_counts counts;
    CHECK(cu.counts("add_one", &counts) == 3 && counts.instructions > 0);
    CHECK(counts.bytes_stored == 4 * (100 + 100 + 64));
    CHECK(cu.counts("nothing", &counts) == 0 && counts.instructions == 0 && cu.counts(NULL, NULL) == 3);
}

static void refused(void) { GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuInit(0)); }

static void no_variable(void)
{
    unsetenv("YOKE_EMULATE");
    close(STDERR_FILENO); /* the driver says why */
    GIVES(CUDA_ERROR_NO_DEVICE, cu.cuInit(0));
}

/* The test's own process has a file for what the driver prints. */
static char log_path[256];

/* Make an empty file for this test alone. */
static void make_file(char path[256], const char *name)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, 256, "%s/%s.XXXXXX", tmp && *tmp ? tmp : "/tmp", name);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

static void leave_things(void)
{
    start(0);
    CUdeviceptr p, q;
    CUstream stream;
    CUevent event;
    void *pinned;
    OK(cu.cuMemAlloc_v2(&p, 1234));
    OK(cu.cuMemAlloc_v2(&q, 4321));
    OK(cu.cuMemHostAlloc(&pinned, 777, 0));
    OK(cu.name(p, 1234, "weights"));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemsetD8Async(p, 0, 1, stream));
    OK(cu.cuEventCreate(&event, 0));
    OK(cu.cuEventRecord(event, stream));
    kernel("add_one");
    OK(cu.cuMemFree_v2(q));
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    /* The device is as new. */
    start(0);
    OK(cu.cuMemAlloc_v2(&p, 4));
    OK(cu.cuMemFree_v2(p));
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
}

/* ---- two processes on one device ---- */

enum { MIB = 1 << 20 };

/* The other process: allocate, wait for a byte, free, wait, allocate again, and wait to be killed. */
static void other_process(int from, int to)
{
    char byte = 0;
    CUdeviceptr p;
    start(0);
    OK(cu.cuMemAlloc_v2(&p, 70u * MIB));
    CHECK(write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1);
    OK(cu.cuMemFree_v2(p));
    CHECK(write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1);
    OK(cu.cuMemAlloc_v2(&p, 70u * MIB));
    CHECK(write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1);
    _exit(1);
}

static size_t free_mib(void)
{
    size_t bytes, total;
    OK(cu.cuMemGetInfo_v2(&bytes, &total));
    CHECK(total == 200ull * MIB);
    return bytes / MIB;
}

static void two_processes(void)
{
    int there[2], back[2], status;
    char byte = 0;
    CUdeviceptr p, q;
    CHECK(!pipe(there) && !pipe(back));
    fflush(stdout);
    const pid_t other = fork();
    CHECK(other >= 0);
    if (!other) {
        close(there[1]), close(back[0]); /* so that the process ends with the other one */
        other_process(there[0], back[1]);
    }
    close(there[0]), close(back[1]);
    CHECK(read(back[0], &byte, 1) == 1);
    start(0);
    CHECK(free_mib() == 200 - 2 * 50 - 70); /* a quarter of the memory is for each context */
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&p, 40u * MIB));
    OK(cu.cuMemAlloc_v2(&p, 20u * MIB));
    CHECK(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1);
    OK(cu.cuMemAlloc_v2(&q, 40u * MIB));
    OK(cu.cuMemFree_v2(q));
    CHECK(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1);
    CHECK(free_mib() == 10);
    kill(other, SIGKILL);
    CHECK(waitpid(other, &status, 0) == other && WIFSIGNALED(status));
    CHECK(free_mib() == 200 - 50 - 20);
    OK(cu.cuMemAlloc_v2(&q, 120u * MIB));
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
}

static void no_file(void)
{
    for (int i = 0; i < 2; i++) GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuInit(0));
}

/* ---- the tests ---- */

static void test_calls(void **state)
{
    (void)state;
    run_case("", before_init);
    run_case("", names);
    run_case("YOKE_EMULATE=cuda:9.9 YOKE_EMULATE_DEVICES=3 YOKE_EMULATE_MEMORY=512M YOKE_EMULATE_SMS=7",
             devices);
    run_case("YOKE_EMULATE_DEVICES=4 CUDA_VISIBLE_DEVICES=2,0,9,1", visible);
    run_case("YOKE_EMULATE_DEVICES=2", contexts);
}

static void test_memory(void **state)
{
    (void)state;
    run_case("YOKE_EMULATE_MEMORY=1G", memory);
    run_case("YOKE_EMULATE_MEMORY=8M", memory_again);
    run_case("", copies);
    run_case("", pinned);
}

static void test_share(void **state)
{
    (void)state;
    char path[256], variables[400];
    make_file(path, "yoke-emulate-share");
    snprintf(variables, sizeof variables, "YOKE_EMULATE_MEMORY=200M YOKE_EMULATE_SHARE=%s", path);
    run_case(variables, two_processes);
    run_case(variables, two_processes); /* the file is used again */
    unlink(path);
    run_case("YOKE_EMULATE_SHARE=/nowhere/share", no_file);
    run_case("YOKE_EMULATE_SHARE=/dev/null", no_file);
}

static void test_code(void **state)
{
    (void)state;
    run_case("YOKE_EMULATE_PTX=8.7", modules);
    run_case("", launches);
}

static void test_settings(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "YOKE_EMULATE=cuda",       "YOKE_EMULATE=cuda:9",       "YOKE_EMULATE=cuda:9.0x",
        "YOKE_EMULATE_DEVICES=0",  "YOKE_EMULATE_DEVICES=2x",   "YOKE_EMULATE_MEMORY=4Q",
        "YOKE_EMULATE_MEMORY=-1",  "YOKE_EMULATE_SMS=many",     "YOKE_EMULATE_PTX=9",
        "YOKE_EMULATE_BIAS=wide",  "YOKE_EMULATE_DELAY_US=1e3", "YOKE_EMULATE_FAIL=oom@1",
        "YOKE_EMULATE_FAIL=ecc@0", "YOKE_EMULATE_FAIL=ecc",     "YOKE_EMULATE_FAIL=ecc@1,",
        "YOKE_EMULATE_SEED=0x12",  "YOKE_EMULATE_WAIT=yes"
    };
    char path[256], line[512];
    make_file(path, "yoke-emulate-err");
    const int terminal = dup(STDERR_FILENO);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FILE *file = fopen(path, "w+");
        assert_non_null(file);
        dup2(fileno(file), STDERR_FILENO);
        const int status = run_status(wrong[i], refused);
        dup2(terminal, STDERR_FILENO);
        rewind(file);
        const char *got = fgets(line, sizeof line, file);
        fclose(file);
        assert_int_equal(status, 0);
        /* The line says which variable and which value. */
        if (!got || !strstr(line, wrong[i])) fail_msg("'%s' is not in '%s'", wrong[i], got ? line : "");
    }
    close(terminal);
    unlink(path);
    run_case("", no_variable);
}

static void test_leaks(void **state)
{
    (void)state;
    char variables[300], text[4096] = "";
    make_file(log_path, "yoke-emulate-log");
    snprintf(variables, sizeof variables, "YOKE_EMULATE_LOG=%s", log_path);
    run_case(variables, leave_things);
    FILE *file = fopen(log_path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    unlink(log_path);
    assert_non_null(strstr(text, "not freed: 1234 bytes"));
    assert_non_null(strstr(text, "weights"));
    assert_null(strstr(text, "4321"));
    assert_non_null(strstr(text, "not destroyed: a stream"));
    assert_non_null(strstr(text, "not destroyed: an event"));
    assert_non_null(strstr(text, "not destroyed: a module"));
    int lines = 0;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    assert_non_null(strstr(text, "not freed: 777 bytes of pinned memory"));
    assert_int_equal(lines, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls), cmocka_unit_test(test_memory),   cmocka_unit_test(test_share),
        cmocka_unit_test(test_code),  cmocka_unit_test(test_settings), cmocka_unit_test(test_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints every OpenCL platform and device that the loader finds, with extensions and limits, as JSON. It uses
 * only OpenCL, so it also lists devices that Yoke does not use.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 16, TEXT = 16384 };

static struct {
    cl_int (*platforms)(cl_uint, cl_platform_id *, cl_uint *);
    cl_int (*platform)(cl_platform_id, cl_platform_info, size_t, void *, size_t *);
    cl_int (*devices)(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
    cl_int (*device)(cl_device_id, cl_device_info, size_t, void *, size_t *);
} cl;

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 32)
            printf("\\u%04x", (unsigned)(unsigned char)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

static const struct {
    const char *name;
    cl_uint what;
} platform_texts[] = { { "name", CL_PLATFORM_NAME },
                       { "vendor", CL_PLATFORM_VENDOR },
                       { "version", CL_PLATFORM_VERSION },
                       { "extensions", CL_PLATFORM_EXTENSIONS } },
  device_texts[] = { { "name", CL_DEVICE_NAME },
                     { "vendor", CL_DEVICE_VENDOR },
                     { "version", CL_DEVICE_VERSION },
                     { "driver", CL_DRIVER_VERSION },
                     { "opencl_c", CL_DEVICE_OPENCL_C_VERSION },
                     { "extensions", CL_DEVICE_EXTENSIONS } },
  device_numbers[] = { { "type", CL_DEVICE_TYPE },
                       { "compute_units", CL_DEVICE_MAX_COMPUTE_UNITS },
                       { "clock_mhz", CL_DEVICE_MAX_CLOCK_FREQUENCY },
                       { "global_bytes", CL_DEVICE_GLOBAL_MEM_SIZE },
                       { "max_alloc_bytes", CL_DEVICE_MAX_MEM_ALLOC_SIZE },
                       { "local_bytes", CL_DEVICE_LOCAL_MEM_SIZE },
                       { "constant_bytes", CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE },
                       { "max_work_group", CL_DEVICE_MAX_WORK_GROUP_SIZE },
                       { "cacheline_bytes", CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE },
                       { "align_bits", CL_DEVICE_MEM_BASE_ADDR_ALIGN },
                       { "svm", CL_DEVICE_SVM_CAPABILITIES },
                       { "half_config", CL_DEVICE_HALF_FP_CONFIG },
                       { "double_config", CL_DEVICE_DOUBLE_FP_CONFIG },
                       { "single_config", CL_DEVICE_SINGLE_FP_CONFIG },
                       { "host_unified", CL_DEVICE_HOST_UNIFIED_MEMORY },
                       { "queue_properties", CL_DEVICE_QUEUE_PROPERTIES },
                       { "timer_resolution_ns", CL_DEVICE_PROFILING_TIMER_RESOLUTION } };

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* What a device does not answer is left out. */
static void print_device(cl_device_id device)
{
    static char text[TEXT];
    const char *comma = "";
    printf("{");
    for (size_t i = 0; i < COUNT(device_texts); i++) {
        if (cl.device(device, device_texts[i].what, sizeof text, text, NULL)) continue;
        printf("%s\"%s\": ", comma, device_texts[i].name);
        print_text(text);
        comma = ", ";
    }
    for (size_t i = 0; i < COUNT(device_numbers); i++) {
        cl_ulong value = 0; /* little-endian: a shorter answer fills its low bytes */
        if (cl.device(device, device_numbers[i].what, sizeof value, &value, NULL)) continue;
        printf("%s\"%s\": %llu", comma, device_numbers[i].name, (unsigned long long)value);
        comma = ", ";
    }
    printf("}");
}

static void print_platform(cl_platform_id platform)
{
    static char text[TEXT];
    cl_device_id devices[MOST];
    cl_uint n = 0;
    printf("{");
    for (size_t i = 0; i < COUNT(platform_texts); i++) {
        if (cl.platform(platform, platform_texts[i].what, sizeof text, text, NULL)) continue;
        printf("\"%s\": ", platform_texts[i].name);
        print_text(text);
        printf(", ");
    }
    printf("\"devices\": [");
    if (cl.devices(platform, CL_DEVICE_TYPE_ALL, MOST, devices, &n)) n = 0;
    for (cl_uint i = 0; i < n && i < MOST; i++) {
        if (i) printf(", ");
        print_device(devices[i]);
    }
    printf("]}");
}

int main(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    if (!library) {
        printf("{\"error\": ");
        print_text(dlerror());
        printf(", \"platforms\": []}\n");
        return 1;
    }
    *(void **)&cl.platforms = dlsym(library, "clGetPlatformIDs");
    *(void **)&cl.platform = dlsym(library, "clGetPlatformInfo");
    *(void **)&cl.devices = dlsym(library, "clGetDeviceIDs");
    *(void **)&cl.device = dlsym(library, "clGetDeviceInfo");
    if (!cl.platforms || !cl.platform || !cl.devices || !cl.device) {
        printf("{\"error\": \"libOpenCL.so.1 lacks a function\", \"platforms\": []}\n");
        return 1;
    }
    cl_platform_id platforms[MOST];
    cl_uint n = 0;
    const cl_int error = cl.platforms(MOST, platforms, &n);
    if (error) n = 0; /* no platform is an error to the loader */
    printf("{\"error_code\": %d, \"platforms\": [", (int)error);
    for (cl_uint i = 0; i < n && i < MOST; i++) {
        if (i) printf(",\n");
        print_platform(platforms[i]);
    }
    printf("]}\n");
    return n == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/** Loading of libOpenCL at run time, and its error codes. */
#include "backends/opencl/opencl.h"

static struct opencl_library library;
static bool library_open;
static char library_reason[YOKE_REASON_BYTES];
static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static struct yokei_maker library_user; /* the process that opened the library, and began to call drivers */

static void open_opencl_library(void)
{
    static const char *const names[] = { "libOpenCL.so.1", "libOpenCL.so", NULL };
/* clang-format off */
#define SYMBOL(name) { #name, &library.name },
    /* clang-format on */
    static const struct yokei_symbol symbols[] = { OPENCL_FUNCTIONS(SYMBOL) };
    static const struct yokei_symbol svm_symbols[] = { OPENCL_SVM_FUNCTIONS(SYMBOL) };
#undef SYMBOL
    char reason[YOKE_REASON_BYTES];
    library_user = yokei_this_process();
    library_open = yokei_dl_open(names, symbols, YOKE_COUNT(symbols), reason, sizeof reason) != NULL;
    if (!library_open)
        yokei_text(library_reason, sizeof library_reason,
                   "%s; install ocl-icd-libopencl1 and a vendor's OpenCL driver", reason);
    else
        library.has_svm = yokei_dl_open(names, svm_symbols, YOKE_COUNT(svm_symbols), reason, sizeof reason)
                          != NULL;
}

const struct opencl_library *yokei_opencl_library(char *reason, size_t bytes)
{
    pthread_once(&library_once, open_opencl_library);
    if (!library_open) yokei_text(reason, bytes, "%s", library_reason);
    return library_open ? &library : NULL;
}

yoke_status yokei_opencl_check_process(int index)
{
    if (yokei_made_here(&library_user)) return YOKE_OK;
    return yoke_fail(
        YOKE_ENODEV,
        "device 'opencl:%d': process %d has opened an OpenCL device and then forked this process. OpenCL does not work here, "
        "because the threads of its driver were not copied. Fork before the first OpenCL device is opened, or start a program "
        "by exec in the child",
        index, library_user.pid);
}

const char *yokei_opencl_error_name(cl_int error)
{
    switch (error) {
#define NAME(e) \
    case e: return #e;
        NAME(CL_SUCCESS)
        NAME(CL_DEVICE_NOT_FOUND)
        NAME(CL_DEVICE_NOT_AVAILABLE)
        NAME(CL_COMPILER_NOT_AVAILABLE)
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
        NAME(CL_OUT_OF_RESOURCES)
        NAME(CL_OUT_OF_HOST_MEMORY)
        NAME(CL_MEM_COPY_OVERLAP)
        NAME(CL_BUILD_PROGRAM_FAILURE)
        NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET)
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        NAME(CL_INVALID_VALUE)
        NAME(CL_INVALID_PLATFORM)
        NAME(CL_INVALID_DEVICE)
        NAME(CL_INVALID_CONTEXT)
        NAME(CL_INVALID_QUEUE_PROPERTIES)
        NAME(CL_INVALID_COMMAND_QUEUE)
        NAME(CL_INVALID_MEM_OBJECT)
        NAME(CL_INVALID_BINARY)
        NAME(CL_INVALID_BUILD_OPTIONS)
        NAME(CL_INVALID_PROGRAM)
        NAME(CL_INVALID_PROGRAM_EXECUTABLE)
        NAME(CL_INVALID_KERNEL_NAME)
        NAME(CL_INVALID_KERNEL)
        NAME(CL_INVALID_ARG_INDEX)
        NAME(CL_INVALID_ARG_VALUE)
        NAME(CL_INVALID_ARG_SIZE)
        NAME(CL_INVALID_KERNEL_ARGS)
        NAME(CL_INVALID_WORK_DIMENSION)
        NAME(CL_INVALID_WORK_GROUP_SIZE)
        NAME(CL_INVALID_WORK_ITEM_SIZE)
        NAME(CL_INVALID_EVENT_WAIT_LIST)
        NAME(CL_INVALID_EVENT)
        NAME(CL_INVALID_OPERATION)
        NAME(CL_INVALID_BUFFER_SIZE)
        NAME(CL_INVALID_GLOBAL_WORK_SIZE)
#undef NAME
    default: return "unlisted";
    }
}

yoke_status yokei_opencl_fail(const yoke_device *device, const char *call, cl_int error)
{
    bool memory = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_HOST_MEMORY
                  || error == CL_INVALID_BUFFER_SIZE;
    return yokei_gpu_call_failed(device, memory ? YOKE_ENOMEM : YOKE_EBACKEND, call,
                                 yokei_opencl_error_name(error), error, NULL);
}

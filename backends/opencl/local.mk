# backends/opencl: the driver; its kernels and ops stand in backends/gpu.
libyoke_la_SOURCES += \
	backends/opencl/opencl.h backends/opencl/library.c backends/opencl/device.c backends/opencl/addresses.c \
	backends/opencl/memory.c backends/opencl/pending.c backends/opencl/stream.c backends/opencl/event.c backends/opencl/program.c backends/opencl/pocl.c

# One program per idea; each skips where there is no OpenCL device.
opencl_tests = tests/unit/gpu_cache tests/unit/gpu_memory tests/unit/gpu_stream tests/unit/gpu_modes
EXTRA_PROGRAMS += $(opencl_tests)
YOKE_TESTS += $(opencl_tests)
tests_unit_gpu_cache_CFLAGS = $(UNIT_CFLAGS)
tests_unit_gpu_cache_LDADD = $(UNIT_LDADD)
tests_unit_gpu_memory_CFLAGS = $(UNIT_CFLAGS)
tests_unit_gpu_memory_LDADD = $(UNIT_LDADD)
tests_unit_gpu_stream_CFLAGS = $(UNIT_CFLAGS)
tests_unit_gpu_stream_LDADD = $(UNIT_LDADD)
tests_unit_gpu_modes_LDADD = libconform.la $(LIBYOKE)

noinst_PROGRAMS += bench/bandwidth
bench_bandwidth_SOURCES = bench/bandwidth.c
bench_bandwidth_LDADD = libconform.la $(LIBYOKE)

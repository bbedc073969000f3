# backends/cuda: the driver; its kernels and ops stand in backends/gpu.
libyoke_la_SOURCES += \
	backends/cuda/api.h backends/cuda/cuda.h backends/cuda/library.c backends/cuda/nvrtc.c backends/cuda/calls.c \
	backends/cuda/ahead.c backends/cuda/device.c backends/cuda/compile.c backends/cuda/program.c backends/cuda/folders.c \
	backends/cuda/cublaslt_api.h backends/cuda/cublaslt.c backends/cuda/algorithm.c backends/cuda/bias.c \
	backends/cuda/products.c
EXTRA_DIST += backends/cuda/README.md

# Tests that need no device. The first one needs a toolkit's headers, and skips where there are none.
EXTRA_DIST += tests/unit/cuda_api tests/unit/cuda_api_check.h tests/unit/cublaslt_api_check.h tests/unit/cuda_test.h
YOKE_TESTS += '$(top_srcdir)/tests/unit/cuda_api'
cuda_tests = tests/unit/cuda_library tests/unit/cuda_stream tests/unit/cuda_held tests/unit/cuda_kernels tests/unit/cuda_cublaslt tests/unit/cuda_gemm tests/unit/gpu_staging
EXTRA_PROGRAMS += $(cuda_tests)
YOKE_TESTS += $(cuda_tests)
tests_unit_cuda_library_CFLAGS = $(UNIT_CFLAGS)
tests_unit_cuda_library_LDADD = $(UNIT_LDADD)
tests_unit_gpu_staging_CFLAGS = $(UNIT_CFLAGS)
tests_unit_gpu_staging_LDADD = $(UNIT_LDADD)
tests_unit_cuda_stream_CFLAGS = $(UNIT_CFLAGS)
tests_unit_cuda_stream_LDADD = $(UNIT_LDADD)
tests_unit_cuda_held_CFLAGS = $(UNIT_CFLAGS)
tests_unit_cuda_held_LDADD = $(UNIT_LDADD) -lpthread
tests_unit_cuda_kernels_CFLAGS = $(UNIT_CFLAGS)
tests_unit_cuda_kernels_LDADD = $(UNIT_LDADD)
tests_unit_cuda_cublaslt_CFLAGS = $(UNIT_CFLAGS)
tests_unit_cuda_cublaslt_LDADD = $(UNIT_LDADD)
tests_unit_cuda_gemm_CFLAGS = $(UNIT_CFLAGS)
tests_unit_cuda_gemm_LDADD = $(UNIT_LDADD)

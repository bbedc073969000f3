# backends/hip: the driver; its kernels and ops stand in backends/gpu, and what it shares with CUDA in backends/gpu/runtime.
libyoke_la_SOURCES += \
	backends/hip/api.h backends/hip/hip.h backends/hip/options.h backends/hip/ahead.c backends/hip/calls.c backends/hip/child.c backends/hip/compiler.c \
	backends/hip/device.c backends/hip/hipblaslt.c backends/hip/hipblaslt_api.h backends/hip/hipblaslt_describe.c backends/hip/hipblaslt_trial.c \
	backends/hip/library.c backends/hip/makers.c backends/hip/product_file.c backends/hip/products.c backends/hip/products.h backends/hip/program.c backends/hip/rocblas.c \
	backends/hip/rocblas_api.h backends/hip/sensors.c backends/hip/versions.c
# The program in which AMD's compilers run.
hip_helperdir = $(pkglibdir)/hip
hip_helper_PROGRAMS = backends/hip/yoke-hip-compile
backends_hip_yoke_hip_compile_SOURCES = backends/hip/compile_main.c
backends_hip_yoke_hip_compile_LDADD = -ldl
EXTRA_DIST += backends/hip/README.md

# Tests that need no device. The first one needs HIP's header, and skips where there is none.
EXTRA_DIST += tests/unit/hip_api tests/unit/hip_api_check.h
YOKE_TESTS += '$(top_srcdir)/tests/unit/hip_api'
hip_tests = tests/unit/hip_library tests/unit/hip_kernels tests/unit/hip_products
EXTRA_PROGRAMS += $(hip_tests)
YOKE_TESTS += $(hip_tests)
tests_unit_hip_library_CFLAGS = $(UNIT_CFLAGS)
tests_unit_hip_library_LDADD = $(UNIT_LDADD)
tests_unit_hip_products_CFLAGS = $(UNIT_CFLAGS)
tests_unit_hip_products_LDADD = $(UNIT_LDADD)
tests_unit_hip_kernels_LDADD = $(LIBYOKE)

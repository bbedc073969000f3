# emulate/hip: a stand-in for AMD's libamdhip64. This part has HIP's entry points, and no executor.
noinst_LTLIBRARIES += libemulate-hip.la
libemulate_hip_la_SOURCES = emulate/hip/api.h emulate/hip/hip.h emulate/hip/vendor.c emulate/hip/errors.c emulate/hip/models.c \
	emulate/hip/device.c emulate/hip/memory.c emulate/hip/stream.c emulate/hip/module.c
# The library. It lies in a folder of its own, where no loader looks, and is not called libamdhip64.so.6, because hipRTC may be a part
# of the real library.
emulate_hipdir = $(pkglibdir)/emulate/hip
emulate_hip_LTLIBRARIES = emulate/hip/libamdhip64-emulated.la
emulate_hip_libamdhip64_emulated_la_SOURCES = emulate/hip/executor.c
emulate_hip_libamdhip64_emulated_la_LIBADD = libemulate-hip.la libemulate-gpu.la libemulate-gcn.la -lpthread
emulate_hip_libamdhip64_emulated_la_LDFLAGS = $(AM_LDFLAGS) -version-info 6:0:0 -export-symbols-regex '^(hip[A-Z]|yoke_emulate_)' $(EMULATE_LDFLAGS)
# Stand-ins for rocBLAS and hipBLASLt in the same folder. They find the driver's functions when they are used.
emulate_hip_LTLIBRARIES += emulate/hip/librocblas-emulated.la emulate/hip/libhipblaslt-emulated.la
emulate_hip_blas = emulate/hip/blas.h emulate/hip/blas.c
emulate_hip_librocblas_emulated_la_SOURCES = emulate/hip/rocblas.h emulate/hip/rocblas.c $(emulate_hip_blas)
emulate_hip_librocblas_emulated_la_LIBADD = libemulate-product.la -lpthread -ldl -lm
emulate_hip_librocblas_emulated_la_LDFLAGS = $(AM_LDFLAGS) -version-info 4:0:0 -export-symbols-regex '^rocblas_' $(EMULATE_LDFLAGS)
emulate_hip_libhipblaslt_emulated_la_SOURCES = emulate/hip/hipblaslt.h emulate/hip/hipblaslt.c $(emulate_hip_blas)
emulate_hip_libhipblaslt_emulated_la_LIBADD = libemulate-product.la -lpthread -ldl -lm
emulate_hip_libhipblaslt_emulated_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -export-symbols-regex '^hipblasLt[A-Z]' $(EMULATE_LDFLAGS)
# The test runs the entry points with an executor of its own, so it needs no compiler for AMD's devices.
emulate_hip_tests = tests/unit/emulate_hip tests/unit/emulate_hip_streams tests/unit/emulate_hip_products
EXTRA_PROGRAMS += $(emulate_hip_tests)
YOKE_TESTS += $(emulate_hip_tests) $(top_srcdir)/tests/unit/emulate_hip_header
EXTRA_DIST += emulate/hip/README.md tests/unit/emulate_hip_header
emulate_hip_toy = tests/unit/emulate_hip.h tests/unit/emulate_hip_toy.c
emulate_hip_ldadd = libemulate-hip.la libemulate-gpu.la libemulate-kernel.la $(CMOCKA_LIBS) -lpthread -ldl
tests_unit_emulate_hip_SOURCES = tests/unit/emulate_hip.c $(emulate_hip_toy)
tests_unit_emulate_hip_CFLAGS = $(UNIT_CFLAGS)
tests_unit_emulate_hip_LDADD = $(emulate_hip_ldadd)
tests_unit_emulate_hip_streams_SOURCES = tests/unit/emulate_hip_streams.c $(emulate_hip_toy)
tests_unit_emulate_hip_streams_CFLAGS = $(UNIT_CFLAGS)
tests_unit_emulate_hip_streams_LDADD = $(emulate_hip_ldadd)
# This test opens the libraries from the build folder.
tests_unit_emulate_hip_products_CFLAGS = $(UNIT_CFLAGS)
tests_unit_emulate_hip_products_LDADD = $(CMOCKA_LIBS) -ldl -lm
# Errors in Yoke that the stand-in must find.
EXTRA_PROGRAMS += tests/unit/planted_hip
YOKE_TESTS += 'long tests/unit/planted_hip'
tests_unit_planted_hip_SOURCES = tests/unit/planted_hip.c tests/unit/planted_memory.h tests/unit/planted_set.h tests/unit/planted_run.h
tests_unit_planted_hip_LDADD = $(LIBYOKE) -lm -ldl

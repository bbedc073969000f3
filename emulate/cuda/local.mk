# emulate/cuda: a stand-in for NVIDIA's libcuda.so.1, and the executor of PTX that runs its kernels. The library lies in a folder
# of its own, where no loader looks.
# The library is not called libcuda.so.1. NVRTC opens that name itself, and then the loader would give NVRTC the
# stand-in, which is loaded already. NVRTC calls functions that only NVIDIA's library has.
emulate_cudadir = $(pkglibdir)/emulate/cuda
emulate_cuda_LTLIBRARIES = emulate/cuda/libcuda-emulated.la
emulate_cuda_libcuda_emulated_la_SOURCES = emulate/cuda/api.h emulate/cuda/emulate.h emulate/cuda/cuda.h emulate/cuda/vendor.c \
	emulate/cuda/errors.c emulate/cuda/names.c emulate/cuda/models.c emulate/cuda/device.c emulate/cuda/context.c emulate/cuda/current.c \
	emulate/cuda/memory.c emulate/cuda/stream.c emulate/cuda/module.c
emulate_cuda_libcuda_emulated_la_LIBADD = libemulate-gpu.la libemulate-ptx.la -lpthread
emulate_cuda_libcuda_emulated_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -export-symbols-regex '^(cu[A-Z]|yoke_emulate_)' $(EMULATE_LDFLAGS)

# A stand-in for cuBLASLt in the same folder. It finds the driver's functions when it is used, so it is not linked with it.
emulate_cuda_LTLIBRARIES += emulate/cuda/libcublasLt-emulated.la
emulate_cuda_libcublasLt_emulated_la_SOURCES = emulate/cuda/cublaslt.h emulate/cuda/cublaslt_objects.c \
	emulate/cuda/cublaslt_algo.c emulate/cuda/cublaslt_run.c
emulate_cuda_libcublasLt_emulated_la_LIBADD = libemulate-product.la -lpthread -ldl -lm
emulate_cuda_libcublasLt_emulated_la_LDFLAGS = $(AM_LDFLAGS) -version-info 13:0:0 -export-symbols-regex '^cublasLt[A-Z]' $(EMULATE_LDFLAGS)
EXTRA_DIST += emulate/cuda/README.md tests/unit/emulate_cuda.h tests/unit/emulate_header
emulate_tests = tests/unit/emulate_cuda tests/unit/emulate_cuda_faults tests/unit/emulate_cuda_order tests/unit/emulate_cuda_wait \
	tests/unit/emulate_cuda_channels
EXTRA_PROGRAMS += $(emulate_tests)
YOKE_TESTS += $(emulate_tests) $(top_srcdir)/tests/unit/emulate_header
tests_unit_emulate_cuda_CFLAGS = $(UNIT_CFLAGS)
tests_unit_emulate_cuda_LDADD = $(CMOCKA_LIBS) -lpthread
tests_unit_emulate_cuda_faults_CFLAGS = $(UNIT_CFLAGS)
tests_unit_emulate_cuda_faults_LDADD = $(CMOCKA_LIBS) -lpthread
tests_unit_emulate_cuda_order_CFLAGS = $(UNIT_CFLAGS)
tests_unit_emulate_cuda_order_LDADD = $(CMOCKA_LIBS) -lpthread
tests_unit_emulate_cuda_wait_CFLAGS = $(UNIT_CFLAGS)
tests_unit_emulate_cuda_wait_LDADD = $(CMOCKA_LIBS) -lpthread
tests_unit_emulate_cuda_channels_CFLAGS = $(UNIT_CFLAGS)
tests_unit_emulate_cuda_channels_LDADD = $(CMOCKA_LIBS) -lpthread

# The executor of PTX.
noinst_LTLIBRARIES += libemulate-ptx.la
libemulate_ptx_la_SOURCES = emulate/cuda/ptx.h emulate/cuda/ptx_code.h emulate/cuda/ptx_ops.h emulate/cuda/ptx_parse.h \
	emulate/cuda/ptx_token.c emulate/cuda/ptx_names.c emulate/cuda/ptx_lines.c emulate/cuda/ptx_parse.c \
	emulate/cuda/ptx_types.c emulate/cuda/ptx_decode.c emulate/cuda/ptx_decode_more.c emulate/cuda/ptx_fault.c emulate/cuda/ptx_run.c \
	emulate/cuda/ptx_cvt.c emulate/cuda/ptx_executor.c
libemulate_ptx_la_SOURCES += emulate/cuda/ptx_decode_matrix.c
libemulate_ptx_la_CPPFLAGS = $(AM_CPPFLAGS)
libemulate_ptx_la_LIBADD = libemulate-ptx-generic.la libemulate-kernel.la -lm

# The part that runs the instructions is compiled for each instruction set of the host.
ptx_executor = emulate/cuda/ptx_run.h emulate/cuda/ptx_alu.c emulate/cuda/ptx_block.c emulate/cuda/ptx_wait.c \
	emulate/cuda/ptx_access.c emulate/cuda/ptx_shared.c emulate/cuda/ptx_float.h
ptx_executor += emulate/cuda/ptx_async.c emulate/cuda/ptx_matrix.c $(kernel_checks)
# No instruction traps, and nobody reads the flags of exceptions, so comparisons may become vectors.
ptx_executor_flags = $(AM_CFLAGS) -fno-trapping-math
noinst_LTLIBRARIES += libemulate-ptx-generic.la
libemulate_ptx_generic_la_SOURCES = $(ptx_executor)
libemulate_ptx_generic_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNEL_ISA=generic -DKERNEL_LANES=32 -DKERNEL_IN_STEP=0
libemulate_ptx_generic_la_CFLAGS = $(ptx_executor_flags)
if HOST_X86
noinst_LTLIBRARIES += libemulate-ptx-avx2.la
libemulate_ptx_avx2_la_SOURCES = $(ptx_executor)
libemulate_ptx_avx2_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNEL_ISA=avx2 -DKERNEL_LANES=32 -DKERNEL_IN_STEP=0
libemulate_ptx_avx2_la_CFLAGS = $(ptx_executor_flags) -mavx2 -mfma
libemulate_ptx_la_CPPFLAGS += -DPTX_HAS_AVX2
libemulate_ptx_la_LIBADD += libemulate-ptx-avx2.la
endif
include emulate/cuda/tests.mk

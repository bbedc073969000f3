# emulate/cuda: the executor of PTX, for the tests. Only `make check` builds it.
check_LTLIBRARIES += libemulate-ptx.la
libemulate_ptx_la_SOURCES = emulate/cuda/ptx.h emulate/cuda/ptx_code.h emulate/cuda/ptx_ops.h emulate/cuda/ptx_parse.h \
	emulate/cuda/ptx_token.c emulate/cuda/ptx_names.c emulate/cuda/ptx_lines.c emulate/cuda/ptx_parse.c \
	emulate/cuda/ptx_decode.c emulate/cuda/ptx_decode_more.c emulate/cuda/ptx_fault.c emulate/cuda/ptx_run.c \
	emulate/cuda/ptx_cvt.c
libemulate_ptx_la_CPPFLAGS = $(AM_CPPFLAGS)
libemulate_ptx_la_LIBADD = libemulate-ptx-generic.la -lm

# The part that runs the instructions is compiled for each instruction set of the host.
ptx_executor = emulate/cuda/ptx_run.h emulate/cuda/ptx_alu.c emulate/cuda/ptx_block.c emulate/cuda/ptx_wait.c \
	emulate/cuda/ptx_access.c emulate/cuda/ptx_shared.c
# No instruction traps, and nobody reads the flags of exceptions, so comparisons may become vectors.
ptx_executor_flags = $(AM_CFLAGS) -fno-trapping-math
check_LTLIBRARIES += libemulate-ptx-generic.la
libemulate_ptx_generic_la_SOURCES = $(ptx_executor)
libemulate_ptx_generic_la_CPPFLAGS = $(AM_CPPFLAGS) -DPTX_ISA=generic
libemulate_ptx_generic_la_CFLAGS = $(ptx_executor_flags)
if HOST_X86
check_LTLIBRARIES += libemulate-ptx-avx2.la
libemulate_ptx_avx2_la_SOURCES = $(ptx_executor)
libemulate_ptx_avx2_la_CPPFLAGS = $(AM_CPPFLAGS) -DPTX_ISA=avx2
libemulate_ptx_avx2_la_CFLAGS = $(ptx_executor_flags) -mavx2 -mfma
libemulate_ptx_la_CPPFLAGS += -DPTX_HAS_AVX2
libemulate_ptx_la_LIBADD += libemulate-ptx-avx2.la
endif
include emulate/cuda/tests.mk

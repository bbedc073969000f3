# The executor of AMD machine code.
noinst_LTLIBRARIES += libemulate-gcn.la
libemulate_gcn_la_SOURCES = emulate/hip/gcn.h emulate/hip/gcn_code.h emulate/hip/gcn_opcodes.h emulate/hip/gcn_ops.h \
	emulate/hip/gcn_ops_scalar.h emulate/hip/gcn_ops_vector.h emulate/hip/gcn_memory_name.h emulate/hip/gcn_load.h \
	emulate/hip/gcn_step.h emulate/hip/gcn_table.c emulate/hip/gcn_decode.c emulate/hip/gcn_decode_vector.c \
	emulate/hip/gcn_decode_memory.c emulate/hip/gcn_memory_name.c emulate/hip/gcn_math.c emulate/hip/gcn_load.c emulate/hip/gcn_fault.c \
	emulate/hip/gcn_run.c emulate/hip/gcn_step.c
libemulate_gcn_la_CPPFLAGS = $(AM_CPPFLAGS)
libemulate_gcn_la_LIBADD = libemulate-gcn-generic64.la libemulate-gcn-generic32.la libemulate-gcn-object.la libemulate-kernel.la \
	-lm -lpthread

# The part that runs the instructions is compiled for each size of a wave and for each instruction set of the host.
gcn_executor = emulate/hip/gcn_run.h emulate/hip/gcn_alu.c emulate/hip/gcn_vector.c emulate/hip/gcn_scalar.c \
	emulate/hip/gcn_memory.c emulate/hip/gcn_wait.c emulate/hip/gcn_wave.c emulate/hip/gcn_launch.c \
	$(kernel_checks)
# No instruction traps, and nobody reads the flags of exceptions, so comparisons may become vectors.
gcn_executor_flags = $(AM_CFLAGS) -fno-trapping-math
noinst_LTLIBRARIES += libemulate-gcn-generic64.la libemulate-gcn-generic32.la
libemulate_gcn_generic64_la_SOURCES = $(gcn_executor)
libemulate_gcn_generic64_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNEL_ISA=generic64 -DKERNEL_LANES=64 -DKERNEL_IN_STEP=1
libemulate_gcn_generic64_la_CFLAGS = $(gcn_executor_flags)
libemulate_gcn_generic32_la_SOURCES = $(gcn_executor)
libemulate_gcn_generic32_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNEL_ISA=generic32 -DKERNEL_LANES=32 -DKERNEL_IN_STEP=1
libemulate_gcn_generic32_la_CFLAGS = $(gcn_executor_flags)
if HOST_X86
noinst_LTLIBRARIES += libemulate-gcn-avx2-64.la libemulate-gcn-avx2-32.la
libemulate_gcn_avx2_64_la_SOURCES = $(gcn_executor)
libemulate_gcn_avx2_64_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNEL_ISA=avx2_64 -DKERNEL_LANES=64 -DKERNEL_IN_STEP=1
libemulate_gcn_avx2_64_la_CFLAGS = $(gcn_executor_flags) -mavx2 -mfma
libemulate_gcn_avx2_32_la_SOURCES = $(gcn_executor)
libemulate_gcn_avx2_32_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNEL_ISA=avx2_32 -DKERNEL_LANES=32 -DKERNEL_IN_STEP=1
libemulate_gcn_avx2_32_la_CFLAGS = $(gcn_executor_flags) -mavx2 -mfma
libemulate_gcn_la_CPPFLAGS += -DGCN_HAS_AVX2
libemulate_gcn_la_LIBADD += libemulate-gcn-avx2-64.la libemulate-gcn-avx2-32.la
endif

# What the executor finds in kernels that are wrong. The kernels are machine code that a script makes.
EXTRA_PROGRAMS += tests/unit/gcn_faults
YOKE_TESTS += tests/unit/gcn_faults
EXTRA_DIST += tests/unit/gcn/make-faults tests/unit/gcn/faults.list tests/unit/gcn/faults.txt
tests_unit_gcn_faults_CFLAGS = $(UNIT_CFLAGS)
tests_unit_gcn_faults_LDADD = libemulate-gcn.la $(CMOCKA_LIBS) -lm
# Instructions whose lanes read other lanes.
EXTRA_PROGRAMS += tests/unit/gcn_lanes
YOKE_TESTS += tests/unit/gcn_lanes
tests_unit_gcn_lanes_CFLAGS = $(UNIT_CFLAGS)
tests_unit_gcn_lanes_LDADD = libemulate-gcn.la $(CMOCKA_LIBS)
# Single instructions on operands that the vectors of gcn_opcodes lack.
EXTRA_PROGRAMS += tests/unit/gcn_single
YOKE_TESTS += tests/unit/gcn_single
tests_unit_gcn_single_CFLAGS = $(UNIT_CFLAGS)
tests_unit_gcn_single_LDADD = libemulate-gcn.la $(CMOCKA_LIBS)

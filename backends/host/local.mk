# backends/host: one text per family, compiled once per instruction set; chosen at run time by CPU features.
libyoke_la_SOURCES += \
	backends/host/host.h backends/host/host.c backends/host/cpu.c backends/host/stream.c backends/host/parallel.c \
	backends/host/dispatch.c backends/host/onednn.c backends/host/forks.c backends/host/crowd.c

host_kernels = \
	backends/host/vec.h backends/host/exp.h backends/host/log.h backends/host/normal.h backends/host/tile.h backends/host/tile_bf16.h backends/host/random.h \
	backends/host/kernels.h backends/host/attention.h backends/host/attention_blocks.h backends/host/isa.c backends/host/gemm_tile.h \
	backends/host/gemm.c backends/host/norm.c backends/host/act.c backends/host/attention.c \
	backends/host/attention_backward.c backends/host/embed.c backends/host/loss.c backends/host/optim.c \
	backends/host/cast.c backends/host/elementwise.c backends/host/rope.c

noinst_LTLIBRARIES += libhost-generic.la
libhost_generic_la_SOURCES = $(host_kernels)
libhost_generic_la_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=generic
libyoke_la_LIBADD += libhost-generic.la

if HOST_X86
noinst_LTLIBRARIES += libhost-avx2.la libhost-avx512.la libhost-avx512bf16.la
libhost_avx2_la_SOURCES = $(host_kernels)
libhost_avx2_la_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=avx2
libhost_avx2_la_CFLAGS = $(AM_CFLAGS) -mavx2 -mfma -mf16c
libhost_avx512_la_SOURCES = $(host_kernels)
libhost_avx512_la_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=avx512
avx512_flags = -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
libhost_avx512_la_CFLAGS = $(AM_CFLAGS) $(avx512_flags)
libhost_avx512bf16_la_SOURCES = $(host_kernels)
libhost_avx512bf16_la_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=avx512bf16
libhost_avx512bf16_la_CFLAGS = $(AM_CFLAGS) $(avx512_flags) -mavx512bf16
libyoke_la_LIBADD += libhost-avx2.la libhost-avx512.la libhost-avx512bf16.la
endif

noinst_PROGRAMS += bench/host_ops bench/host_gemm
bench_host_gemm_SOURCES = bench/host_gemm.c
bench_host_gemm_LDADD = $(LIBYOKE)
bench_host_ops_SOURCES = bench/host_ops.c
bench_host_ops_LDADD = $(LIBYOKE)

EXTRA_PROGRAMS += tests/unit/host_backend tests/unit/host_signals
YOKE_TESTS += tests/unit/host_backend tests/unit/host_signals
tests_unit_host_backend_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_host_backend_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) -lm
tests_unit_host_signals_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_host_signals_LDADD = $(LIBYOKE) $(CMOCKA_LIBS)

if HOST_X86
EXTRA_PROGRAMS += tests/unit/host_tile_bf16
YOKE_TESTS += tests/unit/host_tile_bf16
tests_unit_host_tile_bf16_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=avx512bf16
tests_unit_host_tile_bf16_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(avx512_flags) -mavx512bf16
tests_unit_host_tile_bf16_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) -lm
endif

# The same text for each instruction set.
EXTRA_PROGRAMS += tests/unit/host_log_generic
YOKE_TESTS += tests/unit/host_log_generic
tests_unit_host_log_generic_SOURCES = tests/unit/host_log.c
tests_unit_host_log_generic_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=generic
tests_unit_host_log_generic_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_host_log_generic_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) -lm
if HOST_X86
EXTRA_PROGRAMS += tests/unit/host_log_avx2 tests/unit/host_log_avx512
YOKE_TESTS += tests/unit/host_log_avx2 tests/unit/host_log_avx512
tests_unit_host_log_avx2_SOURCES = tests/unit/host_log.c
tests_unit_host_log_avx2_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=avx2
tests_unit_host_log_avx2_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -mavx2 -mfma -mf16c
tests_unit_host_log_avx2_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) -lm
tests_unit_host_log_avx512_SOURCES = tests/unit/host_log.c
tests_unit_host_log_avx512_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=avx512
tests_unit_host_log_avx512_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(avx512_flags)
tests_unit_host_log_avx512_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) -lm
endif

# The same text for each instruction set, as the kernels.
EXTRA_PROGRAMS += tests/unit/host_exp_generic
YOKE_TESTS += tests/unit/host_exp_generic
tests_unit_host_exp_generic_SOURCES = tests/unit/host_exp.c
tests_unit_host_exp_generic_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=generic
tests_unit_host_exp_generic_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_host_exp_generic_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) -lm
if HOST_X86
EXTRA_PROGRAMS += tests/unit/host_exp_avx2 tests/unit/host_exp_avx512
YOKE_TESTS += tests/unit/host_exp_avx2 tests/unit/host_exp_avx512
tests_unit_host_exp_avx2_SOURCES = tests/unit/host_exp.c
tests_unit_host_exp_avx2_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=avx2
tests_unit_host_exp_avx2_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -mavx2 -mfma -mf16c
tests_unit_host_exp_avx2_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) -lm
tests_unit_host_exp_avx512_SOURCES = tests/unit/host_exp.c
tests_unit_host_exp_avx512_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=avx512
tests_unit_host_exp_avx512_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(avx512_flags)
tests_unit_host_exp_avx512_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) -lm
endif

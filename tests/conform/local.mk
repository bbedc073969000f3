# tests/conform: the sweep per device, the gradient check, and planted errors that they must catch. Cold programs make the
# OpenCL sweep the longest; it runs in parts.
EXTRA_DIST += tests/conform/coverage.h tests/conform/oclgrind
EXTRA_PROGRAMS += tests/conform/conform tests/conform/planted
tests_conform_conform_LDADD = libconform.la $(LIBYOKE)
tests_conform_planted_LDADD = libconform.la $(LIBYOKE)
YOKE_TESTS += "tests/conform/conform reference" "tests/conform/conform gradients" tests/conform/planted \
	"long tests/conform/conform host" "DNNL_MAX_CPU_ISA=AVX2 tests/conform/conform host gemm" \
	"tests/conform/conform opencl:0 gemm" "long tests/conform/conform opencl:0 attention" \
	"long tests/conform/conform opencl:0 norm act embed loss optim cast elementwise rope"
# On Oclgrind, which looks for races and for reads of uninitialised memory. It is slow, and skips where it is not installed.
YOKE_TESTS += \
	"soak $(top_srcdir)/tests/conform/oclgrind layernorm_forward layernorm_backward rmsnorm_forward rmsnorm_backward rope" \
	"soak $(top_srcdir)/tests/conform/oclgrind gelu_forward gelu_backward gelu_erf_forward gelu_erf_backward swiglu_forward swiglu_backward" \
	"soak $(top_srcdir)/tests/conform/oclgrind add scale dropout cast embed_forward embed_backward bias_backward adamw grad_norm" \
	"soak $(top_srcdir)/tests/conform/oclgrind xent_forward xent_backward xent_join"
# On the stand-in CUDA driver; each skips where NVRTC is not installed.
YOKE_TESTS += "long YOKE_EMULATE=cuda:9.0 tests/conform/conform cuda:0 gemm" \
	"long YOKE_EMULATE=cuda:9.0 tests/conform/conform cuda:0 attention" \
	"long YOKE_EMULATE=cuda:9.0 tests/conform/conform cuda:0 norm act embed loss optim cast elementwise rope"
# On the stand-in for HIP, with the machine code of AMD's compilers: what the device chooses, for one architecture; in soak all
# variants, for three. Each skips where no compiler knows the architecture.
YOKE_TESTS += "long YOKE_EMULATE=hip:gfx90a tests/conform/conform hip:0 chosen gemm attention embed loss optim" \
	"long YOKE_EMULATE=hip:gfx90a tests/conform/conform hip:0 chosen norm act cast elementwise rope" \
	"soak YOKE_EMULATE=hip:gfx90a tests/conform/conform hip:0" \
	"soak YOKE_EMULATE=hip:gfx942 tests/conform/conform hip:0" "soak YOKE_EMULATE=hip:gfx1100 tests/conform/conform hip:0"
EXTRA_PROGRAMS += tests/unit/conform
tests_unit_conform_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_conform_LDADD = libconform.la $(LIBYOKE) $(CMOCKA_LIBS)
YOKE_TESTS += tests/unit/conform
EXTRA_PROGRAMS += tests/unit/conform_bits
tests_unit_conform_bits_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_conform_bits_LDADD = libconform.la $(LIBYOKE) $(CMOCKA_LIBS)
YOKE_TESTS += tests/unit/conform_bits

EXTRA_PROGRAMS += tests/unit/attention_long
tests_unit_attention_long_SOURCES = tests/unit/attention_long.c tests/conform/attention_sample.h tests/conform/attention_sample.c
tests_unit_attention_long_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_attention_long_LDADD = libconform.la $(LIBYOKE) $(CMOCKA_LIBS) -lm
YOKE_TESTS += "OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 tests/unit/attention_long"
EXTRA_PROGRAMS += tests/conform/report
tests_conform_report_SOURCES = tests/conform/report.c cli/devices/verify_child.c cli/devices/verify_json.c cli/devices/speed.c cli/devices/child.c cli/options/progress.c
tests_conform_report_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) $(YAML_CFLAGS)
tests_conform_report_LDADD = libconform.la $(LIBYOKE) $(CMOCKA_LIBS) $(JANSSON_LIBS) $(YAML_LIBS) -lm
YOKE_TESTS += tests/conform/report
EXTRA_PROGRAMS += tests/conform/planted_kernels
tests_conform_planted_kernels_LDADD = libconform.la $(LIBYOKE)
YOKE_TESTS += "tests/conform/planted_kernels opencl:0" "YOKE_EMULATE=cuda:9.0 tests/conform/planted_kernels cuda:0"
EXTRA_PROGRAMS += tests/conform/planted_host
tests_conform_planted_host_CPPFLAGS = $(AM_CPPFLAGS) -DHOST_ISA=planted
tests_conform_planted_host_LDADD = libconform.la $(LIBYOKE) -lm
YOKE_TESTS += tests/conform/planted_host

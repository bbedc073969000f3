# tests/unit: what needs neither MPI nor another process. One program per module.
EXTRA_DIST += tests/unit/report_devices tests/unit/report_html.py tests/unit/test.h tests/unit/folder.h tests/unit/config_write.h tests/unit/data_test.h tests/unit/host_isa.h tests/unit/layer_models.h tests/unit/plan_text.h tests/unit/safetensors_save.h tests/unit/gpu_test.h tests/unit/drawings tests/unit/report_pages tests/unit/report_runs tests/unit/watch_serve tests/unit/watch_view
unit_programs = tests/unit/dtype tests/unit/philox tests/unit/exact tests/unit/file tests/unit/base tests/unit/device tests/unit/give_back tests/unit/forks tests/unit/checks tests/unit/op_costs tests/unit/dropout
EXTRA_PROGRAMS += $(unit_programs)
YOKE_TESTS += $(unit_programs)
UNIT_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
UNIT_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) -lm
EXTRA_PROGRAMS += tests/unit/binding
EXTRA_DIST += tests/unit/two_sockets.xml
YOKE_TESTS += "tests/unit/binding $(top_srcdir)/tests/unit"
tests_unit_binding_CFLAGS = $(UNIT_CFLAGS)
tests_unit_binding_LDADD = $(UNIT_LDADD)
tests_unit_dtype_CFLAGS = $(UNIT_CFLAGS)
tests_unit_dtype_LDADD = $(UNIT_LDADD)
tests_unit_exact_CFLAGS = $(UNIT_CFLAGS)
tests_unit_exact_LDADD = $(UNIT_LDADD)
tests_unit_philox_CFLAGS = $(UNIT_CFLAGS)
tests_unit_philox_LDADD = $(UNIT_LDADD)
tests_unit_file_CFLAGS = $(UNIT_CFLAGS)
tests_unit_file_LDADD = $(UNIT_LDADD)
tests_unit_base_CFLAGS = $(UNIT_CFLAGS)
tests_unit_base_LDADD = $(UNIT_LDADD) $(HWLOC_LIBS)
tests_unit_device_CFLAGS = $(UNIT_CFLAGS)
tests_unit_device_LDADD = $(UNIT_LDADD)
tests_unit_give_back_CFLAGS = $(UNIT_CFLAGS)
tests_unit_give_back_LDADD = $(UNIT_LDADD)
tests_unit_forks_CFLAGS = $(UNIT_CFLAGS) -pthread
tests_unit_forks_LDADD = $(UNIT_LDADD) -lpthread -ldl
tests_unit_dropout_CFLAGS = $(UNIT_CFLAGS)
tests_unit_dropout_LDADD = $(UNIT_LDADD)
tests_unit_checks_CFLAGS = $(UNIT_CFLAGS)
tests_unit_checks_LDADD = $(UNIT_LDADD)
tests_unit_op_costs_CFLAGS = $(UNIT_CFLAGS)
tests_unit_op_costs_LDADD = $(UNIT_LDADD)
EXTRA_DIST += tests/unit/tap_run
YOKE_TESTS += 'soak $(top_srcdir)/tests/unit/tap_run $(abs_top_srcdir)/tests/tap-run'
EXTRA_PROGRAMS += tests/unit/gpu_formulas
# Vectors wider than the build's, and the dialect's own pragmas.
tests_unit_gpu_formulas_CFLAGS = $(AM_CFLAGS) -Wno-psabi -Wno-unknown-pragmas
tests_unit_gpu_formulas_LDADD = -lm
YOKE_TESTS += tests/unit/gpu_formulas
EXTRA_PROGRAMS += tests/unit/tuning tests/unit/cli_tune
tests_unit_tuning_CFLAGS = $(UNIT_CFLAGS)
tests_unit_tuning_LDADD = $(UNIT_LDADD)
tests_unit_cli_tune_SOURCES = tests/unit/cli_tune.c cli/tune/measure.c cli/tune/choose.c cli/bench/sides.c cli/options/progress.c
tests_unit_cli_tune_CFLAGS = $(UNIT_CFLAGS)
tests_unit_cli_tune_LDADD = libconform.la $(UNIT_LDADD)
EXTRA_DIST += tests/unit/tune_command tests/unit/predict_command
YOKE_TESTS += tests/unit/tuning tests/unit/cli_tune "$(top_srcdir)/tests/unit/tune_command ./yoke" "$(top_srcdir)/tests/unit/predict_command ./yoke"
EXTRA_PROGRAMS += tests/unit/far_rows
tests_unit_far_rows_LDADD = $(LIBYOKE) -lm -ldl
YOKE_TESTS += "tests/unit/far_rows host" "POCL_MAX_PTHREAD_COUNT=1 tests/unit/far_rows opencl:0" \
	"YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_MEMORY=32G tests/unit/far_rows cuda:0" \
	"YOKE_EMULATE=hip:gfx90a YOKE_EMULATE_MEMORY=32G tests/unit/far_rows hip:0"

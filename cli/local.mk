# yoke: the command.
bin_PROGRAMS += yoke
yoke_SOURCES = \
	cli/cli.h cli/options.h cli/options.c cli/resolve.c cli/config.c cli/help.c cli/manual.c cli/manual_verb.c cli/output.c cli/printable.c cli/verbs.c cli/main.c cli/job.h \
	cli/child.h cli/child.c cli/threads.h cli/threads.c cli/info.h cli/info.c cli/speed.c cli/check.c cli/verify.h cli/verify.c cli/verify_child.c cli/verify_json.c \
	cli/bench_gemm.h cli/bench_gemm.c cli/gemm_check.c cli/peak.c cli/rivals.c cli/rival_clblast.c cli/triad.h cli/triad.c
yoke_SOURCES += cli/kernels.h cli/kernels.c cli/kernel_options.c cli/tune.h cli/tune.c cli/tune_measure.c cli/tune_choose.c cli/choices.c \
	cli/bench_kernels.h cli/bench_kernels.c cli/bench_kernels_table.c cli/bench_peaks.c
yoke_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS) $(YAML_CFLAGS) $(JANSSON_CFLAGS)
if WITH_MPI
yoke_SOURCES += \
	cli/job.c cli/job_dir.h cli/job_dir.c cli/agent.h cli/agent.c cli/rank.c cli/run.c cli/launch.h cli/spawn.c cli/hydra.c cli/pmi.h cli/pmi.c cli/shared_memory.h cli/shared_memory.c cli/supervise.h cli/supervise.c cli/verdict.c cli/hello.c \
	cli/bench_collectives.h cli/bench_collectives.c cli/bench_data.c cli/bench_mpi.c cli/bench_sides.c cli/bench_limit.c cli/bench_table.c \
	cli/hold.h cli/hold.c cli/train.c cli/train_plan.h cli/train_plan.c cli/plan.c cli/parity.c cli/ckpt.c cli/ckpt_diff.c cli/schedule.h cli/schedule.c cli/schedule_text.c cli/schedule_moment.c cli/schedule_draw.c cli/trace.h cli/trace.c cli/trace_text.c cli/trace_json.c
yoke_SOURCES += cli/sample.c cli/tokenize.c
yoke_LDADD = libconform.la libyoke-train.la libyoke-comm.la libyoke.la $(MPICH_LIBS) $(YAML_LIBS) $(JANSSON_LIBS)
else
yoke_SOURCES += cli/no_mpi.c
yoke_LDADD = libconform.la libyoke.la $(YAML_LIBS) $(JANSSON_LIBS)
endif

# Manual pages and completion are written from the command's tables by a program for the machine that builds.
manual_build_sources = cli/manual_build.c cli/manual.c cli/options.c cli/verbs.c core/base/text.c
EXTRA_DIST += cli/manual_build.c
CLEANFILES += cli/manual_build
cli/manual_build: $(manual_build_sources) cli/cli.h cli/options.h core/base/base.h include/yoke/base.h
	$(AM_V_GEN)$(MKDIR_P) cli && cd $(top_srcdir) && $(CC_FOR_BUILD) -std=gnu11 -D_GNU_SOURCE -Iinclude -I. $(manual_build_sources) -o $(abs_top_builddir)/$@.new && \
		mv -f $(abs_top_builddir)/$@.new $(abs_top_builddir)/$@
YOKE_MAN_PAGES = cli/man/yoke.1 cli/man/yoke-info.1 cli/man/yoke-run.1 cli/man/yoke-verify.1 cli/man/yoke-bench-gemm.1 cli/man/yoke-bench-collectives.1 cli/man/yoke-bench-allreduce.1 cli/man/yoke-train.1 cli/man/yoke-plan.1 cli/man/yoke-parity.1 cli/man/yoke-trace.1 cli/man/yoke-schedule-show.1 cli/man/yoke-schedule-check.1 \
	cli/man/yoke-ckpt-ls.1 cli/man/yoke-ckpt-show.1 cli/man/yoke-ckpt-verify.1 cli/man/yoke-ckpt-diff.1 cli/man/yoke-ckpt-convert.1
YOKE_MAN_PAGES += cli/man/yoke-tune.1 cli/man/yoke-bench-kernels.1
YOKE_MAN_PAGES += cli/man/yoke-sample.1 cli/man/yoke-tokenize.1
nodist_man_MANS += $(YOKE_MAN_PAGES)
completiondir = $(datadir)/bash-completion/completions
nodist_completion_DATA = cli/completion/yoke
CLEANFILES += $(YOKE_MAN_PAGES) cli/completion/yoke

cli/man/yoke.1: cli/manual_build
	$(AM_V_GEN)$(MKDIR_P) cli/man && cli/manual_build >$@.new && mv -f $@.new $@
cli/man/yoke-%.1: cli/manual_build
	$(AM_V_GEN)$(MKDIR_P) cli/man && cli/manual_build $* >$@.new && mv -f $@.new $@
cli/completion/yoke: cli/manual_build
	$(AM_V_GEN)$(MKDIR_P) cli/completion && cli/manual_build completion >$@.new && mv -f $@.new $@

check_PROGRAMS += tests/unit/cli_options
tests_unit_cli_options_SOURCES = tests/unit/cli_options.c cli/options.c cli/resolve.c cli/config.c cli/printable.c cli/output.c
tests_unit_cli_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(YAML_CFLAGS)
tests_unit_cli_options_LDADD = libyoke.la $(CMOCKA_LIBS) $(YAML_LIBS)
YOKE_TESTS += "tests/unit/cli_options"

if WITH_MPI
check_PROGRAMS += tests/unit/bench_collectives
tests_unit_bench_collectives_SOURCES = tests/unit/bench_collectives.c cli/bench_data.c cli/bench_table.c
tests_unit_bench_collectives_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(MPICH_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_bench_collectives_LDADD = libyoke-comm.la libyoke.la $(CMOCKA_LIBS) $(JANSSON_LIBS) -lm
YOKE_TESTS += "tests/unit/bench_collectives"
check_PROGRAMS += tests/unit/cli_trace
tests_unit_cli_trace_SOURCES = tests/unit/cli_trace.c cli/trace.c cli/trace_text.c cli/trace_json.c cli/options.c cli/resolve.c cli/config.c
tests_unit_cli_trace_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(YAML_CFLAGS) $(JANSSON_CFLAGS) $(MPICH_CFLAGS)
tests_unit_cli_trace_LDADD = libyoke-comm.la libyoke.la $(CMOCKA_LIBS) $(YAML_LIBS) $(JANSSON_LIBS)
YOKE_TESTS += "tests/unit/cli_trace"

check_PROGRAMS += tests/unit/cli_schedule
tests_unit_cli_schedule_SOURCES = tests/unit/cli_schedule.c cli/schedule.c cli/schedule_text.c cli/schedule_moment.c cli/schedule_draw.c \
	cli/options.c cli/resolve.c cli/config.c
tests_unit_cli_schedule_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(YAML_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_cli_schedule_LDADD = libyoke-train.la libyoke.la $(CMOCKA_LIBS) $(YAML_LIBS) $(JANSSON_LIBS) -lm
YOKE_TESTS += "tests/unit/cli_schedule" "$(top_srcdir)/tests/unit/drawings ./yoke"

check_PROGRAMS += tests/unit/cli_pmi
tests_unit_cli_pmi_SOURCES = tests/unit/cli_pmi.c cli/pmi.h cli/pmi.c
tests_unit_cli_pmi_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_cli_pmi_LDADD = libyoke.la $(CMOCKA_LIBS)
YOKE_TESTS += tests/unit/cli_pmi
endif

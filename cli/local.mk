# yoke: the command.
bin_PROGRAMS += yoke
yoke_SOURCES = cli/cli.h cli/main.c cli/libraries/libraries.c cli/libraries/libraries.h cli/launch/job.h
yoke_SOURCES += \
	cli/options/config.c cli/options/estimate.c cli/options/help.c cli/options/json_values.h cli/options/line.c cli/options/manual.c \
	cli/options/manual_text.c cli/options/manual_text.h cli/options/manual_verb.c cli/options/names.c \
	cli/options/options.c cli/options/options.h cli/options/output.c cli/options/printable.c \
	cli/options/progress.c cli/options/progress.h cli/options/progress_draw.c cli/options/progress_said.h \
	cli/options/resolve.c cli/options/results.c cli/options/terminal.c cli/options/goal_rows.h cli/options/train_rows.h cli/options/values.c cli/options/variable_rows.h \
	cli/options/verbs.c cli/options/verbs.h
nodist_yoke_SOURCES = cli/options/manual_texts.c
yoke_SOURCES += \
	cli/devices/bits.c cli/devices/bits.h cli/devices/bits_table.c cli/devices/check.c cli/devices/child.c cli/devices/child.h cli/devices/choices.c cli/devices/info.c \
	cli/devices/info.h cli/devices/speed.c cli/devices/verify.c cli/devices/verify.h cli/devices/verify_child.c \
	cli/devices/verify_json.c
yoke_SOURCES += \
	cli/bench/gemm.c cli/bench/gemm.h cli/bench/gemm_check.c cli/bench/kernel_options.c cli/bench/kernels.c \
	cli/bench/kernels.h cli/bench/kernels_limits.c cli/bench/kernels_table.c cli/bench/kernels_predict.c \
	cli/bench/rival_clblast.c cli/bench/rivals.c cli/bench/sides.c cli/bench/sides.h cli/bench/triad.c \
	cli/bench/triad.h
yoke_SOURCES += \
	cli/tune/choose.c cli/tune/compile.c cli/tune/measure.c cli/tune/tune.c cli/tune/tune.h
yoke_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS) $(YAML_CFLAGS) $(JANSSON_CFLAGS) $(MICROHTTPD_CFLAGS) $(ZLIB_CFLAGS)
if WITH_MPI
yoke_CPPFLAGS = $(AM_CPPFLAGS) -DCLI_HAS_MPI=1 $(MICROHTTPD_DEFINE) $(ZLIB_DEFINE)
yoke_SOURCES += \
	cli/bench/collectives.c cli/bench/collectives.h cli/bench/collectives_data.c cli/bench/collectives_limit.c \
	cli/bench/collectives_mpi.c cli/bench/collectives_sides.c cli/bench/collectives_table.c
yoke_SOURCES += cli/bench/cluster.c cli/bench/cluster.h cli/bench/cluster_links.c cli/bench/cluster_ops.c cli/bench/cluster_text.c
yoke_SOURCES += cli/bench/cluster_steps.c
yoke_SOURCES += \
	cli/compare/compare.c cli/compare/compare.h cli/compare/kernels.c cli/compare/kernels.h cli/compare/kernels_text.c \
	cli/compare/results.c cli/compare/runs.c cli/compare/runs.h cli/compare/runs_text.c
yoke_SOURCES += \
	cli/report/collectives.c cli/report/compared.c cli/report/devices.c cli/report/devices.h cli/report/ops.c \
	cli/report/products.c cli/report/roofline.c cli/report/values.c cli/report/verify.c cli/report/verify_bits.c \
	cli/report/kernels.c cli/report/kind.c cli/report/page.c cli/report/page.h cli/report/report.c cli/report/report.h cli/report/rows.c \
	cli/report/run.c cli/report/runs.c cli/report/sections.c cli/report/svg.c cli/report/svg.h \
	cli/report/svg_axes.c cli/report/svg_axes.h cli/report/svg_points.c \
	cli/report/faults.c cli/report/faults.h cli/report/lanes.c cli/report/lanes.h cli/report/plan.c cli/report/planned.c cli/report/planned.h \
	cli/report/record.c cli/report/record.h cli/report/timeline.c cli/report/timeline.h cli/report/zoom.c
yoke_SOURCES += cli/diagnose/apply.c cli/diagnose/diagnose.c cli/diagnose/diagnose.h cli/diagnose/events.c cli/diagnose/events.h
yoke_SOURCES += cli/diagnose/foreign.c cli/diagnose/json.c cli/diagnose/read.c cli/diagnose/text.c cli/diagnose/timeline.c
yoke_SOURCES += cli/diagnose/packed.c cli/diagnose/packed.h
yoke_SOURCES += cli/diagnose/foreign.h cli/diagnose/foreign_events.c cli/diagnose/foreign_steps.c cli/diagnose/foreign_sums.c
yoke_SOURCES += cli/diagnose/foreign_stages.c cli/diagnose/foreign_words.c
yoke_SOURCES += \
	cli/watch/ending.c cli/watch/follow.c cli/watch/history.c cli/watch/http.c cli/watch/lines.c cli/watch/screen.c \
	cli/watch/serve.c cli/watch/view.c cli/watch/watch.c cli/watch/watch.h
yoke_SOURCES += \
	cli/launch/agent.c cli/launch/agent.h cli/launch/auto.c cli/launch/auto.h cli/launch/cores.c cli/launch/cores.h cli/launch/look.c cli/launch/look.h cli/launch/look_hosts.c cli/launch/look_plan.c cli/launch/end_ranks.c cli/launch/end_ranks.h cli/launch/hello.c cli/launch/hold.c cli/launch/hold.h \
	cli/launch/hydra.c cli/launch/job.c cli/launch/job_dir.c cli/launch/job_dir.h cli/launch/launch.h cli/launch/lost_file.c \
	cli/launch/pmi.c cli/launch/pmi.h cli/launch/pmi_relay.c cli/launch/pmi_relay.h cli/launch/rank.c cli/launch/run.c cli/launch/shared_memory.c \
	cli/launch/shared_memory.h cli/launch/spawn.c cli/launch/supervise.c cli/launch/supervise.h \
	cli/launch/verb_words.c cli/launch/verdict.c cli/launch/verdict.h cli/launch/watch.c cli/launch/watch.h
yoke_SOURCES += \
	cli/show/blackbox.c cli/show/blackbox.h cli/show/blackbox_json.c cli/show/blackbox_text.c cli/show/schedule_verbs.c cli/show/schedule_label.c cli/show/schedule.h cli/show/schedule_draw.c cli/show/schedule_moment.c \
	cli/show/schedule_text.c cli/show/trace.c cli/show/trace.h cli/show/trace_json.c cli/show/trace_text.c cli/show/trace_words.c
yoke_SOURCES += \
	cli/train/dashboards.c cli/train/dashboards.h cli/train/ckpt.c cli/train/ckpt_diff.c cli/train/parity.c cli/train/plan_verb.c cli/train/plan_fixed.c cli/train/plan_fixed.h cli/train/plan_model.c cli/train/plan_model.h cli/train/plan_search.c cli/train/plan_search.h cli/train/plan_search_show.c cli/train/plan_source.c \
	cli/train/plan_source.h cli/train/run_record.c cli/train/run_record.h cli/train/sample.c cli/train/tokenize.c cli/train/train.c
yoke_SOURCES += cli/train/memo_nothing.c cli/train/memo_parts.c
yoke_SOURCES += cli/train/memo_measured.c cli/train/memo_measured.h
yoke_SOURCES += cli/train/search_choices.c cli/train/search_choices.h
yoke_SOURCES += cli/train/plan_measure.c cli/train/plan_measure.h
yoke_SOURCES += cli/train/memo.c cli/train/memo.h cli/train/memo_checks.c cli/train/memo_risks.c cli/train/search_advice.c cli/train/search_advice.h cli/train/search_goal.c cli/train/search_goal.h cli/postmortem/go_on.c cli/postmortem/json.c cli/postmortem/postmortem.c cli/postmortem/postmortem.h cli/postmortem/text.c
yoke_SOURCES += cli/train/search_layout.c
yoke_SOURCES += cli/train/plan_predict.c cli/postmortem/job.c
yoke_SOURCES += cli/train/communicators.c cli/train/communicators.h cli/train/replay.c
yoke_LDADD = libconform.la $(LIBYOKE_TRAIN) $(LIBYOKE_COMM) $(LIBYOKE) $(MPICH_LIBS) $(YAML_LIBS) $(JANSSON_LIBS) $(MICROHTTPD_LIBS) $(ZLIB_LIBS)
else
yoke_CPPFLAGS = $(AM_CPPFLAGS) -DCLI_HAS_MPI=0
yoke_SOURCES += cli/no_mpi.c
yoke_LDADD = libconform.la $(LIBYOKE) $(YAML_LIBS) $(JANSSON_LIBS)
endif

# The commit of the source tree, if it is a clone and git is there. Each make looks, and the file changes only with
# the commit.
BUILT_SOURCES += cli/train/commit.h
CLEANFILES += cli/train/commit.h
cli/train/commit.h: cli-look-for-commit
	@$(MKDIR_P) cli/train && top=`cd $(top_srcdir) && pwd -P` && commit= && \
	if test "`git -C $$top rev-parse --show-toplevel 2>/dev/null`" = "$$top"; then \
	  commit=`git --no-optional-locks -C $$top describe --always --abbrev=12 --match=- --dirty=+ 2>/dev/null`; fi; \
	echo "#define CLI_COMMIT \"$$commit\"" > $@.new && \
	if cmp -s $@.new $@; then rm -f $@.new; else mv $@.new $@; fi
.PHONY: cli-look-for-commit
cli/train/yoke-run_record.$(OBJEXT): cli/train/commit.h
cli-look-for-commit:

# The prose of the manual pages, embedded in the command and in the program that writes the pages.
MANUAL_TEXTS = \
	cli/options/manual/bench-allreduce.txt cli/options/manual/blackbox.txt cli/options/manual/bench-collectives.txt \
	cli/options/manual/bench-gemm.txt cli/options/manual/bench-kernels.txt cli/options/manual/ckpt-convert.txt \
	cli/options/manual/ckpt-diff.txt cli/options/manual/ckpt-ls.txt cli/options/manual/ckpt-show.txt \
	cli/options/manual/ckpt-verify.txt cli/options/manual/compare.txt cli/options/manual/compile.txt cli/options/manual/hello.txt cli/options/manual/info.txt \
	cli/options/manual/postmortem.txt cli/options/manual/look.txt cli/options/manual/manual.txt cli/options/manual/parity.txt cli/options/manual/plan.txt \
	cli/options/manual/rank.txt cli/options/manual/report.txt cli/options/manual/run.txt cli/options/manual/sample.txt \
	cli/options/manual/schedule-check.txt cli/options/manual/schedule-show.txt cli/options/manual/tokenize.txt \
	cli/options/manual/trace.txt cli/options/manual/train.txt cli/options/manual/tune.txt \
	cli/options/manual/verify.txt cli/options/manual/watch.txt cli/options/manual/yoke.txt
MANUAL_TEXTS += cli/options/manual/bench-cluster.txt cli/options/manual/diagnose.txt cli/options/manual/replay.txt
EXTRA_DIST += $(MANUAL_TEXTS)
CLEANFILES += cli/options/manual_texts.c
cli/options/manual_texts.c: $(MANUAL_TEXTS) $(top_srcdir)/backends/gpu/embed.sed
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	{ echo "/* Generated from cli/options/manual. */"; echo '#include "cli/options/manual_text.h"'; \
	  echo "const struct cli_manual_text cli_manual_texts[] = {"; \
	  for text in $(MANUAL_TEXTS); do \
	    echo "{ \"`basename $$text .txt`\","; \
	    sed -f $(top_srcdir)/backends/gpu/embed.sed $(top_srcdir)/$$text || exit 1; echo "},"; \
	  done; echo "{ 0, 0 } };"; } >$@.new && mv -f $@.new $@

# Manual pages and completion are written from the command's tables by a program for the machine that builds.
manual_build_sources = cli/options/manual_build.c cli/options/manual.c cli/options/manual_text.c \
	cli/options/names.c cli/options/options.c cli/options/verbs.c core/base/text.c
EXTRA_DIST += cli/options/manual_build.c
CLEANFILES += cli/options/manual_build
cli/options/manual_build: $(manual_build_sources) cli/options/manual_texts.c cli/cli.h cli/options/manual_text.h cli/options/goal_rows.h cli/options/options.h cli/options/train_rows.h cli/options/variable_rows.h cli/options/verbs.h core/base/base.h include/yoke/base.h parallel/schedule.h train/models/kinds.h
	$(AM_V_GEN)$(MKDIR_P) cli/options && cd $(top_srcdir) && $(CC_FOR_BUILD) -std=gnu11 -D_GNU_SOURCE -Iinclude -I. $(manual_build_sources) \
		$(abs_top_builddir)/cli/options/manual_texts.c -o $(abs_top_builddir)/$@.new && \
		mv -f $(abs_top_builddir)/$@.new $(abs_top_builddir)/$@
YOKE_MAN_PAGES = cli/man/yoke.1 cli/man/yoke-info.1 cli/man/yoke-run.1 cli/man/yoke-verify.1 cli/man/yoke-bench-gemm.1 cli/man/yoke-bench-collectives.1 cli/man/yoke-bench-allreduce.1 cli/man/yoke-train.1 cli/man/yoke-plan.1 cli/man/yoke-parity.1 cli/man/yoke-trace.1 cli/man/yoke-schedule-show.1 cli/man/yoke-schedule-check.1 \
	cli/man/yoke-ckpt-ls.1 cli/man/yoke-ckpt-show.1 cli/man/yoke-ckpt-verify.1 cli/man/yoke-ckpt-diff.1 cli/man/yoke-ckpt-convert.1
YOKE_MAN_PAGES += cli/man/yoke-compile.1 cli/man/yoke-tune.1 cli/man/yoke-bench-kernels.1
YOKE_MAN_PAGES += cli/man/yoke-postmortem.1
YOKE_MAN_PAGES += cli/man/yoke-blackbox.1 cli/man/yoke-report.1 cli/man/yoke-sample.1 cli/man/yoke-tokenize.1 cli/man/yoke-watch.1
YOKE_MAN_PAGES += cli/man/yoke-diagnose.1
YOKE_MAN_PAGES += cli/man/yoke-bench-cluster.1
nodist_man_MANS += $(YOKE_MAN_PAGES)
completiondir = $(datadir)/bash-completion/completions
nodist_completion_DATA = cli/completion/yoke
CLEANFILES += $(YOKE_MAN_PAGES) cli/completion/yoke

cli/man/yoke.1: cli/options/manual_build
	$(AM_V_GEN)$(MKDIR_P) cli/man && cli/options/manual_build >$@.new && mv -f $@.new $@
cli/man/yoke-%.1: cli/options/manual_build
	$(AM_V_GEN)$(MKDIR_P) cli/man && cli/options/manual_build $* >$@.new && mv -f $@.new $@
cli/completion/yoke: cli/options/manual_build
	$(AM_V_GEN)$(MKDIR_P) cli/completion && cli/options/manual_build completion >$@.new && mv -f $@.new $@

# What the tests of the options and of single verbs link of the command.
option_sources = cli/options/config.c cli/options/line.c cli/options/names.c cli/options/options.c \
	cli/options/resolve.c cli/options/values.c cli/options/verbs.c

EXTRA_PROGRAMS += tests/unit/cli_options
tests_unit_cli_options_SOURCES = tests/unit/cli_options.c $(option_sources) cli/options/estimate.c cli/options/output.c \
	cli/options/printable.c cli/options/progress.c cli/options/progress_draw.c cli/options/terminal.c
tests_unit_cli_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(YAML_CFLAGS)
tests_unit_cli_options_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) $(YAML_LIBS)
YOKE_TESTS += "tests/unit/cli_options"

EXTRA_PROGRAMS += tests/unit/cli_progress
tests_unit_cli_progress_SOURCES = tests/unit/cli_progress.c cli/options/progress.c
tests_unit_cli_progress_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_cli_progress_LDADD = $(LIBYOKE) $(CMOCKA_LIBS)
YOKE_TESTS += "tests/unit/cli_progress"

EXTRA_PROGRAMS += tests/unit/cli_estimate
tests_unit_cli_estimate_SOURCES = tests/unit/cli_estimate.c cli/options/estimate.c
tests_unit_cli_estimate_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_cli_estimate_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) -lm
EXTRA_DIST += tests/unit/progress
YOKE_TESTS += "tests/unit/cli_estimate" "$(top_srcdir)/tests/unit/progress ./yoke"

if WITH_MPI
EXTRA_PROGRAMS += tests/unit/bench_collectives
tests_unit_bench_collectives_SOURCES = tests/unit/bench_collectives.c cli/bench/collectives_data.c cli/bench/collectives_table.c
tests_unit_bench_collectives_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(MPICH_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_bench_collectives_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(CMOCKA_LIBS) $(JANSSON_LIBS) -lm
YOKE_TESTS += "tests/unit/bench_collectives"
EXTRA_PROGRAMS += tests/unit/cli_trace
tests_unit_cli_trace_SOURCES = tests/unit/cli_trace.c cli/show/trace.c cli/show/trace_text.c cli/show/trace_words.c cli/show/trace_json.c cli/options/results.c $(option_sources)
tests_unit_cli_trace_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(YAML_CFLAGS) $(JANSSON_CFLAGS) $(MPICH_CFLAGS)
tests_unit_cli_trace_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(CMOCKA_LIBS) $(YAML_LIBS) $(JANSSON_LIBS)
YOKE_TESTS += "tests/unit/cli_trace"

EXTRA_PROGRAMS += tests/unit/cli_auto
tests_unit_cli_auto_SOURCES = tests/unit/cli_auto.c cli/launch/auto.c
tests_unit_cli_auto_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_cli_auto_LDADD = $(LIBYOKE) $(CMOCKA_LIBS) -lm
YOKE_TESTS += "tests/unit/cli_auto"

EXTRA_PROGRAMS += tests/unit/memo_measured
tests_unit_memo_measured_SOURCES = tests/unit/memo_measured.c cli/train/memo_measured.c
tests_unit_memo_measured_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_memo_measured_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE) $(CMOCKA_LIBS) -lm
YOKE_TESTS += 'TMPDIR=/dev/shm tests/unit/memo_measured'

EXTRA_PROGRAMS += tests/unit/cli_lost_file
tests_unit_cli_lost_file_SOURCES = tests/unit/cli_lost_file.c cli/launch/lost_file.c
tests_unit_cli_lost_file_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(MPICH_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_cli_lost_file_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE_COMM) $(LIBYOKE) $(CMOCKA_LIBS) -lpthread
YOKE_TESTS += 'TMPDIR=/dev/shm tests/unit/cli_lost_file'

EXTRA_PROGRAMS += tests/unit/train_options
tests_unit_train_options_SOURCES = tests/unit/train_options.c cli/train/plan_source.c cli/train/plan_fixed.c cli/train/plan_model.c \
	$(option_sources)
tests_unit_train_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(YAML_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_train_options_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE) $(CMOCKA_LIBS) $(YAML_LIBS) $(JANSSON_LIBS) -lm
YOKE_TESTS += 'TMPDIR=/dev/shm tests/unit/train_options'

EXTRA_PROGRAMS += tests/unit/cli_schedule
tests_unit_cli_schedule_SOURCES = tests/unit/cli_schedule.c cli/options/progress.c cli/show/schedule_verbs.c cli/show/schedule_label.c cli/show/schedule_text.c cli/show/schedule_moment.c cli/show/schedule_draw.c \
	cli/options/results.c $(option_sources)
tests_unit_cli_schedule_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(YAML_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_cli_schedule_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE) $(CMOCKA_LIBS) $(YAML_LIBS) $(JANSSON_LIBS) -lm
YOKE_TESTS += "$(top_srcdir)/tests/unit/diagnose_command ./yoke"
YOKE_TESTS += "$(top_srcdir)/tests/unit/diagnose_foreign ./yoke"
EXTRA_DIST += tests/unit/diagnose_foreign
EXTRA_DIST += tests/unit/diagnose_command tests/unit/traces/README.md tests/unit/traces/merged.json tests/unit/traces/pytorch_rank0.json tests/unit/traces/pytorch_rank1.json
YOKE_TESTS += "$(top_srcdir)/tests/unit/report_devices ./yoke" "tests/unit/cli_schedule" "$(top_srcdir)/tests/unit/drawings ./yoke" "$(top_srcdir)/tests/unit/report_pages ./yoke" "$(top_srcdir)/tests/unit/report_runs ./yoke" "$(top_srcdir)/tests/unit/watch_view ./yoke" "$(top_srcdir)/tests/unit/watch_serve ./yoke"

EXTRA_PROGRAMS += tests/unit/cli_pmi tests/unit/cli_pmi_relay tests/unit/cli_shared_memory tests/unit/cli_end_ranks
tests_unit_cli_pmi_SOURCES = tests/unit/cli_pmi.c cli/launch/pmi.h cli/launch/pmi.c
tests_unit_cli_pmi_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_cli_pmi_LDADD = $(LIBYOKE) $(CMOCKA_LIBS)
tests_unit_cli_pmi_relay_SOURCES = tests/unit/cli_pmi_relay.c cli/launch/pmi_relay.h cli/launch/pmi_relay.c
tests_unit_cli_pmi_relay_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_cli_pmi_relay_LDADD = $(LIBYOKE) $(CMOCKA_LIBS)
tests_unit_cli_shared_memory_SOURCES = tests/unit/cli_shared_memory.c cli/launch/shared_memory.h cli/launch/shared_memory.c
tests_unit_cli_shared_memory_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_cli_shared_memory_LDADD = libflight.la $(LIBYOKE) $(CMOCKA_LIBS)
tests_unit_cli_end_ranks_SOURCES = tests/unit/cli_end_ranks.c cli/launch/end_ranks.h cli/launch/end_ranks.c
tests_unit_cli_end_ranks_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_cli_end_ranks_LDADD = libflight.la $(LIBYOKE) $(CMOCKA_LIBS)
YOKE_TESTS += tests/unit/cli_pmi tests/unit/cli_pmi_relay tests/unit/cli_shared_memory tests/unit/cli_end_ranks
endif

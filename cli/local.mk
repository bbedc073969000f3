# yoke: the command.
bin_PROGRAMS += yoke
yoke_SOURCES = \
	cli/cli.h cli/options.h cli/options.c cli/resolve.c cli/config.c cli/help.c cli/manual.c cli/output.c cli/verbs.c cli/main.c \
	cli/job.h cli/job.c cli/job_dir.h cli/job_dir.c cli/rank.c cli/run.c cli/supervise.h cli/supervise.c cli/verdict.c cli/hello.c \
	cli/child.h cli/child.c cli/info.h cli/info.c cli/speed.c cli/check.c cli/verify.c \
	cli/bench_gemm.h cli/bench_gemm.c cli/gemm_check.c cli/peak.c cli/rivals.c cli/rival_clblast.c \
	cli/train.c
yoke_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS) $(YAML_CFLAGS) $(JANSSON_CFLAGS)
yoke_LDADD = libconform.la libyoke-train.la libyoke-comm.la libyoke.la $(MPICH_LIBS) $(YAML_LIBS) $(JANSSON_LIBS)

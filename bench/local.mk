# Benchmarks: programs that verify their result first and print ratios.
noinst_PROGRAMS += bench/opencl_gemm
bench_opencl_gemm_SOURCES = bench/opencl_gemm.c
bench_opencl_gemm_LDADD = $(LIBYOKE) -lm
EXTRA_DIST += bench/README.md bench/train_torch.py bench/results
if WITH_MPI
noinst_PROGRAMS += bench/dashboards
bench_dashboards_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS) $(JANSSON_CFLAGS)
bench_dashboards_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE_COMM) $(LIBYOKE) -lm
noinst_PROGRAMS += bench/train
noinst_PROGRAMS += bench/predict
bench_predict_SOURCES = bench/predict.c
bench_predict_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE) -lm
bench_train_SOURCES = bench/rival.h bench/train.h bench/train.c bench/train_llmc.c
# Its rival is a script that is not built: found from any build folder.
bench_train_CPPFLAGS = $(AM_CPPFLAGS) -DSOURCES='"$(abs_top_srcdir)"'
bench_train_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE) -lm
noinst_PROGRAMS += bench/blackbox
bench_blackbox_SOURCES = bench/blackbox.c
bench_blackbox_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
bench_blackbox_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE) -lm
endif
noinst_PROGRAMS += bench/attention
bench_attention_SOURCES = bench/rival.h bench/attention.c tests/conform/attention_sample.h tests/conform/attention_sample.c
bench_attention_CPPFLAGS = $(AM_CPPFLAGS) -DSOURCES='"$(abs_top_srcdir)"'
bench_attention_LDADD = libconform.la $(LIBYOKE) -lm
EXTRA_DIST += bench/attention_torch.py
noinst_PROGRAMS += bench/collectives
bench_collectives_SOURCES = bench/collectives.h bench/collectives_rows.c bench/collectives_neighbour.c bench/collectives.c
# Runs the command of this build, and compiles the other MPI's side where there is its compiler.
bench_collectives_CPPFLAGS = $(AM_CPPFLAGS) -DSOURCES='"$(abs_top_srcdir)"' -DBUILD='"$(abs_top_builddir)"'
bench_collectives_LDADD = $(LIBYOKE) -lm
EXTRA_DIST += bench/openmpi_collectives.c
CLEANFILES += bench/openmpi_collectives
EXTRA_DIST += bench/start bench/hosts bench/islands bench/layouts bench/memory bench/overlap bench/balance bench/plan bench/audit
if WITH_MPI
noinst_PROGRAMS += bench/goodput
bench_goodput_SOURCES = bench/goodput.c
bench_goodput_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
bench_goodput_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(MPICH_LIBS)
noinst_PROGRAMS += bench/clusters
bench_clusters_SOURCES = bench/clusters.c
bench_clusters_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
bench_clusters_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) -lm
noinst_PROGRAMS += bench/bridge
bench_bridge_SOURCES = bench/bridge.c
bench_bridge_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
bench_bridge_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(MPICH_LIBS) -lm
endif
noinst_PROGRAMS += bench/two_copies
bench_two_copies_SOURCES = bench/two_copies.c

# the predicted and the measured steps of layouts; a piece of make soak has a turn for each model
EXTRA_DIST += bench/plan_grid tests/ranks/plan_grid_numbers

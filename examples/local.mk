# Examples: built and run by `make check`, and compiled against an installed Yoke by tests/install.
check_PROGRAMS += examples/gemm
EXTRA_DIST += examples/check
YOKE_TESTS += $(top_srcdir)/examples/check
examples_gemm_SOURCES = examples/gemm.c
examples_gemm_LDADD = libyoke.la
check_PROGRAMS += examples/own_layer
examples_own_layer_SOURCES = examples/own_layer.c
examples_own_layer_LDADD = libyoke-train.la libyoke.la -lm
YOKE_TESTS += 'OMP_NUM_THREADS=1 examples/own_layer host'

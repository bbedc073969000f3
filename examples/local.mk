# Examples: built and run by `make check`, and compiled against an installed Yoke by tests/install.
check_PROGRAMS += examples/gemm
EXTRA_DIST += examples/check
YOKE_TESTS += $(top_srcdir)/examples/check
examples_gemm_SOURCES = examples/gemm.c
examples_gemm_LDADD = libyoke.la

# tests/gpu: what runs on a machine with a GPU (bundle packs it here, run runs it there), and a check of both without one.
EXTRA_DIST += tests/gpu/bundle tests/gpu/run tests/gpu/check
check_PROGRAMS += tests/gpu/platforms
tests_gpu_platforms_LDADD = -ldl
YOKE_TESTS += 'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/gpu/check'

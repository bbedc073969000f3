# tests/gpu: what runs on a machine with a GPU (bundle packs it here, run runs it there), a check of both without one, and yoke compile.
EXTRA_DIST += tests/gpu/bundle tests/gpu/run tests/gpu/check tests/gpu/compile tests/gpu/wheels tests/gpu/fetch-nvrtc tests/gpu/fetch-intel tests/gpu/newest
EXTRA_PROGRAMS += tests/gpu/platforms
tests_gpu_platforms_LDADD = -ldl
YOKE_TESTS += 'long OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/gpu/check'
YOKE_TESTS += '$(top_srcdir)/tests/gpu/compile' 'soak $(top_srcdir)/tests/gpu/newest'
clean-local-nvrtc:
	rm -rf nvrtc-newest
clean-local: clean-local-nvrtc

# The executor of PTX: hand-written texts, and Yoke's kernels where NVRTC is installed.
ptx_world = tests/unit/ptx_world.c tests/unit/ptx_world.h
ptx_programs = tests/unit/ptx_kernels
check_PROGRAMS += $(ptx_programs)
YOKE_TESTS += $(ptx_programs)
tests_unit_ptx_kernels_SOURCES = tests/unit/ptx_kernels.c tests/unit/gpu_catalog.c tests/unit/rtc.h $(ptx_world)
tests_unit_ptx_kernels_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_ptx_kernels_LDADD = libemulate-ptx.la libyoke.la $(CMOCKA_LIBS) -lm

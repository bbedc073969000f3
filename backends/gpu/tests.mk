# Every device program under the vendors' compilers, where these are installed.
EXTRA_PROGRAMS += tests/unit/nvrtc_kernels tests/unit/hiprtc_kernels
tests_unit_nvrtc_kernels_SOURCES = tests/unit/nvrtc_kernels.c tests/unit/rtc.c tests/unit/rtc.h
tests_unit_nvrtc_kernels_LDADD = $(LIBYOKE)
tests_unit_hiprtc_kernels_SOURCES = tests/unit/hiprtc_kernels.c tests/unit/rtc.c tests/unit/rtc.h
tests_unit_hiprtc_kernels_LDADD = $(LIBYOKE)
YOKE_TESTS += 'long tests/unit/nvrtc_kernels' tests/unit/hiprtc_kernels

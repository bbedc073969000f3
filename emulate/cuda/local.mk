# emulate/cuda: a stand-in for NVIDIA's libcuda.so.1. It lies in a folder of its own, where no loader looks.
emulate_cudadir = $(pkglibdir)/emulate/cuda
emulate_cuda_LTLIBRARIES = emulate/cuda/libcuda.la
emulate_cuda_libcuda_la_SOURCES = emulate/cuda/api.h emulate/cuda/emulate.h emulate/cuda/driver.h emulate/cuda/ptx.h \
	emulate/cuda/settings.c emulate/cuda/names.c emulate/cuda/device.c emulate/cuda/context.c emulate/cuda/memory.c \
	emulate/cuda/registered.c emulate/cuda/copy.c emulate/cuda/stream.c emulate/cuda/event.c emulate/cuda/module.c \
	emulate/cuda/launch.c emulate/cuda/report.c
emulate_cuda_libcuda_la_LIBADD = -lpthread -lm
# The threads of streams must not lose their code when a program closes the library.
emulate_cuda_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -export-symbols-regex '^(cu[A-Z]|yoke_emulate_)' -Wl,-z,nodelete
EXTRA_DIST += emulate/cuda/README.md

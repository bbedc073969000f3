# backends/cuda: the driver; its kernels and ops stand in backends/gpu.
libyoke_la_SOURCES += \
	backends/cuda/api.h backends/cuda/cuda.h backends/cuda/library.c backends/cuda/nvrtc.c backends/cuda/error.c \
	backends/cuda/device.c backends/cuda/memory.c backends/cuda/words.c backends/cuda/stream.c \
	backends/cuda/event.c backends/cuda/program.c
EXTRA_DIST += backends/cuda/README.md

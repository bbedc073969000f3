# backends/opencl: the driver; its kernels and ops stand in backends/gpu.
libyoke_la_SOURCES += \
	backends/opencl/opencl.h backends/opencl/library.c backends/opencl/device.c backends/opencl/addresses.c \
	backends/opencl/memory.c backends/opencl/stream.c backends/opencl/event.c backends/opencl/program.c

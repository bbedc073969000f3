# backends/gpu/runtime: what the drivers of CUDA and HIP share.
libyoke_la_SOURCES += \
	backends/gpu/runtime/runtime.h backends/gpu/runtime/folders.h backends/gpu/runtime/context.c \
	backends/gpu/runtime/copy.c backends/gpu/runtime/device.c backends/gpu/runtime/event.c \
	backends/gpu/runtime/folders.c backends/gpu/runtime/groups.c backends/gpu/runtime/launch.c \
	backends/gpu/runtime/life.c backends/gpu/runtime/memory.c backends/gpu/runtime/pinned.c \
	backends/gpu/runtime/products.h backends/gpu/runtime/products.c \
	backends/gpu/runtime/stand_in.c backends/gpu/runtime/stream.c

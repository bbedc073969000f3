# emulate/gpu: the core of the stand-in drivers, and what their executors share. It knows no vendor: each stand-in links it with the
# vendor's entry points and one executor. All symbols but the vendor's and yoke_emulate_* are hidden, and -Bsymbolic binds those
# within the library, so two stand-ins can be open in one process.
noinst_LTLIBRARIES += libemulate-gpu.la libemulate-kernel.la
libemulate_gpu_la_SOURCES = emulate/gpu/emulate.h emulate/gpu/errors.h emulate/gpu/driver.h emulate/gpu/settings.c emulate/gpu/lock.c \
	emulate/gpu/log.c emulate/gpu/context.c emulate/gpu/zones.c emulate/gpu/memory.c emulate/gpu/apart.c emulate/gpu/registered.c emulate/gpu/share.c \
	emulate/gpu/copy.c emulate/gpu/stream.c emulate/gpu/event.c emulate/gpu/channel.c emulate/gpu/order.h emulate/gpu/order.c \
	emulate/gpu/tally.c emulate/gpu/module.c emulate/gpu/launch.c emulate/gpu/foreign.c emulate/gpu/annotate.c emulate/gpu/labels.h \
	emulate/gpu/labels.c emulate/gpu/report.c emulate/gpu/calls.h emulate/gpu/calls.c emulate/gpu/calls_stream.c
# What an executor needs. Each executor's library contains it.
libemulate_kernel_la_SOURCES = emulate/gpu/kernel.h emulate/gpu/kernel.c emulate/gpu/kernel_footprint.h emulate/gpu/kernel_footprint.c \
	emulate/gpu/blocks.h emulate/gpu/blocks.c
# nodelete: the threads of streams must not lose their code when a program closes the library.
EMULATE_LDFLAGS = -Wl,-z,nodelete -Wl,-Bsymbolic
EXTRA_DIST += emulate/gpu/README.md

# The checks of memory. Each executor compiles them with its own parts.
kernel_checks = emulate/gpu/check.h emulate/gpu/check_tags.h emulate/gpu/check_global.c emulate/gpu/check_shared.c \
	emulate/gpu/check_threads.c

# Products of matrices, for stand-ins of the vendors' libraries.
noinst_LTLIBRARIES += libemulate-product.la
libemulate_product_la_SOURCES = emulate/gpu/product.h emulate/gpu/floats.h emulate/gpu/product.c emulate/gpu/product_dot.c

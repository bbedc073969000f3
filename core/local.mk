lib_LTLIBRARIES += libyoke.la
pkgconfig_DATA += core/libyoke.pc
# Tuning files for kinds of devices: see docs/TUNING.md.
tuningdir = $(pkgdatadir)/tuning
dist_tuning_DATA = core/tuning/opencl-pocl-vector16.tune
# backends/*/local.mk append their sources and convenience libraries.
libyoke_la_SOURCES = \
	core/backend.h core/choices.c core/names.c core/device.h core/device.c core/maker.c core/memory.c core/pin.c core/host_memory.c core/held.h core/held.c core/stream.c core/eager.c core/tune.h core/tune.c core/tune_file.c core/tune_find.c \
	core/open/registry.h core/open/registry.c core/open/discover.c core/open/open.c core/open/ahead.c \
	core/base/base.h core/base/times.h core/base/emulated.h core/base/map_shared.h core/base/choices.h core/base/status.c core/base/busy.c core/base/busy.h core/base/log.c core/base/dtype.c core/base/philox.c core/base/turns.c core/base/exact.h core/base/exact.c core/base/file.c core/base/mapped.c core/base/output.c core/base/disk.c \
	core/base/dl.c core/base/topology.c core/base/binding.h core/base/binding.c core/base/host.c core/base/wait.c core/base/text.c core/base/live.c core/base/fork.c core/base/pocl.c core/base/signals.c \
	core/base/bell.h core/base/bell.c \
	core/ops/check.h core/ops/check.c core/ops/call.c core/ops/gemm.c core/ops/gemm_peak.c core/ops/norm.c core/ops/act.c core/ops/attention.c \
	core/ops/embed.c core/ops/loss.c core/ops/optim.c core/ops/cast.c core/ops/elementwise.c core/ops/rope.c
libyoke_la_SOURCES += core/copy_rate.c
libyoke_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS) $(XXHASH_CFLAGS)
libyoke_la_LIBADD = $(HWLOC_LIBS) $(XXHASH_LIBS)
libyoke_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,--version-script=core/libyoke.map
EXTRA_libyoke_la_DEPENDENCIES = core/libyoke.map

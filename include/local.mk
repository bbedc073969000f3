yokeincludedir = $(includedir)/yoke
yokeinclude_HEADERS = include/yoke/base.h include/yoke/device.h include/yoke/yoke.h
if WITH_MPI
yokeinclude_HEADERS += include/yoke/algorithms.h include/yoke/comm.h include/yoke/layer.h include/yoke/train.h
endif
yokeopsincludedir = $(includedir)/yoke/ops
yokeopsinclude_HEADERS = \
	include/yoke/ops/act.h include/yoke/ops/attention.h include/yoke/ops/cast.h include/yoke/ops/common.h include/yoke/ops/families.h \
	include/yoke/ops/rope.h include/yoke/ops/elementwise.h include/yoke/ops/embed.h include/yoke/ops/gemm.h include/yoke/ops/loss.h \
	include/yoke/ops/norm.h include/yoke/ops/optim.h

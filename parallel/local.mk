# parallel: parameters and their shards, schedules, the step program, its memory and its interpreter (train/local.mk goes on with +=).
libyoke_train_la_SOURCES = \
	parallel/layer.c parallel/observer.h parallel/parameters.h parallel/parameters.c parallel/schedule.h parallel/schedule.c parallel/schedule_make.c parallel/schedule_check.c parallel/simulate.h parallel/simulate.c \
	parallel/state.h parallel/state.c parallel/program.h parallel/program.c parallel/list_ops.c parallel/gaps.h parallel/gaps.c parallel/place_buffers.c parallel/order.c parallel/annotate.c parallel/interpreter.c parallel/slow.c parallel/record.h parallel/record.c parallel/stamps.h parallel/stamps.c \
	parallel/mesh.h parallel/mesh.c parallel/balance.h parallel/balance.c
libyoke_train_la_SOURCES += parallel/op_times.h parallel/op_times.c

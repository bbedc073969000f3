# libyoke-comm: the collectives; MPI ends here.
# The room flight knows no MPI: the agent and the supervisor of `yoke run` use it too, as libflight.
flight_files = collectives/flight/flight.h collectives/flight/flight.c collectives/flight/mpi_limits.h collectives/flight/mpi_limits.c collectives/flight/postmortem.h collectives/flight/postmortem.c
noinst_LTLIBRARIES += libflight.la
libflight_la_SOURCES = $(flight_files)

lib_LTLIBRARIES += libyoke-comm.la
pkgconfig_DATA += collectives/libyoke-comm.pc
libyoke_comm_la_SOURCES = $(flight_files)
libyoke_comm_la_SOURCES += collectives/operation/hosts.h collectives/operation/message.h \
	collectives/operation/operation.h collectives/operation/operation.c
libyoke_comm_la_SOURCES += collectives/ground/comm.h collectives/ground/error.h collectives/ground/error.c \
	collectives/ground/held.c collectives/ground/process.h collectives/ground/process.c
libyoke_comm_la_SOURCES += collectives/arithmetic/sum.h collectives/arithmetic/sum.c \
	collectives/arithmetic/sum_fold.h collectives/arithmetic/sum_kernels.h
libyoke_comm_la_SOURCES += collectives/transport/allocations.h collectives/transport/allocations.c \
	collectives/transport/inject.h collectives/transport/inject.c collectives/transport/mpi.h \
	collectives/transport/mpi.c collectives/transport/part.h collectives/transport/shared.h \
	collectives/transport/shared.c collectives/transport/shm.h collectives/transport/shm.c \
	collectives/transport/stage.h collectives/transport/stage.c collectives/transport/transport.h
libyoke_comm_la_SOURCES += collectives/algorithms/algorithms.h collectives/algorithms/chain.c \
	collectives/algorithms/direct.c collectives/algorithms/dissemination.c collectives/algorithms/doubling.c \
	collectives/algorithms/exchange.c collectives/algorithms/halving.c collectives/algorithms/hierarchy.h collectives/algorithms/hierarchy.c \
	collectives/algorithms/hierarchy_parts.c collectives/algorithms/inside.h collectives/algorithms/inside.c \
	collectives/algorithms/leaders.c collectives/algorithms/leaders_all_to_all.c collectives/algorithms/linear.c collectives/algorithms/oneshot.c \
	collectives/algorithms/pairs.c collectives/algorithms/pieces.c collectives/algorithms/ring.c collectives/algorithms/slices.h \
	collectives/algorithms/slices.c collectives/algorithms/table.c
libyoke_comm_la_SOURCES += collectives/choice/choice.h collectives/choice/choice.c collectives/choice/costs.h \
	collectives/choice/costs.c collectives/choice/explain.c collectives/choice/part.h collectives/choice/predict.c collectives/choice/shares.h \
	collectives/choice/shares.c
libyoke_comm_la_SOURCES += collectives/faults/call_check.h collectives/faults/call_check.c collectives/faults/far.h \
	collectives/faults/far.c collectives/faults/part.h collectives/faults/report.h collectives/faults/report.c \
	collectives/faults/roll.h collectives/faults/roll.c collectives/faults/verdict.h collectives/faults/verdict.c \
	collectives/faults/witness.h collectives/faults/witness.c
libyoke_comm_la_SOURCES += collectives/engine/engine.h collectives/engine/engine.c collectives/engine/failure.c \
	collectives/engine/part.h collectives/engine/thread.c collectives/engine/wait.c
libyoke_comm_la_SOURCES += collectives/call/arguments.c collectives/call/call.h collectives/call/call.c \
	collectives/call/explain.c collectives/call/fuse.c collectives/call/group.c collectives/call/internal.h
libyoke_comm_la_SOURCES += collectives/making/alloc.c collectives/making/create.c collectives/making/crowd.c \
	collectives/making/finalize.c collectives/making/footprint.c collectives/making/hosts.c collectives/making/islands.c collectives/making/leave.c \
	collectives/making/making.h collectives/making/measure.h collectives/making/measure.c collectives/making/mpi_end.h \
	collectives/making/part.h collectives/making/probe.c collectives/making/process.c collectives/making/settings.c \
	collectives/making/setup.c collectives/making/shrink.c collectives/making/shrink_files.h \
	collectives/making/shrink_files.c collectives/making/speeds.c collectives/making/split.c \
	collectives/making/start_stop.c
libyoke_comm_la_SOURCES += collectives/replay/model.h collectives/replay/model.c collectives/replay/formulas.c \
	collectives/replay/replay.h collectives/replay/replay.c
libyoke_comm_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CFLAGS)
libyoke_comm_la_CFLAGS = $(AM_CFLAGS) -pthread
libyoke_comm_la_LIBADD = $(LIBYOKE) $(MPICH_LIBS) -lpthread -lm
libyoke_comm_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,--version-script=collectives/libyoke-comm.map
libyoke_comm_la_DEPENDENCIES = collectives/libyoke-comm.map

EXTRA_PROGRAMS += tests/unit/comm_sum tests/unit/comm_shares tests/unit/comm_flight tests/unit/comm_replay tests/unit/comm_steps tests/unit/comm_data
YOKE_TESTS += tests/unit/comm_sum tests/unit/comm_shares tests/unit/comm_flight tests/unit/comm_replay tests/unit/comm_steps tests/unit/comm_data
tests_unit_comm_steps_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(MPICH_CFLAGS)
tests_unit_comm_steps_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(CMOCKA_LIBS) -lm
tests_unit_comm_data_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(MPICH_CFLAGS)
tests_unit_comm_data_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(CMOCKA_LIBS) -lm
tests_unit_comm_replay_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(MPICH_CFLAGS)
tests_unit_comm_replay_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(CMOCKA_LIBS) -lm
tests_unit_comm_shares_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(MPICH_CFLAGS)
tests_unit_comm_shares_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(CMOCKA_LIBS) -lm
tests_unit_comm_sum_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(MPICH_CFLAGS)
tests_unit_comm_sum_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(CMOCKA_LIBS) -lm
tests_unit_comm_flight_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_comm_flight_LDADD = libflight.la $(LIBYOKE) $(CMOCKA_LIBS)

# libyoke-comm: the collectives; MPI ends here.
# libflight knows no MPI: the agent and the supervisor of `yoke run` use it too.
noinst_LTLIBRARIES += libflight.la
libflight_la_SOURCES = collectives/flight.h collectives/flight.c collectives/room.c collectives/postmortem.h collectives/postmortem.c

lib_LTLIBRARIES += libyoke-comm.la
pkgconfig_DATA += collectives/libyoke-comm.pc
libyoke_comm_la_SOURCES = \
	collectives/comm.h collectives/engine.h collectives/shm.h collectives/verdict.h collectives/message.h collectives/operation.h collectives/operation.c collectives/sum.h collectives/flight.h collectives/flight.c collectives/room.c collectives/postmortem.h collectives/postmortem.c collectives/comm.c collectives/start_stop.c collectives/setup.c collectives/crowd.c collectives/hosts.c collectives/process.c collectives/leave.c collectives/finalize.c collectives/far.c collectives/alloc.c collectives/split.c collectives/shrink.c collectives/shrink_files.c collectives/fuse.c collectives/costs.c collectives/shares.c collectives/speeds.c collectives/explain.c collectives/footprint.c \
	collectives/call.h collectives/arguments.c collectives/group.c collectives/call.c collectives/choice.c collectives/engine.c collectives/wait.c collectives/stage.c collectives/call_check.c collectives/verdict.c collectives/roll.h collectives/roll.c collectives/witness.c \
	collectives/sum.c collectives/sum_kernels.h collectives/sum_fold.h \
	collectives/algorithms/table.c collectives/algorithms/ring.c collectives/algorithms/doubling.c collectives/algorithms/chain.c \
	collectives/algorithms/dissemination.c collectives/algorithms/pairs.c collectives/algorithms/oneshot.c \
	collectives/algorithms/slices.c collectives/algorithms/linear.c collectives/algorithms/direct.c collectives/algorithms/exchange.c \
	collectives/algorithms/hierarchy.h collectives/algorithms/hierarchy.c collectives/algorithms/hierarchy_parts.c collectives/algorithms/leaders.c collectives/algorithms/leaders_all_to_all.c \
	collectives/transport/mpi.c collectives/transport/shm.c collectives/transport/inject.c
libyoke_comm_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CFLAGS)
libyoke_comm_la_CFLAGS = $(AM_CFLAGS) -pthread
libyoke_comm_la_LIBADD = $(LIBYOKE) $(MPICH_LIBS) -lpthread
libyoke_comm_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,--version-script=collectives/libyoke-comm.map
libyoke_comm_la_DEPENDENCIES = collectives/libyoke-comm.map

EXTRA_PROGRAMS += tests/unit/comm_sum tests/unit/comm_shares tests/unit/comm_flight
YOKE_TESTS += tests/unit/comm_sum tests/unit/comm_shares tests/unit/comm_flight
tests_unit_comm_shares_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(MPICH_CFLAGS)
tests_unit_comm_shares_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(CMOCKA_LIBS) -lm
tests_unit_comm_sum_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(MPICH_CFLAGS)
tests_unit_comm_sum_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(CMOCKA_LIBS) -lm
tests_unit_comm_flight_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_comm_flight_LDADD = libflight.la $(LIBYOKE) $(CMOCKA_LIBS)

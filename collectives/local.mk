# libyoke-comm: the collectives; MPI ends here.
# libflight knows no MPI: the agent and the supervisor of `yoke run` use it too.
noinst_LTLIBRARIES += libflight.la
libflight_la_SOURCES = collectives/flight.h collectives/flight.c

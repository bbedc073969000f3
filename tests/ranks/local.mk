# tests/ranks: what several ranks do together. tests/ranks/run N PROGRAM prints one TAP stream and ends in time.
EXTRA_DIST += tests/ranks/run
ranks_programs = tests/ranks/reductions
check_PROGRAMS += $(ranks_programs)
RANKS_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
RANKS_LDADD = libyoke-comm.la libyoke.la $(MPICH_LIBS) -lm
tests_ranks_reductions_SOURCES = tests/ranks/ranks.h tests/ranks/reductions.c
tests_ranks_reductions_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_reductions_LDADD = $(RANKS_LDADD)
YOKE_TESTS += \
	'$(top_srcdir)/tests/ranks/run 1 tests/ranks/reductions 10000000' \
	'$(top_srcdir)/tests/ranks/run 2 tests/ranks/reductions 10000000' \
	'$(top_srcdir)/tests/ranks/run 3 tests/ranks/reductions' \
	'$(top_srcdir)/tests/ranks/run 5 tests/ranks/reductions' \
	'$(top_srcdir)/tests/ranks/run 8 tests/ranks/reductions'

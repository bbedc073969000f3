# Hostile surroundings, inputs and ends: short here, whole in `make soak`.
EXTRA_DIST += tests/hostile/threads
YOKE_TESTS += "$(top_srcdir)/tests/hostile/threads ./yoke"
EXTRA_DIST += tests/hostile/files tests/hostile/harness.py
# By the program itself, not by libtool's script for it: it is started some 700 times.
YOKE_TESTS += "long $(LIBTOOL) --silent --mode=execute $(top_srcdir)/tests/hostile/files ./yoke"

EXTRA_PROGRAMS += tests/hostile/kills
tests_hostile_kills_SOURCES = tests/hostile/kills.c tests/faults/processes.h tests/faults/shared_files.h cli/launch/shared_memory.c
tests_hostile_kills_LDADD = libflight.la $(LIBYOKE)
YOKE_TESTS += "quiet tests/hostile/kills ./yoke $${YOKE_SOAK:+10}5 $${YOKE_SOAK:+10}5"
EXTRA_DIST += tests/hostile/environments
YOKE_TESTS += "$(top_srcdir)/tests/hostile/environments ./yoke"
EXTRA_DIST += tests/hostile/users tests/hostile/pocl_cache
YOKE_TESTS += "$(top_srcdir)/tests/hostile/pocl_cache ./yoke"
YOKE_TESTS += "$(top_srcdir)/tests/hostile/users ./yoke"

# Hostile surroundings, inputs and ends: short here, whole in `make soak`.
EXTRA_DIST += tests/hostile/threads
YOKE_TESTS += "$(top_srcdir)/tests/hostile/threads ./yoke"

check_PROGRAMS += tests/hostile/kills
tests_hostile_kills_LDADD = libflight.la libyoke.la
YOKE_TESTS += "tests/hostile/kills ./yoke $${YOKE_SOAK:+10}5 $${YOKE_SOAK:+10}5"

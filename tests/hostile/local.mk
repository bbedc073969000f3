# Hostile surroundings, inputs and ends: short here, whole in `make soak`.
EXTRA_DIST += tests/hostile/threads
YOKE_TESTS += "$(top_srcdir)/tests/hostile/threads ./yoke"
EXTRA_DIST += tests/hostile/environments
YOKE_TESTS += "$(top_srcdir)/tests/hostile/environments ./yoke"

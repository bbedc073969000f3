# tests/docs: what texts tell people to type works.
EXTRA_DIST += tests/docs/commands tests/docs/commands.txt tests/docs/info
YOKE_TESTS += $(top_srcdir)/tests/docs/info $(top_srcdir)/tests/docs/commands

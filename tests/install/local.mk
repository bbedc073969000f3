# tests/install: what a user has after `make install`.
EXTRA_DIST += tests/install/check
YOKE_TESTS += $(top_srcdir)/tests/install/check

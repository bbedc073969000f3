# tests/install: what a user has after `make install`, what a tarball holds, and builds of other kinds.
EXTRA_DIST += tests/install/check tests/install/dist tests/install/builds
YOKE_TESTS += $(top_srcdir)/tests/install/check $(top_srcdir)/tests/install/dist $(top_srcdir)/tests/install/builds

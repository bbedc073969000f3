# tests/install: what a user has after `make install`, what a tarball holds, and builds of other kinds.
EXTRA_DIST += tests/install/check tests/install/dist tests/install/builds
# These run make in the build folder.
YOKE_TESTS += "alone $(top_srcdir)/tests/install/check" "alone $(top_srcdir)/tests/install/dist" "alone $(top_srcdir)/tests/install/builds"

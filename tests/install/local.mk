# tests/install: what a user has after `make install`, what a tarball holds, builds of other kinds, and the options of quickstart.
EXTRA_DIST += tests/install/check tests/install/dist tests/install/builds tests/install/quickstart
YOKE_TESTS += $(top_srcdir)/tests/install/quickstart
# These run make in the build folder.
YOKE_TESTS += "alone $(top_srcdir)/tests/install/check" "alone $(top_srcdir)/tests/install/dist" "alone $(top_srcdir)/tests/install/builds"

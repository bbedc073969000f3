# tests/layering: the arrows between the folders, and headers that stand alone.
EXTRA_DIST += tests/layering/check
YOKE_TESTS += $(top_srcdir)/tests/layering/check

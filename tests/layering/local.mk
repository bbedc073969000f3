# tests/layering: the arrows between the folders, and headers that stand alone, in C and in C++.
EXTRA_DIST += tests/layering/check tests/layering/headers
YOKE_TESTS += $(top_srcdir)/tests/layering/check $(top_srcdir)/tests/layering/headers

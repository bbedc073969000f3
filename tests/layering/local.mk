# tests/layering: which folder includes and calls which, the form of the C files, and headers that stand alone, in C and in C++.
EXTRA_DIST += tests/layering/check tests/layering/calls tests/layering/format tests/layering/headers
YOKE_TESTS += $(top_srcdir)/tests/layering/check $(top_srcdir)/tests/layering/calls "$(top_srcdir)/tests/layering/calls --self-test" $(top_srcdir)/tests/layering/format $(top_srcdir)/tests/layering/headers

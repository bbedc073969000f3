# The backend to be copied. No library contains it; a test links it, and so exports it to the registry of libyoke.
EXTRA_PROGRAMS += tests/unit/null_backend
tests_unit_null_backend_SOURCES = tests/unit/null_backend.c backends/null/null.c
tests_unit_null_backend_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_null_backend_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic
tests_unit_null_backend_LDADD = $(LIBYOKE) $(CMOCKA_LIBS)
YOKE_TESTS += tests/unit/null_backend

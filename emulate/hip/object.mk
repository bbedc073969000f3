# The reader of AMD's code objects, and its test.
noinst_LTLIBRARIES += libemulate-gcn-object.la
libemulate_gcn_object_la_SOURCES = emulate/hip/gcn_object.h emulate/hip/gcn_bytes.h emulate/hip/gcn_read.h emulate/hip/gcn_object.c \
	emulate/hip/gcn_metadata.c emulate/hip/gcn_msgpack.c emulate/hip/gcn_line.c emulate/hip/gcn_bundle.c
# Tables that a script makes, see its head.
EXTRA_DIST += emulate/hip/INSTRUCTIONS.md emulate/hip/make-opcodes emulate/hip/gcn_opcodes_gfx90a.h emulate/hip/gcn_opcodes_gfx942.h \
	emulate/hip/gcn_opcodes_gfx1100.h emulate/hip/gcn_renamed.h
EXTRA_PROGRAMS += tests/unit/gcn_object
YOKE_TESTS += tests/unit/gcn_object
EXTRA_DIST += tests/unit/gcn_objects.h tests/unit/gcn/make-objects tests/unit/gcn/object.hip tests/unit/gcn/exact.hip tests/unit/gcn/objects.txt
tests_unit_gcn_object_CFLAGS = $(UNIT_CFLAGS)
tests_unit_gcn_object_LDADD = libemulate-gcn-object.la $(CMOCKA_LIBS)
# Quotients and roots, which begin with an approximation, come out exact.
EXTRA_PROGRAMS += tests/unit/gcn_exact
YOKE_TESTS += tests/unit/gcn_exact
tests_unit_gcn_exact_CFLAGS = $(UNIT_CFLAGS)
tests_unit_gcn_exact_LDADD = libemulate-gcn.la $(CMOCKA_LIBS) -lm
# What each instruction computes, against vectors that a script makes from AMD's own description.
EXTRA_PROGRAMS += tests/unit/gcn_opcodes
YOKE_TESTS += tests/unit/gcn_opcodes
EXTRA_DIST += tests/unit/gcn/make-vectors tests/unit/gcn/vectors.txt tests/unit/gcn/forms.txt tests/unit/gcn/forms.py \
	tests/unit/gcn/pcode.py tests/unit/gcn/floats.py tests/unit/gcn/operands.py tests/unit/gcn/hand.py tests/unit/gcn/form.py \
	tests/unit/gcn/vector.py tests/unit/gcn/scalar.py
tests_unit_gcn_opcodes_CFLAGS = $(UNIT_CFLAGS)
tests_unit_gcn_opcodes_LDADD = libemulate-gcn.la $(CMOCKA_LIBS)
# The decoder beside LLVM's disassembler, on all programs of all architectures.
EXTRA_PROGRAMS += tests/unit/gcn_decode
tests_unit_gcn_decode_LDADD = libemulate-gcn.la
YOKE_TESTS += 'soak $(top_srcdir)/tests/gpu/decode'
EXTRA_DIST += tests/gpu/decode

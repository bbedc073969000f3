# Tests print TAP. Each folder's local.mk appends programs to EXTRA_PROGRAMS and commands to YOKE_TESTS;
# tests/tap-run runs them side by side, and closes with "N passed, N failed". It explains the words alone, soak
# and quiet, with which a command may begin.
# A program without _SOURCES is made of the .c file of its own name.
EXTRA_DIST += tests/tap-run tests/short_wrapper tests/contain tests/programs tests/soak tests/soak_pieces tests/lsan.supp
include tests/unit/local.mk
include tests/conform/local.mk
include tests/bits/local.mk
if WITH_MPI
include tests/ranks/local.mk
include tests/faults/local.mk
include tests/hosts/local.mk
include tests/golden/local.mk
include tests/browser/local.mk
include tests/hostile/local.mk
include tests/gpu/local.mk
endif
include tests/layering/local.mk
include tests/install/local.mk
include tests/docs/local.mk

# tests/bits: the hashes of yoke verify --bits, and which stacks give the same bits. Without YOKE_SOAK a part runs, with programs that
# tests/conform has compiled before; with an empty cache of programs the test needs a minute more.
EXTRA_DIST += tests/bits/verb tests/bits/stacks tests/bits/stacks.txt
YOKE_TESTS += $(top_srcdir)/tests/bits/verb $(top_srcdir)/tests/bits/stacks

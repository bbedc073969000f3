# tests/bits: the hashes of yoke verify --bits, and which stacks give the same bits. Without YOKE_SOAK each op runs in each type and one variant.
EXTRA_DIST += tests/bits/verb tests/bits/stacks tests/bits/stacks.txt
YOKE_TESTS += $(top_srcdir)/tests/bits/verb $(top_srcdir)/tests/bits/stacks

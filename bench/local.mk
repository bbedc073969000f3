# Benchmarks: programs that verify their result first and print ratios.
EXTRA_DIST += bench/train_torch.py
noinst_PROGRAMS += bench/train
bench_train_SOURCES = bench/train.c
bench_train_LDADD = libyoke-train.la libyoke.la -lm

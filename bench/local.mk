# Benchmarks: programs that verify their result first and print ratios.

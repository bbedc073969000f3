# libconform: conformance rows, bounds and the check loop (a convenience library of the tests and the command).
noinst_LTLIBRARIES += libconform.la
libconform_la_SOURCES = conform/conform.h conform/conform.c conform/trial.h conform/trial.c conform/compare.c conform/bits.c conform/order.c conform/text.c conform/gradients.c conform/gradient_pairs.h \
	conform/gemm.c conform/norm.c conform/act.c conform/attention.c conform/embed.c conform/loss.c conform/optim.c \
	conform/cast.c conform/elementwise.c conform/rope.c
libconform_la_SOURCES += conform/problem.h conform/problem.c conform/sizes.c
libconform_la_LIBADD = $(LIBYOKE)

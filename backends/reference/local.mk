libyoke_la_SOURCES += backends/reference/reference.h backends/reference/reference.c backends/reference/gemm.c \
	backends/reference/norm.c backends/reference/act.c backends/reference/attention.c backends/reference/embed.c \
	backends/reference/loss.c backends/reference/optim.c backends/reference/cast.c backends/reference/elementwise.c backends/reference/rope.c

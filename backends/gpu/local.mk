# backends/gpu: what all kernel-launching backends share.
libyoke_la_SOURCES += \
	backends/gpu/driver.h backends/gpu/launch.h backends/gpu/families.h backends/gpu/texts.h \
	backends/gpu/source.c backends/gpu/programs.c backends/gpu/cache.c backends/gpu/teams.c \
	backends/gpu/variants.c backends/gpu/catalog.c backends/gpu/ahead.c \
	backends/gpu/staging.h backends/gpu/staging.c backends/gpu/blob.h backends/gpu/blob.c \
	backends/gpu/errors.c backends/gpu/module.h backends/gpu/module.c \
	backends/gpu/norm.c backends/gpu/act.c backends/gpu/embed.c backends/gpu/loss.c backends/gpu/optim.c \
	backends/gpu/cast.c backends/gpu/elementwise.c backends/gpu/rope.c backends/gpu/bias.c \
	backends/gpu/bodies.h backends/gpu/bodies.c backends/gpu/gemm.h backends/gpu/gemm.c backends/gpu/gemm_library.c backends/gpu/attention.c

# Device texts, embedded as strings; a new family adds its file here.
YK_PRELUDES = backends/gpu/prelude/opencl.yk backends/gpu/prelude/cuda.yk backends/gpu/prelude/hip.yk \
	backends/gpu/prelude/simt.yk backends/gpu/prelude/common.yk backends/gpu/prelude/tile.yk
YK_PRELUDES += backends/gpu/prelude/mma.yk
YK_KERNELS = backends/gpu/kernels/norm.yk backends/gpu/kernels/act.yk backends/gpu/kernels/embed.yk \
	backends/gpu/kernels/loss.yk backends/gpu/kernels/optim.yk backends/gpu/kernels/cast.yk \
	backends/gpu/kernels/elementwise.yk backends/gpu/kernels/rope.yk backends/gpu/kernels/bias.yk \
	backends/gpu/kernels/gemm.yk backends/gpu/kernels/attention.yk \
	backends/gpu/kernels/attention_tile.yk backends/gpu/kernels/attention_team.yk
YK_KERNELS += backends/gpu/kernels/attention_mma.yk
nodist_libyoke_la_SOURCES = $(YK_PRELUDES:=.c) $(YK_KERNELS:=.c)
CLEANFILES += $(YK_PRELUDES:=.c) $(YK_KERNELS:=.c)
EXTRA_DIST += $(YK_PRELUDES) $(YK_KERNELS) backends/gpu/embed.sed backends/gpu/README.md

%.yk.c: %.yk $(top_srcdir)/backends/gpu/embed.sed
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	name=`echo $* | sed 's,.*/\([a-z]*\)/\([a-z_]*\)$$,yokei_yk_\1_\2,'` && \
	{ echo "/* Generated from $*.yk. */"; echo "extern const char $$name[];"; echo "const char $$name[] ="; \
	  sed -f $(top_srcdir)/backends/gpu/embed.sed $<; echo '"";'; } >$@.new && mv -f $@.new $@
# Without this make's own rule "a program from its .c" would see a way to build f.yk from f.yk.c.
$(YK_PRELUDES) $(YK_KERNELS): ;

include backends/gpu/tests.mk

# libyoke-train: layers, models, data, optimizer, checkpoints, loop.
lib_LTLIBRARIES += libyoke-train.la
pkgconfig_DATA += train/libyoke-train.pc
libyoke_train_la_SOURCES =
libyoke_train_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
libyoke_train_la_LIBADD = libyoke.la $(JANSSON_LIBS) $(XXHASH_LIBS)
libyoke_train_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0
include train/data/local.mk

# parallel: appends to libyoke_train_la_SOURCES (train/local.mk comes after and may use +=).

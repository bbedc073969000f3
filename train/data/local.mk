# What a run reads and writes: tokens, weights, configurations, plans, metrics; and the yardstick for text.
libyoke_train_la_SOURCES += \
	train/data/map.h train/data/map.c train/data/tokens.h train/data/tokens.c \
	train/data/safetensors.h train/data/safetensors_header.h train/data/safetensors_header.c train/data/safetensors.c \
	train/data/safetensors_write.c \
	train/data/json.h train/data/json.c train/data/json_write.c \
	train/data/gpt2_files.h train/data/gpt2_schema.h train/data/gpt2_files.c train/data/plan.h train/data/plan.c \
	train/data/metrics.h train/data/metrics.c train/data/baseline.h train/data/baseline.c train/data/text.h train/data/text.c

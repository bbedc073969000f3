# What a run reads and writes: tokens, weights, configurations, plans, metrics; and the yardstick for text.
libyoke_train_la_SOURCES += \
	train/data/map.h train/data/map.c train/data/problems.h train/data/problems.c train/data/tokens.h train/data/tokens.c \
	train/data/safetensors.h train/data/safetensors_header.h train/data/safetensors_header.c train/data/safetensors.c \
	train/data/safetensors_write.c \
	train/data/json.h train/data/json.c train/data/json_write.c \
	train/data/gpt2_files.h train/data/gpt2_schema.h train/data/gpt2_files.c train/data/llama_files.h train/data/llama_files.c train/data/model_files.h train/data/model_files.c train/data/plan.h train/data/plan.c \
	train/data/metrics.h train/data/metrics.c train/data/baseline.h train/data/baseline.c train/data/text.h train/data/text.c \
	train/data/bpe.h train/data/bpe_inside.h train/data/bpe.c train/data/bpe_bytes.c train/data/bpe_json.c train/data/bpe_regex.c train/data/bpe_split.c

# Tests of it.
data_unit_programs = tests/unit/data_tokens tests/unit/data_safetensors tests/unit/data_files tests/unit/data_llama tests/unit/data_foreign tests/unit/data_text \
	tests/unit/data_broken tests/unit/data_mutants tests/unit/bpe
check_PROGRAMS += $(data_unit_programs)
YOKE_TESTS += $(data_unit_programs)
DATA_TEST_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS)
DATA_TEST_LDADD = libyoke-train.la libyoke.la $(CMOCKA_LIBS) $(JANSSON_LIBS) -lm
tests_unit_data_foreign_CFLAGS = $(DATA_TEST_CFLAGS)
tests_unit_data_foreign_LDADD = $(DATA_TEST_LDADD)
tests_unit_data_llama_CFLAGS = $(DATA_TEST_CFLAGS)
tests_unit_data_llama_LDADD = $(DATA_TEST_LDADD)
tests_unit_data_tokens_CFLAGS = $(DATA_TEST_CFLAGS)
tests_unit_data_tokens_LDADD = $(DATA_TEST_LDADD)
tests_unit_data_safetensors_CFLAGS = $(DATA_TEST_CFLAGS)
tests_unit_data_safetensors_LDADD = $(DATA_TEST_LDADD)
tests_unit_data_files_CFLAGS = $(DATA_TEST_CFLAGS)
tests_unit_data_files_LDADD = $(DATA_TEST_LDADD)
tests_unit_data_text_CFLAGS = $(DATA_TEST_CFLAGS)
tests_unit_data_text_LDADD = $(DATA_TEST_LDADD)
tests_unit_data_broken_CFLAGS = $(DATA_TEST_CFLAGS)
tests_unit_data_broken_LDADD = $(DATA_TEST_LDADD)
tests_unit_data_mutants_CFLAGS = $(DATA_TEST_CFLAGS)
tests_unit_data_mutants_LDADD = $(DATA_TEST_LDADD)
tests_unit_bpe_CFLAGS = $(DATA_TEST_CFLAGS) $(PCRE2_CFLAGS)
tests_unit_bpe_LDADD = $(DATA_TEST_LDADD) $(PCRE2_LIBS)

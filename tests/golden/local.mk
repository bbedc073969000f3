# tests/golden: numbers of PyTorch, tokens of Hugging Face's tokenizers, and the gates that compare whole models.
EXTRA_DIST += tests/golden/make_golden.py tests/golden/gpt2_nano_weights.safetensors \
	tests/golden/gpt2_nano_expected.safetensors tests/golden/gpt2_nano_wrong.safetensors \
	tests/golden/make_config.py tests/golden/config_expected.json tests/golden/make_unicode.py tests/golden/unicode_expected.json tests/golden/make_tokenizer.py tests/golden/tokenizer_gpt2.json tests/golden/tokenizer_llama3.json tests/golden/tokenizer_expected.json \
	tests/golden/llama_nano_weights.safetensors tests/golden/llama_nano_expected.safetensors tests/golden/llama_nano_wrong.safetensors \
	tests/golden/qwen2_nano_weights.safetensors tests/golden/qwen2_nano_expected.safetensors tests/golden/qwen2_nano_wrong.safetensors \
	tests/golden/mistral_nano_weights.safetensors tests/golden/mistral_nano_expected.safetensors tests/golden/mistral_nano_wrong.safetensors
EXTRA_PROGRAMS += tests/golden/golden
tests_golden_golden_SOURCES = tests/golden/gates.h tests/golden/golden.c
tests_golden_golden_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_golden_golden_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE) $(CMOCKA_LIBS) -lm
YOKE_TESTS += 'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 tests/golden/golden' 'YOKE_EMULATE=cuda:9.0 tests/golden/golden cuda:0'

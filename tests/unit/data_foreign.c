/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models and tokenizers that Yoke does not support. The error text must say what each one is and what to do
 * about it, instead of naming the first missing detail.
 */
#include "tests/unit/data_test.h"

#include <sys/stat.h>

#include "core/base/base.h"
#include "train/text/bpe.h"
#include "train/models/model_files.h"

#define GEMMA                                                                                                                                  \
    "\"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336," \
    "\"vocab_size\": 32000, \"max_position_embeddings\": 32768"

static void models_of_another_type(void **state)
{
    static const struct {
        const char *text, *words[3];
    } cases[] = {
        { "{\"model_type\": \"gemma2\", " GEMMA "}",
          { "config.json: model_type is \"gemma2\"", "these types: \"gpt2\", " } },
        { "{\"model_type\": \"falcon\", " GEMMA "}",
          { "model_type is \"falcon\"", "these types: \"gpt2\", " } },
        { "{\"model_type\": \"gpt_neox\", \"n_layer\": 2}", { "model_type is \"gpt_neox\"" } },
        { "{\"model_type\": \"%s%n\", \"n_layer\": 2}", { "model_type is \"%s%n\"" } },
        { "{\"model_type\": \"lama\", " GEMMA "}", { "did you mean \"llama\"?" } },
        { "{" GEMMA "}", { "model_type is missing", "these types: \"gpt2\", " } },
        { "{\"architectures\": [\"Gemma2ForCausalLM\"], " GEMMA "}", { "model_type is missing" } },
    };
    struct yokei_model_config config;
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        put_text("config.json", cases[i].text);
        for (size_t w = 0; w < 3 && cases[i].words[w]; w++)
            assert_fails(YOKE_ECONFIG, cases[i].words[w], yokei_model_read(test_folder, &config));
        if (!strstr(cases[i].text, "n_layer")) assert_null(strstr(yoke_last_error(), "n_layer"));
    }
}

/* A folder of its own for each case, with one file that begins with `begin`. */
static const char *folder_with(const char *name, const char *file, const char *begin, size_t bytes)
{
    static char folder[600];
    char path[700];
    snprintf(folder, sizeof folder, "%s", in_folder(name));
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(begin, 1, bytes, f), bytes);
    for (int i = 0; i < 200; i++) fputc(0, f);
    assert_int_equal(fclose(f), 0);
    return folder;
}

static void weights_in_another_format(void **state)
{
    struct yokei_safetensors *file = NULL;
    char command[700], path[700];
    (void)state;
    /* The command in the error text is complete: it has the folder, the weights and the result. */
    const char *folder = folder_with("pickled", "pytorch_model.bin", "PK\3\4", 4);
    snprintf(command, sizeof command, "for f in [\"%s/pytorch_model.bin\"]]", folder);
    assert_fails(YOKE_EDATA, command, yokei_safetensors_open(folder, 0, &file));
    snprintf(command, sizeof command, "\"%s/model.safetensors\", metadata={\"format\": \"pt\"})'", folder);
    assert_fails(YOKE_EDATA, command, yokei_safetensors_open(folder, 0, &file));
    assert_fails(YOKE_EDATA, "python3 -c 'import glob, torch, safetensors.torch as s;",
                 yokei_safetensors_open(folder, 0, &file));
    snprintf(path, sizeof path, "%s/pytorch_model.bin",
             folder); /* the file itself, zipped and as older versions pickle */
    assert_fails(YOKE_EDATA, command, yokei_safetensors_open(path, 0, &file));
    folder = folder_with("older", "pytorch_model.bin", "\x80\x02\x8a\x0a", 4);
    snprintf(path, sizeof path, "%s/pytorch_model.bin", folder);
    assert_fails(YOKE_EDATA, "PyTorch's own format", yokei_safetensors_open(path, 0, &file));
    folder = folder_with("in_parts", "pytorch_model.bin.index.json", "{}", 2);
    assert_fails(YOKE_EDATA, "its shards (pytorch_model-*.bin) are not in the folder",
                 yokei_safetensors_open(folder, 0, &file));
    folder_with("in_parts", "pytorch_model-00001-of-00001.bin", "PK\3\4", 4);
    assert_fails(YOKE_EDATA, "/pytorch_model-*.bin\"))]; s.save_file(",
                 yokei_safetensors_open(folder, 0, &file));
    /* A file of PyTorch's with this name is the input of the command, so it is not its output. */
    folder = folder_with("misnamed", "model.safetensors",
                         "PK\3\4______________________\x10\0\0\0archive/data.pkl", 46);
    snprintf(command, sizeof command, "for f in [\"%s/model.safetensors\"]]", folder);
    assert_fails(YOKE_EDATA, command, yokei_safetensors_open(folder, 0, &file));
    snprintf(command, sizeof command, "\"%s/model-converted.safetensors\", metadata=", folder);
    assert_fails(YOKE_EDATA, command, yokei_safetensors_open(folder, 0, &file));
    assert_fails(YOKE_EDATA, "model.safetensors: holds weights in PyTorch's own format",
                 yokei_safetensors_open(folder, 0, &file));
    folder = folder_with("zip", "model.safetensors", "PK\3\4", 4);
    assert_fails(YOKE_EDATA, "model.safetensors: is a zip archive", yokei_safetensors_open(folder, 0, &file));
    folder = folder_with("meta", "consolidated.00.pth", "PK\3\4", 4);
    assert_fails(YOKE_EDATA, "convert_llama_weights_to_hf.py", yokei_safetensors_open(folder, 0, &file));
    folder = folder_with("lora", "adapter_model.safetensors", "x", 1);
    assert_fails(YOKE_EDATA, "merge it into that model", yokei_safetensors_open(folder, 0, &file));
    folder = folder_with("gguf", "model.gguf", "GGUF", 4);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    assert_fails(YOKE_EDATA, "is a GGUF file", yokei_safetensors_open(path, 0, &file));
    folder = folder_with("nothing", "readme", "x", 1);
    assert_fails(YOKE_EDATA, "neither model.safetensors nor model.safetensors.index.json",
                 yokei_safetensors_open(folder, 0, &file));
    assert_null(file);
}

#define BPE_OF(rest, parts) "{\"version\": \"1.0\", \"added_tokens\": [], " parts ", \"model\": {" rest "}}"
#define TINY "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]"
static const char NAMED[] = "is a SentencePiece tokenizer (", ADVICE[] = "--tokens FILE.bin";

static void tokenizers_of_sentencepiece(void **state)
{
    static const struct {
        const char *text, *mark;
    } cases[] = {
        { BPE_OF("\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"a\", -1.5]]",
                 "\"normalizer\": null, \"pre_tokenizer\": null"),
          "model: type Unigram" },
        { BPE_OF("\"type\": \"BPE\", \"byte_fallback\": true, " TINY, "\"normalizer\": null"),
          "model: byte_fallback" },
        /* Tokenizers like Llama 2's, with and without byte_fallback. Without this rule the normalizer would
           be refused first. */
        { BPE_OF(
              "\"type\": \"BPE\", \"byte_fallback\": true, " TINY,
              "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"\\u2581\"},"
              "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\\u2581\"}]}"),
          "byte_fallback" },
        { BPE_OF(
              "\"type\": \"BPE\", " TINY,
              "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"\\u2581\"}]}"),
          "normalizer: spaces are written as U+2581" },
        { BPE_OF("\"type\": \"BPE\", " TINY,
                 "\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"\"}"),
          "normalizer: Precompiled" },
        { BPE_OF("\"type\": \"BPE\", " TINY,
                 "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\"}"),
          "pre_tokenizer: Metaspace" },
        { BPE_OF("\"type\": \"BPE\", " TINY,
                 "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}]}"),
          "decoder: ByteFallback" },
        { "\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\n\x0c\n\3<s>", "the file: tokenizer.model" },
    };
    struct yokei_bpe *bpe = NULL;
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        const size_t bytes = i + 1 == YOKE_COUNT(cases) ? 24 : strlen(cases[i].text);
        assert_fails(YOKE_ECONFIG, NAMED, yokei_bpe_parse("t.json", cases[i].text, bytes, &bpe));
        assert_non_null(strstr(yoke_last_error(), cases[i].mark));
        assert_non_null(strstr(yoke_last_error(), ADVICE));
    }
    /*
     * A byte-level tokenizer may have a token of that sign, and is not taken for such a tokenizer. This one
     * is refused because it has no pre_tokenizer.
     */
    static const char other[] = BPE_OF("\"type\": \"BPE\", \"vocab\": {\"\\u2581\": 0}, \"merges\": []",
                                       "\"normalizer\": null");
    assert_fails(YOKE_ECONFIG, "pre_tokenizer is missing",
                 yokei_bpe_parse("t.json", other, sizeof other - 1, &bpe));
    static const char broken[] = "\n{\n\"version\": ";
    assert_fails(YOKE_EDATA, "is not valid JSON", yokei_bpe_parse("t.json", broken, sizeof broken - 1, &bpe));
}

static void folders_without_tokenizer_json(void **state)
{
    struct yokei_bpe *bpe = NULL;
    (void)state;
    assert_fails(YOKE_ECONFIG, "the folder has no tokenizer.json, but: tokenizer.model",
                 yokei_bpe_open(folder_with("pieces", "tokenizer.model", "\n\x0e\n", 3), &bpe));
    assert_fails(YOKE_ECONFIG, "spiece.model",
                 yokei_bpe_open(folder_with("t5", "spiece.model", "\n\x0e\n", 3), &bpe));
    const char *folder = folder_with("slow", "merges.txt", "#version", 8);
    char command[700];
    snprintf(command, sizeof command,
             "AutoTokenizer.from_pretrained(\"%s\").backend_tokenizer.save(\"%s/tokenizer.json\")'", folder,
             folder);
    assert_fails(YOKE_EDATA, command, yokei_bpe_open(folder, &bpe));
    assert_fails(YOKE_EDATA, "tokenizer.json: cannot be opened",
                 yokei_bpe_open(folder_with("empty", "readme", "x", 1), &bpe));
    assert_null(bpe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_of_another_type),
        cmocka_unit_test(weights_in_another_format),
        cmocka_unit_test(tokenizers_of_sentencepiece),
        cmocka_unit_test(folders_without_tokenizer_json),
    };
    return cmocka_run_group_tests_name("foreign files", tests, make_test_folder, remove_test_folder);
}

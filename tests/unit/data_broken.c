/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broken files. Each must be refused with the right status, and a text that names the file and says where and
 * why. The caller's output must not change. There is one row per file. The good file from which a row differs
 * is opened first.
 */
#include "tests/unit/data_test.h"

#include "train/models/model_files.h"
#include "train/plan/run_plan.h"
#include "train/text/tokens.h"

enum kind { SAFETENSORS, TOKENS, CONFIG, PLAN, INDEX };

struct broken {
    enum kind kind;
    const char *title;
    const char *name;  /* name of the file, which the error text must contain */
    const char *words; /* words that the error text must contain */
    yoke_status status;
    const char
        *text; /* the contents: a header (SAFETENSORS), JSON, or NULL if a function makes them by the title */
    int n_data; /* bytes of data behind a header; -1: the contents are raw; -2: no file at all */
};

#define T1 "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"
#define ENTRY(type, shape, range) \
    "{\"a\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" range "}}"
#define MODEL                                                                                   \
    "\"model\":{\"n_layer\":1,\"n_head\":1,\"n_embd\":8,\"n_positions\":16,\"vocab_size\":256," \
    "\"layer_norm_epsilon\":1e-5,\"initializer_range\":0.02,\"resid_pdrop\":0,\"embd_pdrop\":0,\"attn_pdrop\":0}"
/* The keys that a plan must have, besides the keys that these tests change. */
#define USUAL                                                                                                                                                                  \
    "\"data_hash\":\"any\",\"validation_share\":0.05,\"all_reduce\":\"auto\",\"bucket_bytes\":0,\"chunk_bytes\":0,\"comm_costs\":\"\",\"comm_shares\":\"\",\"data\":1,"        \
    "\"pipeline\":1,\"tensor\":1,\"stage_tensor\":\"\",\"chunks\":1,\"schedule\":\"\",\"schedule_text\":\"\",\"layers\":\"\",\"recompute\":\"\","                              \
    "\"sequence_parallel\":0,\"tensor_shares\":\"\",\"zero\":0,\"zero_shares\":\"\",\"skip_samples\":\"\",\"balance\":\"auto\",\"placement\":\"host\",\"learning_rate\":1e-3," \
    "\"min_learning_rate\":1e-4,\"weight_decay\":0.1,\"beta1\":0.9,\"beta2\":0.95,\"clip\":1,\"loss_scale\":0,\"warmup\":20,\"steps\":10,"                                     \
    "\"budget_seconds\":0,\"products\":[],\"progress\":[]"
#define RANK "{\"device\":\"host\",\"share\":1,\"samples\":4,\"micro_batch\":2,\"threads\":1,\"job_rank\":0}"
#define PLAN_OF(version, rest, ranks) \
    "{\"version\":" version "," MODEL "," rest USUAL ",\"seed\":1,\"sequence\":16,\"ranks\":[" ranks "]}"
#define GPT2(rest)                                                                                               \
    "{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_head\":2,\"n_embd\":8,\"n_positions\":16,\"vocab_size\":32" rest \
    "}"

static const struct broken table[] = {
    /* safetensors */
    { SAFETENSORS, "no file", "none.safetensors", "cannot be opened: No such file", YOKE_EDATA, "", -2 },
    { SAFETENSORS, "an empty file", "a.safetensors", "has 0 bytes", YOKE_EDATA, "", -1 },
    { SAFETENSORS, "cut in the length", "a.safetensors", "has 5 bytes", YOKE_EDATA, "12345", -1 },
    { SAFETENSORS, "some other file", "a.safetensors", "byte offset 0", YOKE_EDATA,
      "\x7f"
      "ELF and so on and so on",
      -1 },
    { SAFETENSORS, "cut in the header", "a.safetensors", "only 19 bytes follow", YOKE_EDATA,
      "\x40\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\"", -1 },
    { SAFETENSORS, "an empty header", "a.safetensors", "does not begin with '{'", YOKE_EDATA, "", 0 },
    { SAFETENSORS, "a header that is a list", "a.safetensors", "does not begin with '{'", YOKE_EDATA, "[]",
      0 },
    { SAFETENSORS, "cut JSON", "a.safetensors", "not valid JSON at byte offset", YOKE_EDATA,
      "{\"a\":{\"dtype\":\"F32\",", 8 },
    { SAFETENSORS, "JSON behind the JSON", "a.safetensors", "not valid JSON at byte offset", YOKE_EDATA,
      T1 "{}", 8 },
    { SAFETENSORS, "bytes that are not UTF-8", "a.safetensors", "not valid JSON at byte offset", YOKE_EDATA,
      "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8 },
    { SAFETENSORS, "a tensor twice", "a.safetensors", "duplicate", YOKE_EDATA,
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
      8 },
    { SAFETENSORS, "a key twice in an entry", "a.safetensors", "duplicate", YOKE_EDATA,
      "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8 },
    { SAFETENSORS, "nested too deep", "a.safetensors", "deeper than 4 at byte offset", YOKE_EDATA,
      ENTRY("F32", "[[[[2]]]]", "[0,8]"), 8 },
    { SAFETENSORS, "a number with an exponent", "a.safetensors", "not digits only", YOKE_EDATA,
      ENTRY("F32", "[2e0]", "[0,8]"), 8 },
    { SAFETENSORS, "a negative dimension", "a.safetensors", "not digits only", YOKE_EDATA,
      ENTRY("F32", "[-2]", "[0,8]"), 8 },
    { SAFETENSORS, "a number beyond 64 bits", "a.safetensors", "not valid JSON", YOKE_EDATA,
      ENTRY("F32", "[99999999999999999999]", "[0,8]"), 8 },
    { SAFETENSORS, "an unknown type", "a.safetensors", "\"a\": dtype \"F31\" is not known", YOKE_EDATA,
      ENTRY("F31", "[2]", "[0,8]"), 8 },
    { SAFETENSORS, "no type", "a.safetensors", "\"a\": dtype is missing", YOKE_EDATA,
      "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8 },
    { SAFETENSORS, "no shape", "a.safetensors", "\"a\": shape is not a list", YOKE_EDATA,
      "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8 },
    { SAFETENSORS, "no offsets", "a.safetensors", "\"a\": data_offsets is not", YOKE_EDATA,
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8 },
    { SAFETENSORS, "an unknown key in an entry", "a.safetensors", "unknown key \"offset\"", YOKE_EDATA,
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"offset\":3,\"data_offsets\":[0,8]}}", 8 },
    { SAFETENSORS, "an entry that is a number", "a.safetensors", "\"a\": its entry is not an object",
      YOKE_EDATA, "{\"a\":3}", 0 },
    { SAFETENSORS, "a name with a line break", "a.safetensors", "control characters", YOKE_EDATA,
      "{\"a\\nb\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8 },
    { SAFETENSORS, "nine dimensions", "a.safetensors", "9 dimensions are more than 8", YOKE_EDATA,
      ENTRY("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8 },
    { SAFETENSORS, "a shape that overflows", "a.safetensors", "size overflows", YOKE_EDATA,
      ENTRY("F32", "[4611686018427387904,4]", "[0,8]"), 8 },
    { SAFETENSORS, "a shape that overflows to 0", "a.safetensors", "size overflows", YOKE_EDATA,
      ENTRY("F32", "[4294967296,4294967296]", "[0,0]"), 0 },
    { SAFETENSORS, "a shape of another size", "a.safetensors", "\"a\": its shape and type need 12 bytes",
      YOKE_EDATA, ENTRY("F32", "[3]", "[0,8]"), 8 },
    { SAFETENSORS, "offsets that run backwards", "a.safetensors", "run backwards", YOKE_EDATA,
      ENTRY("F32", "[2]", "[8,0]"), 8 },
    { SAFETENSORS, "cut in the data", "a.safetensors", "\"a\": its data ends at byte offset", YOKE_EDATA, T1,
      7 },
    { SAFETENSORS, "a byte behind the data", "a.safetensors", "1 bytes follow the last tensor", YOKE_EDATA,
      T1, 9 },
    { SAFETENSORS, "a hole in the data", "a.safetensors", "\"b\": its data begins", YOKE_EDATA,
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
      5 },
    { SAFETENSORS, "data that overlaps", "a.safetensors", "they overlap", YOKE_EDATA,
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
      3 },
    { SAFETENSORS, "metadata that is a list", "a.safetensors", "__metadata__ is not an object", YOKE_EDATA,
      "{\"__metadata__\":[],\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8 },
    { SAFETENSORS, "metadata that is no string", "a.safetensors", "\"step\" is not a string", YOKE_EDATA,
      "{\"__metadata__\":{\"step\":3},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8 },
    { SAFETENSORS, "a wrong checksum", "a.safetensors", "\"a\" at byte offset", YOKE_EDATA,
      "{\"__metadata__\":{\"yoke.xxh3.a\":\"0123456789abcdef\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
      8 },
    { SAFETENSORS, "a checksum that is none", "a.safetensors", "not 16 hexadecimal digits", YOKE_EDATA,
      "{\"__metadata__\":{\"yoke.xxh3.a\":\"0123\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
      8 },
    { SAFETENSORS, "a checksum of no tensor", "a.safetensors", "no such tensor", YOKE_EDATA,
      "{\"__metadata__\":{\"yoke.xxh3.b\":\"0123456789abcdef\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
      8 },
    /* an index of several files */
    { INDEX, "an index that is cut", "m.index.json", "line 1, column", YOKE_EDATA,
      "{\"weight_map\":{\"a\":", -1 },
    { INDEX, "an index without a map", "m.index.json", "no object \"weight_map\"", YOKE_EDATA,
      "{\"metadata\":{}}", -1 },
    { INDEX, "an index that names a file that is not there", "m.index.json",
      "gone.safetensors: cannot be opened", YOKE_EDATA, "{\"weight_map\":{\"a\":\"gone.safetensors\"}}", -1 },
    { INDEX, "an index that leads out of its folder", "m.index.json",
      "not the name of a file in the same folder", YOKE_EDATA,
      "{\"weight_map\":{\"a\":\"../a.safetensors\"}}", -1 },
    { INDEX, "an index that names a tensor that is not there", "m.index.json", "\"b\" is in", YOKE_EDATA,
      "{\"weight_map\":{\"a\":\"good.safetensors\",\"b\":\"good.safetensors\"}}", -1 },
    { INDEX, "an index with a file that is no string", "m.index.json", "weight_map[\"a\"]", YOKE_EDATA,
      "{\"weight_map\":{\"a\":3}}", -1 },
    /* tokens */
    { TOKENS, "no tokens file", "none.bin", "cannot be opened: No such file", YOKE_EDATA, "", -2 },
    { TOKENS, "an empty text", "empty.txt", "the file is empty", YOKE_EDATA, "", -1 },
    { TOKENS, "a .bin that is no llm.c file", "t.bin", "less than the 1024", YOKE_EDATA, "hello", -1 },
    { TOKENS, "wrong magic", "t.bin", "magic number at byte offset 0 is 20240522", YOKE_EDATA, "magic", -3 },
    { TOKENS, "wrong version", "t.bin", "version at byte offset 4 is 2", YOKE_EDATA, "version", -3 },
    { TOKENS, "cut tokens", "t.bin", "it is truncated", YOKE_EDATA, "short", -3 },
    { TOKENS, "more than the header says", "t.bin", "longer than it says", YOKE_EDATA, "long", -3 },
    { TOKENS, "a negative number of tokens", "t.bin", "byte offset 8", YOKE_EDATA, "negative", -3 },
    { TOKENS, "no tokens in it", "t.bin", "says 0 tokens", YOKE_EDATA, "zero", -3 },
    { TOKENS, "a token beyond the vocabulary", "t.bin", "token 2 at byte offset 1028 is 256", YOKE_EDATA,
      "large", -3 },
    /* config.json */
    { CONFIG, "no config", "none.json", "cannot be opened: No such file", YOKE_EDATA, "", -2 },
    { CONFIG, "an empty config", "config.json", "is empty", YOKE_EDATA, "", -1 },
    { CONFIG, "a cut config", "config.json", "line 2, column", YOKE_EDATA, "{\n\"n_layer\": 2,", -1 },
    { CONFIG, "a config that is a list", "config.json", "holds a list", YOKE_EDATA, "[1]", -1 },
    { CONFIG, "a key twice", "config.json", "duplicate", YOKE_EDATA, GPT2(",\"n_layer\":3"), -1 },
    { CONFIG, "a misspelt key", "config.json",
      "n_layer is missing; the nearest key that is there is \"n_layers\"", YOKE_ECONFIG,
      "{\"n_layers\":2,\"n_head\":2,\"n_embd\":8,\"n_positions\":16,\"vocab_size\":32}", -1 },
    { CONFIG, "a string for a number", "config.json", "n_head is a string; an integer is wanted",
      YOKE_ECONFIG, "{\"n_layer\":2,\"n_head\":\"2\",\"n_embd\":8,\"n_positions\":16,\"vocab_size\":32}",
      -1 },
    { CONFIG, "heads that do not divide", "config.json", "n_embd 8 is not a multiple of n_head 3",
      YOKE_ECONFIG, "{\"n_layer\":2,\"n_head\":3,\"n_embd\":8,\"n_positions\":16,\"vocab_size\":32}", -1 },
    { CONFIG, "no layers", "config.json", "n_layer is 0; it must be between 1", YOKE_ECONFIG,
      "{\"n_layer\":0,\"n_head\":2,\"n_embd\":8,\"n_positions\":16,\"vocab_size\":32}", -1 },
    { CONFIG, "relu", "config.json", "activation_function is \"relu\"", YOKE_ECONFIG,
      GPT2(",\"activation_function\":\"relu\""), -1 },
    { CONFIG, "GELU by erf", "config.json", "erf", YOKE_ECONFIG, GPT2(",\"activation_function\":\"gelu\""),
      -1 },
    { CONFIG, "another model", "config.json", "model_type is \"llama\"", YOKE_ECONFIG,
      "{\"model_type\":\"llama\",\"n_layer\":2,\"n_head\":2,\"n_embd\":8,\"n_positions\":16,\"vocab_size\":32}",
      -1 },
    { CONFIG, "an untied head", "config.json", "tie_word_embeddings is false", YOKE_ECONFIG,
      GPT2(",\"tie_word_embeddings\":false"), -1 },
    { CONFIG, "unscaled attention", "config.json", "scale_attn_weights is false", YOKE_ECONFIG,
      GPT2(",\"scale_attn_weights\":false"), -1 },
    { CONFIG, "a narrow MLP", "config.json", "n_inner is 16", YOKE_ECONFIG, GPT2(",\"n_inner\":16"), -1 },
    { CONFIG, "an epsilon of 0", "config.json", "layer_norm_epsilon is 0", YOKE_ECONFIG,
      GPT2(",\"layer_norm_epsilon\":0"), -1 },
    /* plan.json */
    { PLAN, "no plan", "none.json", "cannot be opened: No such file", YOKE_ECONFIG, "", -2 },
    { PLAN, "a cut plan", "plan.json", "line 1, column", YOKE_ECONFIG, "{\"version\":1", -1 },
    { PLAN, "another version", "plan.json", "version is 2; it must be between 1 and 1", YOKE_ECONFIG,
      PLAN_OF("2", "\"precision\":\"fp32\",\"batch\":4,", RANK), -1 },
    { PLAN, "an unknown key", "plan.json", "unknown key precison: did you mean \"precision\"?", YOKE_ECONFIG,
      PLAN_OF("1", "\"precison\":\"fp32\",\"batch\":4,", RANK), -1 },
    { PLAN, "an unknown precision", "plan.json",
      "precision is \"bf61\"; it must be one of \"fp32\", \"bf16\", \"fp16\": did you mean \"bf16\"?",
      YOKE_ECONFIG, PLAN_OF("1", "\"precision\":\"bf61\",\"batch\":4,", RANK), -1 },
    { PLAN, "no batch", "plan.json", "batch is missing", YOKE_ECONFIG,
      PLAN_OF("1", "\"precision\":\"fp32\",", RANK), -1 },
    { PLAN, "a batch with a fraction", "plan.json", "batch is a number; an integer is wanted", YOKE_ECONFIG,
      PLAN_OF("1", "\"precision\":\"fp32\",\"batch\":4.5,", RANK), -1 },
    { PLAN, "shares that do not add up", "plan.json", "add up to 4, but batch is 5", YOKE_ECONFIG,
      PLAN_OF("1", "\"precision\":\"fp32\",\"batch\":5,", RANK), -1 },
    { PLAN, "no ranks", "plan.json", "ranks is 0 entries long", YOKE_ECONFIG,
      PLAN_OF("1", "\"precision\":\"fp32\",\"batch\":4,", ""), -1 },
    { PLAN, "a share above 1", "plan.json", "ranks[1].share is 1.5", YOKE_ECONFIG,
      PLAN_OF(
          "1", "\"precision\":\"fp32\",\"batch\":4,",
          RANK
          ",{\"device\":\"host\",\"share\":1.5,\"samples\":4,\"micro_batch\":2,\"threads\":1,\"job_rank\":0}"),
      -1 },
    { PLAN, "a micro-batch above the samples", "plan.json", "ranks[0].micro_batch is 5", YOKE_ECONFIG,
      PLAN_OF(
          "1", "\"precision\":\"fp32\",\"batch\":4,",
          "{\"device\":\"host\",\"share\":1,\"samples\":4,\"micro_batch\":5,\"threads\":1,\"job_rank\":0}"),
      -1 },
    { PLAN, "an unknown key of a rank", "plan.json", "unknown key ranks[0].sample", YOKE_ECONFIG,
      PLAN_OF(
          "1", "\"precision\":\"fp32\",\"batch\":4,",
          "{\"device\":\"host\",\"share\":1,\"sample\":4,\"micro_batch\":2,\"threads\":1,\"job_rank\":0}"),
      -1 },
    { PLAN, "a sequence beyond the model's", "plan.json", "sequence is 17, but model.n_positions is 16",
      YOKE_ECONFIG,
      "{\"version\":1," MODEL "," USUAL
      ",\"precision\":\"fp32\",\"batch\":4,\"seed\":1,\"sequence\":17,\"ranks\":[" RANK "]}",
      -1 },
    { PLAN, "a seed that is none", "plan.json", "seed is \"-1\"", YOKE_ECONFIG,
      "{\"version\":1," MODEL "," USUAL
      ",\"precision\":\"fp32\",\"batch\":4,\"seed\":\"-1\",\"sequence\":16,\"ranks\":[" RANK "]}",
      -1 },
};

/* The bytes of rows whose contents are not C strings. */
static size_t tokens_by_recipe(const char *recipe, unsigned char *out)
{
    int32_t header[3] = { 20240520, 1, 4 };
    uint16_t tokens[8] = { 1, 2, 3, 4 };
    size_t bytes = 1024 + 8;
    if (!strcmp(recipe, "magic")) header[0] = 20240522;
    if (!strcmp(recipe, "version")) header[1] = 2;
    if (!strcmp(recipe, "negative")) header[2] = -4;
    if (!strcmp(recipe, "zero")) header[2] = 0, bytes = 1024;
    if (!strcmp(recipe, "large")) tokens[2] = 256;
    if (!strcmp(recipe, "short")) bytes--;
    if (!strcmp(recipe, "long")) bytes++;
    memset(out, 0, bytes);
    memcpy(out, header, sizeof header);
    memcpy(out + 1024, tokens, bytes - 1024);
    return bytes;
}

static void write_broken(const struct broken *row)
{
    unsigned char bytes[2048] = { 0 };
    size_t length = strlen(row->text);
    if (row->n_data == -3) {
        length = tokens_by_recipe(row->text, bytes);
    } else if (row->n_data >= 0) {
        bytes[0] = (unsigned char)length, bytes[1] = (unsigned char)(length >> 8);
        memcpy(bytes + 8, row->text, length);
        length += 8 + (size_t)row->n_data;
    } else if (!strcmp(row->title, "cut in the header")) {
        length = 8 + 19; /* has zeros inside */
        memcpy(bytes, row->text, length);
    } else {
        memcpy(bytes, row->text, length);
    }
    put_file(row->name, bytes, length);
}

/* Try to read a file; whatever was in the outputs must still be there when that fails. */
static yoke_status try_to_read(enum kind kind, const char *path)
{
    struct yokei_tokens_config config = YOKEI_TOKENS_CONFIG_INIT;
    struct yokei_safetensors *tensors = NULL;
    struct yokei_tokens *tokens = NULL;
    struct yoke_gpt2_config shape, shape_before;
    struct yokei_plan plan, plan_before;
    memset(&shape_before, 0x5a, sizeof shape_before);
    memset(&plan_before, 0x5a, sizeof plan_before);
    memcpy(&shape, &shape_before, sizeof shape);
    memcpy(&plan, &plan_before, sizeof plan);
    config.vocab = 256;
    yoke_status status = YOKE_OK;
    switch (kind) {
    case SAFETENSORS:
    case INDEX: status = yokei_safetensors_open(path, 0, &tensors); break;
    case TOKENS: status = yokei_tokens_open(path, &config, &tokens); break;
    case CONFIG: status = yokei_kind_gpt2.read(path, &shape); break;
    case PLAN: status = yokei_plan_read(path, &plan); break;
    }
    if (status) {
        assert_null(tensors);
        assert_null(tokens);
        assert_memory_equal(&shape, &shape_before, sizeof shape);
        assert_memory_equal(&plan, &plan_before, sizeof plan);
    } else {
        yokei_safetensors_close(tensors);
        yokei_tokens_close(tokens);
        if (kind == PLAN) yokei_plan_free(&plan);
    }
    return status;
}

static void is_refused(void **state)
{
    const struct broken *row = *state;
    if (row->n_data != -2) write_broken(row);
    const char *path = in_folder(row->name);
    yoke_status status = try_to_read(row->kind, path);
    if (status != row->status)
        fail_msg("%s instead of %s: %s", yoke_status_name(status), yoke_status_name(row->status),
                 yoke_last_error());
    if (!strstr(yoke_last_error(), path) || !strstr(yoke_last_error(), row->words))
        fail_msg("'%s' does not name %s or does not say '%s'", yoke_last_error(), path, row->words);
}

/*
 * The files that the rows change are good files, and are read. Otherwise a reader that refuses everything
 * would pass the tests above.
 */
static void the_good_files_are_read(void **state)
{
    (void)state;
    unsigned char bytes[2048];
    const struct broken good = { SAFETENSORS, "good", "good.safetensors", "", YOKE_OK, T1, 8 };
    write_broken(&good);
    assert_ok(try_to_read(SAFETENSORS, in_folder("good.safetensors")));
    put_text("good.index.json", "{\"weight_map\":{\"a\":\"good.safetensors\"}}");
    assert_ok(try_to_read(INDEX, in_folder("good.index.json")));
    put_file("good.bin", bytes, tokens_by_recipe("good", bytes));
    assert_ok(try_to_read(TOKENS, in_folder("good.bin")));
    put_text("good.json", GPT2(""));
    assert_ok(try_to_read(CONFIG, in_folder("good.json")));
    put_text("good-plan.json", PLAN_OF("1", "\"precision\":\"fp32\",\"batch\":4,", RANK));
    assert_ok(try_to_read(PLAN, in_folder("good-plan.json")));
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    assert_fails(YOKE_EDATA, "is a folder", try_to_read(TOKENS, test_folder));
    assert_fails(YOKE_EDATA, "holds neither model.safetensors nor", try_to_read(SAFETENSORS, test_folder));
    assert_fails(YOKE_EDATA, "is a device, not a file", try_to_read(TOKENS, "/dev/null"));
    assert_fails(YOKE_ECONFIG, "is a folder", try_to_read(PLAN, test_folder));
}

/* A symbolic link that leads to itself is no file, for root as well. A reader treats it like a file that is
 * missing. */
static void a_loop_of_links_is_no_file(void **state)
{
    (void)state;
    assert_int_equal(symlink("loop.txt", in_folder("loop.txt")), 0);
    assert_fails(YOKE_EDATA, "loop.txt: cannot be opened", try_to_read(TOKENS, in_folder("loop.txt")));
    assert_fails(YOKE_ECONFIG, "loop.txt: cannot be opened", try_to_read(PLAN, in_folder("loop.txt")));
}

int main(void)
{
    static struct CMUnitTest tests[YOKE_COUNT(table) + 3];
    size_t n = 0;
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_good_files_are_read);
    for (size_t i = 0; i < YOKE_COUNT(table); i++)
        tests[n++] = (struct CMUnitTest){ table[i].title, is_refused, NULL, NULL,
                                          (void *)(uintptr_t)&table[i] };
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(what_is_no_file_is_refused);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_loop_of_links_is_no_file);
    return cmocka_run_group_tests_name("data_broken", tests, make_test_folder, remove_test_folder);
}

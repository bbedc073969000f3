/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/foreign_weights.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"

void yokei_python_string(const char *path, char *out, size_t bytes)
{
    size_t n = 0;
    yokei_text(out, bytes, "\"");
    for (n = strlen(out); *path && n + 6 < bytes; path++) {
        char escaped[8];
        const unsigned char c = (unsigned char)*path;
        if (c == '\'')
            yokei_text(escaped, sizeof escaped, "\\x27"); /* the shell's quote would end the command */
        else if (c == '"' || c == '\\')
            yokei_text(escaped, sizeof escaped, "\\%c", c);
        else if (c < ' ')
            yokei_text(escaped, sizeof escaped, "\\x%02x", c);
        else
            yokei_text(escaped, sizeof escaped, "%c", c);
        yokei_text(out + n, bytes - n, "%s", escaped);
        n += strlen(escaped);
    }
    yokei_text(out + n, bytes - n, "\"");
}

/*
 * A file in the folder that is not there yet. It is model.safetensors, unless the folder has weights of this
 * name or their index.
 */
static void free_name(const char *folder, char *out, size_t bytes)
{
    char index[4400];
    yokei_text(index, sizeof index, "%s/model.safetensors.index.json", folder);
    yokei_text(out, bytes, "%s/model.safetensors", folder);
    const bool has_index = access(index, F_OK) == 0;
    for (int i = 1; (i == 1 && has_index) || access(out, F_OK) == 0; i++) {
        char number[16] = "";
        if (i > 1) yokei_text(number, sizeof number, "-%d", i);
        yokei_text(out, bytes, "%s/model-converted%s.safetensors", folder, number);
    }
}

/*
 * Refuse weights in PyTorch's format. `files` is a Python expression: the list of the files to convert. The
 * command uses clone() to separate tensors that share memory, such as tied ones.
 */
static yoke_status is_pickled(const char *path, const char *folder, const char *files)
{
    char out[4400], quoted[4500], then[4500] = "";
    free_name(folder, out, sizeof out);
    yokei_python_string(out, quoted, sizeof quoted);
    if (strcmp(strrchr(out, '/'), "/model.safetensors") != 0)
        yokei_text(then, sizeof then, ", and then give %s instead", out);
    return yoke_fail(
        YOKE_EDATA,
        "%s: holds weights in PyTorch's own format, which is not read, as such a file can run code; convert them once%s: python3 -c 'import glob, torch, "
        "safetensors.torch as s; d = {}; [d.update(torch.load(f, map_location=\"cpu\", weights_only=True)) for f in "
        "%s]; s.save_file({k: v.clone().contiguous() for k, v in d.items()}, %s, metadata={\"format\": \"pt\"})' (pip install torch safetensors)",
        path, then, files, quoted);
}

static yoke_status one_file(const char *path, const char *folder)
{
    char quoted[4500], files[4600];
    yokei_python_string(path, quoted, sizeof quoted);
    yokei_text(files, sizeof files, "[%s]", quoted);
    return is_pickled(path, folder, files);
}

/* Shards of PyTorch's, which an index names. All of them are converted into one file. */
static yoke_status all_shards(const char *path, const char *folder)
{
    static const char shards[] = "pytorch_model-*.bin";
    char quoted[4500], files[4700], pattern[8800];
    size_t n = 0;
    glob_t found;
    for (const char *c = folder; *c; c++) { /* a folder's name may have the characters of patterns */
        if (strchr("*?[\\", *c)) pattern[n++] = '\\';
        pattern[n++] = *c;
        if (n > sizeof pattern - 64) break;
    }
    yokei_text(pattern + n, sizeof pattern - n, "/%s", shards);
    const bool has_shards = glob(pattern, 0, NULL, &found) == 0;
    if (has_shards) globfree(&found);
    if (!has_shards)
        return yoke_fail(
            YOKE_EDATA,
            "%s: is the index of weights in PyTorch's own format, but its shards (%s) are not in the folder: get the whole model",
            path, shards);
    yokei_python_string(folder, quoted, sizeof quoted);
    yokei_text(files, sizeof files, "sorted(glob.glob(glob.escape(%s) + \"/%s\"))", quoted, shards);
    return is_pickled(path, folder, files);
}

yoke_status yokei_refuse_foreign_folder(const char *folder, const char *const names[2])
{
    static const struct {
        const char *name, *what;
    } others[] = { { "pytorch_model.bin", NULL },
                   { "pytorch_model.bin.index.json", NULL },
                   { "consolidated.00.pth",
                     "Meta's own format: convert it with transformers' convert_llama_weights_to_hf.py" },
                   { "tf_model.h5", "TensorFlow's format" },
                   { "flax_model.msgpack", "Flax's format" },
                   { "adapter_model.safetensors",
                     "an adapter (LoRA) for another "
                     "model: merge it into that model first, with PEFT's merge_and_unload" } };
    char file[4300];
    for (size_t i = 0; i < YOKE_COUNT(others); i++) {
        yokei_text(file, sizeof file, "%s/%s", folder, others[i].name);
        if (access(file, F_OK) != 0) continue;
        if (!others[i].what) return i ? all_shards(file, folder) : one_file(file, folder);
        return yoke_fail(YOKE_EDATA, "%s: the folder holds neither %s nor %s, but %s, which is %s", folder,
                         names[0], names[1], others[i].name, others[i].what);
    }
    return yoke_fail(YOKE_EDATA, "%s: the folder holds neither %s nor %s", folder, names[0], names[1]);
}

/* Whether a zip file's first entry is the one with which PyTorch begins its files: NAME/data.pkl. */
static bool begins_as_pytorch(const unsigned char *begin, size_t n)
{
    static const char entry[] = "data.pkl";
    enum { HEADER = 30, LENGTH = sizeof entry - 1 };
    const size_t length = n >= HEADER ? begin[26] | (size_t)begin[27] << 8 : 0;
    return length >= LENGTH && HEADER + length <= n
           && memcmp(begin + HEADER + length - LENGTH, entry, LENGTH) == 0;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

yoke_status yokei_refuse_foreign_file(const char *path)
{
    /* what PyTorch wrote before version 1.6 begins so */
    static const unsigned char old[] = { 0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20 };
    unsigned char begin[512] = { 0 };
    char folder[4200];
    size_t bytes;
    int fd;
    YOKE_TRY(yokei_file_open(path, YOKE_EDATA, &fd, &bytes));
    const ssize_t got = pread(fd, begin, sizeof begin, 0);
    close(fd);
    const size_t n = got > 0 ? (size_t)got : 0;
    const char *slash = strrchr(path, '/');
    yokei_text(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (ends_with(path, "pytorch_model.bin.index.json")) return all_shards(path, folder);
    const bool is_named = ends_with(path, ".bin") || ends_with(path, ".pt") || ends_with(path, ".pth"),
               is_zip = n >= 4 && memcmp(begin, "PK\3\4", 4) == 0,
               is_pickle = n >= 4 && begin[0] == 0x80 && begin[1] >= 2 && begin[1] <= 5;
    if (((is_zip || is_pickle) && is_named) || begins_as_pytorch(begin, is_zip ? n : 0)
        || (n >= sizeof old && memcmp(begin, old, sizeof old) == 0))
        return one_file(path, folder);
    if (is_zip)
        return yoke_fail(
            YOKE_EDATA,
            "%s: is a zip archive, not safetensors: unpack it elsewhere, and give the model that is in it",
            path);
    if (n >= 4 && memcmp(begin, "GGUF", 4) == 0)
        return yoke_fail(
            YOKE_EDATA,
            "%s: is a GGUF file, which is not read: take the model's safetensors, from which it was made",
            path);
    return YOKE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a tokenizer. */
#include "train/text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/text/bpe_inside.h"
#include "train/files/foreign_weights.h"
#include "train/files/map.h"

static yoke_status fill_in(struct yokei_bpe *bpe, const char *text, size_t bytes)
{
    bpe->cache = calloc(YOKEI_BPE_CACHE, sizeof *bpe->cache);
    bpe->match = pcre2_match_context_create(NULL);
    bpe->stack = pcre2_jit_stack_create(64 << 10, 64 << 20,
                                        NULL); /* NULL without a JIT, which needs no stack */
    if (!bpe->cache || !bpe->match) return yoke_fail(YOKE_ENOMEM, "%s: no memory for a tokenizer", bpe->path);
    pcre2_set_match_limit(bpe->match, UINT32_MAX);
    if (bpe->stack) pcre2_jit_stack_assign(bpe->match, NULL, bpe->stack);
    YOKE_TRY(yokei_bpe_read(bpe, text, bytes));
    for (int byte = 0; byte < 256; byte++) {
        char name[2];
        bpe->byte_id[byte] = yokei_bpe_find_bytes(bpe, name,
                                                  (size_t)yokei_bpe_spell((unsigned char)byte, name));
    }
    return YOKE_OK;
}

yoke_status yokei_bpe_parse(const char *path, const char *text, size_t bytes, struct yokei_bpe **bpe_out)
{
    struct yokei_bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe || !(bpe->path = strdup(path))) {
        free(bpe);
        return yoke_fail(YOKE_ENOMEM, "%s: no memory for a tokenizer", path);
    }
    const yoke_status status = fill_in(bpe, text, bytes);
    if (status)
        yokei_bpe_close(bpe);
    else
        *bpe_out = bpe;
    return status;
}

yoke_status yokei_bpe_look_for_others(const char *folder)
{
    static const char *const pieces[] = { "tokenizer.model", "spiece.model", "sentencepiece.bpe.model" };
    char file[4200];
    for (size_t i = 0; i < YOKE_COUNT(pieces); i++) {
        yokei_text(file, sizeof file, "%s/%s", folder, pieces[i]);
        if (yokei_is_there(file))
            return yokei_bpe_refuse_sentencepiece(file, "the folder has no tokenizer.json, but", pieces[i]);
    }
    yokei_text(file, sizeof file, "%s/merges.txt", folder);
    if (!yokei_is_there(file)) return YOKE_OK;
    char from[4400], to[4500];
    yokei_python_string(folder, from, sizeof from);
    yokei_text(file, sizeof file, "%s/tokenizer.json", folder); /* this file is not there yet */
    yokei_python_string(file, to, sizeof to);
    return yoke_fail(
        YOKE_EDATA,
        "%s: the folder has merges.txt, but no tokenizer.json, which holds the same and more; make it once: python3 -c 'from transformers import "
        "AutoTokenizer; AutoTokenizer.from_pretrained(%s).backend_tokenizer.save(%s)' (pip install transformers)",
        folder, from, to);
}

yoke_status yokei_bpe_open(const char *path, struct yokei_bpe **bpe_out)
{
    struct yokei_map map;
    char file[4200];
    yokei_text(file, sizeof file, yokei_is_folder(path) ? "%s/tokenizer.json" : "%s", path);
    if (yokei_is_folder(path) && !yokei_is_there(file)) YOKE_TRY(yokei_bpe_look_for_others(path));
    YOKE_TRY(yokei_map_open(file, YOKE_EDATA, &map));
    const yoke_status status = yokei_bpe_parse(file, (const char *)map.data, map.bytes, bpe_out);
    yokei_map_close(&map);
    return status;
}

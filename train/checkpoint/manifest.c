/* SPDX-License-Identifier: Apache-2.0 */
#include "train/checkpoint/manifest.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"

#define LIMIT 1e15
#define MEMBER(member) offsetof(struct yokei_manifest, member), sizeof(((struct yokei_manifest *)0)->member)
#define FILE_MEMBER(member) \
    offsetof(struct yokei_saved_file, member), sizeof(((struct yokei_saved_file *)0)->member)
#define TENSOR_MEMBER(member) \
    offsetof(struct yokei_saved_tensor, member), sizeof(((struct yokei_saved_tensor *)0)->member)

static const struct yokei_json_field FILE_FIELDS[] = {
    { "name", YOKEI_JSON_TEXT, FILE_MEMBER(name), true },
    { "bytes", YOKEI_JSON_I64, FILE_MEMBER(bytes), true, 0, 1e18 },
    { "xxh3", YOKEI_JSON_TEXT, FILE_MEMBER(xxh3), true },
    { 0 },
};
static const struct yokei_json_schema FILE_SCHEMA = { FILE_FIELDS, sizeof(struct yokei_saved_file), false,
                                                      YOKE_EDATA };
static const struct yokei_json_field TENSOR_FIELDS[] = {
    { "name", YOKEI_JSON_TEXT, TENSOR_MEMBER(name), true },
    { "file", YOKEI_JSON_TEXT, TENSOR_MEMBER(file), true },
    { "xxh3", YOKEI_JSON_TEXT, TENSOR_MEMBER(xxh3), true },
    { 0 },
};
static const struct yokei_json_schema TENSOR_SCHEMA = { TENSOR_FIELDS, sizeof(struct yokei_saved_tensor),
                                                        false, YOKE_EDATA };
static const char *const FORMATS[] = { YOKEI_MANIFEST_FORMAT, NULL };
static const char *const ORDERS[] = { YOKEI_DATA_ORDER, NULL };

static const struct yokei_json_field FIELDS[] = {
    { "format", YOKEI_JSON_TEXT, MEMBER(format), true, .choices = FORMATS },
    { "version", YOKEI_JSON_I64, MEMBER(version), true, YOKEI_MANIFEST_VERSION, YOKEI_MANIFEST_VERSION },
    { "yoke", YOKEI_JSON_TEXT, MEMBER(yoke), true },
    { "step", YOKEI_JSON_I64, MEMBER(step), true, 0, LIMIT },
    { "optimizer_step", YOKEI_JSON_I64, MEMBER(optimizer_step), true, 0, LIMIT },
    { "tokens", YOKEI_JSON_I64, MEMBER(tokens), true, 0, 1e18 },
    { "seconds", YOKEI_JSON_F64, MEMBER(seconds), true, 0, LIMIT },
    { "data_order", YOKEI_JSON_TEXT, MEMBER(data_order), true, .choices = ORDERS },
    { "data_next_sample", YOKEI_JSON_I64, MEMBER(data_next_sample), true, 0, 1e18 },
    { "seed", YOKEI_JSON_U64, MEMBER(seed), true },
    { "loss_scale", YOKEI_JSON_F64, MEMBER(loss_scale), true, 0, 1e300 },
    { "good_steps", YOKEI_JSON_I64, MEMBER(good_steps), true, 0, LIMIT },
    { "skipped_steps", YOKEI_JSON_I64, MEMBER(skipped_steps), true, 0, 1e6 },
    { "replay", YOKEI_JSON_BOOL, MEMBER(replay), true },
    { "plan", YOKEI_JSON_OBJECT, MEMBER(plan), true, .schema = &yokei_plan_schema },
    { "files", YOKEI_JSON_ARRAY, MEMBER(files), true, 1, 1e6, .schema = &FILE_SCHEMA,
      .count_offset = offsetof(struct yokei_manifest, n_files) },
    { "tensors", YOKEI_JSON_ARRAY, MEMBER(tensors), true, 1, 1e7, .schema = &TENSOR_SCHEMA,
      .count_offset = offsetof(struct yokei_manifest, n_tensors) },
    { "xxh3", YOKEI_JSON_TEXT, MEMBER(xxh3), true }, /* must be the last field: see signature() */
    { 0 },
};
static const struct yokei_json_schema SCHEMA = { FIELDS, sizeof(struct yokei_manifest), false, YOKE_EDATA };

static const char SIGNATURE[] = "\"xxh3\": \"", ZEROS[] = "0000000000000000";

const char *yokei_saved_suffix(enum yoke_tensor_kind kind)
{
    return kind == YOKE_TENSOR_MOMENT1 ? ".moment1" : kind == YOKE_TENSOR_MOMENT2 ? ".moment2" : "";
}

void yokei_hash_text(uint64_t hash, char out[20]) { yokei_text(out, 20, "%016" PRIx64, hash); }

/* The place of the text's own checksum: the last value with this key. NULL: there is none. */
static char *signature(char *text, size_t bytes)
{
    const size_t key = sizeof SIGNATURE - 1;
    char *found = NULL;
    for (char *p = text; (p = memmem(p, bytes - (size_t)(p - text), SIGNATURE, key)); p++) found = p + key;
    return found && (size_t)(found - text) + sizeof ZEROS <= bytes ? found : NULL;
}

yoke_status yokei_manifest_text(struct yokei_manifest *m, char **text_out)
{
    char *text;
    memset(m->xxh3, 0, sizeof m->xxh3);
    memcpy(m->xxh3, ZEROS, sizeof ZEROS);
    YOKE_TRY(yokei_plan_check(&m->plan, "checkpoint"));
    YOKE_TRY(yokei_json_text(&SCHEMA, m, true, false, &text));
    char *place = signature(text, strlen(text));
    if (!place) {
        free(text);
        return yoke_fail(YOKE_EINTERNAL, "checkpoint: its manifest has no place for a checksum");
    }
    yokei_hash_text(yokei_hash(text, strlen(text), 0), m->xxh3);
    memcpy(place, m->xxh3, sizeof ZEROS - 1);
    *text_out = text;
    return YOKE_OK;
}

yoke_status yokei_manifest_write(const char *folder, struct yokei_manifest *m)
{
    char path[4096], *text;
    yokei_text(path, sizeof path, "%s/" YOKEI_MANIFEST_NAME, folder);
    YOKE_TRY(yokei_manifest_text(m, &text));
    yoke_status status = yokei_file_write(path, text, strlen(text));
    free(text);
    return status;
}

/* Check that the text has not changed by a bit. The digits of the checksum are replaced by zeros. */
static yoke_status check_signature(const char *path, char *text, size_t bytes)
{
    char have[20] = "", want[20];
    char *place = signature(text, bytes);
    if (place) {
        memcpy(have, place, sizeof ZEROS - 1);
        memcpy(place, ZEROS, sizeof ZEROS - 1);
    }
    yokei_hash_text(yokei_hash(text, bytes, 0), want);
    if (place && strcmp(have, want) == 0) return YOKE_OK;
    return yoke_fail(YOKE_EDATA, "%s: its checksum is not that of its text: it is damaged, or was edited",
                     path);
}

static bool is_file_name(const char *name) { return *name && *name != '.' && !strchr(name, '/'); }

static yoke_status check_names(const char *path, const struct yokei_manifest *m)
{
    for (int64_t i = 0; i < m->n_files; i++)
        if (!is_file_name(m->files[i].name))
            return yoke_fail(YOKE_EDATA, "%s: files[%lld] is \"%s\", which is no name of a file", path,
                             (long long)i, m->files[i].name);
    return YOKE_OK;
}

yoke_status yokei_manifest_read(const char *folder, struct yokei_manifest *m_out)
{
    enum { MOST = 1 << 30 };
    char path[4096];
    void *text;
    size_t bytes;
    yokei_text(path, sizeof path, "%s/" YOKEI_MANIFEST_NAME, folder);
    if (!yokei_is_there(path))
        return yoke_fail(YOKE_EDATA,
                         "%s: holds no " YOKEI_MANIFEST_NAME ": it is no checkpoint, or was never finished",
                         folder);
    YOKE_TRY(yokei_file_read_as(path, YOKE_EDATA, MOST, &text, &bytes));
    struct yokei_manifest m = { .plan = YOKEI_PLAN_INIT };
    yoke_status status = check_signature(path, text, bytes);
    if (!status) {
        status = yokei_json_parse(path, text, bytes, &SCHEMA, &m);
        if (!status) status = yokei_plan_check(&m.plan, path);
        if (!status) status = check_names(path, &m);
        if (status && status != YOKE_ENOMEM)
            status = YOKE_EDATA; /* an invalid configuration means an invalid checkpoint */
    }
    free(text);
    if (status)
        yokei_manifest_free(&m);
    else
        *m_out = m;
    return status;
}

void yokei_manifest_free(struct yokei_manifest *m) { yokei_json_free(&SCHEMA, m); }

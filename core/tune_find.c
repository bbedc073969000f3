/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find the tuning file that applies to a device: the named one, the user's, the shipped one that matches, or
 * none.
 */
#include "core/tune.h"
#include "core/base/base.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20, MOST_SHIPPED = 256 };

void yokei_tuning_user_file(const yoke_device *device, char *out, size_t bytes)
{
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char name[2 * sizeof device->info.name];
    size_t n = 0;
    for (const char *c = device->info.name; *c;
         c++) /* one dash replaces a run of characters that no file name should have */
        if (isalnum((unsigned char)*c) || *c == '.' || *c == '_')
            name[n++] = *c;
        else if (n && name[n - 1] != '-')
            name[n++] = '-';
    name[n] = 0;
    out[0] = 0;
    if (base && *base == '/')
        yokei_text(out, bytes, "%s/yoke/tuning/%s-%s.tune", base, device->backend->name, name);
    else if (home && *home)
        yokei_text(out, bytes, "%s/.config/yoke/tuning/%s-%s.tune", home, device->backend->name, name);
}

/* The folder of the shipped files: $YOKE_DATA_DIR/tuning, or that of the build tree, or the installed one. */
static void shipped_folder(char *out, size_t bytes)
{
    const char *given = getenv("YOKE_DATA_DIR");
    Dl_info here;
    if (given && *given) {
        yokei_text(out, bytes, "%s/tuning", given);
        return;
    }
    yokei_text(out, bytes, "%s/tuning", YOKE_DATADIR);
    /*
     * The path contains libtool's own folder, so this library runs from the build tree and is not installed.
     */
    if (!dladdr((void *)(uintptr_t)&shipped_folder, &here) || !here.dli_fname) return;
    const char *end = strstr(here.dli_fname, "/.libs/");
    char built[1024] = "";
    if (end) yokei_text(built, sizeof built, "%.*s/core/tuning", (int)(end - here.dli_fname), here.dli_fname);
    if (yokei_is_folder(built)) yokei_text(out, bytes, "%s", built);
}

static void forget(struct yokei_tuning *t)
{
    free(t->choices);
    t->choices = NULL;
    t->n = 0;
    t->source = (struct yokei_tuning_source){ .kind = YOKEI_TUNING_RULES };
}

static yoke_status read_as(const yoke_device *device, const char *file, enum yokei_tuning_kind kind,
                           struct yokei_tuning *t)
{
    void *text = NULL;
    size_t bytes;
    yoke_status status = yokei_file_read_as(file, YOKE_ECONFIG, MOST_BYTES, &text, &bytes);
    if (!status) status = yokei_tuning_parse(device, t, file, text, kind == YOKEI_TUNING_GIVEN);
    free(text);
    t->source.kind = kind;
    yokei_text(t->source.file, sizeof t->source.file, "%s", file);
    if (status) forget(t);
    return status;
}

/* Try a file that was not named by the user. Its mistakes are logged, and the file is then ignored. */
static yoke_status try_file(const yoke_device *device, const char *file, enum yokei_tuning_kind kind,
                            struct yokei_tuning *t)
{
    const yoke_status status = read_as(device, file, kind, t);
    if (status == YOKE_ENOMEM) return status;
    const bool other = status == YOKE_ENODEV || status == YOKE_EUNSUPPORTED;
    if (status && (!other || kind == YOKEI_TUNING_USER))
        yoke_log(YOKE_LOG_WARN, "%s: the tuning file is left out: %s", device->info.spec, yoke_last_error());
    if (!status && t->source.n_skipped)
        yoke_log(
            YOKE_LOG_WARN,
            "%s: %d of %d lines of %s name variants that this device lacks; there the built-in rule holds. yoke tune measures anew",
            device->info.spec, t->source.n_skipped, (int)t->n, file);
    return YOKE_OK;
}

/* A list "a.tune:b.tune". The ranks of a job share this variable and may have several kinds of devices. */
static yoke_status find_listed(const yoke_device *device, const char *list, struct yokei_tuning *t)
{
    yoke_status status = YOKE_OK;
    for (const char *p = list; *p && t->source.kind == YOKEI_TUNING_RULES; p += *p == ':') {
        char path[1024];
        const size_t n = strcspn(p, ":");
        yokei_text(path, sizeof path, "%.*s", (int)n, p);
        p += n;
        if (n) status = read_as(device, path, YOKEI_TUNING_GIVEN, t);
        if (status && status != YOKE_EUNSUPPORTED)
            return status == YOKE_ENODEV ? yoke_fail_context(YOKE_ECONFIG, "YOKE_TUNE_FILE") : status;
    }
    return YOKE_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Take the first shipped file of the device's backend that matches, in the order of the file names. */
static yoke_status find_shipped(const yoke_device *device, struct yokei_tuning *t)
{
    char folder[1024], *names[MOST_SHIPPED], prefix[40];
    int n = 0;
    yoke_status status = YOKE_OK;
    shipped_folder(folder, sizeof folder);
    yokei_text(prefix, sizeof prefix, "%s-", device->backend->name);
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && n < MOST_SHIPPED && (e = readdir(dir));) {
        const size_t length = strlen(e->d_name);
        if (strncmp(e->d_name, prefix, strlen(prefix)) || length < 5
            || strcmp(e->d_name + length - 5, ".tune"))
            continue;
        if ((names[n] = strdup(e->d_name))) n++;
    }
    if (dir) closedir(dir);
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int i = 0; i < n; i++) {
        char path[1400];
        yokei_text(path, sizeof path, "%s/%s", folder, names[i]);
        if (!status && t->source.kind == YOKEI_TUNING_RULES)
            status = try_file(device, path, YOKEI_TUNING_SHIPPED, t);
        free(names[i]);
    }
    return status;
}

yoke_status yokei_tuning_find(const yoke_device *device, const char *file, struct yokei_tuning *tuning)
{
    char user[1024];
    const char *list = getenv("YOKE_TUNE_FILE");
    if (file ? !strcmp(file, "off") : list && !strcmp(list, "off")) return YOKE_OK;
    if (file && *file) {
        const yoke_status status = read_as(device, file, YOKEI_TUNING_GIVEN, tuning);
        return status == YOKE_ENODEV || status == YOKE_EUNSUPPORTED
                   ? yoke_fail_context(YOKE_ECONFIG, "tuning")
                   : status;
    }
    if (!file && list) YOKE_TRY(find_listed(device, list, tuning));
    if (tuning->source.kind != YOKEI_TUNING_RULES) return YOKE_OK;
    yokei_tuning_user_file(device, user, sizeof user);
    if (user[0] && yokei_is_there(user)) YOKE_TRY(try_file(device, user, YOKEI_TUNING_USER, tuning));
    return tuning->source.kind == YOKEI_TUNING_RULES ? find_shipped(device, tuning) : YOKE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Chosen variants of a device's ops: those of its tuning file, and those that a test forces. docs/TUNING.md has the format.
 * tune.c keeps and answers; tune_file.c reads a file, tune_find.c looks for the one that holds.
 */
#ifndef CORE_TUNE_H
#define CORE_TUNE_H

#include "core/backend.h"

enum { YOKEI_TUNING_VERSION = 1 };

/** One line of a file: from this size (and edge, see yokei_variant_at) on, ops of this type run by that variant. */
struct yokei_choice {
    enum yoke_op_id op;
    int dtype;      /* -1: any */
    double size, edge;
    int variant;    /* YOKEI_BY_RULE: as without a file */
};
enum { YOKEI_BY_RULE = -1 };

/** Where a device's choices come from, for `yoke info` and `yoke tune`. */
struct yokei_tuning_source {
    enum yokei_tuning_kind { YOKEI_TUNING_RULES, YOKEI_TUNING_GIVEN, YOKEI_TUNING_USER, YOKEI_TUNING_SHIPPED } kind;
    char file[1024];      /* "" of YOKEI_TUNING_RULES */
    char made[256];       /* the file's "made" line, or "" */
    bool other_variants;  /* that line names another list of variants than the device has now */
    int n_choices, n_skipped; /* lines in use; lines that name a variant which this device lacks */
};

struct yokei_tuning {
    int forced[YOKE_N_OPS]; /* -1: not forced */
    struct yokei_tuning_source source;
    size_t n;
    struct yokei_choice *choices;
    /* What the op's last call asked for and was answered; for measurements, by one thread. */
    struct yokei_asked {
        _Atomic double size, edge;
        atomic_int variant; /* -1: it was not called */
    } asked[YOKE_N_OPS];
};

/**
 * Find and read the tuning file of a device that was opened: `file`, else the first of $YOKE_TUNE_FILE that is of its backend,
 * else the user's, else the shipped one that matches the device; "off" for either of the first two: none. Of a file that was
 * named everything that is wrong is an error, YOKE_ECONFIG; else it is a warning and the line, or the file, is left out.
 */
yoke_status yokei_tuning_create(yoke_device *device, const char *file);
void yokei_tuning_destroy(yoke_device *device);

const struct yokei_tuning_source *yokei_tuning_source(const yoke_device *device);
/** The variant that the op's last call on this device ran by, its size and edge. "": it was not called, or has no variants. */
const char *yokei_variant_used(const yoke_device *device, enum yoke_op_id op, double *size_out, double *edge_out);

/* ---- tune_file.c ---- */
/** The variant's index, or -1. */
int yokei_variant_named(const yoke_device *device, enum yoke_op_id op, const char *name);
/** The op's id, or -1. */
int yokei_op_named(const char *name);
/**
 * Read `text` (changed on the way) as the file called `name`. Writes tuning->choices and source. With `strict` unknown
 * variants are errors. YOKE_EUNSUPPORTED: made for another backend; YOKE_ENODEV: for another
 * device; YOKE_ECONFIG: anything else that is wrong.
 */
yoke_status yokei_tuning_parse(const yoke_device *device, struct yokei_tuning *tuning, const char *name, char *text, bool strict);
/** The lines that a file for this very device begins with, or, with `matches` (FIELD=PATTERN, ended by NULL), for all that match. */
yoke_status yokei_tuning_head(const yoke_device *device, const char *const matches[], char *out, size_t bytes);

/* ---- tune_find.c ---- */
/** The user's file for a device: $XDG_CONFIG_HOME/yoke/tuning/<backend>-<name>.tune, ~/.config; "" where there is no home. */
void yokei_tuning_user_file(const yoke_device *device, char *out, size_t bytes);
yoke_status yokei_tuning_find(const yoke_device *device, const char *file, struct yokei_tuning *tuning);

#endif

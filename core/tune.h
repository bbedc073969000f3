/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The chosen variants of a device's ops. A variant is one of several ways to run an op. It is chosen by the
 * device's tuning file, or forced by a test. docs/TUNING.md has the format of the file. tune.c keeps the
 * choices and answers questions about them. tune_file.c reads a file, and tune_find.c looks for the file that
 * applies.
 */
#ifndef CORE_TUNE_H
#define CORE_TUNE_H

#include "core/backend.h"

enum { YOKEI_TUNING_VERSION = 1 };

/* The most bytes of what stands behind the name of a variant and a colon. */
enum { YOKEI_DETAIL_BYTES = 128 };

/**
 * One line of a file. From this size on (and this edge, see struct yokei_call), ops of this type run by this
 * variant.
 */
struct yokei_choice {
    enum yoke_op_id op;
    int dtype; /* -1: any type */
    double size, edge;
    int variant;                     /* YOKEI_BY_RULE: the built-in rule chooses, as without a file */
    char detail[YOKEI_DETAIL_BYTES]; /* the algorithm of a library, or "" */
};
enum { YOKEI_BY_RULE = -1 };

/** The origin of a device's choices, for `yoke info` and `yoke tune`. */
struct yokei_tuning_source {
    enum yokei_tuning_kind {
        YOKEI_TUNING_RULES,
        YOKEI_TUNING_GIVEN,
        YOKEI_TUNING_USER,
        YOKEI_TUNING_SHIPPED
    } kind;
    char file[1024];     /* "" if the kind is YOKEI_TUNING_RULES */
    char made[256];      /* the "made" line of the file, or "" */
    bool other_variants; /* the "made" line has another list of variants than the device has now */
    int n_choices,
        n_skipped; /* number of lines in use, and number of lines with a variant that this device lacks */
};

struct yokei_tuning {
    int forced[YOKE_N_OPS]; /* -1: not forced */
    char forced_detail[YOKE_N_OPS][YOKEI_DETAIL_BYTES];
    struct yokei_tuning_source source;
    size_t n;
    struct yokei_choice *choices;
    /*
     * The size and the edge of the op's last call, and the variant that was chosen for it. For measurements
     * that use one thread.
     */
    struct yokei_asked {
        _Atomic double size, edge;
        atomic_int variant; /* -1: the op was not called */
        /* one bit for each variant that calls would have got if none had been forced */
        _Atomic uint64_t unforced;
    } asked[YOKE_N_OPS];
};

/**
 * Find and read the tuning file of an opened device. The file is the first of these that applies:
 * 1. `file`;
 * 2. the first file of $YOKE_TUNE_FILE that is for the device's backend;
 * 3. the user's file;
 * 4. the shipped file that matches the device.
 * If `file` is "off", or `file` is NULL and $YOKE_TUNE_FILE is "off", no file is read. Any mistake in a file
 * of the first two kinds is an error, YOKE_ECONFIG. A mistake in the others is a warning, and the line or the
 * file is left out.
 */
yoke_status yokei_tuning_create(yoke_device *device, const char *file);
void yokei_tuning_destroy(yoke_device *device);

const struct yokei_tuning_source *yokei_tuning_source(const yoke_device *device);
/**
 * The variant by which the op's last call on this device ran, and the size and edge of that call. "": the op
 * was not called, or has no variants.
 */
const char *yokei_variant_used(const yoke_device *device, enum yoke_op_id op, double *size_out,
                               double *edge_out);
/** The algorithm of the library that ran the op's last call, in the form of a detail; "" if none did. */
void yokei_algorithm_used(const yoke_device *device, enum yoke_op_id op, char *text, size_t bytes);

/* ---- tune_file.c ---- */
/**
 * The index of the variant, or -1. The name may have a detail behind a colon, if the device accepts it there.
 */
int yokei_variant_named(const yoke_device *device, enum yoke_op_id op, const char *name);
/** The id of the op, or -1. */
int yokei_op_named(const char *name);
/**
 * Read `text` as the content of the file `name`. The function changes `text`. Writes tuning->choices and
 * source. With `strict`, unknown variants are errors.
 * Errors: YOKE_EUNSUPPORTED (the file is for another backend), YOKE_ENODEV (the file is for another device),
 *         YOKE_ECONFIG (any other mistake).
 */
yoke_status yokei_tuning_parse(const yoke_device *device, struct yokei_tuning *tuning, const char *name,
                               char *text, bool strict);
/**
 * The lines at the beginning of a new tuning file. Without `matches`, the file is for this very device. With
 * `matches` (FIELD=PATTERN, ended by NULL), the file is for all devices that match.
 */
yoke_status yokei_tuning_head(const yoke_device *device, const char *const matches[], char *out,
                              size_t bytes);

/* ---- tune_find.c ---- */
/**
 * The path of the user's file for a device: $XDG_CONFIG_HOME/yoke/tuning/<backend>-<name>.tune, else the same
 * under ~/.config. "" if there is no home folder.
 */
void yokei_tuning_user_file(const yoke_device *device, char *out, size_t bytes);
yoke_status yokei_tuning_find(const yoke_device *device, const char *file, struct yokei_tuning *tuning);

#endif

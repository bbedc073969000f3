/* SPDX-License-Identifier: Apache-2.0 */
/** What the command and its files need to know of a kind of models. kinds.h lists all kinds. */
#ifndef TRAIN_MODELS_KIND_H
#define TRAIN_MODELS_KIND_H

#include <yoke/train.h>

#include "train/files/config_places.h"
#include "train/files/json.h"
#include "train/models/kinds.h"

/** A weight in Hugging Face's files. */
enum { YOKEI_WEIGHT_NAME_BYTES = 64 };
struct yokei_weight {
    char name[YOKEI_WEIGHT_NAME_BYTES]; /* "h.0.attn.c_attn.weight", without `prefix` */
    int n_dims;                         /* 1 or 2 */
    int64_t shape[2];                   /* as the file stores it; [1] is 0 for a vector */
    bool is_matrix;                     /* a weight of two dimensions; AdamW applies weight decay to it */
};

/** A configuration by name. */
struct yokei_model_preset {
    const char *name;
    const void *config;
};

enum { YOKEI_MODEL_DROPOUTS = 3 };

/**
 * A kind of models. `config` always points to the struct of the kind's configuration, which begins with its
 * size.
 */
struct yokei_model_kind {
    const char *architecture;                 /* in config.json: "GPT2LMHeadModel" */
    const struct yokei_model_preset *presets; /* ended by a NULL name */
    struct yokei_json_schema schema;          /* the configuration in plan.json */
    const struct yokei_config_field *places;  /* the fields that transformers reads at more than one place */
    /* Offsets of int64_t members of the configuration. */
    size_t n_layers, n_heads, n_positions, n_words;
    /*
     * of the window of sliding attention, which Yoke does not compute: a longer sequence is refused; 0: none
     */
    size_t window;
    /*
     * The dropouts: offsets of double members, and where each is, for messages. `where` NULL ends the list.
     */
    struct {
        size_t offset;
        const char *where;
    } dropouts[YOKEI_MODEL_DROPOUTS + 1];
    /*
     * If config.json names no first and last token, readers assume those of the kind's own vocabulary. A
     * model with at least so many words is taken to have this vocabulary. 0: readers assume nothing.
     */
    int64_t own_vocabulary;

    /**
     * Read config.json (a file, or a folder that holds it). Errors: YOKE_EDATA if it is missing or not JSON
     * (with line and column); YOKE_ECONFIG, with file, key and reason, if a size is missing or out of range,
     * or if Yoke does not compute the model. Keys that do not change the computation are ignored.
     */
    yoke_status (*read)(const char *path, void *config_out);
    /**
     * The config.json that Yoke writes, as one malloc'ed text: the shape, and the keys that must have one
     * value. YOKE_ECONFIG, YOKE_ENOMEM.
     */
    yoke_status (*write)(const void *config, char **text_out);
    yoke_status (*check)(const void *config);
    yoke_status (*create)(const void *config, yoke_model **model_out);
    /**
     * The weights: their number, and weight `index` from 0 to it, in the order in which the layers have them.
     */
    int64_t (*n_weights)(const void *config);
    void (*weight)(const void *config, int64_t index, struct yokei_weight *weight_out);
    /** As yokei_model_flops. */
    double (*flops)(const void *config, int64_t sequence);
    /** The sizes in words: "2 layers, 4 heads, ...". */
    void (*describe)(const void *config, char *text, size_t bytes);

    /* How a file of weights may differ from the list of weights. */
    const char *prefix;        /* names may begin with this; NULL: nothing */
    const char *may_be_longer; /* of this weight the file may have more rows than the model; NULL: none */
    bool (*is_table)(
        const char *name); /* whether this tensor follows from the configuration, and is ignored */
    const char *tied;      /* what says that the head is the embedding, for messages; "": it always is */
};

#define YOKEI_MODEL_KIND(id, ...) extern const struct yokei_model_kind yokei_kind_##id;
YOKEI_MODEL_KINDS(YOKEI_MODEL_KIND)
#undef YOKEI_MODEL_KIND

/** A row of kinds.h. */
struct yokei_model_row {
    const struct yokei_model_kind *kind;
    const char *type;    /* model_type in config.json: "gpt2" */
    const char *key;     /* in plan.json: "model" */
    const char *name;    /* in messages: "GPT-2" */
    const char *presets; /* for help texts */
    size_t offset;       /* of the configuration in struct yokei_model_config */
};
/** All rows, in the order of kinds.h. The last one has kind NULL. */
extern const struct yokei_model_row yokei_model_rows[];
const struct yokei_model_row *yokei_model_row_of(const struct yokei_model_kind *kind);
/**
 * Copy the kind's preset of this name. `function` is for messages. YOKE_EINVAL if a pointer is null. For an
 * unknown name, YOKE_ECONFIG lists the kind's names.
 */
yoke_status yokei_preset_copy(const char *function, const struct yokei_model_kind *kind, const char *name,
                              void *config_out);

#endif

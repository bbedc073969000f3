/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The black box of a training run. Each rank keeps its latest steps in a ring in a mapped file of the run
 * directory, blackbox-RANK.bin. The file has a fixed size, which is reserved when the run starts. It outlives
 * a SIGKILL. docs/BLACKBOX.md describes the format.
 *
 *   ring.c   the rank that trains creates the file and writes it;
 *   rule.c   when a loss or a gradient norm counts as a spike;
 *   read.c   any process reads one file, also while the rank writes it, and also a damaged one;
 *   merge.c  the files of all ranks of a run, step by step.
 *
 * Numbers in the file are little-endian. Each record, each event and each status has a checksum, so a part
 * that a killed process has written only in part is recognised.
 */
#ifndef TRAIN_BLACKBOX_BOX_H
#define TRAIN_BLACKBOX_BOX_H

#include <yoke/base.h>

#define YOKEI_BOX_MAGIC 0x786f626b6f79ull /* "yokbox" */

enum {
    YOKEI_BOX_VERSION = 1,
    YOKEI_BOX_EVENTS = 64,          /* places for events; the oldest ones are overwritten */
    YOKEI_BOX_CHOICES = 8192,       /* bytes of the text of choices */
    YOKEI_BOX_MOST_BYTES = 4 << 20, /* the ring has as many records as fit into so many bytes, ... */
    YOKEI_BOX_MOST_RECORDS = 1024,  /* ... but at most so many, ... */
    YOKEI_BOX_LEAST_RECORDS = 128,  /* ... and at least so many */
    YOKEI_BOX_MOST_COPIES = 4,      /* copies of the file that spikes and overflows may make in one start */
    YOKEI_BOX_MOST_RANKS = 65536,
};

/* ---- the file ---- */

/**
 * The head. It is written before the first record, and does not change during a start of the run. All
 * offsets are in bytes from the start of the file.
 */
struct yokei_box_head {
    uint64_t magic;
    uint32_t version, head_bytes;
    uint64_t checksum; /* XXH3 of the head with this field 0 */
    uint64_t file_bytes, status_at, events_at, layers_at, tensors_at, ring_at;
    uint32_t record_bytes; /* of a record with its layers */
    uint32_t n_records;    /* places in the ring */
    uint32_t n_layers, n_tensors;
    /* The rank, counted in the order of plan.json's ranks that work; and its number when the job started. */
    int32_t rank, job_rank, n_ranks;
    /* the rank's place on the mesh, and the size of the mesh. n_places: the ranks that share the layers of
     * this rank's stage */
    int32_t replica, stage, place, n_replicas, n_stages, n_places, zero;
    int32_t sample_every; /* steps between samples of activations and updates; 0: none */
    int32_t n_model_layers;
    int64_t batch, sequence, micro_batch;
    uint64_t seed;
    /* the tokens: a hash of all of them, their number in the training part, and where they lie in the file */
    uint64_t data_hash;
    int64_t n_training_tokens;
    int64_t token_bytes; /* bytes of a token in the data file; 0: a tokenizer made the tokens, from a text */
    int64_t first_byte;  /* offset of the first token in the data file */
    /* the rule for spikes, as struct yokei_spike_rule has it */
    double loss_deviations, loss_least, norm_deviations, norm_least;
    int32_t window, least_values, quiet_steps, pid;
    /* the start of the run: when the box was made or opened, in seconds since 1970, and the step behind which
     * the start goes on; 0: a new run */
    double started;
    int64_t first_step;
    uint32_t attempt; /* number of the start whose records go into this file, from 1 */
    uint32_t unused;
    char precision[8], device[32], device_name[128], driver[160], features[256], vendor[16], host[64];
    char version_of_yoke[32];
    char data_path[1024];
    char skip_samples[2112];         /* the samples that no step reads: yokei_skips_text */
    char resumed_from[1024];         /* the checkpoint from which the start goes on; "": none */
    char choices[YOKEI_BOX_CHOICES]; /* yokei_choices_text, after a first step */
};

/** A layer of the rank, in the order of the model. */
struct yokei_box_layer {
    char name[64];
    int32_t layer; /* index in the model */
    int32_t unused;
};

/** A tensor of the rank: a parameter, or its part on this rank. */
struct yokei_box_tensor {
    char name[96];
    int32_t layer; /* the layer of the model to which the parameter belongs, the lowest one that uses it */
    int32_t is_counted; /* the rank's elements count in the norm; else another rank counts them */
    int64_t n;          /* elements on this rank */
};

enum yokei_box_end {
    YOKEI_BOX_RUNS,    /* the rank trains, or was killed */
    YOKEI_BOX_DONE,    /* the run ended as it should */
    YOKEI_BOX_STOPPED, /* the run was asked to stop, by a signal */
    YOKEI_BOX_FAILED,  /* the run ended with an error */
    YOKEI_BOX_N_ENDS
};
extern const char *const yokei_box_end_names[YOKEI_BOX_N_ENDS];

/** Facts that change seldom. There are two, and the newer one with a right checksum is valid. */
struct yokei_box_status {
    uint64_t checksum; /* XXH3 of the bytes behind this field */
    uint64_t number;   /* from 1 */
    int32_t end;       /* enum yokei_box_end */
    int32_t error;     /* yoke_status, for YOKEI_BOX_FAILED and YOKEI_BOX_STOPPED */
    int64_t end_step;  /* the last step that was begun */
    double time;       /* seconds since 1970 */
    /* the last audit: its step (0: none), the largest ratio, its seconds, its yoke_status */
    int64_t audit_step;
    double audit_ratio, audit_seconds;
    int32_t audit_status, unused;
    char text[640]; /* the error */
};

enum yokei_box_kind {
    YOKEI_BOX_EVENT_START,      /* a start of the run; a: the step behind which it begins, b: the attempt */
    YOKEI_BOX_EVENT_LOSS_SPIKE, /* a: the loss, b: the median, c: the least value that counts as a spike */
    YOKEI_BOX_EVENT_NORM_SPIKE, /* the same of the gradient norm */
    YOKEI_BOX_EVENT_OVERFLOW,   /* gradients were not finite; a: the loss scale, b: elements on this rank */
    YOKEI_BOX_EVENT_BAD_LOSS,   /* the loss was not finite; a: the loss of this rank's tokens */
    YOKEI_BOX_EVENT_AUDIT,      /* an audit failed; a: the ratio */
    YOKEI_BOX_EVENT_END,        /* a: enum yokei_box_end, b: the yoke_status */
    YOKEI_BOX_N_KINDS
};
extern const char *const yokei_box_kind_names[YOKEI_BOX_N_KINDS];

struct yokei_box_event {
    uint64_t checksum; /* XXH3 of the bytes behind this field */
    uint64_t number;   /* from 1; event n lies at place (n - 1) % YOKEI_BOX_EVENTS */
    int64_t step;
    double time; /* seconds since 1970 */
    int32_t kind;
    uint32_t attempt;
    double a, b, c;
    char text[128]; /* a tensor or a layer; "": none */
};

enum {
    YOKEI_BOX_OVERFLOW = 1,    /* the gradients were not finite, so the optimizer did not step */
    YOKEI_BOX_SAMPLED = 2,     /* the layers have activations and updates */
    YOKEI_BOX_LOSS_SPIKE = 4,  /* the rule called the loss a spike */
    YOKEI_BOX_NORM_SPIKE = 8,  /* the rule called the gradient norm a spike */
    YOKEI_BOX_BAD_LOSS = 16,   /* the loss was not finite, so the run ended */
    YOKEI_BOX_UNFINISHED = 32, /* the run ended in the step, so some fields may be NaN */
    YOKEI_BOX_AUDITED = 64,    /* an audit followed the step */
    YOKEI_BOX_TRACED = 128,    /* the passes were repeated after an overflow: see own_bad */
};

/** One step on one rank. Layers follow: struct yokei_box_values [n_layers]. */
struct yokei_box_record {
    uint64_t checksum; /* XXH3 of the bytes behind this field, with the layers */
    uint64_t number;   /* from 1; record n lies at place (n - 1) % n_records */
    int64_t step;
    uint32_t attempt, flags;
    double time;    /* seconds since 1970 */
    double seconds; /* of the step */
    /* of the whole run: */
    double loss, gradient_norm, learning_rate, loss_scale;
    /* of this rank: the sum of the losses of its tokens; 0 on ranks that compute no loss */
    double own_loss;
    /* the data: number of the step's first sample in the run; the part of the step's samples that this
     * rank's replica reads; XXH3 of the inputs and the targets that the rank read */
    int64_t first_sample, own_first, own_count;
    uint64_t tokens_hash;
    /*
     * Elements of the summed gradients in this rank's slices that are not finite, and the first tensor with
     * such an element in the order of the backward pass (its index; -1: none).
     */
    int64_t n_bad;
    int32_t bad_tensor;
    /* the same of this rank's own gradients, before any sum over replicas (YOKEI_BOX_TRACED) */
    int32_t own_bad_tensor;
    int64_t own_bad;
    /* the first layer (index in the model) whose output was not finite, and its micro-batch; -1: none was */
    int32_t bad_layer, bad_micro_batch;
    double audit_ratio; /* NaN: no audit, or its gradients overflowed */
    /* the sample of this rank with the largest loss, by its number in the run, and its loss per token; -1,
     * NaN: this rank computes no loss */
    int64_t worst_sample;
    double worst_loss;
};

/** What a record has of one layer of the rank. */
struct yokei_box_values {
    /* sum of the squares of the gradient, without the loss scale; finite elements of this rank's slices */
    double squares;
    uint64_t n_bad; /* elements of the same slices that are not finite */
    /* sums of squares of the step's change of the weights, and of the weights before it, from some elements
     * of each tensor and scaled up to all of this rank's slices; NaN: not sampled */
    double update_squares, weight_squares;
    float largest;        /* the largest finite output of the layer in absolute value; NaN: not sampled */
    uint32_t outputs_bad; /* outputs that are not finite, at most UINT32_MAX */
};
_Static_assert(sizeof(struct yokei_box_record) == 176, "the format of a record");
_Static_assert(sizeof(struct yokei_box_values) == 40, "the format of a layer's values");

/* ---- rule.c ---- */

/**
 * A value is a spike if it is above median + max(deviations * 1.4826 * MAD, least). Median and MAD (the
 * median of the distances from the median) are those of the last `window` values, without this one. For the
 * loss, `least` is relative to the median. For the gradient norm, the rule uses the logarithms of the values,
 * so `least` is the logarithm of a factor. The rule waits until it has `least_values`. A spike that goes on
 * counts once. The next one counts after `quiet_steps` values that are no spikes.
 */
struct yokei_spike_rule {
    int32_t window, least_values, quiet_steps;
    double loss_deviations, loss_least, norm_deviations, norm_least;
};
extern const struct yokei_spike_rule yokei_spike_rule;
enum { YOKEI_SPIKE_MOST_WINDOW = 256 };

/** The past of one series. All zero: no value yet. */
struct yokei_spike_series {
    double value[YOKEI_SPIKE_MOST_WINDOW];  /* the window, in a circle */
    double sorted[YOKEI_SPIKE_MOST_WINDOW]; /* the same values in order */
    int64_t n;                              /* values so far */
    int32_t since;                          /* values since the last spike */
    bool is_in_spike;                       /* the last spike goes on */
};
struct yokei_spike {
    double median, limit; /* NaN: too few values */
};
/**
 * Judge the next value of the losses, or of the gradient norms, and add it to the series. The value must be
 * finite. True: a spike begins.
 */
bool yokei_spike_loss(const struct yokei_spike_rule *rule, struct yokei_spike_series *series, double loss,
                      struct yokei_spike *spike_out);
bool yokei_spike_norm(const struct yokei_spike_rule *rule, struct yokei_spike_series *series, double norm,
                      struct yokei_spike *spike_out);

/* ---- ring.c: for the rank that trains ---- */

struct yokei_box_writer;

/**
 * The name of a rank's file in the run directory: "blackbox-00003.bin". `suffix` stands before the end: "",
 * ".before" or ".step-7".
 */
void yokei_box_name(int rank, const char *suffix, char *name_out, size_t bytes);
/**
 * Create the file of head->rank in `folder`, with the layers and tensors of the rank. The caller has filled
 * the head from `rank` on; this function fills the fields before it, `attempt` and the rule. With `goes_on`,
 * a file that has the same model, layout, device, choices and data stays. Its records remain, and its head is
 * written anew. Otherwise a file that is there is renamed to blackbox-RANK.before.bin. The whole file is
 * reserved. YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_box_create(const char *folder, const struct yokei_box_head *head,
                             const struct yokei_box_layer *layers, const struct yokei_box_tensor *tensors,
                             bool goes_on, struct yokei_box_writer **writer_out);
/**
 * Remove the files of rank `first` and of the ranks after it, up to the first that is missing, because a run
 * of fewer ranks, or without a black box, begins. With `goes_on` they are renamed as by yokei_box_create.
 */
void yokei_box_drop(const char *folder, int first, bool goes_on);
/** Note that a step begins. A reader then knows in which step a rank was killed. */
void yokei_box_begin(struct yokei_box_writer *writer, int64_t step);
/**
 * Write a record with its layers. The function fills number, attempt, time and checksum. It writes to memory
 * only.
 */
void yokei_box_append(struct yokei_box_writer *writer, const struct yokei_box_record *record,
                      const struct yokei_box_values *values);
/** Write an event. `text` may be NULL. */
void yokei_box_note(struct yokei_box_writer *writer, enum yokei_box_kind kind, int64_t step, double a,
                    double b, double c, const char *text);
void yokei_box_audited(struct yokei_box_writer *writer, int64_t step, double ratio, double seconds,
                       yoke_status status);
/** The step of the newest record; 0: there is no record. */
int64_t yokei_box_last_step(const struct yokei_box_writer *writer);
/**
 * Copy the file as it is now to blackbox-RANK.step-STEP.bin, so that later steps do not overwrite what came
 * before this step. At most YOKEI_BOX_MOST_COPIES are made. YOKE_EIO.
 */
yoke_status yokei_box_copy(struct yokei_box_writer *writer, int64_t step);
/** Write how the run ended, and wait until the disk has the file. `text` may be NULL. Frees the writer. */
void yokei_box_close(struct yokei_box_writer *writer, enum yokei_box_end end, yoke_status status,
                     const char *text);

/* ---- read.c: one file ---- */

/** A file in memory. Texts are terminated and printable. Free it with yokei_box_free. */
struct yokei_box {
    struct yokei_box_head head;
    struct yokei_box_layer *layers;   /* [head.n_layers] */
    struct yokei_box_tensor *tensors; /* [head.n_tensors] */
    struct yokei_box_status status;   /* number 0: none is readable */
    struct yokei_box_event *events;   /* [n_events] by number */
    int n_events;
    int64_t n;          /* readable records */
    char *records;      /* [n][head.record_bytes] by number */
    int64_t begun_step; /* the last step that was begun */
    int n_torn;         /* records and events whose checksum is wrong */
    bool is_cut;        /* the file is shorter than its head says, so records are missing */
};
/**
 * Read a file. A record that is torn is left out and counted. If the file is cut behind its head, the records
 * that are there are read. YOKE_EDATA: the file is missing, is no black box, is of another version, or has a
 * damaged head. YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_box_read(const char *path, struct yokei_box **box_out);
void yokei_box_free(struct yokei_box *box);
/** Record i, from the oldest, and its layers [head.n_layers]. */
const struct yokei_box_record *yokei_box_record(const struct yokei_box *box, int64_t i);
const struct yokei_box_values *yokei_box_values(const struct yokei_box *box, int64_t i);
/** The name of a tensor or of a model's layer on this rank; "?" if the index is wrong. */
const char *yokei_box_tensor_name(const struct yokei_box *box, int64_t tensor);
const char *yokei_box_layer_name(const struct yokei_box *box, int64_t layer);
/** Whether two starts have the same device, driver, precision and choices, and so compute the same bits. */
bool yokei_box_computes_alike(const struct yokei_box_head *a, const struct yokei_box_head *b);
/**
 * The number of a sample of a step: k counts the step's samples from 0, over all ranks. Some numbers may be
 * skipped between two samples of a step.
 */
int64_t yokei_box_sample(const struct yokei_box_head *head, int64_t first_sample, int64_t k);
/**
 * The token, counted in the training part, at which a sample begins; -1: the head has no data. The offset in
 * the data file in bytes; -1 if a tokenizer made the tokens.
 */
int64_t yokei_box_sample_token(const struct yokei_box_head *head, int64_t sample);
int64_t yokei_box_sample_byte(const struct yokei_box_head *head, int64_t sample);

/* ---- merge.c: the files of a run ---- */

struct yokei_boxes {
    char folder[1024];
    int n;                  /* ranks of the run */
    struct yokei_box **box; /* [n] NULL: the file is missing or cannot be read */
    char (*problem)[512];   /* [n] why; "" if the file was read */
    int n_model_layers;
    char (*layer)[64]; /* [n_model_layers] names; "": no readable file has the layer */
    int64_t n_steps;
    struct yokei_boxes_step {
        int64_t step;
        uint32_t attempt;
        int64_t *at; /* [n] the index of the record on each rank; -1: the rank has none */
    } * steps; /* [n_steps] in the order in which they were taken; a start that goes back repeats steps */
    int64_t *places; /* memory of `at` */
};
/**
 * Read the files of all ranks of a run. YOKE_EDATA if none can be read; the text is that of the first file.
 * Files that cannot be read are named in `problem`. If `folder` is a file, such as a copy of yokei_box_copy,
 * only this file is read. YOKE_ENOMEM.
 */
yoke_status yokei_boxes_read(const char *folder, struct yokei_boxes **boxes_out);
/**
 * The same for the files blackbox-RANK.before.bin, which a start with another layout, device or data has put
 * aside.
 */
yoke_status yokei_boxes_read_before(const char *folder, struct yokei_boxes **boxes_out);
void yokei_boxes_free(struct yokei_boxes *boxes);

/** One layer of the model in one step, over all ranks. */
struct yokei_boxes_layer {
    double gradient_norm; /* without the loss scale; NaN: no record */
    uint64_t n_bad;
    double largest; /* largest output in absolute value; NaN: not sampled */
    /* norms of the change of the weights and of the weights, estimated from samples, and their ratio; NaN:
     * not sampled */
    double update_norm, weight_norm, update_ratio;
    uint64_t outputs_bad;
};
/** One step over all ranks. */
struct yokei_boxes_total {
    int64_t step;
    uint32_t attempt, flags; /* the flags of all ranks together */
    int n_ranks;             /* ranks that have a record of the step */
    bool is_whole;           /* all ranks have one, so the sums over ranks are whole */
    double time, seconds, loss, gradient_norm, learning_rate, loss_scale, audit_ratio;
    int64_t first_sample;
    int64_t worst_sample; /* the sample with the largest loss, and its loss per token; -1, NaN: unknown */
    double worst_loss;
    uint64_t n_bad;
    /*
     * The first tensor with an element that is not finite, in the order of the backward pass, and a rank
     * whose slices have it; NULL, -1: none. After YOKEI_BOX_TRACED the ranks whose own gradient has it are
     * known: own_bad_tensor and own_bad_rank are the first ones.
     */
    const char *bad_tensor, *own_bad_tensor;
    int bad_rank, own_bad_rank;
    /* the first layer of the model whose output was not finite; NULL, -1: none */
    const char *bad_layer;
    int bad_layer_rank, bad_micro_batch;
};
/** Add up step i. layers_out [n_model_layers]; NULL: not wanted. */
void yokei_boxes_step(const struct yokei_boxes *boxes, int64_t i, struct yokei_boxes_total *total_out,
                      struct yokei_boxes_layer *layers_out);

#endif

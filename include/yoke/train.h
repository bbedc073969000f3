/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke, training: models as lists of layers, and a trainer that runs steps of them on one device per rank.
 *
 * A trainer lowers model, schedule and shares into a step program once, places every buffer of it in one allocation,
 * and then runs steps that allocate nothing. Over several ranks it is data-parallel: the global batch is cut into
 * shares, even or not; gradients are summed in f32, and the loss is the sum of all losses over the tokens of all ranks,
 * so the result does not depend on the shares. Weights are drawn by (seed, name, index), the same on every rank.
 *
 * Threads. One thread at a time calls a trainer's functions; it need not always be the same one. yoke_trainer_ask_to_stop alone may be
 * called by any thread at any time while the trainer lives, and by a signal handler. A trainer issues collectives on config.comm and
 * config.control, so nobody else calls these while a function of the trainer runs. Trainers that have neither, and trainers that have
 * communicators of their own, work side by side on threads of their own, also over one device and one model. A model that trainers use
 * is not changed. Gradients, results and reports that a function points to are the trainer's, until the next step.
 */
#ifndef YOKE_TRAIN_H
#define YOKE_TRAIN_H

#include <yoke/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yoke_comm yoke_comm; /* as in comm.h, which needs mpi.h; a program of one rank needs neither */

/* ---- models ---- */

typedef struct yoke_model yoke_model;

/** An empty model. */
yoke_status yoke_model_create(yoke_model **model_out);
/** YOKE_EBUSY while trainers use it. YOKE_EINVAL: destroyed already, or none. */
yoke_status yoke_model_destroy(yoke_model *model);
/**
 * Append a layer; `config` is copied (type->config_bytes). The first layer has in = 0, `in` of the others is `out` of
 * the one before; the last one writes the losses, and its y are the logits. Errors: YOKE_ECONFIG, YOKE_EINVAL, YOKE_ENOMEM.
 */
yoke_status yoke_model_add(yoke_model *model, const struct yoke_layer_type *type, const char *name, int64_t in,
                           int64_t out, const void *config);
int yoke_model_n_layers(const yoke_model *model);
const yoke_layer *yoke_model_layer(const yoke_model *model, int index);
/** Elements of all parameters, each name once. */
int64_t yoke_model_n_elements(const yoke_model *model);

/** The layers that GPT-2 is made of. Each carries its norm and its residual; the configuration is the model's. */
extern const struct yoke_layer_type yoke_layer_embedding, yoke_layer_attention, yoke_layer_mlp, yoke_layer_norm,
    yoke_layer_head;

/** GPT-2 (Radford et al. 2019), in the terms of Hugging Face's config.json. Also the configuration of the layers above. */
struct yoke_gpt2_config {
    size_t size;
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
    double layer_norm_epsilon; /* 1e-5 */
    double initializer_range;  /* 0.02; projections into the residual stream are drawn with this / sqrt(2 n_layer) */
    double attn_pdrop, resid_pdrop, embd_pdrop; /* dropout, while training, of attention's probabilities, of what goes to the residual, of embeddings */
};
#define YOKE_GPT2_CONFIG_INIT { sizeof(struct yoke_gpt2_config), 12, 12, 768, 1024, 50257, 1e-5, 0.02, 0, 0, 0 }

/** A configuration by name: "nano" (2 layers, 64 channels, bytes), "micro" (4, 256, bytes), "124m". YOKE_ECONFIG lists them. */
yoke_status yoke_gpt2_preset(const char *name, struct yoke_gpt2_config *config_out);
/** Refuse what cannot be (heads that do not divide the channels, …): YOKE_ECONFIG with the fix. */
yoke_status yoke_gpt2_check(const struct yoke_gpt2_config *config);
/** GPT-2 as layers; parameters carry Hugging Face's names without "transformer." ("h.0.attn.c_attn.weight", [in, out]). */
yoke_status yoke_model_gpt2(const struct yoke_gpt2_config *config, yoke_model **model_out);

/** The layers that Llama is made of, as GPT-2's are. */
extern const struct yoke_layer_type yoke_layer_llama_embedding, yoke_layer_llama_attention, yoke_layer_llama_mlp, yoke_layer_rmsnorm,
    yoke_layer_llama_head;

/** Llama (Touvron et al. 2023, arXiv:2307.09288), in the terms of Hugging Face's config.json. Also the configuration of the layers above. */
struct yoke_llama_config {
    size_t size;
    int64_t hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
    int64_t num_key_value_heads; /* divides num_attention_heads: so many of these share one (grouped-query attention) */
    int64_t head_dim;            /* even; 0: hidden_size / num_attention_heads */
    int64_t vocab_size, max_position_embeddings;
    double rms_norm_eps;         /* 1e-5 */
    double rope_theta;           /* 10000 */
    double initializer_range;    /* 0.02 */
    bool tie_word_embeddings;    /* the head is the embedding */
    double attention_dropout;    /* of attention's probabilities, while training */
};
#define YOKE_LLAMA_CONFIG_INIT \
    { sizeof(struct yoke_llama_config), 4096, 11008, 32, 32, 32, 0, 32000, 4096, 1e-5, 10000, 0.02, false, 0 }

/** A configuration by name: "llama-nano" (2 layers, 64 channels, bytes), "llama-micro" (4, 256, bytes). YOKE_ECONFIG lists them. */
yoke_status yoke_llama_preset(const char *name, struct yoke_llama_config *config_out);
/** Refuse what cannot be: YOKE_ECONFIG with the fix. */
yoke_status yoke_llama_check(const struct yoke_llama_config *config);
/**
 * Llama as layers; parameters carry Hugging Face's names ("model.layers.0.self_attn.q_proj.weight", [out, in]). Ranks that share a layer are
 * dealt query heads; K/V heads with them where the shares fall on whole groups of all ranks, else each rank holds the weights of all K/V
 * heads, computes those that its query heads read, and their gradients are summed.
 */
yoke_status yoke_model_llama(const struct yoke_llama_config *config, yoke_model **model_out);

/* ---- trainer ---- */

typedef struct yoke_trainer yoke_trainer;

/**
 * Where streams run at once what they are given, the caller's thread either takes part in a sum of gradients or leaves it to the
 * progress thread and computes on. AUTO: it takes part among ranks that share memory, where a sum is work for the same cores, and goes
 * on where data crosses a network. The results are the same bits. Other devices always go on.
 */
enum yoke_overlap { YOKE_OVERLAP_AUTO, YOKE_OVERLAP_ON, YOKE_OVERLAP_OFF };

/** Zero means the default everywhere. */
struct yoke_trainer_config {
    size_t size;
    yoke_dtype precision;    /* YOKE_F32, YOKE_F16, YOKE_BF16; YOKE_F64 on the reference backend, for central differences */
    int64_t batch;           /* sequences per step, of all ranks together; default 8 */
    int64_t micro_batch;     /* sequences that go through the model at once, at most; default all of the rank's share */
    int64_t sequence;        /* tokens per sequence; must be set */
    const int64_t *shares;   /* sequences of each replica (rank, without a mesh), their sum is `batch`; default as equal as can be */
    size_t bucket_bytes;     /* gradients are summed in pieces of about this size; default 25 MiB */
    uint64_t seed;
    double beta1, beta2;     /* default 0.9, 0.95 */
    double eps;              /* default 1e-8 */
    double weight_decay;     /* of matrices */
    double clip;             /* largest norm of the gradient; 0: no clipping */
    double loss_scale;       /* first loss scale; default 2^16 in f16, 1 else */
    int64_t scale_interval;  /* good steps before it doubles (f16); default 2000 */
    uint64_t memory_limit;   /* bytes that the trainer may take on its device; default what is free there, for all ranks that take from it together */
    const char *schedule;    /* this job's schedule as CSV: a line per stage, or per stage of each replica; default by pipeline_kind */
    /* The mesh: ranks along each axis. 0: 1, but data: what is left. Rank (s * data + d) * tensor + t is stage s of replica d. */
    int data, pipeline, tensor;
    int chunks;                   /* runs of layers on each stage ("interleaved" only); default 1 */
    const char *pipeline_kind;    /* "naive", "gpipe", "1f1b" (default), "interleaved", "zb-h1" */
    const int64_t *stage_blocks;  /* [pipeline * chunks] blocks of layers of each virtual stage, in the model's order; default equal */
    const int64_t *tensor_shares; /* [tensor] in which heads, features and vocabulary are dealt; default equal */
    const int *stage_tensor;      /* [pipeline] ranks of each stage where these differ, instead of `tensor`; tensor_shares are then those
                                     of all stages, one after the other. Ranks are numbered stage by stage as above; NULL: all alike */
    bool sequence_parallel;       /* ranks that share tensors hold rows of their own between the divided products */
    const char *recompute;        /* per stage, by commas, or one for all: "none" (default), "attention", "full" */
    /* The replicas each own a slice of all gradients. 0: each keeps all moments and f32 masters; 1: those of its slice (ZeRO-1). The same bits. */
    int zero;
    const int64_t *zero_shares;   /* [data] of the slices, at least 0; default equal, with zero 1 by free memory where equal ones do not fit */
    enum yoke_overlap overlap;    /* of sums of gradients with the backward pass, on devices whose streams run at once (host) */
    yoke_comm *comm;         /* over the device; NULL: this rank is alone */
    yoke_comm *control;      /* over host memory, the same ranks; for the agreement of a step */
};
#define YOKE_TRAINER_CONFIG_INIT YOKE_SIZED(yoke_trainer_config)

/** Bytes of one rank's memory, by part: exact, since the step program places every buffer before the start. */
struct yoke_memory_report {
    size_t size;
    size_t weights;      /* masters, and working copies */
    size_t gradients;
    size_t optimizer;    /* moments */
    size_t activations;  /* boundaries between layers, stashes, and workspace of layers */
    size_t workspace;    /* a step's tokens, targets, losses and norms */
    size_t scratch;      /* of the ops, in the stream */
    size_t total;        /* what is allocated on the device */
    /* The activations by part, where most of them live at once. */
    size_t stash;        /* what forward passes leave for backward passes, and B for W */
    size_t boundaries;   /* outputs of layers and their gradients */
    size_t received;     /* those that other stages sent; they have a place of their own */
    size_t layer_workspace; /* of the layer at work */
    size_t unused;       /* gaps that no buffer fits into */
    /* Host memory besides; where the host sees the device's memory it is the same one. */
    size_t staging_shared; /* of all communicators of the run, with the two that were given: what the ranks of a host share */
    size_t staging;      /* of all communicators: this rank's own */
    size_t host;         /* losses and norms as they come back, the programs, and a batch of tokens of the caller's */
};
#define YOKE_MEMORY_REPORT_INIT YOKE_SIZED(yoke_memory_report)

/**
 * Plan and allocate. The model must outlive the trainer. Collective over config->comm.
 * Errors: YOKE_ECONFIG (batch, sequence, shares, schedule: with the fix), YOKE_ENOMEM (the rank, need, have, and the cheapest change that
 * fits on all ranks; on all ranks alike, before anything is allocated),
 * YOKE_EUNSUPPORTED (the device does not offer an op in this precision), YOKE_EMISMATCH (ranks differ).
 */
yoke_status yoke_trainer_create(const yoke_model *model, yoke_device *device, const struct yoke_trainer_config *config,
                                yoke_trainer **trainer_out);
/** Its model and its device stay. YOKE_EINVAL: destroyed already, or none. */
yoke_status yoke_trainer_destroy(yoke_trainer *trainer);
/** What a trainer would take, without allocating it; the device is asked for scratch sizes only. */
yoke_status yoke_trainer_plan_memory(const yoke_model *model, yoke_device *device,
                                     const struct yoke_trainer_config *config, struct yoke_memory_report *report_out);
/** What this trainer took. */
yoke_status yoke_trainer_memory(const yoke_trainer *trainer, struct yoke_memory_report *report_out);
/** What the trainer of any rank took: all ranks know it of all. YOKE_EINVAL. */
yoke_status yoke_trainer_memory_of(const yoke_trainer *trainer, int rank, struct yoke_memory_report *report_out);
/** This rank's sequences of each step's global batch: [first, first + count). */
void yoke_trainer_range(const yoke_trainer *trainer, int64_t *first_out, int64_t *count_out);

/** What one rank said at the agreement of a step. A plain value. */
struct yoke_rank_report {
    double loss_sum;        /* of its tokens */
    double compute_seconds; /* its forward and backward passes */
    double clock;           /* what its caller passed as `clock` */
    bool overflow;
    bool asked_to_stop;     /* yoke_trainer_ask_to_stop was called there */
    double span_seconds;    /* from the begin of its first pass to the end of its last one */
    double busy_seconds;    /* of these it computed */
    double useful_seconds;  /* the same without what was recomputed */
    double exposed_seconds; /* it computed nothing because of a message or of a sum: docs/PARALLELISM.md says how that is measured */
};
/** What a step came to. The same on all ranks but for `seconds`. */
struct yoke_step_result {
    size_t size;
    double loss;            /* sum of losses / tokens, of all ranks */
    double gradient_norm;   /* before clipping, of the unscaled sum */
    double loss_scale;      /* that the step used */
    bool overflow;          /* a gradient was not finite on some rank: weights were left alone on all */
    int64_t step;           /* 1 for the first */
    double seconds;         /* backward and apply */
    int n_ranks;
    const struct yoke_rank_report *ranks; /* valid until the next step */
};
#define YOKE_STEP_RESULT_INIT YOKE_SIZED(yoke_step_result)

/**
 * Forward and backward passes over this rank's sequences, the sum of gradients over all ranks, and the agreement.
 * tokens, targets: host memory [count * sequence]; a target below 0 is ignored but still counts in the normaliser.
 * Blocks. Collective. Errors: YOKE_ENUMERIC (the loss of a rank is not finite: named with the step), those of comm.h.
 */
yoke_status yoke_trainer_backward(yoke_trainer *trainer, const int32_t *tokens, const int32_t *targets, double clock,
                                  struct yoke_step_result *result_out);
/**
 * Clip and AdamW with the gradient of the last yoke_trainer_backward; skipped where that overflowed (the loss scale is
 * then halved). Errors: YOKE_ENUMERIC after too many skipped steps in a row.
 */
yoke_status yoke_trainer_apply(yoke_trainer *trainer, double learning_rate, struct yoke_step_result *result);
/** Tell all ranks, at the agreement of this rank's next step and of those after it, that it was asked to stop. */
void yoke_trainer_ask_to_stop(yoke_trainer *trainer);
/**
 * Sum of the losses of n_sequences sequences, forward only. Local, but where the model is divided: then the ranks of a replica call it
 * with the same sequences, and one of the last stage gets the sum, the others 0.
 */
yoke_status yoke_trainer_evaluate(yoke_trainer *trainer, const int32_t *tokens, const int32_t *targets,
                                  int64_t n_sequences, double *loss_sum_out);
/** The logits [vocabulary] of one position of one sequence [sequence]. Local; where the model is divided, collective over all ranks. */
yoke_status yoke_trainer_logits(yoke_trainer *trainer, const int32_t *tokens, int64_t position, float *logits_out);

/* ---- weights ---- */

enum yoke_tensor_kind { YOKE_TENSOR_WEIGHT, YOKE_TENSOR_GRADIENT, YOKE_TENSOR_MOMENT1, YOKE_TENSOR_MOMENT2 };
/** Number of parameters (tied ones once), and their descriptions in the model's order. */
int yoke_trainer_n_parameters(const yoke_trainer *trainer);
const struct yoke_parameter *yoke_trainer_parameter(const yoke_trainer *trainer, int index);
/** Draw all weights anew from the seed, and forget moments and steps. Done by yoke_trainer_create. */
yoke_status yoke_trainer_draw(yoke_trainer *trainer, uint64_t seed);
/**
 * A tensor as f32 in host memory. Gradients are those of the last backward, unscaled and unclipped. YOKE_EUNSUPPORTED with config.zero = 1 for
 * what this replica keeps a slice of only (gradients, moments, weights with a 16-bit copy): yoke_trainer_get_whole gives that.
 */
yoke_status yoke_trainer_get(yoke_trainer *trainer, enum yoke_tensor_kind kind, int index, float *out);
/** Set a tensor, as far as this rank keeps it: all replicas are to be given the same. Weights also their working copy. */
yoke_status yoke_trainer_set(yoke_trainer *trainer, enum yoke_tensor_kind kind, int index, const float *values);

/**
 * The parameters of the whole model, the same list on all ranks; yoke_trainer_parameter lists what this rank holds of them, which is less
 * where the model is divided (pipeline, tensor).
 */
int yoke_trainer_n_logical(const yoke_trainer *trainer);
const struct yoke_parameter *yoke_trainer_logical(const yoke_trainer *trainer, int index);
/** A whole tensor as f32, on all ranks. Collective where the model is divided, or with config.zero = 1; else local. */
yoke_status yoke_trainer_get_whole(yoke_trainer *trainer, enum yoke_tensor_kind kind, int logical, float *out);
/** Set what this rank holds of a tensor from the whole one. Local: each rank is to be given the same. */
yoke_status yoke_trainer_set_whole(yoke_trainer *trainer, enum yoke_tensor_kind kind, int logical, const float *values);

/** Called after each op of a step while profiling: the layer ("" outside layers), F, B or W, the op, its cost and time. */
typedef void (*yoke_profile_function)(void *context, const char *layer, const char *call, const char *op,
                                      const struct yoke_cost *cost, double seconds);
/** Time every op of the steps that follow (the stream is synchronised around each); NULL ends it. */
void yoke_trainer_profile(yoke_trainer *trainer, yoke_profile_function function, void *context);

#ifdef __cplusplus
}
#endif
#endif

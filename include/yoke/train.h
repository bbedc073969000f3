/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke, training: models as lists of layers, and a trainer that runs training steps on one device per rank.
 *
 * A trainer lowers (translates) the model, the schedule and the shares into a step program once. It places
 * all buffers of the program in one allocation. The steps after that allocate nothing. Over several ranks the
 * trainer is data-parallel: the global batch is cut into shares, which may be uneven. Gradients are summed in
 * f32. The loss is the sum of all losses divided by the tokens of all ranks, so the result does not depend on
 * the shares. Initial weights are drawn by (seed, name, index) and are the same on every rank.
 *
 * Threads. Only one thread at a time may call a trainer's functions, but it need not always be the same
 * thread. The exception is yoke_trainer_ask_to_stop. Any thread and any signal handler may call it at any
 * time while the trainer exists. A trainer issues collectives on config.comm and config.control. Therefore no
 * other code may use these communicators while a function of the trainer runs. Several trainers can work at
 * the same time, each on its own thread, if each has its own communicators or none. They may share a device
 * and a model. A model must not be changed while trainers use it. Gradients, results and reports that a
 * function points to belong to the trainer and are valid until the next step.
 *
 * Signals. The library installs no signal handler, and the functions of this header map no files. The
 * command yoke maps texts, token files and weights. If another program shortens such a file, the command's
 * own handler of SIGBUS names the file.
 *
 * fork. In a process that was made by fork, the parent's trainers do not work: calls that compute, or read or
 * write tensors, return YOKE_EINVAL. Reports and lists of parameters can still be read. yoke_trainer_destroy
 * frees this process's memory only, and the parent's trainer goes on. The parent's models can be used: they
 * are plain memory, of which each process has its own copy. device.h and comm.h say the same of devices and
 * communicators.
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

/** Create a model without layers. */
yoke_status yoke_model_create(yoke_model **model_out);
/**
 * YOKE_EBUSY while trainers use the model. YOKE_EINVAL if it is destroyed already, or if `model` is not a
 * model.
 */
yoke_status yoke_model_destroy(yoke_model *model);
/**
 * Append a layer; `config` is copied (type->config_bytes). The first layer has in = 0. For each other layer,
 * `in` is `out` of the layer before. The last layer writes the losses, and its y are the logits. Errors:
 * YOKE_ECONFIG, YOKE_EINVAL, YOKE_ENOMEM.
 */
yoke_status yoke_model_add(yoke_model *model, const struct yoke_layer_type *type, const char *name,
                           int64_t in, int64_t out, const void *config);
int yoke_model_n_layers(const yoke_model *model);
const yoke_layer *yoke_model_layer(const yoke_model *model, int index);
/** The number of elements of all parameters. Each name counts once. */
int64_t yoke_model_n_elements(const yoke_model *model);

/**
 * The layers of GPT-2. Each contains its norm and its residual connection. Its configuration is the model's.
 */
extern const struct yoke_layer_type yoke_layer_gpt2_embedding, yoke_layer_gpt2_attention, yoke_layer_gpt2_mlp,
    yoke_layer_gpt2_norm, yoke_layer_gpt2_head;

/**
 * GPT-2 (Radford et al. 2019), in the terms of Hugging Face's config.json. This is also the configuration of
 * the layers above.
 */
struct yoke_gpt2_config {
    size_t size;
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
    double layer_norm_epsilon; /* 1e-5 */
    /* 0.02; projections into the residual stream are drawn with this / sqrt(2 n_layer) */
    double initializer_range;
    /* dropout probabilities while training: for attention probabilities, for what is added to the
     * residual, and for embeddings */
    double attn_pdrop, resid_pdrop, embd_pdrop;
};
#define YOKE_GPT2_CONFIG_INIT                                                          \
    {                                                                                  \
        sizeof(struct yoke_gpt2_config), 12, 12, 768, 1024, 50257, 1e-5, 0.02, 0, 0, 0 \
    }

/**
 * A configuration by name: "nano" (2 layers, 64 channels, bytes as tokens), "micro" (4, 256, bytes) or
 * "124m". For an unknown name, YOKE_ECONFIG lists the names.
 */
yoke_status yoke_gpt2_preset(const char *name, struct yoke_gpt2_config *config_out);
/**
 * Refuse an impossible configuration with YOKE_ECONFIG, such as heads that do not divide the channels. The
 * message says how to correct it.
 */
yoke_status yoke_gpt2_check(const struct yoke_gpt2_config *config);
/**
 * GPT-2 as layers. Parameters have Hugging Face's names without "transformer.", for example
 * "h.0.attn.c_attn.weight" [in, out].
 */
yoke_status yoke_model_gpt2(const struct yoke_gpt2_config *config, yoke_model **model_out);

/** The layers of Llama. As for GPT-2, each contains its norm and its residual connection. */
extern const struct yoke_layer_type yoke_layer_llama_embedding, yoke_layer_llama_attention,
    yoke_layer_llama_mlp, yoke_layer_llama_norm, yoke_layer_llama_head;

/**
 * Llama (Touvron et al. 2023, arXiv:2307.09288), in the terms of Hugging Face's config.json. This is also the
 * configuration of the layers above. Qwen2 has the same layers with biases. Mistral has the same layers.
 */
struct yoke_llama_config {
    size_t size;
    int64_t hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
    /* divides num_attention_heads; the quotient is the query heads per K/V head (grouped-query attention) */
    int64_t num_key_value_heads;
    int64_t head_dim; /* even; 0: hidden_size / num_attention_heads */
    int64_t vocab_size, max_position_embeddings;
    double rms_norm_eps;      /* 1e-5 */
    double rope_theta;        /* 10000 */
    double initializer_range; /* 0.02 */
    bool tie_word_embeddings; /* the head is the embedding */
    double attention_dropout; /* dropout probability for attention probabilities, while training */
    bool qkv_bias;            /* the projections to q, k and v have biases, as in Qwen2 */
    /*
     * 0: none. Otherwise a position attends to this many positions, the last of which is itself. Yoke does
     * not compute such a window. So longer sequences are refused.
     */
    int64_t sliding_window;
};
#define YOKE_LLAMA_CONFIG_INIT                                                                               \
    {                                                                                                        \
        sizeof(struct yoke_llama_config), 4096, 11008, 32, 32, 32, 0, 32000, 4096, 1e-5, 10000, 0.02, false, \
            0, false, 0                                                                                      \
    }

/**
 * A configuration by name: "llama-nano" (2 layers, 64 channels, bytes as tokens) or "llama-micro" (4, 256,
 * bytes). For an unknown name, YOKE_ECONFIG lists the names.
 */
yoke_status yoke_llama_preset(const char *name, struct yoke_llama_config *config_out);
/** Refuse an impossible configuration with YOKE_ECONFIG. The message says how to correct it. */
yoke_status yoke_llama_check(const struct yoke_llama_config *config);
/**
 * Llama as layers. Parameters have Hugging Face's names, for example "model.layers.0.self_attn.q_proj.weight"
 * [out, in]. The query heads are divided among the ranks that share a layer. The K/V heads are divided with
 * them if every rank's query heads are whole groups. Otherwise each rank holds the weights of all K/V heads
 * and computes only the K/V heads that its query heads read. The gradients of these weights are then summed.
 */
yoke_status yoke_model_llama(const struct yoke_llama_config *config, yoke_model **model_out);

/* ---- trainer ---- */

typedef struct yoke_trainer yoke_trainer;

/**
 * How the host thread takes part in a sum of gradients, on devices whose streams run each call before it
 * returns (the host backend). The caller's thread either takes part in the sum (OFF), or leaves the sum to
 * the progress thread and continues to compute (ON). With AUTO it takes part among ranks that share memory,
 * because there the sum needs the same cores. It continues to compute where data crosses a network. The
 * results have the same bits in all cases. On other devices computation always continues during a sum.
 */
enum yoke_overlap { YOKE_OVERLAP_AUTO, YOKE_OVERLAP_ON, YOKE_OVERLAP_OFF };

/** A field of zero means its default. */
struct yoke_trainer_config {
    size_t size;
    /* YOKE_F32, YOKE_F16, YOKE_BF16; YOKE_F64 on the reference backend, for central differences */
    yoke_dtype precision;
    int64_t batch; /* sequences per step, of all ranks together; default 8 */
    /*
     * the most sequences that go through the model at once; default: the rank's whole share; with pipeline
     * stages the share divided by 4 times the number of stages, at least 1
     */
    int64_t micro_batch;
    int64_t sequence; /* tokens per sequence; must be set */
    /* sequences of each replica (each rank, without a mesh); sum: `batch`; default: as equal as possible */
    const int64_t *shares;
    size_t bucket_bytes; /* gradients are summed in pieces of about this size; default 25 MiB */
    uint64_t seed;
    double beta1, beta2; /* default 0.9, 0.95 */
    double eps;          /* default 1e-8 */
    double weight_decay; /* for matrices only */
    double clip;         /* largest allowed norm of the gradient; 0: no clipping */
    double loss_scale;   /* initial loss scale; default 2^16 in f16, otherwise 1 */
    /* steps without overflow after which the loss scale doubles (f16); default 2000 */
    int64_t scale_interval;
    /* the most bytes that the trainer may allocate on its device; default: the free bytes, into which all
     * ranks that use this memory must fit together */
    uint64_t memory_limit;
    /* a custom schedule as CSV: a line per stage, or per stage of each replica; default: pipeline_kind's */
    const char *schedule;
    /*
     * The mesh: the number of ranks along each axis. 0 means 1; for `data` it means all ranks that remain.
     * Rank (s * data + d) * tensor + t is tensor rank t of stage s of replica d.
     */
    int data, pipeline, tensor;
    int chunks; /* runs of layers on each stage (in kinds with chunks, such as "interleaved"); default 1 */
    /* a kind that yoke schedule show --kind lists; default "1f1b", or "interleaved" if chunks is above 1 */
    const char *pipeline_kind;
    /* [pipeline * chunks] blocks of layers of each virtual stage, in the model's order; default: equal */
    const int64_t *stage_blocks;
    /* [tensor] proportions in which heads, features and vocabulary are divided; default: equal */
    const int64_t *tensor_shares;
    /* [pipeline] ranks of each stage, instead of `tensor`, if stages have different numbers; NULL: all
     * stages have `tensor` ranks. tensor_shares then has the shares of all stages, one stage after the
     * other. Ranks are numbered stage by stage as above. */
    const int *stage_tensor;
    /* each rank that shares tensors holds only its own rows between the divided products */
    bool sequence_parallel;
    /* a word for all stages, or words for each, by commas: "none" (default), "attention", "full" */
    const char *recompute;
    /*
     * Each replica owns a slice of all gradients. 0: each replica keeps all moments and all f32 masters. 1:
     * each keeps only the moments and masters of its slice (ZeRO-1). The results have the same bits.
     */
    int zero;
    /* [data] proportions of the slices, each at least 0; default: equal, or by free memory if zero is 1
     * and equal slices do not fit */
    const int64_t *zero_shares;
    /* whether sums of gradients overlap with the backward pass, on devices whose streams run a call before
     * it returns (host) */
    enum yoke_overlap overlap;
    yoke_comm *comm; /* communicator over the device; NULL: this rank is alone */
    /* communicator over host memory with the same ranks, for the agreement at the end of a step */
    yoke_comm *control;
};
#define YOKE_TRAINER_CONFIG_INIT YOKE_SIZED(yoke_trainer_config)

/**
 * Bytes of one rank's memory, by part. The numbers are exact, because the step program places every buffer
 * before the start.
 */
struct yoke_memory_report {
    size_t size;
    size_t weights; /* masters and working copies */
    size_t gradients;
    size_t optimizer;   /* moments */
    size_t activations; /* boundaries between layers, stashes, and the workspace of layers */
    size_t workspace;   /* a step's tokens, targets, losses and norms */
    size_t scratch;     /* scratch memory of the ops, in the stream */
    size_t total;       /* all bytes that are allocated on the device */
    /* The activations by part, at the moment when the most of them live at once. */
    size_t stash;           /* data that forward passes keep for backward passes, and that B keeps for W */
    size_t boundaries;      /* outputs of layers and their gradients */
    size_t received;        /* outputs and gradients that other stages sent; they have separate buffers */
    size_t layer_workspace; /* workspace of the layer that is running */
    size_t unused;          /* gaps in which no buffer fits */
    /* Host memory in addition. If the host can access the device's memory, both are the same memory. */
    /* staging buffers that ranks of a host share, of all communicators of the run (config's two too) */
    size_t staging_shared;
    size_t staging; /* this rank's own staging buffers of all communicators */
    size_t host; /* losses and norms copied from the device, the programs, and the caller's batch of tokens */
};
#define YOKE_MEMORY_REPORT_INIT YOKE_SIZED(yoke_memory_report)

/**
 * Create a trainer: plan the step and allocate its memory. The model must outlive the trainer. Collective
 * over config->comm. Errors:
 *   - YOKE_ECONFIG: batch, sequence, shares or schedule is wrong; the message says how to correct it.
 *   - YOKE_ENOMEM: the memory does not suffice. All ranks return this error before anything is allocated. The
 *     message names the rank, the need, the available bytes, and the cheapest change that fits on all ranks.
 *   - YOKE_EUNSUPPORTED: the device does not offer an op in this precision.
 *   - YOKE_EMISMATCH: the ranks' arguments differ.
 */
yoke_status yoke_trainer_create(const yoke_model *model, yoke_device *device,
                                const struct yoke_trainer_config *config, yoke_trainer **trainer_out);
/**
 * Destroy the trainer, but not its model and its device. YOKE_EINVAL if it is destroyed already, or if
 * `trainer` is not a trainer.
 */
yoke_status yoke_trainer_destroy(yoke_trainer *trainer);
/** The memory that a trainer would need. Nothing is allocated; the device is only asked for scratch sizes. */
yoke_status yoke_trainer_plan_memory(const yoke_model *model, yoke_device *device,
                                     const struct yoke_trainer_config *config,
                                     struct yoke_memory_report *report_out);
/** The memory that this trainer allocated. */
yoke_status yoke_trainer_memory(const yoke_trainer *trainer, struct yoke_memory_report *report_out);
/**
 * The memory that the trainer of `rank` allocated. Every rank knows the report of every rank. YOKE_EINVAL.
 */
yoke_status yoke_trainer_memory_of(const yoke_trainer *trainer, int rank,
                                   struct yoke_memory_report *report_out);
/** This rank's sequences of each step's global batch: [first, first + count). */
void yoke_trainer_range(const yoke_trainer *trainer, int64_t *first_out, int64_t *count_out);

/** The numbers that one rank sends to all ranks at the agreement of a step. A plain value. */
struct yoke_rank_report {
    double loss_sum;        /* sum of the losses of this rank's tokens */
    double compute_seconds; /* seconds of this rank's forward and backward passes */
    double clock;           /* the `clock` that the rank's caller passed */
    bool overflow;
    bool asked_to_stop;    /* yoke_trainer_ask_to_stop was called on this rank */
    double span_seconds;   /* seconds from the start of its first pass to the end of its last pass */
    double busy_seconds;   /* seconds of span_seconds in which the rank computed */
    double useful_seconds; /* the same without recomputation */
    /* seconds in which the rank computed nothing because of a message or a sum; docs/SCALING.md says
     * how this is measured */
    double exposed_seconds;
    /* seconds that the rank read data for this step, and saved checkpoints before this step (train/run); 0 if
     * the caller reported none */
    double data_seconds, checkpoint_seconds;
    /* what the operating system says of the time since the agreement of the step before; NaN: unknown */
    double processor_seconds; /* of all threads of the rank's process */
    double queued_seconds;    /* in which the rank's thread was ready, and no core was free for it */
    double preemptions;       /* how often a thread had to leave its core for another process */
    double major_faults;      /* pages that had to be read from a disk */
    double compile_seconds;   /* in which the process compiled programs for its device */
};
/** The result of a step. It is the same on all ranks except for `seconds`. */
struct yoke_step_result {
    size_t size;
    double loss;          /* sum of losses / tokens, over all ranks */
    double gradient_norm; /* norm of the unscaled sum, before clipping */
    double loss_scale;    /* the loss scale that this step used */
    bool overflow;        /* a gradient was not finite on some rank, so no rank changed its weights */
    int64_t step;         /* 1 for the first step */
    double seconds;       /* seconds of backward and apply */
    int n_ranks;
    const struct yoke_rank_report *ranks; /* valid until the next step */
};
#define YOKE_STEP_RESULT_INIT YOKE_SIZED(yoke_step_result)

/**
 * Run the forward and backward passes over this rank's sequences, sum the gradients over all ranks, and run
 * the agreement. The agreement is an exchange in which all ranks learn the losses, norms and times of all
 * ranks. tokens, targets: host memory [count * sequence]. A target below 0 is ignored, but it still counts in
 * the normaliser. Blocks. Collective. Errors: YOKE_ENUMERIC (the loss of a rank is not finite; the message
 * names the rank and the step), and the errors of comm.h.
 */
yoke_status yoke_trainer_backward(yoke_trainer *trainer, const int32_t *tokens, const int32_t *targets,
                                  double clock, struct yoke_step_result *result_out);
/**
 * Clip the gradient of the last yoke_trainer_backward and run AdamW with it. If that gradient overflowed, the
 * weights stay unchanged and the loss scale is halved. Errors: YOKE_ENUMERIC after too many such steps in a
 * row.
 */
yoke_status yoke_trainer_apply(yoke_trainer *trainer, double learning_rate, struct yoke_step_result *result);
/**
 * Tell all ranks that this rank was asked to stop. They learn it at the agreement of this rank's next step
 * and of each later step.
 */
void yoke_trainer_ask_to_stop(yoke_trainer *trainer);
/**
 * Sum of the losses of n_sequences sequences, with forward passes only. Local if each rank holds the whole
 * model. Otherwise all ranks of a replica call it with the same sequences. One rank of the last stage then
 * gets the sum, and the other ranks get 0.
 */
yoke_status yoke_trainer_evaluate(yoke_trainer *trainer, const int32_t *tokens, const int32_t *targets,
                                  int64_t n_sequences, double *loss_sum_out);
/**
 * The logits [vocabulary] of one position of one sequence [sequence]. Local if each rank holds the whole
 * model; otherwise collective over all ranks.
 */
yoke_status yoke_trainer_logits(yoke_trainer *trainer, const int32_t *tokens, int64_t position,
                                float *logits_out);

/* ---- weights ---- */

enum yoke_tensor_kind { YOKE_TENSOR_WEIGHT, YOKE_TENSOR_GRADIENT, YOKE_TENSOR_MOMENT1, YOKE_TENSOR_MOMENT2 };
/** The number of parameters (tied parameters count once), and their descriptions in the model's order. */
int yoke_trainer_n_parameters(const yoke_trainer *trainer);
const struct yoke_parameter *yoke_trainer_parameter(const yoke_trainer *trainer, int index);
/**
 * Draw all weights again from the seed, and reset the moments and the step count. yoke_trainer_create does
 * this too.
 */
yoke_status yoke_trainer_draw(yoke_trainer *trainer, uint64_t seed);
/**
 * Copy a tensor as f32 into host memory. Gradients are those of the last backward, unscaled and unclipped.
 * With config.zero = 1 this replica keeps only a slice of gradients, moments and weights with a 16-bit copy.
 * For these tensors the error is YOKE_EUNSUPPORTED, and yoke_trainer_get_whole must be used.
 */
yoke_status yoke_trainer_get(yoke_trainer *trainer, enum yoke_tensor_kind kind, int index, float *out);
/**
 * Set the part of a tensor that this rank keeps. All replicas must get the same values. For weights the
 * working copy is set too.
 */
yoke_status yoke_trainer_set(yoke_trainer *trainer, enum yoke_tensor_kind kind, int index,
                             const float *values);

/**
 * The parameters of the whole model; the list is the same on all ranks. yoke_trainer_parameter lists what
 * this rank holds of them. That is less than the whole if the model is divided (pipeline, tensor).
 */
int yoke_trainer_n_logical(const yoke_trainer *trainer);
const struct yoke_parameter *yoke_trainer_logical(const yoke_trainer *trainer, int index);
/**
 * Copy a whole tensor as f32 into `out` on all ranks. Collective if the model is divided, or if config.zero
 * is 1; otherwise local.
 */
yoke_status yoke_trainer_get_whole(yoke_trainer *trainer, enum yoke_tensor_kind kind, int logical,
                                   float *out);
/**
 * Set this rank's part of a tensor from the values of the whole tensor. Local. Each rank must get the same
 * values.
 */
yoke_status yoke_trainer_set_whole(yoke_trainer *trainer, enum yoke_tensor_kind kind, int logical,
                                   const float *values);

/**
 * Called after each op of a step while profiling. `layer` is "" outside layers, and `call` is F, B or W. The
 * other arguments are the op, its cost and its time.
 */
typedef void (*yoke_profile_function)(void *context, const char *layer, const char *call, const char *op,
                                      const struct yoke_cost *cost, double seconds);
/**
 * Measure the time of every op of the following steps. A device that measures times between events (CUDA,
 * HIP) runs the ops one after the other as in any other step. `function` is then called for the ops of a part
 * of the step when this part has ended. If the host issues ops more slowly than the device runs them, an op's
 * time contains the wait for its launch. On other devices the stream is synchronised before and after each
 * op. NULL ends profiling.
 */
void yoke_trainer_profile(yoke_trainer *trainer, yoke_profile_function function, void *context);

#ifdef __cplusplus
}
#endif
#endif

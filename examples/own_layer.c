/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer of your own: an MLP with squared ReLU (So et al. 2021, arXiv:2109.08668). It computes
 *
 *     y = x + W2 max(0, W1 x)^2
 *
 * and has its own backward pass. It is trained inside a small GPT, and needs only libyoke-train.
 *
 * cc own_layer.c $(pkg-config --cflags --libs libyoke-train libyoke) -lm -o own_layer && ./own_layer [DEVICE]
 *
 * The device computes the two matrix products. Yoke has no operation for squared ReLU, so this layer computes
 * it itself, in host memory and in f32. So the layer works on devices whose memory the host sees (host,
 * reference, PoCL). A layer for a GPU would launch its own kernel there.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <yoke/train.h>

struct relu2_config {
    int64_t channels, hidden;
};

/* ---- what the layer stores, and where; one function gives the sizes and the addresses ---- */
struct fields {
    float *pre;  /* [N, hidden], the argument of the activation; from F (forward) to B (backward) */
    float *act;  /* [N, hidden], the value of the activation; from F to W (the weights' gradient) */
    float *dpre; /* [N, hidden], the gradient of the argument; from B to W */
};

static void lay_out(const struct relu2_config *c, const struct yoke_shape *shape,
                    const struct yoke_layer_call *call, struct fields *f, size_t bytes[YOKE_N_PARTS])
{
    int64_t n = shape->B * shape->T * c->hidden;
    memset(bytes, 0, YOKE_N_PARTS * sizeof *bytes);
    f->pre = yoke_part_field(shape, call, bytes, YOKE_F_TO_B, n, sizeof(float));
    f->act = yoke_part_field(shape, call, bytes, YOKE_F_TO_W, n, sizeof(float));
    f->dpre = yoke_part_field(shape, call, bytes, YOKE_B_TO_W, n, sizeof(float));
}

static size_t relu2_bytes(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part)
{
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer->config, shape, NULL, &f, bytes);
    return bytes[part];
}

/* ---- parameters ---- */
static bool relu2_parameter(const yoke_layer *layer, const struct yoke_place *place, int index,
                            struct yoke_parameter *out)
{
    const struct relu2_config *c = layer->config;
    /* the weights are not divided among ranks; yoke_layer_check refuses ranks that would share this layer */
    (void)place;
    if (index > 1) return false;
    *out = (struct yoke_parameter){ .size = sizeof *out,
                                    .n_dims = 2,
                                    .replicated_axes = YOKE_AXIS_DATA,
                                    .partial_axes = YOKE_AXIS_DATA,
                                    .init = YOKE_INIT_NORMAL,
                                    .decay = true,
                                    .matrix = true };
    out->shape[0] = index == 0 ? c->channels : c->hidden;
    out->shape[1] = index == 0 ? c->hidden : c->channels;
    out->init_std = 1 / sqrt((double)out->shape[0]) / (index == 0 ? 1 : 4);
    snprintf(out->name, sizeof out->name, "%s.%s", layer->name, index == 0 ? "up" : "down");
    return true;
}

/* ---- the arithmetic that is not an operation of Yoke ---- */

/* Get host pointers to device memory, after all operations that were issued so far have ended. */
static yoke_status see(const struct yoke_layer_call *call, void **fields[], int n)
{
    if (call->shape->dtype != YOKE_F32)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "relu2: this example computes in f32 only; set the trainer's precision to YOKE_F32");
    YOKE_TRY(yoke_stream_sync(call->stream));
    for (int i = 0; i < n; i++) {
        *fields[i] = yoke_host_ptr(call->device, *fields[i]);
        if (!*fields[i])
            return yoke_fail(YOKE_EUNSUPPORTED,
                             "relu2: the host does not see the memory of %s; run it on host or PoCL",
                             yoke_device_info(call->device)->spec);
    }
    return YOKE_OK;
}

static yoke_status square_relu(const struct yoke_layer_call *call, void *x, void *y, int64_t n)
{
    if (!yoke_call_runs(call)) return YOKE_OK; /* the step is only being planned, so there is no memory yet */
    YOKE_TRY(see(call, (void **[]){ &x, &y }, 2));
    for (int64_t i = 0; i < n; i++) {
        float r = fmaxf(((float *)x)[i], 0);
        ((float *)y)[i] = r * r;
    }
    return YOKE_OK;
}

/* d max(0, x)^2 / dx = 2 max(0, x), in place on dy. */
static yoke_status square_relu_backward(const struct yoke_layer_call *call, void *x, void *dy, int64_t n)
{
    if (!yoke_call_runs(call)) return YOKE_OK;
    YOKE_TRY(see(call, (void **[]){ &x, &dy }, 2));
    for (int64_t i = 0; i < n; i++) ((float *)dy)[i] *= 2 * fmaxf(((float *)x)[i], 0);
    return YOKE_OK;
}

/* ---- the three calls ---- */
static yoke_status relu2_forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct relu2_config *c = layer->config;
    int64_t N = call->shape->B * call->shape->T, C = c->channels, H = c->hidden;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(c, call->shape, call, &f, bytes);
    YOKE_TRY(YOKE_CALL(call, gemm, .M = N, .N = H, .K = C, .batch = 1, .a = call->x, .lda = C,
                       .b = call->weights[0], .ldb = H, .c = f.pre, .ldc = H, .alpha = 1));
    YOKE_TRY(square_relu(call, f.pre, f.act, N * H));
    YOKE_TRY(yoke_call_copy(call, call->y, call->x, (size_t)(N * C) * sizeof(float))); /* y = x + … */
    return YOKE_CALL(call, gemm, .M = N, .N = C, .K = H, .batch = 1, .a = f.act, .lda = H,
                     .b = call->weights[1], .ldb = C, .c = call->y, .ldc = C, .alpha = 1, .beta = 1);
}

static yoke_status relu2_backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct relu2_config *c = layer->config;
    int64_t N = call->shape->B * call->shape->T, C = c->channels, H = c->hidden;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(c, call->shape, call, &f, bytes);
    YOKE_TRY(YOKE_CALL(call, gemm, .trans_b = true, .M = N, .N = H, .K = C, .batch = 1, .a = call->dy,
                       .lda = C, .b = call->weights[1], .ldb = C, .c = f.dpre, .ldc = H, .alpha = 1));
    YOKE_TRY(square_relu_backward(call, f.pre, f.dpre, N * H));
    /* the gradient of the residual connection */
    YOKE_TRY(yoke_call_copy(call, call->dx, call->dy, (size_t)(N * C) * sizeof(float)));
    return YOKE_CALL(call, gemm, .trans_b = true, .M = N, .N = C, .K = H, .batch = 1, .a = f.dpre, .lda = H,
                     .b = call->weights[0], .ldb = H, .c = call->dx, .ldc = C, .alpha = 1, .beta = 1);
}

/* Add the gradients to the present values, because other micro-batches may have come before. */
static yoke_status relu2_backward_weight(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct relu2_config *c = layer->config;
    int64_t N = call->shape->B * call->shape->T, C = c->channels, H = c->hidden;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(c, call->shape, call, &f, bytes);
    YOKE_TRY(YOKE_CALL(call, gemm, .trans_a = true, .M = C, .N = H, .K = N, .batch = 1, .a = call->x,
                       .lda = C, .b = f.dpre, .ldb = H, .c = call->gradients[0], .ldc = H, .alpha = 1,
                       .beta = 1));
    return YOKE_CALL(call, gemm, .trans_a = true, .M = H, .N = C, .K = N, .batch = 1, .a = f.act, .lda = H,
                     .b = call->dy, .ldb = C, .c = call->gradients[1], .ldc = C, .alpha = 1, .beta = 1);
}

static const struct yoke_layer_type relu2 = {
    .size = sizeof relu2,
    .name = "relu2",
    .config_bytes = sizeof(struct relu2_config),
    .input_until = YOKE_UNTIL_W, /* W reads x … */
    .output_until = YOKE_UNTIL_F,
    .gradient_until = YOKE_UNTIL_W, /* … and dy */
    .parameter = relu2_parameter,
    .bytes = relu2_bytes,
    .forward = relu2_forward,
    .backward_input = relu2_backward_input,
    .backward_weight = relu2_backward_weight,
};

/* ---- a GPT with it ---- */
enum { BATCH = 8, T = 32, STEPS = 60 };
static const struct yoke_gpt2_config gpt = { sizeof gpt, 1, 2, 32, T, 128, 1e-5, 0.05 };

static yoke_status build(yoke_model **out)
{
    struct relu2_config mlp = { gpt.n_embd, 4 * gpt.n_embd };
    yoke_model *model;
    YOKE_TRY(yoke_model_create(&model));
    yoke_status status = yoke_model_add(model, &yoke_layer_gpt2_embedding, "embedding", 0, gpt.n_embd, &gpt);
    if (!status)
        status = yoke_model_add(model, &yoke_layer_gpt2_attention, "h.0.attn", gpt.n_embd, gpt.n_embd, &gpt);
    if (!status) status = yoke_model_add(model, &relu2, "h.0.relu2", gpt.n_embd, gpt.n_embd, &mlp);
    if (!status) status = yoke_model_add(model, &yoke_layer_gpt2_norm, "ln_f", gpt.n_embd, gpt.n_embd, &gpt);
    if (!status)
        status = yoke_model_add(model, &yoke_layer_gpt2_head, "head", gpt.n_embd, gpt.vocab_size, &gpt);
    if (status)
        yoke_model_destroy(model);
    else
        *out = model;
    return status;
}

/*
 * Check that the derivative along the gradient itself, from differences of the loss, is the gradient's
 * squared norm.
 */
static yoke_status check_own_gradient(yoke_trainer *trainer, const int32_t *tokens, const int32_t *targets,
                                      double *ratio_out)
{
    static float w[32 * 128], g[32 * 128], moved[32 * 128];
    struct yoke_step_result result;
    double losses[2], squares = 0;
    int index = 0;
    while (!strstr(yoke_trainer_parameter(trainer, index)->name, "relu2.up")) index++;
    YOKE_TRY(yoke_trainer_backward(trainer, tokens, targets, 0, &result));
    YOKE_TRY(yoke_trainer_get(trainer, YOKE_TENSOR_WEIGHT, index, w));
    YOKE_TRY(yoke_trainer_get(trainer, YOKE_TENSOR_GRADIENT, index, g));
    for (int i = 0; i < 32 * 128; i++) squares += (double)g[i] * (double)g[i];
    const double h = 0.02 / sqrt(squares);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < 32 * 128; i++) moved[i] = w[i] + (float)((side ? -h : h) * (double)g[i]);
        YOKE_TRY(yoke_trainer_set(trainer, YOKE_TENSOR_WEIGHT, index, moved));
        YOKE_TRY(yoke_trainer_evaluate(trainer, tokens, targets, BATCH, &losses[side]));
    }
    YOKE_TRY(yoke_trainer_set(trainer, YOKE_TENSOR_WEIGHT, index, w));
    *ratio_out = (losses[0] - losses[1]) / (BATCH * T) / (2 * h) / squares;
    return YOKE_OK;
}

static yoke_status run(const char *spec, double *ratio, double *first, double *last)
{
    static const char text[] = "a yoke lets unequal animals pull one load; ";
    int32_t tokens[BATCH * T], targets[BATCH * T];
    struct yoke_trainer_config config = YOKE_TRAINER_CONFIG_INIT;
    struct yoke_step_result step;
    yoke_device *device;
    yoke_model *model;
    yoke_trainer *trainer;
    for (int i = 0; i < BATCH * T; i++) {
        tokens[i] = text[(size_t)i % (sizeof text - 1)];
        targets[i] = text[(size_t)(i + 1) % (sizeof text - 1)];
    }
    config.batch = BATCH;
    config.sequence = T;
    config.seed = 1;
    config.clip = 1;
    YOKE_TRY(yoke_device_open(spec, NULL, &device));
    YOKE_TRY(build(&model));
    YOKE_TRY(yoke_trainer_create(model, device, &config, &trainer));
    YOKE_TRY(check_own_gradient(trainer, tokens, targets, ratio));
    for (int s = 0; s < STEPS; s++) {
        YOKE_TRY(yoke_trainer_backward(trainer, tokens, targets, 0, &step));
        YOKE_TRY(yoke_trainer_apply(trainer, 1e-2, &step));
        if (s == 0) *first = step.loss;
    }
    *last = step.loss;
    YOKE_TRY(yoke_trainer_destroy(trainer));
    YOKE_TRY(yoke_model_destroy(model));
    return yoke_device_close(device);
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "host";
    double ratio, first, last;
    printf("1..2\n");
    if (run(device, &ratio, &first, &last)) {
        printf("not ok 1 - %s\n", yoke_last_error());
        return 1;
    }
    bool exact = fabs(ratio - 1) < 1e-2, learnt = last < 0.1 * first;
    printf("%sok 1 - its gradient is that of the loss (%.4f of it) on %s\n", exact ? "" : "not ", ratio,
           device);
    printf("%sok 2 - the loss falls from %.3f to %.3f in %d steps\n", learnt ? "" : "not ", first, last,
           STEPS);
    return exact && learnt ? 0 : 1;
}

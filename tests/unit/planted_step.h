/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of planted_cuda.c, with its types and functions: layers of a training step that touch memory which
 * is not theirs.
 */
#ifndef TESTS_UNIT_PLANTED_STEP_H
#define TESTS_UNIT_PLANTED_STEP_H

enum { BATCH = 2, T = 8, VOCABULARY = 23 };
static const struct yoke_gpt2_config tiny = { sizeof tiny, 1, 2, 16, T, VOCABULARY, 1e-5, 0.1 };

static struct yoke_layer_type sound_type;
static const void *kept_dy;

/* The layer writes one vector more than its output has. */
static yoke_status forward_too_far(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    YOKE_TRY(sound_type.forward(layer, call));
    const int64_t n = call->shape->B * call->shape->T * layer->out + 4;
    return YOKE_CALL(call, scale, .dtype = YOKE_F32, .n = n, .alpha = 1, .x = call->weights[2], .y = call->y);
}

/* The same behind the first of the tensors that lie side by side in the layer's stash. */
static yoke_status forward_past_field(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    YOKE_TRY(sound_type.forward(layer, call));
    const int64_t n = call->shape->B * call->shape->T * 4 * layer->out + 4;
    return YOKE_CALL(call, scale, .dtype = YOKE_F32, .n = n, .alpha = 1, .x = call->weights[2],
                     .y = call->stash[YOKE_F_TO_B]);
}

/* The layer says that it reads dy in B, and then reads it in W as well. */
static yoke_status keep_dy(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    kept_dy = call->dy;
    return sound_type.backward_input(layer, call);
}

static yoke_status weight_too_late(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct yoke_layer_call late = *call;
    late.dy = kept_dy;
    return sound_type.backward_weight(layer, &late);
}

static yoke_status run_step(yoke_device *device, yoke_model *model)
{
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    struct yoke_step_result result;
    int32_t tokens[BATCH * T], targets[BATCH * T];
    yoke_trainer *trainer;
    c.precision = YOKE_F32;
    c.batch = BATCH;
    c.micro_batch = 1;
    c.sequence = T;
    for (int i = 0; i < BATCH * T; i++) {
        tokens[i] = (i * 11 + 5) % VOCABULARY;
        targets[i] = (i * 13 + 2) % VOCABULARY;
    }
    YOKE_TRY(yoke_trainer_create(model, device, &c, &trainer));
    YOKE_TRY(yoke_trainer_backward(trainer, tokens, targets, 0, &result));
    return yoke_trainer_apply(trainer, 1e-3, &result);
}

/* Train with the layer h.0.mlp changed so. */
static yoke_status train_with(const struct yoke_layer_type *type)
{
    static struct yoke_layer_type changed;
    yoke_device *device;
    yoke_model *model;
    YOKE_TRY(yoke_device_open("cuda:0", NULL, &device));
    YOKE_TRY(yoke_model_gpt2(&tiny, &model));
    for (int i = 0; i < model->n_layers && is_planted; i++) {
        if (strcmp(model->layer[i]->name, "h.0.mlp") != 0) continue;
        sound_type = changed = *model->layer[i]->type;
        if (type->forward) changed.forward = type->forward;
        if (type->backward_input) {
            changed.gradient_until = YOKE_UNTIL_B;
            changed.backward_input = type->backward_input;
            changed.backward_weight = type->backward_weight;
        }
        model->layer[i]->type = &changed;
    }
    return run_step(device, model);
}

static yoke_status run_neighbour(const struct plant *plant)
{
    (void)plant;
    return train_with(&(struct yoke_layer_type){ .forward = forward_too_far });
}

static yoke_status run_field(const struct plant *plant)
{
    (void)plant;
    return train_with(&(struct yoke_layer_type){ .forward = forward_past_field });
}

static yoke_status run_ended(const struct plant *plant)
{
    (void)plant;
    return train_with(
        &(struct yoke_layer_type){ .backward_input = keep_dy, .backward_weight = weight_too_late });
}

#endif

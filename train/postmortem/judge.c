/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From facts to a verdict. The causes are tried in the order in which a fact of one cause would disturb the
 * facts of the next one: a wrong learning rate or wrong tokens explain every later difference, and a replay
 * that differs from its record rules out all causes that a replay would repeat.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "train/postmortem/inside.h"

const char *const yokei_odd_names[YOKEI_N_ODDS] = { "none", "loss spike", "norm spike", "overflow",
                                                    "loss not finite" };
const char *const yokei_culprit_names[YOKEI_N_CULPRITS] = { "none",      "unknown",       "data",
                                                            "precision", "learning rate", "device",
                                                            "layer",     "flipped bit",   "resume" };
const char *const yokei_culprit_texts[YOKEI_N_CULPRITS] = {
    "no fault found",
    "unknown, because the facts do not say whether and why something went wrong",
    "the data",
    "the precision",
    "the learning rate",
    "the wrong arithmetic of a device",
    "a bug in a layer",
    "a flipped bit",
    "a resumed checkpoint whose state was not the one that trained on",
};

static const char *const preventions[YOKEI_N_CULPRITS] = {
    "None is needed. A spike from which the loss comes back is ordinary.",
    "Save checkpoints more often, keep more (--keep), and sample more steps (--black-box).",
    "Check the file at these places, and compare its hash with that of its source before a run.",
    "Use bf16 or f32 for these layers or for the run, and leave the initial loss scale to yoke train.",
    "Lower the learning rate, lengthen --warmup, and let nothing but the plan set the rate.",
    "Run yoke verify on this device, update its driver or compiler, and train with --audit.",
    "Compare this build with a build that is known to be right (yoke verify, yoke parity), and update it.",
    "Look at the machine's log for memory errors, test its memory, and train with --audit.",
    "Compare the checkpoint with yoke ckpt diff, and watch that the first loss behind a resume is the old one.",
};

/* A norm of a replay in f32 may differ from that of the run by so much for the rounding of f16. */
static const double rounding = 0.02;

static void add(char (*lines)[YOKEI_VERDICT_BYTES], int *n, const char *format, va_list args)
{
    if (*n < YOKEI_VERDICT_LINES) vsnprintf(lines[(*n)++], YOKEI_VERDICT_BYTES, format, args);
}

static void show(struct yokei_verdict *v, const char *format, ...) YOKE_PRINTF(2, 3);
static void show(struct yokei_verdict *v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(v->evidence, &v->n_evidence, format, args);
    va_end(args);
}

static void rule_out(struct yokei_verdict *v, const char *format, ...) YOKE_PRINTF(2, 3);
static void rule_out(struct yokei_verdict *v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(v->ruled_out, &v->n_ruled_out, format, args);
    va_end(args);
}

void yokei_postmortem_miss(struct yokei_postmortem_facts *f, const char *format, ...)
{
    va_list args;
    if (f->n_missing == YOKEI_POSTMORTEM_MISSING) return;
    va_start(args, format);
    vsnprintf(f->missing[f->n_missing++], sizeof f->missing[0], format, args);
    va_end(args);
}

/* Decide, with the first wrong step. True, so that a rule can return it. */
static bool is(struct yokei_verdict *v, enum yokei_culprit cause, int64_t step, const char *layer)
{
    v->cause = cause;
    v->step = step;
    if (layer) yokei_text(v->layer, sizeof v->layer, "%s", layer);
    return true;
}

static bool is_off(const struct yokei_replayed *r) { return r->ran && r->off_step >= 0; }
static bool is_same(const struct yokei_replayed *r) { return r->ran && r->n_compared > 0 && r->off_step < 0; }

static bool is_at_once(const struct yokei_replayed *r) { return is_off(r) && r->off_step == r->from + 1; }

static const char *device_of(const struct yokei_postmortem_facts *f, int rank)
{
    return f->devices && rank >= 0 && rank < f->n_ranks && f->devices[rank][0] ? f->devices[rank] : "?";
}

static void blame_rank(struct yokei_verdict *v, int rank)
{
    for (int i = 0; i < v->n_ranks; i++)
        if (v->rank[i] == rank) return;
    if (v->n_ranks < YOKEI_POSTMORTEM_RANKS) v->rank[v->n_ranks++] = rank;
}

/* Name the ranks that differ. */
static void blame(const struct yokei_postmortem_facts *f, struct yokei_verdict *v,
                  const struct yokei_ranks_off *off)
{
    for (int i = 0; i < off->n; i++) {
        blame_rank(v, off->rank[i]);
        show(v, "of %d ranks, rank %d on %s differs: %s", f->n_ranks, off->rank[i],
             device_of(f, off->rank[i]), off->what);
    }
}

/* ---- the rules ---- */

static bool rate_was_wrong(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    if (f->rate_step < 0) {
        rule_out(v, "another learning rate than the plan's: the recorded rates are those of the plan");
        return false;
    }
    show(v, "step %" PRId64 " had the learning rate %.6g, and the plan has %.6g for it", f->rate_step,
         f->rate_then, f->rate_planned);
    return is(v, YOKEI_CULPRIT_RATE, f->rate_step, NULL);
}

static bool tokens_were_wrong(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    if (!f->are_tokens_checked) return false;
    if (f->tokens_step < 0) {
        rule_out(v, "other tokens than those of the file: the hashes of all tokens that were read are right");
        return false;
    }
    show(v, "in step %" PRId64 " rank %d read other tokens than the file has at these places now",
         f->tokens_step, f->tokens_rank);
    if (f->n_ranks > 1) blame_rank(v, f->tokens_rank);
    return is(v, YOKEI_CULPRIT_DATA, f->tokens_step, NULL);
}

static void say_samples(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    const struct yokei_sample_loss *s = &f->first_bad_sample;
    show(v,
         "%" PRId64 " of %" PRId64
         " samples have a part with a loss above %.3f with the weights of step %" PRId64
         "; the median of %" PRId64 " samples before them is %.3f, and a uniform guess has %.3f",
         f->n_bad_samples, f->n_samples, f->others_limit, f->start_step, f->n_others, f->others_median,
         f->uniform_loss);
    show(v,
         "the first one is sample %" PRId64 " of step %" PRId64 " (loss %.3f), which begins at token %" PRId64
         " and byte %" PRId64 " of the file; the worst one is sample %" PRId64
         " (loss %.3f), at byte %" PRId64,
         s->sample, s->step, s->loss, s->token, s->byte, f->worst_sample.sample, f->worst_sample.loss,
         f->worst_sample.byte);
}

/* A replay repeats bad samples. So they are looked at if the replay is as recorded, or if there is none. */
static bool samples_were_bad(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    if (!f->are_samples_checked) return false;
    if (!f->n_bad_samples) {
        rule_out(v, "bad samples: the largest loss of %" PRId64 " samples is %.3f, under the limit %.3f",
                 f->n_samples, f->worst_sample.loss, f->others_limit);
        return false;
    }
    say_samples(f, v);
    return is(v, YOKEI_CULPRIT_DATA, f->first_bad_sample.step, NULL);
}

static void say_off(struct yokei_verdict *v, const struct yokei_replayed *r)
{
    show(v,
         "repeated on %s%s in %s from step %" PRId64 ", step %" PRId64
         " is the first that differs from its record: "
         "loss %.9g then, %.9g now; gradient norm %.9g then, %.9g now",
         r->device, r->n_ranks > 1 ? " and the devices of the other ranks" : "", r->precision, r->from,
         r->off_step, r->loss_then, r->loss_now, r->norm_then, r->norm_now);
    if (r->n_layers_off)
        show(v, "%d of %d layers differ in that step; the first one is %s, by its %s", r->n_layers_off,
             r->n_layers, r->layer, r->what);
    if (r->off_step > r->from + 1)
        show(v, "the %" PRId64 " steps before it are the same%s", r->off_step - r->from - 1,
             r->is_exact ? ", bit for bit" : " but for rounding");
}

static bool scale_was_wrong(const struct yokei_replayed *own, struct yokei_verdict *v)
{
    if (own->scale_then == own->scale_now) return false;
    show(v, "step %" PRId64 " had the loss scale %g, and the replay has %g", own->off_step, own->scale_then,
         own->scale_now);
    return is(v, YOKEI_CULPRIT_PRECISION, own->off_step, NULL);
}

/* Behind a resumed checkpoint: the weights of an older checkpoint give the recorded loss. */
static bool was_stale(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    if (!f->is_resume || !f->is_stale_tried || f->own.off_step != f->own.from + 1) return false;
    const double with_old = fabs(f->stale_loss - f->recorded_loss),
                 with_new = fabs(f->resumed_loss - f->recorded_loss);
    if (!(with_old < 0.01 * with_new)) {
        rule_out(v,
                 "stale weights: step %" PRId64 " has not the loss that the weights of step %" PRId64 " give",
                 f->own.off_step, f->stale_step);
        return false;
    }
    show(v,
         "the run went on from the checkpoint of step %" PRId64
         ", but the loss of the next step (%.9g) is that of "
         "the weights of step %" PRId64 " (%.9g), not of step %" PRId64 " (%.9g)",
         f->start_step, f->recorded_loss, f->stale_step, f->stale_loss, f->start_step, f->resumed_loss);
    if (f->stale_rank >= 0) blame(f, v, &f->own.ranks_off);
    return is(v, YOKEI_CULPRIT_RESUME, f->own.off_step, NULL);
}

/* Some ranks have a wrong loss, and the ranks of other devices have the right one. */
static bool device_was_wrong(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    int n_off = 0, n_right = 0;
    const char *device = NULL;
    for (int r = 0; r < f->n_rank_losses; r++) {
        if (!f->rank_loss[r].is_off) {
            n_right++;
            continue;
        }
        if (device && strcmp(device, f->rank_loss[r].device) != 0) return false;
        device = f->rank_loss[r].device;
        n_off++;
    }
    for (int r = 0; r < f->n_rank_losses; r++)
        if (device && !f->rank_loss[r].is_off && !strcmp(device, f->rank_loss[r].device)) return false;
    if (!n_off || !n_right) return false;
    for (int r = 0; r < f->n_rank_losses; r++)
        show(v, "rank %d on %s: the losses of its samples add up to %.9g in its record, and to %.9g now: %s",
             f->rank_loss[r].rank, f->rank_loss[r].device, f->rank_loss[r].then, f->rank_loss[r].now,
             f->rank_loss[r].is_off ? "wrong" : "right");
    for (int r = 0; r < f->n_rank_losses; r++)
        if (f->rank_loss[r].is_off) blame_rank(v, f->rank_loss[r].rank);
    const struct yokei_replayed *off = is_off(&f->own) ? &f->own : is_off(&f->alone) ? &f->alone : &f->other;
    return is(v, YOKEI_CULPRIT_DEVICE, off->off_step, off->layer);
}

/*
 * Some ranks differ in every step, and the others do not. If they are the first stage of a pipeline, all
 * stages may compute wrongly.
 */
static bool some_ranks_were_wrong(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    const struct yokei_ranks_off *off = &f->own.ranks_off;
    if (!off->n || off->is_first_stage) return false;
    blame(f, v, off);
    show(v, "they differ in the first step that is repeated, and the other ranks are right");
    return is(v, YOKEI_CULPRIT_DEVICE, f->own.off_step, f->own.layer);
}

/*
 * The layout of the run repeats its numbers, and one rank of the host does not. Either a device computes
 * wrongly now as it did then, or the layout does.
 */
static bool layout_disagrees(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    if (f->own.n_ranks < 2 || !is_at_once(&f->alone)) return false;
    say_off(v, &f->alone);
    show(v, "in the layout of the run the steps are as recorded, so one rank and that layout do not agree");
    if (device_was_wrong(f, v)) return true;
    if (f->alone.ranks_off.n && !f->alone.ranks_off.is_first_stage) {
        blame(f, v, &f->alone.ranks_off);
        return is(v, YOKEI_CULPRIT_DEVICE, f->alone.off_step, f->alone.layer);
    }
    bool only_host = true;
    for (int r = 0; r < f->n_ranks; r++) only_host = only_host && !strcmp(device_of(f, r), "host");
    return is(v, only_host ? YOKEI_CULPRIT_LAYER : YOKEI_CULPRIT_DEVICE, f->alone.off_step, f->alone.layer);
}

static void say_formulas(const struct yokei_formula_check *c, struct yokei_verdict *v)
{
    if (c->is_loss_off)
        show(v,
             "the formulas of the model, computed in f64 without Yoke's layers and operations, give step "
             "%" PRId64 " the loss %.9g, and its record has %.9g",
             c->step, c->loss_now, c->loss_then);
    if (c->is_output_off)
        show(v,
             "the first output that differs from the formulas in step %" PRId64 " is that of %s: its largest "
             "element is %.6g by the formulas, and %.6g in the record",
             c->step, c->layer, c->now, c->then);
    if (c->is_gradient_off)
        show(v,
             "in step %" PRId64 " the loss of the formulas changes along the gradient of %s by %.6g, and the "
             "norm of that gradient is %.6g: so the gradient is wrong",
             c->step, c->layer, c->now, c->then);
}

/*
 * The replay is as recorded, and the formulas of the model are not. The reference device has other operations
 * and the same layers, so it tells the two apart.
 */
static bool formulas_disagree(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    const struct yokei_formula_check *c = &f->formulas;
    if (!c->ran) return false;
    if (!c->is_loss_off && !c->is_output_off && !c->is_gradient_off) {
        rule_out(v,
                 "an error that the replays share: the formulas of the model, computed in f64, give step "
                 "%" PRId64 " the loss %.9g, and its record has %.9g",
                 c->step, c->loss_now, c->loss_then);
        return false;
    }
    say_formulas(c, v);
    show(v, "the replays repeat that error, so this build has it, too");
    if (c->ranks_off.n) {
        blame(f, v, &c->ranks_off);
        return is(v, YOKEI_CULPRIT_DEVICE, c->step, c->layer);
    }
    if (is_at_once(&c->reference)) {
        show(v,
             "with the operations of the reference device the step has the loss %.9g: so an operation of the "
             "device is wrong",
             c->reference.loss_now);
        return is(v, YOKEI_CULPRIT_DEVICE, c->step, c->layer);
    }
    if (is_same(&c->reference))
        rule_out(v, "an operation of the device: the reference device gives the numbers of the record");
    return is(v, YOKEI_CULPRIT_LAYER, c->step, c->layer);
}

/* The record is not what the same steps give now. */
static void judge_difference(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    const struct yokei_replayed *own = &f->own;
    say_off(v, own);
    rule_out(v, "the learning rate, the samples and the precision: a replay repeats them, and it does not go "
                "where the run went");
    const bool at_once = is_at_once(own),
               is_elsewhere_right = is_same(&f->elsewhere)
                                    || (is_off(&f->elsewhere) && !is_at_once(&f->elsewhere));
    if (scale_was_wrong(own, v) || was_stale(f, v)) return;
    if (at_once && !is_elsewhere_right && device_was_wrong(f, v)) return;
    if (at_once && f->is_resume && is_elsewhere_right) {
        show(v,
             "the run went on from the checkpoint of step %" PRId64
             ", and what it trained on with is not what "
             "the checkpoint holds; from step %" PRId64 " on the steps before the resume are right",
             own->from, f->elsewhere.from);
        blame(f, v, &own->ranks_off);
        is(v, YOKEI_CULPRIT_RESUME, own->off_step, NULL);
        return;
    }
    if (!at_once || is_elsewhere_right) {
        show(v, own->is_loss_off
                    ? "the loss of that step is wrong already: so a weight changed after the step before"
                    : "the loss of that step is right, and a gradient is wrong: so a bit flipped "
                      "between the forward pass and the sum of the gradients");
        rule_out(v, "a bug in a layer and the arithmetic of the device: they would be wrong in every step");
        blame(f, v, &own->ranks_off);
        if (f->weight[0])
            show(v,
                 "in the checkpoint of step %" PRId64 " element %" PRId64
                 " of %s is %.4g away from the replay's, and no element of another tensor is further away "
                 "than %.4g",
                 f->weight_step, f->weight_at, f->weight, f->weight_apart, f->others_apart);
        yokei_text(v->parameter, sizeof v->parameter, "%s", f->weight);
        is(v, YOKEI_CULPRIT_BIT, own->off_step, f->weight_layer[0] ? f->weight_layer : own->layer);
        return;
    }
    if (is_off(&f->elsewhere))
        show(v, "from step %" PRId64 ", too, the first step differs at once", f->elsewhere.from);
    if (some_ranks_were_wrong(f, v)) return;
    show(v,
         f->n_sharing > 1
             ? "every step is different at once, on every rank: so the program of then computed otherwise, "
               "or the device of one rank did, because ranks that share tensors pass wrong numbers on in "
               "every layer; yoke verify checks each device"
             : "every step is different at once, on every rank: so the program of then computed otherwise");
    rule_out(v, "a flipped bit: it would change the steps from one step on");
    is(v, YOKEI_CULPRIT_LAYER, own->off_step, own->layer);
}

/* The run's precision goes wrong, and f32 does not. */
static bool precision_was_wrong(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    const struct yokei_replayed *f32 = &f->f32;
    const bool is_half = !strcmp(f->precision, "f16") || !strcmp(f->precision, "bf16");
    if (!is_half || !f32->ran) return false;
    if ((f->odd == YOKEI_ODD_OVERFLOW || f->odd == YOKEI_ODD_BAD_LOSS) && f32->failed_step < 0) {
        show(v, "%s in step %" PRId64 "%s%s; the same steps in f32 are finite",
             f->odd == YOKEI_ODD_OVERFLOW ? "numbers overflowed" : "the loss was not finite", f->odd_step,
             f->odd_layer[0] ? ", first in the output of " : "", f->odd_layer);
        return is(v, YOKEI_CULPRIT_PRECISION, f->odd_step, f->odd_layer);
    }
    const double apart = fabs(f32->norm_now / f32->norm_then - 1);
    if (!strcmp(f->precision, "f16") && f->loss_scale < 16 && is_off(f32) && apart > rounding) {
        show(v,
             "the loss scale is %g, so small gradients are lost or coarse in f16: in step %" PRId64
             " the gradient norm is %.6g, and %.6g in f32",
             f->loss_scale, f32->off_step, f32->norm_then, f32->norm_now);
        return is(v, YOKEI_CULPRIT_PRECISION, f32->off_step, f32->layer);
    }
    rule_out(v, "the precision: in f32 the same steps go the same way");
    return false;
}

static bool other_device_disagrees(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    if (!f->other.ran) return false;
    if (is_same(&f->other)) {
        rule_out(v, "the arithmetic of a device: %s gives the same numbers but for rounding",
                 f->other.device);
        return false;
    }
    if (f->other.off_step != f->other.from + 1) return false; /* rounding grows from step to step */
    say_off(v, &f->other);
    show(v, "on %s the steps are as recorded, so the devices do not agree", f->own.device);
    return is(v, YOKEI_CULPRIT_DEVICE, f->other.off_step, f->other.layer);
}

/*
 * The run diverged, and does not with a lower rate. Or it did not end, but its layers changed by more than
 * half of their norms in a step, and with a lower rate the loss falls at once.
 */
static bool rate_was_too_high(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    const bool has_diverged = f->odd != YOKEI_ODD_NONE && !f->has_recovered,
               is_wild = f->worst_update > YOKEI_WILD_UPDATE && f->slower.last_loss < 0.8 * f->own.last_loss;
    if (!f->slower.ran || f->slower.failed_step >= 0) return false;
    if (!is_wild && !(has_diverged && f->slower.last_loss < f->odd_limit)) return false;
    show(v, "with a tenth of the learning rate the loss is %.4g after the same steps, and %.4g in the run",
         f->slower.last_loss, f->own.last_loss);
    if (isfinite(f->worst_update))
        show(v, "%s changed by %.3g of its norm in one step", f->worst_update_layer, f->worst_update);
    return is(v, YOKEI_CULPRIT_RATE, f->odd == YOKEI_ODD_NONE ? -1 : f->odd_step, NULL);
}

static void judge_same(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    rule_out(v,
             "a flipped bit, and a program that was otherwise: %" PRId64 " steps from step %" PRId64
             " on are repeated %s",
             f->own.n_compared, f->own.from, f->own.is_exact ? "bit for bit" : "but for rounding");
    if (layout_disagrees(f, v) || formulas_disagree(f, v)) return;
    if (samples_were_bad(f, v) || precision_was_wrong(f, v) || other_device_disagrees(f, v)
        || rate_was_too_high(f, v))
        return;
    if (f->odd == YOKEI_ODD_NONE || f->has_recovered)
        is(v, YOKEI_CULPRIT_NONE, -1, NULL);
    else
        is(v, YOKEI_CULPRIT_UNKNOWN, f->odd_step, NULL);
}

void yokei_postmortem_judge(const struct yokei_postmortem_facts *f, struct yokei_verdict *v)
{
    *v = (struct yokei_verdict){ .cause = YOKEI_CULPRIT_UNKNOWN, .step = -1 };
    if (f->has_box && !rate_was_wrong(f, v) && !tokens_were_wrong(f, v)) {
        if (is_off(&f->own))
            judge_difference(f, v);
        else if (is_same(&f->own) || (f->own.ran && f->own.failed_step >= 0))
            judge_same(f, v);
        else if (!samples_were_bad(f, v) && f->odd != YOKEI_ODD_NONE)
            v->step = f->odd_step;
    }
    yokei_text(v->prevention, sizeof v->prevention, "%s", preventions[v->cause]);
}

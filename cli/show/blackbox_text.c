/* SPDX-License-Identifier: Apache-2.0 */
/* The output of yoke blackbox for people. */
#include <stdlib.h>
#include <string.h>

#include "cli/show/blackbox.h"
#include "collectives/flight/flight.h"
#include "core/base/base.h"

static const struct {
    uint32_t flag;
    const char *name;
} flag_names[] = { { YOKEI_BOX_OVERFLOW, "overflow" },     { YOKEI_BOX_LOSS_SPIKE, "loss spike" },
                   { YOKEI_BOX_NORM_SPIKE, "norm spike" }, { YOKEI_BOX_BAD_LOSS, "bad loss" },
                   { YOKEI_BOX_UNFINISHED, "unfinished" }, { YOKEI_BOX_AUDITED, "audited" },
                   { YOKEI_BOX_SAMPLED, "sampled" },       { YOKEI_BOX_TRACED, "traced back" } };

void cli_blackbox_flags(uint32_t flags, char *out, size_t bytes)
{
    out[0] = '\0';
    for (size_t i = 0; i < YOKE_COUNT(flag_names); i++)
        if (flags & flag_names[i].flag)
            yokei_text(out + strlen(out), bytes - strlen(out), "%s%s", out[0] ? ", " : "",
                       flag_names[i].name);
}

bool cli_blackbox_repeats(const struct yokei_boxes *b, int rank, const struct yokei_box_event *e)
{
    const bool is_own = e->kind == YOKEI_BOX_EVENT_OVERFLOW || e->kind == YOKEI_BOX_EVENT_BAD_LOSS
                        || e->kind == YOKEI_BOX_EVENT_END;
    for (int r = 0; r < rank && !is_own; r++)
        if (b->box[r]) return true;
    return false;
}

/* How a rank is that has not written its end, by its flight record if there is one. */
static void put_running(const struct yokei_boxes *b, const struct yokei_box *box, FILE *to)
{
    int signal = 0, code = 0;
    const bool ended = yokei_flight_ended_badly(b->folder, box->head.job_rank, &signal, &code);
    if (ended && signal)
        fprintf(to, "killed by signal %d", signal);
    else
        fprintf(to, ended ? "ended with code %d" : "running, or killed", code);
    fprintf(to, " in step %lld", (long long)box->begun_step);
}

static void put_rank(const struct yokei_boxes *b, int r, FILE *to)
{
    const struct yokei_box *box = b->box[r];
    if (!box) {
        if (b->problem[r][0]) fprintf(to, "rank %d: %s\n", r, b->problem[r]);
        return;
    }
    const struct yokei_box_head *h = &box->head;
    fprintf(to, "rank %d (rank %d of the job, host %s, pid %d): %s, %s, replica %d of %d, stage %d of %d", r,
            h->job_rank, h->host, h->pid, h->device, h->precision, h->replica, h->n_replicas, h->stage,
            h->n_stages);
    if (h->n_places > 1) fprintf(to, ", tensor rank %d of %d", h->place, h->n_places);
    fprintf(to, "\n    ");
    if (box->status.end == YOKEI_BOX_RUNS)
        put_running(b, box, to);
    else
        fprintf(to, "%s in step %lld", yokei_box_end_names[box->status.end], (long long)box->status.end_step);
    if (box->n) fprintf(to, "; %lld records", (long long)box->n);
    if (h->attempt > 1) fprintf(to, "; start %u, behind step %lld", h->attempt, (long long)h->first_step);
    if (box->n_torn) fprintf(to, "; %d torn", box->n_torn);
    if (box->is_cut) fprintf(to, "; the file is cut");
    fputc('\n', to);
    if (box->status.text[0]) fprintf(to, "    %s\n", box->status.text);
}

static void put_event(int r, const struct yokei_box_event *e, FILE *to)
{
    fprintf(to, "step %-6lld %s", (long long)e->step, yokei_box_kind_names[e->kind]);
    switch (e->kind) {
    case YOKEI_BOX_EVENT_LOSS_SPIKE:
    case YOKEI_BOX_EVENT_NORM_SPIKE:
        fprintf(to, ": %.6g, where the median is %.6g and a spike begins at %.6g", e->a, e->b, e->c);
        break;
    case YOKEI_BOX_EVENT_OVERFLOW:
        fprintf(to, ": %.0f elements on rank %d, loss scale %g", e->b, r, e->a);
        if (e->text[0]) fprintf(to, ", first in %s", e->text);
        break;
    case YOKEI_BOX_EVENT_BAD_LOSS:
        fprintf(to, ": the losses of rank %d add up to %g", r, e->a);
        if (e->text[0]) fprintf(to, "; first in the output of %s", e->text);
        break;
    case YOKEI_BOX_EVENT_AUDIT: fprintf(to, ": %.3g times the gate", e->a); break;
    case YOKEI_BOX_EVENT_END:
        fprintf(to, " of rank %d: %s", r,
                e->a >= 0 && e->a < YOKEI_BOX_N_ENDS ? yokei_box_end_names[(int)e->a] : "?");
        break;
    default: fprintf(to, " %.0f", e->b); break;
    }
    fputc('\n', to);
}

static void put_step(const struct cli_blackbox *b, int64_t i, FILE *to)
{
    struct yokei_boxes_total t;
    char flags[160];
    yokei_boxes_step(b->boxes, i, &t, NULL);
    cli_blackbox_flags(t.flags, flags, sizeof flags);
    fprintf(to, "%8lld %12.6g %12.6g %10.4g %10.4g %12lld  %s", (long long)t.step, t.loss, t.gradient_norm,
            t.learning_rate, t.loss_scale, (long long)t.first_sample, flags);
    if (!t.is_whole) fprintf(to, "%s%d of %d ranks", flags[0] ? ", " : "", t.n_ranks, b->boxes->n);
    fputc('\n', to);
}

static void put_layers(const struct cli_blackbox *b, FILE *to)
{
    struct yokei_boxes_total t;
    struct yokei_boxes_layer *layers = calloc((size_t)b->boxes->n_model_layers + 1, sizeof *layers);
    if (!layers) return;
    yokei_boxes_step(b->boxes, b->chosen, &t, layers);
    fprintf(to, "\nstep %lld, layer by layer\n%-20s %14s %14s %12s %14s\n", (long long)t.step, "layer",
            "gradient norm", "largest output", "update ratio", "not finite");
    for (int l = 0; l < b->boxes->n_model_layers; l++)
        fprintf(to, "%-20s %14.6g %14.6g %12.4g %14llu\n", b->boxes->layer[l], layers[l].gradient_norm,
                layers[l].largest, layers[l].update_ratio,
                (unsigned long long)(layers[l].n_bad + layers[l].outputs_bad));
    if (t.bad_layer)
        fprintf(to, "first output that is not finite: %s on rank %d, micro-batch %d\n", t.bad_layer,
                t.bad_layer_rank, t.bad_micro_batch);
    if (t.own_bad_tensor)
        fprintf(to, "first gradient that is not finite, before any sum: %s on rank %d\n", t.own_bad_tensor,
                t.own_bad_rank);
    else if (t.bad_tensor)
        fprintf(to, "first summed gradient that is not finite: %s on rank %d\n", t.bad_tensor, t.bad_rank);
    if (t.worst_sample >= 0)
        fprintf(to, "sample with the largest loss: %lld, %.6g per token\n", (long long)t.worst_sample,
                t.worst_loss);
    free(layers);
}

/* Whether a rank before this one has a record of the step, and reads the same data. */
static bool is_read_before(const struct yokei_boxes *b, const struct yokei_boxes_step *s, int rank)
{
    for (int r = 0; r < rank; r++)
        if (s->at[r] >= 0 && b->box[r]->head.replica == b->box[rank]->head.replica) return true;
    return false;
}

/* The data of the chosen step: each replica once. */
static void put_data(const struct cli_blackbox *b, FILE *to)
{
    enum { SHOWN = 4 };
    const struct yokei_boxes_step *s = &b->boxes->steps[b->chosen];
    for (int r = 0; r < b->boxes->n; r++) {
        if (s->at[r] < 0 || is_read_before(b->boxes, s, r)) continue;
        const struct yokei_box_head *h = &b->boxes->box[r]->head;
        const struct yokei_box_record *record = yokei_box_record(b->boxes->box[r], s->at[r]);
        const int64_t first = yokei_box_sample(h, record->first_sample, record->own_first),
                      last = yokei_box_sample(h, first, record->own_count - 1);
        fprintf(to, "replica %d read samples %lld to %lld", h->replica, (long long)first, (long long)last);
        if (last - first >= record->own_count)
            fprintf(to, " but for %lld skipped ones", (long long)(last - first + 1 - record->own_count));
        fprintf(to, " of %s, which begin at %s", h->data_path, h->token_bytes ? "byte" : "token");
        for (int64_t k = 0; k < YOKE_MIN(record->own_count, (int64_t)SHOWN); k++) {
            const int64_t sample = yokei_box_sample(h, first, k);
            fprintf(to, "%s %lld", k ? "," : "",
                    (long long)(h->token_bytes ? yokei_box_sample_byte(h, sample)
                                               : yokei_box_sample_token(h, sample)));
        }
        fprintf(to, "%s\n", record->own_count > SHOWN ? ", ..." : "");
    }
}

void cli_blackbox_text(const struct cli_blackbox *b, FILE *to)
{
    const struct yokei_boxes *all = b->boxes;
    fprintf(to, "%s: %d ranks, %lld steps\n", all->folder, all->n, (long long)all->n_steps);
    for (int r = 0; r < all->n; r++) put_rank(all, r, to);
    fputs("\nevents\n", to);
    for (int r = 0; r < all->n; r++)
        for (int i = 0; all->box[r] && i < all->box[r]->n_events; i++)
            if (!cli_blackbox_repeats(all, r, &all->box[r]->events[i]))
                put_event(r, &all->box[r]->events[i], to);
    if (b->first < all->n_steps)
        fprintf(to, "\n%8s %12s %12s %10s %10s %12s\n", "step", "loss", "norm", "rate", "loss scale",
                "first sample");
    for (int64_t i = b->first; i < all->n_steps; i++) put_step(b, i, to);
    if (b->chosen < 0) return;
    put_layers(b, to);
    put_data(b, to);
}

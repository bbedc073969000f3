/* SPDX-License-Identifier: Apache-2.0 */
/* yoke train: from options to a training run, and the output that a person sees. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <yoke/comm.h>

#include "cli/cli.h"
#include "cli/launch/hold.h"
#include "cli/train/communicators.h"
#include "cli/train/dashboards.h"
#include "cli/train/plan_source.h"
#include "cli/train/run_record.h"
#include "core/base/base.h"
#include "train/trainer/trainer.h"
#include "cli/options/json_values.h"

static void show_training_progress(void *context, const struct yokei_training_progress *p)
{
    char ranks[256] = "";
    size_t at = 0;
    (void)context;
    for (int64_t r = 0; r < p->n_ranks && at + 64 < sizeof ranks; r++) {
        yokei_text(ranks + at, sizeof ranks - at, "%s%s %.0f%% %.1fk/s", r ? ", " : "", p->ranks[r].device,
                   100 * p->ranks[r].share, p->ranks[r].tokens_per_second * 1e-3);
        at = strlen(ranks);
    }
    int64_t left = isfinite(p->seconds_left) ? (int64_t)(p->seconds_left + 0.5) : 0;
    if (cli_progress_is_watched())
        cli_progress_now("step %lld  loss %.3f  %.1fk tokens/s  [%s]  %lld:%02lld left", (long long)p->step,
                         p->loss, p->tokens_per_second * 1e-3, ranks, (long long)(left / 60),
                         (long long)(left % 60));
    else if (p->step == 1)
        cli_note("step 1  loss %.3f  %.1fk tokens/s  [%s]", p->loss, p->tokens_per_second * 1e-3, ranks);
}

static void show_busy(void *context, const char *text)
{
    (void)context;
    cli_progress_now("%s", *text ? text : "preparing the run");
}

static void show_note(void *context, const char *text)
{
    (void)context;
    cli_note("%s", text);
}

/*
 * The locks on the folders to which only this job may write: the run directory and the folder of its
 * checkpoints.
 */
static struct cli_hold run_dir_hold, save_hold;

/*
 * Lock both folders. Two jobs would mix their metrics, overwrite each other's plan, and remove each other's
 * unfinished checkpoints.
 */
static yoke_status hold_folders(const struct cli_context *context, const struct yokei_training *t,
                                const char *run_dir)
{
    if (context->rank != 0) return YOKE_OK;
    YOKE_TRY(cli_hold(run_dir, "train", "run directory", "--run-dir", &run_dir_hold));
    if (!t->save) return YOKE_OK;
    YOKE_TRY(yokei_make_folder(t->save));
    return cli_hold(t->save, "save", "folder of checkpoints", "--save", &save_hold);
}

/* Called on rank 0. If `yoke run` has made no run directory, choose a dated one, which no other job has. */
static yoke_status choose_run_dir(const struct cli_context *context, char *dir, size_t bytes)
{
    const char *given = cli_text(context->options,
                                 "run-dir"); /* from the command line, or from YOKE_RUN_DIR */
    char stamp[32];
    time_t now = time(NULL);
    struct tm local;
    if (!given) given = context->run_dir;
    if (given) {
        yokei_text(dir, bytes, "%s", given);
        return yokei_make_folder(dir);
    }
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    yokei_text(dir, bytes, "runs/train-%s", stamp);
    YOKE_TRY(yokei_make_folder("runs"));
    for (int i = 2; mkdir(dir, 0777); i++) {
        if (errno != EEXIST)
            return yoke_fail(YOKE_EIO, "%s: cannot make the run directory: %s", dir, strerror(errno));
        yokei_text(dir, bytes, "runs/train-%s-%d", stamp, i);
    }
    return YOKE_OK;
}

/* Send the run directory to all ranks, because the rank that writes there need not be rank 0. */
static yoke_status agree_on_run_dir(const struct cli_context *context, struct yokei_training *t, char *dir,
                                    size_t bytes)
{
    const struct yoke_trainer_config ranks = { .comm = t->comm, .control = t->control };
    yoke_status status = context->rank == 0 ? choose_run_dir(context, dir, bytes) : YOKE_OK;
    if (!status) status = hold_folders(context, t, dir);
    if (!status && context->rank == 0) status = cli_check_dashboards(context->options, dir);
    YOKE_TRY(yokei_ranks_all_well(&ranks, status));
    if (t->control) YOKE_TRY(yoke_broadcast(dir, dir, bytes, YOKE_U8, 0, t->control, NULL));
    t->run_dir = dir;
    return YOKE_OK;
}

/* What the timeline says of a step, beside the simulator's prediction. */
static json_t *timeline_json(const struct yokei_training *t, const struct yokei_timeline_summary *s)
{
    if (!s->n_steps) return json_null();
    return json_pack("{s:o,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "file", cli_json_text(t->timeline), "steps",
                     s->n_steps, "measured_seconds", s->measured, "simulated_seconds", s->simulated,
                     "bubble_measured", s->bubble_measured, "bubble_simulated", s->bubble_simulated,
                     "compute_seconds", s->compute, "communication_seconds", s->communication,
                     "clock_error_seconds", s->clock_error);
}

static void show_timeline(const struct yokei_training *t, const struct yokei_timeline_summary *s)
{
    if (!s->n_steps) return;
    printf("traced step      %.3f ms measured (median of %d), %.3f ms simulated (%+.1f %%)\n",
           1e3 * s->measured, s->n_steps, 1e3 * s->simulated,
           s->measured > 0 ? 100 * (s->simulated / s->measured - 1) : 0.0);
    printf("bubble           %.1f %% measured, %.1f %% simulated\n", 100 * s->bubble_measured,
           100 * s->bubble_simulated);
    printf("trace            %s\n", t->timeline);
}

static json_t *seconds_or_null(double x) { return x > 0 ? json_real(x) : json_null(); }

static json_t *json_of_plan_rank(const struct yokei_plan_rank *rank)
{
    return json_pack("{s:s,s:I,s:I,s:o,s:o}", "device", rank->device, "job_rank", (json_int_t)rank->job_rank,
                     "samples", (json_int_t)rank->samples, "predicted_seconds",
                     seconds_or_null(rank->predicted_seconds), "measured_seconds",
                     seconds_or_null(rank->measured_seconds));
}

/* Loss in nats per byte of the text behind the tokens. NaN: the number of bytes is not known. */
static double loss_per_byte(const struct yokei_training_result *r)
{
    if (r->bytes) return r->validation_loss;
    return r->validation_bytes > 0
               ? r->validation_loss * (double)r->validation_tokens / (double)r->validation_bytes
               : NAN;
}

static yoke_status training_json(const struct yokei_training *t, const struct yokei_training_result *r)
{
    json_t *root = json_pack("{s:I,s:I,s:f,s:o,s:o,s:o,s:o,s:I,s:b,s:o,s:I,s:o}", "steps",
                             (json_int_t)r->steps, "tokens", (json_int_t)r->tokens, "seconds", r->seconds,
                             "first_loss", cli_json_real(r->first_loss), "loss", cli_json_real(r->loss),
                             "validation_loss", cli_json_real(r->validation_loss), "baseline_loss",
                             cli_json_real(r->baseline_loss), "validation_tokens",
                             (json_int_t)r->validation_tokens, "losses_are_nats_per_byte", (int)r->bytes,
                             "run_dir", cli_json_text(t->run_dir), "memory_bytes",
                             (json_int_t)r->memory.total, "ranks", json_array());
    json_t *ranks = json_object_get(root, "ranks");
    for (int64_t i = 0; i < t->plan.n_ranks; i++)
        json_array_append_new(ranks, json_of_plan_rank(&t->plan.ranks[i]));
    json_object_set_new(root, "balance", json_string(t->plan.balance));
    json_object_set_new(root, "layers", json_string(t->plan.layers));
    json_object_set_new(root, "tensor_shares", json_string(t->plan.tensor_shares));
    json_object_set_new(root, "predicted_step_seconds", seconds_or_null(t->plan.predicted_step_seconds));
    json_object_set_new(root, "measured_step_seconds", seconds_or_null(t->plan.measured_step_seconds));
    json_t *memory = json_array();
    for (int64_t i = 0; i < t->plan.n_memory; i++)
        json_array_append_new(memory, cli_memory_json(&t->plan.memory[i]));
    json_object_set_new(root, "memory", memory);
    json_object_set_new(root, "validation_loss_per_byte", cli_json_real(loss_per_byte(r)));
    json_object_set_new(root, "saved_step",
                        r->saved_step >= 0 ? json_integer((json_int_t)r->saved_step) : json_null());
    json_object_set_new(root, "trace", timeline_json(t, &r->timeline));
    if (r->sample) {
        /* The sample may hold any bytes. JSON holds only UTF-8. */
        json_t *text = json_stringn(r->sample, r->sample_bytes);
        json_object_set_new(root, "sample", text ? text : json_null());
        json_object_set_new(root, "word_share", json_real(r->word_share));
        json_object_set_new(root, "words", json_integer((json_int_t)r->n_words));
    }
    return cli_json_print(root, "yoke train");
}

/*
 * Show each rank's share of the sequences, and its computing time. The predicted time, and the ratio to the
 * mean of all ranks that have work, stand beside it.
 */
static void show_ranks(const struct yokei_training *t, const struct yokei_training_result *result)
{
    const struct yokei_plan *p = &t->plan;
    double mean = 0, most = 0;
    int n = 0;
    for (int64_t i = 0; i < p->n_ranks; i++) {
        mean += p->ranks[i].measured_seconds;
        most = fmax(most, p->ranks[i].measured_seconds);
        n += p->ranks[i].samples > 0;
    }
    mean /= n;
    for (int64_t i = 0; i < p->n_ranks; i++) {
        const struct yokei_plan_rank *r = &p->ranks[i];
        printf("rank %-2lld %-9s %lld of %lld sequences a step", (long long)r->job_rank, r->device,
               (long long)r->samples, (long long)p->batch);
        if (!r->samples)
            printf(" (%s)", result->chose_shares
                                ? "too slow to help with this batch, summing with it included: it is left out"
                                : "left out");
        else if (r->measured_seconds > 0 && n > 1)
            printf("; computes %.3g s of a step, %.2f of the mean", r->measured_seconds,
                   r->measured_seconds / mean);
        if (r->samples && r->predicted_seconds > 0 && n > 1)
            printf(", %.3g s predicted", r->predicted_seconds);
        printf("\n");
    }
    if (n > 1 && p->layers[0]) printf("blocks           %s in the stages\n", p->layers);
    if (n > 1 && p->tensor_shares[0]) printf("tensors          %s\n", p->tensor_shares);
    if (n > 1 && most > 0) {
        printf(
            "balance          %.2f (the mean of the ranks' computing over the slowest's); a step took %.3g s",
            mean / most, p->measured_step_seconds);
        if (p->predicted_step_seconds > 0) printf(", %.3g s predicted", p->predicted_step_seconds);
        printf("\n");
    }
}

static void show_training(const struct yokei_training *t, const struct yokei_training_result *r)
{
    const char *unit = r->bytes ? "nats per byte" : "nats per token";
    if (r->sample) {
        printf("--- sample (%zu bytes", r->sample_bytes);
        if (r->n_words)
            printf("; %.0f %% of its %lld words of three or more letters occur in the text",
                   100 * r->word_share, (long long)r->n_words);
        printf(") ---\n");
        cli_put_text(&(struct cli_printer){ .n = 0 }, r->sample, r->sample_bytes, true);
        printf("\n---\n");
    }
    printf("steps            %lld (%lld tokens in %.1f s, %.1f k tokens/s)\n", (long long)r->steps,
           (long long)r->tokens, r->seconds, r->seconds > 0 ? (double)r->tokens / r->seconds * 1e-3 : 0.0);
    show_ranks(t, r);
    printf("memory           %.1f MiB on rank 0\n", (double)r->memory.total / 1048576.0);
    if (r->tokens > 0)
        printf("training loss    %.4f (at the start %.4f)\n", r->loss, r->first_loss);
    else
        printf("training loss    none: the run was at its end, so there was nothing to train\n");
    if (isfinite(r->validation_loss))
        printf("validation loss  %.4f %s on %lld held-out tokens\n", r->validation_loss, unit,
               (long long)r->validation_tokens);
    if (!r->bytes && isfinite(loss_per_byte(r)))
        printf("                 %.4f nats per byte of these tokens' %lld bytes\n", loss_per_byte(r),
               (long long)r->validation_bytes);
    if (isfinite(r->baseline_loss))
        printf(
            "yardstick        %.4f nats per byte by an order-3 byte-count model of the same text, on the same bytes\n",
            r->baseline_loss);
    if (r->saved_step >= 0) printf("checkpoint       step %lld in %s\n", (long long)r->saved_step, t->save);
    show_timeline(t, &r->timeline);
    printf("run directory    %s\n", t->run_dir);
}

/* Set what is measured and shown beside the loss. */
static yoke_status what_is_seen(const struct cli_context *context, struct yokei_training *t)
{
    const struct cli_options *o = context->options;
    const char *peak = cli_text(o, "peak"), *overlap = cli_text(o, "overlap");
    char *end = NULL;
    t->overlap = !strcmp(overlap, "on")    ? YOKE_OVERLAP_ON
                 : !strcmp(overlap, "off") ? YOKE_OVERLAP_OFF
                                           : YOKE_OVERLAP_AUTO;
    t->timeline = cli_text(o, "trace");
    t->timeline_steps = cli_int(o, "trace-steps");
    t->tensorboard = cli_text(o, "tensorboard");
    t->tensorboard_histograms = cli_int(o, "tensorboard-histograms");
    t->metrics_file = cli_text(o, "metrics-file");
    if (!strcmp(peak, "off") || (!strcmp(peak, "auto") && cli_text(o, "plan"))) return YOKE_OK;
    t->peak = YOKEI_PEAK_MEASURED;
    if (!strcmp(peak, "auto")) return YOKE_OK;
    t->peak = YOKEI_PEAK_GIVEN;
    t->peak_flops = strtod(peak, &end);
    if (end == peak || *end || !isfinite(t->peak_flops) || t->peak_flops <= 0)
        return yoke_fail(YOKE_EINVAL,
                         "--peak %s: give auto, off, or a device's operations per second, such as 1.5e12",
                         peak);
    return YOKE_OK;
}

/* Refuse an option that has no effect without another one. Without this check it would be ignored. */
static yoke_status nothing_without_effect(const struct cli_options *o)
{
    static const struct {
        const char *option, *needs, *advice;
    } needed[] = { { "save-every", "save", "--save DIR" },
                   { "save-every-seconds", "save", "--save DIR" },
                   { "keep", "save", "--save DIR" },
                   { "tensorboard-histograms", "tensorboard", "--tensorboard DIR" },
                   { "trace-steps", "trace", "--trace FILE" } };
    for (size_t i = 0; i < YOKE_COUNT(needed); i++)
        if (cli_is_set(o, needed[i].option) && !cli_text(o, needed[i].needs))
            return yoke_fail(YOKE_EINVAL, "train: --%s has no effect without --%s: give %s, or leave it out",
                             needed[i].option, needed[i].needs, needed[i].advice);
    return YOKE_OK;
}

/* The steps between the samples of the black box; 0: off. */
static yoke_status read_black_box(const struct cli_options *o, struct yokei_training *t)
{
    const char *text = cli_text(o, "black-box");
    char *end = NULL;
    if (!strcmp(text, "off")) return YOKE_OK;
    errno = 0;
    const long long every = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || every < 1 || every > 1000000000)
        return yoke_fail(YOKE_EINVAL,
                         "--black-box %s: give off, or the steps between two samples, from 1 to 1000000000",
                         text);
    t->black_box_every = every;
    return YOKE_OK;
}

/* A validation evaluates whole sequences. So the user's number of tokens must be enough for one. */
static yoke_status check_validation(const struct cli_options *o, const struct yokei_training *t)
{
    if (!cli_is_set(o, "validation-tokens") || t->validation_tokens >= t->plan.sequence) return YOKE_OK;
    return yoke_fail(YOKE_ECONFIG,
                     "--validation-tokens %lld is less than one sequence of %lld tokens: give at least %lld",
                     (long long)t->validation_tokens, (long long)t->plan.sequence,
                     (long long)t->plan.sequence);
}

static yoke_status files_and_sample(const struct cli_context *context, struct yokei_training *t)
{
    const struct cli_options *o = context->options;
    const char *text = cli_text(o, "text"), *tokens = cli_text(o, "tokens");
    if (!text == !tokens)
        return yoke_fail(
            YOKE_EINVAL,
            "train: give either --text FILE (bytes, or tokens of --tokenizer) or --tokens FILE.bin (as llm.c writes them)");
    t->tokens = text ? text : tokens;
    t->tokens_are_llmc = tokens != NULL;
    t->tokenizer = cli_text(o, "tokenizer");
    t->validation_tokens = cli_int(o, "validation-tokens");
    t->evaluate_every = cli_int(o, "evaluate-every");
    t->audit_every = cli_int(o, "audit");
    YOKE_TRY(read_black_box(o, t));
    t->memory_limit = cli_bytes(o, "memory-limit");
    t->init = cli_text(o, "init");
    t->export_to = cli_text(o, "export");
    t->save = cli_text(o, "save");
    t->save_every = cli_int(o, "save-every");
    t->save_every_seconds = cli_real(o, "save-every-seconds");
    t->keep = cli_int(o, "keep");
    YOKE_TRY(nothing_without_effect(o));
    t->dump_gradients = cli_text(o, "dump-grads");
    t->prompt = cli_text(o, "prompt");
    t->sample_tokens = cli_int(o, "sample");
    t->temperature = cli_real(o, "temperature");
    t->top_k = cli_int(o, "top-k");
    t->verbose = cli_flag(o, "verbose");
    t->progress = show_training_progress;
    t->note = show_note;
    t->busy = show_busy;
    return YOKE_OK;
}

/* Note what yoke run --devices auto left out. A plan that is repeated keeps its own list. */
static yoke_status note_left_out(struct yokei_training *t)
{
    const char *list = getenv("YOKE_LEFT_OUT");
    if (t->plan_path && !t->resume) return YOKE_OK;
    if (list && strlen(list) >= sizeof t->plan.left_out)
        return yoke_fail(YOKE_ECONFIG, "YOKE_LEFT_OUT has %zu characters; at most %zu are taken",
                         strlen(list), sizeof t->plan.left_out - 1);
    yokei_text(t->plan.left_out, sizeof t->plan.left_out, "%s", list ? list : "");
    return YOKE_OK;
}

static volatile sig_atomic_t stop_asked;

static void ask_to_stop(int signal)
{
    (void)signal;
    stop_asked = 1;
}

/*
 * If there is a folder to save to, a request to stop means: save, then stop. A second SIGINT ends the process
 * at once.
 */
static void stop_on_signals(const struct cli_context *context, struct yokei_training *t)
{
    struct sigaction action = { .sa_handler = ask_to_stop, .sa_flags = SA_RESTART };
    if (!t->save) return;
    t->stop = &stop_asked;
    sigaction(SIGTERM, &action, NULL);
    /* among ranks MPICH uses SIGUSR1 itself, and yoke run passes it on as SIGTERM */
    if (context->size == 1) sigaction(SIGUSR1, &action, NULL);
    action.sa_flags |= (int)SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
}

static yoke_status train(const struct cli_context *context, struct yokei_training *t)
{
    const struct cli_options *o = context->options;
    struct yokei_training_result result = { 0 };
    char run_dir[4096] = "", resume[4096];
    YOKE_TRY(files_and_sample(context, t));
    YOKE_TRY(what_is_seen(context, t));
    stop_on_signals(context, t);
    if (cli_text(o, "resume"))
        YOKE_TRY(cli_plan_from_checkpoint(context, cli_text(o, "resume"), resume, sizeof resume, t));
    else if (cli_text(o, "plan"))
        YOKE_TRY(cli_plan_from_file(context, cli_text(o, "plan"), t));
    else {
        YOKE_TRY(cli_plan_from_options(context, t));
        cli_plan_choices(context, &t->plan);
    }
    YOKE_TRY(note_left_out(t));
    YOKE_TRY(check_validation(o, t));
    YOKE_TRY(yoke_device_open(context->device ? context->device : cli_text(o, "device"), NULL, &t->device));
    YOKE_TRY(cli_open_communicators(context, t));
    YOKE_TRY(agree_on_run_dir(context, t, run_dir, sizeof run_dir));
    YOKE_TRY(cli_run_record(context, t));
    cli_progress_begin("%s", "");
    show_busy(NULL, "");
    YOKE_TRY(yokei_training_run(t, &result));
    yoke_status status = YOKE_OK;
    cli_progress_end();
    if (result.leads && cli_flag(o, "json"))
        status = training_json(t, &result);
    else if (result.leads)
        show_training(t, &result);
    free(result.sample);
    t->run_dir = t->resume = t->plan_path = NULL;
    return status;
}

yoke_status cli_train(const struct cli_context *context)
{
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT };
    yoke_status status = train(context, &t);
    cli_let_go(&save_hold);
    cli_let_go(&run_dir_hold);
    /*
     * After a fault the other ranks may be gone. So nothing that waits for them is called. The process ends
     * anyway.
     */
    yoke_status end = status == YOKE_EPREEMPTED ? YOKE_OK : status;
    if (!end && t.control) end = yoke_comm_destroy(t.control);
    if (!end && t.comm) end = yoke_comm_destroy(t.comm);
    if (!end) end = yoke_device_close(t.device);
    yokei_plan_free(&t.plan);
    return end ? end : status;
}

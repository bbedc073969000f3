/* SPDX-License-Identifier: Apache-2.0 */
/* The sweep over ops, types and variants, which makes the lines of results. */
#include "conform/problem.h"
#include "conform/trial.h"

#include <string.h>

/* The families, by name, and their ops as a mask of bits. */
#define BIT(op) | (uint64_t)1 << YOKE_OP_##op
#define FAMILY(family, OPS, with) { #family, 0 OPS(BIT) },
static const struct {
    const char *name;
    uint64_t ops;
} families[] = { YOKE_FAMILIES(FAMILY, ) };
_Static_assert(YOKE_N_OPS <= 64, "the masks of the families have too few bits");

/* Numbers of random cases for each line, in addition to the cases of the row's table. */
enum { RANDOM_CASES = 3, RANDOM_CASES_FULL = 60 };

/* The state of a run. */
struct run {
    struct trial trial;
    struct conform_options options;
    conform_callback callback;
    void *context;
    bool is_past;                  /* the line options.after has been passed */
    uint64_t unforced[YOKE_N_OPS]; /* the variants that the device would choose for the cases in f32 */
    struct conform_summary summary;
    /* for options.share: lines of the whole sweep, those before the present op and type, and its own */
    int n_lines_all, n_lines_before, n_lines_here;
    int n_lines; /* that were begun for the present op and type */
};

static bool op_named(const char *name)
{
    for (int op = 0; op < YOKE_N_OPS; op++)
        if (!strcmp(name, yokei_op_names[op])) return true;
    return false;
}

/*
 * The next element of a list of names with commas between them, which is copied to `out`. `at` begins at the
 * list. False: there are no more elements.
 */
static bool next_name(const char **at, char out[64])
{
    if (!*at) return false;
    const size_t length = strcspn(*at, ",");
    yokei_text(out, 64, "%.*s", (int)YOKE_MIN(length, (size_t)63), *at);
    *at = (*at)[length] ? *at + length + 1 : NULL;
    return true;
}

static bool selects(const char *word, enum yoke_op_id op, bool only_case)
{
    if (!strcmp(word, yokei_op_names[op])) return true;
    /* A case number belongs to one op, even if a family has the same name. */
    if (only_case && op_named(word)) return false;
    for (size_t i = 0; i < YOKE_COUNT(families); i++)
        if (!strcmp(word, families[i].name) && families[i].ops >> op & 1) return true;
    return false;
}

bool conform_selected(const struct conform_options *options, enum yoke_op_id op)
{
    const char *at = options->op;
    char word[64];
    bool selected = !at;
    while (!selected && next_name(&at, word)) selected = selects(word, op, options->only_case != 0);
    return selected;
}

/* Whether the list of types has this type, or there is no list. */
static bool has_dtype(const struct conform_options *options, yoke_dtype dtype)
{
    const char *at = options->dtype;
    char word[64];
    bool has = !at;
    while (!has && next_name(&at, word)) has = strcmp(word, yoke_dtype_name(dtype)) == 0;
    return has;
}

static yoke_status check_word(const char *word)
{
    const char *names[YOKE_N_OPS + YOKE_COUNT(families) + 1] = { NULL };
    for (int op = 0; op < YOKE_N_OPS; op++) {
        names[op] = yokei_op_names[op];
        if (selects(word, (enum yoke_op_id)op, false)) return YOKE_OK;
    }
    for (size_t i = 0; i < YOKE_COUNT(families); i++) names[YOKE_N_OPS + i] = families[i].name;
    const char *near = yokei_nearest(word, names);
    return yoke_fail(YOKE_EINVAL, "conformance: no op or family is called '%s'%s%s%s", word,
                     near ? "; did you mean '" : "", near ? near : "",
                     near ? "'?" : "; `yoke verify --device host` lists them all");
}

yoke_status conform_check_options(const struct conform_options *options)
{
    const char *ops = options->op, *dtypes = options->dtype;
    char word[64];
    yoke_dtype dtype;
    while (next_name(&ops, word)) YOKE_TRY(check_word(word));
    while (next_name(&dtypes, word)) YOKE_TRY(yoke_dtype_parse(word, &dtype));
    return YOKE_OK;
}

static void note(struct conform_line *line, const struct trial *t, const struct finding *f)
{
    line->n_cases++;
    if (f->ulp > line->ulp) line->ulp = f->ulp;
    const bool first_failure = f->reason[0] && !line->reason[0];
    if (first_failure) {
        line->verdict = CONFORM_FAIL;
        yokei_text(line->reason, sizeof line->reason, "%s", f->reason);
    }
    if (!first_failure && (line->verdict == CONFORM_FAIL || (line->n_cases > 1 && !(f->ratio > line->ratio))))
        return;
    line->ratio = f->ratio;
    line->status = f->status;
    line->has_element = f->has_element;
    line->case_number = t->index + 1;
    yokei_text(line->worst_case, sizeof line->worst_case, "%s", t->words);
    yokei_text(line->worst_output, sizeof line->worst_output, "%s", f->output ? f->output : "");
    memcpy(line->worst_index, f->index, sizeof f->index);
    line->got = f->got, line->wanted = f->wanted, line->bound = f->bound;
}

static void hand_over(struct run *run, const struct conform_line *line)
{
    struct conform_summary *s = &run->summary;
    int *const counts[] = { &s->n_pass, &s->n_fail, &s->n_skip, &s->n_left_out };
    s->n_cases += line->n_cases;
    *counts[line->verdict] += 1;
    if (run->callback) run->callback(run->context, line);
}

static void finish_line(struct run *run, struct conform_line *line, int end)
{
    if (line->verdict == CONFORM_PASS && line->n_cases == 0) {
        line->verdict = CONFORM_SKIP;
        if (line->n_not_offered)
            yokei_text(line->reason, sizeof line->reason, "%s", yoke_last_error());
        else
            yokei_text(line->reason, sizeof line->reason, "%s has cases 1 to %d, and no case %d", line->op,
                       end, run->options.only_case);
    }
    hand_over(run, line);
}

/* Whether the run skips this line, because it comes before options.after or is that line. */
static bool is_behind_us(struct run *run, const struct conform_line *line, enum conform_verdict *verdict_out)
{
    const struct conform_line *after = run->options.after;
    if (!after || run->is_past) return false;
    if (strcmp(after->op, line->op) || after->dtype != line->dtype || strcmp(after->variant, line->variant))
        return true;
    run->is_past = true;
    *verdict_out = CONFORM_FAIL;
    return true;
}

static yoke_status hash_case(struct run *run, const struct conform_line *line)
{
    struct conform_bits bits = { .size = sizeof bits,
                                 .op = line->op,
                                 .dtype = line->dtype,
                                 .variant = line->variant,
                                 .case_number = run->trial.index + 1,
                                 .words = run->trial.words };
    YOKE_TRY(trial_bits(&run->trial, &bits.inputs, &bits.results));
    run->options.bits(run->context, &bits);
    return YOKE_OK;
}

static void run_case(struct run *run, struct conform_line *line, yoke_status *status_out)
{
    struct trial *t = &run->trial;
    struct finding f = { .ratio = 0 };
    if (run->options.before_case) {
        struct conform_line now = *line;
        now.case_number = t->index + 1;
        run->options.before_case(run->context, &now);
    }
    const yoke_status status = *status_out = run->options.bits ? hash_case(run, line) : trial_run(t, &f);
    if (status == YOKE_EUNSUPPORTED) line->n_not_offered++;
    if (status == YOKE_EUNSUPPORTED || status == YOKE_ENOMEM) return;
    if (status) {
        f = (struct finding){ .ratio = INFINITY, .status = status };
        yokei_text(f.reason, sizeof f.reason, "%s: %s", yoke_status_name(status), yoke_last_error());
    }
    note(line, t, &f);
}

/* Say how far the sweep is. `share` of the present line is done. */
static void say_share(const struct run *run, double share)
{
    const double here = YOKE_MIN(run->n_lines - 1 + share, (double)run->n_lines_here);
    if (run->options.share && run->n_lines_all)
        run->options.share(run->context, (run->n_lines_before + here) / run->n_lines_all);
}

/* Run all cases of one op, type and variant. If the op cannot run, its line fails, and the sweep goes on. */
static yoke_status run_line(struct run *run, enum yoke_op_id op, const char *variant,
                            enum conform_verdict *verdict_out)
{
    struct trial *t = &run->trial;
    struct conform_line line = { .size = sizeof line,
                                 .op = yokei_op_names[op],
                                 .dtype = t->dtype,
                                 .variant = variant,
                                 .device = yoke_device_info(t->device.device)->spec,
                                 .seed = t->seed };
    const int only = run->options.only_case, most = t->row->n_cases + RANDOM_CASES_FULL;
    const int end = only ? YOKE_MIN(only, most) : run->options.full ? most : t->row->n_cases + RANDOM_CASES;
    run->n_lines++;
    if (is_behind_us(run, &line, verdict_out)) return YOKE_OK;
    /* Stop at the first failure, because it is the one to look at. */
    for (t->index = only ? only - 1 : 0; t->index < end && line.verdict != CONFORM_FAIL; t->index++) {
        yoke_status status;
        say_share(run, only ? 0 : (double)t->index / end);
        run_case(run, &line, &status);
        if (status == YOKE_ENOMEM) return status;
    }
    finish_line(run, &line, most);
    *verdict_out = line.verdict;
    return YOKE_OK;
}

/* Report the line of a variant that this sweep does not run. */
static void leave_out(struct run *run, enum yoke_op_id op, const char *variant, const char *why)
{
    struct conform_line line = { .size = sizeof line,
                                 .op = yokei_op_names[op],
                                 .dtype = run->trial.dtype,
                                 .variant = variant,
                                 .device = yoke_device_info(run->trial.device.device)->spec,
                                 .verdict = CONFORM_LEFT_OUT,
                                 .seed = run->trial.seed };
    enum conform_verdict verdict;
    if (is_behind_us(run, &line, &verdict)) return;
    yokei_text(line.reason, sizeof line.reason, "%s; the full sweep runs it", why);
    hand_over(run, &line);
}

/*
 * Whether the device compiles programs at run time. The first compilation takes a second or more per variant
 * and type. The variants of an op differ in their bodies, but the types differ only in their loads and
 * stores.
 */
static bool compiles_at_run_time(const yoke_device *device)
{
    const char *backend = yoke_device_info(device)->backend;
    return strcmp(backend, "host") && strcmp(backend, "reference");
}

/* the line of the variant that the device chooses by shape, type and tuning file */
static const char chosen[] = "(chosen)";

/* Whether a name that a user gave is this variant. It may have an algorithm behind a colon. */
static bool is_variant(const char *wanted, const char *variant)
{
    const size_t n = strlen(variant);
    return !strncmp(wanted, variant, n) && (!wanted[n] || wanted[n] == ':');
}

static bool is_library(const yoke_device *device, enum yoke_op_id op, int index)
{
    const struct yoke_device_extras *extras = device->backend->device->extras;
    return extras && extras->facts && extras->facts(device, op, index) & YOKEI_VARIANT_LIBRARY;
}

/*
 * Force every op that has this variant to it, or free them again. A case may call several ops, such as
 * xent_join with the ops that make its parts, and all of them belong to the line's variant.
 */
static yoke_status force_variant(yoke_device *device, const char *variant, bool on)
{
    for (int op = 0; op < YOKE_N_OPS; op++) {
        const char *const name = yokei_op_names[op], *has = NULL;
        for (int i = 0; (has = yoke_variant_name(device, name, i)) && !is_variant(variant, has);) i++;
        if (has) YOKE_TRY(yoke_variant_force(device, name, on ? variant : NULL));
    }
    return YOKE_OK;
}

static yoke_status run_forced(struct run *run, enum yoke_op_id op, const char *variant,
                              enum conform_verdict *verdict_out)
{
    yoke_device *device = run->trial.device.device;
    YOKE_TRY(force_variant(device, variant, true));
    const yoke_status status = run_line(run, op, variant, verdict_out);
    YOKE_TRY(force_variant(device, variant, false));
    return status;
}

/* What the lines of one operation and type share. */
struct variants {
    struct run *run;
    enum yoke_op_id op;
    bool few;          /* only some variants are run */
    bool skips_64;     /* 64 lanes do the same as 32 lanes */
    uint64_t unforced; /* the variants that the device would choose for the cases, as far as they are known */
    uint64_t later;    /* those that are run only if it turns out that the device would choose them */
};

static yoke_status run_variant(struct variants *v, const char *variant, int index)
{
    yoke_device *device = v->run->trial.device.device;
    enum conform_verdict verdict = CONFORM_SKIP;
    if (v->skips_64 && strcmp(variant, "l64w1") == 0) {
        leave_out(v->run, v->op, variant, "no lanes meet in this op, and l32w1 is run");
        return YOKE_OK;
    }
    YOKE_TRY(run_forced(v->run, v->op, variant, &verdict));
    /* calls that the variant refuses say nothing, because it runs no case then */
    if (verdict != CONFORM_SKIP && !is_library(device, v->op, index))
        v->unforced |= yokei_variants_unforced(device, v->op);
    return YOKE_OK;
}

/* Run the variants that had to wait, or leave them out. */
static yoke_status run_later(struct variants *v)
{
    for (int n = 0; v->later >> n; n++) {
        const char *variant = yoke_variant_name(v->run->trial.device.device, yokei_op_names[v->op], n);
        if (!(v->later >> n & 1)) continue;
        if (v->unforced >> n & 1)
            YOKE_TRY(run_variant(v, variant, n));
        else
            leave_out(v->run, v->op, variant, "in this type another variant is run, and this one in f32");
    }
    return YOKE_OK;
}

/* The bit of a variant of an op; 0: it does not have the variant. */
static uint64_t bit_of(const yoke_device *device, const char *op, const char *variant)
{
    const char *name;
    for (int n = 0; (name = yoke_variant_name(device, op, n)); n++)
        if (!strcmp(name, variant)) return UINT64_C(1) << n;
    return 0;
}

/*
 * Run one line per variant. With `full`, one more line runs what the device chooses by itself. If programs
 * are compiled at run time and the options ask for nothing more, every variant runs in f32. In each other
 * type only these variants run: those that the device would choose for the cases in f32 or in this type, or,
 * if these are of a library, the first one that is offered. A library compiles nothing, so its variants run
 * in every type. If an op sums no rows, its lanes (threads of a warp) compute nothing together. 64 lanes then
 * do the same as 32 lanes, so only 32 are run.
 */
static yoke_status run_variants(struct run *run, enum yoke_op_id op)
{
    yoke_device *device = run->trial.device.device;
    const char *const wanted = run->options.variant, *const name = yokei_op_names[op], *variant;
    const bool is_short = compiles_at_run_time(device) && !run->options.full && !wanted;
    struct variants v = { .run = run,
                          .op = op,
                          .few = is_short && run->trial.dtype != YOKE_F32 && !run->options.dtype,
                          .skips_64 = is_short && !conform_sizes_of(op)->sums };
    uint64_t library = 0;
    int n = 0;
    enum conform_verdict verdict = CONFORM_SKIP;
    yokei_variants_unforced(device, op);
    for (; yoke_variant_name(device, name, n); n++)
        if (is_library(device, op, n)) library |= UINT64_C(1) << n;
    if (v.few) v.unforced = run->unforced[op] & ~library;
    if (v.skips_64 && v.unforced & bit_of(device, name, "l64w1")) v.unforced |= bit_of(device, name, "l32w1");
    for (n = 0; (variant = yoke_variant_name(device, name, n)); n++) {
        if (wanted && !is_variant(wanted, variant)) continue;
        if (wanted) variant = wanted; /* the name may have an algorithm behind it */
        if (v.few && v.unforced && !((v.unforced | library) >> n & 1))
            v.later |= UINT64_C(1) << n;
        else
            YOKE_TRY(run_variant(&v, variant, n));
    }
    YOKE_TRY(run_later(&v));
    if (run->trial.dtype == YOKE_F32) run->unforced[op] = v.unforced;
    if (n == 0) return wanted ? YOKE_OK : run_line(run, op, "", &verdict);
    return (wanted ? strcmp(wanted, chosen) == 0 : run->options.full) ? run_line(run, op, chosen, &verdict)
                                                                      : YOKE_OK;
}

/*
 * About how many lines an op has in the run's type, those that are left out not counted. Only the share of
 * the sweep that is done depends on it.
 */
static int count_lines(const struct run *run, enum yoke_op_id op)
{
    const yoke_device *device = run->trial.device.device;
    const bool is_short = compiles_at_run_time(device) && !run->options.full;
    int n = 0;
    if (run->options.variant || (is_short && run->trial.dtype != YOKE_F32 && !run->options.dtype)) return 1;
    while (yoke_variant_name(device, yokei_op_names[op], n)) n++;
    return YOKE_MAX(n, 1) + (n && run->options.full);
}

/* Go through all ops and types of the sweep, and only count their lines, or run them. */
static yoke_status run_all(struct run *run, bool only_count)
{
    struct trial *t = &run->trial;
    const uint32_t storage = yoke_device_info(t->device.device)->storage;
    static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_F16, YOKE_BF16, YOKE_F64 };
    run->n_lines_before = 0;
    for (int place = 0; place < YOKE_N_OPS; place++) {
        const enum yoke_op_id op = conform_op_at(place);
        if (!conform_selected(&run->options, op)) continue;
        t->row = conform_row_of(op);
        for (size_t i = 0; i < YOKE_COUNT(dtypes); i++) {
            t->dtype = dtypes[i];
            if (!(t->row->dtypes & 1u << t->dtype)) continue;
            if (t->dtype == YOKE_F64 && !(storage & 1u << YOKE_F64))
                continue; /* only the reference backend has f64 */
            if (!has_dtype(&run->options, t->dtype)) continue;
            run->n_lines = 0;
            run->n_lines_here = count_lines(run, op);
            if (!only_count) YOKE_TRY(run_variants(run, op));
            run->n_lines_before += run->n_lines_here;
        }
    }
    return YOKE_OK;
}

/* Fail with the names of all variants that the selected ops have, each name once. */
static yoke_status unknown_variant(const struct run *run)
{
    const yoke_device *device = run->trial.device.device;
    const char *names[64], *variant;
    char list[512] = "";
    int n = 0;
    for (int op = 0; op < YOKE_N_OPS; op++) {
        if (!conform_selected(&run->options, (enum yoke_op_id)op)) continue;
        for (int i = 0;
             n + 1 < (int)YOKE_COUNT(names) && (variant = yoke_variant_name(device, yokei_op_names[op], i));
             i++) {
            int known = 0;
            while (known < n && strcmp(names[known], variant)) known++;
            if (known == n) names[n++] = variant;
        }
    }
    names[n] = NULL;
    for (int i = 0; i < n; i++)
        yokei_text(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
    const char *near = yokei_nearest(run->options.variant, names);
    return yoke_fail(YOKE_EINVAL,
                     "conformance: device %s has no variant '%s' of the ops asked for%s%s%s; it has: %s",
                     yoke_device_info(device)->spec, run->options.variant, near ? "; did you mean '" : "",
                     near ? near : "", near ? "'?" : "", n ? list : "none");
}

yoke_status conform_run(yoke_device *device, const struct conform_options *options, conform_callback callback,
                        void *context, struct conform_summary *summary_out)
{
    struct run run = { .options = CONFORM_OPTIONS_INIT,
                       .callback = callback,
                       .context = context,
                       .summary = { .size = sizeof run.summary } };
    if (!device) return yoke_fail(YOKE_EINVAL, "conform_run: no device");
    if (options) run.options = *options;
    YOKE_TRY(conform_check_options(&run.options));
    struct trial *t = &run.trial;
    t->seed = run.options.seed ? run.options.seed : 1;
    t->device.device = device;
    t->oracle.oracle = true;
    yoke_status status;
    YOKE_TRY(yoke_device_open("reference", NULL, &t->oracle.device));
    YOKE_TRY_GOTO(yoke_stream_create(t->oracle.device, &t->oracle.stream), close_device);
    YOKE_TRY_GOTO(yoke_stream_create(device, &t->device.stream), destroy_oracle);
    run_all(&run, true);
    run.n_lines_all = run.n_lines_before;
    status = run_all(&run, false);
    yoke_stream_destroy(t->device.stream);
    if (!status && run.options.variant && run.summary.n_pass + run.summary.n_fail + run.summary.n_skip == 0
        && !run.options.after)
        status = unknown_variant(&run);
destroy_oracle:
    yoke_stream_destroy(t->oracle.stream);
close_device:
    yoke_device_close(t->oracle.device);
    if (!status && summary_out) *summary_out = run.summary;
    return status;
}

const char *conform_verdict_name(enum conform_verdict verdict)
{
    static const char *const names[] = { "PASS", "FAIL", "SKIP", "LEFT OUT" };
    return names[verdict];
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The sweep over ops, types and variants, and its lines. */
#include "conform/trial.h"

#include <stdio.h>
#include <string.h>

#define ROW(op) [YOKE_OP_##op] = &conform_row_##op,
static const struct conform_row *const rows[YOKE_N_OPS] = { YOKE_ALL_OPS(ROW) };
#undef ROW

/* Each family's ops, by the family's name. */
static const struct {
    const char *name;
    enum yoke_op_id first, last;
} families[] = {
    { "gemm", YOKE_OP_gemm, YOKE_OP_bias_backward },
    { "norm", YOKE_OP_layernorm_forward, YOKE_OP_rmsnorm_backward },
    { "act", YOKE_OP_gelu_forward, YOKE_OP_swiglu_backward },
    { "attention", YOKE_OP_attention_forward, YOKE_OP_attention_backward },
    { "embed", YOKE_OP_embed_forward, YOKE_OP_embed_backward },
    { "loss", YOKE_OP_xent_forward, YOKE_OP_xent_join },
    { "optim", YOKE_OP_adamw, YOKE_OP_grad_norm },
    { "cast", YOKE_OP_cast, YOKE_OP_cast },
    { "elementwise", YOKE_OP_add, YOKE_OP_dropout },
    { "rope", YOKE_OP_rope, YOKE_OP_rope },
};

/* Beyond each row's table. */
enum { RANDOM_CASES = 3, RANDOM_CASES_FULL = 60 };

/* Everything that a run carries along. */
struct run {
    struct trial trial;
    struct conform_options options;
    conform_callback callback;
    void *context;
    struct conform_summary summary;
};

static bool selected(const struct conform_options *options, enum yoke_op_id op)
{
    if (!options->op || !strcmp(options->op, yokei_op_names[op])) return true;
    for (size_t i = 0; i < YOKE_COUNT(families); i++)
        if (!strcmp(options->op, families[i].name) && families[i].first <= op && op <= families[i].last) return true;
    return false;
}

static yoke_status check_options(const struct conform_options *options)
{
    const char *names[YOKE_N_OPS + YOKE_COUNT(families) + 1] = { NULL };
    bool found = false;
    for (int op = 0; op < YOKE_N_OPS; op++) {
        names[op] = yokei_op_names[op];
        found |= selected(options, (enum yoke_op_id)op);
    }
    for (size_t i = 0; i < YOKE_COUNT(families); i++) names[YOKE_N_OPS + i] = families[i].name;
    if (!found) {
        const char *near = yokei_nearest(options->op, names);
        return yoke_fail(YOKE_EINVAL, "conformance: no op or family is called '%s'%s%s%s", options->op, near ? "; did you mean '" : "",
                         near ? near : "", near ? "'?" : "; `yoke verify --device host` lists them all");
    }
    yoke_dtype dtype;
    return options->dtype ? yoke_dtype_parse(options->dtype, &dtype) : YOKE_OK;
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
    if (!first_failure && (line->verdict == CONFORM_FAIL || (line->n_cases > 1 && !(f->ratio > line->ratio)))) return;
    line->ratio = f->ratio;
    yokei_text(line->worst_case, sizeof line->worst_case, "%s", t->words);
    yokei_text(line->worst_output, sizeof line->worst_output, "%s", f->output ? f->output : "");
    memcpy(line->worst_index, f->index, sizeof f->index);
    line->got = f->got, line->wanted = f->wanted, line->bound = f->bound;
}

static void finish_line(struct run *run, struct conform_line *line)
{
    if (line->verdict == CONFORM_PASS && line->n_cases == 0) {
        line->verdict = CONFORM_SKIP;
        yokei_text(line->reason, sizeof line->reason, "%s", yoke_last_error());
    }
    run->summary.n_cases += line->n_cases;
    *(line->verdict == CONFORM_PASS ? &run->summary.n_pass : line->verdict == CONFORM_FAIL ? &run->summary.n_fail : &run->summary.n_skip) += 1;
    if (run->callback) run->callback(run->context, line);
}

/* All cases of one op, type and variant. An op that fails to run is a line that fails, not an error of the sweep. */
static yoke_status run_line(struct run *run, enum yoke_op_id op, const char *variant, enum conform_verdict *verdict_out)
{
    struct trial *t = &run->trial;
    struct conform_line line = { .size = sizeof line, .op = yokei_op_names[op], .dtype = t->dtype, .variant = variant,
                                 .device = yoke_device_info(t->device.device)->spec, .seed = t->seed };
    const int n_cases = t->row->n_cases + (run->options.full ? RANDOM_CASES_FULL : RANDOM_CASES);
    for (t->index = 0; t->index < n_cases; t->index++) {
        struct finding f = { .ratio = 0 };
        const yoke_status status = trial_run(t, &f);
        if (status == YOKE_EUNSUPPORTED) {
            line.n_not_offered++;
            continue;
        }
        if (status == YOKE_ENOMEM) return status;
        if (status) {
            f = (struct finding){ .ratio = INFINITY };
            yokei_text(f.reason, sizeof f.reason, "%s: %s", yoke_status_name(status), yoke_last_error());
        }
        note(&line, t, &f);
        if (line.verdict == CONFORM_FAIL) break; /* the first failure is the one to look at */
    }
    finish_line(run, &line);
    *verdict_out = line.verdict;
    return YOKE_OK;
}

/* Programs that are compiled at run time cost a second or more per variant and type the first time, where the variants
 * of one op differ in their bodies and the types in their loads and stores alone. */
static bool compiles_at_run_time(const yoke_device *device)
{
    const char *backend = yoke_device_info(device)->backend;
    return strcmp(backend, "host") && strcmp(backend, "reference");
}

/* Ops whose lanes sum up something together. In the others 64 lanes do what 32 do, and 32 are run. */
static bool do_lanes_meet(enum yoke_op_id op)
{
    switch (op) {
    case YOKE_OP_add:
    case YOKE_OP_scale:
    case YOKE_OP_dropout:
    case YOKE_OP_gelu_forward:
    case YOKE_OP_gelu_backward:
    case YOKE_OP_gelu_erf_forward:
    case YOKE_OP_gelu_erf_backward:
    case YOKE_OP_swiglu_forward:
    case YOKE_OP_swiglu_backward:
    case YOKE_OP_rope:
    case YOKE_OP_cast:
    case YOKE_OP_adamw:
    case YOKE_OP_embed_forward:
        return false;
    default:
        return true;
    }
}

/* One line per variant; with `full`, one more for what the device chooses itself. Where programs are compiled, and nothing
 * more was asked for, every variant is run in f32 (but see do_lanes_meet) and the first that is offered in the other types. */
static yoke_status run_variants(struct run *run, enum yoke_op_id op)
{
    yoke_device *device = run->trial.device.device;
    const char *const wanted = run->options.variant, *const name = yokei_op_names[op];
    const bool first_only = compiles_at_run_time(device) && run->trial.dtype != YOKE_F32 && !run->options.full && !wanted &&
                            !run->options.dtype;
    const bool skips_64 = compiles_at_run_time(device) && !run->options.full && !wanted && !do_lanes_meet(op);
    enum conform_verdict verdict = CONFORM_SKIP;
    const char *variant;
    int n = 0;
    for (; (variant = yoke_variant_name(device, name, n)); n++) {
        if ((wanted && strcmp(wanted, variant)) || (first_only && verdict != CONFORM_SKIP)) continue;
        if (skips_64 && strcmp(variant, "l64w1") == 0) continue;
        YOKE_TRY(yoke_variant_force(device, name, variant));
        const yoke_status status = run_line(run, op, variant, &verdict);
        YOKE_TRY(yoke_variant_force(device, name, NULL));
        YOKE_TRY(status);
    }
    return !wanted && (n == 0 || run->options.full) ? run_line(run, op, n == 0 ? "" : "(chosen)", &verdict) : YOKE_OK;
}

static yoke_status run_all(struct run *run)
{
    struct trial *t = &run->trial;
    const uint32_t storage = yoke_device_info(t->device.device)->storage;
    static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_F16, YOKE_BF16, YOKE_F64 };
    for (int op = 0; op < YOKE_N_OPS; op++) {
        if (!selected(&run->options, (enum yoke_op_id)op)) continue;
        t->row = rows[op];
        for (size_t i = 0; i < YOKE_COUNT(dtypes); i++) {
            t->dtype = dtypes[i];
            if (!(t->row->dtypes & 1u << t->dtype)) continue;
            if (t->dtype == YOKE_F64 && !(storage & 1u << YOKE_F64)) continue; /* of the reference backend alone */
            if (run->options.dtype && strcmp(yoke_dtype_name(t->dtype), run->options.dtype)) continue;
            YOKE_TRY(run_variants(run, (enum yoke_op_id)op));
        }
    }
    return YOKE_OK;
}

yoke_status conform_run(yoke_device *device, const struct conform_options *options, conform_callback callback,
                        void *context, struct conform_summary *summary_out)
{
    struct run run = { .options = CONFORM_OPTIONS_INIT, .callback = callback, .context = context,
                       .summary = { .size = sizeof run.summary } };
    if (!device) return yoke_fail(YOKE_EINVAL, "conform_run: no device");
    if (options) run.options = *options;
    YOKE_TRY(check_options(&run.options));
    struct trial *t = &run.trial;
    t->seed = run.options.seed ? run.options.seed : 1;
    t->device.device = device;
    t->oracle.oracle = true;
    yoke_status status;
    YOKE_TRY(yoke_device_open("reference", NULL, &t->oracle.device));
    YOKE_TRY_GOTO(yoke_stream_create(t->oracle.device, &t->oracle.stream), close_device);
    YOKE_TRY_GOTO(yoke_stream_create(device, &t->device.stream), destroy_oracle);
    status = run_all(&run);
    yoke_stream_destroy(t->device.stream);
    if (!status && run.options.variant && run.summary.n_pass + run.summary.n_fail + run.summary.n_skip == 0)
        status = yoke_fail(YOKE_EINVAL, "conformance: device %s has no variant '%s' of the ops asked for",
                           yoke_device_info(device)->spec, run.options.variant);
destroy_oracle:
    yoke_stream_destroy(t->oracle.stream);
close_device:
    yoke_device_close(t->oracle.device);
    if (!status && summary_out) *summary_out = run.summary;
    return status;
}

const char *conform_verdict_name(enum conform_verdict verdict)
{
    return verdict == CONFORM_PASS ? "PASS" : verdict == CONFORM_FAIL ? "FAIL" : "SKIP";
}

void conform_text(const struct conform_line *line, char *text, size_t bytes)
{
    char name[160], at[64] = "";
    yokei_text(name, sizeof name, "%s %s %s%s%s", line->op, yoke_dtype_name(line->dtype), line->variant, line->variant[0] ? " " : "",
               line->device);
    if (line->worst_index[0])
        yokei_text(at, sizeof at, "%lld,", (long long)line->worst_index[0]);
    yokei_text(at + strlen(at), sizeof at - strlen(at), "%lld,%lld", (long long)line->worst_index[1], (long long)line->worst_index[2]);
    if (line->n_cases == 0) {
        yokei_text(text, bytes, "%-44s %s  %s", name, conform_verdict_name(line->verdict), line->reason);
    } else if (line->verdict == CONFORM_PASS) {
        yokei_text(text, bytes, "%-44s %3d cases  bound %.2f  ulp %.3g  worst %s[%s] (%s)  %s", name, line->n_cases, line->ratio,
                   line->ulp, line->worst_output, at, line->worst_case, conform_verdict_name(line->verdict));
    } else {
        yokei_text(text, bytes, "%-44s %3d cases  bound %.2f  ulp %.3g  worst %s[%s] got %.9g wanted %.9g bound %.3g (%s, seed %llu)  %s: %s",
                   name, line->n_cases, line->ratio, line->ulp, line->worst_output, at, line->got, line->wanted, line->bound,
                   line->worst_case, (unsigned long long)line->seed, conform_verdict_name(line->verdict), line->reason);
    }
}

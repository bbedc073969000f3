/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke verify: compare every operation of a device with the reference. Check the reference itself by central
 * differences.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/devices/bits.h"
#include "cli/devices/verify.h"
#include "core/base/base.h"

enum { MOST_COMPARED = 16 };

struct printer {
    const struct verify *verify;
    FILE *to;
    bool json;
    json_t *lines;
    struct bits bits; /* of this device, with --bits or --against */
};

static void keep_bits(void *context, const struct conform_bits *bits)
{
    bits_add(&((struct printer *)context)->bits, bits);
}

static void print_case(void *context, const struct conform_line *line)
{
    struct printer *p = context;
    char text[2048];
    if (p->json) {
        json_t *o = verify_line_json(line);
        if (o) json_array_append_new(p->lines, o);
    } else if (line->verdict != CONFORM_LEFT_OUT) {
        if (p->verify->bits && line->verdict == CONFORM_PASS)
            yokei_text(text, sizeof text, "%s %s %s%s%s: %d cases hashed", line->op,
                       yoke_dtype_name(line->dtype), line->variant, line->variant[0] ? " " : "", line->device,
                       line->n_cases);
        else
            conform_text(line, text, sizeof text);
        if (p->to == stdout) cli_progress_pause();
        fprintf(p->to, "%s\n", text);
        fflush(p->to);
        cli_progress_resume();
    }
}

/* Print a text. All lines behind the first one are indented. */
static void print_indented(FILE *to, const char *text)
{
    const char *gap = "";
    for (const char *at = text; *at; gap = "            ") {
        const size_t n = strcspn(at, "\n");
        fprintf(to, "%s%.*s\n", gap, (int)n, at);
        at += n + (at[n] == '\n');
    }
}

/* Print the details of the first failure, for a person who ports Yoke to a device. */
static void print_first_failure(FILE *to, const struct verify *v)
{
    const struct conform_line *f = &v->first;
    char command[512];
    conform_command(f, command, sizeof command);
    fprintf(to, "\nfirst difference, in the order in which a model uses the ops: %s %s%s%s on %s\n", f->op,
            yoke_dtype_name(f->dtype), f->variant[0] ? ", variant " : "", f->variant, f->device);
    if (f->case_number)
        fprintf(to, "  case      %d%s%s, seed %llu\n", f->case_number, f->worst_case[0] ? ": " : "",
                f->worst_case, (unsigned long long)f->seed);
    else if (f->worst_case[0])
        fprintf(to, "  case      %s, seed %llu\n", f->worst_case, (unsigned long long)f->seed);
    if (f->has_element)
        fprintf(
            to,
            "  element   %s[%lld,%lld,%lld] (matrix, row, column): got %.9g, wanted %.9g, bound %.3g, ratio %.4g\n",
            f->worst_output, (long long)f->worst_index[0], (long long)f->worst_index[1],
            (long long)f->worst_index[2], f->got, f->wanted, f->bound, f->ratio);
    fprintf(to, "  why       ");
    print_indented(to, f->reason);
    fprintf(to, "  repeat    %s\n", command);
}

static void print_summary(FILE *to, const struct verify *v)
{
    const struct conform_summary *s = &v->summary;
    if (v->first.op) print_first_failure(to, v);
    fprintf(to, "%d %s, %d failed, %d skipped, %d cases", s->n_pass, v->bits ? "hashed" : "passed", s->n_fail,
            s->n_skip, s->n_cases);
    if (s->n_left_out)
        fprintf(to, "; %d of a variant in one more type left out (--full runs them)", s->n_left_out);
    fputc('\n', to);
}

static struct verify request(const struct cli_context *context, struct printer *printer)
{
    const struct cli_options *o = context->options;
    struct verify v = { .spec = cli_text(o, "device"),
                        .options = CONFORM_OPTIONS_INIT,
                        .hang_s = cli_real(o, "hang-seconds"),
                        .callback = print_case,
                        .context = printer };
    v.options.op = cli_text(o, "op");
    v.options.dtype = cli_text(o, "dtype");
    v.options.variant = cli_text(o, "variant");
    v.options.seed = (uint64_t)cli_int(o, "seed");
    v.options.only_case = (int)cli_int(o, "case");
    v.options.full = cli_flag(o, "full");
    if (cli_text(o, "bits") || cli_text(o, "against")) v.bits = keep_bits;
    printer->bits.seed = v.options.seed ? v.options.seed : 1;
    return v;
}

/* The result of the sweep, as a status with its text. */
static yoke_status judge_sweep(const struct verify *v)
{
    const struct conform_summary *s = &v->summary;
    if (s->n_fail)
        return yoke_fail(YOKE_ENUMERIC, "%s: %d of %d lines fail; look at %s %s%s%s first", v->spec,
                         s->n_fail, s->n_fail + s->n_pass, v->first.op, yoke_dtype_name(v->first.dtype),
                         v->first.variant[0] ? ", variant " : "", v->first.variant);
    if (!s->n_pass)
        return yoke_fail(YOKE_EUNSUPPORTED, "%s: nothing was verified: %s", v->spec,
                         s->n_skip ? "all lines were skipped, each for the reason that it says"
                                   : "there is nothing of what was asked for on this device");
    return YOKE_OK;
}

static yoke_status report_sweep(const struct verify *v, struct printer *p, yoke_status status)
{
    char error[4096];
    yokei_text(error, sizeof error, "%s", status ? yoke_last_error() : "");
    if (!p->json) {
        if (!status || v->summary.n_pass + v->summary.n_fail) print_summary(p->to, v);
        return YOKE_OK;
    }
    json_t *root = verify_json(v, status, error, p->lines);
    p->lines = NULL;
    if (!root) return yoke_fail(YOKE_ENOMEM, "yoke verify: no memory for the report");
    const int failed = json_dumpf(root, p->to, JSON_INDENT(2));
    fputc('\n', p->to);
    json_decref(root);
    return failed ? yoke_fail(YOKE_EIO, "yoke verify: cannot write the report") : YOKE_OK;
}

/* Write the file of --bits, and compare with the file of --against. */
static yoke_status finish_bits(const struct cli_context *context, const struct verify *v, struct printer *p,
                               const struct bits *against)
{
    const char *path = cli_text(context->options, "bits"), *other = cli_text(context->options, "against");
    if (path) YOKE_TRY(bits_write(&p->bits, v, path));
    return other ? bits_compare(p->to, v, &p->bits, other, against) : YOKE_OK;
}

/* Read the file of --against, before a sweep that may take minutes. */
static yoke_status read_against(const struct cli_context *context, struct bits *against_out)
{
    const char *other = cli_text(context->options, "against");
    if ((other || cli_text(context->options, "bits")) && cli_flag(context->options, "json"))
        return yoke_fail(YOKE_EINVAL,
                         "yoke verify: --json is for comparisons with the reference; leave it out "
                         "with --bits and --against");
    return other ? bits_read(other, against_out) : YOKE_OK;
}

/* The table of --compare. */
static yoke_status compare_to(const struct cli_context *context, FILE *to)
{
    const struct cli_options *o = context->options;
    char paths[MOST_COMPARED + 1][1024];
    const char *list[MOST_COMPARED + 1];
    int n = cli_list_count(o, "compare");
    if (cli_text(o, "bits") || cli_text(o, "against") || cli_flag(o, "json"))
        return yoke_fail(YOKE_EINVAL,
                         "yoke verify: --compare only reads files; leave out --bits, --against and --json");
    if (n > MOST_COMPARED) n = MOST_COMPARED + 1; /* bits_table refuses this number */
    for (int i = 0; i < n; i++) list[i] = cli_list_item(o, "compare", i, paths[i], sizeof paths[i]);
    return bits_table(to, list, n);
}

static yoke_status verify_to(void *with, FILE *to)
{
    const struct cli_context *context = with;
    if (cli_text(context->options, "compare")) return compare_to(context, to);
    struct bits against = { .n = 0 };
    YOKE_TRY(read_against(context, &against));
    struct printer printer = { .to = to, .json = cli_flag(context->options, "json"), .lines = json_array() };
    struct verify v = request(context, &printer);
    printer.verify = &v;
    cli_progress_begin("verify %s", v.spec);
    yoke_status status = verify_sweep(&v);
    cli_progress_end();
    if (!status) status = judge_sweep(&v);
    char error[4096];
    yokei_text(error, sizeof error, "%s", status ? yoke_last_error() : "");
    yoke_status printed = report_sweep(&v, &printer, status);
    /* The hashes of the ops that did run are worth keeping, also if another op failed. */
    if (!printed && v.bits && printer.bits.n) printed = finish_bits(context, &v, &printer, &against);
    bits_free(&printer.bits);
    bits_free(&against);
    json_decref(printer.lines);
    return printed && !status ? printed : status ? yoke_fail(status, "%s", error) : YOKE_OK;
}

yoke_status cli_verify(const struct cli_context *context)
{
    return cli_write_results(cli_text(context->options, "output"), verify_to, (void *)context);
}

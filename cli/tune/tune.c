/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke tune: measure the variants of a device's operations, and write the tuning file that chooses them from
 * then on.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/libraries/libraries.h"
#include "cli/tune/tune.h"
#include "core/base/base.h"
#include "core/base/emulated.h"
#include "core/tune.h"

/* The state of one run of the verb. */
struct tuner {
    const struct cli_context *context;
    yoke_device *device;
    yoke_stream *stream;
    struct kernels_selection selection;
    char *lines[YOKE_N_OPS][YOKE_N_DTYPES]; /* lines of the new file; NULL: not measured */
    json_t *rows;
    int n_choices, n_refused, n_measured;
    double seconds; /* seconds for each size of an operation and type */
    int threads;
    struct tune_share share; /* how far the run is */
};

/*
 * Whether measuring can find a gain. On a host all variants except gemm's are instruction sets. The best one
 * of them is known, so a measurement would only find noise.
 */
static bool is_worthwhile(const struct tuner *t, enum yoke_op_id op)
{
    const bool host = !strcmp(yoke_device_info(t->device)->backend, "host");
    return !host || op == YOKE_OP_gemm || cli_is_set(t->context->options, "op");
}

static bool is_wanted(const struct tuner *t, enum yoke_op_id op, yoke_dtype dtype)
{
    return kernels_selected(&t->selection, op, dtype) && is_worthwhile(t, op)
           && yoke_variant_name(t->device, yokei_op_names[op], 1);
}

/* ---- what is shown ---- */

static void collect_entries(struct tuner *t, const struct tune_matrix *m)
{
    for (int s = 0; s < m->n_sizes; s++)
        for (int v = 0; v < m->n_variants && m->point[s].offered; v++) {
            const struct tune_row *row = &m->cell[s][v];
            char dims[128];
            conform_dims_text(m->op, m->sizes[s].dim, dims, sizeof dims);
            json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "op", yokei_op_names[m->op], "dtype",
                                  yoke_dtype_name(m->dtype), "size", m->sizes[s].name, "dims", dims,
                                  "variant", row->variant, "verdict", tune_verdict_name(row->verdict));
            if (row->seconds > 0) json_object_set_new(o, "seconds", json_real(row->seconds));
            if (row->ratio > 0) json_object_set_new(o, "times_default", json_real(row->ratio));
            if (row->algorithm[0]) json_object_set_new(o, "algorithm", json_string(row->algorithm));
            if (row->why[0]) json_object_set_new(o, "reason", json_string(row->why));
            json_array_append_new(t->rows, o);
        }
}

static void print_refused(struct tuner *t, const struct tune_matrix *m)
{
    for (int v = 0; v < m->n_variants; v++)
        for (int s = 0; s < m->n_sizes; s++) {
            if (m->cell[s][v].verdict != TUNE_REFUSED) continue;
            cli_warn("%s %s %s: refused, it fails conformance: %s", yokei_op_names[m->op],
                     yoke_dtype_name(m->dtype), m->variants[v], m->cell[s][v].why);
            t->n_refused++;
            break; /* count the variant once */
        }
}

static yoke_status tune_pair(struct tuner *t, enum yoke_op_id op, yoke_dtype dtype)
{
    static struct tune_matrix m;
    struct conform_size sizes[CONFORM_MAX_SIZES];
    const int n = kernels_sizes(t->context->options, op, "", "", sizes);
    size_t bytes;
    t->share.here = n;
    YOKE_TRY(tune_measure(t->device, t->stream, op, dtype, sizes, n, t->seconds, &t->share, &m));
    t->share.done += n;
    tune_choose(&m);
    FILE *to = open_memstream(&t->lines[op][dtype], &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "tune: no memory");
    t->n_choices += tune_write(&m, to);
    fclose(to);
    t->n_measured++;
    cli_progress_pause();
    collect_entries(t, &m);
    print_refused(t, &m);
    if (!cli_flag(t->context->options, "json")) {
        fputs(t->lines[op][dtype], stdout);
        fflush(stdout);
    }
    return YOKE_OK;
}

static yoke_status tune_all(struct tuner *t)
{
    int n_cells = 0, n_pairs = 0;
    struct conform_size sizes[CONFORM_MAX_SIZES];
    for (int op = 0; op < YOKE_N_OPS; op++)
        for (int d = 0; d < YOKE_N_DTYPES; d++)
            if (is_wanted(t, (enum yoke_op_id)op, (yoke_dtype)d)) {
                n_cells += kernels_sizes(t->context->options, (enum yoke_op_id)op, "", "", sizes);
                n_pairs++;
            }
    if (!n_cells)
        return yoke_fail(YOKE_EUNSUPPORTED, "%s: there is nothing to choose: %s",
                         yoke_device_info(t->device)->spec,
                         n_pairs ? "none of the operations with several variants has one of these sizes"
                                 : "each operation that was asked for has one variant");
    t->seconds = cli_real(t->context->options, "budget-seconds") / n_cells;
    t->share.all = n_cells;
    cli_progress_begin("tune %s", yoke_device_info(t->device)->spec);
    for (int op = 0; op < YOKE_N_OPS; op++)
        for (int d = 0; d < YOKE_N_DTYPES; d++)
            if (is_wanted(t, (enum yoke_op_id)op, (yoke_dtype)d))
                YOKE_TRY(tune_pair(t, (enum yoke_op_id)op, (yoke_dtype)d));
    return YOKE_OK;
}

/* ---- the file ---- */

/*
 * Which operation and type a line of a file is about. Comments that tune_write wrote count too. False: the
 * line is about none, or about all types.
 */
static bool line_belongs_to(const char *line, int *op_out, int *dtype_out)
{
    char op[64], dtype[16];
    yoke_dtype type;
    if (sscanf(line + (*line == '#'), "%63s %15s", op, dtype) != 2) return false;
    *op_out = yokei_op_named(op);
    if (*op_out < 0 || yoke_dtype_parse(dtype, &type)) return false;
    *dtype_out = (int)type;
    return true;
}

/* Keep the lines of the old file for operations and types that were not measured now. */
static void keep_lines(struct tuner *t, char *text, bool measured[YOKE_N_OPS][YOKE_N_DTYPES])
{
    for (char *end, *line = text; line && *line; line = end) {
        int op, dtype;
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        if (!line_belongs_to(line, &op, &dtype) || measured[op][dtype]) continue;
        char *before = t->lines[op][dtype], *longer = NULL;
        if (asprintf(&longer, "%s%s\n", before ? before : "", line) < 0) continue;
        free(before);
        t->lines[op][dtype] = longer;
    }
}

static void keep_older(struct tuner *t, const char *path)
{
    bool measured[YOKE_N_OPS][YOKE_N_DTYPES];
    struct yokei_tuning old = { .n = 0 };
    void *text = NULL, *copy = NULL;
    size_t bytes;
    for (int op = 0; op < YOKE_N_OPS; op++)
        for (int d = 0; d < YOKE_N_DTYPES; d++) measured[op][d] = t->lines[op][d] != NULL;
    if (!yokei_is_there(path) || yokei_file_read(path, 1 << 20, &text, &bytes)) return;
    if ((copy = strdup(text)) && !yokei_tuning_parse(t->device, &old, path, text, false))
        keep_lines(t, copy, measured);
    else
        cli_warn("%s is written anew: it was no tuning file for this device: %s", path, yoke_last_error());
    free(old.choices);
    free(text);
    free(copy);
}

static yoke_status compose(struct tuner *t, char **text_out)
{
    const struct cli_options *o = t->context->options;
    char head[2048], items[16][200];
    const char *matches[17] = { NULL };
    size_t bytes;
    for (int i = 0; i < cli_list_count(o, "match") && i < 16; i++)
        matches[i] = cli_list_item(o, "match", i, items[i], sizeof items[i]);
    YOKE_TRY(yokei_tuning_head(t->device, matches, head, sizeof head));
    FILE *to = open_memstream(text_out, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "tune: no memory");
    fputs(head, to);
    fprintf(
        to,
        "# measured on %s, %d thread(s); a time's factor is how many times as fast it is as the default\n",
        yoke_device_info(t->device)->name, t->threads);
    for (int op = 0; op < YOKE_N_OPS; op++)
        for (int d = 0; d < YOKE_N_DTYPES; d++)
            if (t->lines[op][d]) fputs(t->lines[op][d], to);
    return fclose(to) ? yoke_fail(YOKE_ENOMEM, "tune: no memory") : YOKE_OK;
}

static yoke_status write_file(const char *path, const char *text)
{
    char folder[1024];
    yokei_text(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash && slash != folder) {
        *slash = 0;
        YOKE_TRY(yokei_make_folder(folder));
    }
    return yokei_file_write(path, text, strlen(text));
}

static yoke_status finish_tuning(struct tuner *t, const char *path)
{
    const bool json = cli_flag(t->context->options, "json"), dry = cli_flag(t->context->options, "dry-run");
    char *text = NULL;
    keep_older(t, path);
    yoke_status status = compose(t, &text);
    if (!status && !dry) status = write_file(path, text);
    if (!status && json) {
        json_t *file = json_string(path); /* NULL if the path is not UTF-8 */
        json_t *root = json_pack("{s:i, s:s, s:s, s:o, s:b, s:i, s:i, s:O, s:s}", "schema", 1, "version",
                                 yoke_version(), "device", yoke_device_info(t->device)->spec, "file",
                                 file ? file : json_null(), "written", !dry, "choices", t->n_choices,
                                 "refused", t->n_refused, "rows", t->rows, "text", text);
        json_dumpf(root, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(root);
    } else if (!status) {
        printf("%d of %d measured pairs of op and type%s: %d choice(s), %d variant(s) refused\n",
               t->n_measured, t->n_measured, dry ? ", nothing written" : "", t->n_choices, t->n_refused);
        if (!dry) printf("%s\n", path);
    }
    free(text);
    return status;
}

static yoke_status tune_device(struct tuner *t)
{
    const struct cli_options *o = t->context->options;
    char path[1200], *unused = NULL;
    yoke_status status;
    yokei_tuning_user_file(t->device, path, sizeof path);
    if (cli_text(o, "output")) yokei_text(path, sizeof path, "%s", cli_text(o, "output"));
    if (!path[0])
        return yoke_fail(YOKE_ECONFIG,
                         "tune: neither $XDG_CONFIG_HOME nor $HOME is set: say where to write with -o FILE");
    YOKE_TRY(compose(t, &unused)); /* so that a wrong --match is refused before anything is measured */
    free(unused);
    YOKE_TRY(yoke_stream_create(t->device, &t->stream));
    status = tune_all(t);
    cli_progress_end();
    yoke_stream_destroy(t->stream);
    return status ? status : finish_tuning(t, path);
}

yoke_status cli_tune(const struct cli_context *context)
{
    struct tuner t = { .context = context };
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    struct yokei_topology topology;
    YOKE_TRY(yokei_topology(&topology));
    YOKE_TRY(kernels_select(context->options, &t.selection));
    YOKE_TRY(kernels_check_sizes(context->options, &t.selection));
    t.threads = cli_is_set(context->options, "threads") ? (int)cli_int(context->options, "threads")
                                                        : topology.n_cores;
    cli_with_threads(t.threads);
    config.tune_file = "off"; /* the variants are compared with the built-in rules */
    YOKE_TRY(yoke_device_open(cli_text(context->options, "device"), &config, &t.device));
    if (yokei_is_emulated(yoke_device_info(t.device)->features)) {
        const yoke_status status = yoke_fail(
            YOKE_EUNSUPPORTED,
            "%s is emulated, so the times of its variants say nothing about a GPU: tune on a machine with the GPU",
            yoke_device_info(t.device)->spec);
        yoke_device_close(t.device);
        return status;
    }
    t.rows = json_array();
    yoke_status status = tune_device(&t);
    for (int op = 0; op < YOKE_N_OPS; op++)
        for (int d = 0; d < YOKE_N_DTYPES; d++) free(t.lines[op][d]);
    json_decref(t.rows);
    yoke_device_close(t.device);
    return status;
}

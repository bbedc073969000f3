/* SPDX-License-Identifier: Apache-2.0 */
/* run.json, the commands that repeat a run, and where the run ran. */
#include "cli/report/record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/base.h"

/* ---- reading ---- */

void report_record_read(const char *folder, struct report_record *out)
{
    char path[4200];
    *out = (struct report_record){ NULL, "" };
    yokei_text(path, sizeof path, "%s/run.json", folder);
    yoke_status status = yokei_json_load(path, YOKE_EDATA, &out->root);
    if (!status && !json_is_array(json_object_get(out->root, "ranks"))) {
        json_decref(out->root);
        out->root = NULL;
        status = yoke_fail(YOKE_EDATA, "%s: it has no list of ranks, so it is no record of a run", path);
    }
    if (status) yokei_text(out->problem, sizeof out->problem, "%s", yoke_last_error());
}

void report_record_free(struct report_record *record)
{
    json_decref(record->root);
    record->root = NULL;
}

const char *report_record_text(const struct report_record *record, const char *object, const char *key)
{
    const json_t *from = object ? json_object_get(record->root, object) : record->root;
    return json_string_value(json_object_get(from, key));
}

static const json_t *rank_of(const struct report_record *record, int64_t rank)
{
    return json_array_get(json_object_get(record->root, "ranks"), (size_t)rank);
}

const char *report_record_of_rank(const struct report_record *record, int64_t rank, const char *key)
{
    return json_string_value(json_object_get(rank_of(record, rank), key));
}

int report_record_emulated(const struct report_record *record)
{
    const json_t *rank, *ranks = json_object_get(record->root, "ranks");
    size_t i;
    json_array_foreach(ranks, i, rank) if (json_is_true(json_object_get(rank, "emulated"))) return (int)i;
    return -1;
}

bool report_record_timeline(const struct report_record *record, const char *folder, char *out, size_t bytes)
{
    const char *named = report_record_text(record, "options", "trace");
    const char *name = named ? strrchr(named, '/') ? strrchr(named, '/') + 1 : named : "trace.json";
    yokei_text(out, bytes, "%s/%s", folder, name); /* the folder may have moved */
    if (yokei_is_there(out)) return true;
    if (named) yokei_text(out, bytes, "%s", named);
    return named != NULL;
}

/* ---- how to repeat it ---- */

/* A command that grows word by word. */
struct command {
    char *text;
    size_t bytes;
    FILE *to;
};

static void add_word(struct command *c, const char *word)
{
    if (ftell(c->to) > 0) fputc(' ', c->to);
    cli_put_word(word, c->to);
}

static bool begin(struct command *c)
{
    *c = (struct command){ NULL, 0, NULL };
    c->to = open_memstream(&c->text, &c->bytes);
    return c->to != NULL;
}

/* Show the command, and free it. */
static void show(struct report_page *page, struct command *c)
{
    if (!fclose(c->to)) report_command(page, c->text);
    free(c->text);
}

/* The devices in the order in which the job was started. */
static void add_devices(struct command *c, const struct yokei_plan *plan)
{
    const char **devices = calloc((size_t)plan->n_ranks, sizeof *devices);
    struct command list;
    if (!devices || !begin(&list)) {
        free(devices);
        return;
    }
    for (int64_t i = 0; i < plan->n_ranks; i++) {
        const int64_t job = plan->ranks[i].job_rank < 0 ? i : plan->ranks[i].job_rank;
        if (job < plan->n_ranks) devices[job] = plan->ranks[i].device;
    }
    for (int64_t i = 0; i < plan->n_ranks; i++)
        fprintf(list.to, "%s%s", i ? "," : "", devices[i] ? devices[i] : "host");
    if (!fclose(list.to)) add_word(c, list.text);
    free(list.text);
    free(devices);
}

/* "NAME=value ... yoke run -n 2 --devices host,host -- train", with the variables of Yoke's libraries. */
static void add_start(struct command *c, const struct yokei_plan *plan, const struct report_record *record)
{
    const char *name;
    json_t *value;
    char text[32];
    json_object_foreach(json_object_get(record->root, "environment"), name, value)
    {
        if (strncmp(name, "YOKE_", 5) != 0 || name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")]
            || !json_is_string(value))
            continue;
        fprintf(c->to, "%s%s=", ftell(c->to) > 0 ? " " : "", name);
        cli_put_word(json_string_value(value), c->to);
    }
    add_word(c, "yoke");
    add_word(c, "run");
    add_word(c, "-n");
    yokei_text(text, sizeof text, "%" PRId64, plan->n_ranks);
    add_word(c, text);
    add_word(c, "--devices");
    add_devices(c, plan);
    add_word(c, "--");
    add_word(c, "train");
}

/* With the plan: the same bits. */
static void put_with_plan(struct report_page *page, const struct report_run *r,
                          const struct report_record *record)
{
    struct command c;
    char path[4200];
    size_t i;
    const json_t *word;
    if (!begin(&c)) return;
    add_start(&c, &r->run->plan, record);
    if (!record->root) {
        add_word(&c, "--text");
        add_word(&c, "FILE");
    }
    json_array_foreach(json_object_get(record->root, "repeat"), i, word)
        add_word(&c, json_is_string(word) ? json_string_value(word) : "");
    yokei_text(path, sizeof path, "%s/plan.json", r->run->folder);
    add_word(&c, "--plan");
    add_word(&c, path);
    show(page, &c);
}

/* As the run was started, with everything measured and chosen anew. */
static void put_as_started(struct report_page *page, const struct report_run *r,
                           const struct report_record *record)
{
    struct command c;
    const char *name;
    char word[96];
    json_t *value;
    if (!begin(&c)) return;
    add_start(&c, &r->run->plan, record);
    json_object_foreach(json_object_get(record->root, "options"), name, value)
    {
        const struct cli_option *option = cli_option_find(CLI_TRAIN, name);
        bool on = true;
        if (!option || !strcmp(name, "run-dir") || !strcmp(name, "device") || !json_is_string(value))
            continue;
        if (option->type == CLI_FLAG && cli_boolean(json_string_value(value), &on) && !on) continue;
        yokei_text(word, sizeof word, "--%s", name);
        add_word(&c, word);
        if (option->type != CLI_FLAG) add_word(&c, json_string_value(value));
    }
    show(page, &c);
}

void report_start_section(struct report_page *page, const struct yokei_plan *plan, const char *path)
{
    const struct report_record none = { NULL, "" };
    const bool is_config = report_kind_of(path) == REPORT_CONFIG;
    struct command c;
    report_heading(page, is_config ? "The commands that start the run" : "The command that starts the run");
    if (is_config && begin(&c)) {
        static const char *const words[] = { "yoke", "plan", "--config" };
        for (size_t i = 0; i < YOKE_COUNT(words); i++) add_word(&c, words[i]);
        add_word(&c, path);
        add_word(&c, "-o");
        add_word(&c, "plan.json");
        show(page, &c);
    }
    if (!begin(&c)) return;
    add_start(&c, plan, &none);
    add_word(&c, "--text");
    add_word(&c, "FILE");
    add_word(&c, "--plan");
    add_word(&c, is_config ? "plan.json" : path);
    show(page, &c);
    if (strcmp(plan->data_hash, YOKEI_ANY_DATA) != 0)
        report_paragraph(page, "FILE is the text whose tokens have the hash %s.", plan->data_hash);
    else
        report_paragraph(page, "FILE is the text to train on. The plan goes with any text.");
}

void report_repeat_section(struct report_page *page, const struct report_run *r,
                           const struct report_record *record)
{
    if (!r->run->has_plan) return;
    report_heading(page, "The commands that repeat the run");
    put_with_plan(page, r, record);
    if (!record->root)
        report_paragraph(page,
                         "FILE is the text of the run; for a file of tokens, --tokens FILE stands instead.");
    report_paragraph(
        page,
        "The plan has everything that was measured and chosen, so on the same devices the losses have "
        "the same bits. The tokens have the hash %s, which yoke train checks.",
        r->run->plan.data_hash);
    if (!record->root) return;
    report_paragraph(page,
                     "As the run was started. What the user did not choose is measured and chosen anew:");
    put_as_started(page, r, record);
    if (report_record_text(record, "options", "resume"))
        report_paragraph(page,
                         "This start went on from a checkpoint. The first command repeats the whole run.");
}

/* ---- environment ---- */

static void put_fact(struct report_page *page, const char *name, const char *format, ...) YOKE_PRINTF(3, 4);
static void put_fact(struct report_page *page, const char *name, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) return;
    report_row_begin(page);
    report_cell(page, name);
    report_cell(page, text);
    report_row_end(page);
    free(text);
}

static void put_recorded(struct report_page *page, const struct report_record *record)
{
    static const struct {
        const char *name, *key;
    } facts[] = { { "yoke of the run", "version" },
                  { "its commit (+: with changes)", "commit" },
                  { "started", "started" },
                  { "started in", "folder" },
                  { "MPI", "mpi" } };
    static const struct {
        const char *name, *option;
    } paths[] = {
        { "text", "text" }, { "tokens", "tokens" }, { "tokenizer", "tokenizer" }, { "init", "init" }
    };
    for (size_t i = 0; i < YOKE_COUNT(facts) && record->root; i++) {
        const char *value = report_record_text(record, NULL, facts[i].key);
        put_fact(page, facts[i].name, "%s", value ? value : "unknown");
    }
    for (size_t i = 0; i < YOKE_COUNT(paths); i++)
        if (report_record_text(record, "options", paths[i].option))
            put_fact(page, paths[i].name, "%s", report_record_text(record, "options", paths[i].option));
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(record->root, "environment"), name, value)
        put_fact(page, name, "%s", json_is_string(value) ? json_string_value(value) : "");
}

static void put_settings(struct report_page *page, const struct report_run *r,
                         const struct report_record *record)
{
    static const char *const facts[] = { "key", "value" };
    const struct yokei_plan *p = &r->run->plan;
    report_table_begin(page, facts, 2);
    put_fact(page, record->root || r->run->metrics.n ? "run directory" : "path", "%s", r->run->folder);
    put_recorded(page, record);
    put_fact(page, "yoke that wrote this page", "%s", yoke_version());
    if (r->run->has_plan) {
        put_fact(page, "precision", "%s", p->precision);
        put_fact(page, "seed", "%" PRIu64, p->seed);
        put_fact(page, "batch and sequence", "%" PRId64 " sequences of %" PRId64 " tokens", p->batch,
                 p->sequence);
        put_fact(page, "layout", "dp %" PRId64 ", pp %" PRId64 ", tp %s%.0" PRId64 ", zero %" PRId64, p->data,
                 p->pipeline, p->stage_tensor, p->stage_tensor[0] ? 0 : p->tensor, p->zero);
        put_fact(page, "learning rate", "%.9g, at the end %.9g, warm-up %" PRId64 " steps", p->learning_rate,
                 p->min_learning_rate, p->warmup);
        if (p->left_out[0]) put_fact(page, "devices left out", "%s", p->left_out);
    }
    report_table_end(page);
}

/* "3", or "3-7" for neighbours that are alike. */
static void put_ranks(struct report_page *page, int64_t first, int64_t end)
{
    char text[64];
    if (end == first + 1)
        yokei_text(text, sizeof text, "%" PRId64, first);
    else
        yokei_text(text, sizeof text, "%" PRId64 "-%" PRId64, first, end - 1);
    report_cell(page, text);
}

static bool are_alike(const struct yokei_plan_rank *a, const struct yokei_plan_rank *b)
{
    return !strcmp(a->device, b->device) && a->threads == b->threads && a->samples == b->samples
           && a->micro_batch == b->micro_batch;
}

static void put_plan_ranks(struct report_page *page, const struct yokei_plan *p)
{
    static const char *const heads[] = { "rank", "device", "threads", "sequences", "micro-batch" };
    int n_rows = 0;
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int64_t i = 0, end; i < p->n_ranks && n_rows < REPORT_MOST_RANKS; i = end, n_rows++) {
        for (end = i + 1; end < p->n_ranks && are_alike(&p->ranks[i], &p->ranks[end]);) end++;
        report_row_begin(page);
        put_ranks(page, i, end);
        report_cell(page, p->ranks[i].device);
        report_number(page, p->ranks[i].threads > 0 ? (double)p->ranks[i].threads : NAN, "%.0f");
        report_number(page, (double)p->ranks[i].samples, "%.0f");
        report_number(page, (double)p->ranks[i].micro_batch, "%.0f");
        report_row_end(page);
    }
    report_table_end(page);
    if (n_rows == REPORT_MOST_RANKS && p->n_ranks > n_rows)
        report_paragraph(page, "The table ends after %d rows. plan.json has all %" PRId64 " ranks.", n_rows,
                         p->n_ranks);
}

/* The columns of the table of machines: V(key, head). */
/* clang-format off */
#define MACHINE_COLUMNS(V) \
    V("host", "host") \
    V("device", "device") \
    V("name", "name") \
    V("driver", "driver") \
    V("features", "instruction sets and features") \
    V("cpu", "CPU") \
    V("system", "system") \
    V("kernel", "kernel")
/* clang-format on */
#define KEY(key, head) key,
#define HEAD(key, head) head,
static const char *const machine_keys[] = { MACHINE_COLUMNS(KEY) };

static bool on_like_machines(const json_t *a, const json_t *b)
{
    static const char *const others[] = { "emulated", "cores", "hardware_threads" };
    bool same = true;
    for (size_t i = 0; i < YOKE_COUNT(machine_keys) && same; i++)
        same = json_equal(json_object_get(a, machine_keys[i]), json_object_get(b, machine_keys[i]));
    for (size_t i = 0; i < YOKE_COUNT(others) && same; i++)
        same = json_equal(json_object_get(a, others[i]), json_object_get(b, others[i]));
    return same;
}

static void put_machines(struct report_page *page, const struct report_record *record)
{
    static const char *const heads[] = { "rank of the job", "emulated", "cores", "hardware threads",
                                         MACHINE_COLUMNS(HEAD) };
    const int64_t n = (int64_t)json_array_size(json_object_get(record->root, "ranks"));
    int n_rows = 0;
    if (!n) return;
    report_paragraph(page, "Where the ranks ran, in the order in which the job was started:");
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int64_t i = 0, end; i < n && n_rows < REPORT_MOST_RANKS; i = end, n_rows++) {
        const json_t *rank = rank_of(record, i);
        for (end = i + 1; end < n && on_like_machines(rank, rank_of(record, end));) end++;
        report_row_begin(page);
        put_ranks(page, i, end);
        report_cell(page, json_is_true(json_object_get(rank, "emulated")) ? "yes" : "no");
        report_number(page, json_number_value(json_object_get(rank, "cores")), "%.0f");
        report_number(page, json_number_value(json_object_get(rank, "hardware_threads")), "%.0f");
        for (size_t k = 0; k < YOKE_COUNT(machine_keys); k++) {
            const char *text = json_string_value(json_object_get(rank, machine_keys[k]));
            report_cell(page, text ? text : "unknown");
        }
        report_row_end(page);
    }
    report_table_end(page);
    if (n_rows == REPORT_MOST_RANKS && n > n_rows)
        report_paragraph(page, "The table ends after %d rows. run.json has all %" PRId64 " ranks.", n_rows,
                         n);
}

void report_environment_section(struct report_page *page, const struct report_run *r,
                                const struct report_record *record)
{
    if (!r->run->has_plan && !record->root) return;
    report_heading(page, "Devices and settings");
    put_settings(page, r, record);
    put_machines(page, record);
    if (r->run->has_plan) put_plan_ranks(page, &r->run->plan);
}

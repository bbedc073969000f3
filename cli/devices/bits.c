/* SPDX-License-Identifier: Apache-2.0 */
/* The file of hashes that `yoke verify --bits` writes, and the comparison with another one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/devices/bits.h"
#include "core/base/base.h"

#define FIRST_LINE "# hashes of results by yoke verify --bits, version 1\n"

/* A new line at the end, or NULL if there is no memory for it. */
static struct bits_line *new_line(struct bits *bits)
{
    if (bits->n == bits->capacity) {
        const int capacity = bits->capacity ? 2 * bits->capacity : 1024;
        struct bits_line *lines = realloc(bits->lines, (size_t)capacity * sizeof *lines);
        if (!lines) return NULL;
        bits->lines = lines;
        bits->capacity = capacity;
    }
    bits->lines[bits->n] = (struct bits_line){ .case_number = 0 };
    return &bits->lines[bits->n++];
}

void bits_add(struct bits *bits, const struct conform_bits *from)
{
    struct bits_line *line = new_line(bits);
    if (!line) {
        bits->lacks_memory = true;
        return;
    }
    yokei_text(line->op, sizeof line->op, "%s", from->op);
    yokei_text(line->dtype, sizeof line->dtype, "%s", yoke_dtype_name(from->dtype));
    yokei_text(line->variant, sizeof line->variant, "%s", from->variant);
    yokei_text(line->words, sizeof line->words, "%s", from->words);
    line->case_number = from->case_number;
    line->inputs = from->inputs;
    line->results = from->results;
}

void bits_free(struct bits *bits)
{
    free(bits->lines);
    *bits = (struct bits){ .n = 0 };
}

/* ---- the file ---- */

/* A text of a driver, on one line. */
static void put_header(FILE *to, const char *key, const char *text)
{
    fprintf(to, "# %s ", key);
    for (const char *p = text; *p; p++) fputc((unsigned char)*p < ' ' ? ' ' : *p, to);
    fputc('\n', to);
}

static void put_all(FILE *to, const struct bits *bits, const struct verify *v)
{
    const struct yoke_device_info *info = &v->device.info;
    char text[400];
#ifdef __clang__
    const char *const compiler = "clang " __clang_version__;
#else
    const char *const compiler = "gcc " __VERSION__;
#endif
    fputs(FIRST_LINE, to);
    yokei_text(text, sizeof text, "%s, built by %s", yoke_version(), compiler);
    put_header(to, "yoke", text);
    yokei_text(text, sizeof text, "%s %s, %d compute units", info->spec, info->name, info->compute_units);
    put_header(to, "device", text);
    put_header(to, "driver", info->driver);
    put_header(to, "features", info->features);
    put_header(to, "cases", v->options.full ? "full" : "default");
    fprintf(to, "# seed %" PRIu64 "\n", bits->seed);
    put_header(to, "columns", "op type variant case inputs results words");
    for (int i = 0; i < bits->n; i++) {
        const struct bits_line *l = &bits->lines[i];
        fprintf(to, "%s %s %s %d %016" PRIx64 " %016" PRIx64 " %s\n", l->op, l->dtype,
                l->variant[0] ? l->variant : "-", l->case_number, l->inputs, l->results, l->words);
    }
}

yoke_status bits_write(const struct bits *bits, const struct verify *v, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    if (bits->lacks_memory) return yoke_fail(YOKE_ENOMEM, "yoke verify: no memory for the hashes");
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "yoke verify: no memory for the hashes");
    put_all(to, bits, v);
    const yoke_status status = fclose(to) ? yoke_fail(YOKE_ENOMEM, "yoke verify: no memory for the hashes")
                                          : yokei_file_write(path, text, bytes);
    free(text);
    return status;
}

/* Read one line, without its newline. False: it has another form. */
static bool parse_line(const char *text, struct bits *bits, struct bits_line *line)
{
    int end = 0;
    uint64_t seed;
    if (!strncmp(text, "# ", 2)) {
        if (sscanf(text, "# seed %" SCNu64 "%n", &seed, &end) == 1 && !text[end]) bits->seed = seed;
        if (!strncmp(text, "# device ", 9)) yokei_text(bits->device, sizeof bits->device, "%s", text + 9);
        return true;
    }
    if (sscanf(text, "%47s %7s %63s %d %16" SCNx64 " %16" SCNx64 " %n", line->op, line->dtype, line->variant,
               &line->case_number, &line->inputs, &line->results, &end)
            != 6
        || !end || line->case_number < 1)
        return false;
    if (!strcmp(line->variant, "-")) line->variant[0] = '\0';
    yokei_text(line->words, sizeof line->words, "%s", text + end);
    return true;
}

static yoke_status parse_bits(const char *path, char *text, struct bits *bits)
{
    int number = 0;
    if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)))
        return yoke_fail(YOKE_EDATA,
                         "%s: its first line is not \"%.*s\"; give a file that --bits has written", path,
                         (int)strlen(FIRST_LINE) - 1, FIRST_LINE);
    for (char *at = text, *next; *at; at = next) {
        struct bits_line line = { .case_number = 0 };
        next = at + strcspn(at, "\n");
        if (*next) *next++ = '\0';
        number++;
        if (!parse_line(at, bits, &line))
            return yoke_fail(YOKE_EDATA,
                             "%s:%d: '%.60s' is not a line of hashes (op, type, variant, case, two hashes, "
                             "words); write the file again with --bits",
                             path, number, at);
        if (!line.case_number) continue;
        struct bits_line *kept = new_line(bits);
        if (!kept) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its lines", path);
        *kept = line;
    }
    return bits->n ? YOKE_OK : yoke_fail(YOKE_EDATA, "%s: it has no case; write it again with --bits", path);
}

yoke_status bits_read(const char *path, struct bits *bits_out)
{
    void *text;
    size_t bytes;
    YOKE_TRY(yokei_file_read_as(path, YOKE_EDATA, (size_t)64 << 20, &text, &bytes));
    const yoke_status status = parse_bits(path, text, bits_out);
    free(text);
    if (status) bits_free(bits_out);
    return status;
}

/* ---- the comparison ---- */

int bits_by_key(const void *a, const void *b)
{
    const struct bits_line *x = a, *y = b;
    int order = strcmp(x->op, y->op);
    if (!order) order = strcmp(x->dtype, y->dtype);
    if (!order) order = strcmp(x->variant, y->variant);
    return order ? order : (x->case_number > y->case_number) - (x->case_number < y->case_number);
}

void bits_sort(struct bits *bits) { qsort(bits->lines, (size_t)bits->n, sizeof *bits->lines, bits_by_key); }

const struct bits_line *bits_find(const struct bits *sorted, const struct bits_line *key)
{
    return bsearch(key, sorted->lines, (size_t)sorted->n, sizeof *key, bits_by_key);
}

/* What the comparison has found. */
struct found {
    int n_equal, n_differ, n_inputs, n_only_here, n_only_there;
    const struct bits_line *first, *first_there; /* the first case that differs; NULL if none does */
    const struct bits_line *inputs;              /* the first case with other inputs */
};

static void print_first_difference(FILE *to, const struct verify *v, const char *path, const struct found *f)
{
    const struct bits_line *l = f->first;
    char command[512];
    struct conform_line line = { .op = l->op,
                                 .variant = l->variant,
                                 .device = v->spec,
                                 .seed = v->options.seed ? v->options.seed : 1,
                                 .case_number = l->case_number };
    yoke_dtype_parse(l->dtype, &line.dtype);
    conform_command(&line, command, sizeof command);
    fprintf(to, "\nfirst difference, in the order in which a model uses the ops: %s %s%s%s\n", l->op,
            l->dtype, l->variant[0] ? ", variant " : "", l->variant);
    fprintf(to, "  case      %d: %s, seed %" PRIu64 "\n", l->case_number, l->words, line.seed);
    fprintf(to, "  results   %016" PRIx64 " on %s, %016" PRIx64 " in %s\n", l->results, v->spec,
            f->first_there->results, path);
    fprintf(to, "  repeat    %s\n", command);
}

/* Print one line for the cases [begin, end) of one op, type and variant, if some of them differ. */
static void print_group(FILE *to, const struct bits *here, int begin, int end, int n_differ)
{
    const struct bits_line *l = &here->lines[begin];
    if (n_differ)
        fprintf(to, "%s %s%s%s: %d of %d cases differ\n", l->op, l->dtype, l->variant[0] ? " " : "",
                l->variant, n_differ, end - begin);
}

static void compare_lines(FILE *to, const struct bits *here, const struct bits *sorted, struct found *f)
{
    for (int i = 0, begin = 0, n_differ = 0; i < here->n; i++) {
        const struct bits_line *l = &here->lines[i], *next = l + 1;
        const struct bits_line *other = bits_find(sorted, l);
        if (!other) {
            f->n_only_here++;
        } else if (other->inputs != l->inputs || strcmp(other->words, l->words)) {
            if (!f->n_inputs++) f->inputs = l;
        } else if (other->results == l->results) {
            f->n_equal++;
        } else {
            if (!f->n_differ++) f->first = l, f->first_there = other;
            n_differ++;
        }
        if (i + 1 < here->n && !strcmp(next->op, l->op) && !strcmp(next->dtype, l->dtype)
            && !strcmp(next->variant, l->variant))
            continue;
        print_group(to, here, begin, i + 1, n_differ);
        begin = i + 1, n_differ = 0;
    }
    f->n_only_there = sorted->n - f->n_equal - f->n_differ - f->n_inputs;
}

static yoke_status judge_bits(const struct verify *v, const char *path, const struct found *f)
{
    if (f->n_differ)
        return yoke_fail(YOKE_ENUMERIC, "%s: %d of %d cases have other bits than in %s; look at %s %s first",
                         v->spec, f->n_differ, f->n_differ + f->n_equal, path, f->first->op, f->first->dtype);
    if (f->n_inputs)
        return yoke_fail(
            YOKE_EDATA,
            "%s: the inputs of %d cases differ from those here, first %s %s case %d (%s); another "
            "version of Yoke or of the C library made the file, so write it again with this one",
            path, f->n_inputs, f->inputs->op, f->inputs->dtype, f->inputs->case_number, f->inputs->words);
    if (!f->n_equal)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "%s: no case of an op, type and variant is also in %s, so nothing was compared",
                         v->spec, path);
    return YOKE_OK;
}

yoke_status bits_compare(FILE *to, const struct verify *v, const struct bits *here, const char *path,
                         const struct bits *there)
{
    struct bits sorted = *there;
    struct found f = { .n_equal = 0 };
    if (here->lacks_memory) return yoke_fail(YOKE_ENOMEM, "yoke verify: no memory for the hashes");
    if (here->seed != there->seed)
        return yoke_fail(YOKE_EDATA,
                         "%s: its seed is %" PRIu64 ", and not %" PRIu64 "; run with --seed %" PRIu64, path,
                         there->seed, here->seed, there->seed);
    sorted.lines = malloc((size_t)there->n * sizeof *there->lines);
    if (!sorted.lines) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its lines", path);
    memcpy(sorted.lines, there->lines, (size_t)there->n * sizeof *there->lines);
    bits_sort(&sorted);
    compare_lines(to, here, &sorted, &f);
    if (f.first) print_first_difference(to, v, path, &f);
    fprintf(to, "bits: %d cases equal, %d differ, %d have other inputs; %d only on %s, %d only in %s (%s)\n",
            f.n_equal, f.n_differ, f.n_inputs, f.n_only_here, v->spec, f.n_only_there, path, there->device);
    const yoke_status status = judge_bits(v, path, &f);
    free(sorted.lines);
    return status;
}

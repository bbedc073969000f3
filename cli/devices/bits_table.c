/* SPDX-License-Identifier: Apache-2.0 */
/* The table of yoke verify --compare: which operations have the same bits on several devices. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/devices/bits.h"
#include "core/base/base.h"

enum { MOST_FILES = 16, LISTED = 400 };

struct file {
    const char *path;
    struct bits bits; /* lines sorted by bits_by_key */
};

/* The lines of one operation, type and variant in all files. */
struct group {
    const struct bits_line *line; /* one of them */
    int n_files;                  /* files that have cases of it */
    int n_common;                 /* cases that at least two files have */
    int n_differ;                 /* of these, cases whose results are not the same in all these files */
    int only;                     /* one file that has it */
    int differs;                  /* the first file whose bits are not those of an earlier file; -1: none */
    const struct bits_line *first, *other; /* the first case that differs, in two files */
};

/* Why variants of these names are held to an error bound. A name of a variant begins with one of them. */
static const struct {
    const char *begin, *why;
} bounds[] = {
    { "cublaslt", "NVIDIA's library adds in an order of its own" },
    { "hipblaslt", "AMD's library adds in an order of its own" },
    { "rocblas", "AMD's library adds in an order of its own" },
    { "clblast", "CLBlast adds in an order of its own" },
    { "onednn", "oneDNN adds in an order of its own" },
    { "(chosen)", "each device chooses another variant" },
    { "generic", "the host has a text of its own for each instruction set" },
    { "avx", "the host has a text of its own for each instruction set" },
    { "amx", "the host has a text of its own for each instruction set" },
};

static const char *why_bound(const char *variant)
{
    for (size_t i = 0; i < YOKE_COUNT(bounds); i++)
        if (!strncmp(variant, bounds[i].begin, strlen(bounds[i].begin))) return bounds[i].why;
    return variant[0] ? "no other file has this variant" : "no other file has this operation";
}

static bool same_op(const struct bits_line *a, const struct bits_line *b)
{
    return !strcmp(a->op, b->op) && !strcmp(a->dtype, b->dtype);
}

static bool same_group(const struct bits_line *a, const struct bits_line *b)
{
    return same_op(a, b) && !strcmp(a->variant, b->variant);
}

/* ---- reading ---- */

static void free_files(struct file *files, int n)
{
    for (int i = 0; i < n; i++) bits_free(&files[i].bits);
}

yoke_status bits_check_inputs(const char *path_a, const struct bits *a, const char *path_b,
                              const struct bits *b)
{
    if (a->seed != b->seed)
        return yoke_fail(YOKE_EDATA,
                         "%s has seed %" PRIu64 ", and %s has seed %" PRIu64 "; write both with one --seed",
                         path_a, a->seed, path_b, b->seed);
    for (int i = 0; i < b->n; i++) {
        const struct bits_line *line = &b->lines[i], *other = bits_find(a, line);
        if (other && (other->inputs != line->inputs || strcmp(other->words, line->words)))
            return yoke_fail(
                YOKE_EDATA,
                "%s and %s have other inputs in %s %s case %d; another version of Yoke or of the "
                "C library made one of them, so write both with the same one",
                path_a, path_b, line->op, line->dtype, line->case_number);
    }
    return YOKE_OK;
}

static yoke_status read_files(const char *const *paths, int n, struct file *files)
{
    for (int i = 0; i < n; i++) {
        files[i].path = paths[i];
        YOKE_TRY(bits_read(paths[i], &files[i].bits));
        bits_sort(&files[i].bits);
        for (int j = 0; j < i; j++)
            YOKE_TRY(bits_check_inputs(paths[j], &files[j].bits, paths[i], &files[i].bits));
    }
    return YOKE_OK;
}

/* ---- comparing ---- */

/* All lines of all files, sorted: lines of one case lie side by side, those of the first file first. */
struct entry {
    const struct bits_line *line;
    int file;
};

static int by_case(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    const int order = bits_by_key(x->line, y->line);
    return order ? order : x->file - y->file;
}

/* One case in all files that have it: the entries [begin, end). */
static void compare_case(const struct entry *e, int begin, int end, struct group *g)
{
    if (end - begin < 2) return;
    g->n_common++;
    for (int i = begin + 1; i < end; i++) {
        if (e[i].line->results == e[begin].line->results) continue;
        g->n_differ++;
        if (g->first) return;
        g->first = e[begin].line, g->other = e[i].line;
        g->only = e[begin].file, g->differs = e[i].file;
        return;
    }
}

/* The group of the entries that begin at `begin`. Returns where the group ends. */
static int compare_group(const struct entry *e, int n, int begin, struct group *g)
{
    unsigned files = 0;
    int i = begin;
    *g = (struct group){ .line = e[begin].line, .only = e[begin].file, .differs = -1 };
    while (i < n && same_group(e[i].line, g->line)) {
        int end = i + 1;
        files |= 1u << e[i].file;
        while (end < n && !bits_by_key(e[i].line, e[end].line)) files |= 1u << e[end++].file;
        compare_case(e, i, end, g);
        i = end;
    }
    g->n_files = __builtin_popcount(files);
    return i;
}

/* ---- the table ---- */

static void append(char text[LISTED], const char *separator, const char *word)
{
    const size_t used = strlen(text);
    yokei_text(text + used, LISTED - used, "%s%s", used ? separator : "", word);
}

/* What all groups of one operation and type say together. */
struct row {
    int n_equal, n_differ; /* cases */
    char same[LISTED], differ[LISTED], bound[LISTED];
};

static void add_to_row(struct row *row, const struct group *g)
{
    char text[160];
    const char *name = g->line->variant[0] ? g->line->variant : "its only variant";
    if (g->n_differ) {
        yokei_text(text, sizeof text, "%s (file %d and file %d, %d of %d cases)", name, g->only + 1,
                   g->differs + 1, g->n_differ, g->n_common);
        append(row->differ, ", ", text);
    } else if (g->n_common) {
        append(row->same, ", ", name);
    } else {
        yokei_text(text, sizeof text, "%s (file %d alone: %s)", name, g->only + 1,
                   why_bound(g->line->variant));
        append(row->bound, ", ", text);
    }
    row->n_equal += g->n_common - g->n_differ;
    row->n_differ += g->n_differ;
}

static void print_row(FILE *to, const struct bits_line *line, const struct row *row)
{
    const char *verdict = row->n_differ ? "differs" : row->n_equal ? "same bits" : "bound";
    fprintf(to, "%-24s %-5s %-10s %6d", line->op, line->dtype, verdict, row->n_equal + row->n_differ);
    if (row->same[0]) fprintf(to, "  same: %s", row->same);
    if (row->differ[0]) fprintf(to, "  differs: %s", row->differ);
    if (row->bound[0]) fprintf(to, "  held to a bound: %s", row->bound);
    fputc('\n', to);
}

static void print_files(FILE *to, const struct file *files, int n)
{
    for (int i = 0; i < n; i++)
        fprintf(to, "file %d  %s: %s, %d cases\n", i + 1, files[i].path, files[i].bits.device,
                files[i].bits.n);
    fprintf(to, "\n%-24s %-5s %-10s %6s  variants\n", "operation", "type", "verdict", "cases");
}

/* The three lists at the end, in the order of verdicts. */
struct lists {
    char same[4 * LISTED], differ[4 * LISTED], bound[4 * LISTED];
    int n_equal, n_differ;
    const struct bits_line *first, *other;
    int first_file, other_file;
};

static void add_to_lists(struct lists *lists, const struct bits_line *line, const struct row *row)
{
    char *list = row->n_differ ? lists->differ : row->n_equal ? lists->same : lists->bound;
    const size_t used = strlen(list);
    yokei_text(list + used, sizeof lists->same - used, "%s%s %s", used ? ", " : "", line->op, line->dtype);
    lists->n_equal += row->n_equal;
    lists->n_differ += row->n_differ;
}

static void print_lists(FILE *to, const struct lists *lists, const struct file *files)
{
    if (lists->same[0]) fprintf(to, "\nthe same bits in all files that have the variant: %s\n", lists->same);
    if (lists->bound[0])
        fprintf(to, "\nheld to the error bounds of yoke verify, because no variant is in two files: %s\n",
                lists->bound);
    if (lists->differ[0]) fprintf(to, "\nother bits: %s\n", lists->differ);
    if (lists->first)
        fprintf(to,
                "first case that differs: %s %s %s case %d (%s): %016" PRIx64 " in %s, %016" PRIx64
                " in %s\n",
                lists->first->op, lists->first->dtype, lists->first->variant, lists->first->case_number,
                lists->first->words, lists->first->results, files[lists->first_file].path,
                lists->other->results, files[lists->other_file].path);
    fprintf(to, "bits: %d cases equal, %d differ\n", lists->n_equal, lists->n_differ);
}

static yoke_status judge(const struct lists *lists, const struct file *files)
{
    if (lists->n_differ)
        return yoke_fail(YOKE_ENUMERIC, "%d of %d cases have other bits, first %s %s in %s and %s",
                         lists->n_differ, lists->n_differ + lists->n_equal, lists->first->op,
                         lists->first->dtype, files[lists->first_file].path, files[lists->other_file].path);
    if (!lists->n_equal)
        return yoke_fail(YOKE_EUNSUPPORTED, "no two of these files have a case of an op, type and variant in "
                                            "common, so nothing was compared");
    return YOKE_OK;
}

static yoke_status print_table(FILE *to, const struct file *files, int n_files, const struct entry *e, int n)
{
    struct lists lists = { .n_equal = 0 };
    print_files(to, files, n_files);
    for (int begin = 0, end; begin < n; begin = end) {
        struct row row = { .n_equal = 0 };
        struct group group;
        for (end = begin; end < n && same_op(e[end].line, e[begin].line);) {
            end = compare_group(e, n, end, &group);
            add_to_row(&row, &group);
            if (group.first && !lists.first)
                lists.first = group.first, lists.other = group.other, lists.first_file = group.only,
                lists.other_file = group.differs;
        }
        print_row(to, e[begin].line, &row);
        add_to_lists(&lists, e[begin].line, &row);
    }
    print_lists(to, &lists, files);
    return judge(&lists, files);
}

static yoke_status compare_files(FILE *to, const struct file *files, int n_files)
{
    int n = 0;
    for (int i = 0; i < n_files; i++) n += files[i].bits.n;
    struct entry *entries = malloc((size_t)n * sizeof *entries);
    if (!entries) return yoke_fail(YOKE_ENOMEM, "yoke verify: no memory for %d cases", n);
    n = 0;
    for (int i = 0; i < n_files; i++)
        for (int j = 0; j < files[i].bits.n; j++) entries[n++] = (struct entry){ &files[i].bits.lines[j], i };
    qsort(entries, (size_t)n, sizeof *entries, by_case);
    const yoke_status status = print_table(to, files, n_files, entries, n);
    free(entries);
    return status;
}

yoke_status bits_table(FILE *to, const char *const *paths, int n)
{
    struct file files[MOST_FILES];
    memset(files, 0, sizeof files);
    if (n < 2 || n > MOST_FILES)
        return yoke_fail(YOKE_EINVAL, "yoke verify: --compare needs 2 to %d files of --bits, and got %d",
                         MOST_FILES, n);
    yoke_status status = read_files(paths, n, files);
    if (!status) status = compare_files(to, files, n);
    free_files(files, n);
    return status;
}

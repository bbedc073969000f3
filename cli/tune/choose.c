/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From measurements to lines of a tuning file. Shapes for which the device reports the same size and edge
 * form one class. A layer's forward and backward products are an example.
 *
 * Some operations sum over rows, and another variant gives other bits. The class of these operations does not
 * depend on the number of rows. The reason is that a rank's result for a batch must not depend on how the
 * batch is divided.
 */
#include <math.h>
#include <string.h>

#include "cli/tune/tune.h"
#include "core/base/base.h"
#include "core/tune.h"

const char *tune_verdict_name(enum tune_verdict verdict)
{
    static const char *const names[] = {
        [TUNE_DEFAULT] = "default", [TUNE_CHOSEN] = "chosen",   [TUNE_KEPT_OUT] = "not faster",
        [TUNE_SLOW] = "slow",       [TUNE_REFUSED] = "refused", [TUNE_ABSENT] = "not offered"
    };
    return names[verdict];
}

/* The size and the edge that distinguish a size's class from other classes. */
static double class_size(const struct tune_matrix *m, int s)
{
    return conform_sizes_of(m->op)->sums ? 0 : m->point[s].size;
}
static double class_edge(const struct tune_matrix *m, int s) { return m->point[s].edge; }
static bool same_class(const struct tune_matrix *m, int a, int b)
{
    return class_edge(m, a) == class_edge(m, b) && class_size(m, a) == class_size(m, b);
}

/*
 * The factor by which variant v is faster over the class of size s. 0: the variant was not measured at all
 * sizes of the class, was too slow at one of them, or the gain is not certain.
 */
static double gain(const struct tune_matrix *m, int s, int v)
{
    double product = 1, best = 1;
    int n = 0;
    for (int i = 0; i < m->n_sizes; i++) {
        if (!m->point[i].offered || !same_class(m, s, i)) continue;
        const struct tune_row *row = &m->cell[i][v];
        const double ratio = row->verdict == TUNE_DEFAULT || row->verdict == TUNE_KEPT_OUT
                                     || row->verdict == TUNE_CHOSEN
                                 ? row->ratio
                                 : 0;
        if (!(ratio >= TUNE_LOSS)) return 0;
        product *= ratio;
        best *= row->best;
        n++;
    }
    return n && pow(best, 1.0 / n) >= TUNE_BEST ? pow(product, 1.0 / n) : 0;
}

void tune_choose(struct tune_matrix *m)
{
    for (int s = 0; s < m->n_sizes; s++) {
        double best = TUNE_MARGIN;
        m->chosen[s] = YOKEI_BY_RULE;
        for (int v = 0; v < m->n_variants && m->point[s].offered; v++) {
            const double g = gain(m, s, v);
            if (g < best) continue;
            best = g;
            m->chosen[s] = v;
        }
    }
    for (int s = 0; s < m->n_sizes; s++)
        if (m->chosen[s] >= 0 && m->cell[s][m->chosen[s]].verdict == TUNE_KEPT_OUT)
            m->cell[s][m->chosen[s]].verdict = TUNE_CHOSEN;
}

/* ---- writing ---- */

/* One size of each class, in ascending order of edge, then of size. */
struct steps {
    int n, at[CONFORM_MAX_SIZES]; /* index of one size of each class */
};

static struct steps steps_of(const struct tune_matrix *m)
{
    struct steps steps = { 0 };
    for (int s = 0; s < m->n_sizes; s++) {
        int place = 0;
        bool known = !m->point[s].offered;
        for (int i = 0; i < steps.n; i++) known |= same_class(m, s, steps.at[i]);
        if (known) continue;
        while (place < steps.n
               && (class_edge(m, steps.at[place]) < class_edge(m, s)
                   || (class_edge(m, steps.at[place]) == class_edge(m, s)
                       && class_size(m, steps.at[place]) < class_size(m, s))))
            place++;
        memmove(&steps.at[place + 1], &steps.at[place], (size_t)(steps.n - place) * sizeof steps.at[0]);
        steps.at[place] = s;
        steps.n++;
    }
    return steps;
}

/* Between two measured classes the choice changes at the geometric mean. */
static double between(double below, double above) { return below > 0 ? sqrt(below * above) : above; }

static void comment(const struct tune_matrix *m, int s, FILE *to)
{
    char dims[128], time[32];
    conform_dims_text(m->op, m->sizes[s].dim, dims, sizeof dims);
    fprintf(to, "# %s %s %s, %s:", yokei_op_names[m->op], yoke_dtype_name(m->dtype), m->sizes[s].name, dims);
    const char *comma = "";
    for (int v = 0; v < m->n_variants; v++) {
        const struct tune_row *row = &m->cell[s][v];
        if (row->verdict == TUNE_ABSENT || (row->verdict == TUNE_SLOW && row->seconds == 0)) continue;
        kernels_time_text(row->seconds, time, sizeof time);
        if (row->verdict == TUNE_REFUSED)
            fprintf(to, "%s %s refused", comma, row->variant);
        else if (row->verdict == TUNE_DEFAULT)
            fprintf(to, "%s %s %s (default)", comma, row->variant, time);
        else if (row->verdict == TUNE_SLOW)
            fprintf(to, "%s %s %s", comma, row->variant, time);
        else
            fprintf(to, "%s %s %s %.2fx", comma, row->variant, time, row->ratio);
        comma = ",";
    }
    fputc('\n', to);
    for (int v = 0; v < m->n_variants; v++)
        if (m->cell[s][v].algorithm[0]) fprintf(to, "#   %s:%s\n", m->variants[v], m->cell[s][v].algorithm);
}

/*
 * The choice for the class of size s, as a line names it. If a library ran all sizes of the class by one
 * algorithm, the line names this algorithm, so that it stays the same with another version of the library.
 */
static void name_choice(const struct tune_matrix *m, int s, char *out, size_t bytes)
{
    const int v = m->chosen[s];
    const char *algorithm = v < 0 ? "" : m->cell[s][v].algorithm;
    for (int i = 0; i < m->n_sizes && v >= 0; i++)
        if (m->point[i].offered && same_class(m, s, i) && strcmp(algorithm, m->cell[i][v].algorithm) != 0)
            algorithm = "";
    yokei_text(out, bytes, "%s%s%s", v < 0 ? "default" : m->variants[v], *algorithm ? ":" : "", algorithm);
}

int tune_write(const struct tune_matrix *m, FILE *to)
{
    const struct steps steps = steps_of(m);
    char names[CONFORM_MAX_SIZES][64 + YOKEI_DETAIL_BYTES];
    const char *before = "default"; /* the choice just below the class, at the same edge */
    const char *first = "default";  /* the choice for the least size of the next lower edge */
    bool uniform = true;            /* one choice holds for all sizes of the next lower edge */
    int n = 0;
    for (int s = 0; s < m->n_sizes; s++)
        if (m->point[s].offered) comment(m, s, to);
    for (int i = 0; i < steps.n; i++) {
        const int s = steps.at[i], below = i ? steps.at[i - 1] : -1;
        const char *chosen = names[i];
        const bool new_edge = below >= 0 && class_edge(m, below) != class_edge(m, s);
        double edge = 0, size = 0;
        name_choice(m, s, names[i], sizeof names[i]);
        for (int j = i; j > 0 && edge == 0; j--) /* finds the next lower edge that was measured */
            if (class_edge(m, steps.at[j - 1]) != class_edge(m, s))
                edge = between(class_edge(m, steps.at[j - 1]), class_edge(m, s));
        if (below >= 0 && !new_edge) size = between(class_size(m, below), class_size(m, s));
        /*
         * A new edge begins at size 0. No line is needed if all sizes of the next lower edge have the same
         * choice.
         */
        const bool silent = new_edge ? uniform && !strcmp(first, chosen) : !strcmp(before, chosen);
        if (!silent) {
            char measure[64];
            if (edge > 0)
                yokei_text(measure, sizeof measure, "%.4g,%.4g", size, edge);
            else
                yokei_text(measure, sizeof measure, "%.4g", size);
            fprintf(to, "%s %s %s %s\n", yokei_op_names[m->op], yoke_dtype_name(m->dtype), measure, chosen);
            n++;
        }
        if (i == 0 || new_edge)
            first = chosen, uniform = true;
        else
            uniform &= !strcmp(chosen, first);
        before = chosen;
    }
    return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the goals of the collectives: bench/collectives [-r ROUNDS] [ROW...]. Without a ROW it measures
 * all rows. -l lists them.
 *
 * Each row runs yoke bench collectives in several rounds. If mpicc.openmpi is installed, the same calls of
 * Open MPI run in turn with it. Times are medians over the rounds, and ratios are medians of the rounds'
 * ratios. With more ranks than cores MPICH is measured in a run of its own, because its leftovers slow Yoke
 * down.
 *
 * All results are checked before they are timed. A wrong result is reported and leads to exit code 1. A
 * missed goal is reported and is not an error.
 */
#include "bench/collectives.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yoke/base.h>

#include "core/base/base.h"
#include "core/base/times.h"

enum { MOST_ROUNDS = 25, MOST_POINTS = 256, MOST_COLUMNS = 32, LONGEST = 1200 /* seconds for a command */ };
enum side { YOKE, MPICH, OPENMPI, LIMIT, BESIDE, N_SIDES };

struct point { /* one line of a row's table; times in microseconds, per round; NAN: there is none */
    int ranks;
    char collective[32], dtype[8];
    size_t bytes;
    bool wrong;
    double us[N_SIDES][MOST_ROUNDS], times_beside[MOST_ROUNDS];
};

static struct point points[MOST_POINTS];
static int n_points, n_rounds = 3, n_cores = 1;
static bool failed;
static char no_openmpi[200]; /* why Open MPI is not there, or "" */

/* ---- running commands and reading what they print ---- */

static struct point *point_of(int ranks, const char *collective, const char *dtype, size_t bytes)
{
    for (int i = 0; i < n_points; i++) {
        struct point *p = &points[i];
        if (p->ranks == ranks && p->bytes == bytes && !strcmp(p->collective, collective)
            && !strcmp(p->dtype, dtype))
            return p;
    }
    if (n_points == MOST_POINTS) return NULL;
    struct point *p = &points[n_points++];
    *p = (struct point){ .ranks = ranks, .bytes = bytes };
    yokei_text(p->collective, sizeof p->collective, "%s", collective);
    yokei_text(p->dtype, sizeof p->dtype, "%s", dtype);
    for (int r = 0; r < MOST_ROUNDS; r++) {
        p->times_beside[r] = NAN;
        for (int s = 0; s < N_SIDES; s++) p->us[s][r] = NAN;
    }
    return p;
}

static const char *field(char *const names[], char *const values[], int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (names[i] && values[i] && !strcmp(names[i], name)) return values[i];
    return "";
}

static double real(const char *text) { return *text ? atof(text) : NAN; }

static int split(char *line, char *fields[MOST_COLUMNS])
{
    int n = 0;
    line[strcspn(line, "\n")] = 0;
    for (char *rest = line; n < MOST_COLUMNS && (fields[n] = strsep(&rest, ",")); n++) continue;
    return n;
}

/* Take in a line of `side`'s run. MPICH's run is Yoke's run with the column of the rival. */
static void take(char *const names[], char *const values[], int n, enum side side, int ranks, int round)
{
    struct point *p = point_of(ranks, field(names, values, n, "collective"), field(names, values, n, "dtype"),
                               strtoull(field(names, values, n, "bytes"), NULL, 10));
    if (!p) return;
    if (strcmp(field(names, values, n, "wrong"), "0") != 0) p->wrong = failed = true;
    const double us = real(field(names, values, n, "us")),
                 share = real(field(names, values, n, "percent_of_limit"));
    const double mpi = real(field(names, values, n, "mpi_us"));
    if (side == OPENMPI) p->us[OPENMPI][round] = us;
    if (!isnan(mpi)) p->us[MPICH][round] = mpi;
    if (side != YOKE) return;
    p->us[YOKE][round] = us;
    p->us[LIMIT][round] = us * share / 100;
    p->us[BESIDE][round] = real(field(names, values, n, "beside_us"));
    p->times_beside[round] = real(field(names, values, n, "times_beside"));
}

static void run(const char *command, enum side side, int ranks, int round)
{
    char whole[2048], line[1024], header[1024] = "", *names[MOST_COLUMNS], *values[MOST_COLUMNS];
    int n_names = 0;
    yokei_text(whole, sizeof whole, "exec 2>bench/collectives.err; timeout -k 5 %d env %s", LONGEST, command);
    FILE *out = popen(whole, "r");
    while (out && fgets(line, sizeof line, out)) {
        if (!*header) {
            memcpy(header, line, sizeof header);
            n_names = split(header, names);
        } else {
            take(names, values, YOKE_MIN(split(line, values), n_names), side, ranks, round);
        }
    }
    const int code = out ? pclose(out) : -1;
    if (code) {
        failed = true;
        printf("\n`%s` ended with code %d:\n\n", command, WIFEXITED(code) ? WEXITSTATUS(code) : code);
        fflush(stdout);
        if (system("sed 's/^/    /' bench/collectives.err")) printf("    (no text)\n");
    }
    remove("bench/collectives.err");
}

static const char *seconds_of(const struct row *row) { return row->seconds ? row->seconds : "0.5"; }

static void yoke_command(const struct row *row, int ranks, const char *rivals, char *out, size_t bytes)
{
    yokei_text(
        out, bytes,
        "%s%s./yoke run -n %d%s%s -- bench collectives --collectives %s --dtype %s --min-bytes %s --max-bytes %s --factor %d"
        " --budget-seconds %s %s%s --format csv",
        row->environment ? row->environment : "", row->environment ? " " : "", ranks, row->launch ? " " : "",
        row->launch ? row->launch : "", row->collectives, row->dtypes, row->least, row->most, row->factor,
        seconds_of(row), row->options, rivals);
}

static size_t bytes_of(const char *text)
{
    char *end;
    const size_t n = strtoull(text, &end, 10);
    return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : n;
}

static void openmpi_command(const struct row *row, int ranks, char *out, size_t bytes)
{
    yokei_text(out, bytes,
               "mpiexec.openmpi --oversubscribe%s%s%s -n %d bench/openmpi_collectives %s %s %zu %zu %d 25 %s",
               ranks > n_cores ? " --mca mpi_yield_when_idle 1" : "", *row->openmpi ? " " : "", row->openmpi,
               ranks, row->collectives, row->dtypes, bytes_of(row->least), bytes_of(row->most), row->factor,
               seconds_of(row));
}

static bool asks(const struct row *row, enum quantity quantity)
{
    for (const struct goal *g = row->goals; g < row->goals + MOST_GOALS && g->quantity; g++)
        if (g->quantity == quantity) return true;
    return false;
}

static void measure(const struct row *row)
{
    const bool openmpi = row->openmpi && !*no_openmpi;
    n_points = 0;
    for (const int *ranks = row->ranks; *ranks; ranks++) {
        char ours[1024], alone[1024] = "", theirs[1024] = "";
        const bool apart = *ranks > n_cores && asks(row, TIMES_MPICH);
        yoke_command(row, *ranks, apart ? " --rivals off" : "", ours, sizeof ours);
        if (apart) yoke_command(row, *ranks, "", alone, sizeof alone);
        if (openmpi) openmpi_command(row, *ranks, theirs, sizeof theirs);
        printf("    %s\n", ours);
        if (*theirs) printf("    %s\n", theirs);
        if (*alone) printf("    %s     # MPICH's column\n", alone);
        fflush(stdout);
        for (int round = 0; round < n_rounds; round++) {
            run(ours, YOKE, *ranks, round);
            if (*theirs) run(theirs, OPENMPI, *ranks, round);
            if (*alone) run(alone, MPICH, *ranks, round);
        }
    }
}

/* ---- results ---- */

/* The median over the rounds that have a value. */
static double median(const double *values)
{
    double sorted[MOST_ROUNDS];
    int n = 0;
    for (int r = 0; r < n_rounds; r++)
        if (!isnan(values[r])) sorted[n++] = values[r];
    return n ? yokei_median(sorted, n) : NAN;
}

static double reached(const struct point *p, enum quantity quantity)
{
    double values[MOST_ROUNDS];
    for (int r = 0; r < n_rounds; r++) {
        const double us = p->us[YOKE][r];
        switch (quantity) {
        case TIMES_MPICH: values[r] = p->us[MPICH][r] / us; break;
        case TIMES_OPENMPI: values[r] = p->us[OPENMPI][r] / us; break;
        case TIMES_BESIDE: values[r] = p->times_beside[r]; break;
        case SHARE_OF_LIMIT: values[r] = p->us[LIMIT][r] / us; break;
        case SHARE_OF_SLOWER: values[r] = fmax(p->us[LIMIT][r], p->us[BESIDE][r]) / us; break;
        case AT_MOST_US: values[r] = us; break;
        case US_OVER_OPENMPI: values[r] = us - p->us[OPENMPI][r]; break;
        case US_OVER_BESIDE: values[r] = us - p->us[BESIDE][r]; break;
        }
    }
    return median(values);
}

static const struct {
    const char *what;
    bool at_most;
} quantities[] = {
    [TIMES_MPICH] = { "x MPICH", false },
    [TIMES_OPENMPI] = { "x Open MPI", false },
    [TIMES_BESIDE] = { "x beside", false },
    [SHARE_OF_LIMIT] = { " of the limit", false },
    [SHARE_OF_SLOWER] = { " of the slower", false },
    [AT_MOST_US] = { " us", true },
    [US_OVER_OPENMPI] = { " us over Open MPI", true },
    [US_OVER_BESIDE] = { " us over beside", true },
};

/* Print "1.42x MPICH (goal 1.3)", and "MISSED" if the goal was missed. */
static void print_goals(const struct row *row, const struct point *p, int *n_met, int *n_all)
{
    const char *comma = "";
    for (const struct goal *g = row->goals; g < row->goals + MOST_GOALS && g->quantity; g++) {
        if ((g->ranks && g->ranks != p->ranks) || p->bytes < g->from || (g->to && p->bytes > g->to)) continue;
        const double value = reached(p, g->quantity);
        if (isnan(value)) continue; /* the rival is not there, or does not offer this call */
        const bool at_most = quantities[g->quantity].at_most,
                   met = at_most ? value <= g->value : value >= g->value;
        printf("%s%.*f%s (goal %s%.3g%s)", comma,
               fabs(value) < 1    ? 3
               : fabs(value) < 10 ? 2
                                  : 0,
               value, quantities[g->quantity].what, at_most ? "<= " : "", g->value, met ? "" : ": MISSED");
        comma = ", ";
        *n_met += met;
        ++*n_all;
    }
    if (!*comma) printf("-");
}

static void cell(double us)
{
    if (isnan(us))
        printf(" - |");
    else
        printf(" %.*f |", us < 10 ? 2 : us < 1000 ? 1 : 0, us);
}

static void print(const struct row *row)
{
    int n_met = 0, n_all = 0;
    puts(
        "\n| ranks | collective | type | bytes | Yoke us | MPICH us | Open MPI us | limit us | beside us | reached |\n"
        "|---:|---|---|---:|---:|---:|---:|---:|---:|---|");
    for (int i = 0; i < n_points; i++) {
        const struct point *p = &points[i];
        printf("| %d | %s | %s | %zu |", p->ranks, p->collective, p->dtype, p->bytes);
        if (p->wrong) {
            puts(" WRONG | - | - | - | - | the result is wrong: no speed |");
            continue;
        }
        for (int s = 0; s < N_SIDES; s++) cell(median(p->us[s]));
        putchar(' ');
        print_goals(row, p, &n_met, &n_all);
        puts(" |");
    }
    printf("\n%s: %d of %d goals met%s\n\n", row->name, n_met, n_all,
           n_points ? "" : "; nothing was measured");
    if (!n_points) failed = true;
    fflush(stdout);
}

/* ---- the other MPI ---- */

static void build_openmpi(void)
{
    if (system("command -v mpicc.openmpi mpiexec.openmpi >/dev/null")) {
        yokei_text(
            no_openmpi, sizeof no_openmpi,
            "no column of Open MPI: mpicc.openmpi or mpiexec.openmpi is not installed (libopenmpi-dev, openmpi-bin)");
        return;
    }
    if (system("mpicc.openmpi -std=c11 -O2 -D_GNU_SOURCE -I" SOURCES "/include -I" SOURCES
               " -o bench/openmpi_collectives " SOURCES "/bench/openmpi_collectives.c " SOURCES
               "/cli/bench/collectives_data.c " SOURCES
               "/cli/bench/collectives_mpi.c .libs/libyoke.so -Wl,-rpath," BUILD "/.libs -lm 1>&2"))
        yokei_text(no_openmpi, sizeof no_openmpi,
                   "no column of Open MPI: bench/openmpi_collectives.c does not compile here");
    /* Without these variables Open MPI refuses to start ranks for root. */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

static void introduce(void)
{
    struct yokei_topology machine;
    double load[1] = { 0 };
    if (yokei_topology(&machine)) return;
    n_cores = machine.n_cores;
    getloadavg(load, 1);
    printf(
        "%s, %d cores, %.0f MiB of last-level cache; yoke %s; load before the start %.1f; medians of %d round%s; times in microseconds, "
        "of the slowest rank\n",
        machine.cpu, machine.n_cores, (double)machine.l3_bytes / (1 << 20), yoke_version(), load[0], n_rounds,
        n_rounds == 1 ? "" : "s");
    if (*no_openmpi) printf("%s\n", no_openmpi);
    fflush(stdout);
    if (!*no_openmpi && system("mpiexec.openmpi --version | head -n 1"))
        printf("Open MPI of unknown version\n");
    putchar('\n');
    fflush(stdout);
}

static bool is_wanted(const char *name, int n, char **names)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return true;
    return n == 0;
}

int main(int argc, char **argv)
{
    int option, n_run = 0;
    while ((option = getopt(argc, argv, "lr:")) != -1) {
        if (option == 'l')
            for (const struct row *row = rows; row->name; row++) printf("%-16s %s\n", row->name, row->title);
        if (option == 'l') return 0;
        n_rounds = option == 'r' ? atoi(optarg) : 0;
        if (n_rounds >= 1 && n_rounds <= MOST_ROUNDS) continue;
        fprintf(stderr,
                "usage: bench/collectives [-l] [-r ROUNDS] [ROW...]     1 to %d rounds; -l lists the rows\n",
                MOST_ROUNDS);
        return 2;
    }
    if (chdir(BUILD)) {
        perror(BUILD);
        return 1;
    }
    for (int i = optind; i < argc; i++) {
        bool known = false;
        for (const struct row *row = rows; row->name; row++) known |= !strcmp(row->name, argv[i]);
        if (known) continue;
        fprintf(stderr, "bench/collectives: there is no row %s; -l lists them\n", argv[i]);
        return 2;
    }
    build_openmpi();
    introduce();
    for (const struct row *row = rows; row->name; row++) {
        if (!is_wanted(row->name, argc - optind, argv + optind)) continue;
        printf("## %s: %s\n\n", row->name, row->title);
        n_run++;
        const char *why = row->neighbour ? bench_neighbour_begin() : NULL;
        if (why) {
            printf("Not measured: %s\n\n", why);
            continue;
        }
        measure(row);
        bench_neighbour_end();
        print(row);
    }
    return failed || !n_run;
}

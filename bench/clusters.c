/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All_reduce of f32 on modelled clusters of GPUs, flat, by hosts and by islands: the tables of
 * docs/CLUSTERS.md. No data moves, so the result is the same on every machine (bench/results/clusters.txt).
 *
 *   bench/clusters
 *
 * For each size: the time by the formulas (collectives/replay/formulas.c), and, for at most 64 ranks, by a
 * replay of the algorithms' own steps (collectives/replay/replay.c). The program fails if they differ by
 * more than a tenth.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collectives/replay/replay.h"

enum { MOST_ISLANDS = 64, MOST_REPLAYED = 64 };

struct cluster {
    const char *name;
    int islands, ranks_per_island, ranks_per_host, bridges;
    double inner_gbps[2]; /* of even and of odd islands */
};

static const struct cluster clusters[] = {
    { "2 nodes of 8 GPUs, 400 GB/s inside one and 300 inside the other, 4 x 50 GB/s between",
      2,
      8,
      8,
      4,
      { 400, 300 } },
    { "16 ranks in 4 islands of 4, 400 GB/s inside, 4 x 50 GB/s between", 4, 4, 4, 4, { 400, 400 } },
    { "64 ranks in 8 islands of 8, 400 GB/s inside, 4 x 50 GB/s between", 8, 8, 8, 4, { 400, 400 } },
    { "64 ranks in 4 islands of 16, hosts of 8, 400 GB/s inside, 4 x 50 GB/s between",
      4,
      16,
      8,
      4,
      { 400, 400 } },
    { "1,024 ranks in 64 islands of 16, hosts of 8, 400 GB/s inside, 4 x 50 GB/s between",
      64,
      16,
      8,
      4,
      { 400, 400 } },
};

static const struct {
    const char *text;
    size_t bytes;
} sizes[] = { { "4 KiB", 4 << 10 },        { "64 KiB", 64 << 10 }, { "1 MiB", 1 << 20 },
              { "16 MiB", 16 << 20 },      { "64 MiB", 64 << 20 }, { "256 MiB", 256 << 20 },
              { "1 GiB", (size_t)1 << 30 } };

static int fail(void) { return fprintf(stderr, "clusters: %s\n", yoke_last_error()), 1; }

/* One column of the table: the predicted time, and the replayed one behind it. */
static int column(const struct yokei_links *links, int group, size_t bytes, double *worst)
{
    struct yokei_replayed replayed;
    double seconds;
    const size_t n = bytes / sizeof(float);
    if (yokei_modelled_time(links, group, n, &seconds)) return fail();
    printf("  %10.1f", seconds * 1e6);
    if (links->n_islands * links->ranks_per_island > MOST_REPLAYED) return 0;
    if (yokei_replay(links, group, n, NULL, &replayed)) return fail();
    printf(" %10.1f %5.2f", replayed.seconds * 1e6, (double)replayed.bridge_bytes / (double)bytes);
    *worst = fmax(*worst, fabs(seconds / replayed.seconds - 1));
    return 0;
}

static int table(const struct cluster *c, double *worst)
{
    double inner[MOST_ISLANDS];
    for (int i = 0; i < c->islands; i++) inner[i] = c->inner_gbps[i % 2];
    const struct yokei_links links = { c->islands, c->ranks_per_island, inner, 2, c->bridges, 50, 5 };
    const char *const names[] = { "flat", "by hosts", "by islands" };
    const int groups[] = { 1, c->ranks_per_host, c->ranks_per_island };
    const bool replayed = c->islands * c->ranks_per_island <= MOST_REPLAYED;
    printf("\n%s\n%8s", c->name, "");
    for (int g = 0; g < 3; g++)
        if (g != 1 || groups[1] != groups[2]) printf("  %*s", replayed ? 27 : 10, names[g]);
    puts("");
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        printf("%8s", sizes[s].text);
        for (int g = 0; g < 3; g++)
            if ((g != 1 || groups[1] != groups[2]) && column(&links, groups[g], sizes[s].bytes, worst))
                return 1;
        puts("");
    }
    return 0;
}

int main(void)
{
    double worst = 0;
    puts(
        "all_reduce of f32, in microseconds by the formulas; up to 64 ranks also by the replay, with the bytes that one\n"
        "island sends to others as a multiple of the data. A message takes 2 us inside an island and 5 us between islands.");
    for (size_t c = 0; c < sizeof clusters / sizeof *clusters; c++)
        if (table(&clusters[c], &worst)) return 1;
    printf("\nlargest difference between formula and replay: %.1f %%\n", 100 * worst);
    if (worst > 0.1)
        return fprintf(stderr, "clusters: the formulas differ from the replay by over 10 %%\n"), 1;
    return 0;
}

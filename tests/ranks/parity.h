/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares lists of layouts with one host rank, as yoke parity does. parity.c, mesh.c, models.c and planted.c
 * share this header.
 */
#ifndef TESTS_RANKS_PARITY_H
#define TESTS_RANKS_PARITY_H

#include "tests/ranks/ranks.h"

#include <math.h>
#include "train/parity/parity.h"

enum { N_BLOCKS = 4, BATCH = 8, T = 32, SEED = 11 };

/* The model that is trained: a GPT-2 with four blocks, unless the test defines another one. */
#ifndef PARITY_MODEL
#define PARITY_MODEL parity_gpt2
static inline yoke_status parity_gpt2(struct yokei_model_config *out)
{
    YOKE_TRY(yokei_model_named("nano", out));
    out->gpt2.n_layer = N_BLOCKS;
    return YOKE_OK;
}
#endif

struct tried {
    struct yokei_parity_list list;
    struct yokei_parity_result *results;
    int n;
};

/* The steps of tests that tell with 3 steps what they tell with `many`. `make soak` runs them all. */
static inline int64_t soak_steps(int64_t many) { return getenv("YOKE_SOAK") ? many : 3; }

/*
 * A list of layouts in which steps=NN is steps=20 in `make soak`, and 3 steps elsewhere. A line that begins
 * with the word soak runs in `make soak` only.
 */
static inline const char *soak_layouts(const char *text)
{
    static char list[16384];
    const bool soak = getenv("YOKE_SOAK") != NULL;
    char *to = list;
    for (const char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        next += *next == '\n';
        const bool soaks = !strncmp(line, "soak ", 5);
        if (soaks && !soak) continue;
        if (soaks) line += 5;
        to += snprintf(to, sizeof list - (size_t)(to - list), "%.*s", (int)(next - line), line);
    }
    for (char *at = list; (at = strstr(at, "steps=NN"));) memcpy(strstr(at, "NN"), soak ? "20" : "3 ", 2);
    return list;
}

/*
 * Run all layouts of a list. A line without a precision runs in f32, and a line without a number of steps
 * runs `steps` steps.
 */
static inline yoke_status try_layouts(const char *text, const char *device, int64_t steps, double loss_scale,
                                      struct tried *out)
{
    struct yokei_parity_config c = { .batch = BATCH,
                                     .sequence = T,
                                     .steps = steps,
                                     .seed = SEED,
                                     .loss_scale = loss_scale,
                                     .precisions = { [YOKE_F32] = true } };
    struct yoke_comm_config control = YOKE_COMM_CONFIG_INIT;
    memset(out, 0, sizeof *out);
    control.name = "control";
    YOKE_TRY(PARITY_MODEL(&c.model));
    YOKE_TRY(yokei_parity_parse(text, "layouts", &out->list));
    YOKE_TRY(yoke_device_open(device, NULL, &c.device));
    YOKE_TRY(yoke_comm_create(ranks_world, c.device, NULL, &c.comm));
    YOKE_TRY(yoke_comm_create(ranks_world, NULL, &control, &c.control));
    YOKE_TRY(yokei_parity_run(&c, &out->list, &out->results, &out->n));
    YOKE_TRY(yoke_comm_destroy(c.control));
    YOKE_TRY(yoke_comm_destroy(c.comm));
    return yoke_device_close(c.device);
}

static inline void free_tried(struct tried *t)
{
    free(t->results);
    yokei_parity_list_free(&t->list);
}

/* Print a line of TAP for each run. No run may be skipped. Returns the number of layouts. */
static inline int check_layouts(const char *text, const char *device, int64_t steps)
{
    struct tried t;
    double gradients = 0, losses = 0;
    if (!ranks_check(!try_layouts(text, device, steps, 0, &t), "the layouts are tried")) return 0;
    for (int i = 0; i < t.n; i++) {
        const struct yokei_parity_result *r = &t.results[i];
        char why[512] = "";
        const bool good = r->state == YOKEI_PARITY_RAN
                          && yokei_parity_passed(r, t.results, &t.list, why, sizeof why);
        ranks_check(good, "%s, %s%s", t.list.item[r->layout].text, yoke_dtype_name(r->precision),
                    r->like < 0 ? "" : ", and the bits of another schedule");
        if (!good && ranks_rank == 0) printf("# %s\n", r->state == YOKEI_PARITY_RAN ? why : r->why);
        gradients = fmax(gradients, fmax(r->gradient.ratio, r->against_f32.ratio));
        losses = fmax(losses, r->loss.ratio);
    }
    if (ranks_rank == 0)
        printf("# %d layouts, %d runs; worst of their gates: gradients %.3f, losses %.3f\n", t.list.n, t.n,
               gradients, losses);
    const int n = t.list.n;
    free_tried(&t);
    return n;
}

#endif

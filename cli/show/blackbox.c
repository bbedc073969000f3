/* SPDX-License-Identifier: Apache-2.0 */
/* yoke blackbox: read the black box of a run, and choose the steps to print. */
#include "cli/cli.h"
#include "cli/show/blackbox.h"
#include "core/base/base.h"

/*
 * The step to show layer by layer. Without --step it is the last step with a spike, with a loss that is not
 * finite, or whose passes were repeated after an overflow. If there is none, it is the last sampled step.
 */
static yoke_status choose(const struct cli_options *o, const struct yokei_boxes *b, int64_t *chosen_out)
{
    const bool is_given = cli_is_set(o, "step");
    int64_t odd = -1, sampled = -1, given = -1;
    for (int64_t i = 0; i < b->n_steps; i++) {
        struct yokei_boxes_total t;
        yokei_boxes_step(b, i, &t, NULL);
        if (t.flags & (YOKEI_BOX_LOSS_SPIKE | YOKEI_BOX_NORM_SPIKE | YOKEI_BOX_BAD_LOSS | YOKEI_BOX_TRACED))
            odd = i;
        if (t.flags & YOKEI_BOX_SAMPLED) sampled = i;
        if (is_given && t.step == cli_int(o, "step")) given = i;
    }
    *chosen_out = is_given ? given : odd >= 0 ? odd : sampled;
    if (!is_given || given >= 0) return YOKE_OK;
    return yoke_fail(YOKE_EDATA, "%s: there is no record of step %lld", b->folder,
                     (long long)cli_int(o, "step"));
}

struct printed {
    struct cli_blackbox box;
    bool is_json;
};

static yoke_status print(void *context, FILE *to)
{
    const struct printed *p = context;
    if (p->is_json) return cli_blackbox_json(&p->box, to);
    cli_blackbox_text(&p->box, to);
    return YOKE_OK;
}

yoke_status cli_blackbox(const struct cli_context *context)
{
    const struct cli_options *o = context->options;
    struct yokei_boxes *boxes = NULL;
    if (context->n_words != 1)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke blackbox: which run? Give its folder: yoke blackbox runs/train-20240131-120000");
    YOKE_TRY(cli_check_output(cli_text(o, "output"), (const char *const *)context->words, 1));
    YOKE_TRY(yokei_boxes_read(context->words[0], &boxes));
    struct printed p = { .box.boxes = boxes, .is_json = cli_flag(o, "json") };
    const bool all = p.is_json && !cli_is_set(o, "last");
    yoke_status status = choose(o, boxes, &p.box.chosen);
    if (!all) p.box.first = YOKE_MAX(boxes->n_steps - cli_int(o, "last"), (int64_t)0);
    for (int r = 0; r < boxes->n; r++)
        if (!boxes->box[r] && boxes->problem[r][0]) cli_warn("%s", boxes->problem[r]);
    if (!status) status = cli_write_results(cli_text(o, "output"), print, &p);
    yokei_boxes_free(boxes);
    return status;
}

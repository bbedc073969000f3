/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline schedule of a trainer: generated, or the user's own. */
#include "core/base/base.h"
#include "train/trainer/trainer.h"

/*
 * The first line of replica d in the user's schedule. The schedule has either the lines of one replica, which
 * all replicas use, or the lines of all replicas one after the other.
 */
static int users_lines(const struct yokei_pipeline *shape, const struct yokei_schedule *users, int d)
{
    return users->n_ranks == shape->n_stages ? 0 : d * shape->n_stages;
}

/* The lines of replica d, either generated or from the user's schedule. They are checked. */
static yoke_status replica_schedule(const struct yokei_pipeline *shape, const struct yokei_schedule *users,
                                    int d, struct yokei_schedule *made_out)
{
    if (users->n_ranks)
        return yokei_schedule_check(
            &(struct yokei_schedule){ shape->n_stages, users->rank + users_lines(shape, users, d) }, shape);
    YOKE_TRY(yokei_schedule_pipeline(shape, made_out));
    const yoke_status status = yokei_schedule_check(made_out, shape);
    if (status) yokei_schedule_free(made_out);
    return status;
}

/* Whether an earlier replica has the same lines and as many micro-batches. Its schedule was checked. */
static bool is_like_earlier(const struct yokei_pipeline *shape, const struct yokei_schedule *users,
                            const int *n_micro_batches, int d)
{
    for (int e = 0; e < d; e++)
        if (n_micro_batches[e] == n_micro_batches[d]
            && (!users->n_ranks || users_lines(shape, users, e) == users_lines(shape, users, d)))
            return true;
    return false;
}

static struct yokei_pipeline shape_of(const struct yokei_trainer_plan *p)
{
    return (struct yokei_pipeline){ .n_stages = p->mesh.pipeline,
                                    .n_chunks = p->mesh.chunks,
                                    .n_buckets = p->n_buckets,
                                    .recompute = p->stage_recomputes,
                                    .tied = p->has_tied };
}

yoke_status yokei_trainer_order(const struct yoke_trainer_config *c, const struct yokei_trainer_plan *p,
                                struct yokei_pipeline *shape, struct yokei_schedule_order *order_out)
{
    *shape = shape_of(p);
    YOKE_TRY(yokei_pipeline_named(c->pipeline_kind, p->mesh.chunks, &shape->kind));
    for (int d = 0; d < p->mesh.data; d++) {
        shape->n_micro_batches = p->n_micro_batches[d];
        YOKE_TRY(yokei_schedule_check_shape(shape));
    }
    shape->n_micro_batches = p->n_micro_batches[p->mesh.d];
    yokei_schedule_order(shape, p->mesh.s, order_out);
    return YOKE_OK;
}

yoke_status yokei_trainer_schedule(const struct yoke_trainer_config *c, const struct yokei_trainer_plan *p,
                                   struct yokei_schedule *out, int *own_out)
{
    const struct yokei_mesh *m = &p->mesh;
    struct yokei_pipeline shape = shape_of(p);
    struct yokei_schedule users = { 0, NULL };
    YOKE_TRY(yokei_pipeline_named(c->pipeline_kind, m->chunks, &shape.kind));
    if (c->schedule) YOKE_TRY(yokei_schedule_parse(c->schedule, "schedule", &users));
    yoke_status status = YOKE_OK;
    if (c->schedule && users.n_ranks != m->pipeline * m->data && users.n_ranks != m->pipeline)
        status = yoke_fail(
            YOKE_ECONFIG,
            "the schedule has %d lines for %d stages in %d replicas: give one line per stage, or one per stage of each "
            "replica, replica after replica",
            users.n_ranks, m->pipeline, m->data);
    for (int d = 0; d < m->data && !status; d++) {
        struct yokei_schedule made = { 0, NULL };
        if (d != m->d && is_like_earlier(&shape, &users, p->n_micro_batches, d)) continue;
        shape.n_micro_batches = p->n_micro_batches[d];
        status = replica_schedule(&shape, &users, d, &made);
        if (!status && d == m->d)
            *out = made;
        else
            yokei_schedule_free(&made);
    }
    *own_out = c->schedule ? users_lines(&shape, &users, m->d) + m->s : m->s;
    if (c->schedule && !status)
        *out = users;
    else
        yokei_schedule_free(&users);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke_comm_explain and the cost model. A collective must run as yoke_comm_explain says. All ranks must agree
 * on the cost model. A program can set the model, and compare it with measurements.
 */
#include "tests/ranks/ranks.h"

static const char MODEL[] =
    "sync_us=1,shared_gbps=10,long_gbps=5,sum_gbps=40,message_us=20,message_gbps=0.1,oneshot_bytes=%d";

static yoke_status make(const char *costs, const char *algorithm, bool no_shared, yoke_comm **comm)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.costs = costs;
    config.algorithm = algorithm;
    config.no_shared = no_shared;
    return yoke_comm_create(ranks_world, NULL, &config, comm);
}

/* The algorithm that an all_reduce of `bytes` would run. */
static int runs(yoke_comm *comm, size_t bytes, const char *algorithm)
{
    struct yoke_comm_choice choice;
    if (yoke_comm_explain(comm, "all_reduce", bytes / 4, YOKE_F32, YOKE_SUM, &choice)) return 0;
    if (strcmp(choice.algorithm, algorithm))
        fprintf(stderr, "# %zu bytes: %s, wanted %s (%s; %s)\n", bytes, choice.algorithm, algorithm,
                choice.why, choice.costs);
    return !strcmp(choice.algorithm, algorithm) && choice.why[0] && choice.n_lanes >= 1;
}

static int measured_is_agreed(bool no_shared)
{
    yoke_comm *comm = NULL, *again = NULL;
    struct yoke_comm_choice choice, second;
    RANKS_TRY(make(NULL, NULL, no_shared, &comm));
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", 1000, YOKE_F32, YOKE_SUM, &choice));
    char *all = calloc((size_t)ranks_size, sizeof choice.costs);
    RANKS_TRY(yoke_all_gather(choice.costs, all, sizeof choice.costs, YOKE_U8, comm, NULL));
    int ok = choice.predicted_us > 0;
    for (int r = 0; r < ranks_size; r++)
        ok = ok && !strcmp(all + (size_t)r * sizeof choice.costs, choice.costs);
    free(all);
    /*
     * The same ranks are not measured twice. The model from the explanation can be given back as a
     * configuration.
     */
    RANKS_TRY(make(NULL, NULL, no_shared, &again));
    RANKS_TRY(yoke_comm_explain(again, "broadcast", 1000, YOKE_F32, YOKE_SUM, &second));
    ok = ok && !strcmp(choice.costs, second.costs);
    RANKS_TRY(yoke_comm_destroy(again));
    RANKS_TRY(make(choice.costs, NULL, no_shared, &again));
    RANKS_TRY(yoke_comm_explain(again, "all_reduce", 1000, YOKE_F32, YOKE_SUM, &second));
    ok = ok && !strcmp(choice.costs, second.costs) && !strcmp(choice.algorithm, second.algorithm)
         && choice.predicted_us > 0.98 * second.predicted_us;
    RANKS_TRY(yoke_comm_destroy(again));
    RANKS_TRY(yoke_comm_destroy(comm));
    return ok;
}

static int a_given_model_decides(void)
{
    yoke_comm *comm = NULL;
    char text[256];
    int ok = 1;
    for (int most = 4 << 10; most <= 64 << 10; most *= 4) {
        yokei_text(text, sizeof text, MODEL, most);
        RANKS_TRY(make(text, NULL, false, &comm));
        ok = ok && runs(comm, (size_t)most, "oneshot") && runs(comm, (size_t)most + 64, "slices");
        RANKS_TRY(yoke_comm_destroy(comm));
    }
    return ok;
}

static int the_prediction_follows_the_model(void)
{
    yoke_comm *comm = NULL;
    struct yoke_comm_choice choice;
    char text[256];
    yokei_text(text, sizeof text, MODEL, 65536);
    RANKS_TRY(make(text, "ring", true, &comm));
    const double p = ranks_size, bytes = 4e6, sent = 2 * (p - 1) / p * bytes;
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", 1000000, YOKE_F32, YOKE_SUM, &choice));
    const double wanted = 2 * (p - 1) * 20 + sent / 0.1e3 + 2 * bytes / 40e3;
    RANKS_TRY(yoke_comm_destroy(comm));
    return !strcmp(choice.algorithm, "ring") && choice.predicted_us > 0.999 * wanted
           && choice.predicted_us < 1.001 * wanted;
}

static int others_are_explained(void)
{
    static const char *const kinds[] = { "reduce_scatter", "all_gather", "broadcast", "reduce",
                                         "all_to_all",     "gather",     "scatter",   "barrier" };
    yoke_comm *comm = NULL;
    struct yoke_comm_choice choice;
    int ok = 1;
    for (int no_shared = 0; no_shared < 2; no_shared++) {
        RANKS_TRY(make(NULL, NULL, no_shared, &comm));
        for (size_t i = 0; i < YOKE_COUNT(kinds); i++)
            for (size_t count = 1; count < 10000000; count *= 99)
                ok = ok && !yoke_comm_explain(comm, kinds[i], count, YOKE_BF16, YOKE_AVG, &choice)
                     && choice.predicted_us >= 0 && choice.why[0];
        RANKS_TRY(yoke_comm_destroy(comm));
    }
    return ok;
}

/* Without a measurement nothing is predicted. The stated reason must be that of the call. */
static int what_is_not_known_is_not_said(void)
{
    yoke_comm *comm = NULL;
    struct yoke_comm_choice choice;
    RANKS_TRY(make(NULL, "ring", false, &comm));
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", 1000, YOKE_F32, YOKE_SUM, &choice));
    int ok = choice.predicted_us == 0 && !strcmp(choice.algorithm, "ring")
             && strstr(choice.why, "messages through shared memory; the configuration names it")
                    == choice.why;
    RANKS_TRY(yoke_comm_explain(comm, "all_gather", 1000, YOKE_F32, YOKE_SUM, &choice));
    ok = ok && choice.predicted_us > 0;
    RANKS_TRY(yoke_comm_destroy(comm));
    RANKS_TRY(make(NULL, NULL, true, &comm));
    RANKS_TRY(yoke_comm_explain(comm, "reduce_scatter", 1, YOKE_F32, YOKE_SUM, &choice));
    ok = ok && choice.predicted_us > 0 && !strcmp(choice.algorithm, "ring")
         && strstr(choice.why, "the way of this collective");
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", 100000, YOKE_F32, YOKE_SUM, &choice));
    ok = ok && choice.predicted_us > 0 && !strcmp(choice.algorithm, "ring")
         && strstr(choice.why, "; long, so each link carries the least");
    RANKS_TRY(yoke_comm_destroy(comm));
    return ok;
}

static int runs_as(yoke_comm *comm, const char *collective, size_t count, const char *algorithm)
{
    struct yoke_comm_choice choice;
    return !yoke_comm_explain(comm, collective, count, YOKE_U8, YOKE_SUM, &choice)
           && !strcmp(choice.algorithm, algorithm);
}

/* Fewer messages are sent where measurements have shown a gain. */
static int small_ones_are_swapped(void)
{
    yoke_comm *comm = NULL;
    RANKS_TRY(make(NULL, NULL, false, &comm));
    const int ok = runs_as(comm, "all_to_all", 1, "hierarchy")
                   && runs_as(comm, "all_to_all", 4096, "hierarchy")
                   && runs_as(comm, "all_to_all", 65536, "linear") && runs_as(comm, "gather", 1, "linear")
                   && runs_as(comm, "scatter", 1, "linear");
    RANKS_TRY(yoke_comm_destroy(comm));
    return ok;
}

static int refusals(void)
{
    yoke_comm *comm = NULL;
    struct yoke_comm_choice choice;
    char text[256];
    int ok = make("sync_us=1", NULL, false, &comm) == YOKE_ECONFIG
             && strstr(yoke_last_error(), "shared_gbps is missing");
    ok = ok && make("sink_us=1", NULL, false, &comm) == YOKE_ECONFIG
         && strstr(yoke_last_error(), "did you mean 'sync_us'");
    ok = ok && make("sync_us=many", NULL, false, &comm) == YOKE_ECONFIG;
    /* All ranks must give the same model. */
    yokei_text(text, sizeof text, MODEL, ranks_rank == ranks_size - 1 ? 8192 : 16384);
    ok = ok && make(text, NULL, false, &comm) == YOKE_EMISMATCH && strstr(yoke_last_error(), "costs");
    RANKS_TRY(make(NULL, NULL, false, &comm));
    ok = ok && yoke_comm_explain(comm, "send", 1, YOKE_F32, YOKE_SUM, &choice) == YOKE_EINVAL
         && yoke_comm_explain(comm, "all_reduce", 1, YOKE_I32, YOKE_AVG, &choice);
    ok = ok
         && yoke_comm_explain(comm, "all_reduce", SIZE_MAX / 2, YOKE_F32, YOKE_SUM, &choice) == YOKE_EINVAL;
    RANKS_TRY(yoke_comm_destroy(comm));
    return ok;
}

/* The measurement is not a call of the user's, so the user's first call is #1. */
static int numbers_begin_at_one(void)
{
    yoke_comm *comm = NULL;
    float x = 1;
    RANKS_TRY(make(NULL, NULL, false, &comm));
    const yoke_status status = yoke_all_reduce(&x, &x, ranks_rank == 0 ? 1 : 0, YOKE_F32, YOKE_SUM, comm,
                                               NULL);
    const int ok = status == YOKE_EMISMATCH && strstr(yoke_last_error(), "all_reduce #1 ");
    yoke_comm_destroy(comm);
    return ok;
}

int main(void)
{
    ranks_start();
    ranks_check(measured_is_agreed(false),
                "the measured model is agreed, remembered and can be given, shared memory");
    ranks_check(measured_is_agreed(true),
                "the measured model is agreed, remembered and can be given, messages");
    if (!ranks_hosts()) ranks_check(a_given_model_decides(), "a given model decides what goes in one shot");
    ranks_check(the_prediction_follows_the_model(), "the prediction follows the model");
    ranks_check(others_are_explained(), "every collective is explained");
    if (!ranks_hosts())
        ranks_check(what_is_not_known_is_not_said(), "what was not measured is not predicted");
    if (ranks_hosts()) ranks_check(small_ones_are_swapped(), "small slices go to other hosts in one message");
    ranks_check(refusals(), "bad models and questions are refused");
    /* This test comes last, because MPI cannot be used after it. */
    ranks_check(numbers_begin_at_one(), "calls are numbered from 1");
    return ranks_end();
}

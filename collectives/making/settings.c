/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a communicator, from the caller and from the environment. */
#include <errno.h>
#include <string.h>

#include "collectives/making/making.h"

#include "collectives/algorithms/algorithms.h"
#include "collectives/choice/costs.h"
#include "collectives/choice/shares.h"

enum { DEFAULT_STALL_MS = 10000, DEFAULT_CHUNK_BYTES = 256 << 10, LEAST_CHUNK = 64 };

yoke_status yokei_read_number(const char *variable, int64_t least, int64_t *value)
{
    const char *text = getenv(variable);
    if (!text || !*text || *value) return YOKE_OK;
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno || *end || number < least)
        return yoke_fail(YOKE_ECONFIG, "%s=%s: must be a whole number of at least %lld", variable, text,
                         (long long)least);
    *value = number;
    return YOKE_OK;
}

static yoke_status read_algorithm(const char *name, int *algorithm_out)
{
#define TEXT_OF(ID, name, can_be_named, in_rank_order, reach) YOKE_IF_NAMED(can_be_named)(#name, )
#define LISTED(ID, name, can_be_named, in_rank_order, reach) YOKE_IF_NAMED(can_be_named)(#name ", ")
    static const char *const names[] = { YOKE_ALGORITHMS(TEXT_OF) NULL };
    static const char list[] = YOKE_ALGORITHMS(LISTED) "auto";
#undef TEXT_OF
#undef LISTED
    *algorithm_out = -1;
    if (!name || !*name) name = getenv("YOKE_ALGORITHM");
    if (!name || !*name || !strcmp(name, "auto")) return YOKE_OK;
    for (unsigned id = 0; id < YOKEI_N_ALGORITHMS; id++)
        if (yokei_algorithm_can_be_named(id) && !strcmp(yokei_algorithm_name(id), name))
            *algorithm_out = (int)id;
    if (*algorithm_out >= 0) return YOKE_OK;
    const char *near = yokei_nearest(name, names);
    return yoke_fail(YOKE_ECONFIG, "algorithm '%s': one of %s%s%s%s", name, list,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static yoke_status read_check(enum yoke_check *check)
{
    static const char *const names[] = { "header", "off", "full", NULL };
    const char *text = getenv("YOKE_CHECK");
    if (!text || !*text || *check) return YOKE_OK;
    for (int i = 0; names[i]; i++)
        if (!strcmp(text, names[i])) {
            *check = (enum yoke_check)i;
            return YOKE_OK;
        }
    return yoke_fail(YOKE_ECONFIG, "YOKE_CHECK=%s: one of off, header, full", text);
}

/*
 * The variable overrides the field, because the user who starts a program decides whether its results will be
 * compared with others.
 */
static yoke_status read_reproducible(enum yoke_reproducible *reproducible)
{
    const char *text = getenv("YOKE_REPRODUCIBLE");
    if (!text || !*text) return YOKE_OK;
    if (strcmp(text, "run") != 0 && strcmp(text, "shape") != 0)
        return yoke_fail(YOKE_ECONFIG, "YOKE_REPRODUCIBLE=%s: one of run, shape", text);
    *reproducible = strcmp(text, "shape") == 0 ? YOKE_REPRODUCIBLE_SHAPE : YOKE_REPRODUCIBLE_RUN;
    return YOKE_OK;
}

yoke_status yokei_read_messages(size_t chunk_bytes, bool no_shared, size_t *chunk_out, bool *no_shared_out)
{
    int64_t chunk = (int64_t)chunk_bytes, none = no_shared;
    YOKE_TRY(yokei_read_number("YOKE_CHUNK_BYTES", LEAST_CHUNK, &chunk));
    YOKE_TRY(yokei_read_number("YOKE_NO_SHARED", 0, &none));
    if (chunk && (chunk < LEAST_CHUNK || chunk > 64 << 20))
        return yoke_fail(YOKE_EINVAL, "yoke_comm_create: chunk_bytes %lld is not between %d and %d",
                         (long long)chunk, LEAST_CHUNK, 64 << 20);
    *chunk_out = (size_t)chunk;
    *no_shared_out = none != 0;
    return YOKE_OK;
}

size_t yokei_chunk_bytes(size_t given) { return given ? given / 64 * 64 : DEFAULT_CHUNK_BYTES; }

static yoke_status check_ranges(const struct yoke_comm_config *config)
{
    const struct {
        const char *name;
        int64_t value, most;
    } fields[] = { { "accum", config->accum, YOKE_ACCUM_NATIVE },
                   { "reproducible", config->reproducible, YOKE_REPRODUCIBLE_SHAPE },
                   { "wait", config->wait, YOKE_WAIT_SLEEP },
                   { "check", config->check, YOKE_CHECK_FULL },
                   { "island", config->island, YOKE_ISLAND_OFF },
                   { "timeout_ms", config->timeout_ms, INT64_MAX },
                   { "stall_ms", config->stall_ms, INT64_MAX } };
    for (size_t i = 0; i < YOKE_COUNT(fields); i++)
        if (fields[i].value < 0 || fields[i].value > fields[i].most)
            return yoke_fail(YOKE_EINVAL, "yoke_comm_create: %s is out of range: %lld", fields[i].name,
                             (long long)fields[i].value);
    return YOKE_OK;
}

void yokei_settings_begin(yoke_comm *comm, const struct yoke_comm_config *config)
{
    comm->settings.timeout_ms = YOKEI_DEFAULT_TIMEOUT_MS;
    comm->settings.stall_ms = DEFAULT_STALL_MS;
    comm->settings.wait_policy = config ? config->wait : YOKE_WAIT_AUTO;
}

yoke_status yokei_settings_read(yoke_comm *comm, const struct yoke_comm_config *config)
{
    const struct yoke_comm_config defaults = YOKE_COMM_CONFIG_INIT;
    if (!config) config = &defaults;
    if (config->size != sizeof *config)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_comm_create: the configuration's size is %zu, not %zu: use YOKE_COMM_CONFIG_INIT",
            config->size, sizeof *config);
    YOKE_TRY(check_ranges(config));
    int64_t timeout = config->timeout_ms, stall = config->stall_ms;
    size_t chunk;
    bool no_shared;
    YOKE_TRY(yokei_read_number("YOKE_TIMEOUT_MS", 1, &timeout));
    YOKE_TRY(yokei_read_number("YOKE_STALL_MS", 1, &stall));
    YOKE_TRY(yokei_read_messages(config->chunk_bytes, config->no_shared, &chunk, &no_shared));
    /* Up to here the default timeouts hold. After an error above, this rank must still report it to the other
       ranks, and that may take time. */
    if (timeout) comm->settings.timeout_ms = timeout;
    if (stall) comm->settings.stall_ms = stall;
    comm->settings.chunk_is_forced = chunk != 0;
    comm->settings.chunk_bytes = yokei_chunk_bytes(chunk);
    comm->settings.accum = config->accum;
    comm->settings.reproducible = config->reproducible;
    YOKE_TRY(read_reproducible(&comm->settings.reproducible));
    comm->settings.check = config->check;
    YOKE_TRY(read_check(&comm->settings.check));
    comm->settings.no_shared = no_shared;
    const char *costs = config->costs ? config->costs : getenv("YOKE_COSTS");
    comm->settings.costs_given = costs && *costs;
    if (comm->settings.costs_given) YOKE_TRY(yokei_costs_read(costs, &comm->costs));
    YOKE_TRY(yokei_shares_read(comm, config->shares));
    YOKE_TRY(yokei_islands_read(comm, config->island, config->island_of));
    YOKE_TRY(read_algorithm(config->algorithm, &comm->settings.forced_algorithm));
    const unsigned forced = (unsigned)comm->settings.forced_algorithm;
    if (comm->settings.reproducible && comm->settings.forced_algorithm >= 0
        && yokei_algorithm_reach(forced) == YOKE_REACH_MESSAGES
        && !yokei_algorithm_adds_in_rank_order(forced))
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_comm_create: algorithm '%s' adds in an order that depends on the shape; with reproducible leave it out, "
            "or use exchange or chain",
            yokei_algorithm_name(forced));
    if (comm->settings.island == YOKE_ISLAND_OFF && comm->settings.forced_algorithm >= 0
        && yokei_algorithm_reach(forced) == YOKE_REACH_ACROSS_HOSTS)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_comm_create: algorithm '%s' works by groups of ranks, and island=off allows no groups; leave out one of them",
            yokei_algorithm_name(forced));
    return YOKE_OK;
}

struct yoke_comm_config yokei_comm_config(const yoke_comm *comm, const char *name)
{
    return (struct yoke_comm_config){
        .size = sizeof(struct yoke_comm_config),
        .name = name,
        .accum = comm->settings.accum,
        .wait = comm->settings.wait_policy,
        .timeout_ms = comm->settings.timeout_ms,
        .stall_ms = comm->settings.stall_ms,
        .chunk_bytes = comm->settings.chunk_is_forced ? comm->settings.chunk_bytes : 0,
        .algorithm = comm->settings.forced_algorithm < 0
                         ? "auto"
                         : yokei_algorithm_name((unsigned)comm->settings.forced_algorithm),
        .reproducible = comm->settings.reproducible,
        .check = comm->settings.check,
        .no_shared = comm->settings.no_shared,
        .island = comm->settings.island,
    };
}

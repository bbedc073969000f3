/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Row teams: their variants, and the division of rows and elements among teams. A row team is a set of
 * work-items that work on a row together. Each of them is a lane of the team.
 */
#include <string.h>

#include "backends/gpu/launch.h"

struct team_variant {
    const char *name;
    int L, W;
};
static const struct team_variant team_variants[] = {
    { "l1w16", 1, 16 }, { "l1w1", 1, 1 }, { "l32w1", 32, 1 }, { "l64w1", 64, 1 }
};

const char *yokei_gpu_team_variant_name(const yoke_device *device, int index)
{
    /* in ascending L, so the teams that are too large for a device come last */
    if (index < 0 || index >= (int)YOKE_COUNT(team_variants)
        || team_variants[index].L > yokei_gpu(device)->max_group)
        return NULL;
    return team_variants[index].name;
}

/* The number of teams of L lanes in a group, on this kind of device. */
static int teams_per_group(bool is_cpu, int warp, int L)
{
    if (L == 1) return is_cpu ? 1 : 64;
    return L <= warp ? YOKE_MAX(1, 128 / L)
                     : 1; /* in local memory, all teams of a group would have to sum together */
}

bool yokei_gpu_team_variant(int index, bool is_cpu, int warp, struct yokei_gpu_program *program)
{
    if (index < 0 || index >= (int)YOKE_COUNT(team_variants)) return false;
    program->L = team_variants[index].L;
    program->W = team_variants[index].W;
    program->G = teams_per_group(is_cpu, warp, program->L);
    return true;
}

struct yokei_gpu_program yokei_gpu_team_program(const yoke_device *device, const struct yokei_call *call,
                                                const char *family)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    int otherwise = gpu->is_cpu ? 0 : gpu->warp == 64 ? 3 : 2;
    int variant = yokei_variant(device, call, otherwise);
    if (variant < 0 || variant >= (int)YOKE_COUNT(team_variants)) variant = otherwise;
    struct yokei_gpu_program program = { .family = family, .dtype = call->dtype, .out_dtype = call->second };
    yokei_gpu_team_variant(variant, gpu->is_cpu, gpu->warp, &program);
    return program;
}

/**
 * The least bytes that are worth a work-item of a CPU. With fewer bytes, its start costs more than its work.
 */
#define CPU_TEAM_BYTES 16384

static struct yokei_gpu_rows spread(const struct yokei_gpu_program *program, int64_t N, int64_t per_team)
{
    struct yokei_gpu_rows rows = { .per_team = per_team, .teams = (N + per_team - 1) / per_team };
    rows.groups = (rows.teams + program->G - 1) / program->G;
    return rows;
}

struct yokei_gpu_rows yokei_gpu_rows(const yoke_device *device, const struct yokei_gpu_program *program,
                                     int64_t N, int64_t row_bytes)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    int64_t per_team = 1;
    if (gpu->is_cpu) {
        int64_t by_core = (N + 8 * gpu->compute_units - 1) / (8 * gpu->compute_units);
        int64_t by_bytes = CPU_TEAM_BYTES / YOKE_MAX(row_bytes, 1);
        per_team = YOKE_MAX(1, YOKE_MAX(by_core, by_bytes));
    }
    return spread(program, N, per_team);
}

struct yokei_gpu_rows yokei_gpu_span(const yoke_device *device, const struct yokei_gpu_program *program,
                                     int64_t n, int64_t element_bytes)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    int64_t step = (int64_t)program->L * program->W;
    int64_t per_team = 8 * step;
    if (gpu->is_cpu) {
        int64_t by_core = (n + 8 * gpu->compute_units - 1) / (8 * gpu->compute_units);
        per_team = YOKE_MAX(1, YOKE_MAX(by_core, CPU_TEAM_BYTES / YOKE_MAX(element_bytes, 1)));
    }
    per_team = (per_team + step - 1) / step * step;
    return spread(program, n, per_team);
}

/*
 * A team of one lane is for CPUs: with fewer rows to a team, the work of adding the teams' sums is no longer
 * small beside the work on the rows. A larger team is for GPUs, which need hundreds of teams.
 * docs/decisions/kernels.md has the measurement.
 */
enum { PARTIAL_TEAMS = 512, ROWS_OF_A_LANE = 64 };

int64_t yokei_gpu_partial_teams(const struct yokei_gpu_program *program, int64_t N)
{
    const int64_t least = program->L == 1 ? ROWS_OF_A_LANE : 1;
    return YOKE_MIN((N + least - 1) / least, PARTIAL_TEAMS);
}

struct yokei_gpu_rows yokei_gpu_partial_rows(const struct yokei_gpu_program *program, int64_t N)
{
    int64_t teams = YOKE_MAX(1, yokei_gpu_partial_teams(program, N));
    return spread(program, N, YOKE_MAX(1, (N + teams - 1) / teams));
}

yoke_status yokei_gpu_map_run(yoke_stream *stream, const struct yokei_call *call, const char *family,
                              int64_t n, const struct yokei_gpu_arg *args, int n_args)
{
    const char *kernel = yokei_op_names[call->op];
    struct yokei_gpu_arg all[10];
    if (n_args + 2 > (int)YOKE_COUNT(all))
        return yoke_fail(YOKE_EINTERNAL, "%s: %d arguments are too many", kernel, n_args);
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, family);
    struct yokei_gpu_rows rows = yokei_gpu_span(stream->device, &program, n,
                                                (int64_t)yoke_dtype_bytes(call->dtype));
    memcpy(all, args, (size_t)n_args * sizeof *args);
    all[n_args] = (struct yokei_gpu_arg)ARG_L(n);
    all[n_args + 1] = (struct yokei_gpu_arg)ARG_L(rows.per_team);
    return yokei_gpu_launch(stream, &program, kernel, rows.groups, 1, 1, all, n_args + 2);
}

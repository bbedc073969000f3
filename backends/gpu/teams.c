/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Row teams: their variants, and the division of rows and elements among teams. A row team is a set of
 * work-items that work on a row together. Each of them is a lane of the team.
 */
#include <string.h>

#include "backends/gpu/launch.h"

/*
 * W 1 of more than one lane: as many elements as fill 16 bytes, see lane_width. The teams of the last variant
 * are for the rows of a vocabulary. It must be the last variant, because only the programs of its family have
 * it.
 */
struct team_variant {
    const char *name;
    int L, W;
    const char *family; /* NULL: all families */
};
enum { OF_32_LANES = 2, OF_64_LANES, OF_LONG_ROWS };
static const struct team_variant team_variants[] = {
    { "l1w16", 1, 16, NULL },
    { "l1w1", 1, 1, NULL },
    [OF_32_LANES] = { "l32w1", 32, 1, NULL },
    [OF_64_LANES] = { "l64w1", 64, 1, NULL },
    [OF_LONG_ROWS] = { "l256w1", 256, 1, "loss" },
};

/*
 * A row of a vocabulary gets a team of the last variant if each of its lanes then has at least this number of
 * elements, which is one step of xent_forward. Without these teams a few rows of 50,000 elements would keep a
 * few warps busy for a long time.
 */
enum { LONG_ROW = 16 };

/** Whether a family has variant `index`. */
static bool has_variant(const char *family, int index)
{
    if (index < 0 || index >= (int)YOKE_COUNT(team_variants)) return false;
    return !team_variants[index].family || !strcmp(team_variants[index].family, family);
}

const char *yokei_gpu_team_variant_name(const yoke_device *device, int index, const char **family_out)
{
    /* in ascending L, so the teams that are too large for a device come last */
    if (index < 0 || index >= (int)YOKE_COUNT(team_variants)
        || team_variants[index].L > yokei_gpu(device)->max_group)
        return NULL;
    *family_out = team_variants[index].family;
    return team_variants[index].name;
}

/* The number of teams of L lanes in a group, on this kind of device. */
static int teams_per_group(bool is_cpu, int warp, int L)
{
    if (L == 1) return is_cpu ? 1 : 64;
    return L <= warp ? YOKE_MAX(1, 128 / L)
                     : 1; /* in local memory, all teams of a group would have to sum together */
}

/*
 * The elements of a lane of a larger team. Together they have 16 bytes, which a GPU moves by one
 * instruction. A cast moves 16 bytes of its wider type.
 */
static int lane_width(const struct yokei_gpu_program *program)
{
    const bool is_cast = !strcmp(program->family, "cast");
    const size_t bytes = yoke_dtype_bytes(program->dtype), second = yoke_dtype_bytes(program->out_dtype);
    return 16 / (int)(is_cast ? YOKE_MAX(bytes, second) : bytes);
}

bool yokei_gpu_team_variant(int index, bool is_cpu, int warp, struct yokei_gpu_program *program)
{
    if (!has_variant(program->family, index)) return false;
    program->L = team_variants[index].L;
    program->W = program->L == 1 ? team_variants[index].W : lane_width(program);
    program->G = teams_per_group(is_cpu, warp, program->L);
    return true;
}

/** The program of a call whose rows have this number of elements. */
static struct yokei_gpu_program choose(const yoke_device *device, const struct yokei_call *call,
                                       const char *family, int64_t row_elements)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    const int64_t lanes = team_variants[OF_LONG_ROWS].L;
    int otherwise = gpu->is_cpu ? 0 : gpu->warp == 64 ? OF_64_LANES : OF_32_LANES;
    if (!gpu->is_cpu && lanes <= gpu->max_group && row_elements >= LONG_ROW * lanes) otherwise = OF_LONG_ROWS;
    int variant = yokei_variant(device, call, otherwise);
    if (!has_variant(family, variant)) variant = otherwise;
    struct yokei_gpu_program program = { .family = family, .dtype = call->dtype, .out_dtype = call->second };
    yokei_gpu_team_variant(variant, gpu->is_cpu, gpu->warp, &program);
    return program;
}

struct yokei_gpu_program yokei_gpu_team_program(const yoke_device *device, const struct yokei_call *call,
                                                const char *family)
{
    return choose(device, call, family, 0);
}

struct yokei_gpu_program yokei_gpu_loss_program(const yoke_device *device, const struct yokei_call *call,
                                                int64_t V)
{
    return choose(device, call, team_variants[OF_LONG_ROWS].family, V);
}

/**
 * The least bytes that are worth a work-item of a CPU. With fewer bytes, its start costs more than its work.
 */
#define CPU_TEAM_BYTES 16384
/** So many teams of 32 lanes keep a large GPU busy: 31 for each of 132 multiprocessors. */
#define FULL_GPU_TEAMS 4096

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
    /* a team makes 2 to 8 steps: as many as leave enough teams to fill a GPU */
    int64_t per_team = YOKE_MAX(2, YOKE_MIN(8, n / (step * FULL_GPU_TEAMS))) * step;
    if (gpu->is_cpu) {
        int64_t by_core = (n + 8 * gpu->compute_units - 1) / (8 * gpu->compute_units);
        per_team = YOKE_MAX(1, YOKE_MAX(by_core, CPU_TEAM_BYTES / YOKE_MAX(element_bytes, 1)));
    }
    per_team = (per_team + step - 1) / step * step;
    return spread(program, n, per_team);
}

/*
 * A team of one lane is for CPUs: with fewer rows to a team, the work of adding the teams' sums is no longer
 * small beside the work on the rows. docs/decisions/kernels.md has the measurement.
 */
enum { PARTIAL_TEAMS = 512, ROWS_OF_A_LANE = 64 };

static struct yokei_gpu_sums sums_of_lanes(int64_t N, int64_t C)
{
    int64_t parts = YOKE_MAX(1, YOKE_MIN((N + ROWS_OF_A_LANE - 1) / ROWS_OF_A_LANE, PARTIAL_TEAMS));
    const int64_t per_part = YOKE_MAX(1, (N + parts - 1) / parts);
    parts = (N + per_part - 1) / per_part;
    return (struct yokei_gpu_sums){
        .parts = parts, .per_part = per_part, .blocks = 1, .stride = C, .teams = parts, .columns = 0
    };
}

/*
 * A larger team is for GPUs. Four lanes have columns side by side, as in common.yk, and the others have rows
 * below. There are as many parts as fill a large GPU, but each lane has at least four rows.
 */
enum { LANES_ACROSS = 4, ROWS_BELOW = 4 };

static struct yokei_gpu_sums sums_of_teams(const struct yokei_gpu_program *program, int64_t N, int64_t C)
{
    const int64_t down = program->L / LANES_ACROSS, width = LANES_ACROSS * program->W;
    const int64_t blocks = YOKE_MAX(1, (C + width - 1) / width);
    const int64_t parts = YOKE_MAX(1, YOKE_MIN(N / (ROWS_BELOW * down), FULL_GPU_TEAMS / blocks));
    const int64_t per_part = YOKE_MAX(1, ((N + parts - 1) / parts + down - 1) / down) * down;
    struct yokei_gpu_sums sums = { .per_part = per_part, .blocks = blocks, .stride = (C + 7) / 8 * 8 };
    sums.parts = (N + per_part - 1) / per_part;
    sums.teams = sums.parts * blocks;
    return sums;
}

struct yokei_gpu_sums yokei_gpu_sums(const yoke_device *device, const struct yokei_gpu_program *program,
                                     int64_t N, int64_t C, int sums_per_row)
{
    const int64_t G = program->G;
    struct yokei_gpu_sums sums = program->L == 1 ? sums_of_lanes(N, C) : sums_of_teams(program, N, C);
    sums.bytes = (size_t)(sums.parts * sums.stride * sums_per_row) * sizeof(float);
    sums.groups = (sums.teams + G - 1) / G;
    sums.total_groups = ((C + program->W - 1) / program->W + G - 1) / G;
    if (program->L == 1) {
        const struct yokei_gpu_rows columns = yokei_gpu_span(device, program, C,
                                                             4 * sums.parts * sums_per_row);
        sums.total_groups = columns.groups, sums.columns = columns.per_team;
    }
    return sums;
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

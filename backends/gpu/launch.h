/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a family's file launches a kernel: name the program (a .yk file and its options), the kernel, the groups, the
 * arguments. The program is compiled, or taken from the cache, at its first use on a device.
 *
 *   const struct yokei_gpu_program program = { .family = "norm", .dtype = args->dtype, .L = 1, .W = 16, .G = 1 };
 *   return yokei_gpu_launch(stream, &program, "layernorm_forward", groups, 1, 1,
 *                           YOKEI_GPU_ARGS(ARG_P(args->x), ARG_L(args->ldx), ARG_F(args->eps), ARG_I(flags)));
 */
#ifndef BACKENDS_GPU_LAUNCH_H
#define BACKENDS_GPU_LAUNCH_H

#include "backends/gpu/driver.h"

/** An option of a program's own (a tile size): becomes "#define name value". The name must be a string constant. */
struct yokei_gpu_define {
    const char *name;
    int value;
};
#define YOKEI_GPU_MAX_DEFINES 10

/**
 * A program: which text, compiled how. Becomes YK_DTYPE, YK_OUT_DTYPE, YK_L, YK_W, YK_G, the defines, and from the device
 * YK_CPU, YK_WARP, YK_OFFSETS.
 */
struct yokei_gpu_program {
    const char *family;     /* name of the .yk file, as in texts.h */
    yoke_dtype dtype;       /* yk_t */
    yoke_dtype out_dtype;   /* yk_u; YOKE_F32 where a program has no second type */
    int L, W, G;            /* lanes of a team, vector width, teams of a group: a group has G * L work-items */
    struct yokei_gpu_define defines[YOKEI_GPU_MAX_DEFINES]; /* ends at the first NULL name */
};

/** Arguments, in the order of the kernel's parameters. */
#define ARG_P(x) { YOKEI_GPU_POINTER, { .pointer = (x) } }
#define ARG_I(x) { YOKEI_GPU_4_BYTES, { .i32 = (x) } }  /* int      */
#define ARG_F(x) { YOKEI_GPU_4_BYTES, { .f32 = (x) } }  /* float    */
#define ARG_L(x) { YOKEI_GPU_8_BYTES, { .i64 = (x) } }  /* yk_long  */
#define YOKEI_GPU_ARGS(...)                       \
    (const struct yokei_gpu_arg[]){ __VA_ARGS__ }, \
        (int)(sizeof((const struct yokei_gpu_arg[]){ __VA_ARGS__ }) / sizeof(struct yokei_gpu_arg))

/** Launch x * y * z groups of program->G * program->L work-items. A grid with a zero launches nothing. */
yoke_status yokei_gpu_launch(yoke_stream *stream, const struct yokei_gpu_program *program, const char *kernel, int64_t x,
                             int64_t y, int64_t z, const struct yokei_gpu_arg *args, int n_args);

/** Compile a program without running it (warm-up, tests). */
yoke_status yokei_gpu_prepare(yoke_device *device, const struct yokei_gpu_program *program);

/** The three strings for a language; free with yokei_gpu_source_free. YOKE_EINTERNAL for a family that has no text. */
yoke_status yokei_gpu_source_make(const struct yokei_gpu_program *program, enum yokei_gpu_language language, bool is_cpu,
                                  int warp, bool offsets, struct yokei_gpu_source *source_out);
void yokei_gpu_source_free(struct yokei_gpu_source *source);

/* ---- row teams: the variants "l1w16", "l1w1", "l32w1", "l64w1" that all families but gemm and attention have ---- */

/** The variant to run `op` with (forced, tuned, or by kind of device), as the program of `family` and `dtype`. */
struct yokei_gpu_program yokei_gpu_team_program(const yoke_device *device, enum yoke_op_id op, const char *family,
                                                yoke_dtype dtype, yoke_dtype out_dtype, double size);

/** L, W and G of team variant `index` on such a device; false past the last. */
bool yokei_gpu_team_variant(int index, bool is_cpu, int warp, struct yokei_gpu_program *program);

/** How N rows (or pieces) are spread: team t works on rows [t * per_team, (t + 1) * per_team) that are < N. */
struct yokei_gpu_rows {
    int64_t per_team;
    int64_t teams;  /* with at least one row each */
    int64_t groups; /* to launch: ceil(teams / G) */
};
/** Spread N rows over the device: on a CPU a few teams per core, elsewhere a team per row. `row_bytes` is what one moves. */
struct yokei_gpu_rows yokei_gpu_rows(const yoke_device *device, const struct yokei_gpu_program *program, int64_t N,
                                     int64_t row_bytes);
/** Spread n elements; per_team is a multiple of L * W. */
struct yokei_gpu_rows yokei_gpu_span(const yoke_device *device, const struct yokei_gpu_program *program, int64_t n,
                                     int64_t element_bytes);

/** Rows spread for sums over rows: few teams, because each leaves a row of sums in scratch; at most partial_teams. */
struct yokei_gpu_rows yokei_gpu_partial_rows(const yoke_device *device, const struct yokei_gpu_program *program, int64_t N);
int64_t yokei_gpu_partial_teams(const yoke_device *device, int64_t N);

/**
 * Ops that do the same to each of n elements: `can`, for `flops` per element and so many arrays read or written; and `run`: the
 * op's own kernel of `family` with the arguments and, after them, n and per_team. At most 8 arguments.
 */
yoke_status yokei_gpu_map_can(enum yoke_op_id op, yoke_dtype dtype, int64_t n, double flops, double arrays, struct yoke_cost *cost);
yoke_status yokei_gpu_map_run(yoke_stream *stream, enum yoke_op_id op, const char *family, yoke_dtype dtype, int64_t n,
                              const struct yokei_gpu_arg *args, int n_args);

/** YOKE_EUNSUPPORTED unless dtype is f32, f16 or bf16. `op` names the op in the text. */
yoke_status yokei_gpu_check_dtype(enum yoke_op_id op, yoke_dtype dtype);

/* ---- catalog.c: every program that the families can ask for, for tests that compile them all ---- */

/** Program `index` of the catalogue for a device of this kind; false past the last. */
bool yokei_gpu_catalog(int index, bool is_cpu, int warp, struct yokei_gpu_program *program_out);


#endif

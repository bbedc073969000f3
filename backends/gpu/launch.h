/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How the file of a family launches a kernel. It names the program (a .yk file and its options), the kernel,
 * the number of groups, and the arguments. At the first use on a device, the program is compiled or loaded
 * from the cache.
 *
 *   const struct yokei_gpu_program program = { .family = "norm", .dtype = args->dtype,
 *                                              .L = 1, .W = 16, .G = 1 };
 *   return yokei_gpu_launch(stream, &program, "layernorm_forward", groups, 1, 1,
 *                           YOKEI_GPU_ARGS(ARG_P(args->x), ARG_L(args->ldx), ARG_F(args->eps)));
 */
#ifndef BACKENDS_GPU_LAUNCH_H
#define BACKENDS_GPU_LAUNCH_H

#include "backends/gpu/driver.h"

/**
 * An additional option of a program, such as a tile size. It becomes "#define name value". The name must be a
 * string constant.
 */
struct yokei_gpu_define {
    const char *name;
    int value;
};
#define YOKEI_GPU_MAX_DEFINES 10

/**
 * A program: its text, and the options with which it is compiled. The fields become YK_DTYPE, YK_OUT_DTYPE,
 * YK_L, YK_W, YK_G and the defines. The device decides YK_CPU, YK_WARP and YK_OFFSETS.
 */
struct yokei_gpu_program {
    const char *family;   /* the name of the .yk file, as in texts.h */
    yoke_dtype dtype;     /* the type yk_t in the text */
    yoke_dtype out_dtype; /* the type yk_u in the text; YOKE_F32 if the program has no second type */
    /*
     * lanes of a team (work-items that share a row), vector width, and teams per group: a group has G * L
     * work-items
     */
    int L, W, G;
    struct yokei_gpu_define defines[YOKEI_GPU_MAX_DEFINES]; /* the array ends at the first NULL name */
};

/** The arguments of a kernel, in the order of its parameters. */
/* clang-format off */
#define ARG_P(x) { YOKEI_GPU_POINTER, { .pointer = (x) } }
#define ARG_I(x) { YOKEI_GPU_4_BYTES, { .i32 = (x) } }  /* int      */
#define ARG_F(x) { YOKEI_GPU_4_BYTES, { .f32 = (x) } }  /* float    */
#define ARG_L(x) { YOKEI_GPU_8_BYTES, { .i64 = (x) } }  /* yk_long  */
/* clang-format on */
#define YOKEI_GPU_ARGS(...)                        \
    (const struct yokei_gpu_arg[]){ __VA_ARGS__ }, \
        (int)(sizeof((const struct yokei_gpu_arg[]){ __VA_ARGS__ }) / sizeof(struct yokei_gpu_arg))

/** Launch x * y * z groups of program->G * program->L work-items. If x, y or z is 0, nothing is launched. */
yoke_status yokei_gpu_launch(yoke_stream *stream, const struct yokei_gpu_program *program, const char *kernel,
                             int64_t x, int64_t y, int64_t z, const struct yokei_gpu_arg *args, int n_args);

/**
 * Make the three strings of a program for a language. The caller frees them with yokei_gpu_source_free.
 * YOKE_EINTERNAL if the family has no text.
 */
yoke_status yokei_gpu_source_make(const struct yokei_gpu_program *program, enum yokei_gpu_language language,
                                  bool is_cpu, int warp, bool offsets, struct yokei_gpu_source *source_out);
void yokei_gpu_source_free(struct yokei_gpu_source *source);

/*
 * ---- row teams: variants "l1w16", "l1w1", "l32w1", "l64w1" of all families but gemm and attention, and
 * "l256w1" of the loss ----
 */

/**
 * Choose the variant for the call (forced, tuned, or by the kind of device), and return it as a program of
 * `family` and of the call's types.
 */
struct yokei_gpu_program yokei_gpu_team_program(const yoke_device *device, const struct yokei_call *call,
                                                const char *family);

/** The same for the loss of rows of V elements. Long rows get larger teams. */
struct yokei_gpu_program yokei_gpu_loss_program(const yoke_device *device, const struct yokei_call *call,
                                                int64_t V);

/**
 * The name of team variant `index` of the device. NULL past the last one. *family_out is the family whose
 * programs alone have the variant, or NULL if all families have it.
 */
const char *yokei_gpu_team_variant_name(const yoke_device *device, int index, const char **family_out);
/**
 * Set L, W and G for team variant `index` of the program's family on this kind of device. Returns false past
 * the last variant.
 */
bool yokei_gpu_team_variant(int index, bool is_cpu, int warp, struct yokei_gpu_program *program);

/**
 * How N rows (or pieces) are divided among teams. Team t works on the rows [t * per_team, (t + 1) * per_team)
 * that are below N.
 */
struct yokei_gpu_rows {
    int64_t per_team;
    int64_t teams;  /* number of teams with at least one row each */
    int64_t groups; /* number of groups to launch: ceil(teams / G) */
};
/**
 * Divide N rows among teams: a few teams per core on a CPU, and one team per row elsewhere. `row_bytes` is
 * the number of bytes that one row moves.
 */
struct yokei_gpu_rows yokei_gpu_rows(const yoke_device *device, const struct yokei_gpu_program *program,
                                     int64_t N, int64_t row_bytes);
/** Divide n elements among teams; per_team is a multiple of L * W. */
struct yokei_gpu_rows yokei_gpu_span(const yoke_device *device, const struct yokei_gpu_program *program,
                                     int64_t n, int64_t element_bytes);

/**
 * How sums over N rows of C columns are divided. The teams leave a row of sums for each part of the rows in
 * scratch, and a second kernel adds these up in order. So the division decides the bits of the result. It
 * depends on the shape and on the program's variant alone, never on the device.
 */
struct yokei_gpu_sums {
    int64_t parts;    /* part p has the rows [p * per_part, (p + 1) * per_part) that are below N */
    int64_t per_part; /* rows */
    int64_t blocks;   /* blocks of columns; a team has one block of a part */
    int64_t stride;   /* floats from one row of sums to the next, at least C */
    int64_t teams, groups;
    size_t bytes; /* of all rows of sums */
    /* of the second kernel; there a larger team has a vector of columns, and its lanes share the parts */
    int64_t total_groups;
    int64_t columns; /* of a team of one lane of the second kernel */
};
/** `sums_per_row` is the number of rows of sums that a part leaves: 2 for the sums of two tensors. */
struct yokei_gpu_sums yokei_gpu_sums(const yoke_device *device, const struct yokei_gpu_program *program,
                                     int64_t N, int64_t C, int sums_per_row);

/**
 * For ops that do the same to each of n elements. Launch the kernel of `family` that has the op's name. The
 * kernel gets the arguments (at most 8), then n and per_team.
 */
yoke_status yokei_gpu_map_run(yoke_stream *stream, const struct yokei_call *call, const char *family,
                              int64_t n, const struct yokei_gpu_arg *args, int n_args);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * All programs that the families can use: the types of each family with each team variant, and the programs
 * of gemm and attention. The tests compile them, and so does `yoke compile` (ahead.c).
 */
#include <string.h>

#include "backends/gpu/families.h"

static const yoke_dtype types[] = { YOKE_F32, YOKE_F16, YOKE_BF16 };
#define N_TYPES ((int)YOKE_COUNT(types))

/*
 * The types that the programs of a family take. OWN: the family has a catalogue of its own. The gradient of a
 * bias has programs of its own, as if it were a family.
 */
enum typing { OWN, SAME, ALL_PAIRS, OPTIM };
#define TYPING_gemm OWN
#define TYPING_norm SAME
#define TYPING_act SAME
#define TYPING_attention OWN
#define TYPING_embed SAME
#define TYPING_loss SAME
#define TYPING_optim OPTIM
#define TYPING_cast ALL_PAIRS
#define TYPING_elementwise SAME
#define TYPING_rope SAME

#define BIT(op) | (uint64_t)1 << YOKE_OP_##op
#define FAMILY(family, OPS, with) { #family, TYPING_##family, 0 OPS(BIT) },
static const struct {
    const char *family;
    enum typing typing;
    uint64_t ops;
} families[] = { YOKE_FAMILIES(FAMILY, ){ "bias", SAME, 0 BIT(bias_backward) } };
_Static_assert(YOKE_N_OPS <= 64, "the masks of the families have too few bits");

/** Type pair `index` of a family. Returns false past the last one. */
static bool type_pair(enum typing typing, int index, struct yokei_gpu_program *program)
{
    static const int n_pairs[] = {
        [OWN] = 0, [SAME] = N_TYPES, [ALL_PAIRS] = N_TYPES * N_TYPES, [OPTIM] = 2 * N_TYPES - 1
    };
    const int n = n_pairs[typing];
    if (index >= n) return false;
    int in = index % N_TYPES, out = 0;
    if (typing == ALL_PAIRS) out = index / N_TYPES;
    /* adamw: f32 weights with a 16-bit copy; the earlier indices are grad_norm of one type */
    if (typing == OPTIM && index >= N_TYPES) {
        in = 0;
        out = index - N_TYPES + 1;
    }
    program->dtype = types[in];
    program->out_dtype = types[out];
    return true;
}

bool yokei_gpu_catalog(int index, bool is_cpu, int warp, struct yokei_gpu_program *program_out)
{
    struct yokei_gpu_program program = { 0 };
    for (size_t f = 0; f < YOKE_COUNT(families); f++) {
        program.family = families[f].family;
        for (int t = 0; type_pair(families[f].typing, t, &program); t++)
            for (int v = 0; yokei_gpu_team_variant(v, is_cpu, warp, &program); v++)
                if (index-- == 0) {
                    *program_out = program;
                    return true;
                }
    }
    int n = 0;
    while (n <= index && yokei_gpu_gemm_catalog(n, is_cpu, warp, &program)) n++;
    if (n > index) {
        *program_out = program;
        return true;
    }
    return yokei_gpu_attention_catalog(index - n, is_cpu, warp, program_out);
}

bool yokei_gpu_offers(const struct yokei_gpu_device *gpu, const struct yokei_gpu_program *program)
{
    if (program->L * program->G > gpu->max_group) return false;
    if (program->defines[0].name && !strcmp(program->defines[0].name, "YK_MMA") && !gpu->multiplies_squares)
        return false;
    return !(gpu->reserves_private && program->L == 1 && !strcmp(program->family, "attention"));
}

bool yokei_gpu_program_serves(const struct yokei_gpu_program *program, enum yoke_op_id op)
{
    if (op == YOKE_OP_bias_backward) return !strcmp(program->family, "bias");
    for (size_t f = 0; f < YOKE_COUNT(families); f++)
        if (!strcmp(program->family, families[f].family)) return families[f].ops >> op & 1;
    return false;
}

bool yokei_gpu_program_has_type(const struct yokei_gpu_program *program, yoke_dtype dtype)
{
    for (size_t f = 0; f < YOKE_COUNT(families); f++)
        if (!strcmp(program->family, families[f].family) && families[f].typing == SAME)
            return dtype == program->dtype;
    if (!strcmp(program->family, "attention")) return dtype == program->dtype;
    return dtype == program->dtype || dtype == program->out_dtype;
}

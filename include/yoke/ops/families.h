/* SPDX-License-Identifier: Apache-2.0 */
/**
 * All families of ops. A family is a group of ops, such as norm. It has a header, which this file includes,
 * and a line of YOKE_FAMILIES. Everything that lists families or ops is made from these lines. The header of
 * a family lists the family's ops once.
 */
#ifndef YOKE_OPS_FAMILIES_H
#define YOKE_OPS_FAMILIES_H

#include <yoke/ops/act.h>
#include <yoke/ops/attention.h>
#include <yoke/ops/cast.h>
#include <yoke/ops/elementwise.h>
#include <yoke/ops/embed.h>
#include <yoke/ops/gemm.h>
#include <yoke/ops/loss.h>
#include <yoke/ops/norm.h>
#include <yoke/ops/optim.h>
#include <yoke/ops/rope.h>

/**
 * FAMILY(family, OPS, with) for each family. OPS is the macro that lists the family's ops: OPS(OP) is OP(op)
 * for each of them. `with` is passed on as it is.
 */
#define YOKE_FAMILIES(FAMILY, with)                 \
    FAMILY(gemm, YOKE_GEMM_OPS, with)               \
    FAMILY(norm, YOKE_NORM_OPS, with)               \
    FAMILY(act, YOKE_ACT_OPS, with)                 \
    FAMILY(attention, YOKE_ATTENTION_OPS, with)     \
    FAMILY(embed, YOKE_EMBED_OPS, with)             \
    FAMILY(loss, YOKE_LOSS_OPS, with)               \
    FAMILY(optim, YOKE_OPTIM_OPS, with)             \
    FAMILY(cast, YOKE_CAST_OPS, with)               \
    FAMILY(elementwise, YOKE_ELEMENTWISE_OPS, with) \
    FAMILY(rope, YOKE_ROPE_OPS, with)

/** OP(op) for each op of all families. */
#define YOKE_ALL_OPS(OP) YOKE_FAMILIES(YOKE_OPS_OF_FAMILY, OP)
#define YOKE_OPS_OF_FAMILY(family, OPS, OP) OPS(OP)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of all ops, and the order in which a model uses the ops. */
#include "conform/trial.h"

#include <string.h>

#define ROW(op) [YOKE_OP_##op] = &conform_row_##op,
static const struct conform_row *const rows[YOKE_N_OPS] = { YOKE_ALL_OPS(ROW) };

const struct conform_row *conform_row_of(enum yoke_op_id op) { return rows[op]; }

/* Ops of one place have the order of families.h, and in the backward pass the reverse order. */
static bool comes_before(int a, int b)
{
    const enum conform_place place = rows[a]->place;
    if (place != rows[b]->place) return place < rows[b]->place;
    return place >= BACK_LOSS && place <= BACK_EMBEDDING ? a > b : a < b;
}

static int number_of(int op)
{
    int n = 0;
    for (int other = 0; other < YOKE_N_OPS; other++) n += comes_before(other, op);
    return n;
}

int conform_order(const char *op)
{
    for (int i = 0; i < YOKE_N_OPS; i++)
        if (!strcmp(op, yokei_op_names[i])) return number_of(i);
    return YOKE_N_OPS;
}

enum yoke_op_id conform_op_at(int place)
{
    int op = 0;
    while (number_of(op) != place) op++;
    return (enum yoke_op_id)op;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as text. */
#ifndef TESTS_UNIT_PLAN_TEXT_H
#define TESTS_UNIT_PLAN_TEXT_H

#include "core/base/base.h"
#include "train/files/json.h"
#include "train/plan/run_plan.h"

/* Check the plan, and convert it to one malloc'ed string. */
static inline yoke_status plan_text(const struct yokei_plan *plan, char **text_out)
{
    YOKE_TRY(yokei_plan_check(plan, "plan"));
    return yokei_json_text(&yokei_plan_schema, plan, true, false, text_out);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The step that a plan describes: its pipeline schedule, and the simulated step of all ranks. */
#ifndef CLI_REPORT_PLANNED_H
#define CLI_REPORT_PLANNED_H

#include "cli/report/page.h"
#include "train/plan/run_plan.h"

/** The pipeline schedule with its bubble. Nothing is written without a pipeline. */
void report_schedule_section(struct report_page *page, const struct yokei_plan *plan);
/** The simulated step of all ranks. */
void report_planned_section(struct report_page *page, const struct yokei_plan *plan);

#endif

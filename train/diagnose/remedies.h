/* SPDX-License-Identifier: Apache-2.0 */
/** The causes, each as a change of the model that takes it away. */
#ifndef TRAIN_DIAGNOSE_REMEDIES_H
#define TRAIN_DIAGNOSE_REMEDIES_H

#include "train/diagnose/model.h"

/** Why a rank's passes take longer than its peers' passes, in seconds of a step. */
struct yokei_excess {
    double queued, paging, compile, slow;
    double beside;     /* without a core, because a thread of the rank sums beside its passes */
    double ratio;      /* seconds for the same work, relative to the peers, of which `slow` is the rest */
    bool on_full_host; /* the ranks of its host have more threads than the host has */
};
/** Explain the ranks' times: excess_out [n_ranks]. YOKE_ENOMEM. */
yoke_status yokei_explain_ranks(const struct yokei_facts *facts, struct yokei_excess *excess_out);

/**
 * Change the state so that the cause is gone, and say so in *cause. *applies_out is false if the cause is not
 * there, or nothing can be changed.
 */
typedef yoke_status yokei_remedy(const struct yokei_excess *excess, struct yokei_step_model *state,
                                 struct yokei_cause *cause, bool *applies_out);
struct yokei_remedy_row {
    enum yokei_cause_kind kind;
    double quality; /* how sure the evidence is, 0 to 1 */
    double
        least; /* the least gain that is named, in parts of the step that is left; 0: the threshold alone */
    yokei_remedy *remedy;
};
extern const struct yokei_remedy_row yokei_rank_remedies[], yokei_network_remedies[]; /* ended by NULL */

#endif

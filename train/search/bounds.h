/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Bounds by which the search discards layouts without predicting them. A bound is never above the number that
 * yokei_predict would give. The proofs:
 *
 * Time. Let M be the number of micro-batches of a step, and m the largest number that a replica has, so that
 * m >= M / data. T_s is the time of stage s for a micro-batch (F, B, W and R), and F_s that of F.
 * (1) Work. A kind k of devices has n_k of the layout's slots and takes t_k for a block of a micro-batch. In
 *     a step of X seconds its slots pass at most n_k X / t_k blocks. All M micro-batches pass all blocks, so
 *     X >= M blocks / sum_k (n_k / t_k).
 * (2) Fill and drain. Stage s begins its first F after the first F of all stages before it, and then it
 *     works for m T_s seconds in any order. If each stage does W before it sends the gradient, the stages
 *     before it end their last W after that: stage s - 1 after its B and W, and so on. With C_j = F_j + B_j
 *     + W_j, X >= sum_{j < s} C_j + m T_s. With a schedule that sends early, C_j = F_j. With v chunks C_j is
 *     that of chunk 0, which comes first in F and last in B, and which has at least 1 / v of the blocks.
 *     naive: one micro-batch at a time, so X >= m sum_j (F_j + B_j + W_j).
 * (3) Sums. The sums of a stage's gradients begin at the earliest when its last backward pass begins, which
 *     is that of chunk 0 with (n + v - 1) / v of n blocks at most. With a schedule that sends early they
 *     begin after the B of it, but on the first stage. They carry S bytes one after the other. Between H
 *     hosts, each host sends 2 (H - 1) / H S bytes or more to the others (Patarasuk and Yuan 2009), and half
 *     of it if only slices are summed. All ranks that yokei_count_sharers counts share the host's links.
 *     Stage s begins only after the first F of the stages before it, so X >= sum_{j < s} F_j + m T_s - (B_s
 *     + W_s + R_s of that pass) + the time of these bytes.
 * (4) The optimizer. All stages meet at AGREE, and AdamW of a stage follows. So its time comes on top. With
 *     ZeRO-1 the weights of each stage are gathered one after the other. Their bytes go between the hosts as
 *     half of an all_reduce would send them. A stage takes g_s for the gathers of a block, and within Y
 *     seconds it can gather Y / g_s blocks, so Y >= blocks / sum_s (1 / g_s).
 * (5) Messages. Before its first F, stage s gets a message over all hops before it, and if stages send after
 *     W, the gradients go back over them after its last W. So these times come on top of the sum of (2). A
 *     hop carries m v messages in each direction, one after the other, so X >= m v bytes / rate. With one
 *     chunk a receive is posted when the pass before it is done, and only then its message begins. So a
 *     stage waits for each message but the first: T_s grows by the latency and the bytes of a hop, for F on
 *     all stages but the first, and for B on all but the last. With v chunks a receive is posted one pass
 *     early. So the stage waits where no pass comes between: in each F of the warm-up but the first, in the
 *     F after it, and in as many B at the end. With recomputation R may hide the message of B.
 * (6) Bubble. The bubble of a layout is the mean idle fraction of its stages in X, the longest span of a
 *     stage from its first pass to its last one. If the stages send after W, the first stage begins first
 *     and ends last, so by (2) and (5) it spans sum_{j < s} C_j + m T_s and the messages for every s. With
 *     zb-h1 the last B of stage s comes before the last B of each stage before it, and W of the first stage
 *     comes last. When stage s ends its last B, it has done all its work but W of k = min(s + 1, m)
 *     micro-batches, as the row of the schedule says. So there C_j is F_j + B_j, C_0 also has W_0, and m T_s
 *     - k W_s takes the place of m T_s. A stage alone spans m T_s. With equal stages this is the published
 *     (p - 1) (F + B - W). C_j is at least a_j T_j, and W_s at most w_s T_s: these ratios of a stage with n
 *     blocks lie between those with the least and with the most blocks. A span X allows the largest sum of
 *     all T_s if each stage in turn takes all that X allows: T_s = (X - sum_{j < s} a_j T_j - messages) / (m
 *     - k w_s), at most X / m. A second more of T_j takes at most sum_{s > j} a_j / (m - k w_s) seconds from
 *     all later stages, which is 1 at most, or all a_j are replaced by the least one, with which the sum of
 *     the first stages never shrinks. Let U be an upper bound of the sum of all T_s, and X the span that
 *     allows U. A smaller sum needs a smaller part of its span, because the messages do not shrink, so the
 *     bubble is at least 1 - m U / (p X). If all replicas have the same kinds, the best cut gives another X.
 *     naive: X >= m sum_j (C_j + messages). The bubble falls with m, because more micro-batches take the
 *     same messages each and share one filling. Replicas that are alike get equal shares, and the mean is at
 *     least that of the replica with the least.
 * (7) Shares. Let t_d be the time of a micro-batch on the slowest stage of replica d, and n the number of
 *     units of the batch. The last unit that d gets would end first there, and some replica e has less than
 *     its part x_e = n / sum_i (t_e / t_i) then. So d has at most x_d + max_e t_e / t_d units. The ratios
 *     t_e / t_d lie between the least and the largest ratio of a layer on one stage.
 * All other sums and latencies count as 0, and every stage as if it ran on the fastest kind of its replicas.
 *
 * Memory. The parameters of a stage are at least its parameters / tensor on some rank of each of its tensor
 * groups. At the end of the warm-up a stage holds the stashes of as many micro-batches as its line has F
 * before the first B. These arrays are in memory at the same time, and more comes on top.
 */
#ifndef TRAIN_SEARCH_BOUNDS_H
#define TRAIN_SEARCH_BOUNDS_H

#include "train/search/predict.h"

/**
 * The cuts of a number of blocks into stages. The value of a cut is the maximum over the stages s of
 *     filled_s + m (time_s + n_s time_block_s)  and
 *     forward filled_s + m (time_s + n_s time_block_s) + end_s + n_s end_block_s
 * with filled_s = sum_{j < s} (fill_j + n_j fill_block_j) for n_j blocks on stage j.
 */
struct yokei_cut_problem {
    int stages, n_blocks;
    int least;       /* of blocks on each stage */
    double m, floor; /* floor: no value is below it */
    double forward;  /* at least this part of each fill comes before the first F of the later stages */
    bool adds;       /* naive: all micro-batches fill the stages, one after the other */
    struct yokei_cut_stage {
        double fill, fill_block, time, time_block, end, end_block;
        int most;                      /* of blocks, by memory */
        double have, need, need_block; /* bytes: of the device, of other layers, and of a block */
    } stage[YOKEI_MOST_CUTS];
};
double yokei_cut_value(const struct yokei_cut_problem *problem, const int16_t *blocks);
/**
 * The best cut, and a lower bound of the value of every cut that is at most 1e-5 below the best one's. False:
 * no cut has all stages within `most`. Costs: a table of stages x blocks for each of some 20 values, which is
 * O(stages blocks^2) each. For a value X, the table has for each number of blocks on the first stages the
 * least sum of their fills, with which all these stages stay within X. A smaller sum is never worse. If every
 * cut is above `limit`, the bound is `limit`, which takes two tables, and `blocks_out` has some cut.
 */
bool yokei_cut_best(const struct yokei_cut_problem *problem, double limit, int16_t *blocks_out,
                    double *bound_out);

/**
 * A lower bound of the values of all cuts of n blocks into p stages, if a block costs `time` on every stage
 * and fills `fill` before the later stages. With c_s blocks on stage s, all stages stay within X only if
 * c_s <= (X - fill sum_{j < s} c_j) / (m time). More blocks on an earlier stage leave room for fewer blocks
 * on the later ones, but not for fewer together, because fill <= m time. So the largest sum of blocks within
 * X has equality everywhere, which makes it X / fill (1 - (1 - fill / (m time))^p). It must be at least n.
 */
double yokei_bound_equal(int n, int p, double m, double time, double fill);

/** The numbers of a model on which bounds of memory build. */
struct yokei_model_sizes {
    int n_blocks;
    double matrices[3],
        vectors[3]; /* elements of the layers before the blocks, of a block, and behind them */
};
void yokei_model_sizes(const yoke_model *model, struct yokei_model_sizes *sizes_out);
/** The least bytes of a parameter element's weight, gradient and moments on a rank. */
double yokei_bytes_of_element(yoke_dtype precision, bool is_matrix, int zero, int data);
/** The least bytes that F of a block leaves until B on a rank; 0 if the whole block is computed again. */
yoke_status yokei_stash_of_block(const struct yokei_predict_config *config, const struct yokei_layout *layout,
                                 double *bytes_out);
/**
 * Make the problem of the cuts of a layout. Its value is the larger one of the bounds (2) and (3). `slots`
 * are those of the layout. With `slowest` every stage counts as its slowest kind, which is no bound, but
 * gives a good first cut.
 */
yoke_status yokei_bound_cuts(yokei_predictor *predictor, const struct yokei_predict_config *config,
                             const struct yokei_layout *layout, const struct yokei_model_sizes *sizes,
                             const struct yokei_slot_place *slots, bool slowest,
                             struct yokei_cut_problem *problem_out);
/** What the bound of a mesh needs of the hosts; it depends on the width of the tensor groups alone. */
struct yokei_host_links {
    double fastest; /* bytes per second between two hosts for one tensor rank, at most */
    int most_slots; /* of a host */
};
void yokei_host_links_of(const struct yokei_cluster *cluster, int tensor, struct yokei_host_links *links_out);
/**
 * A bound of all settings of a mesh: (1), (4), and (2) and (3) with the fastest kind, with the schedule and
 * the recomputation that have the lowest bounds, and with as few hosts for the replicas of a stage as there
 * can be. It costs O(kinds). `slots_of_kind` are the slots of the layout's kinds that it uses.
 */
yoke_status yokei_bound_mesh(yokei_predictor *predictor, const struct yokei_predict_config *config,
                             const struct yokei_layout *layout, const struct yokei_model_sizes *sizes,
                             const struct yokei_host_links *links, const int *slots_of_kind,
                             double *seconds_out);
/**
 * A bound for replicas on different kinds. A replica that gets k micro-batches takes at least V(k), the
 * larger of k times the best slowest stage of its own kinds, and of the bounds (2) and (3) for the best cut
 * into its stages, whose parts of blocks need not be whole. As in yokei_bound_equal, this cut fills each
 * stage in turn as far as X allows, with the least fill of all stages. The step lasts X only if the replicas
 * can take all M micro-batches within X: the sum over the replicas of the largest k with V(k) <= X must be M
 * or more. X is found by bisection, from below. If it is above `limit`, the bound is `limit`, which takes one
 * turn of the bisection.
 */
yoke_status yokei_bound_shares(yokei_predictor *predictor, const struct yokei_predict_config *config,
                               const struct yokei_layout *layout, const struct yokei_model_sizes *sizes,
                               const struct yokei_slot_place *slots, double limit, double *seconds_out);
/** The bounds (1) and (4). */
yoke_status yokei_bound_work(yokei_predictor *predictor, const struct yokei_predict_config *config,
                             const struct yokei_layout *layout, const struct yokei_model_sizes *sizes,
                             const int *slots_of_kind, double *seconds_out);
/** The bound (6) of all cuts of a setting. 0 without stages. */
yoke_status yokei_bound_bubble(yokei_predictor *predictor, const struct yokei_predict_config *config,
                               const struct yokei_layout *layout, const struct yokei_model_sizes *sizes,
                               const struct yokei_slot_place *slots, double *fraction_out);
/**
 * The problem of the cuts whose value is a lower bound of the longest span, by (6). *busy_out: the stages of
 * a replica work at most this long together, so that the bubble of a cut with span X is at least
 * 1 - *busy_out / (stages X). 0: replicas are on different kinds, or there are no stages.
 */
yoke_status yokei_bound_bubble_cuts(yokei_predictor *predictor, const struct yokei_predict_config *config,
                                    const struct yokei_layout *layout, const struct yokei_model_sizes *sizes,
                                    const struct yokei_slot_place *slots,
                                    struct yokei_cut_problem *problem_out, double *busy_out);
/** The bound (6) of all settings of a mesh, with the worst ratios of its kinds and without messages. */
yoke_status yokei_bound_bubble_mesh(yokei_predictor *predictor, const struct yokei_predict_config *config,
                                    const struct yokei_layout *mesh, const struct yokei_model_sizes *sizes,
                                    const int *slots_of_kind, double *fraction_out);
/** `slots` are those of the layout; NULL: they are not known, and the gathers count as 0. */
yoke_status yokei_bound_optimizer(const struct yokei_predict_config *config,
                                  const struct yokei_layout *layout, const struct yokei_model_sizes *sizes,
                                  const int *slots_of_kind, const struct yokei_slot_place *slots,
                                  double *seconds_out);

#endif

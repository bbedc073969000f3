/* SPDX-License-Identifier: Apache-2.0 */
/** How the ranks divide sums: shares.c. */
#ifndef COLLECTIVES_CHOICE_SHARES_H
#define COLLECTIVES_CHOICE_SHARES_H

#include "collectives/ground/comm.h"

yoke_status yokei_shares_begin(yoke_comm *comm); /* allocates the arrays; at first the shares are equal */
void yokei_shares_end(yoke_comm *comm);
/** Read the shares from the configuration's text, else from YOKE_SUM_SHARES. */
yoke_status yokei_shares_read(yoke_comm *comm, const char *text);
/** A hash of the shares that were read; 0: none were. */
uint32_t yokei_shares_hash(const yoke_comm *comm);
/**
 * Compute the slices once the ranks and hosts are known. They follow the shares that were read, else the
 * speeds in sixteenths. With speeds NULL they are equal. The lock is held.
 */
void yokei_shares_settle(yoke_comm *comm, const uint32_t speeds[]);
/**
 * Take the shares that the configuration gives, else the shares that the members had in `parent`. The lock is
 * held.
 */
void yokei_shares_inherit(yoke_comm *comm, const yoke_comm *parent);
/** The shares in the form of the configuration; "" if the text is too long. */
void yokei_shares_text(const yoke_comm *comm, char *text_out, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How many bytes the communicators of the process hold. */
#include "collectives/ground/process.h"

static _Atomic size_t held;

void yokei_hold(size_t bytes) { atomic_fetch_add(&held, bytes); }
void yokei_let_go(size_t bytes) { atomic_fetch_sub(&held, bytes); }
size_t yokei_held(void) { return atomic_load(&held); }

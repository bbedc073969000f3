/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include "parallel/balance.h"

void yokei_balance(const double *speeds, int n, int64_t batch, int64_t *shares_out)
{
    memset(shares_out, 0, (size_t)n * sizeof *shares_out);
    for (int64_t i = 0; i < batch; i++) {
        int best = 0;
        for (int r = 1; r < n; r++) /* (share + 1) / speed, without the division */
            if ((double)(shares_out[r] + 1) * speeds[best] < (double)(shares_out[best] + 1) * speeds[r]) best = r;
        shares_out[best]++;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a work still takes. The speed is the mean over the later half of the work, or over the later half
 * of the time, whichever began later. So a slow start (compilation) or a fast one (work that was done before)
 * is soon forgotten, and single parts count little.
 */
#include <math.h>

#include "cli/options/progress.h"
#include "core/base/base.h"

/* Before this time and this number of looks that found more there is no estimate. */
static const double LEAST_SECONDS = 1;
enum { LEAST_STEPS = 2 };
/* If a part takes more than this many times the mean of the parts before it, nothing is known of its end. */
static const double MOST_TIMES = 6;

void cli_estimate_begin(struct cli_estimate *e, double now)
{
    *e = (struct cli_estimate){ .begun = now, .at = now, .from_at = now, .next_at = now };
}

void cli_estimate_look(struct cli_estimate *e, double now, double done)
{
    if (!(done >= 0) || !isfinite(done)) return;
    if (done < e->done) cli_estimate_begin(e, now); /* another work, or the same once more */
    if (!(done > e->done)) return;
    e->step = done - e->done;
    e->at = now;
    e->done = done;
    e->n_steps++;
    if (done < 2 * e->next_done && now - e->begun < 2 * (e->next_at - e->begun)) return;
    e->from_at = e->next_at, e->from_done = e->next_done;
    e->next_at = now, e->next_done = done;
}

double cli_estimate_left(const struct cli_estimate *e, double now, double total)
{
    const double done = e->done - e->from_done, left = total - e->done, since = now - e->at;
    if (!(total > 0) || !isfinite(total) || !(done > 0)) return -1;
    if (now - e->begun < LEAST_SECONDS || e->n_steps < LEAST_STEPS) return -1;
    if (!(left > 0)) return 0;
    const double mean = (e->at - e->from_at) / done;
    if (since > MOST_TIMES * mean * e->step + 1) return -1; /* the present part is unlike those before it */
    const double behind = fmax(left - e->step, 0),          /* what is left behind the present part */
        slower = (now - e->from_at) / (done + e->step);     /* if the present part ended now */
    const double seconds = fmax(left * mean - since, behind * fmax(mean, slower));
    const double overdue = since - mean * e->step; /* of the present part */
    return isfinite(seconds) && overdue <= seconds + 1 ? seconds : -1;
}

void cli_time_left_text(double seconds, char *out, size_t bytes)
{
    const double minutes = seconds / 60, hours = minutes / 60;
    if (!(seconds >= 0) || hours > 24 * 365)
        yokei_text(out, bytes, "%s", "");
    else if (seconds < 8)
        yokei_text(out, bytes, "a few seconds left");
    else if (seconds <= 55)
        yokei_text(out, bytes, "about %.0f s left", 5 * ceil(seconds / 5));
    else if (minutes < 59.5)
        yokei_text(out, bytes, "about %.0f min left", fmax(round(minutes), 1));
    else if (hours < 3) { /* to ten minutes */
        const int tens = (int)round(minutes / 10);
        yokei_text(out, bytes, "about %d h %d min left", tens / 6, tens % 6 * 10);
    } else if (hours < 48)
        yokei_text(out, bytes, "about %.0f h left", round(hours));
    else
        yokei_text(out, bytes, "about %.0f days left", round(hours / 24));
}

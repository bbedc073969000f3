/* SPDX-License-Identifier: Apache-2.0 */
#include "train/text/skips.h"

#include <string.h>

#include "core/base/base.h"

/* Read a number of at most 15 digits. False: there is none. */
static bool read_number(const char **at, int64_t *number_out)
{
    const size_t digits = strspn(*at, "0123456789");
    *number_out = 0;
    if (digits < 1 || digits > 15) return false;
    for (size_t i = 0; i < digits; i++) *number_out = *number_out * 10 + ((*at)[i] - '0');
    *at += digits;
    return true;
}

yoke_status yokei_skips_add(const char *what, struct yokei_skips *s, int64_t first, int64_t last)
{
    int begin = 0, end, kept;
    if (first < 0 || last < first || last > YOKEI_SKIPS_LAST)
        return yoke_fail(YOKE_ECONFIG,
                         "%s: %lld-%lld is no range of samples: give the lower number first, and no number "
                         "above %lld",
                         what, (long long)first, (long long)last, (long long)YOKEI_SKIPS_LAST);
    while (begin < s->n && s->last[begin] + 1 < first) begin++;
    for (end = begin; end < s->n && s->first[end] <= last + 1; end++) continue;
    if (begin < end) { /* ranges [begin, end) touch the new one */
        first = YOKE_MIN(first, s->first[begin]);
        last = YOKE_MAX(last, s->last[end - 1]);
    }
    kept = s->n - end;
    if (begin + 1 + kept > YOKEI_SKIPS_MOST)
        return yoke_fail(YOKE_ECONFIG,
                         "%s: more than %d ranges of samples: join ranges that lie close to each other", what,
                         YOKEI_SKIPS_MOST);
    memmove(s->first + begin + 1, s->first + end, (size_t)kept * sizeof *s->first);
    memmove(s->last + begin + 1, s->last + end, (size_t)kept * sizeof *s->last);
    s->first[begin] = first;
    s->last[begin] = last;
    s->n = begin + 1 + kept;
    return YOKE_OK;
}

yoke_status yokei_skips_parse(const char *what, const char *text, struct yokei_skips *skips_out)
{
    const char *at = text;
    memset(skips_out, 0, sizeof *skips_out);
    while (*at) {
        int64_t first, last;
        bool is_range = read_number(&at, &first);
        last = first;
        if (is_range && *at == '-') {
            at++;
            is_range = read_number(&at, &last);
        }
        if (is_range && *at == ',')
            is_range = *++at != 0;
        else
            is_range = is_range && !*at;
        if (!is_range)
            return yoke_fail(YOKE_ECONFIG,
                             "%s is \"%.100s\": give numbers of samples, of at most 15 digits, such as "
                             "1176-1179,1200",
                             what, text);
        YOKE_TRY(yokei_skips_add(what, skips_out, first, last));
    }
    return YOKE_OK;
}

void yokei_skips_text(const struct yokei_skips *s, char text_out[YOKEI_SKIPS_BYTES])
{
    size_t at = 0;
    text_out[0] = 0;
    for (int i = 0; i < s->n; i++) {
        yokei_text(text_out + at, YOKEI_SKIPS_BYTES - at, "%s%lld", i ? "," : "", (long long)s->first[i]);
        at += strlen(text_out + at);
        if (s->last[i] == s->first[i]) continue;
        yokei_text(text_out + at, YOKEI_SKIPS_BYTES - at, "-%lld", (long long)s->last[i]);
        at += strlen(text_out + at);
    }
}

int64_t yokei_skips_nth(const struct yokei_skips *s, int64_t first, int64_t i)
{
    for (int k = 0; k < s->n && s->first[k] <= first + i; k++) {
        if (s->last[k] < first) continue;
        if (s->first[k] > first) i -= s->first[k] - first;
        first = s->last[k] + 1;
    }
    return first + i;
}

int64_t yokei_skips_below(const struct yokei_skips *s, int64_t end)
{
    int64_t n = 0;
    for (int k = 0; k < s->n && s->first[k] < end; k++) n += YOKE_MIN(s->last[k] + 1, end) - s->first[k];
    return n;
}

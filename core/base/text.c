/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for short texts. */
#include "core/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void yokei_text(char *target, size_t bytes, const char *format, ...)
{
    if (!bytes) return;
    va_list args;
    va_start(args, format);
    if (vsnprintf(target, bytes, format, args) < 0) target[0] = 0;
    va_end(args);
}

/* The length of the first part of a list with commas. */
static size_t part_of(const char *list) { return strcspn(list, ","); }

static bool is_capability(const char *text)
{
    char major[3], minor[2];
    int n = 0;
    return sscanf(text, "%2[0-9].%1[0-9]%n", major, minor, &n) == 2 && !text[n] && atoi(major) > 0;
}

/* "gfx" and three to five characters of a processor's name, such as gfx90a. */
static bool is_processor(const char *text)
{
    const size_t n = strlen(text);
    return !strncmp(text, "gfx", 3) && n >= 6 && n <= 8 && strspn(text + 3, "0123456789abcdef") == n - 3;
}

bool yokei_is_emulation(const char *text)
{
    static const struct {
        const char *vendor;
        bool (*is_right)(const char *text);
    } vendors[] = { { "cuda:", is_capability }, { "hip:", is_processor } };
    bool seen[YOKE_COUNT(vendors)] = { false };
    for (;; text++) {
        char part[32];
        size_t i = 0;
        yokei_text(part, sizeof part, "%.*s", (int)YOKE_MIN(part_of(text), sizeof part - 1), text);
        while (i < YOKE_COUNT(vendors) && strncmp(part, vendors[i].vendor, strlen(vendors[i].vendor)) != 0)
            i++;
        if (i == YOKE_COUNT(vendors) || seen[i] || part_of(text) >= sizeof part
            || !vendors[i].is_right(part + strlen(vendors[i].vendor)))
            return false;
        seen[i] = true;
        text += part_of(text);
        if (!*text) return true;
    }
}

bool yokei_emulated(const char *vendor, char *text_out, size_t bytes)
{
    const char *at = getenv("YOKE_EMULATE");
    const size_t n = strlen(vendor);
    for (; at && *at; at += part_of(at), at += *at == ',')
        if (!strncmp(at, vendor, n) && at[n] == ':') {
            yokei_text(text_out, bytes, "%.*s", (int)(part_of(at) - n - 1), at + n + 1);
            return true;
        }
    return false;
}

/*
 * The Damerau-Levenshtein distance (a swap of neighbours counts one). Case is ignored, and long words are
 * cut.
 */
static int distance(const char *a, const char *b)
{
    enum { MOST = 63 };
    const int n = (int)YOKE_MIN(strlen(a), (size_t)MOST), m = (int)YOKE_MIN(strlen(b), (size_t)MOST);
    unsigned char row[3][MOST + 1];
    unsigned char *before = row[0], *last = row[1], *now = row[2];
    for (int j = 0; j <= m; j++) last[j] = (unsigned char)j;
    for (int i = 1; i <= n; i++) {
        now[0] = (unsigned char)i;
        for (int j = 1; j <= m; j++) {
            const int differ = strncasecmp(a + i - 1, b + j - 1, 1) != 0;
            int best = YOKE_MIN(YOKE_MIN(last[j] + 1, now[j - 1] + 1), last[j - 1] + differ);
            if (i > 1 && j > 1 && differ && !strncasecmp(a + i - 1, b + j - 2, 1)
                && !strncasecmp(a + i - 2, b + j - 1, 1))
                best = YOKE_MIN(best, before[j - 2] + 1);
            now[j] = (unsigned char)best;
        }
        unsigned char *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[m];
}

const char *yokei_nearest(const char *word, const char *const names[])
{
    const char *best = NULL;
    int least = (int)strlen(word) / 3 + 2; /* a name farther away is no help */
    for (size_t i = 0; names[i]; i++) {
        const int d = distance(word, names[i]);
        if (d < least) least = d, best = names[i];
    }
    return best;
}

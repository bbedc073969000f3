/* SPDX-License-Identifier: Apache-2.0 */
/* What a path of the command line is, by its name and the beginning of its text. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report/report.h"
#include "core/base/base.h"

/* Each of these files has its word near its beginning. */
static const struct {
    const char *word;
    enum report_kind kind;
} words[] = {
    { "\"traceEvents\"", REPORT_TIMELINE },
    { "\"displayTimeUnit\"", REPORT_TIMELINE },
    { "\"data_hash\"", REPORT_PLAN },
};

static bool has_end(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n > m && !strcmp(path + n - m, end);
}

/* Whether a text has this word as a key. A result of yoke compare has the key of a plan as a value. */
static bool has_key(const char *text, const char *word)
{
    for (const char *at = text; (at = strstr(at, word)); at++) {
        const char *behind = at + strlen(word);
        if (behind[strspn(behind, " \t\r\n")] == ':') return true;
    }
    return false;
}

enum report_kind report_kind_of(const char *path)
{
    enum { LOOK = 65536 };
    enum report_kind kind = REPORT_OTHER;
    int fd;
    size_t bytes = 0;
    if (yokei_is_folder(path)) return REPORT_RUN;
    if (has_end(path, "plan.json")) return REPORT_PLAN;
    if (has_end(path, ".yaml") || has_end(path, ".yml")) return REPORT_CONFIG;
    if (yokei_file_open(path, YOKE_EDATA, &fd, &bytes)) return REPORT_OTHER;
    char *text = malloc(LOOK + 1);
    const ssize_t got = text ? read(fd, text, YOKE_MIN(bytes, (size_t)LOOK)) : 0;
    close(fd);
    if (text) text[got > 0 ? got : 0] = '\0';
    for (size_t i = 0; i < YOKE_COUNT(words) && kind == REPORT_OTHER && text; i++)
        if (has_key(text, words[i].word)) kind = words[i].kind;
    free(text);
    return kind;
}

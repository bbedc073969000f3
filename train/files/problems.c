/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"

void yokei_problem(struct yokei_problems *p, const char *format, ...)
{
    va_list args;
    char line[600];
    p->n++;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t length = strlen(line);
    if (p->used + length + 3 >= sizeof p->text) return;
    yokei_text(p->text + p->used, sizeof p->text - p->used, "\n  %s", line);
    p->used += length + 3;
}

yoke_status yokei_problems_end(const struct yokei_problems *p, const char *path)
{
    int shown = 0;
    for (const char *c = p->text; *c; c++) shown += *c == '\n';
    if (p->n == 0) return YOKE_OK;
    if (p->n == 1) return yoke_fail(YOKE_EDATA, "%s:%s", path, p->text + 2);
    char more[64] = "";
    if (shown < p->n) yokei_text(more, sizeof more, "\n  and %d more", p->n - shown);
    return yoke_fail(YOKE_EDATA, "%s: %d problems:%s%s", path, p->n, p->text, more);
}

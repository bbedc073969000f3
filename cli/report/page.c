/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/report/lanes.h"

/*
 * The colours of Okabe and Ito, which people with each kind of colour blindness can tell apart. The light
 * ones are darker on a light ground, so that each has a contrast of at least 3 to the ground.
 */
static const char STYLE[] =
    ":root{color-scheme:light dark;--ground:#fff;--text:#1a1a1a;--soft:#595959;--line:#c8c8c8;--code:#f2f2f2;"
    "--c0:#0072b2;--c1:#d55e00;--c2:#00795a;--c3:#b04a86;--c4:#9a6a00;--c5:#2b83b8;--c6:#767676}\n"
    "@media (prefers-color-scheme:dark){:root{--ground:#16181b;--text:#ececec;--soft:#b4b4b4;--line:#4a4d52;"
    "--code:#24272b;--c0:#56b4e9;--c1:#ff8a3c;--c2:#2fc49a;--c3:#e093c0;--c4:#e69f00;--c5:#8cc8f0;"
    "--c6:#a0a0a0}}\n"
    "@media print{:root{--ground:#fff;--text:#000;--soft:#444;--line:#bbb;--code:#f2f2f2;--c0:#0072b2;"
    "--c1:#d55e00;--c2:#00795a;--c3:#b04a86;--c4:#9a6a00;--c5:#2b83b8;--c6:#767676}}\n"
    "@page{size:A4;margin:15mm}\n"
    "body{margin:0 auto;padding:0 1rem 2rem;max-width:75rem;background:var(--ground);color:var(--text);"
    "font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.7rem;line-height:1.2;margin:1.5rem 0 1rem}"
    "h2{font-size:1.2rem;margin:2.2rem 0 .8rem;padding-top:.8rem;border-top:1px solid var(--line)}"
    "h1+h2{border:0;margin-top:0;padding:0}\n"
    /* the result, which comes first */
    "h1+h2+ul{background:var(--code);border-left:.3rem solid var(--c0);border-radius:.3rem;margin:0;"
    "padding:.7rem 1rem .7rem 2rem}h1+h2+ul li{margin:.15rem 0}\n"
    ".charts{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}\n"
    "figure{margin:0;max-width:42rem;padding:.7rem .8rem;border:1px solid var(--line);border-radius:.4rem}"
    "figure.wide{max-width:none}"
    "figcaption{font-weight:600;line-height:1.35;margin-bottom:.3rem}svg{width:100%;height:auto;display:block}\n"
    "svg text{font:12px system-ui,sans-serif;fill:var(--text)}svg .soft{fill:var(--soft)}\n"
    "svg .axis{stroke:var(--line);fill:none}svg .curve{fill:none;stroke-width:1.6;stroke-linejoin:round}\n"
    "svg .faint{stroke-width:1;opacity:.45}svg rect{stroke:var(--ground);stroke-width:.6}"
    "svg .limit{stroke:var(--text);stroke-width:2;fill:none}\n"
    "@media (max-width:30rem){svg text{font-size:15px}}@media (min-width:60rem){.wide svg text{font-size:7px}}\n"
    ".key{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;padding:0;margin:.2rem 0}\n"
    ".key svg{width:1.6em;height:.8em;display:inline-block;margin-right:.3em}\n"
    ".scroll{overflow-x:auto;margin:.6rem 0}table{border-collapse:collapse;font-variant-numeric:tabular-nums;"
    "font-size:.94rem}thead th{border-bottom:2px solid var(--line)}tbody tr:nth-child(even){background:var(--code)}\n"
    "th,td{border-bottom:1px solid var(--line);padding:.2rem .6rem;text-align:left;vertical-align:top;"
    "max-width:24rem;overflow-wrap:break-word}\n"
    "td.n{text-align:right;white-space:nowrap}th.n{text-align:right}summary{cursor:pointer;margin:.6rem 0}\n"
    "pre{background:var(--code);padding:.6rem .8rem;border-radius:.3rem;white-space:pre-wrap}\n"
    "@media print{figure,tr{break-inside:avoid}h2{break-after:avoid}.scroll{overflow:visible}"
    "body{font-size:10pt;padding:0}th,td{padding:.1rem .3rem}"
    "details:not([open])>summary::after{content:\" is left out. Open it before you print.\"}}\n"
    /* charts of lanes, and their zoom */
    ".k0{fill:var(--c0)}.k1{fill:var(--c1)}.k2{fill:var(--c2)}.k3{fill:var(--c3)}.k4{fill:var(--c4)}"
    ".k5{fill:var(--c5)}.k6{fill:var(--c6)}\n"
    ".view rect,.view path{vector-effect:non-scaling-stroke}"
    "svg text.in{fill:var(--ground);font-size:12px;pointer-events:none}\n"
    "svg.lanes{cursor:grab;touch-action:pan-y}.zoom button{font:inherit;margin:.2rem .4rem .2rem 0;"
    "padding:.1rem .7rem;color:var(--text);background:var(--code);border:1px solid var(--line)}\n"
    "@media (min-width:60rem){.wide svg text.in{font-size:7px}}"
    "@media (max-width:30rem){svg text.in{font-size:14px}}@media print{.zoom{display:none}}\n";

void report_begin(struct report_page *page, const char *title)
{
    if (page->markdown) {
        fputs("# ", page->to);
        report_put(page, title);
        fputs("\n\n", page->to);
        return;
    }
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"/>\n",
          page->to);
    fprintf(page->to, "<meta http-equiv=\"Content-Security-Policy\" content=\"%s\"/>\n<title>", zoom_policy);
    report_put(page, title);
    fprintf(page->to, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", STYLE);
    report_put(page, title);
    fputs("</h1>\n", page->to);
}

void report_end(struct report_page *page)
{
    if (page->markdown) return;
    if (page->zooms) fprintf(page->to, "<script>%s</script>\n", zoom_script);
    fputs("</body>\n</html>\n", page->to);
}

/* ---- text ---- */

static void put_html(const char *text, FILE *to)
{
    for (; *text; text++) {
        switch (*text) {
        case '<': fputs("&lt;", to); break;
        case '>': fputs("&gt;", to); break;
        case '&': fputs("&amp;", to); break;
        case '"': fputs("&quot;", to); break;
        case '\'': fputs("&#39;", to); break;
        default: fputc(*text, to);
        }
    }
}

/* In a table a line has no end, and no character begins markup. */
static void put_markdown(const char *text, FILE *to)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", to);
        else if (*text == '&')
            fputs("&amp;", to);
        else if (*text == '\n' || *text == '\t')
            fputc(' ', to);
        else {
            if (strchr("\\`*_[]|#~$!>", *text)) fputc('\\', to);
            fputc(*text, to);
        }
    }
}

void report_put(struct report_page *page, const char *text)
{
    char *printable = cli_printable(text);
    if (!printable) {
        fputs("(no memory)", page->to);
        return;
    }
    /* XML has no U+FFFE and no U+FFFF, and UTF-8 has them as EF BF BE and EF BF BF */
    for (char *at = printable; (at = strstr(at, "\xef\xbf")); at += 2)
        if ((unsigned char)at[2] >= 0xbe) memcpy(at, "???", 3);
    if (page->markdown)
        put_markdown(printable, page->to);
    else
        put_html(printable, page->to);
    free(printable);
}

static void put_list(struct report_page *page, const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0) return;
    report_put(page, text);
    free(text);
}

static void between(struct report_page *page, const char *html_before, const char *markdown_before,
                    const char *text, const char *html_after, const char *markdown_after)
{
    fputs(page->markdown ? markdown_before : html_before, page->to);
    report_put(page, text);
    fputs(page->markdown ? markdown_after : html_after, page->to);
}

void report_heading(struct report_page *page, const char *text)
{
    between(page, "<h2>", "## ", text, "</h2>\n", "\n\n");
}

void report_paragraph(struct report_page *page, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs(page->markdown ? "" : "<p>", page->to);
    put_list(page, format, args);
    fputs(page->markdown ? "\n\n" : "</p>\n", page->to);
    va_end(args);
}

void report_list_begin(struct report_page *page) { fputs(page->markdown ? "" : "<ul>\n", page->to); }

void report_item(struct report_page *page, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs(page->markdown ? "- " : "<li>", page->to);
    put_list(page, format, args);
    fputs(page->markdown ? "\n" : "</li>\n", page->to);
    va_end(args);
}

void report_list_end(struct report_page *page) { fputs(page->markdown ? "\n" : "</ul>\n", page->to); }

/* In Markdown the four blanks make code, in which nothing is markup. */
void report_command(struct report_page *page, const char *text)
{
    if (!page->markdown) {
        between(page, "<pre>", "", text, "</pre>\n", "");
        return;
    }
    char *printable = cli_printable(text);
    fprintf(page->to, "    %s\n\n", printable ? printable : "(no memory)");
    free(printable);
}

/* ---- tables ---- */

/*
 * The rows of a table are collected, because what stands before them depends on them: a long table is folded,
 * and the head of a column of numbers stands at its right, as the numbers do.
 */
void report_table_begin(struct report_page *page, const char *const heads[], int n_heads)
{
    struct report_table *t = &page->table;
    *t = (struct report_table){ .to = page->to };
    t->heads = calloc((size_t)n_heads, sizeof *t->heads);
    for (int i = 0; i < n_heads && t->heads; i++) t->heads[t->n_heads++] = strdup(heads[i]);
    FILE *rows = open_memstream(&t->rows, &t->bytes);
    if (rows) page->to = rows;
}

/* Whether the first row has a number in this column. In the page's own markup, "<" only begins tags. */
static bool is_number(const char *rows, int column)
{
    const char *cell = rows ? strstr(rows, "<td") : NULL;
    for (int i = 0; i < column && cell; i++) cell = strstr(cell + 1, "<td");
    return cell && !strncmp(cell, "<td class=\"n\"", 13);
}

/* The name of a table. */
static void put_first_heads(struct report_page *page, const struct report_table *t)
{
    for (int i = 0; i < t->n_heads && i < 4; i++)
        between(page, i ? ", " : "", "", t->heads[i] ? t->heads[i] : "", "", "");
}

static void put_heads(struct report_page *page, const struct report_table *t)
{
    fputs(page->markdown ? "|" : "<table>\n<thead><tr>", page->to);
    for (int i = 0; i < t->n_heads; i++)
        between(page, is_number(t->rows, i) ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">", " ",
                t->heads[i] ? t->heads[i] : "(no memory)", "</th>", " |");
    fputs(page->markdown ? "\n|" : "</tr></thead>\n<tbody>\n", page->to);
    for (int i = 0; i < t->n_heads && page->markdown; i++) fputs("---|", page->to);
    if (page->markdown) fputc('\n', page->to);
}

void report_table_end(struct report_page *page)
{
    struct report_table *t = &page->table;
    const bool is_long = t->n_rows > REPORT_MOST_ROWS && !page->markdown;
    if (page->to != t->to && fclose(page->to) != 0) t->bytes = 0;
    page->to = t->to;
    if (is_long) {
        fprintf(page->to, "<details>\n<summary>A table of %d rows: ", t->n_rows);
        put_first_heads(page, t);
        fputs("</summary>\n", page->to);
    }
    /* A region that scrolls takes the focus of the keyboard, so it needs a name. */
    if (!page->markdown)
        fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table: ", page->to);
    if (!page->markdown) put_first_heads(page, t);
    if (!page->markdown) fputs("\">\n", page->to);
    put_heads(page, t);
    fwrite(t->rows, 1, t->bytes, page->to);
    fputs(page->markdown ? "\n" : "</tbody>\n</table>\n</div>\n", page->to);
    if (is_long) fputs("</details>\n", page->to);
    for (int i = 0; i < t->n_heads; i++) free(t->heads[i]);
    free(t->heads);
    free(t->rows);
    *t = (struct report_table){ .to = NULL };
}

void report_row_begin(struct report_page *page)
{
    page->table.n_rows++;
    fputs(page->markdown ? "|" : "<tr>", page->to);
}

void report_cell(struct report_page *page, const char *text)
{
    between(page, "<td>", " ", text, "</td>", " |");
}

void report_number(struct report_page *page, double value, const char *format)
{
    char text[64];
    if (!isfinite(value)) {
        fputs(page->markdown ? " - |" : "<td class=\"n\">-</td>", page->to);
        return;
    }
    snprintf(text, sizeof text, format, value);
    if (page->markdown)
        fprintf(page->to, " %s |", text);
    else
        fprintf(page->to, "<td class=\"n\"><data value=\"%.17g\">%s</data></td>", value, text);
}

void report_row_end(struct report_page *page) { fputs(page->markdown ? "\n" : "</tr>\n", page->to); }

void report_charts_begin(struct report_page *page)
{
    if (!page->markdown) fputs("<div class=\"charts\">\n", page->to);
}

void report_charts_end(struct report_page *page)
{
    if (!page->markdown) fputs("</div>\n", page->to);
}

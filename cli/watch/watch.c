/* SPDX-License-Identifier: Apache-2.0 */
/* yoke watch: look at the run again and again, and show what is new. */
#include "cli/watch/watch.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"

/* OFTEN, RARELY: seconds between two looks. LINE: seconds of a run for which a log gets one line. */
static const double OFTEN = 0.25, RARELY = 2, LINE = 10;

/* Seconds until the next look: a quarter of a step. */
static double pause_of(const struct watch_follower *f)
{
    const double step = watch_step_seconds(&f->history);
    return isfinite(step) ? fmin(RARELY, fmax(OFTEN, step / 4)) : OFTEN;
}

/* ---- what the terminal can show ---- */

static bool is_set(const char *name)
{
    const char *text = getenv(name);
    return text && *text;
}

/* Whether the user's language says that text is UTF-8. The locale itself need not be installed here. */
static bool has_utf8(void)
{
    const char *text = is_set("LC_ALL")     ? getenv("LC_ALL")
                       : is_set("LC_CTYPE") ? getenv("LC_CTYPE")
                                            : getenv("LANG");
    return text && (strcasestr(text, "utf-8") || strcasestr(text, "utf8"));
}

static bool can_draw(void) { return isatty(STDOUT_FILENO) && is_set("TERM") && !cli_terminal_is_dumb(); }

/* ---- ends ---- */

static yoke_status end_of(const struct watch_follower *f, const struct watch_ending *e)
{
    if (e->fate != WATCH_FAILED && e->fate != WATCH_DELETED) return YOKE_OK;
    return yoke_fail(e->status, "%s: %s%s", f->folder, e->fate == WATCH_FAILED ? "the run failed: " : "",
                     e->text);
}

static void print_view(const struct watch_view *view, bool colours)
{
    for (int i = 0; i < view->n; i++) {
        const char *style = !colours ? "" : view->lines[i].style == WATCH_PLAIN ? "" : "\033[1m";
        printf("%s%s%s\n", style, view->lines[i].text, *style ? "\033[0m" : "");
    }
}

/* ---- one view ---- */

static yoke_status show_once(struct watch_follower *f)
{
    struct watch_view view = { .columns = cli_out_columns(), .utf8 = has_utf8() };
    struct watch_ending e = { .fate = WATCH_WAITING };
    do YOKE_TRY(watch_follow(f));
    while (f->behind);
    if (!f->is_there) return yoke_fail(YOKE_EDATA, "%s: there is no such run directory", f->folder);
    watch_conclude(f, &e);
    const yoke_status status = watch_view_make(&view, f, &e);
    if (!status) print_view(&view, can_draw() && !is_set("NO_COLOR"));
    watch_view_free(&view);
    return status;
}

/* ---- a terminal ---- */

static yoke_status draw(struct watch_follower *f, struct watch_ending *e, bool *gone_out)
{
    struct watch_view view = { .utf8 = has_utf8() };
    watch_screen_size(&view.columns, &view.rows);
    watch_conclude(f, e);
    const yoke_status status = watch_view_make(&view, f, e);
    *gone_out = !status && !watch_screen_draw(&view, !is_set("NO_COLOR"));
    watch_view_free(&view);
    return status;
}

/* The last view stays on the terminal after the end. */
static yoke_status leave_view(struct watch_follower *f, struct watch_ending *e)
{
    struct watch_view view = { .utf8 = has_utf8() };
    watch_screen_size(&view.columns, &view.rows);
    const yoke_status status = watch_view_make(&view, f, e);
    if (!status) print_view(&view, !is_set("NO_COLOR"));
    watch_view_free(&view);
    return status;
}

/* End by a signal, so that the shell knows. */
static void end_by(int signal_number)
{
    sigset_t set;
    fflush(stdout);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    sigemptyset(&set);
    sigaddset(&set, signal_number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static yoke_status show_live(struct watch_follower *f)
{
    struct watch_ending e = { .fate = WATCH_WAITING };
    yoke_status status = YOKE_OK;
    bool gone = false;
    int signal_number = 0;
    watch_screen_take();
    while (!status && !signal_number && !gone && !e.is_over) {
        status = watch_follow(f);
        if (!status) status = draw(f, &e, &gone);
        if (!status && !e.is_over) signal_number = watch_screen_wait(f->behind ? 0 : pause_of(f));
    }
    watch_screen_leave();
    if (signal_number) end_by(signal_number);
    if (status) return status;
    YOKE_TRY(leave_view(f, &e));
    return end_of(f, &e);
}

/* ---- a log ---- */

/* The steps of an interval: 1, 2, 5, 10, ..., the first that take LINE seconds. */
static int64_t steps_of_line(const struct watch_history *h)
{
    const double step = watch_step_seconds(h);
    int64_t n = 1;
    for (int i = 0; isfinite(step) && step > 0 && (double)n * step < LINE && n < 1000000000; i++)
        n = i % 3 == 1 ? n / 2 * 5 : 2 * n;
    return n;
}

static void print_line(const char *text)
{
    char *safe = cli_printable(text);
    printf("%s\n", safe ? safe : "no memory for a line");
    fflush(stdout);
    free(safe);
}

struct log {
    int64_t printed, next; /* the step of the last line, and the step from which on the next line is due */
    int64_t n_events;
    char said[2048]; /* the last words on how the run is */
};

static void log_events(struct watch_follower *f, struct log *log)
{
    const struct watch_history *h = &f->history;
    for (int64_t i = YOKE_MAX(log->n_events, h->n_events - WATCH_EVENTS); i < h->n_events; i++)
        print_line(h->events[i % WATCH_EVENTS].text);
    log->n_events = h->n_events;
}

static void log_rows(struct watch_follower *f, const struct watch_ending *e, struct log *log)
{
    const struct watch_history *h = &f->history;
    char text[600];
    const int64_t step = h->last.step, n = steps_of_line(h);
    if (!h->n_rows || (step >= log->printed && step < log->next && !(e->is_over && step > log->printed)))
        return;
    log->printed = step;
    log->next = (step / n + 1) * n;
    watch_log_line(f, text, sizeof text);
    print_line(text);
}

/* Say once what is not a step: that the run waits, is quiet, or has ended. */
static void log_state(struct watch_follower *f, const struct watch_ending *e, struct log *log)
{
    char text[4400];
    const bool is_news = e->fate == WATCH_WAITING
                             ? strcmp(log->said, e->text) != 0
                             : e->is_over || (e->fate == WATCH_QUIET && strcmp(log->said, "quiet"));
    if (e->fate == WATCH_RUNNING) log->said[0] = 0;
    if (!is_news) return;
    yokei_text(log->said, sizeof log->said, "%s", e->fate == WATCH_QUIET ? "quiet" : e->text);
    if (end_of(f, e)) return; /* the error says it */
    yokei_text(text, sizeof text, "%s: %s", f->folder, e->text);
    print_line(text);
}

static yoke_status show_log(struct watch_follower *f)
{
    struct watch_ending e = { .fate = WATCH_WAITING };
    struct log log = { .next = 0 };
    while (!e.is_over) {
        YOKE_TRY(watch_follow(f));
        watch_conclude(f, &e);
        if (!f->behind) {
            log_events(f, &log);
            log_rows(f, &e, &log);
            log_state(f, &e, &log);
        }
        if (ferror(stdout)) return YOKE_OK; /* the end of the command reports it */
        if (!f->behind && !e.is_over) usleep((useconds_t)(1e6 * pause_of(f)));
    }
    return end_of(f, &e);
}

/* ---- the verb ---- */

/* A folder that is not there yet is waited for. If its parent is not there either, its name is wrong. */
static yoke_status check_folder(const char *folder)
{
    char parent[4200];
    struct stat st;
    if (!stat(folder, &st)) {
        if (S_ISDIR(st.st_mode)) return YOKE_OK;
        return yoke_fail(YOKE_EDATA, "%s: is %s; give the folder of a run", folder,
                         yokei_file_kind(st.st_mode));
    }
    yokei_text(parent, sizeof parent, "%s", folder);
    for (size_t n = strlen(parent); n && parent[n - 1] == '/';) parent[--n] = 0;
    char *slash = strrchr(parent, '/');
    if (!slash) return YOKE_OK;
    slash[slash == parent] = 0;
    if (yokei_is_folder(parent)) return YOKE_OK;
    return yoke_fail(YOKE_EDATA, "%s: there is no such run directory, and no folder %s", folder, parent);
}

yoke_status cli_watch(const struct cli_context *context)
{
    const struct cli_options *o = context->options;
    const char *serve = cli_text(o, "serve");
    struct watch_follower f;
    if (context->n_words != 1)
        return yoke_fail(YOKE_EINVAL,
                         "yoke watch: which run? Give its folder: yoke watch runs/20240131-120000");
    if (serve && cli_flag(o, "once"))
        return yoke_fail(YOKE_EINVAL, "yoke watch: --once and --serve are both given: leave one of them out");
    YOKE_TRY(check_folder(context->words[0]));
    if (serve) return watch_serve(context->words[0], serve);
    watch_follow_begin(&f, context->words[0], cli_flag(o, "once"));
    const yoke_status status = cli_flag(o, "once") ? show_once(&f)
                               : can_draw()        ? show_live(&f)
                                                   : show_log(&f);
    watch_follow_end(&f);
    return status;
}

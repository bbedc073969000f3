/* SPDX-License-Identifier: Apache-2.0 */
/* The program `yoke`: find the verb, resolve its options, run it, print one error, leave with its exit code. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/job.h"
#include "cli/threads.h"
#include "core/base/base.h"

extern char **environ;

static void log_line(void *context, yoke_log_level level, const char *text)
{
    const char *rank = getenv("PMI_RANK");
    (void)context;
    if (rank && atoi(rank) > 0 && !getenv("YOKE_LOG")) return; /* once, not once per rank */
    if (level <= YOKE_LOG_WARN) cli_warn("%s", text);
    else cli_note("yoke: %s", text);
}

/* The verb that argv[1] (and argv[2]) name; words_out: how many words its name has. */
static const struct cli_verb *find_verb(int argc, char **argv, int *words_out)
{
    char both[128];
    yokei_text(both, sizeof both, "%s %s", argv[1], argc > 2 ? argv[2] : "");
    for (const struct cli_verb *v = cli_verb_table; v->name; v++) {
        *words_out = strchr(v->name, ' ') ? 2 : 1;
        if (!strcmp(v->name, *words_out == 2 ? both : argv[1])) return v;
    }
    return NULL;
}

static int unknown_verb(int argc, char **argv)
{
    const char *names[64];
    char both[128];
    size_t n = 0, length = strlen(argv[1]);
    bool is_prefix = false;
    for (const struct cli_verb *v = cli_verb_table; v->name && n + 1 < YOKE_COUNT(names); v++) {
        if (v->bit & CLI_HIDDEN) continue;
        names[n++] = v->name;
        is_prefix = is_prefix || (!strncmp(v->name, argv[1], length) && v->name[length] == ' ');
    }
    names[n] = NULL;
    yokei_text(both, sizeof both, "%s%s%s", argv[1], is_prefix && argc > 2 ? " " : "", is_prefix && argc > 2 ? argv[2] : "");
    const char *nearest = yokei_nearest(both, names);
    if (is_prefix && argc == 2) {
        fprintf(stderr, "yoke: error: %s what? There is:\n", argv[1]);
        for (size_t i = 0; i < n; i++)
            if (!strncmp(names[i], argv[1], length) && names[i][length] == ' ') fprintf(stderr, "  yoke %s\n", names[i]);
    } else {
        fprintf(stderr, "yoke: error: unknown verb '%s'%s%s%s; yoke --help lists them\n", both,
                nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
    }
    return yoke_status_exit_code(YOKE_EINVAL);
}

/* A misspelt variable is otherwise silently without effect. */
static void warn_of_unknown_variables(void)
{
    const char *names[256];
    char texts[256][64];
    size_t n = 0;
    if (getenv("YOKE_SUPERVISOR")) return; /* yoke run said it already */
    for (const struct cli_option *o = cli_option_table; o->name && n + 1 < YOKE_COUNT(names); o++) {
        if (o->no_key) continue;
        cli_variable_name(o, texts[n], sizeof texts[n]);
        names[n] = texts[n];
        n++;
    }
    names[n] = NULL;
    for (char **e = environ; *e; e++) {
        char name[128];
        if (strncmp(*e, "YOKE_", 5)) continue;
        yokei_text(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        bool known = false;
        for (size_t i = 0; i < n && !known; i++) known = !strcmp(names[i], name);
        if (known) continue;
        const char *nearest = yokei_nearest(name, names);
        cli_warn("the variable %s has no meaning%s%s%s", name, nearest ? "; did you mean " : "", nearest ? nearest : "",
                 nearest ? "?" : "");
    }
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
    return false;
}

/* The one place where an error is printed. */
static int ended(yoke_status status, bool silent)
{
    cli_progress_end();
    if (status && !silent) {
        const char *text = yoke_last_error();
        if (!*text) text = yoke_status_text(status);
        if (!cli_job_report(status, text)) fprintf(stderr, "yoke: error: %s\n", text);
    }
    return yoke_status_exit_code(status);
}

static int run_single(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_options *options = NULL;
    struct cli_context context = { .size = 1, .device = getenv("YOKE_DEVICE"), .run_dir = getenv("YOKE_RUN_DIR") };
    yoke_status status = cli_options_resolve(verb->bit, argc, argv, &options, &context.n_words, &context.words);
    if (!status && cli_flag(options, "help")) {
        cli_help(verb, stdout);
    } else if (!status) {
        context.options = options;
        status = verb->run(&context);
    }
    if (fflush(stdout) && !status) status = yoke_fail(YOKE_EIO, "stdout: cannot write the results");
    free(context.words);
    cli_options_free(options);
    return ended(status, false);
}

static int run_as_rank(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_options *options = NULL;
    struct cli_context context = { 0 };
    bool heard;
    if (asks_for_help(argc, argv)) {
        cli_help(verb, stdout);
        return 0;
    }
    yoke_status status = cli_job_start(verb->bit, argc, argv, &context, &options, &heard);
    if (!status) {
        context.device = getenv("YOKE_DEVICE");
        context.run_dir = getenv("YOKE_RUN_DIR");
        status = verb->run(&context);
    }
    if (fflush(stdout) && !status) status = yoke_fail(YOKE_EIO, "stdout: cannot write the results");
    const bool preempted = status == YOKE_EPREEMPTED; /* all ranks end alike, in order: MPI is ended as after success */
    if (!status || preempted) {
        const yoke_status end = cli_job_end();
        if (end) status = end;
    }
    if (status) {
        /* After a fault nobody calls MPI_Finalize, and no destructor may wait for a library's threads. */
        int code = ended(status, heard);
        fflush(NULL);
        _exit(code);
    }
    free(context.words);
    cli_options_free(options);
    return ended(YOKE_OK, false);
}

/*
 * A descriptor that is closed would be given to the next file that is opened, and messages would land in it. stdout can then be read only, so
 * results that nobody gets are an error, as on a full disk.
 */
static void hold_closed_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) != fd) return;
}

/* A stack that is too small ends a program by a segmentation fault, without a word. 8 MiB are usual; with 128 KiB all verbs work. */
static bool has_stack(void)
{
    static const rlim_t LEAST = 256 << 10;
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= LEAST) return true;
    const unsigned long long had = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_max >= LEAST && !setrlimit(RLIMIT_STACK, &limit)) return true;
    fprintf(stderr, "yoke: error: the stack may hold %llu KiB (ulimit -s), and yoke needs %llu: ulimit -s 8192\n", had >> 10, (unsigned long long)LEAST >> 10);
    return false;
}

int main(int argc, char **argv)
{
    int n_words;
    hold_closed_descriptors();
    if (!has_stack()) return yoke_status_exit_code(YOKE_ENOMEM);
    if (argc < 2) {
        cli_help_all(stderr);
        return yoke_status_exit_code(YOKE_EINVAL);
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        cli_help_all(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("yoke %s\n", yoke_version());
        return 0;
    }
    yoke_log_set(log_line, NULL, getenv("YOKE_LOG") ? YOKE_LOG_DEBUG : YOKE_LOG_WARN);
    if (yokei_pocl_cache_elsewhere()) yoke_log(YOKE_LOG_INFO, "POCL_CACHE_DIR=%s: PoCL's usual folder for compiled programs cannot be made", getenv("POCL_CACHE_DIR"));
    const struct cli_verb *verb = find_verb(argc, argv, &n_words);
    if (!verb) return unknown_verb(argc, argv);
    if (verb->run != cli_run && verb->run != cli_rank) cli_bound_threads(); /* those two compute nothing */
    warn_of_unknown_variables();
    char name[128];
    yokei_text(name, sizeof name, "yoke %s", verb->name);
    argv[n_words] = name; /* options follow, and messages begin with it */
    return (verb->ranks ? run_as_rank : run_single)(verb, argc - n_words, argv + n_words);
}

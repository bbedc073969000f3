/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program `yoke`: it finds the verb, resolves the verb's options, runs the verb, prints one error, and
 * exits with the error's exit code.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/launch/job.h"
#include "cli/launch/look.h"
#include "cli/libraries/libraries.h"
#include "core/base/base.h"

extern char **environ;

static void log_line(void *context, yoke_log_level level, const char *text)
{
    const char *rank = getenv("PMI_RANK");
    (void)context;
    if (rank && atoi(rank) > 0 && !getenv("YOKE_LOG")) return; /* print it once, not once per rank */
    if (level <= YOKE_LOG_WARN)
        cli_warn("%s", text);
    else
        cli_say("yoke: %s", text); /* YOKE_LOG asked for it */
}

/* The verb that argv[1] (and argv[2]) name. *words_out is the number of words in its name. */
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
    if (is_prefix && argc > 2
        && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h") || !strcmp(argv[2], "--help-all")
            || !strcmp(argv[2], "help"))) {
        cli_help_group(argv[1], stdout);
        return 0;
    }
    if (is_prefix && argc == 2) {
        yokei_text(both, sizeof both, "%s what?", argv[1]);
        cli_error(both);
        cli_help_group(argv[1], stderr);
        return yoke_status_exit_code(YOKE_EINVAL);
    }
    yokei_text(both, sizeof both, "%s%s%s", argv[1], is_prefix ? " " : "", is_prefix ? argv[2] : "");
    const char *nearest = yokei_nearest(both, names);
    char text[512];
    yokei_text(text, sizeof text, "unknown verb '%s'%s%s%s; yoke%s%s --help lists them", both,
               nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "",
               is_prefix ? " " : "", is_prefix ? argv[1] : "");
    cli_error(text);
    return yoke_status_exit_code(YOKE_EINVAL);
}

/* Without this warning a misspelt variable silently has no effect. */
static void warn_of_unknown_variables(void)
{
    const char *names[320];
    char texts[320][64];
    size_t n = 0;
    if (getenv("YOKE_SUPERVISOR")) return; /* yoke run has printed it already */
    for (const struct cli_option *o = cli_option_table; o->name && n + 1 < YOKE_COUNT(names); o++) {
        if (o->no_key) continue;
        cli_variable_name(o->name, texts[n], sizeof texts[n]);
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
        cli_warn("the variable %s has no meaning%s%s%s", name, nearest ? "; did you mean " : "",
                 nearest ? nearest : "", nearest ? "?" : "");
    }
}

/* Append the kind of device that yoke compile takes for one part of --emulate: "cuda:sm_90", "hip:gfx942". */
static void append_kind(const char *part, char *list, size_t bytes)
{
    const int n = (int)strcspn(part, ",");
    const size_t used = strlen(list);
    const char *comma = used ? "," : "";
    if (!strncmp(part, "cuda:", 5)) /* 9.0 is sm_90 */
        yokei_text(list + used, bytes - used, "%scuda:sm_%.*s%c", comma, n - 7, part + 5, part[n - 1]);
    else
        yokei_text(list + used, bytes - used, "%s%.*s", comma, n, part);
}

/* The kinds of all emulated devices, for yoke compile. For other verbs the first one of the first vendor. */
static void emulated_device(bool kinds, const char *emulation, char *list, size_t bytes)
{
    list[0] = '\0';
    if (!kinds) {
        yokei_text(list, bytes, "%.*s:0", (int)strcspn(emulation, ":"), emulation);
        return;
    }
    for (const char *part = emulation; *part; part += strcspn(part, ","), part += *part == ',')
        append_kind(part, list, bytes);
}

/*
 * With --emulate and no --device (yoke plan: --devices), the emulated device is meant. The variable
 * YOKE_EMULATE means no device, because it holds for all ranks of a job, also for those on the host.
 */
static yoke_status mean_emulated_device(const struct cli_verb *verb, struct cli_options *options)
{
    const char *const name = verb->bit == CLI_PLAN ? "devices" : "device";
    const struct cli_option *device = cli_option_find(verb->bit, name);
    const char *variable = getenv("YOKE_DEVICE");
    if (!device || cli_is_set(options, name) || (variable && *variable)
        || !strcmp(cli_origin(options, "emulate"), "YOKE_EMULATE"))
        return YOKE_OK;
    char spec[64];
    emulated_device(verb->bit == CLI_COMPILE, cli_text(options, "emulate"), spec, sizeof spec);
    return cli_options_set(options, device, spec, "option --emulate", YOKE_EINVAL);
}

/*
 * --emulate: the libraries and the processes that this one starts read the variable. It is set before the
 * first device is opened.
 */
static yoke_status set_emulation(const struct cli_verb *verb, struct cli_options *options)
{
    if (!cli_option_find(verb->bit, "emulate")) return YOKE_OK;
    const char *text = cli_text(options, "emulate");
    if (!text || !*text) return YOKE_OK;
    if (!yokei_is_emulation(text))
        return yoke_fail(
            YOKE_EINVAL,
            "--emulate is '%s'; it must be cuda: and a compute capability, such as cuda:9.0 for the GPU H100, "
            "or hip: and a processor, such as hip:gfx942 for the GPU MI300X, or both with a comma",
            text);
    setenv("YOKE_EMULATE", text, 1);
    return mean_emulated_device(verb, options);
}

/*
 * The device that the variable YOKE_DEVICE gives to this process. Each rank of a job may have another one. As
 * everywhere, an option of the command line wins over the variable.
 */
static const char *own_device(const struct cli_verb *verb, const struct cli_options *o)
{
    const bool named = cli_option_find(verb->bit, "device")
                       && strncmp(cli_origin(o, "device"), "option ", 7) == 0;
    return named ? NULL : getenv("YOKE_DEVICE");
}

/* The words of the command line, from the last word of the verb's name on, for --device auto. */
static struct {
    int n;
    char **at;
} command_words;

/*
 * --device auto: the fastest device for the training that the command line describes. Other verbs get the
 * fastest device for train's defaults.
 */
static yoke_status choose_auto_device(const struct cli_verb *verb, const struct cli_context *context,
                                      struct cli_options *options)
{
    const struct cli_option *device = cli_option_find(verb->bit, "device");
    static char name[] = "train", *train[] = { name, NULL };
    char spec[64];
    struct cli_context words = { .n_words = 1, .words = train, .size = 1 };
    if (!device || device->type != CLI_TEXT || strcmp(cli_text(options, "device"), "auto") != 0
        || own_device(verb, options))
        return YOKE_OK;
    if (context->size > 1)
        return yoke_fail(YOKE_EINVAL,
                         "--device auto chooses for one process; for %d ranks write yoke run --devices auto",
                         context->size);
    if (verb->bit == CLI_TRAIN) {
        words.n_words = command_words.n;
        words.words = command_words.at;
        words.words[0] = name;
    }
    YOKE_TRY(cli_look_for_one(&words, spec, sizeof spec));
    return cli_options_set(options, device, spec, "--device auto", YOKE_EINVAL);
}

/* End with a status. This is the only place that prints an error. Returns the exit code. */
static int ended(yoke_status status, bool silent)
{
    cli_progress_end();
    if (status && !silent) {
        const char *text = yoke_last_error();
        if (!*text) text = yoke_status_text(status);
        if (!cli_job_report(status, text)) cli_error(text);
    }
    return yoke_status_exit_code(status);
}

/*
 * Check that everything that a verb has printed was written. This is the only place that checks stdout. An
 * earlier write may have failed although the last one has nothing left to write. Some file systems report
 * only at the close that they are full.
 */
static yoke_status stdout_was_written(void)
{
    const char *why = NULL;
    if (fflush(stdout))
        why = strerror(errno);
    else if (ferror(stdout))
        why = "a part of them was refused";
    /* if stdout is closed and nothing was printed, there is no copy and no error */
    const int copy = why ? -1 : dup(STDOUT_FILENO);
    if (copy >= 0 && close(copy)) why = strerror(errno);
    return why ? yoke_fail(YOKE_EIO, "stdout: cannot write the results: %s", why) : YOKE_OK;
}

/* The function of a verb. Both tables are made from the same list. */
static yoke_status call_verb(const struct cli_verb *verb, const struct cli_context *context)
{
#define FUNCTION(name, bit, function, ...) function,
    static yoke_status (*const functions[])(const struct cli_context *) = { CLI_VERBS(FUNCTION) };
    return functions[verb - cli_verb_table](context);
}

/* What a person sees beside results and errors. The processes that yoke run starts read the variable. */
static void set_seen(const struct cli_verb *verb, const struct cli_options *options, int rank)
{
    if (cli_option_find(verb->bit, "quiet")) {
        const bool quiet = cli_flag(options, "quiet");
        cli_set_quiet(quiet);
        if (quiet && verb->bit == CLI_RUN) setenv("YOKE_QUIET", "yes", 1);
    }
    cli_progress_watch(rank);
}

static int run_single(const struct cli_verb *verb, struct cli_line *line)
{
    struct cli_options *options = NULL;
    struct cli_context context = {
        .size = 1, .n_words = line->n_words, .words = line->words, .run_dir = getenv("YOKE_RUN_DIR")
    };
    yoke_status status = cli_options_of_line(line, &options);
    if (!status) set_seen(verb, options, getenv("PMI_RANK") ? atoi(getenv("PMI_RANK")) : 0);
    if (!status) status = set_emulation(verb, options);
    if (!status) status = choose_auto_device(verb, &context, options);
    if (!status) {
        context.options = options;
        context.device = own_device(verb, options);
        status = call_verb(verb, &context);
    }
    if (!status) status = stdout_was_written();
    cli_options_free(options);
    return ended(status, false);
}

static int run_as_rank(const struct cli_verb *verb, struct cli_line *line)
{
    struct cli_options *options = NULL;
    struct cli_context context = { 0 };
    bool reported;
    yoke_status status = cli_job_start(line, &context, &options, &reported);
    if (!status) set_seen(verb, options, context.rank);
    if (!status) status = set_emulation(verb, options);
    if (!status) status = choose_auto_device(verb, &context, options);
    if (!status) {
        context.run_dir = getenv("YOKE_RUN_DIR");
        context.device = own_device(verb, options);
        status = call_verb(verb, &context);
    }
    if (!status || status == YOKE_EPREEMPTED) {
        const yoke_status written = stdout_was_written();
        if (written) status = written;
    }
    /* all ranks end in the same orderly way, so MPI is ended as after success */
    const bool preempted = status == YOKE_EPREEMPTED;
    if (!status || preempted) {
        const yoke_status end = cli_job_end();
        if (end) status = end;
    }
    if (status) {
        /* After a fault no rank calls MPI_Finalize, and no destructor may wait for a library's threads. */
        int code = ended(status, reported);
        fflush(NULL);
        _exit(code);
    }
    cli_options_free(options);
    return ended(YOKE_OK, false);
}

/* Run a verb with the words behind its name. argv[0] is the verb's full name. */
static int run_verb(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_line line;
    int code;
    cli_line_read(verb->bit, argc, argv, &line);
    if (line.help) {
        cli_help(verb, line.help == 'a', stdout);
        code = ended(stdout_was_written(), false);
    } else
        code = (verb->ranks ? run_as_rank : run_single)(verb, &line);
    cli_line_free(&line);
    return code;
}

static void pass_over(int signal) { (void)signal; }

/*
 * A write past the file size limit (ulimit -f) is an error, like a write to a full disk. Exec removes the
 * handler, so programs that this one starts are not affected. The program that started this one may have set
 * SIGCHLD to be ignored. Then no process could wait for a child, and ends of children would not be seen.
 */
static void set_signals(void)
{
    struct sigaction action = { .sa_handler = pass_over, .sa_flags = SA_RESTART };
    sigaction(SIGXFSZ, &action, NULL);
    signal(SIGCHLD, SIG_DFL);
}

/*
 * Device drivers, MPI and the launcher's sockets need descriptors. Without descriptors they report other
 * errors, or wait. So the limit is raised as far as possible. If it is still too low, this function says so.
 */
static yoke_status need_descriptors(const struct cli_verb *verb)
{
    enum { ENOUGH = 4096 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= ENOUGH) return YOKE_OK;
    const rlim_t was = limit.rlim_cur;
    limit.rlim_cur = YOKE_MIN(limit.rlim_max, (rlim_t)ENOUGH);
    if (limit.rlim_cur > was && setrlimit(RLIMIT_NOFILE, &limit)) limit.rlim_cur = was;
    if (limit.rlim_cur >= YOKEI_LEAST_DESCRIPTORS
        || !(verb->ranks || (verb->bit & (CLI_RUN | CLI_RANK | CLI_LOOK | CLI_INFO))
             || cli_option_find(verb->bit, "device")))
        return YOKE_OK;
    return yoke_fail(
        YOKE_EIO,
        "yoke %s: at most %llu files, sockets and devices may be open at once (ulimit -n), and %d are needed: raise that limit",
        verb->name, (unsigned long long)limit.rlim_cur, YOKEI_LEAST_DESCRIPTORS);
}

/*
 * If stdin, stdout or stderr were closed, the next opened file would get its descriptor, and messages would
 * be written into that file. So these descriptors are kept occupied. stdout is then open for reading only, so
 * results that nobody gets are an error, as on a full disk.
 */
static void hold_closed_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) != fd) return;
}

/*
 * A stack that is too small ends a program by a segmentation fault, without a message. The limit holds for
 * the first thread and for each thread that a library starts. The following was measured on x86-64.
 * attention_backward on PoCL needs the most: 768 KiB are enough for it, and 512 KiB are not. Training on
 * host, alone or on ranks, works with 256 KiB and not with 128 KiB. LEAST has a margin, because other
 * drivers, compilers and CPUs need other amounts.
 */
static yoke_status need_stack(void)
{
    static const rlim_t LEAST = 2 << 20, USUAL = 8 << 20;
    struct rlimit limit;
    pthread_attr_t threads;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= LEAST) return YOKE_OK;
    const unsigned long long had = limit.rlim_cur;
    limit.rlim_cur = YOKE_MIN(limit.rlim_max, USUAL);
    if (limit.rlim_cur < LEAST || setrlimit(RLIMIT_STACK, &limit))
        return yoke_fail(
            YOKE_ENOMEM,
            "the stack may hold %llu KiB (ulimit -s), and %llu are needed: raise that limit (ulimit -s 8192)",
            had >> 10, (unsigned long long)LEAST >> 10);
    /* Threads get the limit that the program had at its start. */
    if (pthread_getattr_default_np(&threads)) return YOKE_OK;
    if (!pthread_attr_setstacksize(&threads, limit.rlim_cur)) pthread_setattr_default_np(&threads);
    pthread_attr_destroy(&threads);
    return YOKE_OK;
}

/*
 * Choose another folder for PoCL's compiled programs where PoCL cannot write its own, because PoCL would then
 * compile nothing. If the user has chosen the folder, a warning says so.
 */
static void choose_pocl_cache(void)
{
    char folder[4096];
    const bool chosen = getenv("POCL_CACHE_DIR") != NULL;
    const int error = yokei_pocl_cache(folder, sizeof folder);
    if (!error || !yokei_pocl_cache_elsewhere()) return;
    yoke_log(chosen ? YOKE_LOG_WARN : YOKE_LOG_INFO,
             "PoCL cannot write its folder for compiled programs, %s%s (%s): it uses %s instead",
             chosen ? "POCL_CACHE_DIR=" : "", folder, strerror(error), getenv("POCL_CACHE_DIR"));
}

int main(int argc, char **argv)
{
    int n_words;
    yokei_thread_set_own();
    set_signals();
    hold_closed_descriptors();
    cli_order_streams();
    yoke_status status = need_stack();
    if (status) return ended(status, false);
    if (argc < 2) {
        cli_help_all(stderr);
        return yoke_status_exit_code(YOKE_EINVAL);
    }
    if (!strcmp(argv[1], "help") && argc > 2) { /* yoke help VERB is yoke VERB --help */
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = "--help";
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        cli_help_all(stdout);
        return ended(stdout_was_written(), false);
    }
    if (!strcmp(argv[1], "--version")) {
        printf("yoke %s\n", yoke_version());
        return ended(stdout_was_written(), false);
    }
    yoke_log_set(log_line, NULL, getenv("YOKE_LOG") ? YOKE_LOG_DEBUG : YOKE_LOG_WARN);
    choose_pocl_cache();
    const struct cli_verb *verb = find_verb(argc, argv, &n_words);
    if (!verb) return unknown_verb(argc, argv);
    command_words.n = argc - n_words;
    command_words.at = argv + n_words;
    /* run and rank compute nothing */
    if (!(verb->bit & (CLI_RUN | CLI_RANK))) cli_prepare_libraries();
    if (verb->bit == CLI_RUN) cli_forget_outer_job();
    cli_report_lost_files(verb->ranks);
    warn_of_unknown_variables();
    status = need_descriptors(verb);
    if (status) return ended(status, false);
    char name[128];
    yokei_text(name, sizeof name, "yoke %s", verb->name);
    argv[n_words] = name; /* the options follow, and messages begin with it */
    return run_verb(verb, argc - n_words, argv + n_words);
}

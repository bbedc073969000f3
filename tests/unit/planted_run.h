/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of the programs that plant errors, behind their table `plants`. It runs each case in a process of
 * its own, with the error and without it, and has the program's main.
 *   PLANTED_EMULATE    the value of YOKE_EMULATE
 *   PLANTED_COMPILER   a word of the reason why there is no device, without which a case fails
 *   PLANTED_README     the page with the same table
 *   PLANTED_LATER      whether only the soak test runs a case
 */
#ifndef TESTS_UNIT_PLANTED_RUN_H
#define TESTS_UNIT_PLANTED_RUN_H

static char log_path[512];

static void be_child(const struct plant *plant, int end)
{
    setenv("YOKE_EMULATE", PLANTED_EMULATE, 1);
    setenv("YOKE_EMULATE_LOG", log_path, 1);
    setenv("YOKE_EMULATE_LEAKS", "fatal", 1);
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would catch it */
    const yoke_status status = plant->run(plant);
    dprintf(end, "%s", status ? yoke_last_error() : "");
    fflush(stdout);
    _exit(status == YOKE_OK ? 0 : status == YOKE_ENODEV ? 2 : 1);
}

static void append_log(char *text, size_t bytes)
{
    const size_t used = strlen(text);
    FILE *log = fopen(log_path, "r");
    text[used + (log ? fread(text + used, 1, bytes - used - 1, log) : 0)] = '\0';
    if (log) fclose(log);
    for (char *at = text; *at; at++)
        if (*at == '\n') *at = ' ';
}

/* Run a case in a child. Returns its status of waitpid, and what it and the driver have said. */
static int run(const struct plant *plant, bool planted, char *text, size_t bytes)
{
    int ends[2], status = -1;
    size_t used = 0;
    text[0] = '\0';
    if (pipe(ends)) return -1;
    unlink(log_path);
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        is_planted = planted;
        be_child(plant, ends[1]);
    }
    close(ends[1]);
    for (ssize_t n; used < bytes - 1 && (n = read(ends[0], text + used, bytes - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    close(ends[0]);
    if (child > 0) waitpid(child, &status, 0);
    append_log(text, bytes);
    unlink(log_path);
    return status;
}

enum { SKIPPED = -1 };

/*
 * One TAP line. Returns 0 if the error was found by its name, and the same case without it passed. Without a
 * compiler there is no device, and nothing can be planted.
 */
static int judge(const struct plant *plant, int number)
{
    static char found[4000], sound[4000];
    const int without = run(plant, false, sound, sizeof sound);
    if (WIFEXITED(without) && WEXITSTATUS(without) == 2 && strstr(sound, PLANTED_COMPILER)) {
        printf("ok %d - planted errors of " PLANTED_SPEC " # SKIP %.200s\n", number, sound);
        return SKIPPED;
    }
    const int with = run(plant, true, found, sizeof found);
    const bool says = strstr(found, plant->text) && (!plant->also || strstr(found, plant->also)),
               good = !without && with && says;
    printf("%sok %d - caught: %s\n# %.900s\n", good ? "" : "not ", number, plant->name, found);
    if (without) printf("# without the error the case fails, too (0x%x): %.900s\n", (unsigned)without, sound);
    if (!with) printf("# nothing was found\n");
    if (with && !says)
        printf("# the text lacks '%s' or '%s'\n", plant->text, plant->also ? plant->also : plant->text);
    fflush(stdout);
    return !good;
}

/* PLANTED_README has a table with the same errors in the same order. */
static int compare_table(int number)
{
    const char *top = getenv("top_srcdir");
    char path[1024], line[1024];
    size_t i = 0;
    bool same = true;
    snprintf(path, sizeof path, "%s/" PLANTED_README, top ? top : ".");
    FILE *readme = fopen(path, "r");
    bool inside = false;
    while (readme && fgets(line, sizeof line, readme)) {
        inside = !strncmp(line, "| error |", 9) || (inside && line[0] == '|');
        if (!inside || !strncmp(line, "| error |", 9) || line[1] == '-') continue;
        const size_t n = i < YOKE_COUNT(plants) ? strlen(plants[i].name) : 0;
        same = same && n && !strncmp(line + 2, plants[i].name, n) && !strncmp(line + 2 + n, " | ", 3);
        i++;
    }
    if (readme) fclose(readme);
    same = same && i == YOKE_COUNT(plants);
    printf("%sok %d - the table of " PLANTED_README " lists these %zu errors\n", same ? "" : "not ", number,
           YOKE_COUNT(plants));
    return !same;
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    int bad = 0, n = 0;
    /* A process id would not do: other tests may have the same one, in a namespace of their own. */
    snprintf(log_path, sizeof log_path, "%s/yoke-planted.XXXXXX", tmp ? tmp : "/tmp");
    const int file = mkstemp(log_path);
    if (file < 0) return 1;
    close(file);
    for (size_t i = 0; i < YOKE_COUNT(plants); i++)
        if (bad != SKIPPED && (argc < 2 ? !PLANTED_LATER(&plants[i]) : !strcmp(argv[1], plants[i].name))) {
            const int wrong = judge(&plants[i], ++n);
            bad = wrong == SKIPPED ? SKIPPED : bad + wrong;
        }
    if (n && argc < 2 && bad != SKIPPED) bad += compare_table(++n);
    if (!n) printf("not ok 1 - no planted error is called '%s'\n", argv[1]);
    printf("1..%d\n", n ? n : 1);
    return bad > 0 || !n;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of libraries. The libraries read them when they are loaded. So they must be in the environment
 * before the program starts.
 */
#include "cli/libraries/libraries.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/base.h"

/*
 * By default libgomp's threads spin 300,000 times for their next work before they sleep. This takes 5 to 14
 * ms. On a core that has other work, a spinning thread delays the thread that all others wait for. On a quiet
 * machine a bound of 100 us costs the smallest model 0.6 % of its speed. A bound of 50 us costs 2.7 %
 * (bench/results/spin.txt).
 */
enum { SPIN_US = 100 };

static inline void relax(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#endif
}

/*
 * How often libgomp's loop looks in SPIN_US, measured with a copy of that loop. The fastest of five counts is
 * used, because an interrupted one is too slow.
 */
static long spin_count(void)
{
    enum { LOOKS = 500, TIMES = 5 };
    atomic_int word = 0;
    uint64_t best = UINT64_MAX;
    for (int t = 0; t < TIMES; t++) {
        const uint64_t start = yokei_now_ns();
        for (int i = 0; i < LOOKS && !atomic_load_explicit(&word, memory_order_relaxed); i++) relax();
        best = YOKE_MIN(best, yokei_now_ns() - start);
    }
    return (long)((uint64_t)SPIN_US * 1000 * LOOKS / YOKE_MAX(best, 1));
}

static bool set_spin(void)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || getenv("KMP_BLOCKTIME")) return false;
    char text[24];
    yokei_text(text, sizeof text, "%ld", spin_count());
    setenv("GOMP_SPINCOUNT", text, 1);
    setenv("KMP_BLOCKTIME", "1", 1); /* for LLVM's threads, in milliseconds; 1 is the least value above 0 */
    return true;
}

static bool let_crashes_end(void)
{
    if (getenv("UCX_HANDLE_ERRORS") || getenv("UCX_ERROR_SIGNALS")) return false;
    setenv("UCX_HANDLE_ERRORS", "none", 1);
    return true;
}

bool cli_set_libraries(void)
{
    const bool spin = set_spin(), crashes = let_crashes_end();
    return spin || crashes;
}

/*
 * Execute the program again with the same arguments. Returns only if that fails. The libraries then keep
 * their settings.
 */
static void start_anew(void)
{
    /* Files of /proc report no size, so read until the end. */
    char *data = NULL;
    size_t room = 0, n_words = 0;
    ssize_t length;
    FILE *from = fopen("/proc/self/cmdline", "r");
    char **line = NULL;
    while (from && (length = getdelim(&data, &room, 0, from)) > 0) {
        char **longer = realloc(line, (n_words + 2) * sizeof *line);
        if (!longer) break;
        line = longer;
        line[n_words++] = strdup(data);
        line[n_words] = NULL;
    }
    if (from) fclose(from);
    free(data);
    if (line) execv("/proc/self/exe", line);
    for (size_t i = 0; i < n_words; i++) free(line[i]);
    free(line);
}

/*
 * These libraries start as many threads as the variables say, on any machine. Limit the numbers to this
 * process's processing units. The host backend limits OpenMP's threads.
 */
static void bound_numbers(void)
{
    static const char *const names[] = { "POCL_MAX_PTHREAD_COUNT", "OPENBLAS_NUM_THREADS" };
    cpu_set_t units;
    const int n = sched_getaffinity(0, sizeof units, &units) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                                                             : CPU_COUNT(&units);
    for (size_t i = 0; i < YOKE_COUNT(names); i++) {
        const char *text = getenv(names[i]);
        char bound[16];
        if (!text || strtol(text, NULL, 10) <= n) continue;
        yoke_log(YOKE_LOG_WARN,
                 "%s=%s asks for more threads than this process has processing units; %d are started",
                 names[i], text, n);
        yokei_text(bound, sizeof bound, "%d", n);
        setenv(names[i], bound, 1);
    }
}

void cli_prepare_libraries(void)
{
    if (cli_set_libraries()) start_anew();
    bound_numbers();
}

void cli_with_sleeping_threads(int n)
{
    const char *policy = getenv("OMP_WAIT_POLICY");
    const bool sleep = policy && !strcasecmp(policy, "passive");
    setenv("OMP_WAIT_POLICY", "passive", 1);
    unsetenv("GOMP_SPINCOUNT"); /* a count would win over the policy */
    unsetenv("KMP_BLOCKTIME");
    if (!sleep) unsetenv("OMP_NUM_THREADS"); /* so that the program is executed again */
    cli_with_threads(n);
}

void cli_with_threads(int n)
{
    static const char *const names[] = { "OMP_NUM_THREADS", "POCL_MAX_PTHREAD_COUNT",
                                         "OPENBLAS_NUM_THREADS" };
    char text[16];
    bool same = true;
    yokei_text(text, sizeof text, "%d", n);
    for (size_t i = 0; i < YOKE_COUNT(names); i++) {
        const char *now = getenv(names[i]);
        if (now && !strcmp(now, text)) continue;
        same = false;
        setenv(names[i], text, 1);
    }
    if (same) return;
    start_anew();
}

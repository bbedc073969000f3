/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke info --check: tests of what jobs with several ranks need on a machine, and the fix for each finding.
 */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/devices/child.h"
#include "cli/devices/info.h"
#include "cli/options/progress.h"
#include "core/base/base.h"

/* Whether the command was built with MPI. If not, no_mpi.c replaces the functions that need MPI. */
enum { HAS_MPI = CLI_HAS_MPI };

#define SHM_PER_RANK (64u << 20)

struct list {
    struct cli_check *checks;
    int n, capacity;
    const struct yoke_backend_report *reports;
    int n_reports;
    struct yokei_topology topology;
};

static struct cli_check *add_check(struct list *list, const char *name, enum cli_finding finding,
                                   const char *format, ...) YOKE_PRINTF(4, 5);
static struct cli_check *add_check(struct list *list, const char *name, enum cli_finding finding,
                                   const char *format, ...)
{
    static struct cli_check beyond;
    struct cli_check *c = list->n < list->capacity ? &list->checks[list->n++] : &beyond;
    *c = (struct cli_check){ .name = name, .finding = finding, .status = YOKE_EBACKEND };
    va_list args;
    va_start(args, format);
    vsnprintf(c->text, sizeof c->text, format, args);
    va_end(args);
    return c;
}

static void fix(struct cli_check *check, const char *format, ...) YOKE_PRINTF(2, 3);
static void fix(struct cli_check *check, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(check->fix, sizeof check->fix, format, args);
    va_end(args);
}

/* ---- commands ---- */

struct answer {
    int code; /* exit code; -1: the command could not be started */
    char text[4000];
};

static void run_command(const void *command, void *result)
{
    struct answer *a = result;
    FILE *from = popen(command, "r");
    a->code = -1;
    if (!from) return;
    size_t n = fread(a->text, 1, sizeof a->text - 1, from);
    a->text[n] = 0;
    int code = pclose(from);
    a->code = WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

static bool ask_command(const char *command, double limit_s, struct answer *out)
{
    char reason[128];
    memset(out, 0, sizeof *out);
    if (cli_in_child(run_command, command, out, sizeof *out, limit_s, reason, sizeof reason)) return true;
    out->code = -1;
    yokei_text(out->text, sizeof out->text, "%s", reason);
    return false;
}

/* The text after `key`, up to the end of the line. "": `key` does not occur. */
static void line_after(const char *text, const char *key, char *out, size_t bytes)
{
    const char *p = strstr(text, key);
    if (p) p += strlen(key), p += strspn(p, " \t");
    yokei_text(out, bytes, "%.*s", p ? (int)strcspn(p, "\n") : 0, p ? p : "");
}

static const char *launcher(void)
{
    const char *set = getenv("YOKE_LAUNCHER");
    const bool word = !set || !*set || !strcmp(set, "auto") || !strcmp(set, "own") || !strcmp(set, "hydra");
    return word ? "mpiexec.mpich" : set;
}

static void check_launcher(struct list *list)
{
    struct answer a;
    struct cli_library libraries[16];
    char command[4200], version[128], linked[160] = "";
    yokei_text(command, sizeof command, "'%s' --version 2>/dev/null", launcher());
    ask_command(command, 10, &a);
    line_after(a.text, "Version:", version, sizeof version);
    if (a.code) {
        /* On one host yoke run needs no launcher. */
        const bool named = strcmp(launcher(), "mpiexec.mpich") != 0;
        fix(add_check(list, "launcher", named ? CLI_FAIL : CLI_WARN, "%s %s; ranks on several hosts need it",
                      launcher(),
                      a.code == 127   ? "is not there" /* the shell's own exit codes */
                      : a.code == 126 ? "may not be executed"
                                      : "does not run"),
            "apt-get install mpich");
        return;
    }
    if (!strstr(a.text, "HYDRA")) {
        fix(add_check(list, "launcher", CLI_FAIL, "%s is not MPICH's launcher", launcher()),
            "apt-get install mpich, and unset YOKE_LAUNCHER");
        return;
    }
    int n = cli_libraries(libraries, 16);
    for (int i = 0; i < n; i++)
        if (!strcmp(libraries[i].name, "MPICH"))
            yokei_text(linked, sizeof linked, "%s", libraries[i].version);
    if (strncmp(linked, version, strlen(version)))
        fix(add_check(list, "launcher", CLI_WARN, "%s is version %s, the library is %s", launcher(), version,
                      linked),
            "install mpich and libmpich12 of one version");
    else
        add_check(list, "launcher", CLI_PASS, "%s %s, as the library", launcher(), version);
    ask_command("mpiexec --version 2>/dev/null", 10, &a);
    if (!a.code && !strstr(a.text, "HYDRA"))
        add_check(list, "mpiexec", CLI_PASS,
                  "plain `mpiexec` is another MPI's here; yoke run uses %s, and so must you", launcher());
}

/* Run two real ranks through launcher and agents. */
static void check_ranks(struct list *list)
{
    struct answer a;
    char self[4096], command[4400];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return;
    self[length] = 0;
    yokei_text(command, sizeof command, "'%s' run -n 2 --grace 2s -- hello 2>&1", self);
    uint64_t start = yokei_now_ns();
    bool in_time = ask_command(command, 60, &a);
    double seconds = (double)(yokei_now_ns() - start) * 1e-9;
    if (in_time && a.code == 0) {
        add_check(list, "ranks", CLI_PASS, "two ranks started, met and ended in %.2f s", seconds);
        return;
    }
    struct cli_check *c = add_check(list, "ranks", CLI_FAIL, "two ranks could not be started: %.*s",
                                    (int)strcspn(a.text, "\n"), a.text);
    c->status = in_time ? YOKE_EBACKEND : YOKE_ETIMEOUT;
    fix(c, "repair what the checks above name; then try: yoke run -n 2 -- hello");
}

static void check_shared_memory(struct list *list)
{
    struct statvfs fs;
    if (statvfs("/dev/shm", &fs)) {
        struct cli_check *c = add_check(list, "shared memory", CLI_FAIL, "/dev/shm: %s", strerror(errno));
        fix(c, "mount -t tmpfs -o size=50%% tmpfs /dev/shm");
        return;
    }
    double size = (double)fs.f_blocks * (double)fs.f_frsize, left = (double)fs.f_bavail * (double)fs.f_frsize;
    double need = (double)SHM_PER_RANK * YOKE_MAX(2, list->topology.n_cores);
    if (access("/dev/shm", W_OK | X_OK))
        fix(add_check(list, "shared memory", CLI_FAIL, "/dev/shm is not writable for this user"),
            "chmod 1777 /dev/shm");
    else if (left < need)
        fix(add_check(list, "shared memory", CLI_WARN,
                      "/dev/shm has %.0f MiB, of which %.0f are free; %.0f are advised (64 per rank)",
                      size / (1 << 20), left / (1 << 20), need / (1 << 20)),
            "in a container start it with --shm-size=1g; else mount -o remount,size=1g /dev/shm. Until then yoke run lets UCX use $TMPDIR");
    else
        add_check(list, "shared memory", CLI_PASS, "/dev/shm has %.0f MiB free", left / (1 << 20));
}

static void check_limits(struct list *list)
{
    struct rlimit lock, files;
    bool fabric = !access("/sys/class/infiniband", F_OK);
    getrlimit(RLIMIT_MEMLOCK, &lock);
    getrlimit(RLIMIT_NOFILE, &files);
    if (lock.rlim_cur != RLIM_INFINITY && fabric)
        fix(add_check(list, "locked memory", CLI_WARN,
                      "limited to %llu KiB, and this machine has a fabric that needs locked memory",
                      (unsigned long long)lock.rlim_cur >> 10),
            "add '* - memlock unlimited' to /etc/security/limits.conf and log in anew");
    else
        add_check(list, "locked memory", CLI_PASS,
                  lock.rlim_cur == RLIM_INFINITY ? "unlimited" : "limited, but no fabric here needs it");
    if (files.rlim_cur < 1024)
        fix(add_check(list, "open files", CLI_WARN, "limited to %llu", (unsigned long long)files.rlim_cur),
            "ulimit -n 4096");
    else
        add_check(list, "open files", CLI_PASS, "%llu allowed", (unsigned long long)files.rlim_cur);
}

/* Number of CPUs whose time a container may use. The affinity does not show this limit. 0: no limit. */
static double cpu_quota(void)
{
    double quota = 0, period = 0;
    FILE *from = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!from) return 0;
    int n = fscanf(from, "%lf %lf", &quota, &period); /* "max 100000" gives 0 */
    fclose(from);
    return n == 2 && period > 0 ? quota / period : 0;
}

static void check_cores(struct list *list)
{
    double quota = cpu_quota(), load = 0;
    int n = list->topology.n_cores, threads = list->topology.n_processing_units;
    FILE *from = fopen("/proc/loadavg", "r");
    if (from) {
        if (fscanf(from, "%lf", &load) != 1) load = 0;
        fclose(from);
    }
    if (quota > 0 && quota < threads)
        fix(add_check(list, "cores", CLI_WARN,
                      "%d cores are visible, but the container may use %.1f: ranks would share them", n,
                      quota),
            "start at most %d ranks, or raise the container's CPU limit", YOKE_MAX(1, (int)quota));
    else
        add_check(list, "cores", CLI_PASS,
                  "%d cores, %d hardware threads: up to %d ranks have a core of their own", n, threads, n);
    if (load > threads + 0.5)
        fix(add_check(list, "load", CLI_WARN,
                      "the load is %.1f on %d hardware threads: measurements will be noisy", load, threads),
            "end other work before you measure");
    else
        add_check(list, "load", CLI_PASS, "%.1f on %d hardware threads", load, threads);
}

static void try_binding(const void *argument, void *result)
{
    (void)argument;
    int n = 0;
    struct answer *a = result;
    if (yokei_bind(0, 1, &n)) yokei_text(a->text, sizeof a->text, "%s", yoke_last_error());
    a->code = n;
}

static void check_binding(struct list *list)
{
    struct answer a = { 0 };
    char reason[128] = "";
    bool ran = cli_in_child(try_binding, NULL, &a, sizeof a, 10, reason, sizeof reason);
    if (ran && a.code > 0)
        add_check(list, "binding", CLI_PASS, "ranks can be bound to cores");
    else
        fix(add_check(list, "binding", CLI_WARN, "ranks cannot be bound to cores: %s", ran ? a.text : reason),
            "use yoke run --bind none");
}

static const struct yoke_backend_report *report_of(const struct list *list, const char *name)
{
    for (int i = 0; i < list->n_reports; i++)
        if (!strcmp(list->reports[i].name, name)) return &list->reports[i];
    return NULL;
}

/* Write the names of the .icd files to `names`. Returns how many there are. */
static int icd_files(const char *folder, char *names, size_t bytes)
{
    DIR *dir = opendir(folder);
    int n = 0;
    names[0] = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".icd")) continue;
        size_t used = strlen(names);
        yokei_text(names + used, bytes - used, "%s%s", n++ ? ", " : "", e->d_name);
    }
    if (dir) closedir(dir);
    return n;
}

static void check_opencl(struct list *list)
{
    const char *set = getenv("OCL_ICD_VENDORS");
    const char *folder = set && *set ? set : "/etc/OpenCL/vendors";
    char names[256];
    const struct yoke_backend_report *r = report_of(list, "opencl");
    int n = icd_files(folder, names, sizeof names);
    if (!r)
        add_check(list, "opencl", CLI_SKIP, "this build has no OpenCL backend");
    else if (r->n_devices)
        add_check(list, "opencl", CLI_PASS, "%d device%s; drivers %s", r->n_devices,
                  r->n_devices == 1 ? "" : "s", names);
    else if (!n)
        fix(add_check(list, "opencl", CLI_WARN, "no driver is installed: %s has no .icd file (%s)", folder,
                      r->reason),
            "apt-get install ocl-icd-libopencl1 and your vendor's driver, or pocl-opencl-icd for the CPU");
    else
        fix(add_check(list, "opencl", CLI_WARN, "drivers are installed (%s), but there is no device: %s",
                      names, r->reason),
            "try clinfo; reinstall the driver, or apt-get install pocl-opencl-icd for the CPU");
}

/* The GPUs of a vendor, whose driver makes the file `file`. The vendor's program `tool` lists them. */
static void check_vendor(struct list *list, const char *backend, const char *vendor, const char *file,
                         const char *tool)
{
    const struct yoke_backend_report *r = report_of(list, backend);
    if (!r)
        add_check(list, backend, CLI_SKIP, "this build has no backend %s", backend);
    else if (r->n_devices)
        add_check(list, backend, CLI_PASS, "%d device%s; %s", r->n_devices, r->n_devices == 1 ? "" : "s",
                  r->devices[0].driver);
    else if (access(file, F_OK))
        add_check(list, backend, CLI_SKIP, "no %s GPU's device files on this machine", vendor);
    else
        fix(add_check(list, backend, CLI_WARN, "there is an %s GPU, but no device: %s", vendor, r->reason),
            "see %s, and the reason above", tool);
}

/* Look for device files that exist but that this user may not open. */
static void check_permissions(struct list *list)
{
    static const struct {
        const char *path, *what;
    } files[] = {
        { "/dev/kfd", "AMD GPUs" },
        { "/dev/dri/renderD128", "GPUs" },
        { "/dev/nvidiactl", "NVIDIA GPUs" },
    };
    int seen = 0;
    for (size_t i = 0; i < YOKE_COUNT(files); i++) {
        struct stat st;
        if (stat(files[i].path, &st)) continue;
        seen++;
        if (!access(files[i].path, R_OK | W_OK)) continue;
        struct group *group = getgrgid(st.st_gid);
        fix(add_check(list, "permissions", CLI_WARN, "%s (%s) may not be opened by this user", files[i].path,
                      files[i].what),
            "usermod -a -G %s $USER, then log in anew", group ? group->gr_name : "the file's group");
    }
    if (!seen) add_check(list, "permissions", CLI_SKIP, "no GPU's device files on this machine");
}

static void check_devices(struct list *list)
{
    char names[256] = "";
    int n = 0;
    for (int b = 0; b < list->n_reports; b++)
        for (int i = 0; i < list->reports[b].n_devices; i++) {
            const struct yoke_device_info *d = &list->reports[b].devices[i];
            size_t used = strlen(names);
            if (!strcmp(d->backend, "reference")) continue;
            yokei_text(names + used, sizeof names - used, "%s%s", n++ ? ", " : "", d->spec);
        }
    if (n) {
        add_check(list, "devices", CLI_PASS, "%s", names);
        return;
    }
    struct cli_check *c = add_check(list, "devices", CLI_FAIL, "no device that can do work");
    c->status = YOKE_ENODEV;
    fix(c, "yoke info says for each backend why it has none");
}

static void check_cache(struct list *list)
{
    const char *set = getenv("YOKE_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[4096] = "";
    if (set)
        yokei_text(folder, sizeof folder, "%s", set);
    else if (xdg && *xdg)
        yokei_text(folder, sizeof folder, "%s/yoke", xdg);
    else if (home && *home)
        yokei_text(folder, sizeof folder, "%s/.cache/yoke", home);
    folder[strcspn(folder, ":")] = '\0'; /* the others are only read */
    if (!*folder || yokei_make_folder(folder) || access(folder, W_OK | X_OK))
        fix(add_check(list, "cache", CLI_WARN,
                      "compiled kernels cannot be kept%s%s: each start compiles them anew",
                      *folder ? " in " : "", folder),
            "set YOKE_CACHE_DIR to a folder that you may write");
    else
        add_check(list, "cache", CLI_PASS, "compiled kernels are kept in %s", folder);
}

static void check_variables(struct list *list)
{
    const char *ucx = getenv("UCX_TLS"), *threads = getenv("OMP_NUM_THREADS");
    if (ucx && !strstr(ucx, "^cma") && (strstr(ucx, "cma") || strstr(ucx, "all")))
        fix(add_check(list, "variables", CLI_WARN,
                      "UCX_TLS=%s lets UCX use CMA, which aborts a rank when its peer dies", ucx),
            "unset UCX_TLS; yoke run then chooses transports without it");
    else if (threads)
        fix(add_check(list, "variables", CLI_WARN,
                      "OMP_NUM_THREADS=%s is set: yoke run leaves it, whatever cores a rank has", threads),
            "unset OMP_NUM_THREADS");
    else
        add_check(list, "variables", CLI_PASS, "none that gets in the way");
}

static void check_cuda(struct list *list)
{
    check_vendor(list, "cuda", "NVIDIA", "/dev/nvidiactl", "nvidia-smi");
}
static void check_hip(struct list *list) { check_vendor(list, "hip", "AMD", "/dev/kfd", "rocminfo"); }

static void check_launcher_or_none(struct list *list)
{
    if (HAS_MPI)
        check_launcher(list);
    else
        add_check(list, "ranks", CLI_PASS, "none: this yoke was built without MPI");
}

static void check_ranks_if_any(struct list *list)
{
    if (HAS_MPI) check_ranks(list);
}

/* What is checked, in this order. The ranks come last, because another finding may explain their failure. */
static const struct {
    const char *what;
    void (*check)(struct list *list);
} all_checks[] = {
    { "the launcher of ranks", check_launcher_or_none },
    { "shared memory", check_shared_memory },
    { "limits", check_limits },
    { "cores", check_cores },
    { "the binding to cores", check_binding },
    { "OpenCL", check_opencl },
    { "CUDA", check_cuda },
    { "HIP", check_hip },
    { "permissions", check_permissions },
    { "devices", check_devices },
    { "the folder of compiled kernels", check_cache },
    { "variables", check_variables },
    { "ranks that start and meet", check_ranks_if_any },
};

int cli_check_machine(const struct yoke_backend_report *reports, int n_reports, struct cli_check *out,
                      int capacity)
{
    struct list list = { .checks = out, .capacity = capacity, .reports = reports, .n_reports = n_reports };
    if (yokei_topology(&list.topology)) {
        fix(add_check(&list, "topology", CLI_FAIL, "%s", yoke_last_error()),
            "apt-get install libhwloc15, and see that /sys is mounted");
        list.topology.n_cores = list.topology.n_processing_units = 1;
    }
    cli_progress_begin("check of this machine");
    for (size_t i = 0; i < YOKE_COUNT(all_checks); i++) {
        cli_progress_now("%s", all_checks[i].what);
        cli_progress_at((double)i, YOKE_COUNT(all_checks));
        all_checks[i].check(&list);
    }
    cli_progress_end();
    return list.n;
}

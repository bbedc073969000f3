/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections from strangers to the ports of a job.
 *   ports YOKE VICTIM                         one host: no process of a job may listen on any port
 *   with_hosts 2 -- ports YOKE VICTIM [N]     two hosts: make N (1,000) connections to every port of the job
 * The connections go to every port on which a process of the job listens. Each connection sends a few
 * meaningless bytes. The job must go on, or its end must give the reason. The test connects only to the job's
 * own ports, which are in the hosts that the test made. Prints TAP.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/times.h"
#include "tests/faults/processes.h"

#define LIMIT_SECONDS 200.0
#define MAX_PORTS 64

struct port {
    struct in_addr address;
    in_port_t port;
    unsigned long inode;
    char process[64]; /* name of a process that holds the port */
};

static char tag[64];
static int n_hosts, n_ranks;
static struct port ports[MAX_PORTS];
static int n_ports, n_processes, n_sockets;

static bool has_tag(int pid)
{
    char path[64], text[65536];
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    const int fd = open(path, O_RDONLY);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : 0;
    if (fd >= 0) close(fd);
    return n > 0 && memmem(text, (size_t)n, tag, strlen(tag));
}

/*
 * The address at which other hosts reach a port that listens on all of a process's addresses. with_hosts
 * gives each host one address; the head host has 254.
 */
static struct in_addr address_of(int pid)
{
    char path[300], one[64] = "", other[64] = "", text[32];
    struct in_addr address = { 0 };
    int host, found = 254;
    snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
    if (readlink(path, one, sizeof one - 1) <= 0) return address;
    for (host = 1; host <= n_hosts; host++) {
        int first = -1;
        snprintf(path, sizeof path, "%s/host%d.pid", getenv("TEST_HOSTS_DIR"), host);
        FILE *from = fopen(path, "r");
        if (from && fscanf(from, "%d", &first) != 1) first = -1;
        if (from) fclose(from);
        snprintf(path, sizeof path, "/proc/%d/ns/net", first);
        memset(other, 0, sizeof other);
        if (readlink(path, other, sizeof other - 1) > 0 && !strcmp(one, other)) found = host;
    }
    snprintf(text, sizeof text, n_hosts ? "10.231.77.%d" : "127.0.0.1", found);
    inet_pton(AF_INET, text, &address);
    return address;
}

/*
 * Note whether this socket of the process listens, and where. `file` is the table of TCP sockets of its
 * network.
 */
static void look_up(int pid, unsigned long inode, const char *file)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/net/%s", pid, file);
    FILE *table = fopen(path, "r");
    while (table && fgets(line, sizeof line, table)) {
        char where[64];
        unsigned state, port;
        unsigned long its;
        if (sscanf(line, " %*d: %63[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %lu", where, &port,
                   &state, &its)
                != 4
            || its != inode || state != 10)
            continue;
        bool known = false;
        for (int i = 0; i < n_ports; i++) known |= ports[i].inode == inode;
        if (known || n_ports == MAX_PORTS) continue;
        struct port *p = &ports[n_ports++];
        *p = (struct port){ .port = htons((in_port_t)port),
                            .inode = inode,
                            .address.s_addr = (in_addr_t)strtoul(where, NULL, 16) };
        if (strlen(where) > 8 || !p->address.s_addr) p->address = address_of(pid);
        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        FILE *comm = fopen(path, "r");
        char name[32] = "?";
        if (comm && !fgets(name, sizeof name, comm)) name[0] = 0;
        if (comm) fclose(comm);
        name[strcspn(name, "\n")] = 0;
        snprintf(p->process, sizeof p->process, "%s (pid %d)", name, pid);
    }
    if (table) fclose(table);
}

static void look_at_process(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    n_processes += dir != NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char target[128];
        unsigned long inode;
        const ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1);
        if (n <= 0) continue;
        target[n] = 0;
        if (sscanf(target, "socket:[%lu]", &inode) != 1) continue;
        n_sockets++;
        look_up(pid, inode, "tcp");
        look_up(pid, inode, "tcp6");
    }
    if (dir) closedir(dir);
}

/*
 * Look at all processes that have the job's tag. Returns whether `ranks` (process ids as their hosts count)
 * are among them.
 */
static int look(const int *ranks)
{
    DIR *dir = opendir("/proc");
    int n_found = 0;
    n_ports = n_processes = n_sockets = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const int pid = atoi(e->d_name);
        if (pid <= 0 || pid == getpid() || !has_tag(pid)) continue;
        look_at_process(pid);
        for (int r = 0; r < n_ranks; r++) n_found += pid == ranks[r];
    }
    if (dir) closedir(dir);
    return n_found;
}

/* One connection of a stranger: connect, send a few bytes, and do not wait for an answer. */
static bool knock(const struct port *p, int i)
{
    static const char *const words[] = {
        "GET / HTTP/1.0\r\n\r\n",           "\x16\x03\x01\x02", "",
        "\xff\xff\xff\xff\xff\xff\xff\xff", "SSH-2.0-x\r\n",    "\0\0\0\0\0\0\0\0\0"
    };
    static const size_t bytes[] = { 18, 4, 0, 8, 11, 9 };
    const struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = p->port, .sin_addr = p->address };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct pollfd wait = { .fd = fd, .events = POLLOUT };
    if (fd < 0) return false;
    connect(fd, (const struct sockaddr *)&to, sizeof to);
    int error = 0;
    socklen_t length = sizeof error;
    const bool in = poll(&wait, 1, 1000) == 1 && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length)
                    && !error;
    if (in && bytes[i % 6]) (void)!send(fd, words[i % 6], bytes[i % 6], MSG_NOSIGNAL);
    close(fd);
    return in;
}

static pid_t start(char **argv, const char *folder, int *out, int *err)
{
    int from[2], errors[2];
    char n[16];
    if (pipe(from) || pipe(errors)) exit(99);
    const pid_t job = fork_or_exit();
    if (job == 0) {
        setenv("PORTS_TEST_TAG", tag, 1);
        setenv("VICTIM_FOLDER", folder, 1);
        dup2(from[1], 1);
        dup2(errors[1], 2);
        for (int i = 3; i < 16; i++) close(i);
        snprintf(n, sizeof n, "%d", n_ranks);
        if (n_hosts)
            execl(argv[1], argv[1], "run", "-n", n, "--grace", "10s", "--hosts", "host1,host2", "--run-dir",
                  folder, "--", argv[2], (char *)NULL);
        execl(argv[1], argv[1], "run", "-n", n, "--grace", "10s", "--", argv[2], (char *)NULL);
        _exit(127);
    }
    close(from[1]);
    close(errors[1]);
    *out = from[0];
    *err = errors[0];
    return job;
}

/* Read "rank R pid P" of all ranks, and wait until all are in their collectives. */
static bool meet(int out, const char *folder, int *ranks)
{
    char text[4096] = "", path[300];
    size_t used = 0;
    int seen = 0;
    const double until = yokei_now() + LIMIT_SECONDS;
    while (seen < n_ranks && yokei_now() < until && used + 1 < sizeof text) {
        struct pollfd wait = { .fd = out, .events = POLLIN };
        if (poll(&wait, 1, 100) != 1) continue;
        const ssize_t n = read(out, text + used, sizeof text - 1 - used);
        if (n <= 0) return false;
        text[used += (size_t)n] = 0;
        seen = 0;
        int rank, pid;
        for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
            if (sscanf(line, "rank %d pid %d", &rank, &pid) == 2 && rank >= 0 && rank < n_ranks)
                ranks[rank] = pid, seen++;
    }
    for (int r = 0; r < n_ranks && yokei_now() < until; r++) {
        snprintf(path, sizeof path, "%s/begun-%d", folder, r);
        while (access(path, R_OK) && yokei_now() < until) usleep(5000);
    }
    return yokei_now() < until;
}

static void drain(int fd, char *text, size_t bytes, double until)
{
    size_t used = 0;
    while (used + 1 < bytes && yokei_now() < until) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        if (poll(&wait, 1, 50) != 1) continue;
        const ssize_t n = read(fd, text + used, bytes - 1 - used);
        if (n <= 0) break;
        used += (size_t)n;
    }
    text[used] = 0;
}

static int n_results;
static bool good = true;
static void result(bool ok, const char *name, const char *why)
{
    printf("%s %d - %s%s%s\n", ok ? "ok" : "not ok", ++n_results, name, ok ? "" : ": ", ok ? "" : why);
    good = good && ok;
}

static bool is_launcher(const struct port *p) { return !strncmp(p->process, "mpiexec", 7); }

/*
 * Connect to each port. The job may end because of it; then no process listens any more. Returns the number
 * of connections.
 */
static int visit(bool launchers, int knocks)
{
    int all = 0;
    for (int i = 0; i < n_ports; i++) {
        int in = 0;
        if (is_launcher(&ports[i]) != launchers) continue;
        for (int k = 0; k < knocks; k++) in += knock(&ports[i], k);
        printf("# %s:%d of %s: %d of %d connections\n", inet_ntoa(ports[i].address), ntohs(ports[i].port),
               ports[i].process, in, knocks);
        all += in;
    }
    return all;
}

/* End the processes that are left, which have the tag. Returns their number. */
static int left_over(void)
{
    DIR *dir = opendir("/proc");
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const int pid = atoi(e->d_name);
        if (pid <= 0 || pid == getpid()) continue;
        const int process = hold_process(pid);
        if (has_tag(pid)) n++, signal_held(process, SIGKILL);
        let_go_of(process);
    }
    if (dir) closedir(dir);
    return n;
}

static void judge_end(pid_t job, int err)
{
    static char text[65536];
    char why[512];
    int code = 0;
    const double until = yokei_now() + LIMIT_SECONDS, lives = yokei_now() + 2;
    while (!child_has_ended(job) && yokei_now() < lives) usleep(10000);
    const bool survived = !child_has_ended(job);
    if (survived) kill(job, SIGINT);
    drain(err, text, sizeof text, until);
    if (yokei_now() >= until) kill(job, SIGKILL);
    waitpid(job, &code, 0);
    printf("# %s\n", survived ? "the job went on" : "the job ended of it");
    snprintf(why, sizeof why, "code %d, %.400s", code, text);
    if (!survived) {
        const char *said = strstr(text, "yoke: error:");
        result(WIFEXITED(code) && WEXITSTATUS(code) == 16 && said && strstr(said, "port"),
               "the end is a verdict that names the cause", why);
    } else {
        result(yokei_now() < until, "the job goes on", why);
    }
    const double gone = yokei_now() + 60;
    while (left_over() && yokei_now() < gone) usleep(20000);
    result(yokei_now() < gone, "nothing is left", "processes are");
}

int main(int argc, char **argv)
{
    int ranks[8] = { 0 }, out, err, knocks = argc > 3 ? atoi(argv[3]) : 1000;
    char folder[256], why[256], path[300];
    if (argc < 3) return 99;
    make_folder(folder, sizeof folder, "yoke-ports");
    signal(SIGPIPE, SIG_IGN);
    while (getenv("TEST_HOSTS_DIR")
           && snprintf(path, sizeof path, "%s/host%d.pid", getenv("TEST_HOSTS_DIR"), n_hosts + 1) > 0
           && !access(path, R_OK))
        n_hosts++;
    n_ranks = n_hosts ? 4 : 3;
    snprintf(tag, sizeof tag, "ports-%d-%ld", (int)getpid(), (long)time(NULL));
    const pid_t job = start(argv, folder, &out, &err);
    if (!meet(out, folder, ranks)) {
        static char text[8192];
        kill(job, SIGINT);
        drain(err, text, sizeof text, yokei_now() + 10);
        result(false, "the job starts", text);
        kill(job, SIGKILL);
        waitpid(job, NULL, 0);
        left_over();
    } else {
        const int found = look(ranks);
        printf("# %d processes with %d sockets, %d ports\n", n_processes, n_sockets, n_ports);
        if (!n_hosts) {
            snprintf(why, sizeof why, "%d of %d ranks among %d processes", found, n_ranks, n_processes);
            result(found == n_ranks && n_processes >= 1 + 2 * n_ranks && n_sockets >= 2 * n_ranks,
                   "every process of the job was looked at", why);
            snprintf(why, sizeof why, "%d do: %s", n_ports, ports[0].process);
            result(n_ports == 0, "none listens", why);
        } else {
            result(n_ports > 0 && n_processes >= 1 + 2 * n_ranks, "the job's ports were found",
                   "there are none");
            int in = visit(false, knocks);
            usleep(500000);
            snprintf(why, sizeof why, "%d connections", in);
            result(in >= knocks && !child_has_ended(job), "strangers at the ranks' ports do no harm", why);
            in = visit(true, knocks);
            result(in > 0, "the launcher's port was found open", "it was not");
        }
        judge_end(job, err);
    }
    printf("1..%d\n", n_results);
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.') unlinkat(dirfd(dir), e->d_name, 0);
    if (dir) closedir(dir);
    rmdir(folder);
    return good ? 0 : 1;
}

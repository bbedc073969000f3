/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces ssh and its daemon for the hosts that with_hosts makes.
 *   remote serve SOCKET              the first process of a host: starts programs, and reaps all processes
 *   remote [-e] [-x] HOST WORD...    run the words on HOST as a line for a shell, as ssh does
 *   remote end HOST                  the first process of HOST ends at once; the kernel kills all the others
 *   remote hold FILE COMMAND...      run a command, and write the number of its first child into FILE; kill
 *                                    the command when stdin closes
 * The line runs in the same folder, with the daemon's environment (-e: with this process's environment). The
 * exit code is the line's. The socket of HOST is $TEST_HOSTS_DIR/HOST. If the client dies, the command stays.
 * The connection to its launcher tells it that the job has ended.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1 << 20, SESSIONS = 256 };
static const size_t END = SIZE_MAX; /* in the place of a line's length: the host shall end */
extern char **environ;

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(127);
}

static struct sockaddr_un address(const char *path)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof a.sun_path) fail("remote: the socket's path is too long");
    memcpy(a.sun_path, path, strlen(path));
    return a;
}

/* ---- the client ---- */

/* Write the folder, the line and, with -e, the environment variables. A 0 byte ends each of them. */
static size_t compose(char *text, int n_words, char **words, int with_environment)
{
    size_t used;
    if (!getcwd(text, 4096)) fail("remote: getcwd");
    used = strlen(text) + 1;
    for (int i = 0; i < n_words; i++)
        used += (size_t)snprintf(text + used, MOST - used, "%s%s", i ? " " : "", words[i]);
    used++;
    for (char **e = environ; with_environment && *e && used + strlen(*e) + 1 < MOST; e++)
        used += (size_t)snprintf(text + used, MOST - used, "%s", *e) + 1;
    return used;
}

static int reach(const char *host)
{
    char path[300];
    const char *folder = getenv("TEST_HOSTS_DIR");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "", host);
    const struct sockaddr_un to = address(path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to)) fail(path);
    return fd;
}

static int end(const char *host)
{
    const int fd = reach(host);
    char none;
    if (send(fd, &END, sizeof END, MSG_NOSIGNAL) != sizeof END) fail("remote: send");
    while (recv(fd, &none, 1, 0) > 0) {} /* until the host is gone */
    return 0;
}

static int run(const char *host, int n_words, char **words, int with_environment)
{
    static char text[MOST];
    char control[CMSG_SPACE(3 * sizeof(int))] = { 0 };
    const int fd = reach(host);
    size_t bytes = compose(text, n_words, words, with_environment), sent = 0;
    struct iovec part = { &bytes, sizeof bytes };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(c), (int[]){ 0, 1, 2 }, 3 * sizeof(int));
    if (sendmsg(fd, &message, MSG_NOSIGNAL) != sizeof bytes) fail("remote: sendmsg");
    for (ssize_t n; sent < bytes; sent += (size_t)n)
        if ((n = send(fd, text + sent, bytes - sent, MSG_NOSIGNAL)) <= 0) fail("remote: send");
    int code;
    if (recv(fd, &code, sizeof code, MSG_WAITALL) != sizeof code) return 255; /* the host is gone */
    return WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
}

/* ---- the daemon ---- */

struct session {
    int fd;
    pid_t pid;
};

static _Noreturn void become(char *text, size_t bytes, const int fds[3])
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    for (int i = 0; i < 3; i++) dup2(fds[i], i); /* the original descriptors are above 2, and close on exec */
    char *line = text + strlen(text) + 1, *variable = line + strlen(line) + 1;
    if (chdir(text)) fail(text);
    if (variable < text + bytes) clearenv();
    for (; variable < text + bytes; variable += strlen(variable) + 1) putenv(variable);
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    fail("/bin/sh");
}

static pid_t begin(int fd)
{
    static char text[MOST];
    char control[CMSG_SPACE(3 * sizeof(int))];
    size_t bytes = 0, got = 0;
    struct iovec part = { &bytes, sizeof bytes };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
    };
    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != sizeof bytes) return -1;
    if (bytes == END) _exit(0);
    if (bytes >= MOST || !CMSG_FIRSTHDR(&message)) return -1;
    int fds[3];
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fds);
    for (ssize_t n; got < bytes; got += (size_t)n)
        if ((n = recv(fd, text + got, bytes - got, 0)) <= 0) break;
    const pid_t pid = got == bytes ? fork() : -1;
    if (pid == 0) become(text, bytes, fds);
    for (int i = 0; i < 3; i++) close(fds[i]);
    return pid;
}

static void collect(struct session sessions[SESSIONS])
{
    int code;
    for (pid_t pid; (pid = waitpid(-1, &code, WNOHANG)) > 0;)
        for (int i = 0; i < SESSIONS; i++) {
            if (sessions[i].pid != pid) continue;
            (void)!send(sessions[i].fd, &code, sizeof code, MSG_NOSIGNAL);
            close(sessions[i].fd);
            sessions[i].pid = 0;
        }
}

static int serve(const char *path)
{
    static struct session sessions[SESSIONS];
    const struct sockaddr_un at = address(path);
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, NULL);
    const int signals = signalfd(-1, &ended, SFD_CLOEXEC),
              door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(door, (const struct sockaddr *)&at, sizeof at) || listen(door, 64)) fail(path);
    for (;;) {
        struct pollfd wait[2] = { { .fd = signals, .events = POLLIN }, { .fd = door, .events = POLLIN } };
        poll(wait, 2, -1);
        struct signalfd_siginfo info;
        if (wait[0].revents && read(signals, &info, sizeof info) > 0) collect(sessions);
        if (!wait[1].revents) continue;
        const int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        int free_one = 0;
        while (free_one < SESSIONS && sessions[free_one].pid) free_one++;
        const pid_t pid = fd >= 0 && free_one < SESSIONS ? begin(fd) : -1;
        if (pid > 0)
            sessions[free_one] = (struct session){ fd, pid };
        else if (fd >= 0)
            close(fd);
    }
}

/* ---- what holds a host ---- */

/* Write the number of a process's first child into the file, when there is a child. */
static void note_child(pid_t parent, const char *file)
{
    char path[64], temporary[4096];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    for (int turn = 0; turn < 1000 && child <= 0; turn++, usleep(5000)) {
        FILE *from = fopen(path, "r");
        if (!from || fscanf(from, "%d", &child) != 1) child = 0;
        if (from) fclose(from);
    }
    snprintf(temporary, sizeof temporary, "%s.tmp", file);
    FILE *to = fopen(temporary, "w");
    if (!to || fprintf(to, "%d\n", child) < 0 || fclose(to) || rename(temporary, file)) fail(file);
}

/*
 * The command is not waited for before the signal is sent. So its number is still its own, even if it ended
 * long before. A shell could not do this, because it waits for its children whenever it likes.
 */
static int hold(const char *file, char **words)
{
    char none[64];
    const pid_t pid = fork();
    if (pid < 0) fail("remote: fork");
    if (pid == 0) {
        const int null = open("/dev/null", O_RDONLY);
        dup2(null, 0);
        execvp(words[0], words);
        fail(words[0]);
    }
    note_child(pid, file);
    while (read(0, none, sizeof none) > 0) {}
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return 0;
}

int main(int argc, char **argv)
{
    int at = 1, with_environment = 0;
    if (argc == 3 && !strcmp(argv[1], "serve")) return serve(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "end")) return end(argv[2]);
    if (argc > 3 && !strcmp(argv[1], "hold")) return hold(argv[2], argv + 3);
    for (; at < argc && argv[at][0] == '-'; at++) with_environment |= !strcmp(argv[at], "-e");
    if (argc - at < 2) {
        fprintf(
            stderr,
            "remote serve SOCKET | remote end HOST | remote hold FILE COMMAND... | remote [-e] [-x] HOST WORD...\n");
        return 127;
    }
    return run(argv[at], argc - at - 1, argv + at + 1, with_environment);
}

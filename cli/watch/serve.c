/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke watch --serve: the page of yoke report about a run, made again while browsers ask for it. Requests
 * only wait for a page. However many there are, a page is made at most once in a while.
 */
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/report/report.h"
#include "cli/watch/watch.h"
#include "core/base/base.h"

/* FRESH: seconds in which a page is not made again. SHARE: the part of the time in which pages are made. */
static const double FRESH = 2, SHARE = 0.05;

/* ---- the address ---- */

struct place {
    char address[256], port[16];
    bool is_loopback, is_any, is_v6;
};

/* Read "PORT", "ADDRESS:PORT" or "[ADDRESS]:PORT". */
static yoke_status read_place(const char *where, struct place *place)
{
    const char *colon = strrchr(where, ':'), *port = colon ? colon + 1 : where;
    size_t n = colon ? (size_t)(colon - where) : 0;
    char *end;
    const bool is_bracketed = n >= 2 && where[0] == '[' && where[n - 1] == ']';
    const long number = strtol(port, &end, 10);
    yokei_text(place->address, sizeof place->address, "%.*s", (int)(is_bracketed ? n - 2 : n),
               where + is_bracketed);
    if (!colon) yokei_text(place->address, sizeof place->address, "127.0.0.1");
    yokei_text(place->port, sizeof place->port, "%ld", number);
    if (*port >= '0' && *port <= '9' && !*end && number >= 0 && number <= 65535 && place->address[0]
        && (is_bracketed || !strchr(place->address, ':')))
        return YOKE_OK;
    return yoke_fail(
        YOKE_EINVAL,
        "--serve %s: give a port, such as 8080, or an address and a port, such as 127.0.0.1:8080 "
        "or [::1]:8080; port 0 chooses a free one",
        where);
}

static void judge_place(struct place *place, const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        place->is_v6 = true;
        place->is_loopback = IN6_IS_ADDR_LOOPBACK(a);
        place->is_any = IN6_IS_ADDR_UNSPECIFIED(a);
    } else {
        const uint32_t a = ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
        place->is_loopback = a >> 24 == 127;
        place->is_any = a == INADDR_ANY;
    }
}

static yoke_status listen_at(const char *where, struct place *place, int *fd_out)
{
    const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    YOKE_TRY(read_place(where, place));
    const int reason = getaddrinfo(place->address, place->port, &hints, &found);
    if (reason)
        return yoke_fail(YOKE_ECONFIG, "--serve %s: the address %s is not known: %s", where, place->address,
                         gai_strerror(reason));
    judge_place(place, found->ai_addr);
    const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd >= 0 && place->is_v6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    const bool listens = fd >= 0 && !bind(fd, found->ai_addr, found->ai_addrlen) && !listen(fd, 64);
    const int error = errno;
    freeaddrinfo(found);
    if (listens) {
        *fd_out = fd;
        return YOKE_OK;
    }
    if (fd >= 0) close(fd);
    return yoke_fail(YOKE_EIO, "--serve %s: cannot listen there: %s%s", where, strerror(error),
                     error == EADDRINUSE ? "; give another port, or 0 for a free one"
                     : error == EACCES   ? "; give a port of at least 1024"
                                         : "");
}

static int port_of(int fd)
{
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    if (getsockname(fd, (struct sockaddr *)&bound, &bytes)) return 0;
    return ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&bound)->sin6_port
                                             : ((struct sockaddr_in *)(void *)&bound)->sin_port);
}

static yoke_status draw_token(char token_out[WATCH_TOKEN + 1])
{
    unsigned char bits[WATCH_TOKEN / 2];
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        return yoke_fail(YOKE_EIO, "--serve: the kernel gives no random number: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bits; i++) snprintf(token_out + 2 * i, 3, "%02x", bits[i]);
    return YOKE_OK;
}

static void print_url(const struct place *place, int port, const char *token)
{
    char host[256];
    yokei_text(host, sizeof host, place->is_v6 ? "[%s]" : "%s", place->address);
    if (place->is_any && gethostname(host, sizeof host - 1)) yokei_text(host, sizeof host, "localhost");
    printf("http://%s:%d/%s/\n", host, port, token);
    fflush(stdout);
    if (!place->is_loopback)
        cli_warn(
            "--serve %s: anybody who can reach this address and has the URL can read the page. Nothing is encrypted",
            place->address);
}

/* ---- the page ---- */

/* What tells whether the page would be another one. */
struct signature {
    struct {
        ino_t inode;
        off_t bytes;
        struct timespec changed;
    } files[3];
};

static void sign(const char *folder, struct signature *out)
{
    static const char *const names[3] = { "metrics.jsonl", "plan.json", "." };
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 3; i++) {
        char path[4200];
        struct stat st;
        yokei_text(path, sizeof path, "%s/%s", folder, names[i]);
        if (stat(path, &st)) continue;
        out->files[i].inode = st.st_ino;
        out->files[i].bytes = st.st_size;
        out->files[i].changed = st.st_mtim;
    }
}

/* Write the page of the run. A run without a row has a page that says so. */
static char *make_page(const char *folder, size_t *bytes_out)
{
    char *text = NULL, why[4096];
    FILE *to = open_memstream(&text, bytes_out);
    if (!to) return NULL;
    struct report_page page = { .to = to };
    const yoke_status status = report_of_run(&page, folder, NULL);
    yokei_text(why, sizeof why, "%s", status ? yoke_last_error() : "");
    fflush(to);
    if (status && !*bytes_out) {
        struct report_page waiting = { .to = to };
        char title[4300];
        yokei_text(title, sizeof title, "Training run %s", folder);
        report_begin(&waiting, title);
        report_paragraph(&waiting, "There is nothing to show yet. This page looks again by itself.");
        report_paragraph(&waiting, "%s", why);
        report_end(&waiting);
    }
    if (fclose(to)) {
        free(text);
        return NULL;
    }
    return text;
}

static volatile sig_atomic_t asked;
static void on_signal(int signal) { (void)signal, asked = 1; }

struct serving {
    const char *folder;
    struct watch_http *http;
    int wake;
    struct signature signature;
    uint64_t made_ns;
};

/* Make the page again if a request waits for it. An unchanged run keeps its page for a minute. */
static void renew(struct serving *s)
{
    enum { LONGEST_UNCHANGED = 60 };
    struct signature now;
    const uint64_t begun = yokei_now_ns();
    sign(s->folder, &now);
    if (s->made_ns && !memcmp(&now, &s->signature, sizeof now)
        && yokei_seconds_since(s->made_ns) < LONGEST_UNCHANGED) {
        watch_http_put(s->http, NULL, 0, FRESH);
        return;
    }
    size_t bytes = 0;
    char *page = make_page(s->folder, &bytes);
    s->signature = now;
    s->made_ns = begun;
    watch_http_put(s->http, page, bytes, fmax(FRESH, yokei_seconds_since(begun) / SHARE));
}

static void serve(struct serving *s)
{
    sigset_t set, outside;
    struct sigaction action = { .sa_handler = on_signal };
    sigemptyset(&set);
    for (const int *n = (const int[]){ SIGINT, SIGTERM, SIGHUP, 0 }; *n; n++) {
        sigaddset(&set, *n);
        sigaction(*n, &action, NULL);
    }
    sigprocmask(SIG_BLOCK, &set, &outside);
    while (!asked) {
        struct pollfd wake = { s->wake, POLLIN, 0 };
        uint64_t n;
        if (ppoll(&wake, 1, &(struct timespec){ .tv_sec = 1 }, &outside) == 1
            && read(s->wake, &n, sizeof n) == (ssize_t)sizeof n)
            renew(s);
        watch_http_sweep(s->http);
    }
}

yoke_status watch_serve(const char *folder, const char *where)
{
    struct place place = { .is_any = false };
    struct serving s = { .folder = folder };
    char token[WATCH_TOKEN + 1];
    int fd = -1;
    YOKE_TRY(watch_http_check());
    YOKE_TRY(draw_token(token));
    YOKE_TRY(listen_at(where, &place, &fd));
    const int port = port_of(fd);
    signal(SIGPIPE, SIG_IGN);
    s.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    yoke_status status = s.wake < 0
                             ? yoke_fail(YOKE_EIO, "--serve: no descriptor is left: %s", yokei_why(errno))
                             : YOKE_OK;
    if (status)
        close(fd);
    else
        status = watch_http_start(fd, token, s.wake, &s.http);
    if (!status) {
        print_url(&place, port, token);
        serve(&s);
        watch_http_stop(s.http);
    }
    if (s.wake >= 0) close(s.wake);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of one page, by libmicrohttpd. It reads nothing but the method and the path of a request, and it
 * answers at once or when the page is made. Connections are bounded in number, also for one address, in time
 * and in memory. If an address has many connections, its oldest one is closed, so that connections which send
 * nothing keep nobody out.
 */
#include "cli/watch/watch.h"
#include "core/base/base.h"

#if !CLI_HAS_MICROHTTPD

yoke_status watch_http_check(void)
{
    return yoke_fail(
        YOKE_ECONFIG,
        "--serve: this yoke was built without libmicrohttpd, which serves pages; install it (apt-get "
        "install libmicrohttpd-dev), and configure and build yoke again. Without it, write the page to "
        "a file by yoke report");
}
yoke_status watch_http_start(int listening, const char token[WATCH_TOKEN + 1], int wake,
                             struct watch_http **http_out)
{
    (void)listening, (void)token, (void)wake, (void)http_out;
    return watch_http_check();
}
void watch_http_put(struct watch_http *http, char *page, size_t bytes, double fresh_seconds)
{
    (void)http, (void)page, (void)bytes, (void)fresh_seconds;
}
void watch_http_sweep(struct watch_http *http) { (void)http; }
void watch_http_stop(struct watch_http *http) { (void)http; }

#else

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * MOST: connections at once. FROM_ONE: of one address, before its oldest is closed; the library refuses more
 * than MOST_FROM_ONE. SILENT, OPEN: seconds without a byte, and in all. MEMORY: bytes for a request's head.
 */
enum { MOST = 64, FROM_ONE = 32, MOST_FROM_ONE = 48, SILENT = 5, OPEN = 30, MEMORY = 8192 };

struct connection {
    struct MHD_Connection *connection; /* NULL: the place is free */
    int fd;
    uint64_t begun_ns;
    unsigned char address[8]; /* of IPv6 the network */
    bool is_suspended, is_shut;
};

struct watch_http {
    struct MHD_Daemon *daemon;
    char token[WATCH_TOKEN + 1];
    int wake;
    struct MHD_Response *missing, *refused;
    pthread_mutex_t lock;      /* of what follows; the server has a thread of its own */
    struct MHD_Response *page; /* NULL: none was made yet */
    uint64_t stale_ns;         /* when the page is no longer fresh */
    bool is_stopping;
    struct connection connections[MOST];
};

yoke_status watch_http_check(void) { return YOKE_OK; }

/* ---- answers ---- */

static struct MHD_Response *answer(void *body, size_t bytes, enum MHD_ResponseMemoryMode mode,
                                   const char *type)
{
    static const char *const headers[][2] = {
        /* the page has its style and its script inside, and nothing else may be loaded or asked */
        { "Content-Security-Policy",
          "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'" },
        { "Cache-Control", "no-store" },
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
        { "Connection", "close" },
    };
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, body, mode);
    if (!response) return NULL;
    MHD_add_response_header(response, "Content-Type", type);
    for (size_t i = 0; i < YOKE_COUNT(headers); i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
    return response;
}

/* Compare all characters, so that the time tells nothing of the token. */
static bool is_path_of(const char *url, const char *token)
{
    const size_t n = strlen(url);
    if (n != WATCH_TOKEN + 1 && !(n == WATCH_TOKEN + 2 && url[n - 1] == '/')) return false;
    volatile unsigned char differs = (unsigned char)(url[0] ^ '/');
    for (int i = 0; i < WATCH_TOKEN; i++) differs |= (unsigned char)(url[1 + i] ^ token[i]);
    return !differs;
}

static struct connection *place_of(struct watch_http *http, const struct MHD_Connection *connection)
{
    for (int i = 0; i < MOST; i++)
        if (http->connections[i].connection == connection) return &http->connections[i];
    return NULL;
}

/* Answer with the page, or let the request wait for it. The caller has the lock. */
static enum MHD_Result give_page(struct watch_http *http, struct MHD_Connection *connection)
{
    struct connection *place = place_of(http, connection);
    if (yokei_now_ns() < http->stale_ns || http->is_stopping || !place)
        return http->page ? MHD_queue_response(connection, MHD_HTTP_OK, http->page) : MHD_NO;
    const uint64_t one = 1;
    place->is_suspended = true;
    MHD_suspend_connection(connection);
    (void)!write(http->wake, &one, sizeof one);
    return MHD_YES;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_bytes, void **own)
{
    struct watch_http *http = context;
    (void)version, (void)body, (void)body_bytes, (void)own;
    /* answered before the body is read, which the library then leaves unread */
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return MHD_queue_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, http->refused);
    if (!is_path_of(url, http->token))
        return MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, http->missing);
    pthread_mutex_lock(&http->lock);
    const enum MHD_Result result = give_page(http, connection);
    pthread_mutex_unlock(&http->lock);
    return result;
}

/* ---- connections ---- */

static void address_of(struct MHD_Connection *connection, unsigned char out[8])
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
                                                                   MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    memset(out, 0, 8);
    if (!info || !info->client_addr) return;
    if (info->client_addr->sa_family == AF_INET6)
        memcpy(out, &((const struct sockaddr_in6 *)(const void *)info->client_addr)->sin6_addr, 8);
    else if (info->client_addr->sa_family == AF_INET)
        memcpy(out, &((const struct sockaddr_in *)(const void *)info->client_addr)->sin_addr, 4);
}

static void shut(struct connection *c)
{
    if (!c->is_shut) shutdown(c->fd, SHUT_RDWR);
    c->is_shut = true;
}

/* If this address has many connections, close its oldest one. The server's thread does the rest. */
static void make_room_for(struct watch_http *http, const struct connection *one)
{
    struct connection *oldest = NULL;
    int n = 0;
    for (int i = 0; i < MOST; i++) {
        struct connection *c = &http->connections[i];
        if (!c->connection || c == one || c->is_shut || memcmp(c->address, one->address, sizeof c->address))
            continue;
        n++;
        if (!oldest || c->begun_ns < oldest->begun_ns) oldest = c;
    }
    if (n >= FROM_ONE) shut(oldest);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **own,
                          enum MHD_ConnectionNotificationCode what)
{
    struct watch_http *http = context;
    (void)own;
    pthread_mutex_lock(&http->lock);
    struct connection *place = place_of(http, what == MHD_CONNECTION_NOTIFY_STARTED ? NULL : connection);
    if (place && what == MHD_CONNECTION_NOTIFY_CLOSED)
        place->connection = NULL;
    else if (place) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
                                                                       MHD_CONNECTION_INFO_CONNECTION_FD);
        *place = (struct connection){ connection, info ? info->connect_fd : -1, yokei_now_ns() };
        address_of(connection, place->address);
        make_room_for(http, place);
    }
    pthread_mutex_unlock(&http->lock);
}

void watch_http_sweep(struct watch_http *http)
{
    pthread_mutex_lock(&http->lock);
    for (int i = 0; i < MOST; i++) {
        struct connection *c = &http->connections[i];
        if (c->connection && !c->is_suspended && yokei_seconds_since(c->begun_ns) > OPEN) shut(c);
    }
    pthread_mutex_unlock(&http->lock);
}

/* Let the requests go on that wait for a page. The caller has the lock. */
static void resume_all(struct watch_http *http)
{
    for (int i = 0; i < MOST; i++) {
        struct connection *c = &http->connections[i];
        if (!c->connection || !c->is_suspended) continue;
        c->is_suspended = false;
        MHD_resume_connection(c->connection);
    }
}

/* ---- the server ---- */

void watch_http_put(struct watch_http *http, char *page, size_t bytes, double fresh_seconds)
{
    struct MHD_Response *fresh = NULL, *was = NULL;
    if (page) fresh = answer(page, bytes, MHD_RESPMEM_MUST_FREE, "text/html; charset=utf-8");
    if (page && !fresh) free(page);
    if (fresh) MHD_add_response_header(fresh, "Refresh", "10");
    pthread_mutex_lock(&http->lock);
    if (fresh) was = http->page, http->page = fresh;
    http->stale_ns = yokei_now_ns() + (uint64_t)(fresh_seconds * 1e9);
    resume_all(http);
    pthread_mutex_unlock(&http->lock);
    if (was) MHD_destroy_response(was);
}

static void free_http(struct watch_http *http)
{
    if (http->page) MHD_destroy_response(http->page);
    if (http->missing) MHD_destroy_response(http->missing);
    if (http->refused) MHD_destroy_response(http->refused);
    pthread_mutex_destroy(&http->lock);
    free(http);
}

yoke_status watch_http_start(int listening, const char token[WATCH_TOKEN + 1], int wake,
                             struct watch_http **http_out)
{
    static char missing[] = "not found\n", refused[] = "only GET and HEAD\n";
    struct watch_http *http = calloc(1, sizeof *http);
    sigset_t was;
    if (!http) {
        close(listening);
        return yoke_fail(YOKE_ENOMEM, "--serve: no memory for a server");
    }
    pthread_mutex_init(&http->lock, NULL);
    memcpy(http->token, token, sizeof http->token);
    http->wake = wake;
    http->missing = answer(missing, sizeof missing - 1, MHD_RESPMEM_PERSISTENT, "text/plain");
    http->refused = answer(refused, sizeof refused - 1, MHD_RESPMEM_PERSISTENT, "text/plain");
    if (http->refused) MHD_add_response_header(http->refused, "Allow", "GET, HEAD");
    yokei_signals_hold(&was); /* the server's thread takes no signals */
    if (http->missing && http->refused)
        http->daemon = MHD_start_daemon(
            MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
            on_request, http, MHD_OPTION_LISTEN_SOCKET, listening, MHD_OPTION_CONNECTION_LIMIT,
            (unsigned)MOST, MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)MOST_FROM_ONE,
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
            (size_t)MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
            http, MHD_OPTION_END);
    yokei_signals_release(&was);
    if (!http->daemon) {
        close(listening);
        free_http(http);
        return yoke_fail(YOKE_EIO, "--serve: libmicrohttpd cannot start a server");
    }
    *http_out = http;
    return YOKE_OK;
}

void watch_http_stop(struct watch_http *http)
{
    pthread_mutex_lock(&http->lock);
    http->is_stopping = true;
    resume_all(http);
    pthread_mutex_unlock(&http->lock);
    MHD_stop_daemon(http->daemon);
    free_http(http);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay in the agent between a rank and its launcher (cli/launch/pmi_relay.c): what one side says reaches
 * the other side unchanged, the relay never blocks and never spins, and the rank meets the end of the
 * launcher's connection only when the agent says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/launch/pmi_relay.h"
#include "tests/unit/test.h"

static struct cli_pmi_relay relay;
static int rank, launcher, events; /* the rank's end, the launcher's end, and the agent's epoll */

static int begin(void **state)
{
    int fds[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    launcher = fds[0];
    assert_int_equal(cli_pmi_relay_open(&relay, fds[1], &rank), YOKE_OK);
    events = epoll_create1(EPOLL_CLOEXEC);
    cli_pmi_relay_watch(&relay, events);
    return 0;
}

static int end(void **state)
{
    (void)state;
    cli_pmi_relay_close(&relay);
    if (rank >= 0) close(rank);
    if (launcher >= 0) close(launcher);
    close(events);
    return 0;
}

/* Do what the agent's loop does, until nothing is left to do. Returns how many times the agent woke. */
static int serve(void)
{
    struct epoll_event event;
    int n = 0;
    for (; epoll_wait(events, &event, 1, 0) == 1; n++) {
        assert_true(n < 100000);
        assert_true(cli_pmi_relay_serve(&relay, event.data.fd));
    }
    return n;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT), (ssize_t)strlen(text));
}

/* What has come: "" for nothing, "-" for the end. */
static const char *heard(int fd)
{
    static char text[256];
    const ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    if (n == 0) return "-";
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void passes_both_ways(void **state)
{
    (void)state;
    assert_int_equal(serve(), 0);
    say(rank, "cmd=init\n");
    serve();
    assert_string_equal(heard(launcher), "cmd=init\n");
    say(launcher, "cmd=response\n");
    say(rank, "cmd=get_maxes\n");
    serve();
    assert_string_equal(heard(rank), "cmd=response\n");
    assert_string_equal(heard(launcher), "cmd=get_maxes\n");
    assert_string_equal(heard(rank), "");
    assert_false(cli_pmi_relay_serve(&relay, 1000)); /* no socket of the relay */
    assert_true(fcntl(relay.rank, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(relay.launcher, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(rank, F_GETFD) & FD_CLOEXEC);
}

/* Send from one side without end, until the relay takes no more. Then read all at the other side. */
static void flood(int from, int to)
{
    unsigned char block[1000], got[5000];
    size_t sent = 0, received = 0;
    for (ssize_t n = 1; n > 0 && sent < 100u << 20;) {
        for (size_t i = 0; i < sizeof block; i++) block[i] = (unsigned char)((sent + i) % 251);
        n = send(from, block, sizeof block, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) sent += (size_t)n;
        if (n < 0 && serve()) n = 1; /* the relay made room */
    }
    assert_true(sent > sizeof block && sent < 100u << 20); /* a sender without end is held up */
    assert_int_equal(serve(), 0);
    while (received < sent) {
        const ssize_t n = recv(to, got, sizeof got, MSG_DONTWAIT);
        if (n < 0) {
            assert_true(serve() > 0);
            continue;
        }
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++) assert_int_equal(got[i], (received + (size_t)i) % 251);
        received += (size_t)n;
    }
    assert_int_equal(received, sent);
}

static void flood_of_rank(void **state)
{
    (void)state;
    flood(rank, launcher);
    say(rank, "more");
    serve();
    assert_string_equal(heard(launcher), "more");
}

static void flood_of_launcher(void **state)
{
    (void)state;
    flood(launcher, rank);
    say(rank, "and back");
    serve();
    assert_string_equal(heard(launcher), "and back");
}

static void end_of_rank(void **state)
{
    (void)state;
    say(rank, "cmd=abort exitcode=3\n");
    close(rank);
    rank = -1;
    serve();
    assert_string_equal(heard(launcher), "cmd=abort exitcode=3\n");
    assert_string_equal(heard(launcher), "-");
    assert_false(cli_pmi_relay_holds(&relay));
    assert_int_equal(serve(), 0);
}

/* The last words of a rank reach a launcher that was slow to read. */
static void end_of_rank_before_a_slow_launcher(void **state)
{
    char block[8192];
    size_t sent = 0, received = 0;
    (void)state;
    memset(block, 'x', sizeof block);
    for (ssize_t n = 1; n > 0 || serve();) {
        n = send(rank, block, sizeof block, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) sent += (size_t)n;
    }
    close(rank);
    rank = -1;
    for (ssize_t n; (n = recv(launcher, block, sizeof block, 0)) > 0; serve()) received += (size_t)n;
    assert_int_equal(received, sent);
}

static void end_of_launcher_is_held(void **state)
{
    (void)state;
    assert_false(cli_pmi_relay_holds(&relay));
    say(launcher, "cmd=finalize_ack\n");
    close(launcher);
    launcher = -1;
    serve();
    assert_string_equal(heard(rank), "cmd=finalize_ack\n");
    assert_string_equal(heard(rank), ""); /* not the end */
    assert_true(cli_pmi_relay_holds(&relay));
    say(rank, "cmd=put\n"); /* goes nowhere, and harms nobody */
    serve();
    assert_int_equal(serve(), 0);
    assert_string_equal(heard(rank), "");
    cli_pmi_relay_hang_up(&relay);
    assert_string_equal(heard(rank), "-");
    assert_false(cli_pmi_relay_holds(&relay));
}

/* The launcher's socket is open in another process (the holder) when the agent closes it. */
static void another_process_keeps_the_socket(void **state)
{
    (void)state;
    const int holder = dup(relay.launcher);
    close(rank);
    rank = -1;
    serve();
    assert_int_equal(relay.launcher, -1);
    say(launcher, "cmd=barrier_out\n");
    assert_int_equal(serve(), 0); /* it does not wake the agent any more */
    close(holder);
}

static void no_relay(void **state)
{
    (void)state;
    struct cli_pmi_relay none = CLI_PMI_RELAY_NONE;
    cli_pmi_relay_watch(&none, events);
    assert_false(cli_pmi_relay_serve(&none, -1));
    assert_false(cli_pmi_relay_serve(&none, 0));
    assert_false(cli_pmi_relay_holds(&none));
    cli_pmi_relay_hang_up(&none);
    cli_pmi_relay_close(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(passes_both_ways, begin, end),
        cmocka_unit_test_setup_teardown(flood_of_rank, begin, end),
        cmocka_unit_test_setup_teardown(flood_of_launcher, begin, end),
        cmocka_unit_test_setup_teardown(end_of_rank, begin, end),
        cmocka_unit_test_setup_teardown(end_of_rank_before_a_slow_launcher, begin, end),
        cmocka_unit_test_setup_teardown(end_of_launcher_is_held, begin, end),
        cmocka_unit_test_setup_teardown(another_process_keeps_the_socket, begin, end),
        cmocka_unit_test_setup_teardown(no_relay, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's side of PMI, with which ranks talk to it (cli/launch/pmi.c): the requests that MPICH makes,
 * and requests that no program should make.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/launch/pmi.h"
#include "tests/unit/test.h"

#define MOST 4

static struct cli_pmi *pmi;
static int fds[MOST], n;

static void begin(int ranks)
{
    n = ranks;
    assert_int_equal(cli_pmi_new(n, &pmi), YOKE_OK);
    for (int r = 0; r < n; r++) {
        assert_int_equal(cli_pmi_connect(pmi, r, &fds[r]), YOKE_OK);
        assert_true(fcntl(fds[r], F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(cli_pmi_fd(pmi, r), F_GETFD) & FD_CLOEXEC);
    }
}

static void end(void)
{
    cli_pmi_free(pmi);
    for (int r = 0; r < n; r++)
        if (fds[r] >= 0) close(fds[r]);
}

static void hang_up(int r)
{
    close(fds[r]);
    fds[r] = -1;
    cli_pmi_serve(pmi, r);
}

static void say_bytes(int r, const void *data, size_t bytes)
{
    assert_int_equal(send(fds[r], data, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
    cli_pmi_serve(pmi, r);
}

static void say(int r, const char *text) { say_bytes(r, text, strlen(text)); }

/* The text that rank r has received: "" nothing; "-" the connection is closed. */
static const char *heard(int r)
{
    static char text[8192];
    const ssize_t got = recv(fds[r], text, sizeof text - 1, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return "-";
    text[got > 0 ? got : 0] = '\0';
    return text;
}

static void asked(int r, const char *line, const char *answer)
{
    say(r, line);
    assert_string_equal(heard(r), answer);
}

/* The requests with which MPICH 4.0 begins and ends. */
static void test_what_mpich_asks(void **state)
{
    (void)state;
    begin(2);
    assert_false(cli_pmi_in_mpi(pmi, 0));
    for (int r = 0; r < 2; r++) {
        asked(r, "cmd=init pmi_version=1 pmi_subversion=1\n",
              "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
        asked(r, "cmd=get_maxes\n", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
        asked(r, "cmd=get_appnum\n", "cmd=appnum appnum=0\n");
        asked(r, "cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=yoke\n");
        asked(r, "cmd=get_universe_size\n", "cmd=universe_size size=2\n");
        asked(r, "cmd=get kvsname=yoke key=PMI_process_mapping\n",
              "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n");
    }
    asked(0, "cmd=put kvsname=yoke key=-bcast-1-0 value=2F64\n", "cmd=put_result rc=0 msg=success\n");
    asked(0, "cmd=barrier_in\n", "");
    assert_true(cli_pmi_waits(pmi, 0) && !cli_pmi_waits(pmi, 1) && cli_pmi_in_mpi(pmi, 0));
    asked(1, "cmd=barrier_in\n", "cmd=barrier_out\n");
    assert_string_equal(heard(0), "cmd=barrier_out\n");
    assert_false(cli_pmi_waits(pmi, 0) || cli_pmi_waits(pmi, 1));
    asked(1, "cmd=get kvsname=yoke key=-bcast-1-0\n", "cmd=get_result rc=0 msg=success value=2F64\n");
    asked(0, "cmd=finalize\n", "cmd=finalize_ack\n");
    assert_false(cli_pmi_in_mpi(pmi, 0));
    hang_up(0);
    assert_int_equal(cli_pmi_fd(pmi, 0), -1);
    assert_null(cli_pmi_fault(pmi, 0));
    assert_int_equal(cli_pmi_first_abort(pmi), -1);
    end();
}

static void test_pieces_of_lines(void **state)
{
    (void)state;
    begin(1);
    for (const char *c = "cmd=get_appnum\n"; *c; c++) {
        assert_string_equal(heard(0), "");
        say_bytes(0, c, 1);
    }
    assert_string_equal(heard(0), "cmd=appnum appnum=0\n");
    /* A single rank waits for no other rank. */
    asked(0, "cmd=get_appnum\ncmd=barrier_in\ncmd=get_app", "cmd=appnum appnum=0\ncmd=barrier_out\n");
    asked(0, "num\n", "cmd=appnum appnum=0\n");
    end();
}

static void test_the_store(void **state)
{
    char line[CLI_PMI_LINE_MAX], text[CLI_PMI_VALUE_MAX + 2], answer[CLI_PMI_LINE_MAX];
    (void)state;
    begin(2);
    asked(0, "cmd=get kvsname=yoke key=k\n", "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
    asked(0, "cmd=put kvsname=yoke key=k value=a=b\n", "cmd=put_result rc=0 msg=success\n");
    asked(1, "cmd=get kvsname=yoke key=k\n", "cmd=get_result rc=0 msg=success value=a=b\n");
    asked(1, "cmd=put kvsname=yoke key=k value=2\n", "cmd=put_result rc=-1 msg=duplicate_key\n");
    asked(1, "cmd=put kvsname=other key=l value=2\n", "cmd=put_result rc=-1 msg=unknown_kvs\n");
    asked(1, "cmd=put kvsname=yoke value=2\n", "cmd=put_result rc=-1 msg=key_is_missing_or_too_long\n");
    asked(1, "cmd=put kvsname=yoke key= value=2\n", "cmd=put_result rc=-1 msg=key_is_missing_or_too_long\n");
    asked(1, "cmd=put kvsname=yoke key=l\n", "cmd=put_result rc=-1 msg=value_is_missing_or_too_long\n");
    asked(1, "cmd=get kvsname=yoke\n", "cmd=get_result rc=-1 msg=key_is_missing_or_too_long value=unknown\n");
    memset(text, 'x', sizeof text);
    snprintf(line, sizeof line, "cmd=put kvsname=yoke key=%.*s value=1\n", CLI_PMI_KEY_MAX, text);
    asked(0, line, "cmd=put_result rc=0 msg=success\n");
    snprintf(line, sizeof line, "cmd=put kvsname=yoke key=%.*s value=1\n", CLI_PMI_KEY_MAX + 1, text);
    asked(0, line, "cmd=put_result rc=-1 msg=key_is_missing_or_too_long\n");
    snprintf(line, sizeof line, "cmd=put kvsname=yoke key=long value=%.*s\n", CLI_PMI_VALUE_MAX, text);
    asked(0, line, "cmd=put_result rc=0 msg=success\n");
    snprintf(answer, sizeof answer, "cmd=get_result rc=0 msg=success value=%.*s\n", CLI_PMI_VALUE_MAX, text);
    asked(1, "cmd=get kvsname=yoke key=long\n", answer);
    snprintf(line, sizeof line, "cmd=put kvsname=yoke key=longer value=%.*s\n", CLI_PMI_VALUE_MAX + 1, text);
    asked(0, line, "cmd=put_result rc=-1 msg=value_is_missing_or_too_long\n");
    end();
}

/* Many keys must be found again. The keys of one rank are limited, whatever the other ranks have. */
static void test_room(void **state)
{
    char line[256], answer[128];
    int stored = 0;
    (void)state;
    begin(2);
    for (int i = 0; i < 20000; i++) {
        snprintf(line, sizeof line, "cmd=put kvsname=yoke key=key-%d value=value-%d\n", i, i);
        say(0, line);
        if (!strncmp(heard(0), "cmd=put_result rc=-1 msg=no_room_left", 37)) break;
        stored++;
    }
    assert_in_range(stored, 1000, CLI_PMI_RANK_BYTES / 12);
    for (int i = 0; i < stored; i += 7) {
        snprintf(line, sizeof line, "cmd=get kvsname=yoke key=key-%d\n", i);
        snprintf(answer, sizeof answer, "cmd=get_result rc=0 msg=success value=value-%d\n", i);
        asked(1, line, answer);
    }
    asked(1, "cmd=put kvsname=yoke key=mine value=1\n", "cmd=put_result rc=0 msg=success\n");
    end();
}

/* If a rank sends anything that is not PMI-1, it loses its connection. The other ranks lose nothing. */
static void test_malformed(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
        const char *fault;
    } cases[] = {
        { "GET / HTTP/1.0\r\n", 16, "GET / HTTP/1.0?" },
        { "\n", 1, "an empty line" },
        { "cmd=\n", 5, "cmd=" },
        { "cmd=format_disk\n", 16, "cmd=format_disk" },
        { "cmd=a_word_that_is_much_longer_than_any_command_of_the_protocol\n", 65,
          "cmd=a_word_that_is_much_longer_than_any_command_of_the_protocol" },
        { "key=1 cmd=get_appnum\n", 21, "key=1 cmd=get_appnum" },
        { "cmd=get_appnum\0\n", 16, "cmd=get_appnum?" },
        { "\033[2J\xff\xfe\n", 7, "?[2J??" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(2);
        say_bytes(0, cases[i].text, cases[i].bytes);
        assert_string_equal(heard(0), "-");
        assert_int_equal(cli_pmi_fd(pmi, 0), -1);
        assert_string_equal(cli_pmi_fault(pmi, 0) ? cli_pmi_fault(pmi, 0) : "", cases[i].fault);
        cli_pmi_serve(pmi, 0); /* the fault has no other effect */
        asked(1, "cmd=get_appnum\n", "cmd=appnum appnum=0\n");
        end();
    }
}

static void test_endless_line(void **state)
{
    char text[CLI_PMI_LINE_MAX];
    (void)state;
    begin(1);
    memset(text, 'a', sizeof text);
    say_bytes(0, text, sizeof text - 1);
    assert_string_equal(heard(0), "");
    say_bytes(0, text, 1);
    assert_string_equal(heard(0), "-");
    assert_non_null(cli_pmi_fault(pmi, 0));
    end();
}

/* A rank that sends requests and never reads an answer must not block the server. */
static void test_no_reader(void **state)
{
    (void)state;
    begin(1);
    for (int i = 0; i < 100000 && cli_pmi_fd(pmi, 0) >= 0; i++) {
        if (send(fds[0], "cmd=get_maxes\n", 14, MSG_DONTWAIT | MSG_NOSIGNAL) != 14) break;
        cli_pmi_serve(pmi, 0);
    }
    assert_int_equal(cli_pmi_fd(pmi, 0), -1);
    assert_non_null(cli_pmi_fault(pmi, 0));
    end();
}

/* A rank that ends between its request and the answer is not an error. */
static void test_gone_before_the_answer(void **state)
{
    static const char line[] = "cmd=init pmi_version=1 pmi_subversion=1\n";
    (void)state;
    begin(2);
    assert_int_equal(send(fds[0], line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
    hang_up(0);
    assert_int_equal(cli_pmi_fd(pmi, 0), -1);
    assert_null(cli_pmi_fault(pmi, 0));
    end();
}

static void test_deserters(void **state)
{
    (void)state;
    begin(3);
    asked(0, "cmd=barrier_in\n", "");
    asked(2, "cmd=barrier_in\n", "");
    assert_false(cli_pmi_deserted(pmi, 1));
    hang_up(1);
    assert_true(cli_pmi_deserted(pmi, 1));
    assert_false(cli_pmi_deserted(pmi, 0) || cli_pmi_deserted(pmi, 2));
    asked(0, "cmd=barrier_in\n", ""); /* a message that comes twice counts once */
    hang_up(2); /* it leaves in the middle of a barrier, but the others do not wait for this rank */
    assert_false(cli_pmi_deserted(pmi, 2));
    assert_string_equal(heard(0), "");
    end();
    begin(2);
    hang_up(1);
    assert_false(cli_pmi_deserted(pmi, 1)); /* no rank waits */
    end();
}

static void test_abort(void **state)
{
    int code;
    (void)state;
    begin(3);
    assert_false(cli_pmi_aborts(pmi, 1, &code));
    asked(1, "cmd=abort exitcode=7\n", "");
    asked(0, "cmd=abort exitcode=99999999999\n", "");
    asked(2, "cmd=abort\n", "");
    assert_int_equal(cli_pmi_first_abort(pmi), 1);
    assert_true(cli_pmi_aborts(pmi, 1, &code));
    assert_int_equal(code, 7);
    assert_true(cli_pmi_aborts(pmi, 0, &code));
    assert_int_equal(code, 1); /* text that is not a number means the code of a failure */
    assert_true(cli_pmi_aborts(pmi, 2, &code));
    end();
}

/* Requests that one host does not support. MPI must get an error. */
static void test_not_here(void **state)
{
    (void)state;
    begin(1);
    asked(0, "mcmd=spawn\nnprocs=2\nexecname=./a\ntotspawns=2\nspawnssofar=1\ncmd=abort\nendcmd\n", "");
    asked(0, "mcmd=spawn\nnprocs=1\nexecname=./b\ntotspawns=2\nspawnssofar=2\nendcmd\n",
          "cmd=spawn_result rc=-1 msg=not_without_hydra\n");
    assert_int_equal(cli_pmi_first_abort(pmi), -1);
    asked(0, "cmd=publish_name service=a port=b\n",
          "cmd=publish_result rc=-1 msg=not_without_hydra info=not_without_hydra\n");
    asked(0, "cmd=lookup_name service=a\n",
          "cmd=lookup_result rc=-1 msg=not_without_hydra info=not_without_hydra\n");
    asked(0, "cmd=unpublish_name service=a\n",
          "cmd=unpublish_result rc=-1 msg=not_without_hydra info=not_without_hydra\n");
    asked(0, "cmd=init pmi_version=2 pmi_subversion=0\n",
          "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
    end();
}

/*
 * Words of the protocol and meaningless bytes, in all orders and pieces. Nothing may be read or written out
 * of bounds (sanitizers), and the server must answer.
 */
static void test_noise(void **state)
{
    static const char *const words[] = { "cmd=",
                                         "init",
                                         "put ",
                                         "kvsname=yoke ",
                                         "key=",
                                         "value=",
                                         "\n",
                                         " ",
                                         "=",
                                         "barrier_in",
                                         "cmd=get kvsname=yoke key=a\n",
                                         "cmd=put kvsname=yoke key=a value=b\n",
                                         "mcmd=spawn\n",
                                         "endcmd\n",
                                         "\xff",
                                         "cmd=finalize\n",
                                         "cmd=abort exitcode=",
                                         "9" };
    uint32_t draw = 12345;
    (void)state;
    for (int round = 0; round < 400; round++) {
        begin(2);
        for (int i = 0; i < 60 && cli_pmi_fd(pmi, 0) >= 0; i++) {
            draw ^= draw << 13, draw ^= draw >> 17, draw ^= draw << 5;
            say(0, words[draw % (sizeof words / sizeof words[0])]);
            heard(0);
        }
        asked(1, "cmd=get_appnum\n", "cmd=appnum appnum=0\n");
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_mpich_asks), cmocka_unit_test(test_pieces_of_lines),
        cmocka_unit_test(test_the_store),       cmocka_unit_test(test_room),
        cmocka_unit_test(test_malformed),       cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_no_reader),       cmocka_unit_test(test_gone_before_the_answer),
        cmocka_unit_test(test_deserters),       cmocka_unit_test(test_abort),
        cmocka_unit_test(test_not_here),        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flight records (files in which ranks note what they do): writing them, reading those of other ranks, and
 * refusing wrong files. The test also checks verdicts (why a rank ended) and which rank caused a failure.
 */
#include "tests/unit/folder.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/flight/postmortem.h"
#include "core/base/base.h"

static void is_shared_and_private(void **unused)
{
    (void)unused;
    struct yokei_flight_file *mine, *again;
    const struct yokei_flight_file *theirs;
    struct stat st;
    char name[32];
    assert_ok(yokei_flight_create(test_folder, 3, true, &mine));
    assert_ok(yokei_flight_open(test_folder, 3, &theirs));
    yokei_flight_set_agent(mine, YOKEI_AGENT_STOPPED, 4711, SIGSTOP, 0);
    struct yokei_agent_verdict verdict = yokei_flight_agent(theirs);
    assert_int_equal(verdict.state, YOKEI_AGENT_STOPPED);
    assert_int_equal(verdict.pid, 4711);
    assert_int_equal(verdict.signal, SIGSTOP);
    yokei_flight_set_agent(mine, YOKEI_AGENT_DEAD, 4711, 0, 16);
    assert_int_equal(yokei_flight_agent(theirs).exit_code, 16);
    /* The rank opens the file that its agent made, and keeps its contents. */
    assert_ok(yokei_flight_create(test_folder, 3, false, &again));
    assert_int_equal(yokei_flight_agent(again).state, YOKEI_AGENT_DEAD);
    yokei_flight_close(again);
    assert_ok(yokei_flight_create(test_folder, 3, true, &again));
    assert_int_equal(yokei_flight_agent(again).state, YOKEI_AGENT_NONE);
    yokei_flight_name(3, name, sizeof name);
    assert_int_equal(stat(in_folder(name), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    yokei_flight_close(again);
    yokei_flight_close(theirs);
    yokei_flight_close(mine);
}

static void wrong_files_are_refused(void **unused)
{
    (void)unused;
    const struct yokei_flight_file *file;
    struct yokei_flight_file *made;
    const char *path = in_folder("flight-00007.bin");
    char zeros[sizeof(struct yokei_flight_file)] = { 0 };
    assert_fails(YOKE_EDATA, "cannot be opened", yokei_flight_open(test_folder, 99, &file));
    assert_fails(YOKE_EIO, "cannot be created", yokei_flight_create("/no/such/folder", 0, true, &made));
    assert_ok(yokei_file_write(path, "short", 5));
    assert_fails(YOKE_EDATA, "shorter", yokei_flight_open(test_folder, 7, &file));
    assert_ok(yokei_file_write(path, zeros, sizeof zeros));
    assert_fails(YOKE_EDATA, "not a flight record", yokei_flight_open(test_folder, 7, &file));
    memcpy(zeros, "yokefl1", 8);
    assert_ok(yokei_file_write(path, zeros, 100)); /* an older format is named as such, whatever its length */
    assert_fails(YOKE_EDATA, "format '1'", yokei_flight_open(test_folder, 7, &file));
    assert_int_equal(symlink("/etc/passwd", in_folder("flight-00008.bin")), 0);
    assert_fails(YOKE_EDATA, NULL, yokei_flight_open(test_folder, 8, &file));
    assert_fails(YOKE_EIO, NULL, yokei_flight_create(test_folder, 8, false, &made));
}

static void outlives_a_killed_process(void **unused)
{
    (void)unused;
    struct yokei_flight_file *file;
    int fd;
    assert_ok(yokei_flight_create_memory(5, &fd, &file));
    const pid_t child = fork();
    if (child == 0) {
        atomic_store(&file->n_operations, 12);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    const struct yokei_flight_file *seen;
    assert_ok(yokei_flight_open_memory(getpid(), fd, &seen));
    assert_int_equal(atomic_load(&seen->n_operations), 12);
    assert_int_equal(seen->rank, 5);
    yokei_flight_close(seen);
    yokei_flight_close(file);
    close(fd);
}

/*
 * Four ranks. waits_for[r] is the rank for which r waits; -1: r is outside collectives. All ranks have the
 * fate `fate`, except that `dead` has the fate that its agent noted.
 */
struct scene {
    struct yokei_flight_file *files[4];
    int fds[4];
    enum yokei_fate fates[4];
    bool candidates[4];
};

static void set_scene(struct scene *s, const int waits_for[4], enum yokei_fate fate)
{
    for (int r = 0; r < 4; r++) {
        assert_ok(yokei_flight_create_memory(r, &s->fds[r], &s->files[r]));
        atomic_store(&s->files[r]->waits_for, waits_for[r]);
        atomic_store(&s->files[r]->progress_ns,
                     1000 + 10 * (uint64_t)((r + 2) % 4)); /* rank 2's is the oldest */
        atomic_store(&s->files[r]->state, waits_for[r] < 0 ? YOKEI_RANK_OUTSIDE : YOKEI_RANK_INSIDE);
        s->fates[r] = fate;
    }
}

static struct yokei_blame end_scene(struct scene *s)
{
    const struct yokei_blame blame = yokei_blame((const struct yokei_flight_file *const *)s->files, s->fates,
                                                 4, s->candidates);
    for (int r = 0; r < 4; r++) {
        yokei_flight_close(s->files[r]);
        close(s->fds[r]);
    }
    return blame;
}

static void the_chain_ends_at_the_culprit(void **unused)
{
    (void)unused;
    struct scene s;
    struct yokei_blame blame;
    set_scene(&s, (const int[]){ 1, 2, 3, -1 }, YOKEI_FATE_RUNNING); /* rank 3 has not called */
    blame = end_scene(&s);
    assert_int_equal(blame.rank, 3);
    assert_int_equal(blame.n_candidates, 1);
    /* The ranks wait in a circle. The rank that stood still first is the cause. */
    set_scene(&s, (const int[]){ 1, 2, 3, 0 }, YOKEI_FATE_RUNNING);
    assert_int_equal(end_scene(&s).rank, 2);
    set_scene(&s, (const int[]){ 1, 2, 3, -1 },
              YOKEI_FATE_GONE); /* all ranks are gone, so the answer is a guess and must say so */
    blame = end_scene(&s);
    assert_int_equal(blame.rank, 3);
    assert_int_equal(blame.evidence, YOKEI_EVIDENCE_WAITED);
    assert_int_equal(blame.n_candidates, 4);
}

/*
 * A rank that has ended an operation is not waited for there any more, whatever the other rank's record says.
 */
static void a_satisfied_wait_is_none(void **unused)
{
    (void)unused;
    struct scene s;
    set_scene(&s, (const int[]){ 1, -1, -1, -1 }, YOKEI_FATE_GONE);
    atomic_store(&s.files[0]->comm, 5);
    atomic_store(&s.files[0]->sequence, 9);
    s.files[1]->entries[0] = (struct yokei_flight_entry){
        .start_ns = 1, .end_ns = 2, .comm = 5, .sequence = 9
    };
    atomic_store(&s.files[1]->n_operations, 1);
    atomic_store(&s.files[1]->entries[0].state, 1);
    s.files[1]->entries[0].end_ns = 0;
    assert_int_equal(yokei_rank_waits_for((const struct yokei_flight_file *const *)s.files, 4, 0), 1);
    s.files[1]->entries[0].end_ns = 2;
    atomic_store(&s.files[1]->entries[0].state, 2);
    assert_int_equal(yokei_rank_waits_for((const struct yokei_flight_file *const *)s.files, 4, 0), -1);
    end_scene(&s);
}

static void evidence_goes_by_its_strength(void **unused)
{
    (void)unused;
    struct scene s;
    struct yokei_blame blame;
    const int waits[] = { 1, 2, 3, -1 };
    /* A witness counts more than the chain of waits; of two witnesses the earlier one counts. */
    set_scene(&s, waits, YOKEI_FATE_GONE);
    atomic_store(&s.files[3]->first_gone, 1);
    atomic_store(&s.files[3]->first_gone_ns, 500);
    atomic_store(&s.files[2]->first_gone, 0);
    atomic_store(&s.files[2]->first_gone_ns, 900);
    blame = end_scene(&s);
    assert_int_equal(blame.rank, 1);
    assert_int_equal(blame.evidence, YOKEI_EVIDENCE_WITNESS);
    assert_int_equal(blame.by, 3);
    set_scene(&s, waits,
              YOKEI_FATE_FAILED); /* an error that is a cause counts, although others are earlier */
    for (int r = 0; r < 4; r++) atomic_store(&s.files[r]->status, r == 2 ? YOKE_ENUMERIC : YOKE_EDEAD);
    atomic_store(&s.files[2]->heartbeat_ns, 7);
    blame = end_scene(&s);
    assert_int_equal(blame.rank, 2);
    assert_int_equal(blame.evidence, YOKEI_EVIDENCE_ERROR);
    set_scene(&s, waits, YOKEI_FATE_FAILED); /* the rank that an error names */
    s.fates[0] = YOKEI_FATE_GONE;
    for (int r = 1; r < 4; r++)
        atomic_store(&s.files[r]->status, YOKE_EDEAD), atomic_store(&s.files[r]->culprit, 0);
    assert_int_equal(end_scene(&s).rank, 0);
    set_scene(&s, waits, YOKEI_FATE_RUNNING);
    s.fates[1] = YOKEI_FATE_GONE;
    blame = end_scene(&s);
    assert_int_equal(blame.rank, 1);
    assert_int_equal(blame.evidence, YOKEI_EVIDENCE_GONE);
    /*
     * Two agents saw their ranks die. The rank that died first counts. A rank that had no record of its start
     * comes before it.
     */
    set_scene(&s, waits, YOKEI_FATE_KILLED);
    s.fates[1] = s.fates[2] = YOKEI_FATE_DEAD;
    yokei_flight_set_agent(s.files[2], YOKEI_AGENT_DEAD, 1, SIGSEGV, 0);
    yokei_flight_set_agent(s.files[1], YOKEI_AGENT_DEAD, 1, SIGKILL, 0);
    for (int r = 0; r < 4; r++) s.files[r]->clock_offset_ns = 0;
    assert_int_equal(end_scene(&s).rank, 2);
}

/*
 * Rank r returned an error that names a culprit, and ended with that error's code, as its agent noted. Then
 * the fates are concluded.
 */
static void says(struct scene *s, int r, yoke_status status, int culprit, uint64_t when)
{
    struct yokei_flight_file *file = s->files[r];
    atomic_store(&file->status, (uint32_t)status);
    atomic_store(&file->culprit, culprit);
    atomic_store(&file->heartbeat_ns, when);
    atomic_store(&file->state, YOKEI_RANK_OUTSIDE); /* it destroyed the communicator */
    yokei_flight_set_agent(file, YOKEI_AGENT_DEAD, 1, 0, yoke_status_exit_code(status));
}

static struct yokei_blame conclude(struct scene *s)
{
    for (int r = 0; r < 4; r++) s->files[r]->clock_offset_ns = 0, s->fates[r] = yokei_fate(s->files[r]);
    return end_scene(s);
}

/* A rank is late, stuck or stopped. The other ranks name it, and end with a code. They are not the cause. */
static void who_reports_is_not_to_blame(void **unused)
{
    (void)unused;
    struct scene s;
    struct yokei_blame blame;
    const int outside[] = { -1, -1, -1, -1 }, waits[] = { -1, 0, 0, 0 };
    const yoke_status statuses[] = { YOKE_ETIMEOUT, YOKE_ETIMEOUT, YOKE_EDEAD };
    /* 0: the rank was late; it came, and got the error. 1 and 2: it was stuck or stopped, and was ended */
    for (int kind = 0; kind < 3; kind++) {
        set_scene(&s, waits, YOKEI_FATE_RUNNING);
        for (int r = 1; r < 4; r++) says(&s, r, statuses[kind], 0, 100 + (uint64_t)r);
        if (kind == 0)
            says(&s, 0, YOKE_ETIMEOUT, 0, 900);
        else
            yokei_flight_set_agent(s.files[0], YOKEI_AGENT_ENDED, 1, SIGKILL, 0);
        blame = conclude(&s);
        assert_int_equal(blame.rank, 0);
        assert_int_equal(blame.evidence, YOKEI_EVIDENCE_ERROR);
    }
    set_scene(&s, outside, YOKEI_FATE_RUNNING); /* a rank names a rank that names another */
    says(&s, 0, YOKE_ETIMEOUT, 1, 100);
    says(&s, 1, YOKE_ETIMEOUT, 3, 200);
    says(&s, 2, YOKE_ETIMEOUT, 1, 300);
    says(&s, 3, YOKE_ENUMERIC, 3, 400);
    assert_int_equal(conclude(&s).rank, 3);
    set_scene(&s, outside, YOKEI_FATE_RUNNING); /* two ranks name each other, and the search must still end */
    for (int r = 0; r < 4; r++) says(&s, r, YOKE_ETIMEOUT, (r + 1) % 4, 100 + (uint64_t)r);
    assert_int_equal(conclude(&s).rank, 1);
    set_scene(&s, outside, YOKEI_FATE_RUNNING); /* a rank that reports nothing, and left after the error */
    for (int r = 0; r < 3; r++) says(&s, r, YOKE_ETIMEOUT, 1, 100);
    yokei_flight_set_agent(s.files[3], YOKEI_AGENT_DEAD, 1, 0, 1);
    atomic_store(&s.files[3]->n_operations, 1);
    assert_int_equal(conclude(&s).rank, 1);
    set_scene(&s, outside, YOKEI_FATE_RUNNING); /* but a signal is a cause */
    for (int r = 0; r < 3; r++) says(&s, r, YOKE_EDEAD, 3, 100);
    yokei_flight_set_agent(s.files[3], YOKEI_AGENT_DEAD, 1, SIGSEGV, 0);
    blame = conclude(&s);
    assert_int_equal(blame.rank, 3);
    assert_int_equal(blame.evidence, YOKEI_EVIDENCE_AGENT);
}

/*
 * Calls that differ. The rank that found it out named the other one. The rank whose call differs from all
 * others is the cause.
 */
static void the_odd_call_is_to_blame(void **unused)
{
    (void)unused;
    const int outside[] = { -1, -1, -1, -1 };
    for (int odd = 0; odd < 4; odd++)
        for (int finder = 0; finder < 4; finder++) {
            struct scene s;
            set_scene(&s, outside, YOKEI_FATE_RUNNING);
            for (int r = 0; r < 4; r++) {
                atomic_store(&s.files[r]->comm, 7);
                for (uint32_t i = 0; i < 3; i++) { /* the second call differs; some have made the third */
                    s.files[r]->entries[i] = (struct yokei_flight_entry){ .start_ns = 1,
                                                                          .end_ns = 2,
                                                                          .comm = 7,
                                                                          .sequence = i + 1,
                                                                          .kind = YOKEI_ALL_REDUCE,
                                                                          .count = r == odd && i == 1 ? 5 : 4,
                                                                          .algorithm = YOKEI_ONESHOT };
                    atomic_store(&s.files[r]->entries[i].state, 2);
                }
                atomic_store(&s.files[r]->n_operations, r % 2 ? 3 : 2);
                says(&s, r, YOKE_EMISMATCH, finder == odd ? (odd + 1) % 4 : odd, 100);
            }
            assert_int_equal(conclude(&s).rank, odd);
        }
}

/* After a shrink the lost rank is no cause any more, but a later failure is. */
static void a_lost_rank_is_no_cause(void **unused)
{
    (void)unused;
    struct scene s;
    const int waits[4] = { -1, -1, -1, -1 };
    struct yokei_blame blame;
    for (int later = 0; later < 2; later++) {
        set_scene(&s, waits, YOKEI_FATE_ENDED);
        s.fates[1] = YOKEI_FATE_DEAD;
        yokei_flight_set_agent(s.files[1], YOKEI_AGENT_DEAD, 1, SIGKILL, 0);
        if (later)
            s.fates[3] = YOKEI_FATE_DEAD, yokei_flight_set_agent(s.files[3], YOKEI_AGENT_DEAD, 1, SIGSEGV, 0);
        for (int r = 0; r < 4; r++) {
            s.files[r]->clock_offset_ns = 0;
            if (r == 1) continue;
            atomic_store(&s.files[r]->lost[0], 2);
            atomic_store(&s.files[r]->n_shrinks, 1);
        }
        struct yokei_lost lost;
        yokei_find_lost((const struct yokei_flight_file *const *)s.files, 4, &lost);
        assert_true(yokei_was_lost(&lost, 1));
        assert_false(yokei_was_lost(&lost, 3));
        blame = end_scene(&s);
        assert_int_equal(blame.rank, later ? 3 : -1);
        assert_int_equal(blame.evidence, later ? YOKEI_EVIDENCE_AGENT : YOKEI_EVIDENCE_NONE);
    }
}

static void fates(void **unused)
{
    (void)unused;
    struct yokei_flight_file *file;
    int fd;
    assert_ok(yokei_flight_create_memory(0, &fd, &file));
    assert_int_equal(yokei_fate(NULL), YOKEI_FATE_MISSING);
    yokei_flight_set_agent(file, YOKEI_AGENT_ALIVE, getpid(), 0,
                           0); /* the rank itself recorded nothing yet */
    assert_int_equal(yokei_fate(file), YOKEI_FATE_RUNNING);
    atomic_fetch_add(&file->rank_start, 1); /* another process with the same process id */
    assert_int_equal(yokei_fate(file), YOKEI_FATE_GONE);
    gethostname(file->host, sizeof file->host - 1);
    file->pid = getpid();
    yokei_process_state(getpid(), &file->start_time);
    atomic_store(&file->state, YOKEI_RANK_INSIDE);
    assert_int_equal(yokei_fate(file), YOKEI_FATE_RUNNING);
    file->start_time++; /* another process with the same process id */
    assert_int_equal(yokei_fate(file), YOKEI_FATE_GONE);
    yokei_text(file->host, sizeof file->host, "elsewhere"); /* the host's name does not tell */
    assert_int_equal(yokei_fate(file), YOKEI_FATE_GONE);
    file->host_id++;
    assert_int_equal(yokei_fate(file), YOKEI_FATE_UNKNOWN);
    atomic_store(&file->life, 4711u | YOKEI_LIFE_ENDED); /* the kernel's mark is seen everywhere */
    assert_int_equal(yokei_fate(file), YOKEI_FATE_GONE);
    yokei_flight_set_agent(file, YOKEI_AGENT_DEAD, 1, SIGKILL, 0);
    assert_int_equal(yokei_fate(file), YOKEI_FATE_DEAD);
    yokei_flight_set_agent(file, YOKEI_AGENT_ENDED, 1, SIGKILL, 0);
    assert_int_equal(yokei_fate(file), YOKEI_FATE_KILLED);
    atomic_store(&file->state, YOKEI_RANK_FAILED);
    assert_int_equal(yokei_fate(file), YOKEI_FATE_FAILED);
    yokei_flight_set_agent(file, YOKEI_AGENT_NONE, 1, 0, 0);
    atomic_store(&file->state, YOKEI_RANK_LEFT);
    assert_int_equal(yokei_fate(file), YOKEI_FATE_ENDED);
    yokei_flight_close(file);
    close(fd);
}

static void copies_are_clean(void **unused)
{
    (void)unused;
    struct yokei_flight_file *file, *copy;
    const char *path = in_folder("flight-00009.bin");
    assert_ok(yokei_flight_create(test_folder, 9, true, &file));
    memset(file->host, 'x', sizeof file->host); /* no end */
    memcpy(file->error, "a\033[31mb\nc\xc3", 11);
    assert_ok(yokei_flight_read(path, &copy));
    assert_int_equal(strlen(copy->host), sizeof copy->host - 1);
    assert_string_equal(copy->error, "a?[31mb c?");
    free(copy);
    /* A process that has mapped a record keeps it when a new record begins. */
    struct yokei_flight_file *next;
    assert_ok(yokei_flight_create(test_folder, 9, true, &next));
    assert_int_equal(file->host[0], 'x');
    assert_int_equal(next->host[0], 0);
    assert_true(next->clock_offset_ns != 0);
    yokei_flight_close(file);
    yokei_flight_close(next);
    yokei_flight_drop(test_folder, 9);
    assert_fails(YOKE_EDATA, "cannot be opened", yokei_flight_read(path, &copy));
}

static void processes(void **unused)
{
    (void)unused;
    uint64_t start = 0, again = 0;
    assert_int_equal(yokei_process_state(getpid(), &start), 'R');
    yokei_process_state(getpid(), &again);
    assert_true(start > 0 && start == again);
    const pid_t child = fork();
    assert_true(child >= 0); /* to kill(), -1 means all processes */
    if (child == 0) {
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    assert_int_equal(yokei_process_state(child, NULL), 'T');
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_int_equal(yokei_process_state(child, NULL), 0);
}

/* A stopped rank counts as stopped after a second, and not before another rank has watched it for a while. */
static void a_stop_counts_after_a_second(void **unused)
{
    (void)unused;
    const uint64_t ms = 1000000;
    struct yokei_agent_verdict stopped = {
        .state = YOKEI_AGENT_STOPPED, .pid = 1, .signal = SIGSTOP, .age_ns = 900 * ms
    };
    assert_false(yokei_stopped_for_long(&stopped, 800 * ms, true));
    stopped.age_ns = 1100 * ms;
    assert_true(yokei_stopped_for_long(&stopped, 300 * ms, true));
    stopped.age_ns = 600000 * ms; /* a watcher that was stopped together with it has just come back */
    assert_false(yokei_stopped_for_long(&stopped, 100 * ms, true));
    assert_false(yokei_stopped_for_long(&stopped, 900 * ms, false)); /* by another host's clock */
    assert_true(yokei_stopped_for_long(&stopped, 1100 * ms, false));
}

static void texts(void **unused)
{
    (void)unused;
    struct yokei_flight_file *file;
    char text[512];
    int fd;
    assert_ok(yokei_flight_create_memory(0, &fd, &file));
    yokei_flight_describe(file, true, text, sizeof text);
    assert_string_equal(text, "before its first collective");
    atomic_store(&file->state, YOKEI_RANK_STARTING);
    yokei_flight_describe(file, true, text, sizeof text);
    assert_string_equal(text, "starting MPI");
    assert_true(yokei_flight_starting(file));
    strcpy(file->comm_name, "control");
    atomic_store(&file->state, YOKEI_RANK_MEETING);
    yokei_flight_describe(file, true, text, sizeof text);
    assert_string_equal(text, "waiting for the others to make its first communicator, \"control\"");
    assert_true(yokei_flight_starting(file));
    atomic_store(&file->n_comms, 1);
    yokei_flight_describe(file, true, text, sizeof text);
    assert_string_equal(text, "waiting for the others to make the communicator \"control\"");
    assert_false(yokei_flight_starting(file)); /* a rank may be late for this for any time */
    atomic_store(&file->kind, YOKEI_BROADCAST);
    atomic_store(&file->sequence, 17);
    atomic_store(&file->step, 3);
    atomic_store(&file->waits_for, 2);
    atomic_store(&file->progress_ns, yokei_now_ns());
    strcpy(file->comm_name, "world");
    atomic_store(&file->state, YOKEI_RANK_INSIDE);
    yokei_flight_describe(file, true, text, sizeof text);
    assert_non_null(strstr(text, "in broadcast #17 of \"world\", step 3, waiting for rank 2"));
    const struct yokei_agent_verdict killed = { .state = YOKEI_AGENT_DEAD, .signal = SIGKILL };
    yokei_agent_verdict_text(&killed, text, sizeof text);
    assert_string_equal(text, "died by signal 9 (Killed)");
    const struct yokei_agent_verdict damaged = { .state = YOKEI_AGENT_STOPPED, .signal = 200 };
    yokei_agent_verdict_text(&damaged, text, sizeof text); /* strsignal would leave memory behind */
    assert_string_equal(text, "was stopped by signal 200 (unknown)");
    assert_string_equal(yokei_kind_name(YOKEI_N_KINDS), "?");
    assert_string_equal(yokei_algorithm_name(YOKEI_RING), "ring");
    assert_string_equal(yokei_algorithm_name(YOKEI_N_ALGORITHMS), "?");
    yokei_flight_close(file);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_shared_and_private),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(outlives_a_killed_process),
        cmocka_unit_test(the_chain_ends_at_the_culprit),
        cmocka_unit_test(a_satisfied_wait_is_none),
        cmocka_unit_test(evidence_goes_by_its_strength),
        cmocka_unit_test(who_reports_is_not_to_blame),
        cmocka_unit_test(the_odd_call_is_to_blame),
        cmocka_unit_test(a_lost_rank_is_no_cause),
        cmocka_unit_test(fates),
        cmocka_unit_test(a_stop_counts_after_a_second),
        cmocka_unit_test(copies_are_clean),
        cmocka_unit_test(processes),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}

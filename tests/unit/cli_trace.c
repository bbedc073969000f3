/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke trace on flight records (files in which ranks note what they do) that this test makes. Every format
 * must be right. Damaged records must give an error or an answer, and never a crash.
 */
#include "tests/unit/test.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <yoke/comm.h>

#include "cli/cli.h"
#include "collectives/flight/postmortem.h"
#include "core/base/base.h"

enum { RANKS = 3, OPERATIONS = 1500, WORLD = 77, PAIR = 78 };
static const uint64_t MS = 1000000;
static char folder[64], output[96];
static char *whole[RANKS]; /* the files as they were written */

void cli_warn(const char *format, ...)
{
    (void)format;
} /* damage is reported on stderr; this test causes it */

static struct yokei_flight_entry *add(struct yokei_flight_file *file, enum yokei_kind kind, uint32_t comm,
                                      uint32_t sequence, uint64_t start, uint64_t end)
{
    const uint64_t n = atomic_fetch_add(&file->n_operations, 1);
    struct yokei_flight_entry *e = &file->entries[n % YOKEI_FLIGHT_ENTRIES];
    *e = (struct yokei_flight_entry){ .start_ns = start,
                                      .end_ns = end,
                                      .count = 1000,
                                      .sequence = sequence,
                                      .comm = comm,
                                      .root = -1,
                                      .step = 2,
                                      .kind = (uint8_t)kind,
                                      .algorithm = YOKEI_RING };
    atomic_store(&e->waits_for, -1);
    atomic_store(&e->state, end ? 2 : 1);
    return e;
}

/*
 * Write the record of rank r of a job on two hosts: many all-reduces, in which rank 2 always comes last; a
 * message from rank 0 to rank 1; and ranks 0 and 1 wait for rank 2.
 */
static void write_record(int r)
{
    struct yokei_flight_file *file;
    assert_ok(yokei_flight_create(folder, r, true, &file));
    yokei_text(file->host, sizeof file->host, "host-%c", r == 2 ? 'b' : 'a');
    file->host_id = r == 2 ? 2 : 1;
    yokei_text(file->device, sizeof file->device, "opencl:%d", r);
    /* Host b's monotonic clock began 5 s later, so the same moment is a smaller number on host b. */
    const uint64_t base = r == 2 ? 1000 * MS : 6000 * MS;
    file->clock_offset_ns = (int64_t)(r == 2 ? 9000 * MS : 4000 * MS);
    file->pid = 4711 + r;
    file->n_ranks = RANKS;
    file->comms[0] = (struct yokei_flight_comm){ .uid = WORLD, .rank = r, .size = RANKS, .name = "world" };
    file->comms[1] = (struct yokei_flight_comm){
        .uid = PAIR, .rank = 1 - r, .size = 2, .name = "a \"pair\""
    };
    atomic_store(&file->n_comms, r == 2 ? 1 : 2);
    for (uint32_t s = 1; s <= OPERATIONS; s++)
        add(file, YOKEI_ALL_REDUCE, WORLD, s, base + s * MS + (r == 2 ? MS / 2 : 0),
            base + s * MS + MS * 3 / 4);
    if (r < 2) { /* in "pair" they are ranks 1 and 0 */
        struct yokei_flight_entry *e = add(file, r ? YOKEI_RECV : YOKEI_SEND, PAIR, 1, base + 2000 * MS,
                                           base + 2001 * MS);
        e->algorithm = YOKEI_PAIRS;
        e->root = r;
        e = add(file, YOKEI_ALL_REDUCE, WORLD, OPERATIONS + 1, base + 3000 * MS, 0);
        atomic_store(&e->waits_for, 2);
    }
    yokei_text(file->comm_name, sizeof file->comm_name, "world");
    atomic_store(&file->comm, WORLD);
    atomic_store(&file->sequence, OPERATIONS + 1);
    atomic_store(&file->waits_for, r < 2 ? 2 : -1);
    atomic_store(&file->heartbeat_ns, base + (r < 2 ? 3010 : OPERATIONS) * MS);
    atomic_store(&file->state, r < 2 ? YOKEI_RANK_INSIDE : YOKEI_RANK_OUTSIDE);
    if (r < 2)
        yokei_flight_set_agent(file, YOKEI_AGENT_ENDED, 4711 + r, SIGKILL, 0);
    else
        yokei_flight_set_agent(file, YOKEI_AGENT_DEAD, 4711 + r, SIGSEGV, 0);
    yokei_flight_close(file);
}

static void path_of(int r, char path[96])
{
    char name[32];
    yokei_flight_name(r, name, sizeof name);
    snprintf(path, 96, "%s/%s", folder, name);
}

static void put(int r, const char *data, size_t bytes)
{
    char path[96];
    path_of(r, path);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    assert_int_equal(fwrite(data, 1, bytes, to), bytes);
    fclose(to);
}

static int begin(void **unused)
{
    (void)unused;
    /* In memory if possible, because each output is synced to its disk. */
    strcpy(folder, "/dev/shm/trace-test.XXXXXX");
    if (!mkdtemp(folder) && !mkdtemp(strcpy(folder, "/tmp/trace-test.XXXXXX"))) return -1;
    snprintf(output, sizeof output, "%s/out", folder);
    for (int r = 0; r < RANKS; r++) {
        char path[96];
        size_t bytes;
        void *data;
        write_record(r);
        path_of(r, path);
        assert_ok(yokei_file_read(path, 1 << 20, &data, &bytes));
        assert_int_equal(bytes, sizeof(struct yokei_flight_file));
        whole[r] = data;
    }
    return 0;
}

static int end(void **unused)
{
    (void)unused;
    char command[128];
    for (int r = 0; r < RANKS; r++) free(whole[r]);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static yoke_status trace(const char *format, const char *last)
{
    struct cli_context context = { .size = 1 };
    struct cli_options *options;
    char *words[] = { "yoke trace", folder,       "--format", (char *)format, "-o", output,
                      "--last",     (char *)last, NULL };
    assert_ok(cli_options_resolve(CLI_TRACE, 8, words, &options, &context.n_words, &context.words));
    context.options = options;
    const yoke_status status = cli_trace(&context);
    free(context.words);
    cli_options_free(options);
    return status;
}

static json_t *trace_json(const char *format)
{
    json_error_t error;
    assert_ok(trace(format, "3"));
    json_t *root = json_load_file(output, 0, &error);
    if (!root) fail_msg("%s: line %d: %s", format, error.line, error.text);
    return root;
}

static void json_names_the_culprit(void **unused)
{
    (void)unused;
    json_t *root = trace_json("json"), *culprit, *ranks, *last;
    int rank, by_last, n_compared;
    const char *evidence, *state;
    double caused;
    assert_int_equal(json_unpack(root, "{s:o, s:o}", "culprit", &culprit, "ranks", &ranks), 0);
    assert_int_equal(json_unpack(culprit, "{s:i, s:s}", "rank", &rank, "evidence", &evidence), 0);
    assert_int_equal(rank, 2);
    assert_string_equal(evidence, "agent");
    assert_non_null(strstr(json_string_value(json_object_get(culprit, "text")),
                           "rank 2 (host host-b, pid 4713, opencl:2) died by signal 11"));
    assert_non_null(
        strstr(json_string_value(json_object_get(culprit, "text")), "after all_reduce #1500 of \"world\""));
    json_t *of_0 = json_array_get(ranks, 0), *of_2 = json_array_get(ranks, 2);
    assert_int_equal(json_unpack(of_0, "{s:s, s:i}", "state", &state, "waits_for", &rank), 0);
    assert_string_equal(state, "killed");
    assert_int_equal(rank, 2);
    /*
     * 1,024 are kept; the clocks of two hosts agree after correction, so rank 2 is seen to come 0.5 ms later
     * each time.
     */
    assert_int_equal(json_unpack(of_2, "{s:{s:i, s:i, s:f}}", "compared", "operations", &n_compared, "last",
                                 &by_last, "caused", &caused),
                     0);
    assert_int_equal(n_compared, YOKEI_FLIGHT_ENTRIES - 2); /* ranks 0 and 1 did two more since */
    assert_int_equal(by_last, n_compared);
    assert_true(caused > 0.999 * n_compared * 2 * 0.5e-3 && caused < 1.001 * n_compared * 2 * 0.5e-3);
    last = json_array_get(json_object_get(of_0, "operations"), 2);
    assert_int_equal(json_array_size(json_object_get(of_0, "operations")), 3);
    assert_true(json_is_null(json_object_get(last, "end")));
    assert_int_equal(json_integer_value(json_object_get(last, "sequence")), OPERATIONS + 1);
    assert_int_equal((int)json_number_value(json_object_get(last, "bytes")), 4000);
    json_decref(root);
}

static void text_tells_the_chain(void **unused)
{
    (void)unused;
    void *data;
    size_t bytes;
    assert_ok(trace("text", "2"));
    assert_ok(yokei_file_read(output, 1 << 20, &data, &bytes));
    assert_non_null(strstr(data, "waits for rank 2\n"));
    assert_non_null(strstr(data, "rank 2 (host host-b, pid 4713, opencl:2): died by signal 11"));
    assert_non_null(strstr(data, "came last to 1022 of 1022 operations"));
    assert_non_null(strstr(data, "1000 x f32 sum"));
    free(data);
}

/* Every event must have the fields that the format requires. Both ends of the message must have one name. */
static void chrome_events_are_whole(void **unused)
{
    (void)unused;
    json_t *root = trace_json("chrome"), *event;
    size_t i;
    int n_operations = 0, n_unfinished = 0;
    const char *ends[2] = { NULL, NULL };
    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        assert_non_null(phase);
        assert_true(json_is_integer(json_object_get(event, "pid"))
                    && json_is_integer(json_object_get(event, "tid")));
        if (phase[0] == 'M') continue;
        assert_true(json_number_value(json_object_get(event, "ts")) >= 0);
        if (phase[0] != 'X') {
            ends[phase[0] == 'f'] = json_string_value(json_object_get(event, "id"));
            assert_int_equal(json_integer_value(json_object_get(event, "pid")), phase[0] == 'f');
            continue;
        }
        n_operations++;
        assert_true(json_number_value(json_object_get(event, "dur")) > 0);
        n_unfinished += json_is_true(json_object_get(json_object_get(event, "args"), "unfinished"));
        assert_string_equal(json_string_value(json_object_get(json_object_get(event, "args"), "dtype")),
                            "f32");
    }
    assert_int_equal(n_operations, RANKS * YOKEI_FLIGHT_ENTRIES);
    assert_int_equal(n_unfinished, 2);
    assert_non_null(ends[0]);
    assert_non_null(ends[1]);
    assert_string_equal(ends[0], ends[1]);
    json_decref(root);
}

static uint64_t seed;
static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33) % below;
}

/* Run all formats. JSON must stay valid JSON. */
static void survives(const char *what, int number)
{
    static const char *const formats[] = { "json", "chrome", "text" };
    for (size_t f = 0; f < YOKE_COUNT(formats); f++) {
        json_error_t error;
        unlink(output);
        const yoke_status status = trace(formats[f], number % 8 ? "9" : "1024");
        if (status && status != YOKE_EDATA)
            fail_msg("%s %d, %s: %s", what, number, formats[f], yoke_last_error());
        if (status || f == 2) continue;
        json_t *root = json_load_file(output, 0, &error);
        if (!root) fail_msg("%s %d, %s: line %d: %s", what, number, formats[f], error.line, error.text);
        json_decref(root);
    }
}

static void truncated_records_are_left_out(void **unused)
{
    (void)unused;
    const size_t size = sizeof(struct yokei_flight_file), first = offsetof(struct yokei_flight_file, entries);
    const size_t lengths[] = { 0,     1,         7,          8,          9,        12,
                               15,    16,        63,         64,         4096,     first - 1,
                               first, first + 1, first + 64, first + 65, size / 2, size - 1 };
    for (size_t i = 0; i < YOKE_COUNT(lengths); i++) {
        for (int r = 0; r < RANKS; r++) put(r, whole[r], r == (int)i % RANKS ? lengths[i] : size);
        survives("length", (int)lengths[i]);
        for (int r = 0; r < RANKS; r++) put(r, whole[r], lengths[i]);
        assert_fails(YOKE_EDATA, "shorter", trace("text", "1"));
    }
    for (int r = 0; r < RANKS; r++) put(r, whole[r], size);
}

static void foreign_records_are_refused(void **unused)
{
    (void)unused;
    char *other = malloc(sizeof(struct yokei_flight_file));
    assert_non_null(other);
    memcpy(other, whole[0], sizeof(struct yokei_flight_file));
    other[6] = '1'; /* the format before this one */
    for (int r = 0; r < RANKS; r++) put(r, other, sizeof(struct yokei_flight_file));
    assert_fails(YOKE_EDATA, "format '1'", trace("text", "1"));
    memset(other, 'x', sizeof(struct yokei_flight_file));
    for (int r = 0; r < RANKS; r++) put(r, other, sizeof(struct yokei_flight_file));
    assert_fails(YOKE_EDATA, "not a flight record", trace("text", "1"));
    for (int r = 0; r < RANKS; r++) put(r, whole[r], sizeof(struct yokei_flight_file));
    free(other);
}

/*
 * Flip bits anywhere, most of them in the fields before the entries, because these fields depend on each
 * other.
 */
static void damaged_records_do_no_harm(void **unused)
{
    (void)unused;
    const size_t size = sizeof(struct yokei_flight_file), first = offsetof(struct yokei_flight_file, entries);
    const int n = getenv("YOKE_SOAK") ? 5000 : 120;
    char *damaged = malloc(size);
    assert_non_null(damaged);
    seed = getenv("YOKE_SEED") ? strtoull(getenv("YOKE_SEED"), NULL, 10) : yokei_now_ns();
    printf("# YOKE_SEED=%llu\n", (unsigned long long)seed);
    for (int i = 0; i < n; i++) {
        for (int r = 0; r < RANKS; r++) {
            memcpy(damaged, whole[r], size);
            for (uint32_t flips = draw(2) ? draw(4) : draw(2000); flips > 0; flips--)
                damaged[16 + draw(draw(3) ? (uint32_t)(first - 16) : (uint32_t)(size - 16))] ^=
                    (char)(1u << draw(8));
            if (!draw(8)) memset(damaged + 16 + draw((uint32_t)size - 16 - 64), (int)draw(256), 64);
            put(r, damaged, size);
        }
        survives("mutant", i);
    }
    free(damaged);
    for (int r = 0; r < RANKS; r++) put(r, whole[r], size);
}

static void wrong_folders(void **unused)
{
    (void)unused;
    char was[sizeof folder];
    memcpy(was, folder, sizeof was);
    strcpy(folder, "/no/such/folder");
    assert_fails(YOKE_EDATA, "/no/such/folder", trace("text", "1"));
    strcpy(folder, "/proc/self");
    assert_fails(YOKE_EDATA, "no flight records here", trace("text", "1"));
    memcpy(folder, was, sizeof was);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_names_the_culprit),
        cmocka_unit_test(text_tells_the_chain),
        cmocka_unit_test(chrome_events_are_whole),
        cmocka_unit_test(truncated_records_are_left_out),
        cmocka_unit_test(foreign_records_are_refused),
        cmocka_unit_test(damaged_records_do_no_harm),
        cmocka_unit_test(wrong_folders),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

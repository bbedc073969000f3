/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped files that become shorter. The command's handler of SIGBUS must name the file and end the process
 * with the exit code of a damaged file, for each kind of mapped file and for each thread. Each case runs in a
 * process of its own.
 */
#include "tests/unit/folder.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "cli/launch/job.h"
#include "collectives/flight/flight.h"
#include "core/base/base.h"
#include "tests/unit/safetensors_save.h"
#include "train/files/map.h"
#include "train/text/tokens.h"

enum { BYTES = 3 * 4096 + 100 };

static char path[600], said[4096];

static void write_bytes(const char *name, size_t bytes)
{
    char *data = malloc(bytes);
    memset(data, 'a', bytes);
    snprintf(path, sizeof path, "%s", in_folder(name));
    assert_ok(yokei_file_write(path, data, bytes));
    free(data);
}

/* Run `body` in a child that has the handler. Returns its wait status; `said` is its stderr. */
static int run(void (*body)(void))
{
    int fds[2], code = 0;
    size_t n = 0;
    ssize_t got;
    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        signal(SIGBUS, SIG_DFL); /* cmocka has a handler */
        cli_report_lost_files(getenv("PMI_RANK") != NULL);
        body();
        _exit(99);
    }
    close(fds[1]);
    while (n + 1 < sizeof said && (got = read(fds[0], said + n, sizeof said - 1 - n)) > 0) n += (size_t)got;
    said[n] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &code, 0), pid);
    return code;
}

/* The child must end with `code` and one line, which has the path and `words`. */
static void ends(int code, const char *words, void (*body)(void))
{
    const int status = run(body);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code || strncmp(said, "yoke: error: ", 13)
        || !strstr(said, path) || !strstr(said, words) || strchr(said, '\n') != said + strlen(said) - 1)
        fail_msg("wait status %x instead of exit code %d; stderr: %s", status, code, said);
}

static volatile unsigned char sink;

static void read_all(const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) sink = ((const volatile unsigned char *)data)[i];
}

static void shorten(off_t bytes)
{
    if (truncate(path, bytes)) _exit(98);
}

static void map_it(void)
{
    struct yokei_map map;
    if (yokei_map_open(path, YOKE_EDATA, &map)) _exit(97);
    read_all(map.data, map.bytes);
    shorten(4096 + 7);
    read_all(map.data, 4096 + 7); /* this part is still there */
    read_all(map.data, map.bytes);
}

static void map_it_among_others(void)
{
    struct yokei_map maps[40];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++)
            if (yokei_map_open(i == 20 ? path : "/proc/self/exe", YOKE_EDATA, &maps[i])) _exit(97);
        for (int i = 0; i < 40 && round < 2; i++) yokei_map_close(&maps[i]);
    }
    shorten(0);
    read_all(maps[20].data, maps[20].bytes);
}

static void *read_in_thread(void *map)
{
    read_all(((struct yokei_map *)map)->data, BYTES);
    return NULL;
}

static void map_it_in_threads(void)
{
    struct yokei_map map;
    pthread_t threads[4];
    if (yokei_map_open(path, YOKE_EDATA, &map)) _exit(97);
    shorten(0);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, read_in_thread, &map);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static void read_tokens(void)
{
    struct yokei_tokens *tokens;
    int32_t some[BYTES];
    if (yokei_tokens_open(path, NULL, &tokens)) _exit(97);
    shorten(10);
    yokei_tokens_read(tokens, YOKEI_TOKENS_ALL, 0, BYTES, some);
}

static void read_safetensors(void)
{
    struct yokei_safetensors *file;
    if (yokei_safetensors_open(path, 0, &file)) _exit(97);
    const struct yokei_tensor *tensor = yokei_safetensors_find(file, "big");
    if (!tensor) _exit(96);
    shorten(4096);
    read_all(tensor->data, tensor->bytes);
}

static void replace_it(void)
{
    struct yokei_map map;
    char other[700];
    snprintf(other, sizeof other, "%s.other", path);
    if (yokei_map_open(path, YOKE_EDATA, &map) || yokei_file_write(other, "x", 1)) _exit(97);
    shorten(0);
    if (rename(other, path)) _exit(96);
    read_all(map.data, map.bytes);
}

/* A flight record, as another process sees it. */
static void read_record(void)
{
    const struct yokei_flight_file *file;
    if (yokei_flight_open(test_folder, 3, &file)) _exit(97);
    shorten(0);
    read_all(file, sizeof *file);
}

static void each_kind_of_file(void **state)
{
    static float values[BYTES];
    struct yokei_tensor tensor = { .name = "big", .dtype = YOKE_F32, .n_dims = 1, .data = (void *)values };
    struct yokei_flight_file *file;
    (void)state;
    write_bytes("text", BYTES);
    ends(11, "it had 12388 bytes, and now it has 4103", map_it);
    write_bytes("text", BYTES);
    ends(11, "it became shorter", map_it_among_others);
    write_bytes("text", BYTES);
    ends(11, "it became shorter", map_it_in_threads);
    write_bytes("text", BYTES);
    ends(11, "it became shorter", read_tokens);
    write_bytes("control\001letter", BYTES);
    const int status = run(map_it);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 11 && strstr(said, "control?letter"));
    write_bytes("text", BYTES);
    ends(11, "does not lead to it any more", replace_it);
    tensor.shape[0] = BYTES;
    snprintf(path, sizeof path, "%s", in_folder("model.safetensors"));
    assert_ok(save_safetensors(path, &tensor, 1, NULL, 0));
    ends(11, "it became shorter", read_safetensors);
    assert_ok(yokei_flight_create(test_folder, 3, true, &file));
    yokei_flight_close(file);
    snprintf(path, sizeof path, "%s/flight-00003.bin", test_folder);
    ends(11, "it became shorter", read_record);
}

/* Under yoke run the error goes into the record, and stderr stays empty. */
static void a_rank_tells_yoke_run(void **state)
{
    struct yokei_flight_file *file;
    (void)state;
    write_bytes("text", BYTES);
    setenv("YOKE_RUN_DIR", test_folder, 1);
    setenv("PMI_RANK", "1", 1);
    setenv("YOKE_SUPERVISOR", "1 1 1", 1);
    const int status = run(map_it);
    unsetenv("YOKE_SUPERVISOR");
    unsetenv("PMI_RANK");
    unsetenv("YOKE_RUN_DIR");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 11);
    assert_string_equal(said, "");
    assert_ok(yokei_flight_create(test_folder, 1, false, &file));
    assert_int_equal(atomic_load(&file->state), YOKEI_RANK_FAILED);
    assert_int_equal(atomic_load(&file->status), YOKE_EDATA);
    assert_true(strstr(file->error, path) && strstr(file->error, "it became shorter"));
    yokei_flight_close(file);
}

/* ---- SIGBUS for another reason ends the process as before ---- */

static void read_a_file_of_its_own(void)
{
    const int fd = open(path, O_RDONLY);
    const void *data = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) _exit(97);
    shorten(0);
    read_all(data, BYTES);
}

static void forget_the_file(void)
{
    struct yokei_map map;
    if (yokei_map_open(path, YOKE_EDATA, &map)) _exit(97);
    yokei_mapped_remove(map.data);
    shorten(0);
    read_all(map.data, BYTES);
}

static void send_the_signal(void)
{
    struct yokei_map map;
    if (yokei_map_open(path, YOKE_EDATA, &map)) _exit(97);
    raise(SIGBUS);
}

static void other_reasons(void **state)
{
    static void (*const bodies[])(void) = { read_a_file_of_its_own, forget_the_file, send_the_signal };
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(bodies); i++) {
        write_bytes("text", BYTES);
        const int status = run(bodies[i]);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGBUS || said[0])
            fail_msg("case %zu: wait status %x, stderr: %s", i, status, said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_file),
        cmocka_unit_test(a_rank_tells_yoke_run),
        cmocka_unit_test(other_reasons),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}

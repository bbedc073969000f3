/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that fork. A forked process is no rank: in it every call on the parent's communicators and trainers
 * is refused, and destroying them frees only its own memory. To show this, the child takes away its own
 * access to all memory that ranks share, so that any touch ends it. The parents go on, with transfers and a
 * group that were begun before the fork. The child ends by exit, so that all destructors run in it.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <yoke/train.h>

#include "tests/ranks/ranks.h"

enum { N = 1000, T = 16, BATCH = 4, LIMIT_S = 120 };

/* What a rank has when it forks. */
static struct {
    yoke_comm *host, *on_device, *split, *back;
    yoke_device *device;
    yoke_stream *stream;
    yoke_event *done, *spare;
    float *memory; /* [2 N] of the device */
    void *shared;  /* of yoke_comm_alloc */
    yoke_model *model;
    yoke_trainer *trainer;
} own;

static float values[N], sums[N];
static int32_t tokens[BATCH * T];

static int sum_is_right(void)
{
    const float expected = (float)(ranks_size * (ranks_size + 1) / 2);
    for (int i = 0; i < N; i++) values[i] = (float)(ranks_rank + 1);
    RANKS_TRY(yoke_all_reduce(values, sums, N, YOKE_F32, YOKE_SUM, own.host, NULL));
    for (int i = 0; i < N; i++)
        if (sums[i] != expected) return 0;
    return 1;
}

static int train_a_step(void)
{
    struct yoke_step_result result;
    RANKS_TRY(yoke_trainer_backward(own.trainer, tokens, tokens, 0, &result));
    RANKS_TRY(yoke_trainer_apply(own.trainer, 1e-3, &result));
    return 1;
}

static int set_up(void)
{
    const struct yoke_gpt2_config model = { sizeof model, 1, 2, 16, T, 31, 1e-5, 0.02, 0, 0, 0 };
    struct yoke_trainer_config config = YOKE_TRAINER_CONFIG_INIT;
    RANKS_TRY(yoke_device_open("host", NULL, &own.device));
    RANKS_TRY(yoke_stream_create(own.device, &own.stream));
    RANKS_TRY(yoke_event_create(own.device, &own.done));
    RANKS_TRY(yoke_event_create(own.device, &own.spare));
    RANKS_TRY(yoke_alloc(own.device, 2 * N * sizeof(float), (void **)&own.memory));
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, NULL, &own.host));
    RANKS_TRY(yoke_comm_create(ranks_world, own.device, NULL, &own.on_device));
    RANKS_TRY(yoke_comm_split(own.host, 0, 0, NULL, &own.split));
    RANKS_TRY(yoke_comm_alloc(own.split, 4096, &own.shared));
    config.precision = YOKE_F32, config.batch = BATCH, config.sequence = T;
    config.comm = own.on_device, config.control = own.host;
    RANKS_TRY(yoke_model_gpt2(&model, &own.model));
    RANKS_TRY(yoke_trainer_create(own.model, own.device, &config, &own.trainer));
    for (int i = 0; i < BATCH * T; i++) tokens[i] = i * 7 % 31;
    return 1;
}

static int tear_down(void)
{
    RANKS_TRY(yoke_trainer_destroy(own.trainer));
    RANKS_TRY(yoke_model_destroy(own.model));
    RANKS_TRY(yoke_comm_destroy(own.back)); /* NULL in the parent */
    RANKS_TRY(yoke_comm_destroy(own.split));
    RANKS_TRY(yoke_comm_destroy(own.on_device));
    RANKS_TRY(yoke_comm_destroy(own.host));
    RANKS_TRY(yoke_event_destroy(own.done));
    RANKS_TRY(yoke_event_destroy(own.spare));
    RANKS_TRY(yoke_free(own.device, own.memory));
    RANKS_TRY(yoke_stream_destroy(own.stream));
    RANKS_TRY(yoke_device_close(own.device));
    return 1;
}

/* ---- in the child ---- */

static int n_wrong;

static void refused(const char *what, yoke_status status)
{
    char text[64];
    snprintf(text, sizeof text, "belongs to process %d", (int)getppid());
    if (status == YOKE_EINVAL && strstr(yoke_last_error(), text)
        && strstr(yoke_last_error(), "forked from it"))
        return;
    fprintf(stderr, "# rank %d, child: %s: %s: %s\n", ranks_rank, what, yoke_status_name(status),
            yoke_last_error());
    n_wrong++;
}
#define REFUSED(call) refused(#call, call)

/* All memory that ranks share is in files with these names. */
static void lose_shared_memory(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4400], mode[8];
    unsigned long begin, end;
    int n = 0;
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, mode) == 3 && mode[3] == 's'
            && (strstr(line, "yoke-slots") || strstr(line, "yoke-flight") || strstr(line, "yoke-shared")
                || strstr(line, "/flight-")))
            n += !mprotect((void *)begin, end - begin, PROT_NONE);
    if (maps) fclose(maps);
    n_wrong += n == 0;
}

static void refuses_collectives(void)
{
    const size_t counts[64] = { N };
    yoke_comm *c = own.host;
    float *v = values, *s = sums;
    REFUSED(yoke_all_reduce(v, s, N, YOKE_F32, YOKE_SUM, c, NULL));
    REFUSED(yoke_reduce_scatter(v, s, 1, YOKE_F32, YOKE_SUM, c, NULL));
    REFUSED(yoke_reduce_scatter_v(v, s, counts, YOKE_F32, YOKE_SUM, c, NULL));
    REFUSED(yoke_all_gather(v, s, 1, YOKE_F32, c, NULL));
    REFUSED(yoke_all_gather_v(v, s, counts, YOKE_F32, c, NULL));
    REFUSED(yoke_broadcast(v, s, N, YOKE_F32, 0, c, NULL));
    REFUSED(yoke_reduce(v, s, N, YOKE_F32, YOKE_SUM, 0, c, NULL));
    REFUSED(yoke_gather(v, s, 1, YOKE_F32, 0, c, NULL));
    REFUSED(yoke_gather_v(v, s, counts, YOKE_F32, 0, c, NULL));
    REFUSED(yoke_scatter(v, s, 1, YOKE_F32, 0, c, NULL));
    REFUSED(yoke_scatter_v(v, s, counts, YOKE_F32, 0, c, NULL));
    REFUSED(yoke_all_to_all(v, s, 1, YOKE_F32, c, NULL));
    REFUSED(yoke_all_to_all_v(v, counts, s, counts, YOKE_F32, c, NULL));
    REFUSED(yoke_send(v, 1, YOKE_F32, 0, c, NULL));
    REFUSED(yoke_recv(s, 1, YOKE_F32, 0, c, NULL));
    REFUSED(yoke_barrier(c, NULL));
    REFUSED(yoke_barrier(own.on_device, own.stream));
}

static void refuses_calls_with_events(void)
{
    const size_t counts[64] = { N };
    struct yoke_piece piece = { own.memory, 1, 0 };
    yoke_comm *c = own.on_device;
    yoke_event *e = own.spare;
    float *m = own.memory;
    REFUSED(yoke_isend(m, 1, YOKE_F32, 0, c, e));
    REFUSED(yoke_irecv(m, 1, YOKE_F32, 0, c, e));
    REFUSED(yoke_isend_pieces(&piece, 1, YOKE_F32, c, e));
    REFUSED(yoke_irecv_pieces(&piece, 1, YOKE_F32, c, e));
    REFUSED(yoke_iall_reduce(m, m, 1, YOKE_F32, YOKE_SUM, c, e));
    REFUSED(yoke_ireduce_scatter_v(m, m + N, counts, YOKE_F32, YOKE_SUM, c, e));
    REFUSED(yoke_iall_gather_v(m, m + N, counts, YOKE_F32, c, e));
}

static void refuses_the_rest(void)
{
    struct yoke_comm_choice choice;
    struct yoke_comm_memory memory;
    yoke_comm *none;
    MPI_Comm world;
    void *address;
    REFUSED(yoke_comm_create(ranks_world, NULL, NULL, &none));
    REFUSED(yoke_comm_split(own.host, 0, 0, NULL, &none));
    REFUSED(yoke_comm_shrink(own.host, NULL, 0, &none));
    REFUSED(yoke_comm_abort(own.host, "a child's clean-up"));
    REFUSED(yoke_comm_error(own.host));
    REFUSED(yoke_comm_busy(own.host, "nothing"));
    REFUSED(yoke_comm_explain(own.host, "all_reduce", 1, YOKE_F32, YOKE_SUM, &choice));
    REFUSED(yoke_comm_memory(own.host, &memory));
    REFUSED(yoke_comm_alloc(own.host, 64, &address));
    REFUSED(yoke_comm_free(own.split, own.shared));
    REFUSED(yoke_mpi_start(&world));
    n_wrong += yoke_comm_rank(own.host) != ranks_rank || yoke_comm_size(own.host) != ranks_size
               || yoke_comm_host(own.host, ranks_rank) < 0;
}

static void refuses_trainer(void)
{
    struct yoke_step_result result;
    float *room = malloc(1 << 20);
    double loss;
    REFUSED(yoke_trainer_backward(own.trainer, tokens, tokens, 0, &result));
    REFUSED(yoke_trainer_apply(own.trainer, 1e-3, &result));
    REFUSED(yoke_trainer_evaluate(own.trainer, tokens, tokens, 1, &loss));
    REFUSED(yoke_trainer_logits(own.trainer, tokens, 0, room));
    REFUSED(yoke_trainer_draw(own.trainer, 1));
    REFUSED(yoke_trainer_get(own.trainer, YOKE_TENSOR_WEIGHT, 0, room));
    REFUSED(yoke_trainer_set(own.trainer, YOKE_TENSOR_WEIGHT, 0, room));
    REFUSED(yoke_trainer_get_whole(own.trainer, YOKE_TENSOR_WEIGHT, 0, room));
    REFUSED(yoke_trainer_set_whole(own.trainer, YOKE_TENSOR_WEIGHT, 0, room));
    free(room);
}

/* The group that the parent has begun is not the child's, and a group of the child's own has no calls. */
static void refuses_group(void)
{
    if (yoke_group_end() != YOKE_EINVAL) n_wrong++;
    yoke_group_start();
    REFUSED(yoke_all_reduce(values, sums, N, YOKE_F32, YOKE_SUM, own.host, NULL));
    if (yoke_group_end() != YOKE_EINVAL) n_wrong++;
}

/* A trainer of the child's own, on its own device, with the parent's model. */
static int trains_alone(void)
{
    struct yoke_trainer_config config = YOKE_TRAINER_CONFIG_INIT;
    struct yoke_step_result result;
    yoke_device *device;
    yoke_trainer *trainer;
    config.precision = YOKE_F32, config.batch = BATCH, config.sequence = T;
    RANKS_TRY(yoke_device_open("host", NULL, &device));
    REFUSED(yoke_trainer_create(own.model, own.device, &config, &trainer));
    RANKS_TRY(yoke_trainer_create(own.model, device, &config, &trainer));
    RANKS_TRY(yoke_trainer_backward(trainer, tokens, tokens, 0, &result));
    RANKS_TRY(yoke_trainer_apply(trainer, 1e-3, &result));
    RANKS_TRY(yoke_trainer_destroy(trainer));
    RANKS_TRY(yoke_device_close(device));
    return 1;
}

static int be_child(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    lose_shared_memory();
    refuses_group();
    refuses_collectives();
    refuses_calls_with_events();
    refuses_the_rest();
    refuses_trainer();
    if (!trains_alone() || !tear_down() || yoke_mpi_stop()) n_wrong++;
    if (yoke_comm_destroy(own.host) != YOKE_EINVAL) n_wrong++;
    return n_wrong ? 1 : 0;
}

/* ---- in the parent ---- */

/* Fork, and wait for the child. Returns whether it ended with code 0. */
static int fork_a_child(int (*body)(void))
{
    int status = -1;
    fflush(NULL);
    const pid_t child = fork();
    if (!child) exit(body());
    for (int turn = 0; child > 0 && waitpid(child, &status, WNOHANG) == 0; turn++) {
        if (turn == LIMIT_S * 100) kill(child, SIGKILL);
        usleep(10000);
    }
    if (status)
        fprintf(stderr, "# rank %d: its child ended with status 0x%x\n", ranks_rank, (unsigned)status);
    return !status;
}

static int do_nothing(void) { return 0; }

/*
 * Fork while the first two ranks have begun to receive from each other, which the progress thread looks
 * after, and while a group is open. Each direction has a communicator.
 */
static int fork_with_calls_in_flight(void)
{
    const bool is_pair = ranks_rank < 2 && ranks_size > 1;
    yoke_comm *back;
    RANKS_TRY(yoke_comm_split(own.on_device, 0, 0, NULL, &back));
    yoke_comm *receives = ranks_rank ? back : own.on_device, *sends = ranks_rank ? own.on_device : back;
    own.memory[0] = (float)ranks_rank + 1;
    own.memory[N] = 0;
    if (is_pair) RANKS_TRY(yoke_irecv(own.memory + N, 1, YOKE_F32, !ranks_rank, receives, own.done));
    RANKS_TRY(yoke_group_start());
    for (int i = 0; i < N; i++) values[i] = 1;
    RANKS_TRY(yoke_all_reduce(values, sums, N, YOKE_F32, YOKE_SUM, own.split, NULL));
    own.back = back;
    const int ok = fork_a_child(be_child);
    RANKS_TRY(yoke_group_end());
    if (is_pair) {
        RANKS_TRY(yoke_isend(own.memory, 1, YOKE_F32, !ranks_rank, sends, own.spare));
        RANKS_TRY(yoke_event_sync(own.spare));
        RANKS_TRY(yoke_event_sync(own.done));
    }
    own.back = NULL;
    RANKS_TRY(yoke_comm_destroy(back));
    return ok && sums[N - 1] == (float)ranks_size && (!is_pair || own.memory[N] == (float)!ranks_rank + 1);
}

int main(void)
{
    ranks_start();
    if (!ranks_check(set_up() && sum_is_right() && train_a_step(), "communicators and a trainer are made"))
        return ranks_end();
    ranks_check(fork_a_child(do_nothing) && sum_is_right(), "a child that does nothing ends by exit");
    ranks_check(fork_with_calls_in_flight(), "a child's calls are refused, and touch no shared memory");
    ranks_check(sum_is_right() && train_a_step() && !yoke_comm_error(own.host), "the ranks go on");
    ranks_check(fork_a_child(do_nothing) && tear_down(), "the ranks end in order");
    ranks_check(fork_a_child(do_nothing), "a child without communicators ends by exit");
    return ranks_end();
}

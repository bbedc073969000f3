/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The black box of a training: its ring in a file, what is left of it after a SIGKILL, damaged files, the
 * ranks together, and the rule for spikes. A training has the same bits with the box and without it.
 */
#include "tests/unit/tiny_run.h"

#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "core/base/base.h"
#include "train/blackbox/box.h"

enum { LAYERS = 3, TENSORS = 2 };

static const struct yokei_box_layer layers[LAYERS] = { { .name = "embedding", .layer = 0 },
                                                       { .name = "block", .layer = 1 },
                                                       { .name = "head", .layer = 2 } };
static const struct yokei_box_tensor tensors[TENSORS] = {
    { .name = "w", .layer = 1, .is_counted = 1, .n = 9 }, { .name = "b", .layer = 2, .is_counted = 1, .n = 3 }
};

static struct yokei_box_head head_of(int rank, int n_ranks)
{
    struct yokei_box_head h = { .rank = rank,
                                .n_ranks = n_ranks,
                                .n_layers = LAYERS,
                                .n_tensors = TENSORS,
                                .n_model_layers = LAYERS,
                                .batch = 4,
                                .sequence = 16,
                                .seed = 3,
                                .n_training_tokens = 1000,
                                .token_bytes = 1 };
    snprintf(h.device, sizeof h.device, "host");
    return h;
}

static struct yokei_box_writer *create(int rank, int n_ranks, bool goes_on)
{
    struct yokei_box_writer *w = NULL;
    const struct yokei_box_head h = head_of(rank, n_ranks);
    assert_ok(yokei_box_create(test_folder, &h, layers, tensors, goes_on, &w));
    return w;
}

static void append(struct yokei_box_writer *w, int64_t step, double squares)
{
    const struct yokei_box_record r = { .step = step,
                                        .loss = 1.0 / (double)step,
                                        .first_sample = 4 * step,
                                        .bad_tensor = -1,
                                        .own_bad_tensor = -1,
                                        .bad_layer = -1,
                                        .audit_ratio = NAN,
                                        .worst_sample = step % 3 ? -1 : 4 * step + 1,
                                        .worst_loss = squares };
    struct yokei_box_values v[LAYERS];
    for (int l = 0; l < LAYERS; l++)
        v[l] = (struct yokei_box_values){ squares + l, 0, 0.25, 1, (float)step, 0 };
    yokei_box_begin(w, step);
    yokei_box_append(w, &r, v);
}

static const char *file_of(int rank)
{
    char name[32];
    yokei_box_name(rank, "", name, sizeof name);
    return in_folder(name);
}

static struct yokei_box *read_box(int rank)
{
    struct yokei_box *box = NULL;
    assert_ok(yokei_box_read(file_of(rank), &box));
    return box;
}

/* Change bytes of a rank's file. */
static void scribble(int rank, uint64_t at, const void *bytes, size_t n)
{
    FILE *f = fopen(file_of(rank), "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* ---- the ring ---- */

/* More records than there are places: the newest ones stay. */
static void test_ring(void **state)
{
    (void)state;
    struct yokei_box_writer *w = create(0, 1, false);
    for (int64_t s = 1; s <= YOKEI_BOX_MOST_RECORDS + 10; s++) append(w, s, 1);
    yokei_box_note(w, YOKEI_BOX_EVENT_LOSS_SPIKE, 7, 5, 2, 3, NULL);
    yokei_box_close(w, YOKEI_BOX_FAILED, YOKE_ENUMERIC, "step 1034: the loss is not a number");
    struct yokei_box *box = read_box(0);
    assert_int_equal(box->n, YOKEI_BOX_MOST_RECORDS);
    assert_int_equal(box->n_torn, 0);
    for (int64_t i = 0; i < box->n; i++) {
        assert_int_equal(yokei_box_record(box, i)->step, i + 11);
        assert_true(yokei_box_values(box, i)[2].largest == (float)(i + 11));
    }
    assert_int_equal(box->status.end, YOKEI_BOX_FAILED);
    assert_int_equal(box->status.error, YOKE_ENUMERIC);
    assert_string_equal(box->status.text, "step 1034: the loss is not a number");
    assert_int_equal(box->n_events, 3);
    assert_int_equal(box->events[1].kind, YOKEI_BOX_EVENT_LOSS_SPIKE);
    assert_true(box->head.window == yokei_spike_rule.window);
    assert_string_equal(yokei_box_tensor_name(box, 1), "b");
    assert_string_equal(yokei_box_layer_name(box, 1), "block");
    assert_string_equal(yokei_box_tensor_name(box, 2), "?");
    yokei_box_free(box);
}

/* A process that is killed while it writes leaves all whole records, and at most one torn one. */
static void test_killed(void **state)
{
    (void)state;
    int started[2];
    char byte;
    assert_int_equal(pipe(started), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct yokei_box_writer *w = create(0, 1, false);
        for (int64_t s = 1;; s++) {
            append(w, s, 1);
            if (s == 2000 && write(started[1], "x", 1) != 1) _exit(1);
        }
    }
    assert_int_equal(read(started[0], &byte, 1), 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(started[0]), close(started[1]);
    struct yokei_box *box = read_box(0);
    assert_true(box->n + box->n_torn == YOKEI_BOX_MOST_RECORDS && box->n_torn <= 1);
    for (int64_t i = 1; i < box->n; i++)
        assert_int_equal(yokei_box_record(box, i)->step, yokei_box_record(box, i - 1)->step + 1);
    assert_true(yokei_box_record(box, box->n - 1)->step >= 1999);
    assert_true(box->begun_step >= 2000);
    assert_int_equal(box->status.end, YOKEI_BOX_RUNS);
    yokei_box_free(box);
}

/* A resumed run goes on in the file. Another layout or device begins a new one, and the old one is kept. */
static void test_goes_on(void **state)
{
    (void)state;
    struct yokei_box_writer *w = create(0, 1, false);
    for (int64_t s = 1; s <= 10; s++) append(w, s, 1);
    yokei_box_close(w, YOKEI_BOX_STOPPED, YOKE_EPREEMPTED, NULL);
    w = create(0, 1, true);
    for (int64_t s = 6; s <= 8; s++) append(w, s, 2);
    yokei_box_close(w, YOKEI_BOX_DONE, YOKE_OK, NULL);
    struct yokei_box *box = read_box(0);
    assert_int_equal(box->n, 13);
    assert_int_equal(box->head.attempt, 2);
    assert_int_equal(yokei_box_record(box, 10)->step, 6);
    assert_int_equal(yokei_box_record(box, 10)->attempt, 2);
    yokei_box_free(box);
    struct yokei_box_head other = head_of(0, 1);
    struct yokei_boxes *before = NULL;
    snprintf(other.device, sizeof other.device, "opencl:0");
    for (int i = 0; i < 2; i++) {
        if (i == 0)
            assert_ok(yokei_box_create(test_folder, &other, layers, tensors, true, &w));
        else
            w = create(0, 2, true);
        append(w, 1, 1);
        yokei_box_close(w, YOKEI_BOX_DONE, YOKE_OK, NULL);
        box = read_box(0);
        assert_int_equal(box->n, 1);
        assert_int_equal(box->head.attempt, 1);
        yokei_box_free(box);
        assert_ok(yokei_boxes_read_before(test_folder, &before));
        assert_int_equal(before->n_steps, i == 0 ? 13 : 1);
        assert_string_equal(before->box[0]->head.device, i == 0 ? "host" : "opencl:0");
        yokei_boxes_free(before);
    }
    yokei_box_close(create(0, 2, false), YOKEI_BOX_DONE, YOKE_OK, NULL);
    assert_int_equal(access(in_folder("blackbox-00000.before.bin"), F_OK), -1);
}

/* A copy keeps what the ring overwrites. Copies are few. */
static void test_copies(void **state)
{
    (void)state;
    struct yokei_box_writer *w = create(0, 1, false);
    for (int64_t s = 1; s <= 3000; s++) {
        append(w, s, 1);
        if (s % 100 == 0) assert_ok(yokei_box_copy(w, s));
    }
    yokei_box_close(w, YOKEI_BOX_DONE, YOKE_OK, NULL);
    struct yokei_boxes *one = NULL;
    assert_ok(yokei_boxes_read(in_folder("blackbox-00000.step-200.bin"), &one));
    assert_int_equal(one->n_steps, 200);
    yokei_boxes_free(one);
    assert_int_equal(access(in_folder("blackbox-00000.step-400.bin"), F_OK), 0);
    assert_int_equal(access(in_folder("blackbox-00000.step-500.bin"), F_OK), -1);
}

/* ---- bad files ---- */

static void refused(int rank, const char *words)
{
    struct yokei_box *box = NULL;
    assert_fails(YOKE_EDATA, words, yokei_box_read(file_of(rank), &box));
    assert_non_null(strstr(yoke_last_error(), "blackbox-00000.bin"));
}

static void test_bad_files(void **state)
{
    (void)state;
    struct yokei_box_writer *w = create(0, 1, false);
    for (int64_t s = 1; s <= 20; s++) append(w, s, 1);
    yokei_box_close(w, YOKEI_BOX_DONE, YOKE_OK, NULL);
    struct yokei_box *box = read_box(0);
    const struct yokei_box_head head = box->head;
    yokei_box_free(box);
    /* torn: a byte of a layer of record 5, and a byte of an event */
    scribble(0, head.ring_at + 4 * head.record_bytes + sizeof(struct yokei_box_record) + 3, "\x55", 1);
    scribble(0, head.events_at + 20, "\x55", 1);
    box = read_box(0);
    assert_int_equal(box->n, 19);
    assert_int_equal(box->n_torn, 2);
    assert_int_equal(yokei_box_record(box, 4)->step, 6);
    yokei_box_free(box);
    /* cut in the ring: the records before the cut are there */
    assert_int_equal(truncate(file_of(0), (off_t)(head.ring_at + 10 * head.record_bytes + 5)), 0);
    box = read_box(0);
    assert_true(box->is_cut);
    assert_int_equal(box->n, 9);
    yokei_box_free(box);
    /* a head of another version, a damaged one, a foreign file, a file that is cut in its head */
    const uint32_t version = YOKEI_BOX_VERSION + 1;
    scribble(0, offsetof(struct yokei_box_head, version), &version, sizeof version);
    refused(0, "format 2, and this version of Yoke reads format 1");
    scribble(0, 0, &head, sizeof head);
    scribble(0, offsetof(struct yokei_box_head, seed), "\x99", 1);
    refused(0, "its head is damaged");
    scribble(0, 0, "text", 4);
    refused(0, "not a black box");
    scribble(0, 0, &head, sizeof head);
    assert_int_equal(truncate(file_of(0), 500), 0);
    refused(0, "cut inside its head");
    assert_int_equal(truncate(file_of(0), 0), 0);
    refused(0, "it is empty");
    assert_int_equal(remove(file_of(0)), 0);
    refused(0, "No such file");
}

/* Wrong fields of a head with a right checksum give an error or a box, and never a fault. */
static void test_impossible_heads(void **state)
{
    (void)state;
    static const size_t fields[] = {
        offsetof(struct yokei_box_head, file_bytes),   offsetof(struct yokei_box_head, status_at),
        offsetof(struct yokei_box_head, events_at),    offsetof(struct yokei_box_head, layers_at),
        offsetof(struct yokei_box_head, tensors_at),   offsetof(struct yokei_box_head, ring_at),
        offsetof(struct yokei_box_head, record_bytes), offsetof(struct yokei_box_head, n_layers),
        offsetof(struct yokei_box_head, rank),         offsetof(struct yokei_box_head, n_ranks)
    };
    static const uint64_t values[] = { 0, 1, UINT64_MAX, UINT64_C(0x7fffffff00000040), 1 << 20 };
    struct yokei_box_writer *w = create(0, 1, false);
    append(w, 1, 1);
    yokei_box_close(w, YOKEI_BOX_DONE, YOKE_OK, NULL);
    struct yokei_box *box = read_box(0);
    const struct yokei_box_head head = box->head;
    yokei_box_free(box);
    for (size_t f = 0; f < YOKE_COUNT(fields); f++)
        for (size_t v = 0; v < YOKE_COUNT(values); v++) {
            struct yokei_box_head h = head;
            memcpy((char *)&h + fields[f], &values[v], sizeof values[v]);
            h.checksum = 0;
            h.checksum = yokei_hash(&h, sizeof h, 0);
            scribble(0, 0, &h, sizeof h);
            box = NULL;
            if (yokei_box_read(file_of(0), &box)) assert_int_equal(yoke_last_error()[0], 'b');
            yokei_box_free(box);
        }
}

/* A record whose samples cannot be those of a step counts as torn. Texts of the head have an end. */
static void test_impossible_samples(void **state)
{
    (void)state;
    static const int64_t wrong[][3] = { { -1, 0, 1 },        { INT64_MAX, 0, 1 }, { 0, -1, 1 },
                                        { 0, INT64_MAX, 1 }, { 0, 0, 5 },         { 0, 1, -1 } };
    struct yokei_box_writer *w = create(0, 1, false);
    append(w, 1, 1);
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++) {
        static const struct yokei_box_values values[LAYERS];
        const struct yokei_box_record r = {
            .step = 2, .first_sample = wrong[i][0], .own_first = wrong[i][1], .own_count = wrong[i][2]
        };
        yokei_box_append(w, &r, values);
    }
    yokei_box_close(w, YOKEI_BOX_DONE, YOKE_OK, NULL);
    struct yokei_box *box = read_box(0);
    struct yokei_box_head head = box->head;
    assert_int_equal(box->n, 1);
    assert_int_equal(box->n_torn, YOKE_COUNT(wrong));
    yokei_box_free(box);
    memset(head.skip_samples, '9', sizeof head.skip_samples);
    head.checksum = 0;
    head.checksum = yokei_hash(&head, sizeof head, 0);
    scribble(0, 0, &head, sizeof head);
    box = read_box(0);
    assert_int_equal(strlen(box->head.skip_samples), sizeof head.skip_samples - 1);
    yokei_box_free(box);
}

/* A full disk is an error of the creation, and leaves no file. */
static void test_full_disk(void **state)
{
    (void)state;
    struct rlimit was, few = { 20000, 20000 };
    const struct yokei_box_head h = head_of(0, 1);
    struct yokei_box_writer *w = NULL;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    few.rlim_max = was.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    const yoke_status status = yokei_box_create(test_folder, &h, layers, tensors, false, &w);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_fails(YOKE_EIO, "no room for", status);
    assert_int_equal(access(file_of(0), F_OK), -1);
}

/* ---- the ranks together ---- */

static void test_merge(void **state)
{
    (void)state;
    struct yokei_box_writer *w[3];
    struct yokei_boxes *boxes = NULL;
    struct yokei_boxes_total total;
    struct yokei_boxes_layer layer[LAYERS];
    for (int r = 0; r < 3; r++) w[r] = create(r, 3, false);
    for (int64_t s = 1; s <= 5; s++)
        for (int r = 0; r < 3; r++)
            if (r < 2 || s < 5) append(w[r], s, r + 1);
    for (int r = 0; r < 3; r++) yokei_box_close(w[r], YOKEI_BOX_DONE, YOKE_OK, NULL);
    assert_ok(yokei_boxes_read(test_folder, &boxes));
    assert_int_equal(boxes->n_steps, 5);
    yokei_boxes_step(boxes, 3, &total, layer);
    assert_true(total.is_whole && total.step == 4 && total.loss == 0.25);
    assert_true(layer[1].gradient_norm == 3.0); /* 2 + 3 + 4 */
    assert_true(layer[1].update_ratio == 0.5 && layer[1].largest == 4);
    assert_true(total.worst_sample == -1 && isnan(total.worst_loss));
    yokei_boxes_step(boxes, 2, &total, layer);
    assert_true(total.worst_sample == 13 && total.worst_loss == 3);
    yokei_boxes_step(boxes, 4, &total, layer);
    assert_true(!total.is_whole && total.n_ranks == 2);
    yokei_boxes_free(boxes);
    /* without one file, what the others have; without any, an error */
    assert_int_equal(remove(file_of(1)), 0);
    assert_ok(yokei_boxes_read(test_folder, &boxes));
    assert_non_null(strstr(boxes->problem[1], "blackbox-00001.bin"));
    yokei_boxes_step(boxes, 3, &total, layer);
    assert_int_equal(total.n_ranks, 2);
    yokei_boxes_free(boxes);
    yokei_box_drop(test_folder, 2, false);
    assert_int_equal(access(file_of(2), F_OK), -1);
    assert_ok(yokei_boxes_read(test_folder, &boxes));
    assert_int_equal(boxes->n, 3);
    yokei_boxes_free(boxes);
    assert_int_equal(remove(file_of(0)), 0);
    assert_fails(YOKE_EDATA, "no black box here", yokei_boxes_read(test_folder, &boxes));
}

/* The place of a sample by its head is the place that the tokens have. */
static void test_places(void **state)
{
    (void)state;
    struct yokei_tokens *tokens = NULL;
    int32_t inputs[16], targets[16];
    struct yokei_box_head h = head_of(0, 1);
    assert_ok(yokei_tokens_open(text_path, NULL, &tokens));
    h.n_training_tokens = yokei_tokens_count(tokens, YOKEI_TOKENS_TRAIN);
    yokei_tokens_place(tokens, &h.first_byte, &h.token_bytes);
    FILE *f = fopen(text_path, "r");
    for (int64_t sample = 0; sample < 3000; sample += 7) {
        assert_ok(yokei_tokens_sample(tokens, h.seed, sample, 16, inputs, targets));
        assert_int_equal(fseek(f, (long)yokei_box_sample_byte(&h, sample), SEEK_SET), 0);
        for (int i = 0; i < 16; i++) assert_int_equal(fgetc(f), inputs[i]);
    }
    fclose(f);
    yokei_tokens_close(tokens);
    assert_int_equal(yokei_box_sample_byte(&h, -1), -1);
}

/* ---- the rule ---- */

static double normal(uint64_t *state)
{
    double u[2];
    for (int i = 0; i < 2; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        u[i] = ((double)(*state >> 11) + 1) * 0x1p-53;
    }
    return sqrt(-2 * log(u[0])) * cos(6.283185307179586 * u[1]);
}

/*
 * A healthy run: the loss falls from log(V), the norm is large in warm-up and falls, both with the noise of
 * batches, which has heavier tails than a normal distribution. Rarely a hard batch makes the loss 5 % higher.
 */
static double healthy_loss(int step, uint64_t *state)
{
    const double t = normal(state) / sqrt(0.5 + 0.5 * fabs(normal(state)));
    const double hard = normal(state) > 3 ? 1.05 : 1;
    return (2.6 + 8.4 / (1 + step / 40.0)) * hard * (1 + 0.012 * t);
}

static double healthy_norm(int step, uint64_t *state)
{
    const double t = normal(state) / sqrt(0.5 + 0.5 * fabs(normal(state)));
    return (0.4 + (step < 100 ? 3.0 * step / 100 : 3.0 / (1 + (step - 100) / 60.0))) * exp(0.2 * t);
}

enum { SERIES = 50, STEPS = 2000 };

static void test_false_alarms(void **state)
{
    (void)state;
    int losses = 0, norms = 0;
    for (uint64_t seed = 1; seed <= SERIES; seed++) {
        struct yokei_spike_series loss = { .n = 0 }, norm = { .n = 0 };
        struct yokei_spike spike;
        uint64_t random = seed * 977;
        for (int step = 0; step < STEPS; step++) {
            losses += yokei_spike_loss(&yokei_spike_rule, &loss, healthy_loss(step, &random), &spike);
            norms += yokei_spike_norm(&yokei_spike_rule, &norm, healthy_norm(step, &random), &spike);
        }
    }
    print_message("# false alarms in %d healthy steps: %d of losses, %d of norms\n", SERIES * STEPS, losses,
                  norms);
    assert_true(losses <= 5 && norms <= 5);
}

/* A spike of the loss by a third, or of the norm to 20 times, is found at once, and counts once. */
static void test_spikes(void **state)
{
    (void)state;
    int found = 0, counted = 0;
    for (uint64_t seed = 1; seed <= SERIES; seed++) {
        struct yokei_spike_series loss = { .n = 0 }, norm = { .n = 0 };
        struct yokei_spike spike;
        uint64_t random = seed * 1201;
        const int at = 300 + (int)seed * 20;
        for (int step = 0; step < STEPS; step++) {
            const bool high = step >= at && step < at + 8;
            const bool a = yokei_spike_loss(&yokei_spike_rule, &loss,
                                            healthy_loss(step, &random) * (high ? 1.35 : 1), &spike);
            if (a && step == at) assert_true(spike.limit > spike.median && spike.median > 2);
            const bool b = yokei_spike_norm(&yokei_spike_rule, &norm,
                                            healthy_norm(step, &random) * (high ? 20 : 1), &spike);
            found += (a && step == at) + (b && step == at);
            counted += (a && step >= at && step < at + 8) + (b && step >= at && step < at + 8);
        }
    }
    print_message("# %d of %d spikes found in their first step, %d counted\n", found, 2 * SERIES, counted);
    assert_true(found >= 95 * 2 * SERIES / 100 && counted >= found && counted <= 2 * SERIES);
}

/* The median and the deviation from the sorted window are those of their definitions. */
static void test_rule_by_definition(void **state)
{
    (void)state;
    struct yokei_spike_series s = { .n = 0 };
    struct yokei_spike spike;
    double all[300], window[64];
    uint64_t random = 5;
    for (int i = 0; i < 300; i++) {
        all[i] = i % 7 == 0 ? 3.0 : 4 + normal(&random);
        yokei_spike_loss(&yokei_spike_rule, &s, all[i], &spike);
        const int n = YOKE_MIN(i, 64);
        if (n < yokei_spike_rule.least_values) continue;
        memcpy(window, all + i - n, (size_t)n * sizeof *window);
        double median = NAN;
        for (int round = 0; round < 2; round++) {
            for (int a = 1; a < n; a++)
                for (int b = a; b > 0 && window[b - 1] > window[b]; b--) {
                    const double x = window[b];
                    window[b] = window[b - 1];
                    window[b - 1] = x;
                }
            const double middle = (window[(n - 1) / 2] + window[n / 2]) / 2;
            if (round == 0) {
                median = middle;
                assert_true(spike.median == median);
                for (int a = 0; a < n; a++) window[a] = fabs(window[a] - median);
            } else
                assert_true(fabs(spike.limit - median - fmax(8 * 1.4826 * middle, 0.1 * median)) < 1e-12);
        }
    }
}

/* ---- a training ---- */

static void train(int64_t every, const char *precision, struct yokei_training_result *result)
{
    yoke_device *device = NULL;
    assert_ok(yoke_device_open("host", NULL, &device));
    struct yokei_training t = tiny_training(device, 12);
    snprintf(t.plan.precision, sizeof t.plan.precision, "%s", precision);
    t.plan.loss_scale = strcmp(precision, "fp16") ? 0 : 0x1p40; /* the first steps overflow */
    t.run_dir = test_folder;
    t.black_box_every = every;
    assert_ok(yokei_training_run(&t, result));
    yokei_plan_free(&t.plan);
    assert_ok(yoke_device_close(device));
}

static void same_bits(const char *precision)
{
    struct yokei_training_result off, on;
    train(0, precision, &off);
    train(3, precision, &on);
    assert_memory_equal(&off.loss, &on.loss, sizeof off.loss);
    assert_memory_equal(&off.validation_loss, &on.validation_loss, sizeof off.validation_loss);
}

/* The layers of each step add up to the norm of the metrics, and the sampled steps have their samples. */
static void test_training(void **state)
{
    (void)state;
    struct yokei_boxes *boxes = NULL;
    struct yokei_boxes_total total;
    same_bits("fp32");
    assert_ok(yokei_boxes_read(test_folder, &boxes));
    assert_int_equal(boxes->n_steps, 12);
    struct yokei_boxes_layer *layer = calloc((size_t)boxes->n_model_layers, sizeof *layer);
    for (int64_t i = 0; i < 12; i++) {
        double squares = 0;
        yokei_boxes_step(boxes, i, &total, layer);
        for (int l = 0; l < boxes->n_model_layers; l++) squares += pow(layer[l].gradient_norm, 2);
        assert_true(fabs(sqrt(squares) - total.gradient_norm) < 1e-9 * total.gradient_norm);
        const bool sampled = i == 0 || (i + 1) % 3 == 0;
        assert_int_equal((total.flags & YOKEI_BOX_SAMPLED) != 0, sampled);
        assert_int_equal(layer[1].largest > 0, sampled);
        assert_int_equal(layer[1].update_ratio > 0 && layer[1].update_ratio < 1, sampled);
        assert_int_equal(total.first_sample, 4 * i);
        assert_true(total.worst_sample >= 4 * i && total.worst_sample < 4 * i + 4);
        assert_true(total.worst_loss >= total.loss && total.worst_loss < 1.5 * total.loss);
    }
    free(layer);
    assert_int_equal(boxes->box[0]->status.end, YOKEI_BOX_DONE);
    assert_non_null(strstr(boxes->box[0]->head.choices, "tuning "));
    yokei_boxes_free(boxes);
}

/* An overflow is traced back to a tensor, and the training goes on with the same bits. */
static void test_overflow(void **state)
{
    (void)state;
    struct yokei_boxes *boxes = NULL;
    struct yokei_boxes_total total;
    same_bits("fp16");
    assert_ok(yokei_boxes_read(test_folder, &boxes));
    yokei_boxes_step(boxes, 0, &total, NULL);
    assert_true((total.flags & (YOKEI_BOX_OVERFLOW | YOKEI_BOX_TRACED))
                == (YOKEI_BOX_OVERFLOW | YOKEI_BOX_TRACED));
    assert_non_null(total.bad_tensor);
    assert_non_null(total.own_bad_tensor);
    assert_true(total.n_bad > 0 && total.own_bad_rank == 0);
    assert_null(total.bad_layer); /* the outputs were finite */
    yokei_boxes_free(boxes);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_test_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_ring),
        TEST(test_killed),
        TEST(test_goes_on),
        TEST(test_copies),
        TEST(test_bad_files),
        TEST(test_impossible_heads),
        TEST(test_impossible_samples),
        TEST(test_full_disk),
        TEST(test_merge),
        TEST(test_places),
        cmocka_unit_test(test_false_alarms),
        cmocka_unit_test(test_spikes),
        cmocka_unit_test(test_rule_by_definition),
        TEST(test_training),
        TEST(test_overflow),
    };
    return cmocka_run_group_tests_name("black box", tests, NULL, NULL);
}

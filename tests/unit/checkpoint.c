/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: a save that is killed at any point, a disk that gets full at any point, every kind of damage,
 * and which checkpoint of a folder is used.
 */
#include "tests/unit/folder.h"
#include "tests/unit/config_write.h"
#include "tests/unit/safetensors_save.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"
#include "train/exchange/convert.h"
#include "train/checkpoint/shards.h"

enum { MOST = 64 };
static const struct yoke_gpt2_config tiny = { sizeof tiny, 1, 2, 16, 16, 256, 1e-5, 0.02 };

/* A model whose values follow from name, kind, index and step. */
struct fake {
    struct yoke_parameter parameter[MOST];
    struct yokei_save_item item[MOST];
    int n, n_ranks, rank;
    int64_t step;
    struct fake *all; /* [n_ranks] one for each thread */
    pthread_barrier_t *barrier;
    yoke_status said;
    float *shared;
};

static float value_of(const char *name, enum yoke_tensor_kind kind, int64_t i, int64_t step)
{
    uint64_t h = yokei_hash(name, strlen(name), (uint64_t)kind * 1000 + (uint64_t)step);
    return (float)((double)((h + (uint64_t)i * 2654435761u) % 100003) / 50001.0 - 1);
}

static void make_fake(struct fake *f, int n_ranks)
{
    memset(f, 0, sizeof *f);
    f->n_ranks = n_ranks;
    f->n = (int)yokei_kind_gpt2.n_weights(&tiny);
    for (int i = 0; i < f->n; i++) {
        struct yokei_weight t;
        assert_ok(yokei_model_tensor(yokei_model_as(&yokei_kind_gpt2, &tiny), i, &t));
        snprintf(f->parameter[i].name, sizeof f->parameter[i].name, "%s", t.name);
        f->parameter[i].n_dims = t.n_dims;
        memcpy(f->parameter[i].shape, t.shape, sizeof t.shape);
        f->item[i] = (struct yokei_save_item){ .parameter = &f->parameter[i],
                                               .owner = i % n_ranks,
                                               .local = i };
    }
}

static yoke_status get(void *context, const struct yokei_save_item *item, enum yoke_tensor_kind kind,
                       int64_t first, int64_t n, float *out)
{
    struct fake *f = context;
    if (!item->spread) {
        assert_int_equal(item->owner, f->rank);
        for (int64_t i = 0; i < n; i++) out[i] = value_of(item->parameter->name, kind, first + i, f->step);
        return YOKE_OK;
    }
    /* Rank r has the elements i with i % n_ranks == r. */
    for (int64_t i = f->rank; i < n; i += f->n_ranks)
        f->shared[i] = value_of(item->parameter->name, kind, first + i, f->step);
    pthread_barrier_wait(f->barrier);
    if (f->rank == item->owner) memcpy(out, f->shared, (size_t)n * sizeof *out);
    pthread_barrier_wait(f->barrier);
    return YOKE_OK;
}

static yoke_status agree(void *context, yoke_status mine)
{
    struct fake *f = context;
    yoke_status worst = YOKE_OK;
    f->said = mine;
    pthread_barrier_wait(f->barrier);
    for (int r = 0; r < f->n_ranks; r++)
        if (f->all[r].said) worst = f->all[r].said;
    pthread_barrier_wait(f->barrier);
    return worst;
}

static struct yokei_manifest manifest_of(const struct fake *f, struct yokei_plan_rank *rank)
{
    struct yokei_manifest m = { .format = YOKEI_MANIFEST_FORMAT,
                                .version = 1,
                                .yoke = "test",
                                .step = f->step,
                                .optimizer_step = f->step,
                                .tokens = 64 * f->step,
                                .data_order = YOKEI_DATA_ORDER,
                                .data_next_sample = 4 * f->step,
                                .seed = 7,
                                .loss_scale = 1,
                                .plan = YOKEI_PLAN_INIT };
    m.plan.model.gpt2 = tiny;
    m.plan.batch = m.plan.sequence = 4;
    *rank = (struct yokei_plan_rank){ "host", 1, 4, 4, 1 };
    m.plan.ranks = rank;
    m.plan.n_ranks = 1;
    return m;
}

static yoke_status save_as(struct fake *f, const char *dir, int64_t step, int64_t keep,
                           const struct yoke_gpt2_config *model)
{
    struct yokei_plan_rank rank;
    f->step = step;
    struct yokei_manifest m = manifest_of(f, &rank);
    if (model) m.plan.model.gpt2 = *model;
    struct yokei_save save = { .dir = dir,
                               .keep = keep,
                               .rank = f->rank,
                               .items = f->item,
                               .n_items = f->n,
                               .manifest = &m,
                               .context = f,
                               .get = get,
                               .agree = f->n_ranks > 1 ? agree : NULL };
    yoke_status status = yokei_checkpoint_save(&save);
    m.plan.ranks = NULL;
    m.plan.n_ranks = 0;
    yokei_manifest_free(&m);
    return status;
}

static yoke_status save_step(const char *dir, int64_t step, int64_t keep)
{
    struct fake f;
    make_fake(&f, 1);
    return save_as(&f, dir, step, keep, NULL);
}

static bool values_are(const struct yokei_checkpoint *c, int64_t step)
{
    static const enum yoke_tensor_kind kinds[] = { YOKE_TENSOR_WEIGHT, YOKE_TENSOR_MOMENT1,
                                                   YOKE_TENSOR_MOMENT2 };
    bool same = c->manifest.step == step && c->manifest.data_next_sample == 4 * step;
    for (int64_t i = 0; i < yokei_kind_gpt2.n_weights(&tiny); i++)
        for (size_t k = 0; k < YOKE_COUNT(kinds); k++) {
            struct yokei_weight want;
            assert_ok(yokei_model_tensor(yokei_model_as(&yokei_kind_gpt2, &tiny), i, &want));
            const struct yokei_tensor *t = yokei_checkpoint_tensor(c, want.name, kinds[k]);
            assert_non_null(t);
            for (int64_t j = 0; j < (int64_t)(t->bytes / 4) && same; j++) {
                float have, wanted = value_of(want.name, kinds[k], j, step);
                memcpy(&have, (const char *)t->data + 4 * j, 4);
                same = memcmp(&have, &wanted, 4) == 0;
            }
        }
    return same;
}

/* The step of the newest complete checkpoint. It is opened, and all of it is compared. */
static int64_t newest_is_whole(const char *dir)
{
    char folder[600];
    struct yokei_checkpoint *c;
    assert_ok(yokei_checkpoint_locate(dir, folder, sizeof folder));
    assert_ok(yokei_checkpoint_open(folder, 0, &c));
    int64_t step = c->manifest.step;
    size_t bytes = 0, n_weights = 0;
    for (size_t f = 0; f < c->n_files; f++)
        for (size_t i = 0; i < c->files[f].n_tensors; i++) {
            bytes += c->files[f].tensors[i].bytes;
            if (!strstr(c->files[f].tensors[i].name, ".moment"))
                n_weights += c->files[f].tensors[i].bytes / 4;
        }
    assert_int_equal(bytes, n_weights * yokei_checkpoint_bytes_per_parameter());
    assert_true(values_are(c, step));
    assert_false(values_are(c, step + 1)); /* the comparison can fail */
    yokei_checkpoint_close(c);
    return step;
}

static int count_state(const char *dir, enum yokei_checkpoint_state state)
{
    struct yokei_checkpoint_entry *list;
    size_t n;
    int count = 0;
    assert_ok(yokei_checkpoint_list(dir, &list, &n));
    for (size_t i = 0; i < n; i++) count += list[i].state == state;
    free(list);
    return count;
}

/* Save in a child process, with a fault. Returns the child's exit code, or 256 + the signal. */
static int save_in_child(const char *dir, int64_t step, const char *fault, int k)
{
    pid_t pid = fork();
    if (pid == 0) {
        char text[40];
        snprintf(text, sizeof text, "%s=%d", fault, k);
        setenv("YOKE_SAVE_FAULT", text, 1);
        _exit(yoke_status_exit_code(save_step(dir, step, 1)));
    }
    int code = 0;
    assert_int_equal(waitpid(pid, &code, 0), pid);
    return WIFSIGNALED(code) ? 256 + WTERMSIG(code) : WEXITSTATUS(code);
}

static int n_places; /* number of writes, fsyncs, renames and removals in one save */

static void killed_anywhere(void **state)
{
    char dir[300];
    bool seen[3] = { false };
    (void)state;
    snprintf(dir, sizeof dir, "%s", in_folder("kill"));
    int k = 1;
    for (int code = 256 + SIGKILL; code; k++) {
        char one[400];
        snprintf(one, sizeof one, "%s/%d", dir, k);
        assert_ok(save_step(one, 1, 1));
        code = save_in_child(one, 2, "kill", k);
        assert_true(code == 0 || code == 256 + SIGKILL);
        int64_t step = newest_is_whole(one);
        assert_true(step == 1 || step == 2);
        seen[step] = true;
        if (code == 0) assert_int_equal(step, 2);
        assert_ok(save_step(one, 3, 1)); /* the next save clears up */
        assert_int_equal(newest_is_whole(one), 3);
        assert_int_equal(count_state(one, YOKEI_CHECKPOINT_TEMPORARY), 0);
        assert_int_equal(count_state(one, YOKEI_CHECKPOINT_COMPLETE), 1);
    }
    n_places = k - 2;
    assert_true(seen[1] && seen[2] && n_places > 30);
}

static void full_anywhere(void **state)
{
    char dir[300];
    int failed = 0;
    (void)state;
    snprintf(dir, sizeof dir, "%s", in_folder("full"));
    for (int k = 1; k <= n_places; k++) {
        char one[400];
        snprintf(one, sizeof one, "%s/%d", dir, k);
        assert_ok(save_step(one, 1, 1));
        int code = save_in_child(one, 2, "full", k);
        assert_true(code == 0 || code == 13);
        failed += code == 13;
        assert_true(newest_is_whole(one) >= 1);
        if (code == 0) assert_int_equal(newest_is_whole(one), 2); /* only an old one could not be removed */
        assert_int_equal(count_state(one, YOKEI_CHECKPOINT_INCOMPLETE), 0);
        assert_int_equal(count_state(one, YOKEI_CHECKPOINT_TEMPORARY), 0);
    }
    assert_true(failed > 20);
    /* The text says what, where and why. */
    char one[400];
    snprintf(one, sizeof one, "%s/text", dir);
    setenv("YOKE_SAVE_FAULT", "full=5", 1);
    assert_fails(YOKE_EIO, "No space left on device", save_step(one, 1, 1));
    assert_non_null(strstr(yoke_last_error(), "model-00001-of-00001.safetensors"));
    unsetenv("YOKE_SAVE_FAULT");
    assert_int_equal(yokei_checkpoint_newest(one), -1);
}

static void flip(const char *path, size_t byte, int bit)
{
    unsigned char c;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, (off_t)byte), 1);
    c ^= (unsigned char)(1 << bit);
    assert_int_equal(pwrite(fd, &c, 1, (off_t)byte), 1);
    close(fd);
}

/* Flip a bit, expect that the checkpoint is refused with these words, and flip the bit back. */
static void expect_refused(const char *folder, const char *file, size_t byte, int bit, unsigned flags,
                           const char *words)
{
    char path[800];
    struct yokei_checkpoint *c;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    flip(path, byte, bit);
    assert_fails(YOKE_EDATA, words, yokei_checkpoint_open(folder, flags, &c));
    flip(path, byte, bit);
}

static void every_flip_is_refused(void **state)
{
    static const char *const shards[] = { "model-00001-of-00001.safetensors",
                                          "optimizer-00001-of-00001.safetensors" };
    static const char *const texts[] = { "checkpoint.json", "config.json", "model.safetensors.index.json" };
    char folder[600], path[800];
    struct yokei_checkpoint *c;
    (void)state;
    assert_ok(save_step(in_folder("flips"), 1, 0));
    snprintf(folder, sizeof folder, "%s/step-0000001", in_folder("flips"));
    struct yokei_philox_key key = yokei_philox_named(11, "flips");
    uint64_t drawn = 0;
    for (size_t s = 0; s < YOKE_COUNT(shards); s++) {
        struct yokei_safetensors_file file;
        snprintf(path, sizeof path, "%s/%s", folder, shards[s]);
        assert_ok(yokei_safetensors_file_open(path, 0, &file));
        size_t header = yokei_shard_header_bytes(&file.map);
        for (size_t byte = 0; byte < header; byte++) /* without reading the data: headers alone must do */
            expect_refused(folder, shards[s], byte, (int)(8 * yokei_uniform(key, drawn++)),
                           YOKEI_SAFETENSORS_NO_HASH, shards[s]);
        for (size_t i = 0; i < file.n_tensors; i++)
            for (int k = 0; k < 4; k++) { /* the first and the last byte, and two between */
                const struct yokei_tensor *t = &file.tensors[i];
                size_t at = k == 0   ? 0
                            : k == 1 ? t->bytes - 1
                                     : (size_t)((double)t->bytes * yokei_uniform(key, drawn++));
                char words[200];
                snprintf(words, sizeof words, "tensor %s in", t->name);
                expect_refused(folder, shards[s],
                               (size_t)((const unsigned char *)t->data - file.map.data) + at,
                               (int)(8 * yokei_uniform(key, drawn++)), 0, words);
            }
        yokei_safetensors_file_close(&file);
    }
    for (size_t f = 0; f < YOKE_COUNT(texts); f++) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, texts[f]);
        assert_int_equal(stat(path, &st), 0);
        for (size_t byte = 0; byte < (size_t)st.st_size; byte++)
            expect_refused(folder, texts[f], byte, (int)(8 * yokei_uniform(key, drawn++)),
                           YOKEI_SAFETENSORS_NO_HASH, texts[f]);
    }
    assert_ok(yokei_checkpoint_open(folder, 0, &c)); /* and all is well again */
    yokei_checkpoint_close(c);
}

static void all_problems_at_once(void **state)
{
    struct fake f;
    struct yokei_checkpoint *c;
    struct yoke_gpt2_config two = tiny;
    char folder[600], path[800];
    (void)state;
    two.n_layer = 2;
    make_fake(&f, 1);
    f.parameter[1].shape[0] = 15;                                                /* wpe */
    snprintf(f.parameter[2].name, sizeof f.parameter[2].name, "h.0.odd.weight"); /* was h.0.ln_1.weight */
    assert_ok(save_as(&f, in_folder("problems"), 1, 0, &two));
    snprintf(folder, sizeof folder, "%s/step-0000001", in_folder("problems"));
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(unlink(path), 0);
    assert_fails(YOKE_EDATA, "config.json is missing", yokei_checkpoint_open(folder, 0, &c));
    static const char *const said[] = {
        "problems:", "tensor wpe.weight has shape [15, 16]; the model needs [16, 16]",
        "tensor h.0.ln_1.weight is missing", "tensor h.0.ln_1.weight.moment2 is missing",
        "tensor h.1.attn.c_attn.bias is missing"
    };
    for (size_t i = 0; i < YOKE_COUNT(said); i++)
        if (!strstr(yoke_last_error(), said[i]))
            fail_msg("'%s' does not say '%s'", yoke_last_error(), said[i]);
    make_fake(&f, 1);
    f.n++;
    f.parameter[f.n - 1] = f.parameter[2];
    f.item[f.n - 1] = (struct yokei_save_item){ .parameter = &f.parameter[f.n - 1] };
    snprintf(f.parameter[f.n - 1].name, sizeof f.parameter[0].name, "h.0.extra");
    assert_ok(save_as(&f, in_folder("problems"), 2, 0, NULL));
    snprintf(folder, sizeof folder, "%s/step-0000002", in_folder("problems"));
    assert_fails(YOKE_EDATA,
                 "tensor h.0.extra.moment1 in optimizer-00001-of-00001.safetensors does not belong",
                 yokei_checkpoint_open(folder, 0, &c));
}

static void remove_file(const char *format, const char *dir)
{
    char path[800];
    snprintf(path, sizeof path, format, dir);
    assert_int_equal(unlink(path), 0);
}

static void folders(void **state)
{
    char dir[300], folder[600], path[800];
    (void)state;
    snprintf(dir, sizeof dir, "%s", in_folder("folders"));
    assert_fails(YOKE_EDATA, "no such folder", yokei_checkpoint_locate(dir, folder, sizeof folder));
    assert_int_equal(yokei_checkpoint_newest(dir), -1);
    for (int64_t step = 1; step <= 5; step++) assert_ok(save_step(dir, step, step < 5 ? 0 : 4));
    assert_int_equal(count_state(dir, YOKEI_CHECKPOINT_COMPLETE), 4); /* keep 4 */
    remove_file("%s/step-0000005/checkpoint.json", dir);
    assert_int_equal(newest_is_whole(dir), 4);
    snprintf(path, sizeof path, "%s/step-0000004/model-00001-of-00001.safetensors", dir);
    assert_int_equal(truncate(path, 5000), 0);
    assert_int_equal(newest_is_whole(dir), 3);
    assert_int_equal(count_state(dir, YOKEI_CHECKPOINT_INCOMPLETE), 2);
    assert_ok(save_step(dir, 6, 1)); /* only complete ones count for keep, and only they are removed */
    assert_int_equal(count_state(dir, YOKEI_CHECKPOINT_COMPLETE), 1);
    assert_int_equal(count_state(dir, YOKEI_CHECKPOINT_INCOMPLETE), 2);
    assert_ok(save_step(dir, 5, 0)); /* a damaged checkpoint of the same step is moved aside */
    assert_int_equal(count_state(dir, YOKEI_CHECKPOINT_COMPLETE), 2);
    assert_fails(YOKE_EIO, "is there already", save_step(dir, 6, 0)); /* a complete one stays */
    assert_int_equal(newest_is_whole(dir), 6);
    assert_int_equal(count_state(dir, YOKEI_CHECKPOINT_TEMPORARY), 0);
    remove_file("%s/step-0000006/config.json", dir);
    remove_file("%s/step-0000005/config.json", dir);
    assert_fails(YOKE_EDATA, "no complete checkpoint", yokei_checkpoint_locate(dir, folder, sizeof folder));
}

static void *one_rank(void *context)
{
    struct fake *f = context;
    return (void *)(uintptr_t)save_as(f, in_folder("ranks"), 1, 0, NULL);
}

/*
 * Two ranks: each writes its shard. If no rank holds a tensor whole, its slices are put together at the
 * tensor's owner.
 */
static void two_ranks(void **state)
{
    static struct fake f[2];
    static float shared[YOKEI_PIECE];
    pthread_barrier_t barrier;
    pthread_t other;
    void *theirs;
    char path[800];
    (void)state;
    pthread_barrier_init(&barrier, NULL, 2);
    for (int r = 0; r < 2; r++) {
        make_fake(&f[r], 2);
        f[r].rank = r;
        f[r].all = f;
        f[r].barrier = &barrier;
        f[r].shared = shared;
        for (int i = 0; i < f[r].n; i += 3) f[r].item[i].spread = true;
    }
    assert_int_equal(pthread_create(&other, NULL, one_rank, &f[1]), 0);
    assert_ptr_equal(one_rank(&f[0]), NULL);
    pthread_join(other, &theirs);
    assert_ptr_equal(theirs, NULL);
    assert_int_equal(newest_is_whole(in_folder("ranks")), 1);
    snprintf(path, sizeof path, "%s/step-0000001/optimizer-00002-of-00002.safetensors", in_folder("ranks"));
    assert_int_equal(access(path, F_OK), 0);
    pthread_barrier_destroy(&barrier);
}

static void note(void *context, const struct yokei_tensor_difference *d)
{
    struct yokei_tensor_difference *worst = context;
    assert_null(d->problem);
    worst->n_different += d->n_different;
    worst->largest = fmax(worst->largest, d->largest);
}

static void compared_and_converted(void **state)
{
    char a[600], b[600], out[600];
    struct yokei_checkpoint *x, *y;
    struct yokei_safetensors *file;
    struct yoke_gpt2_config model;
    char text[1000];
    (void)state;
    snprintf(a, sizeof a, "%s/step-0000001", in_folder("compare"));
    snprintf(b, sizeof b, "%s/step-0000002", in_folder("compare"));
    assert_ok(save_step(in_folder("compare"), 1, 0));
    assert_ok(save_step(in_folder("compare"), 2, 0));
    assert_ok(yokei_checkpoint_open(a, 0, &x));
    assert_ok(yokei_checkpoint_open(b, 0, &y));
    struct yokei_tensor_difference worst = { .n_different = 0 };
    assert_ok(yokei_checkpoint_compare(x, x, &worst, note));
    assert_int_equal(worst.n_different, 0);
    assert_false(yokei_manifest_differs(&x->manifest, &x->manifest, text, sizeof text));
    assert_ok(yokei_checkpoint_compare(x, y, &worst, note));
    assert_true(worst.n_different > 1000 && worst.largest > 0.5 && worst.largest <= 2);
    assert_true(yokei_manifest_differs(&x->manifest, &y->manifest, text, sizeof text));
    assert_non_null(strstr(text, "data_next_sample: 4, 8"));
    yokei_checkpoint_close(y);
    snprintf(out, sizeof out, "%s", in_folder("converted"));
    assert_ok(yokei_model_convert(a, out, YOKE_BF16, true));
    assert_fails(YOKE_EINVAL, "is there already", yokei_model_convert(a, out, YOKE_BF16, true));
    assert_ok(yokei_kind_gpt2.read(out, &model));
    assert_memory_equal(&model, &tiny, sizeof model);
    assert_ok(yokei_safetensors_open(out, 0, &file));
    assert_int_equal(yokei_safetensors_count(file), yokei_kind_gpt2.n_weights(&tiny));
    const struct yokei_tensor *t = yokei_safetensors_find(file, "h.0.mlp.c_fc.weight");
    assert_true(t && t->dtype == YOKE_BF16);
    float have[100];
    assert_ok(yokei_tensor_piece(t, 50, 100, YOKE_F32, have));
    for (int i = 0; i < 100; i++)
        assert_true(
            have[i]
            == yokei_bf16_to_f32(yokei_f32_to_bf16(value_of(t->name, YOKE_TENSOR_WEIGHT, 50 + i, 1))));
    yokei_safetensors_close(file);
    assert_ok(yokei_model_convert(out, in_folder("again"), YOKE_F32, false)); /* and from there on */
    yokei_checkpoint_close(x);
}

/*
 * A folder that a killed process left is taken over. The folder of a living process is left alone, and so is
 * any other program's.
 */
static void folders_are_claimed(void **state)
{
    (void)state;
    char dir[300], out[300], temporary[320], byte;
    int go[2], ready[2], lock, code;
    snprintf(dir, sizeof dir, "%s", in_folder("claimed"));
    snprintf(out, sizeof out, "%s", in_folder("claimed-out"));
    snprintf(temporary, sizeof temporary, "%s.tmp", out);
    assert_ok(save_step(dir, 1, 1));
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0); /* to kill(), -1 means all processes */
    if (pid == 0) {
        close(go[1]);
        if (!yokei_folder_claim(temporary, &lock))
            lock = open(in_folder("claimed-out.tmp/half"), O_CREAT | O_WRONLY, 0600);
        (void)!write(ready[1], "r", 1);
        (void)!read(go[0], &byte, 1); /* until it is killed */
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_true(yokei_folder_is_held(temporary));
    assert_fails(YOKE_EIO, "another process is writing it now",
                 yokei_model_convert(dir, out, YOKE_F32, true));
    assert_int_equal(access(in_folder("claimed-out.tmp/half"), F_OK), 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_false(yokei_folder_is_held(temporary));
    assert_ok(yokei_model_convert(dir, out, YOKE_F32, true));
    assert_int_not_equal(access(temporary, F_OK), 0);
    assert_int_not_equal(access(in_folder("claimed-out/half"), F_OK), 0);
    assert_int_not_equal(access(in_folder("claimed-out/.yoke-lock"), F_OK), 0);
    assert_int_equal(access(in_folder("claimed-out/model.safetensors"), F_OK), 0);
    assert_ok(yokei_make_folder(in_folder("claimed-out2.tmp/mine")));
    assert_fails(YOKE_EIO, "is in the way",
                 yokei_model_convert(dir, in_folder("claimed-out2"), YOKE_F32, true));
    assert_int_equal(access(in_folder("claimed-out2.tmp/mine"), F_OK), 0);
    /*
     * Two jobs save into one folder. The second must get an error, and the first must keep what it has
     * written.
     */
    assert_ok(yokei_folder_claim(in_folder("claimed/step-0000002.tmp"), &lock));
    assert_fails(YOKE_EIO, "another job saves there now", save_step(dir, 2, 1));
    yokei_folder_release(in_folder("claimed/step-0000002.tmp"), lock);
    assert_ok(save_step(dir, 2, 1));
    for (int i = 0; i < 2; i++) close(go[i]), close(ready[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_anywhere),
        cmocka_unit_test(full_anywhere),
        cmocka_unit_test(every_flip_is_refused),
        cmocka_unit_test(all_problems_at_once),
        cmocka_unit_test(folders),
        cmocka_unit_test(two_ranks),
        cmocka_unit_test(compared_and_converted),
        cmocka_unit_test(folders_are_claimed),
    };
    return cmocka_run_group_tests_name("checkpoints", tests, make_test_folder, remove_test_folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The llm.c side of bench/train. It writes llm.c's files (a checkpoint of 256 ints and f32 weights; tokens of
 * 16 bits), and runs llm.c's train_gpt2.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/train.h"

enum {
    HEADER = 256,
    CHECKPOINT_MAGIC = 20240326,
    CHECKPOINT_VERSION = 3,
    TOKENS_MAGIC = 20240520,
    TOKENS_VERSION = 1,
    PADDING = 128
};
static const char checkpoint[] = "gpt2_124M.bin", data[] = "dev/data/tinyshakespeare";
static const char *const texts[] = { "tiny_shakespeare_train.bin", "tiny_shakespeare_val.bin" };

/*
 * The parameters in llm.c's order. A parameter of a layer is stored for all layers, one after the other.
 * llm.c stores the weights of products as [out, in].
 */
static const struct {
    const char *name;
    bool of_layer, transposed;
} order[] = {
    { "wte.weight", false, false },       { "wpe.weight", false, false },
    { "ln_1.weight", true, false },       { "ln_1.bias", true, false },
    { "attn.c_attn.weight", true, true }, { "attn.c_attn.bias", true, false },
    { "attn.c_proj.weight", true, true }, { "attn.c_proj.bias", true, false },
    { "ln_2.weight", true, false },       { "ln_2.bias", true, false },
    { "mlp.c_fc.weight", true, true },    { "mlp.c_fc.bias", true, false },
    { "mlp.c_proj.weight", true, true },  { "mlp.c_proj.bias", true, false },
    { "ln_f.weight", false, false },      { "ln_f.bias", false, false },
};

static int64_t round_up(int64_t n) { return (n + PADDING - 1) / PADDING * PADDING; }

static int index_of(const yoke_trainer *t, const char *name)
{
    for (int i = 0; i < yoke_trainer_n_logical(t); i++)
        if (!strcmp(yoke_trainer_logical(t, i)->name, name)) return i;
    return -1;
}

/* Write one parameter. Words beyond the vocabulary are zeros. */
static yoke_status write_parameter(const struct side *s, const char *name, bool transposed, FILE *file)
{
    const int index = index_of(s->trainer, name);
    if (index < 0) return yoke_fail(YOKE_EINTERNAL, "llm.c: the model has no parameter %s", name);
    const struct yoke_parameter *p = yoke_trainer_logical(s->trainer, index);
    const int64_t rows = p->shape[0], columns = p->n_dims > 1 ? p->shape[1] : 1;
    const int64_t all = (strcmp(name, "wte.weight") ? rows : round_up(rows)) * columns;
    float *values = calloc((size_t)all, sizeof *values),
          *turned = transposed ? malloc((size_t)all * sizeof *turned) : NULL;
    yoke_status status = values && (turned || !transposed)
                             ? yoke_trainer_get_whole(s->trainer, YOKE_TENSOR_WEIGHT, index, values)
                             : yoke_fail(YOKE_ENOMEM, "llm.c: no memory for %s", name);
    for (int64_t i = 0; transposed && !status && i < all; i++)
        turned[(i % columns) * rows + i / columns] = values[i];
    if (!status && fwrite(turned ? turned : values, sizeof *values, (size_t)all, file) != (size_t)all)
        status = yoke_fail(YOKE_EIO, "llm.c: %s could not be written: is /tmp full?", name);
    free(values);
    free(turned);
    return status;
}

static yoke_status write_checkpoint(const struct side *s, const char *path)
{
    const struct yoke_gpt2_config *c = &s->config;
    const int32_t header[HEADER] = { CHECKPOINT_MAGIC,        CHECKPOINT_VERSION,
                                     (int32_t)c->n_positions, (int32_t)c->vocab_size,
                                     (int32_t)c->n_layer,     (int32_t)c->n_head,
                                     (int32_t)c->n_embd,      (int32_t)round_up(c->vocab_size) };
    FILE *file = fopen(path, "wb");
    if (!file) return yoke_fail(YOKE_EIO, "llm.c: %s cannot be made", path);
    yoke_status status = fwrite(header, sizeof header, 1, file) == 1
                             ? YOKE_OK
                             : yoke_fail(YOKE_EIO, "llm.c: %s cannot be written", path);
    for (size_t i = 0; i < YOKE_COUNT(order) && !status; i++)
        for (int64_t l = 0; l < (order[i].of_layer ? c->n_layer : 1) && !status; l++) {
            char name[96];
            if (order[i].of_layer)
                snprintf(name, sizeof name, "h.%d.%s", (int)l, order[i].name);
            else
                snprintf(name, sizeof name, "%s", order[i].name);
            status = write_parameter(s, name, order[i].transposed, file);
        }
    if (fclose(file) && !status)
        status = yoke_fail(YOKE_EIO, "llm.c: %s could not be written: is /tmp full?", path);
    return status;
}

static yoke_status write_tokens(const struct side *s, const char *path)
{
    const int64_t n = s->batch * s->T + 1; /* one step's tokens; llm.c begins with them again at each step */
    struct {
        int32_t header[HEADER];
        uint16_t token[];
    } *file = calloc(1, sizeof *file + (size_t)n * sizeof(uint16_t));
    if (!file) return yoke_fail(YOKE_ENOMEM, "llm.c: no memory");
    file->header[0] = TOKENS_MAGIC, file->header[1] = TOKENS_VERSION, file->header[2] = (int32_t)n;
    for (int64_t i = 0; i < n; i++) file->token[i] = (uint16_t)s->text[i];
    const yoke_status status = yokei_file_write(path, file, sizeof *file + (size_t)n * sizeof(uint16_t));
    free(file);
    return status;
}

yoke_status bench_llmc_write(const struct side *s, struct llmc *llmc)
{
    char path[256];
    snprintf(llmc->folder, sizeof llmc->folder, "/tmp/yoke-bench-XXXXXX");
    if (!mkdtemp(llmc->folder))
        return llmc->folder[0] = 0, yoke_fail(YOKE_EIO, "llm.c: no folder can be made in /tmp");
    snprintf(path, sizeof path, "%s/%s", llmc->folder, checkpoint);
    YOKE_TRY(write_checkpoint(s, path));
    /* folder by folder */
    for (char *end = strchr(strcpy(path + strlen(llmc->folder) + 1, data), '/');;
         end = strchr(end + 1, '/')) {
        if (end) *end = 0;
        if (mkdir(path, 0700)) return yoke_fail(YOKE_EIO, "llm.c: %s cannot be made", path);
        if (!end) break;
        *end = '/';
    }
    for (size_t i = 0; i < YOKE_COUNT(texts); i++) {
        snprintf(path, sizeof path, "%s/%s/%s", llmc->folder, data, texts[i]);
        YOKE_TRY(write_tokens(s, path));
    }
    return YOKE_OK;
}

/* stdbuf makes lines come when they are written, not when the buffer is full. */
static FILE *start(const struct llmc *llmc, const char *dir, pid_t *pid_out)
{
    int up[2];
    char program[4096];
    snprintf(program, sizeof program, "%s/train_gpt2", dir);
    if (pipe(up)) return NULL;
    *pid_out = fork();
    if (*pid_out == 0) {
        dup2(up[1], 1), close(up[0]), close(up[1]);
        if (chdir(llmc->folder) == 0) execlp("stdbuf", "stdbuf", "-oL", program, (char *)NULL);
        _exit(127);
    }
    close(up[1]);
    return fdopen(up[0], "r");
}

yoke_status bench_llmc_run(const struct llmc *llmc, const char *dir, int rounds, double *loss_out,
                           double seconds[])
{
    char line[512];
    pid_t pid = -1;
    int n = -1, step;
    double loss, ms;
    FILE *from = start(llmc, dir, &pid);
    while (from && n < rounds && fgets(line, sizeof line, from)) {
        if (sscanf(line, "step %d: train loss %lf (took %lf ms)", &step, &loss, &ms) != 3) continue;
        if (n < 0)
            *loss_out = loss;
        else
            seconds[n] = ms * 1e-3;
        n++;
    }
    if (pid > 0) kill(pid, SIGKILL), waitpid(pid, NULL, 0);
    if (from) fclose(from);
    return n == rounds
               ? YOKE_OK
               : yoke_fail(YOKE_EBACKEND,
                           "%s/train_gpt2 ended after %d of %d steps: build it there, or unset LLMC_DIR", dir,
                           n + 1, rounds + 1);
}

void bench_llmc_remove(struct llmc *llmc)
{
    char path[256];
    if (!llmc->folder[0]) return;
    snprintf(path, sizeof path, "%s/%s", llmc->folder, checkpoint);
    unlink(path);
    for (size_t i = 0; i < YOKE_COUNT(texts); i++) {
        snprintf(path, sizeof path, "%s/%s/%s", llmc->folder, data, texts[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/%s", llmc->folder, data);
    while (strlen(path) >= strlen(llmc->folder) && !rmdir(path)) *strrchr(path, '/') = 0;
    llmc->folder[0] = 0;
}

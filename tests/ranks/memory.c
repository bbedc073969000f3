/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the predicted memory with the real one.
 *   memory                  small models in all layouts
 *   memory KEY=VALUE...     one run
 * Without arguments: the device's allocations must equal the prediction to the byte, at the start and at
 * their maximum. One process that plans for each rank must get the same prediction. If memory is too small,
 * all ranks must be refused with the same error.
 * With arguments: print how much the process grew, beside the prediction. The keys are blocks, channels,
 * heads, words, sequence, batch, micro, pp, tp, precision (0 fp32, 1 bf16), recompute (0, 1 attention, 2
 * full) and steps.
 */
#include "tests/ranks/ranks.h"

#include <math.h>
#include "train/trainer/memory.h"

struct job {
    int64_t blocks, channels, heads, words, sequence, batch, micro, pp, tp, precision, recompute, steps;
    const int *widths; /* widths of the stages */
    bool sequence_parallel;
    int64_t zero;
};
static const struct job small = { 4, 64, 4, 256, 64, 8, 1, 1, 1, 0, 0, 2, NULL, false, 0 };

static const char *const recomputations[] = { "none", "attention", "full" };

struct subject {
    yoke_device *device;
    yoke_model *model;
    yoke_trainer *trainer;
    yoke_comm *comm, *control;
    struct yoke_trainer_config config;
};

static yoke_status open_device(const struct job *j, const char *spec, struct subject *s)
{
    const struct yoke_gpt2_config g = { sizeof g,    j->blocks, j->heads, j->channels,
                                        j->sequence, j->words,  1e-5,     0.02 };
    *s = (struct subject){ .config = YOKE_TRAINER_CONFIG_INIT };
    YOKE_TRY(yoke_device_open(spec, NULL, &s->device));
    YOKE_TRY(yoke_model_gpt2(&g, &s->model));
    s->config.precision = j->precision ? YOKE_BF16 : YOKE_F32;
    s->config.batch = j->batch, s->config.micro_batch = j->micro, s->config.sequence = j->sequence;
    s->config.pipeline = (int)j->pp, s->config.tensor = (int)j->tp, s->config.zero = (int)j->zero;
    s->config.stage_tensor = j->widths, s->config.sequence_parallel = j->sequence_parallel;
    s->config.recompute = recomputations[j->recompute];
    return YOKE_OK;
}

static yoke_status open_communicators(int size, struct subject *s)
{
    if (size == 1) return YOKE_OK;
    YOKE_TRY(yoke_comm_create(ranks_world, s->device, NULL, &s->comm));
    YOKE_TRY(yoke_comm_create(ranks_world, NULL, NULL, &s->control));
    s->config.comm = s->comm, s->config.control = s->control;
    return YOKE_OK;
}

static yoke_status open_subject(const struct job *j, int size, const char *spec, struct subject *s)
{
    YOKE_TRY(open_device(j, spec, s));
    return open_communicators(size, s);
}

static yoke_status close_subject(struct subject *s)
{
    YOKE_TRY(yoke_trainer_destroy(s->trainer));
    if (s->control) YOKE_TRY(yoke_comm_destroy(s->control));
    if (s->comm) YOKE_TRY(yoke_comm_destroy(s->comm));
    YOKE_TRY(yoke_model_destroy(s->model));
    return yoke_device_close(s->device);
}

/* Run steps, an evaluation, and the logits of a position. */
static yoke_status run_steps(struct subject *s, const struct job *j)
{
    struct yoke_step_result result;
    int64_t first, count;
    yoke_trainer_range(s->trainer, &first, &count);
    const size_t n = (size_t)(j->batch * j->sequence);
    int32_t *tokens = malloc(n * sizeof *tokens);
    float *logits = malloc((size_t)j->words * sizeof *logits);
    if (!tokens || !logits) return yoke_fail(YOKE_ENOMEM, "no memory for a batch");
    for (size_t i = 0; i < n; i++) tokens[i] = (int32_t)(i * 7 % (size_t)j->words);
    double sum;
    yoke_status status = YOKE_OK;
    for (int64_t step = 0; step < j->steps && !status; step++) {
        status = yoke_trainer_backward(s->trainer, tokens, tokens, 0, &result);
        if (!status) status = yoke_trainer_apply(s->trainer, 1e-3, &result);
    }
    if (!status) status = yoke_trainer_evaluate(s->trainer, tokens, tokens, 3, &sum);
    if (!status) status = yoke_trainer_logits(s->trainer, tokens, 5, logits);
    free(tokens);
    free(logits);
    return status;
}

static yoke_status differs(const char *what, uint64_t is, uint64_t should)
{
    return is == should ? YOKE_OK
                        : yoke_fail(YOKE_EDATA, "%s: %llu bytes, not %llu", what, (unsigned long long)is,
                                    (unsigned long long)should);
}

/* One process plans for all ranks. Its plan must be what the ranks have taken. */
static yoke_status as_planned(const struct subject *s, int size)
{
    for (int r = 0; r < size; r++) {
        struct yokei_trainer_plan plan;
        struct yoke_memory_report report;
        struct yoke_trainer_config c = s->config;
        c.comm = c.control = NULL;
        YOKE_TRY(yokei_trainer_plan_as(s->model, s->device, &c, r, size, &plan));
        YOKE_TRY(yoke_trainer_memory_of(s->trainer, r, &report));
        yoke_status status = YOKE_OK;
        for (const struct yokei_memory_part *p = yokei_memory_parts; p->name && !status; p++)
            status = differs(p->name, yokei_memory_part_of(&report, p),
                             yokei_memory_part_of(&plan.report, p));
        yokei_trainer_plan_free(&plan);
        YOKE_TRY(status);
    }
    return YOKE_OK;
}

static yoke_status exact(const struct job *j, int size, const char *spec)
{
    struct subject s;
    struct yoke_memory_report report;
    uint64_t before, now, peak;
    YOKE_TRY(open_subject(j, size, spec, &s));
    YOKE_TRY(yoke_device_allocated(s.device, &before, NULL));
    YOKE_TRY(yoke_trainer_create(s.model, s.device, &s.config, &s.trainer));
    YOKE_TRY(yoke_trainer_memory(s.trainer, &report));
    YOKE_TRY(as_planned(&s, size));
    YOKE_TRY(yoke_device_allocated(s.device, &now, NULL));
    YOKE_TRY(differs("allocated at the start", now - before, report.total));
    YOKE_TRY(run_steps(&s, j));
    YOKE_TRY(yoke_device_allocated(s.device, NULL, &peak));
    YOKE_TRY(differs("allocated at most", peak - before, report.total));
    return close_subject(&s);
}

/* The memory that the groups' communicators have taken after the steps must be the predicted memory. */
static yoke_status staging(const struct job *j, int size, const char *spec)
{
    struct subject s;
    struct yoke_memory_report report;
    size_t shared = 0, private_bytes = 0;
    YOKE_TRY(open_subject(j, size, spec, &s));
    YOKE_TRY(yoke_trainer_create(s.model, s.device, &s.config, &s.trainer));
    YOKE_TRY(yoke_trainer_memory(s.trainer, &report));
    YOKE_TRY(run_steps(&s, j));
    const struct yokei_groups *g = &s.trainer->groups;
    const yoke_comm *const all[] = { s.comm,     s.control,  g->data,        g->tensor,     g->tied,
                                     g->next[0], g->next[1], g->previous[0], g->previous[1] };
    for (size_t i = 0; i < YOKE_COUNT(all); i++) {
        struct yoke_comm_memory m;
        if (!all[i]) continue;
        YOKE_TRY(yoke_comm_memory(all[i], &m));
        shared += m.shared;
        private_bytes += m.private_bytes;
    }
    for (int i = 0; i < g->n_ties; i++) {
        struct yoke_comm_memory m;
        if (!g->ties[i]) continue;
        YOKE_TRY(yoke_comm_memory(g->ties[i], &m));
        shared += m.shared;
        private_bytes += m.private_bytes;
    }
    YOKE_TRY(differs("shared staging", report.staging_shared, shared));
    if (yoke_device_info(s.device)->host_visible)
        YOKE_TRY(differs("private staging", report.staging, private_bytes));
    /*
     * A lane (the part of a collective that works on one chunk at a time) allocates staging memory when an
     * operation needs it, up to the prediction.
     */
    else if (private_bytes > report.staging)
        return yoke_fail(YOKE_EDATA, "private staging: %zu bytes, more than %zu", private_bytes,
                         report.staging);
    return close_subject(&s);
}

/*
 * The last rank has too little memory. All ranks must be refused in the same words, before anything is
 * allocated.
 */
static yoke_status refused_alike(int size, const char *spec)
{
    struct subject s;
    struct yoke_memory_report report;
    struct job j = small;
    j.micro = 4;
    j.pp = size == 4 ? 2 : 1;
    YOKE_TRY(open_subject(&j, size, spec, &s));
    struct yoke_trainer_config c = s.config;
    YOKE_TRY(yoke_trainer_plan_memory(s.model, s.device, &c, &report));
    uint64_t before, peak;
    YOKE_TRY(yoke_device_allocated(s.device, &before, NULL));
    s.config.memory_limit = ranks_rank == size - 1 ? report.total - 1 : 1u << 30;
    const yoke_status status = yoke_trainer_create(s.model, s.device, &s.config, &s.trainer);
    const bool replicas = size / j.pp > 1;
    const char *change = replicas ? "over the replicas (--zero 1)"
                                  : "lower the micro-batch from 4 to 2 sequences (--micro-batch 2)";
    char wanted[64];
    yokei_text(wanted, sizeof wanted, "rank %d on ", size - 1);
    if (status != YOKE_ENOMEM) return yoke_fail(YOKE_EDATA, "not refused: %s", yoke_status_text(status));
    if (strncmp(yoke_last_error(), wanted, strlen(wanted)) || !strstr(yoke_last_error(), change))
        return yoke_fail(YOKE_EDATA, "refused in other words: %s", yoke_last_error());
    const uint64_t words = yokei_hash(yoke_last_error(), strlen(yoke_last_error()), 0);
    YOKE_TRY(yokei_ranks_agree(&s.config, words, NULL, "say different things"));
    YOKE_TRY(yoke_device_allocated(s.device, NULL, &peak));
    YOKE_TRY(differs("allocated by a run that is refused", peak, before));
    if (replicas)
        s.config.zero = 1; /* with this change it must fit */
    else
        s.config.micro_batch = 2;
    YOKE_TRY(yoke_trainer_create(s.model, s.device, &s.config, &s.trainer));
    YOKE_TRY(run_steps(&s, &j));
    return close_subject(&s);
}

static void check_all(void)
{
    static const int meshes[][2] = { { 1, 1 }, { 2, 1 }, { 1, 2 }, { 4, 1 }, { 2, 2 }, { 1, 4 } };
    for (size_t m = 0; m < YOKE_COUNT(meshes); m++)
        for (int precision = 0; precision < 2; precision++)
            for (int recompute = 0; recompute < 3; recompute++) {
                struct job j = small;
                j.pp = meshes[m][0], j.tp = meshes[m][1], j.precision = precision, j.recompute = recompute;
                j.micro = recompute == 0 ? 2 : 1;
                if (j.pp * j.tp > ranks_size || ranks_size % (j.pp * j.tp)
                    || (recompute && (precision || j.pp == 1)))
                    continue;
                ranks_check(!exact(&j, ranks_size, "host"),
                            "pp %d tp %d, %s, recompute %d: the prediction is exact", meshes[m][0],
                            meshes[m][1], precision ? "bf16" : "fp32", recompute);
            }
    struct job j = small;
    ranks_check(!exact(&j, ranks_size, "opencl:0"), "on OpenCL");
    if (ranks_size < 4) return;
    for (int k = 0; k < 4; k++) {
        struct job divided = small;
        divided.pp = 1 + k / 2, divided.precision = k % 2, divided.zero = 1;
        ranks_check(!exact(&divided, ranks_size, "host"),
                    "pp %d, %s, moments divided: the prediction is exact", 1 + k / 2,
                    k % 2 ? "bf16" : "fp32");
    }
    j.pp = 2;
    ranks_check(!staging(&j, ranks_size, "host"), "staging of replicas of a pipeline");
    j.pp = 4;
    ranks_check(!staging(&j, ranks_size, "host"), "staging of a pipeline");
    setenv("YOKE_OPENCL_ADDRESS", "buffer", 1);
    ranks_check(!staging(&j, ranks_size, "opencl:0"), "staging of device memory that the host does not see");
    ranks_check(!exact(&j, ranks_size, "opencl:0"), "and its prediction is exact");
    unsetenv("YOKE_OPENCL_ADDRESS");
    j.pp = 2, j.tp = 2;
    ranks_check(!staging(&j, ranks_size, "host"), "staging of a pipeline of divided tensors");
    for (int cut = 0; cut < 2; cut++) {
        j.tp = 0, j.widths = (const int[]){ 3, 1 }, j.sequence_parallel = cut != 0;
        ranks_check(!exact(&j, ranks_size, "host"),
                    "a wide stage and a narrow one%s: the prediction is exact",
                    cut ? ", positions divided" : "");
        ranks_check(!staging(&j, ranks_size, "host"), "their staging");
    }
}

/* ---- one run, measured ---- */

/* A number of kilobytes from /proc/self/status. */
static double status_of(const char *key)
{
    char line[256];
    long long kb = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key))) sscanf(line + strlen(key), ": %lld", &kb);
    if (f) fclose(f);
    return (double)kb * 1024;
}

/* The bytes of communicators' segments that this process maps, its own and those of other ranks. */
static double segments(void)
{
    char line[512];
    double sum = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long begin, end;
        if (strstr(line, "yoke-slots") && sscanf(line, "%lx-%lx", &begin, &end) == 2)
            sum += (double)(end - begin);
    }
    if (f) fclose(f);
    return sum;
}

struct seen {
    double anonymous, file, peak, segments;
};

static struct seen see(void)
{
    return (struct seen){ status_of("RssAnon"), status_of("RssFile"),
                          status_of("VmHWM") - status_of("RssShmem"), segments() };
}

/* From now on VmHWM is the maximum since this call. */
static void forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "we");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}

static yoke_status measure(const struct job *j)
{
    struct subject s;
    struct yoke_memory_report p;
    YOKE_TRY(open_device(j, "host",
                         &s)); /* because it loads libraries; MPI was also started before the measurement */
    forget_peak();
    const struct seen before = see();
    YOKE_TRY(open_communicators(ranks_size, &s));
    YOKE_TRY(yoke_trainer_create(s.model, s.device, &s.config, &s.trainer));
    YOKE_TRY(yoke_trainer_memory(s.trainer, &p));
    YOKE_TRY(run_steps(&s, j));
    const struct seen after = see();
    uint64_t peak;
    YOKE_TRY(yoke_device_allocated(s.device, NULL, &peak));
    YOKE_TRY(differs("allocated on the device", peak, p.total));
    /* Each of the k ranks of a communicator maps it k times. */
    double mapped = 0;
    const struct yokei_groups *g = &s.trainer->groups;
    const yoke_comm *const all[] = { s.comm,     s.control,  g->data,        g->tensor,     g->tied,
                                     g->next[0], g->next[1], g->previous[0], g->previous[1] };
    for (size_t i = 0; i < YOKE_COUNT(all); i++) {
        struct yoke_comm_memory m;
        if (all[i] && !yoke_comm_memory(all[i], &m)) mapped += (double)m.shared * yoke_comm_size(all[i]);
    }
    YOKE_TRY(differs("mapped of the communicators", (uint64_t)(after.segments - before.segments),
                     (uint64_t)mapped));
    const double shared = (double)p.staging_shared, mine = (double)(p.total + p.staging + p.host),
                 grown = after.peak - before.anonymous - before.file;
    const double mib = 1 << 20, predicted = mine + shared, ratio = (grown + shared) / predicted;
    printf("| %lld | %lld | %lld | %s | %s | %d | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.4f |\n",
           (long long)j->pp, (long long)(ranks_size / (j->pp * j->tp)), (long long)j->tp,
           j->precision ? "bf16" : "fp32", recomputations[j->recompute], ranks_rank, (double)p.total / mib,
           (double)(p.staging + p.host) / mib, shared / mib, predicted / mib, (grown + shared) / mib,
           (after.anonymous - before.anonymous - mine) / mib, (after.file - before.file) / mib, ratio);
    fflush(stdout);
    YOKE_TRY(close_subject(&s));
    return fabs(ratio - 1) <= 0.02 ? YOKE_OK
                                   : yoke_fail(YOKE_EDATA, "measured is %.4f of what was predicted", ratio);
}

static bool read_job(int argc, char **argv, struct job *j)
{
    const struct {
        const char *name;
        int64_t *value;
    } keys[] = {
        { "blocks", &j->blocks },
        { "channels", &j->channels },
        { "heads", &j->heads },
        { "words", &j->words },
        { "sequence", &j->sequence },
        { "batch", &j->batch },
        { "micro", &j->micro },
        { "pp", &j->pp },
        { "tp", &j->tp },
        { "precision", &j->precision },
        { "recompute", &j->recompute },
        { "steps", &j->steps },
        { "zero", &j->zero },
    };
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        bool found = false;
        for (size_t k = 0; k < YOKE_COUNT(keys) && value; k++)
            if (strlen(keys[k].name) == (size_t)(value - argv[i])
                && !strncmp(keys[k].name, argv[i], strlen(keys[k].name))) {
                *keys[k].value = atoll(value + 1);
                found = *keys[k].value > 0 || value[1] == '0';
            }
        if (!found)
            fprintf(
                stderr,
                "# %s: not one of blocks, channels, heads, words, sequence, batch, micro, pp, tp, precision, recompute, steps, zero=N\n",
                argv[i]);
        if (!found) return false;
    }
    return j->recompute <= 2;
}

int main(int argc, char **argv)
{
    struct job j = small;
    ranks_start();
    if (argc > 1) {
        if (read_job(argc, argv, &j))
            ranks_check(!measure(&j), "measured is predicted within 2 %%");
        else
            ranks_check(0, "the arguments can be read");
        return ranks_end();
    }
    check_all();
    ranks_check(!refused_alike(ranks_size, "host"), "all ranks are refused alike");
    return ranks_end();
}

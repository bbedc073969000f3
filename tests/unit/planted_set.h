/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of the programs that plant errors: the tensors, the streams and the op in which an error is planted.
 * PLANTED_SPEC is the device.
 */
#ifndef TESTS_UNIT_PLANTED_SET_H
#define TESTS_UNIT_PLANTED_SET_H

enum { ROWS = 5, C = 96, N = ROWS * C };

struct plant {
    const char *name;
    yoke_status (*run)(const struct plant *plant);
    /* in the prelude of each kernel: replace `find`, which must occur once, by `by` */
    const char *variant, *find, *by;
    const char *text, *also; /* what the error must say; `also` may be NULL */
    bool is_later;           /* only the soak test runs the case */
};

_Static_assert((int)YOKEI_MEMORY_UNDEFINED == (int)YOKE_EMULATE_UNDEFINED
                   && (int)YOKEI_MEMORY_DEFINED == (int)YOKE_EMULATE_DEFINED
                   && (int)YOKEI_MEMORY_FORBIDDEN == (int)YOKE_EMULATE_FORBIDDEN,
               "the states have the numbers of the stand-in");

static bool is_planted; /* the error is in */

/* ---- tensors and an op ---- */

struct set {
    yoke_device *device;
    yoke_stream *first, *second;
    yoke_event *event;
    float *x, *y; /* [ROWS, C] on the device, by the names x and y */
};

static const struct yokei_gpu_driver *sound_driver;
static const struct plant *changing;

/* Compile the text with its error. The file norm.yk ends behind layernorm_forward, to be compiled sooner. */
static yoke_status build(yoke_device *device, const struct yokei_gpu_source *source, void **program_out)
{
    static const char next[] = "YK_KERNEL(layernorm_backward)";
    struct yokei_gpu_source wrong = *source;
    const char *at = strstr(source->prelude, changing->find), *cut = strstr(source->text, next);
    if (!at || strstr(at + 1, changing->find))
        return yoke_fail(YOKE_EINTERNAL, "'%s' does not stand once in the prelude; adapt the table",
                         changing->find);
    if (cut && changing->variant[1] != '1') cut = strstr(cut + 1, next);
    const bool is_norm = cut != NULL;
    if (is_norm != !strcmp(source->name, "norm"))
        return yoke_fail(YOKE_EINTERNAL, "norm.yk has changed; adapt where its text is cut");
    char *prelude = NULL, *text = NULL;
    if (asprintf(&prelude, "%.*s%s%s", (int)(at - source->prelude), source->prelude, changing->by,
                 at + strlen(changing->find))
            < 0
        || (is_norm && asprintf(&text, "%.*s\n#endif\n", (int)(cut - source->text), source->text) < 0)) {
        free(prelude);
        return yoke_fail(YOKE_ENOMEM, "no memory");
    }
    wrong.prelude = prelude;
    if (is_norm) wrong.text = text;
    const yoke_status status = sound_driver->build(device, &wrong, program_out);
    free(prelude);
    free(text);
    return status;
}

static yoke_status named(yoke_device *device, const char *name, float **out)
{
    YOKE_TRY(yoke_alloc(device, N * sizeof **out, (void **)out));
    return yokei_annotate(device, NULL,
                          &(struct yokei_annotation){ *out, N * sizeof **out, YOKEI_MEMORY_AS_IS, name, 0 });
}

static yoke_status open_set(const struct plant *plant, struct set *s)
{
    static struct yokei_gpu_driver wrong;
    YOKE_TRY(yoke_device_open(PLANTED_SPEC, NULL, &s->device));
    if (plant->find && is_planted) {
        changing = plant;
        sound_driver = yokei_gpu(s->device)->driver;
        wrong = *sound_driver;
        wrong.build = build;
        yokei_gpu(s->device)->driver = &wrong;
        s->device->cache_dir[0] = '\0'; /* so that no wrong program stays in the cache */
    }
    YOKE_TRY(yoke_stream_create(s->device, &s->first));
    YOKE_TRY(yoke_stream_create(s->device, &s->second));
    YOKE_TRY(yoke_event_create(s->device, &s->event));
    YOKE_TRY(named(s->device, "x", &s->x));
    return named(s->device, "y", &s->y);
}

static yoke_status write_x(struct set *s, yoke_stream *stream)
{
    static float values[N];
    for (int i = 0; i < N; i++) values[i] = (float)(i % 13) - 6;
    return yoke_copy_to_device(stream, s->x, values, sizeof values);
}

static atomic_bool is_open;

static void wait_until_open(void *nothing)
{
    (void)nothing;
    while (!atomic_load(&is_open)) usleep(500);
}

/*
 * The stream's work waits in the driver from here on, until the gate is opened. (Yoke itself would keep the
 * later calls in the process.)
 */
static yoke_status hold(struct set *s, yoke_stream *stream)
{
    const struct yokei_rt *rt = yokei_rt(s->device);
    YOKE_TRY(yokei_rt_enter(s->device));
    const int error = rt->calls->call_host(rt, yokei_rt_stream(stream)->queue, wait_until_open, NULL);
    yokei_rt_leave(s->device);
    return error ? yokei_rt_fail(s->device, "a host function", error) : YOKE_OK;
}

static void open_gate(void) { atomic_store(&is_open, true); }

static yoke_status norm(struct set *s, yoke_stream *stream)
{
    return yoke_layernorm_forward(stream, &YOKE_ARGS(layernorm_forward, .dtype = YOKE_F32, .N = ROWS, .C = C,
                                                     .x = s->x, .ldx = C, .gamma = s->x, .beta = s->x,
                                                     .y = s->y, .ldy = C, .eps = 1e-5f));
}

static yoke_status add(struct set *s, yoke_stream *stream)
{
    return yoke_add(stream, &YOKE_ARGS(add, .dtype = YOKE_F32, .n = N, .x = s->x, .y = s->y, .z = s->x));
}

/* ---- errors of kernels: an op of rows ---- */

static yoke_status run_kernel(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(yoke_variant_force(s.device, "layernorm_forward", plant->variant));
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(norm(&s, s.first));
    if (strstr(plant->text, "of the 1920 bytes")) YOKE_TRY(add(&s, s.first)); /* it reads all of y */
    return yoke_stream_sync(s.first);
}

#endif

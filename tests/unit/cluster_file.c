/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cluster files: what is read, that a written cluster reads back as the same bits, and that each kind of bad
 * input is refused at its line and column.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/base.h"
#include "tests/unit/folder.h"
#include "train/search/cluster_file.h"

/* ---- a good file ---- */

/* The lines are counted in the tests of bad input. */
static const char base[] = "name: two and one\n"                                                /* 1 */
                           "devices:\n"                                                         /* 2 */
                           "  big:\n"                                                           /* 3 */
                           "    memory: 80GiB\n"                                                /* 4 */
                           "    price: 2.10/h\n"                                                /* 5 */
                           "    bandwidth: 3TB/s\n"                                             /* 6 */
                           "    latency: 4us\n"                                                 /* 7 */
                           "    peak: { bf16: 990TFLOP/s }\n"                                   /* 8 */
                           "    speeds:\n"                                                      /* 9 */
                           "      bf16:\n"                                                      /* 10 */
                           "        gemm: { rate: { 0FLOP: 50TFLOP/s, 1GFLOP: 600TFLOP/s } }\n" /* 11 */
                           "        attention: 300TFLOP/s\n"                                    /* 12 */
                           "        optimizer: { bandwidth: 2TB/s, latency: 9us }\n"            /* 13 */
                           "  small:\n"                                                         /* 14 */
                           "    memory: 16GiB\n"                                                /* 15 */
                           "    local-device: opencl:0\n"                                       /* 16 */
                           "    speeds:\n"                                                      /* 17 */
                           "      f32:\n"                                                       /* 18 */
                           "        gemm: { rate: 10TFLOP/s, bandwidth: unlimited }\n"          /* 19 */
                           "        attention: { rate: 4TFLOP/s, bandwidth: 400GB/s }\n"        /* 20 */
                           "        optimizer: 390GB/s\n"                                       /* 21 */
                           "        other: 400GB/s\n"                                           /* 22 */
                           "links:\n"                                                           /* 23 */
                           "  fast: { bandwidth: 450GB/s, latency: 2us }\n"                     /* 24 */
                           "  slow: { bandwidth: 400Gbit/s, latency: 5us }\n"                   /* 25 */
                           "hosts:\n"                                                           /* 26 */
                           "  a:\n"                                                             /* 27 */
                           "    count: 2\n"                                                     /* 28 */
                           "    nics: 4\n"                                                      /* 29 */
                           "    devices: [{ device: big, count: 8, link: fast }]\n"             /* 30 */
                           "  b:\n"                                                             /* 31 */
                           "    devices: [{ device: big }, { device: small }]\n"                /* 32 */
                           "    inside: slow\n"                                                 /* 33 */
                           "    price: 1/h\n"                                                   /* 34 */
                           "between:\n"                                                         /* 35 */
                           "  - { hosts: all, link: slow }\n"                                   /* 36 */
                           "  - { hosts: [a, a], link: fast }\n";                               /* 37 */

static struct yokei_cluster cluster, other;

static yoke_status parse(const char *text, struct yokei_cluster *out)
{
    return yokei_cluster_parse("x.yaml", text, strlen(text), out);
}

static void whole_file(void **state)
{
    (void)state;
    const struct yokei_cluster *c = &cluster;
    assert_ok(parse(base, &cluster));
    assert_string_equal(c->name, "two and one");
    assert_int_equal(c->n_kinds, 2);
    assert_int_equal(yokei_cluster_devices(c, -1), 18);
    assert_int_equal(yokei_cluster_devices(c, 1), 1);
    const struct yokei_device_kind *k = &c->kind[0];
    const struct yokei_speed *s = k->speed[YOKEI_SPEED_BF16];
    assert_string_equal(k->name, "big");
    assert_true(k->memory == UINT64_C(80) << 30 && k->price == 2.10 && k->peak[YOKEI_SPEED_BF16] == 990e12);
    assert_true(s[YOKEI_CLASS_GEMM].n_points == 2 && s[YOKEI_CLASS_GEMM].point[1].work == 1e9
                && s[YOKEI_CLASS_GEMM].point[1].rate == 600e12 && s[YOKEI_CLASS_GEMM].point[0].rate == 50e12);
    assert_true(s[YOKEI_CLASS_GEMM].bytes_per_second == 3e12 && s[YOKEI_CLASS_GEMM].seconds == 4e-6);
    assert_true(s[YOKEI_CLASS_ATTENTION].n_points == 1 && s[YOKEI_CLASS_ATTENTION].point[0].work == 0);
    assert_true(s[YOKEI_CLASS_OPTIMIZER].bytes_per_second == 2e12 && s[YOKEI_CLASS_OPTIMIZER].seconds == 9e-6
                && s[YOKEI_CLASS_OPTIMIZER].n_points == 0);
    assert_true(s[YOKEI_CLASS_OTHER].bytes_per_second == 3e12 && s[YOKEI_CLASS_OTHER].seconds == 4e-6);
    assert_int_equal(k->speed[YOKEI_SPEED_F32][YOKEI_CLASS_GEMM].n_points, 0);
    k = &c->kind[1], s = k->speed[YOKEI_SPEED_F32];
    assert_string_equal(k->device, "opencl:0");
    assert_true(s[YOKEI_CLASS_GEMM].bytes_per_second == 0 && s[YOKEI_CLASS_OTHER].bytes_per_second == 400e9
                && s[YOKEI_CLASS_OPTIMIZER].bytes_per_second == 390e9);
    assert_true(c->link[1].bytes_per_second == 50e9 && c->link[1].seconds == 5e-6);
    const struct yokei_cluster_host *a = &c->host[0], *b = &c->host[1];
    assert_true(a->n == 2 && a->n_links == 4 && a->n_lists == 1 && a->devices[0].n == 8
                && a->devices[0].link == 0 && a->inner == -1 && a->price == 0);
    assert_true(b->n == 1 && b->n_links == 1 && b->n_lists == 2 && b->devices[1].kind == 1
                && b->devices[1].n == 1 && b->devices[1].link == -1 && b->inner == 1 && b->price == 1);
    assert_true(c->between[0][0] == 0 && c->between[0][1] == 1 && c->between[1][0] == 1
                && c->between[1][1] == -1);
}

/* ---- bad files: one place of the good file changed ---- */

static const struct bad {
    const char *old, *new; /* the first `old` of the good file becomes `new` */
    const char *place;     /* "line:column" */
    const char *words;
} bad[] = {
    { "80GiB", "80", "4:13", "device big: memory '80' has no unit; write 80GiB" },
    { "80GiB", "80MiB", "4:13", "cannot be right: it must be from 256MiB to 64TiB" },
    { "80GiB", "80GB", "4:13", "write 80GiB" },
    { "80GiB", "81920MB", "4:13", "write 81920MiB" },
    { "80GiB", "-80GiB", "4:13", "is negative" },
    { "80GiB", "999999TiB", "4:13", "cannot be right" },
    { "80GiB", "[80GiB]", "4:5", "memory is a list; it must be one value" },
    { "80GiB", "", "4:12", "memory is empty" },
    { "    memory: 80GiB\n", "", "3:3", "device big has no 'memory'" },
    { "memory: 80GiB", "memry: 80GiB", "4:5", "unknown key 'memry' (did you mean memory?)" },
    { "memory: 80GiB", "zzzzzzzzzzzzzzz: 80GiB", "4:5", "the keys are memory, speeds, kernels" },
    { "price: 2.10/h", "memory: 1GiB", "5:5", "'memory' is given twice; the first is in line 4" },
    { "2.10/h", "2.10", "5:12", "has no unit; write 2.10/h" },
    { "2.10/h", "1e9/h", "5:12", "cannot be right" },
    { "    bandwidth: 3TB/s\n", "", "10:9", "gemm of bf16 has no bandwidth of memory" },
    { "3TB/s", "3MB/s", "6:16", "cannot be right" },
    { "990TFLOP/s", "990FLOP/s", "8:19", "peak of bf16 '990FLOP/s' cannot be right" },
    { "990TFLOP/s", "500TFLOP/s", "8:19", "is below the rate of gemm, 600TFLOP/s" },
    { "bf16: 990TFLOP/s", "fp16: 990TFLOP/s", "8:13", "did you mean f16?" },
    { "600TFLOP/s", "600", "11:51", "has no unit; write 600TFLOP/s" },
    { "600TFLOP/s", "6TFLOP/s", "11:51", "lower than that of less work" },
    { "1GFLOP:", "0FLOP:", "11:43", "given twice" },
    { "1GFLOP:", "0GFLOP:", "11:43", "not more work than the entry before" },
    { "{ 0FLOP: 50TFLOP/s, 1GFLOP: 600TFLOP/s }", "unlimited", "11:23", "gemm of bf16 has no limit" },
    { "        attention: 300TFLOP/s\n", "", "10:7", "attention of bf16 has no speed" },
    { "attention: 300", "atention: 300", "12:9", "did you mean attention?" },
    { "300TFLOP/s", "300TFLOPS", "12:20", "write 300TFLOP/s" },
    { "local-device: opencl:0", "local-device: /dev/null", "16:19", "no name such as host" },
    { "local-device: opencl:0", "local-ranks: 0", "16:18", "no whole number from 1 to" },
    { "  small:\n", "  sm all:\n", "14:3", "cannot be the name of a device" },
    { "  small:\n", "  \"\\e[2J\":\n", "14:3", "cannot be the name of a device" },
    { "  small:\n", "  big:\n", "14:3", "'big' is given twice" },
    { "latency: 2us", "latency: 2", "24:40", "has no unit; write 2us" },
    { "latency: 2us", "latency: 2s", "24:40", "cannot be right" },
    { ", latency: 2us", "", "24:3", "link fast has no 'latency'" },
    { "400Gbit/s", "400bit/s", "25:22", "cannot be right" },
    { "400Gbit/s", "400Gbps", "25:22", "write 400Gbit/s" },
    { "count: 2", "count: 0", "28:12", "no whole number from 1 to 65536" },
    { "count: 2", "count: 2.5", "28:12", "no whole number" },
    { "count: 2", "count: 60000", "26:1", "480002 devices; at most 65536" },
    { ", link: fast }]", " }]", "30:15", "the link between its 8 devices big is missing; add link" },
    { "link: fast }]", "link: fats }]", "30:46", "there is no link 'fats' (did you mean fast?)" },
    { "device: big, count", "device: bag, count", "30:25", "there is no device 'bag' (did you mean big?)" },
    { "device: small }]", "device: qqqqqqqq }]", "32:42", "define it under 'devices:'" },
    { "    inside: slow\n", "", "31:3", "add inside: NAME" },
    { "    devices: [{ device: big, count: 8, link: fast }]\n", "", "27:3", "host a has no 'devices'" },
    { "[{ device: big, count: 8, link: fast }]", "{ device: big }", "30:5", "it must be a list of 1 to 4" },
    { "  - { hosts: all, link: slow }\n", "", "35:1", "the link between hosts a and b is missing; add" },
    { "hosts: [a, a]", "hosts: [b, b]", "37:7", "there is one host b" },
    { "hosts: [a, a]", "hosts: [a, c]", "37:18", "there is no host 'c'" },
    { "hosts: [a, a]", "hosts: [a]", "37:7", "two names, [A, B]" },
    { "hosts: [a, a]", "hosts: all", "37:14", "'all' is given twice" },
    { "link: fast }\n", "lnk: fast }\n", "37:22", "did you mean link?" },
    { "devices:\n  big:", "things:\n  big:", "2:1", "a cluster file: unknown key 'things'" },
    { "name: two and one\n", "name: \"a\\nb\"\n", "1:7", "control character" },
    { "name: two and one\n", "- a\n- b\n", "1:1", "expected 'key: value' lines" },
    { "name: two and one\n", "name: &x two and one\n", "1:7", "an anchor (&x) is not read" },
    { "name: two and one\n", "name: *x\n", "1:7", "an alias (*x) is not read" },
    { "name: two and one\n", "name: !!binary aGk=\n", "1:7", "a tag (tag:yaml.org,2002:binary) is not read" },
    { "name: two and one\n", "name: [[[[[[[[[[[[[[[[\n", "1:18", "nested deeper than 12" },
    { "name: two and one\n", "name: 'two\n", "38:1", "a quoted scalar, which begins in line 1" },
    { "name: two and one\n", "name: \"a\\0b\"\n", "1:7", "zero byte" },
    { "name: two and one\n", "name:\ta: b: c\n", "1:", "not valid YAML" },
    { "name: two and one\n", "[a, b]: c\n", "1:1", "a key must be a word" },
    { "link: fast }\n", "link: fast }\n---\nname: b\n", "", "a second YAML document" },
};

static char *replaced(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    const size_t bytes = strlen(text) + strlen(new) + 1;
    char *result = malloc(bytes);
    if (!at || !result) fail_msg("the text has no '%s'", old);
    yokei_text(result, bytes, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    return result;
}

static void bad_files(void **state)
{
    (void)state;
    int n_wrong = 0;
    for (size_t i = 0; i < YOKE_COUNT(bad); i++) {
        const struct bad *b = &bad[i];
        char place[64], *text;
        if (!strncmp(b->old, "link: fast }\n", 13)) { /* the last one */
            text = malloc(sizeof base + 64);
            assert_non_null(text);
            yokei_text(text, sizeof base + 64, "%.*s%s", (int)(sizeof base - 1 - strlen(b->old)), base,
                       b->new);
        } else
            text = replaced(base, b->old, b->new);
        yokei_text(place, sizeof place, "x.yaml:%s", b->place);
        memset(&other, 7, sizeof other);
        const yoke_status status = parse(text, &other);
        const char *said = yoke_last_error();
        if (status != YOKE_ECONFIG || strncmp(said, place, strlen(place)) || !strstr(said, b->words)) {
            print_error("'%s' for '%s': status %s, \"%s\", not \"%s: ...%s\"\n", b->new, b->old,
                        yoke_status_name(status), said, place, b->words);
            n_wrong++;
        }
        assert_true(*(unsigned char *)&other == 7); /* unchanged */
        free(text);
    }
    assert_int_equal(n_wrong, 0);
}

/* Files that are cut anywhere, or have a wrong byte anywhere, are read or refused, and nothing else. */
static void damaged_files(void **state)
{
    (void)state;
    static const char bytes[] = { 0,   '\n', ' ', ':', '-', '{',  '}',       '[',
                                  '"', '&',  '*', '!', '#', '\t', (char)0xff };
    char text[sizeof base];
    int n_read = 0;
    for (size_t i = 0; i < sizeof base - 1; i++) {
        yoke_status status = yokei_cluster_parse("x.yaml", base, i, &other);
        if (status && status != YOKE_ECONFIG) fail_msg("cut at %zu: %s", i, yoke_last_error());
        memcpy(text, base, sizeof base);
        text[i] = bytes[i % sizeof bytes];
        status = yokei_cluster_parse("x.yaml", text, sizeof base - 1, &other);
        if (status && status != YOKE_ECONFIG) fail_msg("byte %zu: %s", i, yoke_last_error());
        n_read += !status;
    }
    assert_in_range(n_read, 1, sizeof base / 2);
}

static void refuse_text(const char *text, size_t bytes, const char *words)
{
    assert_fails(YOKE_ECONFIG, words, yokei_cluster_parse("x.yaml", text, bytes, &other));
}

static void hostile_files(void **state)
{
    (void)state;
    enum { MANY = 1 << 19 };
    char *text = malloc(MANY + 1);
    size_t n = 0;
    assert_non_null(text);
    /* Each line doubles what the line before it says. */
    n = (size_t)snprintf(text, MANY, "a: &a [1, 1]\n");
    for (int i = 'b'; i < 'z'; i++)
        n += (size_t)snprintf(text + n, MANY - n, "%c: &%c [*%c, *%c]\n", i, i, i - 1, i - 1);
    refuse_text(text, n, "x.yaml:1:4: an anchor");
    memset(text, '[', MANY);
    refuse_text(text, MANY, "expected 'key: value' lines");
    memset(text, '{', MANY);
    refuse_text(text, MANY, "a key must be a word");
    memset(text, 'k', MANY);
    refuse_text(text, MANY, "x.yaml:1:1: ");
    memcpy(text, "? ", 2);
    refuse_text(text, MANY, "keys have at most 200");
    n = 0;
    for (int i = 0; n + 16 < MANY; i++) n += (size_t)snprintf(text + n, MANY - n, "k%d: 1\n", i);
    refuse_text(text, n, "more than 1024 keys");
    n = (size_t)snprintf(text, MANY, "devices: [");
    while (n + 2 < MANY) text[n++] = '1', text[n++] = ',';
    refuse_text(text, n, "more than 16384 values");
    refuse_text("", 0, "the file is empty");
    refuse_text("# nothing\n", 10, "the file is empty");
    refuse_text("\xff\xfe\xfd", 3, "x.yaml:1:");
    refuse_text("a: 1\nb: \xe4\n", 10, "x.yaml:2:4: not readable as YAML");
    refuse_text("\x7f"
                "ELF\2\1\1\0\0",
                9, "x.yaml:1:");
    free(text);

    assert_fails(YOKE_ECONFIG, "none.yaml", yokei_cluster_read(in_folder("none.yaml"), &other));
    assert_fails(YOKE_ECONFIG, test_folder, yokei_cluster_read(test_folder, &other));
    assert_ok(yokei_file_write(in_folder("huge.yaml"), base, strlen(base)));
    assert_int_equal(truncate(in_folder("huge.yaml"), 1 << 30), 0);
    assert_fails(YOKE_ECONFIG, "huge.yaml", yokei_cluster_read(in_folder("huge.yaml"), &other));
}

/* ---- written files ---- */

static void same_bits_when_written(const struct yokei_cluster *c)
{
    char *text;
    assert_ok(yokei_cluster_text(c, &text));
    memset(&other, 7, sizeof other);
    if (parse(text, &other)) fail_msg("%s\n%s", yoke_last_error(), text);
    if (memcmp(c, &other, sizeof other)) fail_msg("another cluster is read from\n%s", text);
    free(text);
}

static uint64_t n_draws;
static double draw(double least, double most)
{
    return least + (most - least) * yokei_uniform(yokei_philox_named(1, "clusters"), n_draws++);
}
static int draw_int(int least, int most) { return (int)draw(least, most + 0.999999); }
static double draw_size(double least, double most) { return exp(draw(log(least), log(most))); }

static void draw_speed(struct yokei_speed *s, bool computes)
{
    s->n_points = computes ? draw_int(1, YOKEI_MOST_POINTS) : draw_int(0, 1);
    for (int i = 0; i < s->n_points; i++) {
        s->point[i].rate = (i ? s->point[i - 1].rate : 1e10) * draw(1, 3);
        s->point[i].work = i ? s->point[i - 1].work * draw(1.1, 9) + 1 : draw_int(0, 1) * draw(0, 1e6);
    }
    s->bytes_per_second = draw_int(0, 3) ? draw_size(1e9, 1e13) : 0;
    s->seconds = draw_int(0, 3) ? draw_size(1e-8, 1e-3) : 0;
}

static void draw_cluster(struct yokei_cluster *c)
{
    memset(c, 0, sizeof *c);
    memset(c->between, 0xff, sizeof c->between);
    c->n_kinds = draw_int(1, YOKEI_MOST_KINDS), c->n_links = draw_int(1, YOKEI_MOST_LINKS),
    c->n_hosts = draw_int(1, 9);
    yokei_text(c->name, sizeof c->name, "%s", draw_int(0, 1) ? "a: {name} # of - all 'kinds'" : "");
    for (int i = 0; i < c->n_kinds; i++) {
        struct yokei_device_kind *k = &c->kind[i];
        yokei_text(k->name, sizeof k->name, "Kind_%d.x-y", i);
        yokei_text(k->device, sizeof k->device, "%s", draw_int(0, 1) ? "cuda:12" : "");
        k->memory = (uint64_t)draw_size(1 << 28, 1e13);
        k->price = draw_int(0, 1) * draw(0, 50);
        const int must = draw_int(0, YOKEI_N_SPEED_TYPES - 1);
        for (int t = 0; t < YOKEI_N_SPEED_TYPES; t++) {
            if (t != must && draw_int(0, 1)) continue;
            for (int class = 0; class < YOKEI_N_CLASSES; class ++)
                draw_speed(&k->speed[t][class], class == YOKEI_CLASS_GEMM);
            const struct yokei_speed *gemm = &k->speed[t][YOKEI_CLASS_GEMM];
            k->peak[t] = draw_int(0, 1) * gemm->point[gemm->n_points - 1].rate * draw(1, 2);
        }
    }
    for (int i = 0; i < c->n_links; i++) {
        yokei_text(c->link[i].name, sizeof c->link[i].name, "link%d", i);
        c->link[i].bytes_per_second = draw_size(1e6, 1e13), c->link[i].seconds = draw(0, 1e-4),
        c->link[i].wait = i % 2 ? draw(0, 1e-3) : 0;
    }
    for (int i = 0; i < c->n_hosts; i++) {
        struct yokei_cluster_host *h = &c->host[i];
        yokei_text(h->name, sizeof h->name, "host-%d", i);
        h->n = draw_int(1, 3), h->n_lists = draw_int(1, YOKEI_MOST_DEVICE_LISTS), h->n_links = draw_int(1, 9);
        h->inner = h->n_lists > 1 ? draw_int(0, c->n_links - 1) : -1;
        h->price = draw_int(0, 1) * draw(0, 9);
        for (int l = 0; l < h->n_lists; l++) {
            struct yokei_host_devices *d = &h->devices[l];
            d->kind = draw_int(0, c->n_kinds - 1), d->n = draw_int(1, 8);
            d->link = d->n > 1 ? draw_int(0, c->n_links - 1) : -1;
        }
        for (int j = 0; j <= i; j++)
            if (i != j || h->n > 1) c->between[i][j] = c->between[j][i] = draw_int(0, c->n_links - 1);
    }
}

static void written(void **state)
{
    (void)state;
    assert_ok(parse(base, &cluster));
    same_bits_when_written(&cluster);
    for (int i = 0; i < 100; i++) {
        draw_cluster(&cluster);
        same_bits_when_written(&cluster);
    }
    assert_ok(yokei_cluster_write(in_folder("written.yaml"), &cluster));
    assert_ok(yokei_cluster_read(in_folder("written.yaml"), &other));
    assert_memory_equal(&cluster, &other, sizeof other);
    /* Clusters that a file cannot say are not written. */
    cluster.kind[0].memory = 1 << 27;
    char *text;
    assert_fails(YOKE_ECONFIG, "must be from 256MiB", yokei_cluster_text(&cluster, &text));
    draw_cluster(&cluster);
    yokei_text(cluster.kind[0].name, sizeof cluster.kind[0].name, "%s", "a: 1\nlinks");
    assert_true(yokei_cluster_text(&cluster, &text) == YOKE_ECONFIG);
}

/* The files that users begin with. */
static void examples(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int n_devices, n_kinds;
    } files[] = {
        { "mixed-32", 32, 2 }, { "a100-256", 256, 1 }, { "workstations", 12, 3 }, { "mixed-1024", 1024, 2 }
    };
    const char *top = getenv("top_srcdir");
    char path[400];
    for (size_t i = 0; i < YOKE_COUNT(files); i++) {
        yokei_text(path, sizeof path, "%s/examples/clusters/%s.yaml", top ? top : "..", files[i].name);
        assert_ok(yokei_cluster_read(path, &cluster));
        assert_int_equal(cluster.n_kinds, files[i].n_kinds);
        assert_int_equal(yokei_cluster_devices(&cluster, -1), files[i].n_devices);
        for (int k = 0; k < cluster.n_kinds; k++) /* sustained rates are a part of the published ones */
            for (int t = 0; t < YOKEI_N_SPEED_TYPES; t++) {
                const struct yokei_speed *s = &cluster.kind[k].speed[t][YOKEI_CLASS_GEMM];
                if (s->n_points) assert_true(s->point[s->n_points - 1].rate < cluster.kind[k].peak[t]);
            }
        same_bits_when_written(&cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_file),    cmocka_unit_test(bad_files), cmocka_unit_test(damaged_files),
        cmocka_unit_test(hostile_files), cmocka_unit_test(written),   cmocka_unit_test(examples),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}

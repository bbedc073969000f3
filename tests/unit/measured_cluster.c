/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster from measurements: times are planted for the ops of ranks, and the test checks which ranks are of
 * one kind, what a kind can do, how hosts are merged, which links are measured, and that the result is a
 * cluster file.
 */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/search/measured.h"

enum { MOST = 64, N_OPS = 9 };

/* Ops of a device that computes `speed` times 100 GFLOP/s and moves `speed` times 10 GB/s. */
static const struct {
    const char *op;
    double flops, bytes;
} ops[N_OPS] = {
    { "gemm", 1e8, 1e5 },
    { "gemm", 1e9, 1e6 },
    { "attention_forward", 1e8, 1e5 },
    { "adamw", 1e6, 1e7 },
    { "adamw", 1e7, 1e8 },
    { "gelu_forward", 1e5, 1e6 },
    { "gelu_backward", 1e6, 1e7 },
    { "layernorm_forward", 1e6, 4e6 },
    { "add", 1e5, 4e7 },
};
static struct yokei_measured_rank ranks[MOST];
static struct yokei_op_time times[MOST * N_OPS];
static struct yokei_measured_place place[MOST];
static struct yokei_cluster cluster;
static struct yokei_measured measured = { .rank = ranks, .op = times, .n_ops = N_OPS, .tolerance = 0.15 };
static double tolerance;

static void plant(int r, const char *device, int host, double speed)
{
    ranks[r] = (struct yokei_measured_rank){
        .host = host, .threads = 1, .pool = 1000 + (uint64_t)host, .memory = UINT64_C(8) << 30, .slowdown = 1
    };
    yokei_text(ranks[r].device, sizeof ranks[r].device, "%s", device);
    yokei_text(ranks[r].name, sizeof ranks[r].name, "a %.3s", device);
    yokei_text(ranks[r].host_name, sizeof ranks[r].host_name, "node%d.example.org", host);
    if (strncmp(device, "host", 4) != 0) ranks[r].pool = yokei_hash(device, strlen(device), ranks[r].pool);
    for (int i = 0; i < N_OPS; i++) {
        struct yokei_op_time *t = &times[r * N_OPS + i];
        *t = (struct yokei_op_time){ .flops = ops[i].flops, .bytes = ops[i].bytes };
        yokei_text(t->op, sizeof t->op, "%s", ops[i].op);
        yokei_text(t->dtype, sizeof t->dtype, "f32");
        t->seconds = YOKE_MAX(ops[i].flops / 100e9, ops[i].bytes / 10e9) / speed;
    }
}

static void make(int n_ranks)
{
    measured.n_ranks = n_ranks;
    memset(&cluster, 0xee, sizeof cluster);
    assert_int_equal(yokei_measured_cluster(&measured, &cluster, place, &tolerance), YOKE_OK);
}

/* The links get rates, and the cluster is written and read back. */
static void check_file(void)
{
    static struct yokei_cluster again;
    struct yokei_measured_link links[YOKEI_MOST_LINKS];
    char *text;
    yokei_measured_links(&cluster, links);
    for (int l = 0; l < cluster.n_links; l++)
        cluster.link[l].bytes_per_second = 1e9, cluster.link[l].seconds = 1e-6;
    assert_int_equal(yokei_cluster_text(&cluster, &text), YOKE_OK);
    assert_int_equal(yokei_cluster_parse("it", text, strlen(text), &again), YOKE_OK);
    assert_int_equal(again.n_kinds, cluster.n_kinds);
    for (int k = 0; k < again.n_kinds; k++) {
        assert_string_equal(again.kind[k].device, cluster.kind[k].device);
        assert_int_equal(again.kind[k].sharers, cluster.kind[k].sharers);
    }
    free(text);
}

/* Two alike ranks and one that takes twice as long. */
static void slow_rank(void **state)
{
    (void)state;
    plant(0, "host", 0, 1);
    plant(1, "host", 0, 0.5);
    plant(2, "host", 0, 0.95);
    make(3);
    assert_int_equal(cluster.n_kinds, 2);
    assert_int_equal(place[0].kind, 0);
    assert_int_equal(place[1].kind, 1);
    assert_int_equal(place[2].kind, 0);
    assert_string_equal(cluster.kind[0].name, "host");
    assert_string_equal(cluster.kind[1].name, "host-2");
    assert_true(place[1].time > 1.99 && place[1].time < 2.01);
    assert_int_equal(cluster.kind[0].memory, (UINT64_C(8) << 30) / 3 >> 20 << 20);
    assert_int_equal(cluster.host[0].n_lists, 2);
    assert_int_equal(cluster.host[0].devices[0].n, 2);
    assert_int_equal(cluster.host[0].devices[1].n, 1);
    const struct yokei_speed *fast = cluster.kind[0].speed[YOKEI_SPEED_F32],
                             *slow = cluster.kind[1].speed[YOKEI_SPEED_F32];
    /* of two ranks the median is the mean: 1 / ((1 + 1 / 0.95) / 2) of the planted speed */
    assert_true(fast[YOKEI_CLASS_GEMM].point[0].rate > 97e9 && fast[YOKEI_CLASS_GEMM].point[0].rate < 98e9);
    assert_true(slow[YOKEI_CLASS_GEMM].point[0].rate > 49.9e9
                && slow[YOKEI_CLASS_GEMM].point[0].rate < 50.1e9);
    assert_true(slow[YOKEI_CLASS_OTHER].bytes_per_second > 4.99e9
                && slow[YOKEI_CLASS_OTHER].bytes_per_second < 5.01e9);
    assert_int_equal(yokei_op_seconds(&slow[YOKEI_CLASS_GEMM], 1e9, 1e6) * 1e6 + 0.5, 20000);
    check_file();
    assert_int_equal(cluster.n_links, 2);
    assert_string_equal(cluster.link[0].name, "among-host");
    assert_string_equal(cluster.link[1].name, "inside");
}

/* Without the second rank's pauses, its ops are as fast. An op longer than a pause has the pauses already. */
static void pauses(void **state)
{
    (void)state;
    plant(0, "host", 0, 1);
    plant(1, "host", 0, 1);
    ranks[1].slowdown = 2.5;
    times[N_OPS].seconds = 0.025;
    make(2);
    assert_int_equal(cluster.n_kinds, 2);
    assert_true(place[1].time > 2.49 && place[1].time < 2.51);
    assert_true(yokei_measured_seconds(&ranks[1], &times[N_OPS]) == 0.025);
    assert_true(yokei_measured_seconds(&ranks[1], &times[N_OPS + 1]) == 2.5 * times[N_OPS + 1].seconds);
}

static double seconds_of(int class, double flops, double bytes)
{
    return yokei_op_seconds(&cluster.kind[0].speed[YOKEI_SPEED_F32][class], flops, bytes);
}

static void assert_close(double value, double wanted)
{
    assert_true(value > 0.999999 * wanted && value < 1.000001 * wanted);
}

/*
 * Ops of training steps replace smaller and alike ops that were repeated alone. They already have pauses.
 * All ops of a class in the steps take their measured time together, although the rates of alike products
 * are medians. Larger ops that were repeated alone remain.
 */
static void training_steps(void **state)
{
    (void)state;
    plant(0, "host", 0, 1);
    ranks[0].slowdown = 3;
    times[0].seconds *= 2.0, times[0].count = 10; /* of 1e8 FLOPs, where a product of 1e9 FLOPs remains */
    times[2].seconds *= 1.5, times[2].count = 10;
    times[6].seconds *= 4.0, times[6].count = 10; /* gelu_backward replaces gelu_forward and the norm */
    assert_true(yokei_measured_seconds(&ranks[0], &times[0]) == times[0].seconds);
    ranks[0].slowdown = 1;
    make(1);
    assert_close(seconds_of(YOKEI_CLASS_GEMM, 1e8, 1e5), 2e-3);
    assert_close(seconds_of(YOKEI_CLASS_GEMM, 1e9, 1e6), 1e-2);
    assert_close(seconds_of(YOKEI_CLASS_ATTENTION, 1e8, 1e5), 1.5e-3);
    assert_close(seconds_of(YOKEI_CLASS_OTHER, 1e6, 1e7), 4e-3);
    /* two sizes of one group: their median is wrong for both, and their sum is right */
    times[1] = times[0], times[1].flops = 1.5e8, times[1].seconds = 4e-3, times[1].count = 30;
    make(1);
    assert_close(10 * seconds_of(YOKEI_CLASS_GEMM, 1e8, 1e5) + 30 * seconds_of(YOKEI_CLASS_GEMM, 1.5e8, 1e5),
                 10 * 2e-3 + 30 * 4e-3);
}

/* The tolerance is a limit on both sides, and it is raised if there would be too many kinds. */
static void tolerances(void **state)
{
    (void)state;
    plant(0, "host", 0, 1);
    plant(1, "host", 0, 1 / 1.14);
    plant(2, "host", 0, 1 / 1.16);
    make(3);
    assert_int_equal(cluster.n_kinds, 2);
    assert_int_equal(place[1].kind, 0);
    assert_int_equal(place[2].kind, 1);
    assert_true(tolerance == 0.15);
    double speed = 1;
    for (int r = 0; r < 12; r++, speed /= 1.5) plant(r, "host", 0, speed);
    make(12);
    assert_true(cluster.n_kinds <= YOKEI_MOST_DEVICE_LISTS);
    assert_true(tolerance > 0.5);
    check_file();
}

/* Ranks that share a device share its memory, and yoke plan -o can name the devices. */
static void shared_devices(void **state)
{
    (void)state;
    for (int r = 0; r < 4; r++) plant(r, r < 2 ? "opencl:0" : "opencl:1", 0, 1);
    make(4);
    assert_int_equal(cluster.n_kinds, 1);
    assert_string_equal(cluster.kind[0].device, "opencl:0");
    assert_int_equal(cluster.kind[0].sharers, 2);
    assert_int_equal(cluster.kind[0].memory, UINT64_C(4) << 30);
    check_file();
    plant(1, "opencl:2", 0, 1); /* a cluster file cannot say this */
    make(4);
    assert_string_equal(cluster.kind[0].device, "");
    plant(0, "host", 0, 1);
    plant(1, "opencl:0", 0, 1);
    make(2);
    assert_int_equal(cluster.n_kinds, 2);
    assert_int_equal(cluster.kind[1].sharers, 0);
    assert_int_equal(cluster.kind[1].memory, UINT64_C(8) << 30);
}

/* Hosts with the same devices are one entry, whose copies have a link between them. */
static void hosts(void **state)
{
    (void)state;
    struct yokei_measured_link links[YOKEI_MOST_LINKS];
    for (int r = 0; r < 6; r++) plant(r, "host", r / 2, 1);
    plant(6, "host", 3, 0.3);
    make(7);
    assert_int_equal(cluster.n_hosts, 2);
    assert_int_equal(cluster.host[0].n, 3);
    assert_int_equal(cluster.host[1].n, 1);
    assert_string_equal(cluster.host[0].name, "node0");
    assert_string_equal(cluster.host[1].name, "node3");
    assert_int_equal(place[6].entry, 1);
    check_file();
    yokei_measured_links(&cluster, links);
    assert_int_equal(cluster.n_links, 3); /* among-host, network-1-1, network-1-2 */
    assert_int_equal(links[0].path, YOKEI_IN_LIST);
    assert_true(links[1].path == YOKEI_BETWEEN_HOSTS && links[1].a == 0 && links[1].b == 0);
    assert_true(links[2].path == YOKEI_BETWEEN_HOSTS && links[2].a == 0 && links[2].b == 1);
    for (int r = 0; r < 40; r++) plant(r, "host", r < 1 ? 0 : r < 3 ? 1 : r < 6 ? 2 : r < 10 ? 3 : 4, 1);
    make(40);
    assert_int_equal(cluster.n_hosts, 5);
    check_file();
    assert_int_equal(cluster.n_links, 2); /* among-host, network */
}

/* Kinds whose products have no time, or whose memory is too small for a file, are refused. */
static void refusals(void **state)
{
    (void)state;
    char *text;
    plant(0, "host", 0, 1);
    for (int i = 0; i < 2; i++) times[i].seconds = 0;
    measured.n_ranks = 1;
    assert_int_equal(yokei_measured_cluster(&measured, &cluster, place, &tolerance), YOKE_ECONFIG);
    plant(0, "host", 0, 1);
    ranks[0].memory = 100 << 20;
    make(1);
    assert_int_equal(yokei_cluster_text(&cluster, &text), YOKE_ECONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_rank),      cmocka_unit_test(pauses), cmocka_unit_test(tolerances),
        cmocka_unit_test(shared_devices), cmocka_unit_test(hosts),  cmocka_unit_test(refusals),
        cmocka_unit_test(training_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

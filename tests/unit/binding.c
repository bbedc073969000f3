/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cores belong to which rank, on machines that hwloc reads from a file or from a description: so no
 * machine with two sockets and eight GPUs is needed. argv[1] is the folder with two_sockets.xml, a machine
 * with two sockets, 8 cores of one unit and 4 GPUs each. NVIDIA's GPUs have the buses 01 to 04, AMD's 41 to
 * 44, the first two of either on socket 0.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/binding.h"
#include "tests/unit/test.h"

static char file[4096];

static void machine(const char *synthetic)
{
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_XMLFILE");
    setenv(synthetic ? "HWLOC_SYNTHETIC" : "HWLOC_XMLFILE", synthetic ? synthetic : file, 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
}

/* "0000:01:00.0 - gpu": a GPU with an address, a rank on cores, a GPU without an address. */
static int read_ranks(const char *text, struct yokei_place *ranks)
{
    int n = 0;
    char copy[1024], *save = NULL;
    yokei_text(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        struct yokei_place *p = &ranks[n++];
        *p = (struct yokei_place){ .is_gpu = strcmp(word, "-") != 0 };
        if (strchr(word, ':')) yokei_text(p->pci, sizeof p->pci, "%s", word);
    }
    return n;
}

/* The units of each rank and, behind @, its node. "equal" stands in front if places decided nothing. */
static const char *shares_of(const char *text)
{
    static char out[4096];
    struct yokei_place ranks[32];
    struct yokei_binding made[32];
    const int n = read_ranks(text, ranks);
    bool placed;
    assert_int_equal(YOKE_OK, yokei_bindings(ranks, n, made, &placed));
    yokei_text(out, sizeof out, "%s", placed ? "" : "equal ");
    for (int r = 0; r < n; r++) {
        char units[256], node[16] = "";
        const size_t used = strlen(out);
        yokei_units_text(made[r].units, units, sizeof units);
        if (made[r].node >= 0) yokei_text(node, sizeof node, "@%d", made[r].node);
        yokei_text(out + used, sizeof out - used, "%s%s%s", r ? " " : "", units, node);
    }
    return out;
}

#define GPU(bus) "0000:" bus ":00.0"

static void eight_gpus_of_two_sockets(void **state)
{
    (void)state;
    machine(NULL);
    assert_string_equal("0-1@0 2-3@0 8-9@1 10-11@1 4-5@0 6-7@0 12-13@1 14-15@1",
                        shares_of(GPU("01") " " GPU("02") " " GPU("03") " " GPU("04") " " GPU("41") " " GPU(
                            "42") " " GPU("43") " " GPU("44")));
    /* the order of the ranks, and not that of the buses, gives the shares of a socket */
    assert_string_equal("8-11@1 0-3@0 12-15@1 4-7@0",
                        shares_of(GPU("44") " " GPU("42") " " GPU("03") " " GPU("01")));
    assert_string_equal("8-15@1", shares_of(GPU("43")));
    /* two ranks on one GPU */
    assert_string_equal("0-3@0 4-7@0", shares_of(GPU("01") " " GPU("01")));
}

static void ranks_on_cores_get_the_rest(void **state)
{
    (void)state;
    machine(NULL);
    assert_string_equal("2-15 0-1@0", shares_of("- " GPU("01")));
    assert_string_equal("0-1@0 8-9@1 2-7,10-15", shares_of(GPU("01") " " GPU("03") " -"));
    assert_string_equal("0-1@0 2-7 8-9@1 10-15", shares_of(GPU("02") " - " GPU("44") " -"));
    /* a GPU without an address gets cores that are nobody's */
    assert_string_equal("0-7@0 8-15", shares_of(GPU("01") " gpu"));
    assert_string_equal("0-1@0 2-3 4-15", shares_of(GPU("01") " gpu -"));
    /* an address that this machine does not have */
    assert_string_equal("0-1 2-15", shares_of(GPU("77") " -"));
}

static void equal_shares(void **state)
{
    (void)state;
    machine(NULL);
    assert_string_equal("equal 0-7 8-15", shares_of("- -"));
    assert_string_equal("equal 0-7 8-15", shares_of("gpu gpu"));
    /* more GPUs on socket 0 than it has cores */
    assert_string_equal("equal 0 1 2-3 4 5-6 7 8-9 10 11-12 13 14-15",
                        shares_of(GPU("01") " " GPU("01") " " GPU("01") " " GPU("02") " " GPU("02") " " GPU(
                            "02") " " GPU("41") " " GPU("41") " " GPU("42") " " GPU("42") " -"));
    machine("pack:1 core:2 pu:1"); /* as many ranks as cores */
    assert_string_equal("equal 0 1", shares_of("gpu -"));
    machine("pack:1 core:4 pu:2"); /* hwloc numbers the units of a core one after the other here */
    assert_string_equal("0-3 4-7", shares_of("gpu -"));
    assert_string_equal("0-1 2-3 4-7", shares_of("gpu gpu -"));
}

static void texts(void **state)
{
    (void)state;
    uint64_t units[YOKEI_UNIT_WORDS];
    char text[256];
    const char *const good[] = { "0", "0-3,8", "63-64,1023" }, *const bad[] = { "x", "3-1", "1024", "1-",
                                                                                "1;2" };
    for (size_t i = 0; i < YOKE_COUNT(good); i++) {
        assert_true(yokei_units_read(good[i], units));
        yokei_units_text(units, text, sizeof text);
        assert_string_equal(good[i], text);
    }
    for (size_t i = 0; i < YOKE_COUNT(bad); i++) assert_false(yokei_units_read(bad[i], units));
    struct yokei_place place;
    yokei_place_of("gpu sm_90 warp=32 pci=0000:17:00.0", &place);
    assert_true(place.is_gpu);
    assert_string_equal("0000:17:00.0", place.pci);
    yokei_place_of("cpu svm-fine no-fp16", &place);
    assert_false(place.is_gpu);
    unsetenv("HWLOC_XMLFILE");
    yokei_place_of("gpu sm_90 emulated pci=0000:01:00.0", &place);
    assert_false(place.is_gpu || place.pci[0]);
    machine(NULL);
    yokei_place_of("gpu sm_90 emulated pci=0000:01:00.0", &place);
    assert_true(place.is_gpu && !strcmp(place.pci, "0000:01:00.0"));
    assert_true(yokei_has_places());
    machine("pack:1 core:2 pu:1");
    assert_false(yokei_has_places());
}

/* On the machine itself: what is bound is a part of what was allowed. */
static void bind_this_process(void **state)
{
    (void)state;
    uint64_t before[YOKEI_UNIT_WORDS], after[YOKEI_UNIT_WORDS];
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_THISSYSTEM");
    assert_int_equal(YOKE_OK, yokei_bound_units(before));
    struct yokei_place ranks[2] = { { .is_gpu = false }, { .is_gpu = false } };
    struct yokei_binding made[2];
    bool placed = true;
    assert_int_equal(YOKE_OK, yokei_bindings(ranks, 2, made, &placed));
    assert_false(placed);
    made[1].node = 0; /* every Linux has node 0 */
    assert_int_equal(YOKE_OK, yokei_bind_as(&made[1]));
    assert_int_equal(YOKE_OK, yokei_bound_units(after));
    assert_memory_equal(after, made[1].units, sizeof after);
    for (int w = 0; w < YOKEI_UNIT_WORDS; w++) assert_int_equal(0, after[w] & ~before[w]);
}

int main(int argc, char **argv)
{
    yokei_text(file, sizeof file, "%s/two_sockets.xml", argc > 1 ? argv[1] : "tests/unit");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_gpus_of_two_sockets),
        cmocka_unit_test(ranks_on_cores_get_the_rest),
        cmocka_unit_test(equal_shares),
        cmocka_unit_test(texts),
        cmocka_unit_test(bind_this_process),
    };
    return cmocka_run_group_tests_name("binding", tests, NULL, NULL);
}

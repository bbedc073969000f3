/* SPDX-License-Identifier: Apache-2.0 */
/** What yoke info measures and tests. info.c prints it. */
#ifndef CLI_DEVICES_INFO_H
#define CLI_DEVICES_INFO_H

#include <yoke/yoke.h>

#define CLI_N_SPEED_TYPES 3 /* f32, bf16, f16 */
extern const yoke_dtype cli_speed_types[CLI_N_SPEED_TYPES];

/** Speeds of one device, measured in a child process. */
struct cli_speed {
    double copy; /* bytes per second within the device, read and written bytes together; 0: not measured */
    double to_device, to_host; /* bytes per second */
    /* operations per second, the best of the sizes tried; 0: `reason` says why */
    double gemm[CLI_N_SPEED_TYPES];
    int64_t gemm_size[CLI_N_SPEED_TYPES]; /* M = N = K of the best product */
    char reason[CLI_N_SPEED_TYPES][160];
    char error[256]; /* why nothing was measured */
};
void cli_measure_device(const char *spec, struct cli_speed *out);
/**
 * Which tuning file applies to a device, in words and for scripts. A tuning file chooses among the
 * implementations of operations. A child process finds out which file applies, and which library multiplies
 * matrices.
 */
struct cli_choices {
    char text[1400]; /* "shipped /…/opencl-cpu.tune, 12 lines" */
    char kind[16];   /* rules, given, user, shipped */
    char file[1024], made[256];
    int n_choices, n_skipped;
    bool other_variants;
    char products[1400]; /* the library of matrix products, or why there is none; "": no line about it */
    char sensors[80];    /* clock and temperature; "": unknown */
    char error[256];
};
void cli_choices_of(const char *spec, struct cli_choices *out);

/** The name of the operating system: PRETTY_NAME of /etc/os-release; "": there is none. In verify_json.c. */
void cli_system_name(char *out, size_t bytes);

/** Versions of the libraries that Yoke uses, in words. A library that was not found is listed too. */
struct cli_library {
    char name[24];
    char version[160];
};
int cli_libraries(struct cli_library *out, int capacity);

enum cli_finding { CLI_PASS, CLI_WARN, CLI_FAIL, CLI_SKIP };
/** The result of one test of the machine. */
struct cli_check {
    const char *name;
    enum cli_finding finding;
    yoke_status status; /* the status that gives the exit code if the test failed */
    char text[320];     /* what was found */
    char fix[320];      /* what to do; "" if the test passed */
};
/** Run all tests. Returns their number. */
int cli_check_machine(const struct yoke_backend_report *reports, int n_reports, struct cli_check *out,
                      int capacity);

#endif

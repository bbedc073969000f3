/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The choice of --devices auto: which devices of this host get a rank. Each physical device counts once. GPUs
 * are taken. The host's processor is taken where it helps, by speeds that are measured with a few layers of
 * the job's model.
 */
#ifndef CLI_LAUNCH_AUTO_H
#define CLI_LAUNCH_AUTO_H

#include <yoke/device.h>

enum { CLI_AUTO_REPORTS = 8, CLI_AUTO_DEVICES = 64 };

/** A device, and what was decided. */
struct cli_auto_device {
    struct yoke_device_info info;
    bool is_taken;
    double speed;  /* sequences per second, alone on the host; 0: not measured */
    char why[512]; /* why it was taken or left out, with the numbers */
};

/** What the choice has to know of the job. */
struct cli_auto_job {
    /* why the job cannot give less work to a slow device; NULL: it divides its batch by speed */
    const char *not_divided;
    int64_t batch; /* sequences of a step, of all ranks together */
};

/**
 * Measurements, as functions, so that a test can replace them. False: the device cannot do the work, and
 * `why` says why. `together` measures two devices of the processor at the same time, each on its half of the
 * cores.
 */
struct cli_auto_measure {
    void *context;
    bool (*alone)(void *context, const char *spec, double *speed_out, char *why, size_t bytes);
    bool (*together)(void *context, const char *const specs[2], double speeds_out[2], char *why,
                     size_t bytes);
};

/**
 * Decide. Writes one entry for each device but those of the backends for tests, and returns their number.
 * Devices that are taken come first, in the order of the ranks.
 *  - A GPU is taken, unless another backend's device with the same PCI address is, in the order cuda, hip,
 *    opencl. An OpenCL GPU whose driver tells no address counts as the same as one of the same name.
 *    CUDA_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES hold for the vendor's OpenCL devices too.
 *  - Beside GPUs, host is taken if the job divides its batch by speed, and a step gets at least a quarter of
 *    the speed-up that the speed of host promises, with whole sequences. This is the rule by which balance
 *    leaves out replicas. OpenCL devices of the processor are left out.
 *  - Without GPUs, the fastest device of the processor is taken. Host and the fastest OpenCL device of the
 *    processor, each on half of the cores, are taken in its place if together they are 5 % faster.
 *  - Emulated devices are not measured. Beside them host is left out.
 */
int cli_auto_choose(const struct yoke_backend_report *reports, int n_reports, const struct cli_auto_job *job,
                    const struct cli_auto_measure *measure, struct cli_auto_device *out);
/** Leave out the slowest of the devices that are taken, until there are n_ranks. */
void cli_auto_limit(struct cli_auto_device *devices, int n, int n_ranks);
int cli_auto_count(const struct cli_auto_device *devices, int n);
/** The specs of the devices that are taken, or of those that are not, separated by commas. */
void cli_auto_list(const struct cli_auto_device *devices, int n, bool taken, char *text, size_t bytes);
/** YOKE_ENODEV, with the reason of each device and each backend. */
yoke_status cli_auto_nothing(const struct yoke_backend_report *reports, int n_reports,
                             const struct cli_auto_device *devices, int n);

#endif

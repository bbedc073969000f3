/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the variables of the environment that say what the stand-in driver shows. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "emulate/cuda/driver.h"

struct settings emulate_settings;
static uint64_t counts[N_FAILURES];

static const char *const failure_names[N_FAILURES] = {
    "out-of-memory",   "illegal-address",    "launch-timeout",  "ecc",
    "device-lost",     "device-busy",        "no-lock",         "no-register",
    "cublaslt-create", "cublaslt-heuristic", "cublaslt-matmul", "value-operation"
};

static bool refuse(const char *variable, const char *value, const char *wanted)
{
    dprintf(STDERR_FILENO, "yoke: the stand-in CUDA driver cannot read %s=%s. The value must be %s.\n",
            variable, value, wanted);
    return false;
}

/* A whole number with no sign, from `least` to `most`, with nothing behind it but `suffix`. */
static bool read_number(const char *text, uint64_t least, uint64_t most, const char **end, uint64_t *out)
{
    if (*text < '0' || *text > '9') return false;
    char *after;
    errno = 0;
    const unsigned long long value = strtoull(text, &after, 10);
    if (errno || value < least || value > most) return false;
    *end = after;
    *out = value;
    return true;
}

/* Read a variable that is a number; `out` keeps its value where the variable is not set. */
static bool read_variable(const char *variable, uint64_t least, uint64_t most, const char *wanted,
                          uint64_t *out)
{
    const char *text = getenv(variable), *end;
    if (!text || !*text) return true;
    return (read_number(text, least, most, &end, out) && !*end) || refuse(variable, text, wanted);
}

/* "9.0" is 90. */
static bool read_version(const char *text, int *out)
{
    uint64_t major, minor;
    const char *end;
    if (!read_number(text, 1, 99, &end, &major) || *end != '.') return false;
    if (!read_number(end + 1, 0, 9, &end, &minor) || *end) return false;
    *out = (int)(major * 10 + minor);
    return true;
}

static bool read_memory(uint64_t *out)
{
    const char *text = getenv("YOKE_EMULATE_MEMORY"), *end;
    if (!text || !*text) return true;
    static const char letters[] = "KMGT";
    uint64_t value;
    if (read_number(text, 1, 1ull << 44, &end, &value)) {
        const char *letter = *end ? strchr(letters, *end) : NULL;
        if (letter && !end[1]) {
            const int shift = 10 * (int)(letter - letters + 1);
            if (value <= (1ull << 44) >> shift) value <<= shift, end++;
        }
        if (!*end && value >= 1ull << 20 && value <= 1ull << 40) {
            *out = value;
            return true;
        }
    }
    return refuse("YOKE_EMULATE_MEMORY", text, "bytes from 1M to 1T, such as 4G or 512M");
}

static bool read_failures(void)
{
    const char *text = getenv("YOKE_EMULATE_FAIL");
    if (!text || !*text) return true;
    for (const char *at = text;;) {
        int kind = 0;
        size_t length = 0;
        for (; kind < N_FAILURES; kind++) {
            length = strlen(failure_names[kind]);
            if (!strncmp(at, failure_names[kind], length) && at[length] == '@') break;
        }
        uint64_t n;
        if (kind == N_FAILURES || !read_number(at + length + 1, 1, UINT64_MAX / 2, &at, &n)) break;
        emulate_settings.fail_at[kind] = n;
        if (!*at) return true;
        if (*at++ != ',') break;
    }
    return refuse(
        "YOKE_EMULATE_FAIL", text,
        "WHAT@N[,WHAT@N...], where WHAT is out-of-memory, illegal-address, launch-timeout, ecc, "
        "device-lost, device-busy, no-lock, no-register, cublaslt-create, cublaslt-heuristic, cublaslt-matmul or "
        "value-operation, and N counts from 1");
}

static bool read_bias(int *out)
{
    static const char *const words[] = { "refused", "once", "twice", "short" };
    const char *text = getenv("YOKE_EMULATE_BIAS");
    if (!text || !*text) return true;
    for (int i = 0; i < 4; i++) {
        *out = i;
        if (!strcmp(text, words[i])) return true;
    }
    return refuse("YOKE_EMULATE_BIAS", text, "refused, once, twice or short");
}

/* As NVIDIA's driver: devices in this order, up to the first one that does not exist. */
static void read_visible(void)
{
    struct settings *s = &emulate_settings;
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    s->n_visible = text ? 0 : -1;
    uint64_t n;
    while (text && s->n_visible < MOST_DEVICES && read_number(text, 0, (uint64_t)s->devices - 1, &text, &n)) {
        s->visible[s->n_visible++] = (int)n;
        if (*text != ',') break;
        text++;
    }
    if (s->n_visible < 0)
        for (s->n_visible = 0; s->n_visible < s->devices; s->n_visible++)
            s->visible[s->n_visible] = s->n_visible;
}

CUresult emulate_settings_read(void)
{
    struct settings *s = &emulate_settings;
    *s = (struct settings){ .devices = 1, .memory = 4ull << 30, .instructions = 20000000000ull };
    memset(counts, 0, sizeof counts);
    const char *what = getenv("YOKE_EMULATE");
    if (!what) {
        dprintf(STDERR_FILENO, "yoke: this library is Yoke's stand-in CUDA driver. It has devices only where "
                               "YOKE_EMULATE=cuda:9.0 is set (9.0 is the compute capability)\n");
        return CUDA_ERROR_NO_DEVICE;
    }
    if (strncmp(what, "cuda:", 5) != 0 || !read_version(what + 5, &s->capability)) {
        refuse("YOKE_EMULATE", what, "cuda:MAJOR.MINOR, such as cuda:9.0");
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t devices = 1, delay = 0, waits = 0, channels = 8, holds = 0,
             multiprocessors = (uint64_t)emulate_model(s->capability)->multiprocessors;
    const char *ptx = getenv("YOKE_EMULATE_PTX"), *share = getenv("YOKE_EMULATE_SHARE");
    s->share = share && *share ? share : NULL;
    /* Programs must not rely on a mapping, so each process has another one. The number can be typed. */
    if (getrandom(&s->channel_seed, sizeof s->channel_seed, 0) != sizeof s->channel_seed)
        s->channel_seed = (uint64_t)getpid();
    s->channel_seed %= 1000000;
    const bool good =
        read_variable("YOKE_EMULATE_DEVICES", 1, MOST_DEVICES, "a number from 1 to 16", &devices)
        && read_variable("YOKE_EMULATE_SMS", 1, 1024, "a number from 1 to 1024", &multiprocessors)
        && read_variable("YOKE_EMULATE_SEED", 0, UINT64_MAX, "a whole number", &s->seed)
        && read_variable("YOKE_EMULATE_DELAY_US", 0, 1000000, "microseconds from 0 to 1000000", &delay)
        && read_variable("YOKE_EMULATE_WAIT", 0, 3600, "seconds from 0 to 3600", &waits)
        && read_variable("YOKE_EMULATE_HOLD", 0, 3600, "seconds from 0 to 3600", &holds)
        && read_variable("YOKE_EMULATE_CHANNELS", 0, UINT64_MAX, "a whole number", &s->channel_seed)
        && read_variable("CUDA_DEVICE_MAX_CONNECTIONS", 1, 32, "a number from 1 to 32", &channels)
        && read_variable("YOKE_EMULATE_INSTRUCTIONS", 0, UINT64_MAX, "a whole number", &s->instructions)
        && read_memory(&s->memory) && read_bias(&s->bias)
        && (!ptx || !*ptx || read_version(ptx, &s->newest_ptx)
            || refuse("YOKE_EMULATE_PTX", ptx, "a version of PTX, such as 8.7"))
        && read_failures();
    if (!good) return CUDA_ERROR_INVALID_VALUE;
    s->devices = (int)devices;
    s->delay_us = (uint32_t)delay;
    s->wait_s = (int)waits;
    s->hold_s = (int)holds;
    s->channels = (int)channels;
    s->multiprocessors = (int)multiprocessors;
    read_visible();
    return CUDA_SUCCESS;
}

int yoke_emulate_fails(const char *failure)
{
    int fails = 0;
    emulate_lock();
    for (int i = 0; i < N_FAILURES; i++)
        if (!strcmp(failure, failure_names[i])) fails = emulate_fails((enum failure)i);
    emulate_unlock();
    return fails;
}

int yoke_emulate_bias(void) { return emulate_settings.bias; }

bool emulate_fails(enum failure failure) { return ++counts[failure] == emulate_settings.fail_at[failure]; }

bool emulate_fails_from(enum failure failure)
{
    const uint64_t from = emulate_settings.fail_at[failure];
    return ++counts[failure] >= from && from;
}

static uint64_t mix(uint64_t x)
{
    /* The finaliser of SplitMix64 (Steele, Lea, Flood 2014). */
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

int emulate_channel_of(const struct CUctx_st *context, unsigned long long stream)
{
    const uint64_t random = mix(mix(mix(emulate_settings.channel_seed) ^ (uint64_t)context->ordinal)
                                ^ stream);
    return (int)(random % (uint64_t)emulate_settings.channels);
}

uint64_t emulate_random(uint64_t a, uint64_t b) { return mix(mix(mix(emulate_settings.seed) ^ a) ^ b); }

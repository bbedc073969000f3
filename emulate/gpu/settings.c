/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the variables of the environment that say what a stand-in driver shows. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "emulate/gpu/driver.h"

struct settings emulate_settings;
static uint64_t counts[MOST_FAILURES];
static bool is_alone; /* YOKE_EMULATE names no other library */

/* In the order of enum failure; the vendor's own failures follow. */
static const char *const failure_names[FAIL_VENDOR] = { "out-of-memory", "illegal-address", "launch-timeout",
                                                        "ecc",           "device-lost",     "no-lock",
                                                        "no-register",   "value-operation" };

/* The name of a failure by its number; NULL past the last one. */
static const char *failure_name(int failure)
{
    return failure < FAIL_VENDOR ? failure_names[failure] : emulate_vendor.failures[failure - FAIL_VENDOR];
}

bool emulate_refuse(const char *variable, const char *value, const char *wanted)
{
    dprintf(STDERR_FILENO, "yoke: the stand-in %s cannot read %s=%s. The value must be %s.\n",
            emulate_vendor.library, variable, value, wanted);
    return false;
}

bool emulate_read_number(const char *text, uint64_t least, uint64_t most, const char **end, uint64_t *out)
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

bool emulate_read_variable(const char *variable, uint64_t least, uint64_t most, const char *wanted,
                           uint64_t *out)
{
    const char *text = getenv(variable), *end;
    if (!text || !*text) return true;
    return (emulate_read_number(text, least, most, &end, out) && !*end)
           || emulate_refuse(variable, text, wanted);
}

bool emulate_read_version(const char *text, int *out)
{
    uint64_t major, minor;
    const char *end;
    if (!emulate_read_number(text, 1, 99, &end, &major) || *end != '.') return false;
    if (!emulate_read_number(end + 1, 0, 9, &end, &minor) || *end) return false;
    *out = (int)(major * 10 + minor);
    return true;
}

static bool read_memory(uint64_t *out)
{
    const char *text = getenv("YOKE_EMULATE_MEMORY"), *end;
    if (!text || !*text) return true;
    static const char letters[] = "KMGT";
    uint64_t value;
    if (emulate_read_number(text, 1, 1ull << 44, &end, &value)) {
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
    return emulate_refuse("YOKE_EMULATE_MEMORY", text, "bytes from 1M to 1T, such as 4G or 512M");
}

static bool refuse_failures(const char *text)
{
    char wanted[600] = "WHAT@N[,WHAT@N...], where N counts from 1 and WHAT is ";
    const char *name;
    for (int i = 0; (name = failure_name(i)); i++) {
        const size_t used = strlen(wanted);
        const char *before = !i ? "" : failure_name(i + 1) ? ", " : " or ";
        snprintf(wanted + used, sizeof wanted - used, "%s%s", before, name);
    }
    return emulate_refuse("YOKE_EMULATE_FAIL", text, wanted);
}

/* The number of a failure of this library; -1: it is none. */
static int find_failure(const char *text, size_t length)
{
    const char *name;
    for (int i = 0; (name = failure_name(i)); i++)
        if (strlen(name) == length && !strncmp(name, text, length)) return i;
    return -1;
}

/* A failure that this library does not know may be one of another library. */
static bool read_failures(void)
{
    const char *text = getenv("YOKE_EMULATE_FAIL");
    if (!text || !*text) return true;
    for (const char *at = text;;) {
        const size_t length = strcspn(at, "@,");
        const int kind = find_failure(at, length);
        uint64_t n;
        if ((kind < 0 && is_alone) || at[length] != '@'
            || !emulate_read_number(at + length + 1, 1, UINT64_MAX / 2, &at, &n))
            break;
        if (kind >= 0) emulate_settings.fail_at[kind] = n;
        if (!*at) return true;
        if (*at++ != ',') break;
    }
    return refuse_failures(text);
}

void emulate_select_devices(const char *list)
{
    struct settings *s = &emulate_settings;
    int kept[MOST_DEVICES], n_kept = 0;
    uint64_t n;
    if (!list) return;
    while (s->n_visible && n_kept < MOST_DEVICES
           && emulate_read_number(list, 0, (uint64_t)s->n_visible - 1, &list, &n)) {
        kept[n_kept++] = s->visible[n];
        if (*list != ',') break;
        list++;
    }
    memcpy(s->visible, kept, sizeof kept[0] * (size_t)n_kept);
    s->n_visible = n_kept;
}

/*
 * The target of this library in YOKE_EMULATE, which is a list such as "cuda:9.0,hip:gfx942". NULL: the list
 * has none, or it cannot be read; *result_out says which.
 */
static const char *find_target(const char *list, enum emulate_error *result_out)
{
    static char target[64];
    const size_t word = strlen(emulate_vendor.word);
    const char *found = NULL;
    bool good = true;
    is_alone = true;
    for (const char *at = list; good; at++) {
        const size_t length = strcspn(at, ","), name = strcspn(at, ":,");
        good = name < length && length - name <= sizeof target;
        if (good && name == word && !strncmp(at, emulate_vendor.word, word)) {
            good = !found;
            snprintf(target, sizeof target, "%.*s", (int)(length - word - 1), at + word + 1);
            found = target;
        } else {
            is_alone = false;
        }
        at += length;
        if (!*at) break;
    }
    *result_out = good ? EMULATE_NO_DEVICE : EMULATE_INVALID_VALUE;
    if (!good) emulate_refuse("YOKE_EMULATE", list, emulate_vendor.wanted);
    return good ? found : NULL;
}

static bool read_common(struct settings *s)
{
    uint64_t devices = 1, delay = 0, waits = 0, holds = 0, units = (uint64_t)s->multiprocessors;
    const char *share = getenv("YOKE_EMULATE_SHARE");
    s->share = share && *share ? share : NULL;
    /* Programs must not rely on a mapping, so each process has another one. The number can be typed. */
    if (getrandom(&s->channel_seed, sizeof s->channel_seed, 0) != sizeof s->channel_seed)
        s->channel_seed = (uint64_t)getpid();
    s->channel_seed %= 1000000;
    const bool good = emulate_read_variable("YOKE_EMULATE_DEVICES", 1, MOST_DEVICES, "a number from 1 to 16",
                                            &devices)
                      && emulate_read_variable("YOKE_EMULATE_SMS", 1, 1024, "a number from 1 to 1024", &units)
                      && emulate_read_variable("YOKE_EMULATE_SEED", 0, UINT64_MAX, "a whole number", &s->seed)
                      && emulate_read_variable("YOKE_EMULATE_DELAY_US", 0, 1000000,
                                               "microseconds from 0 to 1000000", &delay)
                      && emulate_read_variable("YOKE_EMULATE_WAIT", 0, 3600, "seconds from 0 to 3600", &waits)
                      && emulate_read_variable("YOKE_EMULATE_HOLD", 0, 3600, "seconds from 0 to 3600", &holds)
                      && emulate_read_variable("YOKE_EMULATE_CHANNELS", 0, UINT64_MAX, "a whole number",
                                               &s->channel_seed)
                      && emulate_read_variable("YOKE_EMULATE_INSTRUCTIONS", 0, UINT64_MAX, "a whole number",
                                               &s->instructions)
                      && read_memory(&s->memory) && read_failures();
    if (!good) return false;
    s->devices = (int)devices;
    s->delay_us = (uint32_t)delay;
    s->wait_s = (int)waits;
    s->hold_s = (int)holds;
    s->multiprocessors = (int)units;
    for (s->n_visible = 0; s->n_visible < s->devices; s->n_visible++) s->visible[s->n_visible] = s->n_visible;
    return true;
}

enum emulate_error emulate_settings_read(void)
{
    struct settings *s = &emulate_settings;
    enum emulate_error result;
    *s = (struct settings){ .memory = 4ull << 30, .instructions = 20000000000ull };
    memset(counts, 0, sizeof counts);
    const char *what = getenv("YOKE_EMULATE");
    if (!what) {
        dprintf(STDERR_FILENO,
                "yoke: this library is Yoke's stand-in %s. It has devices only where YOKE_EMULATE is set to "
                "%s\n",
                emulate_vendor.library, emulate_vendor.wanted);
        return EMULATE_NO_DEVICE;
    }
    const char *target = find_target(what, &result);
    if (!target) return result;
    if (!emulate_vendor.read_target(target)) {
        emulate_refuse("YOKE_EMULATE", what, emulate_vendor.wanted);
        return EMULATE_INVALID_VALUE;
    }
    return read_common(s) && emulate_vendor.read_variables() ? EMULATE_OK : EMULATE_INVALID_VALUE;
}

int yoke_emulate_fails(const char *failure)
{
    emulate_lock();
    if (emulate_vendor.is_lazy) emulate_init();
    const int kind = find_failure(failure, strlen(failure));
    const int fails = kind >= 0 && emulate_fails(kind);
    emulate_unlock();
    return fails;
}

bool emulate_fails(int failure) { return ++counts[failure] == emulate_settings.fail_at[failure]; }

bool emulate_fails_from(int failure)
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

int emulate_channel_of(const struct context *context, unsigned long long stream)
{
    const uint64_t random = mix(mix(mix(emulate_settings.channel_seed) ^ (uint64_t)context->ordinal)
                                ^ stream);
    return (int)(random % (uint64_t)emulate_settings.channels);
}

uint64_t emulate_random(uint64_t a, uint64_t b) { return mix(mix(mix(emulate_settings.seed) ^ a) ^ b); }

void emulate_device_uuid(const char begin[8], int device, char uuid_out[16])
{
    /* The processes of other hosts see another UUID. */
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */
    for (const char *c = host; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3ull;
    memcpy(uuid_out, begin, 8);
    memcpy(uuid_out + 8, &hash, 8);
    uuid_out[7] = (char)emulate_settings.visible[device];
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Makers: the architecture and the compiler of a binary, as a part of the name of its file. The architecture
 * has its features, such as gfx90a:sramecc+:xnack-, because code for xnack+ does not run on a device with
 * xnack-. In a maker dots stand for the colons, because colons separate folders in YOKE_CACHE_DIR.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backends/hip/hip.h"

static const char *const kinds[] = { [HIP_RTC] = "-hiprtc", [HIP_CLANG] = "-clang" };

void yokei_hip_maker_text(const char *arch, const struct hip_compiler *compiler, char *text, size_t bytes)
{
    text[0] = '\0';
    if (compiler->kind == HIP_NO_COMPILER) return;
    yokei_text(text, bytes, "%s%s%s", arch, kinds[compiler->kind], compiler->version);
    for (char *at = text; at < text + strlen(arch) && *at; at++)
        if (*at == ':') *at = '.';
}

bool yokei_hip_maker_parse(const char *text, char arch[HIP_ARCH], struct hip_compiler *out)
{
    memset(out, 0, sizeof *out);
    for (int kind = HIP_RTC; kind <= HIP_CLANG; kind++) {
        const char *at = strstr(text, kinds[kind]);
        if (!at || (size_t)(at - text) >= HIP_ARCH || strncmp(text, "gfx", 3) != 0) continue;
        const char *version = at + strlen(kinds[kind]);
        const size_t n = strlen(version);
        if (!n || n >= sizeof out->version || strspn(version, "0123456789.") != n) continue;
        out->kind = (enum hip_compiler_kind)kind;
        yokei_text(out->version, sizeof out->version, "%s", version);
        yokei_text(arch, HIP_ARCH, "%.*s", (int)(at - text), text);
        for (char *c = arch; *c; c++)
            if (*c == '.') *c = ':';
        return true;
    }
    return false;
}

/* Whether an architecture has this feature, such as "xnack-", which has n characters. */
static bool has_feature(const char *arch, const char *feature, size_t n)
{
    for (const char *at = strchr(arch, ':'); at; at = strchr(at, ':')) {
        at++;
        if (!strncmp(at, feature, n) && (!at[n] || at[n] == ':')) return true;
    }
    return false;
}

bool yokei_hip_arch_runs(const char *code, const char *device)
{
    const size_t n = strcspn(code, ":");
    if (n != strcspn(device, ":") || strncmp(code, device, n) != 0) return false;
    for (const char *at = strchr(code, ':'); at; at = strchr(at, ':')) {
        at++;
        if (!has_feature(device, at, strcspn(at, ":"))) return false;
    }
    return true;
}

bool yokei_hip_maker_runs(const void *arch, const char *text)
{
    char code[HIP_ARCH];
    struct hip_compiler compiler;
    return yokei_hip_maker_parse(text, code, &compiler) && yokei_hip_arch_runs(code, arch);
}

void yokei_hip_maker(const yoke_device *device, char *text, size_t bytes)
{
    yokei_hip_maker_text(hip_device(device)->arch, &hip_device(device)->compiler, text, bytes);
}

/* The first two numbers of a version, as one number. */
static int number_of(const char *version)
{
    int major = 0, minor = 0;
    if (sscanf(version, "%4d.%4d", &major, &minor) < 1) return 0;
    return YOKE_MIN(major, 1000) * 1000 + YOKE_MIN(minor, 999);
}

int yokei_hip_suits(const yoke_device *device, const char *text)
{
    const struct hip_device *dev = hip_device(device);
    char code[HIP_ARCH];
    struct hip_compiler maker;
    if (!yokei_hip_maker_parse(text, code, &maker) || !yokei_hip_arch_runs(code, dev->arch)) return 0;
    const bool same = maker.kind == dev->compiler.kind && !strcmp(maker.version, dev->compiler.version);
    const bool whole = !strcmp(code, dev->arch);
    if (same && whole) return INT_MAX;
    /* first what this device's own compiler makes, then what knows the features, then the newest compiler */
    return 1 + (same << 28 | whole << 27 | (maker.kind == HIP_RTC) << 26 | number_of(maker.version));
}

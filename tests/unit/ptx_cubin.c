/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of each kernel have the same offsets and sizes in machine code as in PTX. A real driver
 * copies arguments as the machine code says, and the stand-in driver as the PTX says. NVRTC makes both from
 * one program. Without NVRTC the test is skipped. Without YOKE_SOAK=1 the test compiles one program of each
 * family that compiles quickly, for one architecture. Prints TAP.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "backends/gpu/families.h"
#include "emulate/cuda/ptx.h"

/*
 * Attributes in the section .nv.info.KERNEL. Each begins with its format, its number and 16 bits: a value, or
 * for WITH_BYTES the number of bytes that follow. NVIDIA does not document them; cuobjdump -elf shows their
 * names.
 */
enum { VALUE = 3, WITH_BYTES = 4, PARAM_CBANK = 0x0a, KPARAM_INFO = 0x17, CBANK_PARAM_SIZE = 0x19 };
enum { MOST = 64 };

struct layout { /* of the parameters of a kernel */
    int n;
    uint32_t offset[MOST], bytes[MOST];
    uint32_t total, constant_begin, constant_bytes; /* of all parameters, and of constant bank 0 */
};

static uint32_t word(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint32_t half(const unsigned char *at) { return at[0] | (uint32_t)at[1] << 8; }

static void read_attributes(const unsigned char *at, const unsigned char *end, struct layout *out)
{
    while (end - at >= 4) {
        const unsigned format = at[0], attribute = at[1], value = half(at + 2);
        const unsigned char *const data = at + 4;
        const size_t bytes = format == WITH_BYTES ? value : 0;
        if ((size_t)(end - data) < bytes) return;
        at = data + bytes;
        if (attribute == CBANK_PARAM_SIZE && format == VALUE) out->total = value;
        if (attribute == PARAM_CBANK && bytes == 8) {
            out->constant_begin = half(data + 4);
            out->constant_bytes = half(data + 6);
        }
        if (attribute != KPARAM_INFO || bytes != 12) continue;
        const uint32_t ordinal = half(data + 4);
        if (ordinal >= MOST) continue;
        out->offset[ordinal] = half(data + 6);
        out->bytes[ordinal] = word(data + 8) >> 18;
        out->n = (int)ordinal >= out->n ? (int)ordinal + 1 : out->n;
    }
}

/* A section by the beginning of its name and the kernel's name; NULL: there is none. */
static const Elf64_Shdr *section(const unsigned char *elf, const char *prefix, const char *kernel)
{
    const Elf64_Ehdr *header = (const void *)elf;
    const Elf64_Shdr *sections = (const void *)(elf + header->e_shoff);
    const char *names = (const char *)elf + sections[header->e_shstrndx].sh_offset;
    const size_t length = strlen(prefix);
    for (int i = 0; i < header->e_shnum; i++) {
        const char *name = names + sections[i].sh_name;
        if (!strncmp(name, prefix, length) && !strcmp(name + length, kernel)) return &sections[i];
    }
    return NULL;
}

/* NULL: both layouts are equal. Otherwise what differs. */
static const char *compare(const unsigned char *elf, const struct ptx_kernel *kernel, char why[300])
{
    const struct kernel_info info = ptx_kernel_info(kernel);
    const Elf64_Shdr *attributes = section(elf, ".nv.info.", info.name);
    const Elf64_Shdr *constants = section(elf, ".nv.constant0.", info.name);
    struct layout machine = { .n = 0 };
    uint32_t offset, bytes;
    if (!attributes || !constants) return "the machine code has no such kernel";
    read_attributes(elf + attributes->sh_offset, elf + attributes->sh_offset + attributes->sh_size, &machine);
    snprintf(why, 300, "%s: %d parameters of %u bytes in machine code, and %d of %u in PTX", info.name,
             machine.n, machine.total, info.n_parameters, info.parameter_bytes);
    if (machine.n != info.n_parameters || machine.total != info.parameter_bytes) return why;
    for (int i = 0; i < machine.n; i++) {
        if (!ptx_kernel_parameter(kernel, i, &offset, &bytes)) return "PTX lacks a parameter";
        snprintf(why, 300, "%s: parameter %d has %u bytes at %u in machine code, and %u at %u in PTX",
                 info.name, i, machine.bytes[i], machine.offset[i], bytes, offset);
        if (machine.offset[i] != offset || machine.bytes[i] != bytes) return why;
    }
    snprintf(why, 300, "%s: the constant bank has %llu bytes, and the parameters end at %u + %u", info.name,
             (unsigned long long)constants->sh_size, machine.constant_begin, machine.constant_bytes);
    return machine.constant_bytes != info.parameter_bytes
                   || machine.constant_begin + machine.constant_bytes > constants->sh_size
               ? why
               : NULL;
}

/* ---- programs ---- */

static int n_kernels, n_parameters;

/* Compile for an architecture such as "sm_90". NULL: all is equal. */
static const char *check(const struct cuda_nvrtc *nvrtc, const struct yokei_gpu_program *program,
                         const char *architecture, char why[300])
{
    char option[64];
    snprintf(option, sizeof option, "--gpu-architecture=%s", architecture);
    const char *const options[] = { option, "--std=c++14", "--fmad=false", "--ptxas-options=-O0" };
    struct yokei_gpu_source source;
    const char *wrong = NULL;
    if (yokei_gpu_source_make(program, YOKEI_GPU_CUDA, false, 32, false, &source)) return yoke_last_error();
    const size_t text_bytes = strlen(source.options) + strlen(source.prelude) + strlen(source.text) + 1;
    char *text = malloc(text_bytes);
    nvrtcProgram compiled = NULL;
    size_t cubin_bytes = 0, ptx_bytes = 0;
    if (text) snprintf(text, text_bytes, "%s%s%s", source.options, source.prelude, source.text);
    if (!text || nvrtc->nvrtcCreateProgram(&compiled, text, source.name, 0, NULL, NULL)
        || nvrtc->nvrtcCompileProgram(compiled, (int)YOKE_COUNT(options), options)
        || nvrtc->nvrtcGetCUBINSize(compiled, &cubin_bytes) || nvrtc->nvrtcGetPTXSize(compiled, &ptx_bytes))
        wrong = "it does not compile";
    char *cubin = malloc(cubin_bytes + 1), *ptx = malloc(ptx_bytes + 1);
    struct ptx_module *module = NULL;
    struct kernel_fault fault;
    const struct ptx_kernel *kernel;
    if (!wrong
        && (!cubin || !ptx || nvrtc->nvrtcGetCUBIN(compiled, cubin) || nvrtc->nvrtcGetPTX(compiled, ptx)
            || cubin_bytes < sizeof(Elf64_Ehdr) || memcmp(cubin, ELFMAG, SELFMAG)
            || ptx_parse(ptx, strlen(ptx), &module, &fault)))
        wrong = "there is no machine code, or no PTX";
    for (int i = 0; !wrong && (kernel = ptx_module_kernel_at(module, i)); i++) {
        wrong = compare((const unsigned char *)cubin, kernel, why);
        n_parameters += ptx_kernel_info(kernel).n_parameters;
        n_kernels++;
    }
    if (module) ptx_module_destroy(module);
    if (compiled) nvrtc->nvrtcDestroyProgram(&compiled);
    free(cubin);
    free(ptx);
    free(text);
    yokei_gpu_source_free(&source);
    return wrong;
}

/* Families that compile longest. */
static bool is_slow(const char *family)
{
    static const char *const slow[] = { "act", "attention", "elementwise", "loss" };
    for (size_t i = 0; i < YOKE_COUNT(slow); i++)
        if (!strcmp(slow[i], family)) return true;
    return false;
}

int main(void)
{
    static const char *const architectures[] = { "sm_90", "sm_75", "sm_80", "sm_100" };
    const char *soak = getenv("YOKE_SOAK");
    const bool all = soak && strcmp(soak, "0") != 0;
    char why[300], seen[64][32];
    int n = 0, bad = 0, n_seen = 0;
    const struct cuda_nvrtc *nvrtc = yokei_cuda_nvrtc(99000, why, sizeof why);
    if (!nvrtc) {
        printf("ok 1 - parameters in machine code # SKIP %s\n1..1\n", why);
        return 0;
    }
    for (size_t a = 0; a < (all ? YOKE_COUNT(architectures) : 1); a++) {
        struct yokei_gpu_program program;
        for (int i = 0; yokei_gpu_catalog(i, false, 32, &program); i++) {
            int s = 0;
            while (s < n_seen && strcmp(seen[s], program.family) != 0) s++;
            if (!all && (s < n_seen || is_slow(program.family))) continue;
            if (s == n_seen && n_seen < 64) snprintf(seen[n_seen++], sizeof seen[0], "%s", program.family);
            const char *wrong = check(nvrtc, &program, architectures[a], why);
            if (wrong) printf("# %s for %s: %s\n", program.family, architectures[a], wrong);
            bad += wrong != NULL;
        }
    }
    printf("%sok %d - parameters of %d kernels in machine code and in PTX (%d parameters)\n",
           bad ? "not " : "", ++n, n_kernels, n_parameters);
    const bool enough = n_seen >= (all ? 11 : 7) && n_kernels >= 2 * n_seen && n_parameters >= 10 * n_seen;
    printf("%sok %d - of %d families\n1..2\n", enough ? "" : "not ", ++n, n_seen);
    return bad || !enough;
}

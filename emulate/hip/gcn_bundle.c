/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bundles of code objects, as clang --offload-arch writes them: a magic word, the number of entries, and for
 * each entry its offset, its bytes and its name. LLVM's page "Clang Offload Bundler".
 */
#include "emulate/hip/gcn_read.h"

#include <elf.h>

static const char magic[] = "__CLANG_OFFLOAD_BUNDLE__", compressed[] = "CCOB";
enum { MOST_ENTRIES = 4096, MAGIC_BYTES = sizeof magic - 1 };

struct item {
    uint64_t at, bytes, name_bytes;
    const char *name;
};

static bool begins(const void *bytes, size_t n, const char *word)
{
    return n >= strlen(word) && !memcmp(bytes, word, strlen(word));
}

bool gcn_is_bundle(const void *bytes, size_t n)
{
    return begins(bytes, n, magic) || begins(bytes, n, compressed);
}

static struct item next(struct gcn_bytes *b)
{
    struct item item = { 0 };
    item.at = gcn_u64(b), item.bytes = gcn_u64(b), item.name_bytes = gcn_u64(b);
    item.name = (const char *)gcn_take(b, item.name_bytes);
    return item;
}

/* "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-" and its like; GCN_ARCHS: the host's part, or another device's */
static enum gcn_arch arch_of(const struct item *item)
{
    char name[128] = "";
    if (item->name_bytes >= sizeof name) return GCN_ARCHS;
    memcpy(name, item->name, item->name_bytes);
    const char *gfx = strstr(name, "-amdgcn-amd-amdhsa-");
    if (!gfx || strncmp(name, "hip", 3)) return GCN_ARCHS;
    gfx += strlen("-amdgcn-amd-amdhsa-");
    return gcn_arch_of(*gfx == '-' ? gfx + 1 : gfx);
}

bool gcn_bundle_find(const void *bytes, size_t n, enum gcn_arch arch, const void **part_out,
                     size_t *part_bytes_out, char *reason)
{
    struct gcn_bytes b = { bytes, n, 0, false };
    if (begins(bytes, n, compressed))
        return gcn_refuse(reason,
                          "the bundle of code objects is compressed; compile without --offload-compress");
    gcn_take(&b, MAGIC_BYTES);
    const uint64_t entries = gcn_u64(&b);
    int found = 0;
    if (entries > MOST_ENTRIES) return gcn_refuse(reason, "the bundle of code objects is torn");
    for (uint64_t i = 0; i < entries; i++) {
        const struct item item = next(&b);
        if (b.torn || item.at > n || item.bytes > n - item.at)
            return gcn_refuse(reason,
                              "the bundle of code objects is cut off: entry %llu ends behind its %zu bytes",
                              (unsigned long long)i, n);
        const enum gcn_arch its = arch_of(&item);
        if (its == GCN_ARCHS || (arch != GCN_ARCHS && its != arch)) continue;
        if (found++) continue;
        *part_out = (const char *)bytes + item.at, *part_bytes_out = (size_t)item.bytes;
    }
    if (b.torn) return gcn_refuse(reason, "the bundle of code objects is torn");
    if (!found)
        return gcn_refuse(reason, "the bundle has no code object for %s",
                          arch == GCN_ARCHS ? "gfx90a, gfx942 or gfx1100" : gcn_arch_name(arch));
    if (found > 1) return gcn_refuse(reason, "the bundle has several code objects for the device");
    return true;
}

/* The end of all that an ELF header names: its table of sections stands last in what LLVM's linker writes. */
static size_t elf_extent(struct gcn_bytes b)
{
    b.at = offsetof(Elf64_Ehdr, e_shoff);
    const uint64_t at = gcn_u64(&b);
    b.at = offsetof(Elf64_Ehdr, e_shentsize);
    const uint64_t bytes = (uint64_t)gcn_u16(&b) * gcn_u16(&b);
    return b.torn || at > b.bytes || bytes > b.bytes - at ? 0 : (size_t)(at + bytes);
}

static size_t bundle_extent(struct gcn_bytes b)
{
    gcn_take(&b, MAGIC_BYTES);
    const uint64_t entries = gcn_u64(&b);
    size_t end = 0;
    if (entries > MOST_ENTRIES) return 0;
    for (uint64_t i = 0; i < entries; i++) {
        const struct item item = next(&b);
        if (b.torn || item.at > b.bytes || item.bytes > b.bytes - item.at) return 0;
        if (item.at + item.bytes > end) end = (size_t)(item.at + item.bytes);
    }
    return end > b.at ? end : b.at;
}

size_t gcn_object_extent(const void *bytes, size_t ends)
{
    const struct gcn_bytes b = { bytes, ends, 0, false };
    if (begins(bytes, ends, ELFMAG)) return elf_extent(b);
    return begins(bytes, ends, magic) ? bundle_extent(b) : 0;
}

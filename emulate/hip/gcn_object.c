/* SPDX-License-Identifier: Apache-2.0 */
/* The ELF file of a code object: its image, its kernels' descriptors and its relocations. */
#include "emulate/hip/gcn_read.h"

#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Numbers that <elf.h> does not have, from LLVM's AMDGPU page. */
enum {
    OSABI_HSA = 64,
    ABI_V4 = 2,
    ABI_V5 = 3,
    MACH = 0xff,
    KNOWN_FLAGS = 0xfff, /* the processor, and what xnack and sramecc are set to */
    NOTE_METADATA = 32,
    R_RELATIVE64 = 13,
    DESCRIPTOR_BYTES = 64,
};
/* More than any object of Yoke has, so that a torn header asks for no memory. */
#define MOST_IMAGE (64u << 20)

bool gcn_refuse(char *reason, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, GCN_REASON, format, arguments);
    va_end(arguments);
    for (char *c = reason; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?'; /* a name from a damaged file */
    return false;
}

/* ---- architectures ---- */

static const struct {
    const char *name;
    unsigned mach;
} archs[] = {
    { "gfx90a", 0x3f },  { "gfx942", 0x4c },  { "gfx1100", 0x41 }, /* in the order of enum gcn_arch */
    { "gfx900", 0x2c },  { "gfx906", 0x2f },  { "gfx908", 0x30 },  { "gfx940", 0x40 },
    { "gfx941", 0x4b },  { "gfx950", 0x4f },  { "gfx1030", 0x36 }, { "gfx1101", 0x46 },
    { "gfx1102", 0x47 }, { "gfx1103", 0x44 }, { "gfx1200", 0x48 }, { "gfx1201", 0x4e },
};

const char *gcn_arch_name(enum gcn_arch arch) { return arch < GCN_ARCHS ? archs[arch].name : "none"; }

enum gcn_arch gcn_arch_of(const char *name)
{
    int arch = 0;
    const size_t length = strcspn(name, ":");
    while (arch < GCN_ARCHS
           && (strlen(archs[arch].name) != length || strncmp(archs[arch].name, name, length)))
        arch++;
    return (enum gcn_arch)arch;
}

static bool read_arch(struct gcn_object *object, uint32_t flags, char *reason)
{
    size_t i = 0;
    while (i < sizeof archs / sizeof *archs && archs[i].mach != (flags & MACH)) i++;
    if (i == sizeof archs / sizeof *archs)
        return gcn_refuse(reason, "the code object is for processor 0x%x, which is not known", flags & MACH);
    if (i >= GCN_ARCHS)
        return gcn_refuse(reason, "the code object is for %s; gfx90a, gfx942 and gfx1100 can be executed",
                          archs[i].name);
    if (flags & ~(uint32_t)KNOWN_FLAGS)
        return gcn_refuse(reason, "the code object has the flags 0x%x, of which some are not known", flags);
    object->arch = (enum gcn_arch)i;
    return true;
}

/* ---- the file ---- */

struct elf {
    struct gcn_bytes file;
    Elf64_Ehdr header;
    struct gcn_bytes section_names, symbol_names;
    struct gcn_bytes symbols;
    struct gcn_line_sections line_sections;
    struct gcn_bytes note;
};

/* The structure at an offset of the file. All hosts of Yoke have the byte order of the file. */
static bool copy_at(const struct gcn_bytes *file, uint64_t at, void *to, size_t bytes)
{
    struct gcn_bytes part = gcn_part(file, at, bytes);
    const unsigned char *from = gcn_take(&part, bytes);
    if (from) memcpy(to, from, bytes);
    return from != NULL;
}

static bool read_header(struct elf *elf, struct gcn_object *object, char *reason)
{
    Elf64_Ehdr *h = &elf->header;
    if (!copy_at(&elf->file, 0, h, sizeof *h) || memcmp(h->e_ident, ELFMAG, SELFMAG))
        return gcn_refuse(reason, "the bytes are no code object: they do not begin with an ELF header");
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != EM_AMDGPU)
        return gcn_refuse(reason, "the ELF file is not for an AMD GPU");
    if (h->e_ident[EI_OSABI] != OSABI_HSA || h->e_type != ET_DYN)
        return gcn_refuse(reason, "the ELF file is not a linked code object for HSA");
    const unsigned abi = h->e_ident[EI_ABIVERSION];
    if (abi != ABI_V4 && abi != ABI_V5)
        return gcn_refuse(reason, "the code object has version %u; 4 and 5 are known", abi + 2);
    object->version = (int)abi + 2;
    if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_shentsize != sizeof(Elf64_Shdr))
        return gcn_refuse(reason, "the tables of the code object have entries of a wrong size");
    return read_arch(object, h->e_flags, reason);
}

static bool read_segment(struct elf *elf, struct gcn_object *object, const Elf64_Phdr *p, char *reason)
{
    if (p->p_type != PT_LOAD) return true;
    struct gcn_bytes part = gcn_part(&elf->file, p->p_offset, p->p_filesz);
    if (part.torn || p->p_filesz > p->p_memsz)
        return gcn_refuse(reason, "the code object is cut off: a segment ends behind its %zu bytes",
                          elf->file.bytes);
    if (p->p_vaddr > object->image_bytes || p->p_memsz > object->image_bytes - p->p_vaddr)
        return gcn_refuse(reason, "a segment of the code object lies outside its image");
    if (part.bytes) memcpy(object->image + p->p_vaddr, part.data, part.bytes);
    if (p->p_flags & PF_X) object->code[object->n_code++] = (struct gcn_range){ p->p_vaddr, p->p_filesz };
    return true;
}

/* Put the segments where their addresses say. */
static bool read_segments(struct elf *elf, struct gcn_object *object, char *reason)
{
    const int n = elf->header.e_phnum;
    Elf64_Phdr p;
    for (int i = 0; i < n; i++) {
        if (!copy_at(&elf->file, elf->header.e_phoff + (uint64_t)i * sizeof p, &p, sizeof p)
            || elf->header.e_phoff > elf->file.bytes)
            return gcn_refuse(reason, "the code object is cut off in its list of segments");
        if (p.p_type != PT_LOAD) continue;
        if (p.p_vaddr > MOST_IMAGE || p.p_memsz > MOST_IMAGE)
            return gcn_refuse(reason, "the code object asks for more than %u MiB", MOST_IMAGE >> 20);
        if (p.p_vaddr + p.p_memsz > object->image_bytes) object->image_bytes = p.p_vaddr + p.p_memsz;
    }
    if (!object->image_bytes) return gcn_refuse(reason, "the code object has no segment to load");
    object->image = calloc(1, object->image_bytes);
    object->code = calloc((size_t)n, sizeof *object->code);
    if (!object->image || !object->code) return gcn_refuse(reason, "no memory for the code object");
    for (int i = 0; i < n; i++)
        if (!copy_at(&elf->file, elf->header.e_phoff + (uint64_t)i * sizeof p, &p, sizeof p)
            || !read_segment(elf, object, &p, reason))
            return false;
    return true;
}

/* The metadata in a section of notes, which may hold other notes too. */
static bool read_notes(struct elf *elf, struct gcn_bytes notes, char *reason)
{
    while (notes.at < notes.bytes) {
        const uint32_t name_bytes = gcn_u32(&notes), bytes = gcn_u32(&notes), type = gcn_u32(&notes);
        const unsigned char *name = gcn_take(&notes, ((uint64_t)name_bytes + 3) & ~3ull);
        const unsigned char *content = gcn_take(&notes, bytes);
        const size_t left = notes.torn ? 0 : notes.bytes - notes.at;
        if (left) gcn_take(&notes, -bytes & 3u);
        if (notes.torn) return gcn_refuse(reason, "the notes of the code object are torn");
        if (type != NOTE_METADATA || name_bytes != 7 || memcmp(name, "AMDGPU", 7)) continue;
        if (elf->note.data) return gcn_refuse(reason, "the code object has metadata twice");
        elf->note = (struct gcn_bytes){ content, bytes, 0, false };
    }
    return true;
}

static bool section_header(const struct elf *elf, uint32_t index, Elf64_Shdr *out)
{
    const uint64_t at = elf->header.e_shoff + (uint64_t)index * sizeof *out;
    return index < elf->header.e_shnum && at >= elf->header.e_shoff
           && copy_at(&elf->file, at, out, sizeof *out);
}

static bool read_section(struct elf *elf, const Elf64_Shdr *s, char *reason)
{
    struct gcn_bytes part = gcn_part(&elf->file, s->sh_offset, s->sh_type == SHT_NOBITS ? 0 : s->sh_size);
    const char *name = gcn_text_at(&elf->section_names, s->sh_name);
    if (!name) return gcn_refuse(reason, "a section of the code object has no name");
    if (s->sh_type == SHT_NOBITS || s->sh_type == SHT_NULL) return true;
    if (part.torn)
        return gcn_refuse(reason, "the code object is cut off: section %.32s ends behind its %zu bytes", name,
                          elf->file.bytes);
    if (s->sh_type == SHT_NOTE) return read_notes(elf, part, reason);
    if (s->sh_type == SHT_DYNSYM) {
        Elf64_Shdr texts;
        if (elf->symbols.data || s->sh_entsize != sizeof(Elf64_Sym) || s->sh_size % sizeof(Elf64_Sym)
            || !section_header(elf, s->sh_link, &texts))
            return gcn_refuse(reason, "the code object has a torn table of symbols, or two");
        elf->symbols = part;
        elf->symbol_names = gcn_part(&elf->file, texts.sh_offset, texts.sh_size);
        if (elf->symbol_names.torn) return gcn_refuse(reason, "the names of the symbols are cut off");
    }
    if (s->sh_flags & SHF_COMPRESSED) return true; /* of debug sections alone; then there are no lines */
    if (!strcmp(name, ".debug_line")) elf->line_sections.lines = part;
    if (!strcmp(name, ".debug_line_str")) elf->line_sections.line_texts = part;
    if (!strcmp(name, ".debug_str")) elf->line_sections.texts = part;
    return true;
}

static bool read_sections(struct elf *elf, char *reason)
{
    Elf64_Shdr s;
    if (!section_header(elf, elf->header.e_shstrndx, &s))
        return gcn_refuse(reason, "the code object is cut off in front of its list of sections");
    elf->section_names = gcn_part(&elf->file, s.sh_offset, s.sh_size);
    for (uint32_t i = 0; i < elf->header.e_shnum; i++) {
        if (!section_header(elf, i, &s))
            return gcn_refuse(reason, "the code object is cut off in its list of sections");
        if (!read_section(elf, &s, reason)) return false;
    }
    if (!elf->note.data) return gcn_refuse(reason, "the code object has no metadata");
    if (!elf->symbols.data) return gcn_refuse(reason, "the code object has no symbols");
    return true;
}

static bool find_symbol(const struct elf *elf, const char *name, Elf64_Sym *out)
{
    for (uint64_t at = 0; at < elf->symbols.bytes; at += sizeof *out) {
        if (!copy_at(&elf->symbols, at, out, sizeof *out)) return false;
        const char *its = out->st_shndx == SHN_UNDEF ? NULL : gcn_text_at(&elf->symbol_names, out->st_name);
        if (its && !strcmp(its, name)) return true;
    }
    return false;
}

/* ---- relocations ---- */

/* Addresses inside the image, which depend on where the image lies. */
static bool relocate(const struct elf *elf, struct gcn_object *object, uint64_t base, char *reason)
{
    Elf64_Shdr s;
    for (uint32_t i = 0; i < elf->header.e_shnum && section_header(elf, i, &s); i++) {
        if (s.sh_type == SHT_REL)
            return gcn_refuse(reason, "the code object has relocations without addends");
        if (s.sh_type != SHT_RELA) continue;
        const struct gcn_bytes part = gcn_part(&elf->file, s.sh_offset, s.sh_size);
        for (uint64_t at = 0; at < s.sh_size; at += sizeof(Elf64_Rela)) {
            Elf64_Rela r;
            if (!copy_at(&part, at, &r, sizeof r)) return gcn_refuse(reason, "the relocations are torn");
            if (ELF64_R_TYPE(r.r_info) != R_RELATIVE64)
                return gcn_refuse(reason, "the code object has a relocation of type %u, which is not known",
                                  (unsigned)ELF64_R_TYPE(r.r_info));
            if (object->image_bytes < 8 || r.r_offset > object->image_bytes - 8)
                return gcn_refuse(reason, "a relocation lies outside the image");
            const uint64_t value = base + (uint64_t)r.r_addend;
            memcpy(object->image + r.r_offset, &value, sizeof value);
        }
    }
    return true;
}

/* ---- descriptors ---- */

static uint32_t bits(uint32_t word, int low, int n) { return word >> low & ((1u << n) - 1); }

/* What the registers of a descriptor say, for the architecture. */
static bool read_registers(const struct gcn_object *object, struct gcn_entry *e, char *reason)
{
    const bool is_rdna = object->arch == GCN_GFX1100;
    const uint32_t wave = e->properties & GCN_WAVEFRONT_SIZE32 ? 32 : 64;
    if (wave != e->wave || (wave == 32) != is_rdna)
        return gcn_refuse(reason, "kernel %s is for waves of %u lanes, its metadata say %u", e->name, wave,
                          e->wave);
    if (e->rsrc1 & (1u << 20 | 1u << 22 | 1u << 24 | 1u << 25 | 3u << 27))
        return gcn_refuse(reason, "rsrc1 of kernel %s is 0x%x, which has bits that must be 0", e->name,
                          e->rsrc1);
    if (e->rsrc1 & 1u << 26) return gcn_refuse(reason, "kernel %s has FP16_OVFL on", e->name);
    if (e->properties & ~0xc7fu)
        return gcn_refuse(reason, "kernel %s has the properties 0x%x, of which some are not known", e->name,
                          e->properties);
    e->n_vgprs = 8 * (bits(e->rsrc1, 0, 6) + 1);
    e->accum_offset = is_rdna ? e->n_vgprs : 4 * (bits(e->rsrc3, 0, 6) + 1);
    if (e->accum_offset > e->n_vgprs) e->accum_offset = e->n_vgprs;
    e->round_32 = bits(e->rsrc1, 12, 2), e->round_16_64 = bits(e->rsrc1, 14, 2);
    e->denormals_32 = bits(e->rsrc1, 16, 2), e->denormals_16_64 = bits(e->rsrc1, 18, 2);
    e->dx10_clamp = bits(e->rsrc1, 21, 1), e->ieee = bits(e->rsrc1, 23, 1);
    e->has_scratch = bits(e->rsrc2, 0, 1);
    e->user_sgprs = bits(e->rsrc2, 1, 5);
    for (int i = 0; i < 3; i++) e->has_block[i] = bits(e->rsrc2, 7 + i, 1);
    if (bits(e->rsrc2, 10, 1))
        return gcn_refuse(reason, "kernel %s asks for the work-group information", e->name);
    e->thread_dimensions = bits(e->rsrc2, 11, 2) + 1;
    if (e->thread_dimensions > 3) return gcn_refuse(reason, "rsrc2 of kernel %s is 0x%x", e->name, e->rsrc2);
    static const unsigned char words[] = { 4, 2, 2, 2, 2, 2, 1 };
    uint32_t asked = e->preload_words;
    for (int i = 0; i < 7; i++) asked += e->properties >> i & 1 ? words[i] : 0;
    if (asked > e->user_sgprs || e->user_sgprs > 16)
        return gcn_refuse(reason, "kernel %s asks for %u user SGPRs and names %u of them", e->name,
                          e->user_sgprs, asked);
    return true;
}

static bool read_descriptor(struct gcn_object *object, struct gcn_entry *e, uint64_t at, char *reason)
{
    const struct gcn_bytes image = { object->image, (size_t)object->image_bytes, 0, false };
    struct gcn_bytes d = gcn_part(&image, at, DESCRIPTOR_BYTES);
    const uint32_t shared = gcn_u32(&d), scratch = gcn_u32(&d), arguments = gcn_u32(&d);
    uint64_t reserved = gcn_u32(&d);
    e->code = at + gcn_u64(&d);
    reserved |= gcn_u64(&d) | gcn_u64(&d) | gcn_u32(&d);
    e->rsrc3 = gcn_u32(&d), e->rsrc1 = gcn_u32(&d), e->rsrc2 = gcn_u32(&d);
    e->properties = gcn_u16(&d);
    const uint16_t preload = gcn_u16(&d);
    reserved |= gcn_u32(&d);
    if (d.torn) return gcn_refuse(reason, "the descriptor of kernel %s lies outside the image", e->name);
    if (reserved)
        return gcn_refuse(reason, "the descriptor of kernel %s has reserved bytes that are not 0", e->name);
    if (shared != e->shared_bytes || scratch != e->scratch_bytes || arguments != e->argument_bytes)
        return gcn_refuse(
            reason,
            "kernel %s has %u bytes of LDS, %u of scratch and %u of arguments in its descriptor, "
            "and %u, %u and %u in the metadata",
            e->name, shared, scratch, arguments, e->shared_bytes, e->scratch_bytes, e->argument_bytes);
    e->preload_words = preload & 0x7f, e->preload_offset = preload >> 7;
    if ((uint32_t)(e->preload_words + e->preload_offset) * 4 > e->argument_bytes)
        return gcn_refuse(reason, "kernel %s preloads more arguments than it has", e->name);
    return read_registers(object, e, reason);
}

/* Whether these bytes are code, and begin where an instruction may. */
static bool is_code(const struct gcn_object *object, uint64_t at, uint64_t bytes)
{
    for (int i = 0; i < object->n_code; i++) {
        const struct gcn_range *r = &object->code[i];
        if (at >= r->at && bytes <= r->bytes && at - r->at <= r->bytes - bytes) return bytes && !(at & 3);
    }
    return false;
}

static bool read_entry(const struct elf *elf, struct gcn_object *object, struct gcn_entry *e,
                       const char *symbol, char *reason)
{
    Elf64_Sym descriptor, code;
    if (!find_symbol(elf, symbol, &descriptor) || descriptor.st_size != DESCRIPTOR_BYTES)
        return gcn_refuse(reason, "kernel %s has no descriptor %.64s of 64 bytes", e->name, symbol);
    if (!find_symbol(elf, e->name, &code)) return gcn_refuse(reason, "kernel %s has no code", e->name);
    if (!read_descriptor(object, e, descriptor.st_value, reason)) return false;
    e->code_bytes = code.st_size;
    if (code.st_value != e->code)
        return gcn_refuse(reason, "kernel %s begins at 0x%llx, its descriptor says 0x%llx", e->name,
                          (unsigned long long)code.st_value, (unsigned long long)e->code);
    if (!is_code(object, e->code, e->code_bytes))
        return gcn_refuse(reason, "the code of kernel %s lies outside the code of its object", e->name);
    return true;
}

static bool read_object(struct elf *elf, struct gcn_object *object, uint64_t base, char *reason)
{
    char **symbols = NULL;
    bool good = read_header(elf, object, reason) && read_segments(elf, object, reason)
                && read_sections(elf, reason) && relocate(elf, object, base, reason)
                && gcn_metadata_read(elf->note, object, &symbols, reason);
    for (int i = 0; i < object->n_entries && good; i++)
        good = read_entry(elf, object, &object->entries[i], symbols[i], reason);
    for (int i = 0; symbols && i < object->n_entries; i++) free(symbols[i]);
    free(symbols);
    return good
           && (!elf->line_sections.lines.data || gcn_lines_read(&elf->line_sections, &object->lines, reason));
}

struct gcn_object *gcn_object_read(const void *bytes, size_t n, uint64_t base, char *reason)
{
    if (gcn_is_bundle(bytes, n) && !gcn_bundle_find(bytes, n, GCN_ARCHS, &bytes, &n, reason)) return NULL;
    struct elf elf = { .file = { bytes, n, 0, false } };
    struct gcn_object *object = calloc(1, sizeof *object);
    if (!object) {
        gcn_refuse(reason, "no memory for a code object");
        return NULL;
    }
    if (read_object(&elf, object, base, reason)) return object;
    gcn_object_destroy(object);
    return NULL;
}

void gcn_object_destroy(struct gcn_object *object)
{
    if (!object) return;
    for (int i = 0; i < object->n_entries; i++) {
        free(object->entries[i].name);
        free(object->entries[i].arguments);
    }
    free(object->entries);
    free(object->code);
    free(object->image);
    gcn_lines_destroy(object->lines);
    free(object);
}

const struct gcn_entry *gcn_object_entry(const struct gcn_object *object, const char *name)
{
    for (int i = 0; i < object->n_entries; i++)
        if (!strcmp(object->entries[i].name, name)) return &object->entries[i];
    return NULL;
}

void gcn_object_hide(const struct gcn_entry *entry, const uint32_t blocks[3], const uint32_t threads[3],
                     uint32_t dynamic_shared_bytes, unsigned char *segment)
{
    for (int i = 0; i < entry->n_arguments; i++) {
        const struct gcn_argument *a = &entry->arguments[i];
        if (a->kind <= GCN_GLOBAL_BUFFER) continue;
        uint64_t value = 0; /* of offsets too, and of remainders: HIP's blocks are all whole */
        if (a->kind >= GCN_HIDDEN_BLOCK_COUNT_X && a->kind <= GCN_HIDDEN_BLOCK_COUNT_Z)
            value = blocks[a->kind - GCN_HIDDEN_BLOCK_COUNT_X];
        if (a->kind >= GCN_HIDDEN_GROUP_SIZE_X && a->kind <= GCN_HIDDEN_GROUP_SIZE_Z)
            value = threads[a->kind - GCN_HIDDEN_GROUP_SIZE_X];
        if (a->kind == GCN_HIDDEN_GRID_DIMS) value = 3;
        if (a->kind == GCN_HIDDEN_DYNAMIC_LDS_SIZE) value = dynamic_shared_bytes;
        for (uint32_t b = 0; b < a->bytes; b++)
            segment[a->offset + b] = b < 8 ? (unsigned char)(value >> 8 * b) : 0;
    }
}

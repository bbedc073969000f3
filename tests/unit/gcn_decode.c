/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the decoder of AMD machine code with LLVM's disassembler: names, lengths, registers, constants,
 * offsets and branches of each instruction in code objects. tests/gpu/decode compiles the objects. Prints
 * TAP.
 *
 *     gcn_decode LLVM-OBJDUMP FOLDER...
 *
 * A file of a folder is a code object, or has one inside as the files of yoke compile do.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulate/hip/gcn_code.h"

enum { SHOWN = 20, CONSTANTS = 8, SGPRS_PLAIN = 102 };

/* What an instruction has, from the text or from the decoder. */
struct view {
    bool rows[GCN_ROWS], sgprs[SGPRS_PLAIN]; /* VCC, M0 and EXEC are often not in the text */
    uint64_t constants[CONSTANTS];
    bool is_float[CONSTANTS]; /* of a text: the constant is a number such as 1.0 */
    double floats[CONSTANTS];
    int n_constants;
    long offset[2];
};

static long n_instructions, n_bad;

/* ---- the text ---- */

static void mark(struct view *v, char kind, long first, long last)
{
    for (long i = first; i <= last; i++) {
        if (kind == 's' && i < SGPRS_PLAIN) v->sgprs[i] = true;
        if (kind == 'v' && i < GCN_AGPR) v->rows[i] = true;
        if (kind == 'a' && i < GCN_AGPR) v->rows[GCN_AGPR + i] = true;
    }
}

/* v12, s[4:7], 0x1f, -1.0; returns what stands behind it, or NULL if it is none of these. */
static const char *operand(struct view *v, const char *at)
{
    char *end;
    if (strchr("vsa", *at) && (at[1] == '[' || (at[1] >= '0' && at[1] <= '9'))) {
        const bool is_range = at[1] == '[';
        const long first = strtol(at + 1 + is_range, &end, 10);
        const long last = is_range ? strtol(end + 1, &end, 10) : first;
        mark(v, *at, first, last);
        return end + is_range;
    }
    if (!((*at >= '0' && *at <= '9') || (*at == '-' && at[1] >= '0' && at[1] <= '9'))
        || v->n_constants == CONSTANTS)
        return NULL;
    const int k = v->n_constants++;
    v->is_float[k] = strcspn(at, ".") < strcspn(at, ", \t");
    v->floats[k] = strtod(at, &end);
    if (!v->is_float[k]) v->constants[k] = (uint64_t)strtoll(at, &end, 0);
    return end;
}

/* "op_sel:[0,1]", "offset:16", "offen" and what else stands behind the operands. */
static const char *modifier(struct view *v, const char *at)
{
    if (!strncmp(at, "offset:", 7)) v->offset[0] = strtol(at + 7, NULL, 0);
    if (!strncmp(at, "offset0:", 8)) v->offset[0] = strtol(at + 8, NULL, 0);
    if (!strncmp(at, "offset1:", 8)) v->offset[1] = strtol(at + 8, NULL, 0);
    for (; *at && *at != ' ' && *at != ','; at++)
        if (*at == '[') at += strcspn(at, "]");
    return at;
}

static void read_text(const char *operands, struct view *v)
{
    memset(v, 0, sizeof *v);
    for (const char *at = operands; *at;) {
        if (strchr(" ,|()-", *at) && !(*at == '-' && at[1] >= '0' && at[1] <= '9')) {
            at++;
            continue;
        }
        const char *end = operand(v, at);
        at = end ? end : modifier(v, at);
        if (*at == '(') at++; /* sext(v1) */
    }
}

/* ---- the decoder ---- */

static void mark_span(struct view *v, struct gcn_span span)
{
    for (int i = span.first; i < span.first + span.n; i++) {
        if (i < GCN_ROWS)
            v->rows[i] = true;
        else if (i - GCN_ROWS < SGPRS_PLAIN)
            v->sgprs[i - GCN_ROWS] = true;
    }
}

static void read_decoded(const struct gcn_instruction *I, struct view *v)
{
    for (int i = 0; i < I->n_uses; i++) mark_span(v, I->uses[i]);
    mark_span(v, I->fills);
    for (int i = 0; i < 3; i++)
        if (I->s[i].kind == GCN_O_CONSTANT && v->n_constants < CONSTANTS)
            v->constants[v->n_constants++] = I->s[i].value;
    v->offset[0] = I->m.offset[0], v->offset[1] = I->m.offset[1];
}

/* ---- both ---- */

static uint64_t bits_of(double x, int bits)
{
    uint64_t all = 0;
    if (bits == 64) memcpy(&all, &x, 8);
    const float f = (float)x;
    if (bits == 32) memcpy(&all, &f, 4);
    return all;
}

/* A number of 16 bits that is inline: 0.5, 1, 2 and 4, their negatives, and 1/(2 pi) */
static uint64_t half_of(double x)
{
    const uint64_t sign = x < 0 ? 0x8000 : 0;
    const double size = x < 0 ? -x : x;
    return sign
           | (size == 0.5 ? 0x3800
              : size == 1 ? 0x3c00
              : size == 2 ? 0x4000
              : size == 4 ? 0x4400
                          : 0x3118);
}

/* Each constant of the decoder stands in the text. */
static bool constants_agree(const struct view *text, const struct view *decoded)
{
    for (int i = 0; i < decoded->n_constants; i++) {
        const uint64_t value = decoded->constants[i];
        bool found = false;
        for (int k = 0; k < text->n_constants; k++) {
            const double x = text->floats[k];
            if (text->is_float[k])
                found |= value == half_of(x) || value == bits_of(x, 32) || value == bits_of(x, 64)
                         || (value & 0xffffffff) == (bits_of(x, 32) & 0xffffffff);
            else
                found |= (value & 0xffff) == (text->constants[k] & 0xffff)
                         || value >> 32 == (text->constants[k] & 0xffffffff);
        }
        if (!found) return false;
    }
    return true;
}

static const char *registers_differ(const struct view *text, const struct view *decoded, char *why,
                                    size_t bytes)
{
    for (int i = 0; i < GCN_ROWS; i++)
        if (text->rows[i] != decoded->rows[i]) {
            snprintf(why, bytes, "%c%d is %s", i < GCN_AGPR ? 'v' : 'a', i % GCN_AGPR,
                     text->rows[i] ? "not decoded" : "not in the text");
            return why;
        }
    for (int i = 0; i < SGPRS_PLAIN; i++)
        if (text->sgprs[i] != decoded->sgprs[i]) {
            snprintf(why, bytes, "s%d is %s", i, text->sgprs[i] ? "not decoded" : "not in the text");
            return why;
        }
    return NULL;
}

/* The name without the suffix of its encoding; of a dual instruction the first half's. */
static void name_of(const char *text, char name[64])
{
    snprintf(name, 64, "%.*s", (int)strcspn(text, " \t"), text);
    static const char *const suffixes[] = { "_e64_dpp", "_e32", "_e64", "_sdwa", "_dpp" };
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char *at = strstr(name, suffixes[i]);
        if (at && !at[strlen(suffixes[i])]) *at = '\0';
    }
}

/* NULL: the decoder and the text say the same. */
static const char *compare(enum gcn_arch arch, const char *text, const unsigned char *code, int n, char *why,
                           size_t bytes)
{
    struct gcn_instruction I[2];
    char reason[GCN_REASON], name[64];
    memset(I, 0, sizeof I);
    const int used = gcn_decode(arch, code, (size_t)n, I, reason);
    if (!used) {
        snprintf(why, bytes, "%s", reason);
        return why;
    }
    if (used != n) {
        snprintf(why, bytes, "it has %d bytes instead of %d", used, n);
        return why;
    }
    name_of(text, name);
    const char *second = strstr(text, "::");
    if (strcmp(I->name, name) != 0
        && !(second && !strncmp(name, "v_dual_", 7) && strstr(I->name, name + 7))) {
        snprintf(why, bytes, "it is named %s", I->name);
        return why;
    }
    struct view in_text, decoded = { .n_constants = 0 };
    char operands[512];
    snprintf(operands, sizeof operands, "%s", text + strcspn(text, " \t"));
    char *colons = strstr(operands, "::"); /* the name of the second half is no operand */
    if (colons) memset(colons, ' ', strcspn(colons + 3, " ") + 3);
    read_text(operands, &in_text);
    read_decoded(&I[0], &decoded);
    if (second) read_decoded(&I[1], &decoded);
    if (I->kind == GCN_WAIT || I->kind == GCN_NOTHING || I->kind == GCN_END || I->kind == GCN_BARRIER)
        return NULL;
    if (I->kind == GCN_BRANCH && in_text.n_constants)
        return (int16_t)in_text.constants[0] == (int16_t)I->immediate ? NULL : "it leads elsewhere";
    if (registers_differ(&in_text, &decoded, why, bytes)) return why;
    if (!constants_agree(&in_text, &decoded)) return "a constant differs";
    if (I->kind == GCN_SCALAR_LOAD && in_text.n_constants)
        return (long)in_text.constants[0] == decoded.offset[0] ? NULL : "the offset differs";
    if (I->m.twice) /* the text counts elements, or 64 of them */
        for (int i = 0; i < 2; i++) in_text.offset[i] *= I->m.bytes * (strstr(name, "64_b") ? 64 : 1);
    if ((I->kind == GCN_ACCESS || I->kind == GCN_PERMUTE)
        && (in_text.offset[0] != decoded.offset[0] || in_text.offset[1] != decoded.offset[1]))
        return "the offset differs";
    return NULL;
}

/* A line of the disassembler: a tab, the text, "// address: words". */
static void check_line(enum gcn_arch arch, char *line)
{
    char *comment = strstr(line, "//"), *words = comment ? strchr(comment, ':') : NULL;
    unsigned char code[32];
    int n = 0;
    if (*line != '\t' || !words) return;
    *comment = '\0';
    for (char *at = words + 1, *end; n + 4 <= (int)sizeof code; at = end) {
        const unsigned long word = strtoul(at, &end, 16);
        if (end - at < 8) break;
        for (int i = 0; i < 4; i++) code[n++] = (unsigned char)(word >> 8 * i);
    }
    char *text = line + 1;
    for (size_t length = strlen(text); length && text[length - 1] <= ' '; length--) text[length - 1] = '\0';
    char why[GCN_REASON];
    const char *wrong = compare(arch, text, code, n, why, sizeof why);
    n_instructions++;
    if (wrong && n_bad++ < SHOWN) printf("# %s: %s: %s\n", gcn_arch_name(arch), text, wrong);
}

static bool disassemble(const char *objdump, enum gcn_arch arch, const void *elf, size_t bytes)
{
    char path[] = "/tmp/yoke-decode.XXXXXX", command[1024], line[1024];
    const int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
    bool good = file && fwrite(elf, 1, bytes, file) == bytes;
    if (file) good &= !fclose(file);
    snprintf(command, sizeof command, "'%s' -d '%s'", objdump, path);
    FILE *pipe = good ? popen(command, "r") : NULL;
    while (pipe && fgets(line, sizeof line, pipe)) check_line(arch, line);
    good = pipe && !pclose(pipe);
    unlink(path);
    return good;
}

/* A file with a code object, which may have a head and a tail. */
static bool check_file(const char *objdump, const char *path)
{
    FILE *file = fopen(path, "rb");
    char reason[GCN_REASON] = "it cannot be read", *data = NULL;
    size_t bytes = 0, room = 0;
    while (file && !feof(file) && !ferror(file)) {
        if (bytes + 65536 > room) data = realloc(data, room = 2 * room + 65536);
        if (!data) break;
        bytes += fread(data + bytes, 1, room - bytes, file);
    }
    if (file) fclose(file);
    const char *elf = data ? memmem(data, bytes, "\177ELF", 4) : NULL;
    const size_t left = elf ? bytes - (size_t)(elf - data) : 0, n = elf ? gcn_object_extent(elf, left) : 0;
    struct gcn_object *object = n ? gcn_object_read(elf, n, 0, reason) : NULL;
    const bool good = object && disassemble(objdump, object->arch, elf, n);
    if (!good) printf("# %s: %s\n", path, object ? "the disassembler fails" : reason);
    gcn_object_destroy(object);
    free(data);
    return good;
}

int main(int argc, char **argv)
{
    int number = 0, failed = 0;
    for (int i = 2; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        const long instructions = n_instructions, bad = n_bad;
        int files = 0, broken = 0;
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
            char path[4096];
            if (*entry->d_name == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            files++;
            broken += !check_file(argv[1], path);
        }
        if (folder) closedir(folder);
        const bool good = files && !broken && n_bad == bad && n_instructions > instructions;
        failed += !good;
        printf("%sok %d - %ld instructions of %d code objects are decoded as LLVM does, %ld differ\n",
               good ? "" : "not ", ++number, n_instructions - instructions, files, n_bad - bad);
    }
    printf("1..%d\n", number);
    return failed || !number;
}

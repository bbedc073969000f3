/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line tables of DWARF 4 and 5 (section 6.2 of both standards): which line of which file an instruction was
 * made from.
 */
#include "emulate/hip/gcn_read.h"

#include <stdlib.h>

/* From `address` on the code is from this line, up to the next row. */
struct row {
    uint64_t address;
    uint32_t order; /* in the table: of rows with one address the last one holds */
    int32_t file;   /* an index of gcn_lines.files; -1: no code is here */
    int32_t line;
};

struct gcn_lines {
    struct row *rows;
    size_t n_rows, rows_room;
    char **files;
    size_t n_files, files_room;
};

enum { PATH = 1, STRING = 0x08, LINE_STRP = 0x1f, STRP = 0x0e }; /* DW_LNCT_path, DW_FORM_* */

/* A table while it is read. */
struct unit {
    const struct gcn_line_sections *sections;
    struct gcn_lines *lines;
    struct gcn_bytes b; /* the rest of the unit */
    unsigned version;
    int offset_bytes; /* 4, or 8 in the 64-bit format */
    unsigned least_instruction, line_range, opcode_base;
    int line_base;
    unsigned char lengths[256];
    size_t first_file; /* where the unit's files begin in lines->files */
};

static uint64_t uleb(struct gcn_bytes *b)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        const unsigned byte = gcn_u8(b);
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    b->torn = true;
    return 0;
}

static int64_t sleb(struct gcn_bytes *b)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        const unsigned byte = gcn_u8(b);
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80) continue;
        if (byte & 0x40 && shift + 7 < 64) value |= ~(uint64_t)0 << (shift + 7);
        return (int64_t)value;
    }
    b->torn = true;
    return 0;
}

/* Room for one more member of an array. */
static bool grow(void **array, size_t n, size_t *room, size_t bytes)
{
    if (n < *room) return true;
    const size_t more = *room ? 2 * *room : 64;
    void *grown = realloc(*array, more * bytes);
    if (!grown) return false;
    *array = grown, *room = more;
    return true;
}

static bool add_file(struct unit *u, const char *name)
{
    struct gcn_lines *l = u->lines;
    if (!name || !grow((void **)&l->files, l->n_files, &l->files_room, sizeof *l->files)) return false;
    l->files[l->n_files] = strdup(name);
    return l->files[l->n_files++] != NULL;
}

/* ---- the header ---- */

/* Lists of DWARF 4, each of which ends with an empty text. */
static bool read_lists_4(struct unit *u)
{
    const char *name;
    do {
        name = gcn_text(&u->b);
    } while (name && *name);
    if (!add_file(u, "")) return false; /* files count from 1 */
    while ((name = gcn_text(&u->b)) && *name) {
        if (!add_file(u, name)) return false;
        for (int i = 0; i < 3; i++) uleb(&u->b); /* folder, time, bytes */
    }
    return !u->b.torn;
}

/* A value of this form. *text_out is its text, or NULL for a number. false: the form is not known. */
static bool read_form(struct unit *u, uint64_t form, const char **text_out)
{
    *text_out = NULL;
    switch (form) {
    case STRING: *text_out = gcn_text(&u->b); break;
    case LINE_STRP:
        *text_out = gcn_text_at(&u->sections->line_texts, gcn_low_first(&u->b, u->offset_bytes));
        break;
    case STRP: *text_out = gcn_text_at(&u->sections->texts, gcn_low_first(&u->b, u->offset_bytes)); break;
    case 0x0b: gcn_take(&u->b, 1); break; /* DW_FORM_data1, and so on */
    case 0x05: gcn_take(&u->b, 2); break;
    case 0x06: gcn_take(&u->b, 4); break;
    case 0x07: gcn_take(&u->b, 8); break;
    case 0x1e: gcn_take(&u->b, 16); break;
    case 0x0f: uleb(&u->b); break;                  /* udata */
    case 0x09: gcn_take(&u->b, uleb(&u->b)); break; /* block */
    default: return false;
    }
    return !u->b.torn;
}

/* A list of DWARF 5, whose entries have the forms that stand in front of it. */
static bool read_list_5(struct unit *u, bool is_files)
{
    uint64_t content[16], form[16];
    const unsigned n = gcn_u8(&u->b);
    if (n > 16) return false;
    for (unsigned i = 0; i < n; i++) content[i] = uleb(&u->b), form[i] = uleb(&u->b);
    const uint64_t entries = uleb(&u->b);
    /* an entry without content would take no bytes, and a torn count much time */
    if (u->b.torn || (!n && entries)) return false;
    for (uint64_t e = 0; e < entries; e++) {
        const char *path = NULL;
        for (unsigned i = 0; i < n; i++) {
            const char *text;
            if (!read_form(u, form[i], &text)) return false;
            if (content[i] == PATH) path = text;
        }
        if (is_files && !add_file(u, path)) return false;
    }
    return true;
}

static bool read_header(struct unit *u)
{
    struct gcn_bytes *b = &u->b;
    u->version = gcn_u16(b);
    if (u->version < 4 || u->version > 5) return false;
    if (u->version == 5 && (gcn_u8(b) != 8 || gcn_u8(b))) return false; /* bytes of addresses, of segments */
    const uint64_t header_bytes = gcn_low_first(b, u->offset_bytes);
    if (b->torn || header_bytes > b->bytes - b->at) return false;
    const size_t program = b->at + (size_t)header_bytes, end = b->bytes;
    b->bytes = program;
    u->least_instruction = gcn_u8(b);
    if (gcn_u8(b) != 1) return false; /* instructions of several operations */
    gcn_u8(b);                        /* is_stmt */
    u->line_base = (int8_t)gcn_u8(b);
    u->line_range = gcn_u8(b);
    u->opcode_base = gcn_u8(b);
    if (!u->line_range || !u->opcode_base) return false;
    for (unsigned i = 1; i < u->opcode_base; i++) u->lengths[i] = gcn_u8(b);
    u->first_file = u->lines->n_files;
    if (!(u->version == 4 ? read_lists_4(u) : read_list_5(u, false) && read_list_5(u, true))) return false;
    if (b->torn) return false;
    b->at = program, b->bytes = end;
    return true;
}

/* ---- the program ---- */

struct machine {
    uint64_t address, file;
    int64_t line;
};

static bool add_row(struct unit *u, const struct machine *m, bool is_end)
{
    struct gcn_lines *l = u->lines;
    if (!is_end && (m->file >= l->n_files - u->first_file || m->line < 0 || m->line > INT32_MAX))
        return false;
    if (l->n_rows >= UINT32_MAX || !grow((void **)&l->rows, l->n_rows, &l->rows_room, sizeof *l->rows))
        return false;
    const int32_t file = is_end ? -1 : (int32_t)(u->first_file + m->file);
    l->rows[l->n_rows] = (struct row){ m->address, (uint32_t)l->n_rows, file, is_end ? 0 : (int32_t)m->line };
    l->n_rows++;
    return true;
}

static void advance(const struct unit *u, struct machine *m, uint64_t operations)
{
    m->address += operations * u->least_instruction;
}

static const struct machine start = { 0, 1, 1 };

/* An opcode whose length stands in front of it. */
static bool extended(struct unit *u, struct machine *m)
{
    const uint64_t bytes = uleb(&u->b);
    struct gcn_bytes inner = gcn_part(&u->b, u->b.at, bytes);
    if (!gcn_take(&u->b, bytes) || !bytes) return false;
    switch (gcn_u8(&inner)) {
    case 1: /* DW_LNE_end_sequence */
        if (!add_row(u, m, true)) return false;
        *m = start;
        return true;
    case 2: /* DW_LNE_set_address */ m->address = gcn_u64(&inner); return !inner.torn;
    case 3: { /* DW_LNE_define_file */ return add_file(u, gcn_text(&inner));
    }
    default: return true;
    }
}

static bool standard(struct unit *u, struct machine *m, unsigned opcode)
{
    switch (opcode) {
    case 1: return add_row(u, m, false);
    case 2: advance(u, m, uleb(&u->b)); return true;
    case 3: m->line = (int64_t)((uint64_t)m->line + (uint64_t)sleb(&u->b)); return true;
    case 4: m->file = uleb(&u->b); return true;
    case 8: advance(u, m, (255 - u->opcode_base) / u->line_range); return true;
    case 9: m->address += gcn_u16(&u->b); return true;
    default: /* columns, statements, blocks; nothing of them is needed */
        for (unsigned i = 0; i < u->lengths[opcode]; i++) uleb(&u->b);
        return true;
    }
}

static bool run(struct unit *u)
{
    struct machine m = start;
    while (!u->b.torn && u->b.at < u->b.bytes) {
        const unsigned opcode = gcn_u8(&u->b);
        bool good = true;
        if (opcode >= u->opcode_base) {
            const unsigned special = opcode - u->opcode_base;
            advance(u, &m, special / u->line_range);
            m.line += u->line_base + (int)(special % u->line_range);
            good = add_row(u, &m, false);
        } else {
            good = opcode ? standard(u, &m, opcode) : extended(u, &m);
        }
        if (!good) return false;
    }
    return !u->b.torn;
}

/* ---- all units ---- */

static int by_address(const void *a, const void *b)
{
    const struct row *p = a, *q = b;
    if (p->address != q->address) return p->address < q->address ? -1 : 1;
    if ((p->file < 0) != (q->file < 0))
        return p->file < 0 ? -1 : 1; /* code that begins where other code ends */
    return p->order < q->order ? -1 : p->order > q->order;
}

bool gcn_lines_read(const struct gcn_line_sections *sections, struct gcn_lines **lines_out, char *reason)
{
    struct gcn_bytes all = sections->lines;
    struct gcn_lines *lines = *lines_out = calloc(1, sizeof *lines);
    if (!lines) return gcn_refuse(reason, "no memory for the lines of a code object");
    while (all.at < all.bytes) {
        struct unit u = { .sections = sections, .lines = lines, .offset_bytes = 4 };
        const size_t at = all.at;
        uint64_t bytes = gcn_u32(&all);
        if (bytes == UINT32_MAX) bytes = gcn_u64(&all), u.offset_bytes = 8;
        u.b = gcn_part(&all, all.at, bytes);
        gcn_take(&all, bytes);
        if (all.torn || !read_header(&u) || !run(&u))
            return gcn_refuse(
                reason, "the line table at byte %zu of .debug_line is torn, or not of DWARF 4 or 5", at);
    }
    if (lines->n_rows) qsort(lines->rows, lines->n_rows, sizeof *lines->rows, by_address);
    return true;
}

void gcn_lines_destroy(struct gcn_lines *lines)
{
    if (!lines) return;
    for (size_t i = 0; i < lines->n_files; i++) free(lines->files[i]);
    free(lines->files);
    free(lines->rows);
    free(lines);
}

bool gcn_line(const struct gcn_object *object, uint64_t offset, const char **file_out, int *line_out)
{
    const struct gcn_lines *lines = object->lines;
    if (!lines) return false;
    size_t low = 0, high = lines->n_rows; /* the rows in front of `low` begin at the offset or before it */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (lines->rows[middle].address <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    /* Line 0 says that the instruction belongs to no line. The one before is the nearest. */
    while (low && lines->rows[low - 1].file >= 0 && !lines->rows[low - 1].line) low--;
    if (!low || lines->rows[low - 1].file < 0) return false;
    *file_out = lines->files[lines->rows[low - 1].file];
    *line_out = lines->rows[low - 1].line;
    return true;
}

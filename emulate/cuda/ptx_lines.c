/* SPDX-License-Identifier: Apache-2.0 */
/* .file and .loc: which line of which source file an instruction comes from. */
#include "emulate/cuda/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

bool ptx_file(struct ptx_parser *p)
{
    struct ptx_module *m = p->module;
    int64_t number;
    if (!ptx_number(p, &number)) return false;
    const struct ptx_token name = p->token;
    if (name.length < 2 || *name.text != '"' || number < 0 || number > 10000)
        return ptx_parse_error(p, KERNEL_SYNTAX, name.line, ".file has no number and name");
    if (number >= m->n_files) {
        char **grown = realloc(m->files, (size_t)(number + 1) * sizeof *grown);
        if (!grown) return ptx_no_memory(p);
        memset(grown + m->n_files, 0, (size_t)(number + 1 - m->n_files) * sizeof *grown);
        m->files = grown;
        m->n_files = (int)number + 1;
    }
    /* messages need the last part of the path only */
    const char *begin = name.text + 1, *end = name.text + name.length - 1;
    for (const char *c = begin; c < end; c++)
        if (*c == '/') begin = c + 1;
    free(m->files[number]);
    m->files[number] = strndup(begin, (size_t)(end - begin));
    if (!m->files[number]) return ptx_no_memory(p);
    if (!ptx_next(p)) return false;
    while (ptx_is(&p->token, ",")) { /* a time and a size */
        int64_t ignored;
        if (!ptx_next(p) || !ptx_number(p, &ignored)) return false;
    }
    return true;
}

/* The entry of a file, line and column, which is added if it is new. */
static struct ptx_loc *loc_of(struct ptx_parser *p, int file, int line, int column)
{
    for (int i = p->n_locs - 1; i >= 0; i--)
        if (p->locs[i].line == line && p->locs[i].column == column && p->locs[i].file == file)
            return &p->locs[i];
    if (!ptx_grow(p, &p->locs, p->n_locs, &p->loc_capacity, sizeof *p->locs)) return NULL;
    p->locs[p->n_locs] = (struct ptx_loc){ file, line, column, -1 };
    return &p->locs[p->n_locs++];
}

static bool new_place(struct ptx_parser *p, int file, int line, int *place_out)
{
    struct ptx_module *m = p->module;
    if (!ptx_grow(p, &m->places, m->n_places, &m->place_capacity, sizeof *m->places)) return false;
    m->places[m->n_places] = (struct ptx_place){ file, line };
    *place_out = m->n_places++;
    return true;
}

static bool three(struct ptx_parser *p, int64_t v[3])
{
    for (int i = 0; i < 3; i++)
        if (!ptx_number(p, &v[i])) return false;
    return true;
}

bool ptx_loc(struct ptx_parser *p)
{
    int64_t own[3], outer[3];
    if (!three(p, own)) return false;
    struct ptx_loc *loc = loc_of(p, (int)own[0], (int)own[1], (int)own[2]);
    if (!loc) return false;
    int place = loc->place;
    bool is_inlined = false;
    while (ptx_is(&p->token, ",")) {
        if (!ptx_next(p)) return false;
        if (ptx_is(&p->token, "function_name")) {
            int64_t offset;
            if (!ptx_next(p) || !ptx_next(p)) return false;
            if (ptx_is(&p->token, "+") && !(ptx_next(p) && ptx_number(p, &offset))) return false;
        } else if (ptx_is(&p->token, "inlined_at")) {
            if (!ptx_next(p) || !three(p, outer)) return false;
            /* the caller's own .loc came before, and knows where its function is inlined */
            struct ptx_loc *caller = loc_of(p, (int)outer[0], (int)outer[1], (int)outer[2]);
            if (!caller) return false;
            if (caller->place < 0 && !new_place(p, (int)outer[0], (int)outer[1], &caller->place))
                return false;
            place = caller->place;
            is_inlined = true;
        } else {
            return ptx_parse_error(p, KERNEL_SYNTAX, p->token.line, ".loc has the unknown attribute '%.*s'",
                                   p->token.length, p->token.text);
        }
    }
    if (!is_inlined) {
        const struct ptx_place *known = place >= 0 ? &p->module->places[place] : NULL;
        if ((!known || known->file != own[0] || known->line != own[1])
            && !new_place(p, (int)own[0], (int)own[1], &place))
            return false;
    }
    loc = loc_of(p, (int)own[0], (int)own[1], (int)own[2]);
    if (!loc) return false;
    loc->place = p->place = place;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reads YAML into a tree of nodes with places. libyaml's events come one by one, so excess ends early. */
#include "train/files/yaml.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "core/base/base.h"

enum { MOST_BYTES = 1 << 20, DEEPEST = 12, MOST_NODES = 1 << 14, MOST_KEYS = 1 << 10, LONGEST_KEY = 200 };

struct reader {
    struct yokei_yaml *yaml;
    const char *text; /* the whole file */
    size_t bytes;
    yaml_parser_t parser;
    int room;            /* nodes that are allocated */
    int parent[DEEPEST]; /* the open mappings and lists */
    int last[DEEPEST];   /* the last child of each; -1 */
    int depth;
    char *key; /* of the mapping that is open: its value comes next */
    yaml_mark_t key_mark;
};

static yoke_status fail_in(const struct yokei_yaml *yaml, size_t line, size_t column, const char *format,
                           va_list list)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, list);
    return yoke_fail(YOKE_ECONFIG, "%s:%zu:%zu: %s", yaml->path, line, column, text);
}

static yoke_status fail_at(const struct reader *r, yaml_mark_t mark, const char *format, ...)
    YOKE_PRINTF(3, 4);

static yoke_status fail_at(const struct reader *r, yaml_mark_t mark, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const yoke_status status = fail_in(r->yaml, mark.line + 1, mark.column + 1, format, list);
    va_end(list);
    return status;
}

yoke_status yokei_yaml_fail(const struct yokei_yaml *yaml, const struct yokei_yaml_node *node,
                            const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const yoke_status status = fail_in(yaml, node->line, node->column, format, list);
    va_end(list);
    return status;
}

yoke_status yokei_yaml_fail_key(const struct yokei_yaml *yaml, const struct yokei_yaml_node *node,
                                const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const yoke_status status = fail_in(yaml, node->key_line, node->key_column, format, list);
    va_end(list);
    return status;
}

static yoke_status parser_failed(const struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return yoke_fail(YOKE_ENOMEM, "no memory to read %s", r->yaml->path);
    if (p->error == YAML_READER_ERROR) { /* bytes that are no text; libyaml gives their offset alone */
        yaml_mark_t mark = { 0 };
        for (size_t i = 0; i < YOKE_MIN(p->problem_offset, r->bytes); i++) {
            mark.column++;
            if (r->text[i] == '\n') mark.line++, mark.column = 0;
        }
        return fail_at(r, mark, "not readable as YAML: %s", p->problem);
    }
    char begun[64] = "";
    if (p->context && p->context_mark.line < p->problem_mark.line)
        yokei_text(begun, sizeof begun, ", which begins in line %zu", p->context_mark.line + 1);
    return fail_at(r, p->problem_mark, "not valid YAML: %s%s%s%s", p->problem ? p->problem : "unknown reason",
                   p->context ? " " : "", p->context ? p->context : "", begun);
}

/* Add a node to the open mapping or list. A key that was read before belongs to this node. */
static yoke_status add(struct reader *r, yaml_mark_t mark, enum yokei_yaml_kind kind, char *text)
{
    struct yokei_yaml *y = r->yaml;
    if (y->n_nodes == MOST_NODES) {
        free(text);
        return fail_at(r, mark, "more than %d values; shorten the file", MOST_NODES);
    }
    if (y->n_nodes == r->room) {
        const int room = r->room ? 2 * r->room : 64;
        void *grown = realloc(y->node, (size_t)room * sizeof *y->node);
        if (!grown) {
            free(text);
            return yoke_fail(YOKE_ENOMEM, "no memory to read %s", y->path);
        }
        y->node = grown, r->room = room;
    }
    const int index = y->n_nodes++;
    const yaml_mark_t key = r->key ? r->key_mark : mark, place = kind == YOKEI_YAML_TEXT ? mark : key;
    y->node[index] = (struct yokei_yaml_node){ .kind = kind,
                                               .key = r->key,
                                               .text = text,
                                               .line = place.line + 1,
                                               .column = place.column + 1,
                                               .key_line = key.line + 1,
                                               .key_column = key.column + 1,
                                               .first = -1,
                                               .next = -1 };
    r->key = NULL;
    if (!r->depth) return YOKE_OK;
    struct yokei_yaml_node *parent = &y->node[r->parent[r->depth - 1]];
    int *last = &r->last[r->depth - 1];
    if (*last < 0)
        parent->first = index;
    else
        y->node[*last].next = index;
    *last = index;
    parent->n++;
    return YOKE_OK;
}

static yoke_status open_node(struct reader *r, yaml_mark_t mark, enum yokei_yaml_kind kind)
{
    if (r->depth == DEEPEST) return fail_at(r, mark, "nested deeper than %d", DEEPEST);
    YOKE_TRY(add(r, mark, kind, NULL));
    r->parent[r->depth] = r->yaml->n_nodes - 1;
    r->last[r->depth++] = -1;
    return YOKE_OK;
}

static bool wants_key(const struct reader *r)
{
    return r->depth && !r->key && r->yaml->node[r->parent[r->depth - 1]].kind == YOKEI_YAML_MAPPING;
}

/* The key of the value that comes next. */
static yoke_status take_key(struct reader *r, const yaml_event_t *event, char *text)
{
    const struct yokei_yaml *y = r->yaml;
    const struct yokei_yaml_node *mapping = &y->node[r->parent[r->depth - 1]];
    r->key = text;
    r->key_mark = event->start_mark;
    if (strlen(text) > LONGEST_KEY)
        return fail_at(r, r->key_mark, "a key of %zu bytes; keys have at most %d", strlen(text), LONGEST_KEY);
    if (mapping->n == MOST_KEYS)
        return fail_at(r, r->key_mark, "more than %d keys in one mapping", MOST_KEYS);
    for (const struct yokei_yaml_node *n = yokei_yaml_first(y, mapping); n; n = yokei_yaml_next(y, n))
        if (!strcmp(n->key, text))
            return fail_at(r, r->key_mark, "'%.80s' is given twice; the first is in line %zu", text,
                           n->key_line);
    return YOKE_OK;
}

static yoke_status take_scalar(struct reader *r, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    if (strlen(value) != event->data.scalar.length)
        return fail_at(r, event->start_mark, "the text has a zero byte");
    char *text = strdup(value);
    if (!text) return yoke_fail(YOKE_ENOMEM, "no memory to read %s", r->yaml->path);
    return wants_key(r) ? take_key(r, event, text) : add(r, event->start_mark, YOKEI_YAML_TEXT, text);
}

/* A value that another place of the file defines would multiply what a short file says. */
static yoke_status refuse_reference(const struct reader *r, const yaml_event_t *e)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_ALIAS_EVENT)
        return fail_at(r, e->start_mark, "an alias (*%.40s) is not read; write the value again",
                       e->data.alias.anchor);
    if (e->type == YAML_SCALAR_EVENT) anchor = e->data.scalar.anchor, tag = e->data.scalar.tag;
    if (e->type == YAML_SEQUENCE_START_EVENT)
        anchor = e->data.sequence_start.anchor, tag = e->data.sequence_start.tag;
    if (e->type == YAML_MAPPING_START_EVENT)
        anchor = e->data.mapping_start.anchor, tag = e->data.mapping_start.tag;
    if (anchor) return fail_at(r, e->start_mark, "an anchor (&%.40s) is not read; remove it", anchor);
    if (tag) return fail_at(r, e->start_mark, "a tag (%.40s) is not read; remove it", tag);
    return YOKE_OK;
}

static yoke_status take_event(struct reader *r, const yaml_event_t *event, int *n_documents)
{
    YOKE_TRY(refuse_reference(r, event));
    const bool begins = event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT;
    if (begins && wants_key(r))
        return fail_at(r, event->start_mark, "a key must be a word, no list or mapping");
    if (!r->depth && r->yaml->n_nodes == 0 && (begins || event->type == YAML_SCALAR_EVENT)
        && event->type != YAML_MAPPING_START_EVENT)
        return fail_at(r, event->start_mark, "expected 'key: value' lines");
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++*n_documents > 1)
            return fail_at(r, event->start_mark, "a second YAML document; only one is read");
        return YOKE_OK;
    case YAML_MAPPING_START_EVENT: return open_node(r, event->start_mark, YOKEI_YAML_MAPPING);
    case YAML_SEQUENCE_START_EVENT: return open_node(r, event->start_mark, YOKEI_YAML_LIST);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT: r->depth--; return YOKE_OK;
    case YAML_SCALAR_EVENT: return take_scalar(r, event);
    default: return YOKE_OK;
    }
}

yoke_status yokei_yaml_parse(const char *path, const char *text, size_t bytes, struct yokei_yaml *yaml_out)
{
    struct yokei_yaml yaml = { .path = path };
    struct reader r = { .yaml = &yaml, .text = text, .bytes = bytes };
    yaml_event_t event;
    yoke_status status = YOKE_OK;
    int n_documents = 0;
    if (!yaml_parser_initialize(&r.parser)) return yoke_fail(YOKE_ENOMEM, "no memory to read %s", path);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    for (bool is_end = false; !is_end && !status;) {
        if (!yaml_parser_parse(&r.parser, &event)) {
            status = parser_failed(&r);
            break;
        }
        is_end = event.type == YAML_STREAM_END_EVENT;
        status = take_event(&r, &event, &n_documents);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&r.parser);
    free(r.key);
    if (!status && !yaml.n_nodes)
        status = yoke_fail(YOKE_ECONFIG, "%s:1:1: the file is empty; expected 'key: value' lines", path);
    if (status)
        yokei_yaml_free(&yaml);
    else
        *yaml_out = yaml;
    return status;
}

yoke_status yokei_yaml_read(const char *path, struct yokei_yaml *yaml_out)
{
    void *data;
    size_t bytes;
    YOKE_TRY(yokei_file_read_as(path, YOKE_ECONFIG, MOST_BYTES, &data, &bytes));
    const yoke_status status = yokei_yaml_parse(path, data, bytes, yaml_out);
    free(data);
    return status;
}

void yokei_yaml_free(struct yokei_yaml *yaml)
{
    for (int i = 0; i < yaml->n_nodes; i++) {
        free((char *)(uintptr_t)yaml->node[i].key);
        free((char *)(uintptr_t)yaml->node[i].text);
    }
    free(yaml->node);
    *yaml = (struct yokei_yaml){ 0 };
}

const struct yokei_yaml_node *yokei_yaml_first(const struct yokei_yaml *yaml,
                                               const struct yokei_yaml_node *node)
{
    return node->first < 0 ? NULL : &yaml->node[node->first];
}

const struct yokei_yaml_node *yokei_yaml_next(const struct yokei_yaml *yaml,
                                              const struct yokei_yaml_node *node)
{
    return node->next < 0 ? NULL : &yaml->node[node->next];
}

const struct yokei_yaml_node *yokei_yaml_get(const struct yokei_yaml *yaml,
                                             const struct yokei_yaml_node *mapping, const char *key)
{
    for (const struct yokei_yaml_node *n = yokei_yaml_first(yaml, mapping); n; n = yokei_yaml_next(yaml, n))
        if (n->key && !strcmp(n->key, key)) return n;
    return NULL;
}

yoke_status yokei_yaml_need(const struct yokei_yaml *yaml, const struct yokei_yaml_node *mapping,
                            const char *what, const char *key, const char *advice,
                            const struct yokei_yaml_node **value_out)
{
    const struct yokei_yaml_node *value = yokei_yaml_get(yaml, mapping, key);
    if (!value) return yokei_yaml_fail(yaml, mapping, "%s has no '%s': %s", what, key, advice);
    *value_out = value;
    return YOKE_OK;
}

yoke_status yokei_yaml_keys(const struct yokei_yaml *yaml, const struct yokei_yaml_node *mapping,
                            const char *what, const char *const names[])
{
    char shown[96], list[256] = "";
    if (mapping->kind != YOKEI_YAML_MAPPING)
        return yokei_yaml_fail(yaml, mapping, "%s is %s; it must be a mapping with keys such as '%s'", what,
                               yokei_yaml_show(mapping, shown, sizeof shown), names[0]);
    for (const struct yokei_yaml_node *n = yokei_yaml_first(yaml, mapping); n; n = yokei_yaml_next(yaml, n)) {
        bool known = false;
        for (int i = 0; names[i] && !known; i++) known = !strcmp(names[i], n->key);
        if (known) continue;
        const char *nearest = yokei_nearest(n->key, names);
        if (nearest)
            return yokei_yaml_fail_key(yaml, n, "%s: unknown key '%.80s' (did you mean %s?)", what, n->key,
                                       nearest);
        for (int i = 0; names[i]; i++) {
            const size_t at = strlen(list);
            yokei_text(list + at, sizeof list - at, "%s%s", i ? ", " : "", names[i]);
        }
        return yokei_yaml_fail_key(yaml, n, "%s: unknown key '%.80s'; the keys are %s", what, n->key, list);
    }
    return YOKE_OK;
}

const char *yokei_yaml_show(const struct yokei_yaml_node *node, char *buffer, size_t bytes)
{
    if (node->kind == YOKEI_YAML_TEXT && node->text[0])
        yokei_text(buffer, bytes, strlen(node->text) > 60 ? "'%.60s...'" : "'%s'", node->text);
    else
        yokei_text(buffer, bytes, "%s",
                   node->kind == YOKEI_YAML_MAPPING ? "a mapping"
                   : node->kind == YOKEI_YAML_LIST  ? "a list"
                                                    : "empty");
    return buffer;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML files of options. An unknown key, a doubled key or a wrong value is an error. The error has line,
 * column and the nearest name.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "cli/cli.h"
#include "core/base/base.h"

struct reader {
    const char *path;
    yaml_document_t *document;
    struct cli_options
        *options; /* receives the values of the present section; NULL: values are only checked */
    cli_verbs verb;
};

static void place_of_node(const struct reader *reader, const yaml_node_t *node, char *out, size_t bytes)
{
    yokei_text(out, bytes, "%s:%zu:%zu", reader->path, node->start_mark.line + 1,
               node->start_mark.column + 1);
}

/* The text of a scalar, or NULL. */
static const char *scalar(const yaml_node_t *node)
{
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

/* Join a sequence of scalars with commas. The caller frees *out with free(). */
static yoke_status joined(const struct reader *reader, const yaml_node_t *node, const char *where,
                          const char *key, char **out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "no memory to read %s", reader->path);
    yoke_status status = YOKE_OK;
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top && !status;
         i++) {
        const char *item = scalar(yaml_document_get_node(reader->document, *i));
        if (!item || strchr(item, ','))
            status = yoke_fail(YOKE_ECONFIG, "%s: the elements of %s must be plain values without commas",
                               where, key);
        else
            fprintf(to, "%s%s", i == node->data.sequence.items.start ? "" : ",", item);
    }
    if (fclose(to) && !status) status = yoke_fail(YOKE_ENOMEM, "no memory to read %s", reader->path);
    if (status)
        free(text);
    else
        *out = text;
    return status;
}

static yoke_status set_value(const struct reader *reader, const struct cli_option *option,
                             const yaml_node_t *node, struct cli_options *into)
{
    char where[512], *list = NULL;
    place_of_node(reader, node, where, sizeof where);
    if (node->type == YAML_MAPPING_NODE)
        return yoke_fail(YOKE_ECONFIG, "%s: %s takes a value, not a mapping", where, option->name);
    if (node->type == YAML_SEQUENCE_NODE) {
        if (option->type != CLI_LIST && !option->ranges)
            return yoke_fail(YOKE_ECONFIG, "%s: %s takes one value, not a list", where, option->name);
        YOKE_TRY(joined(reader, node, where, option->name, &list));
    }
    const char *text = list ? list : scalar(node);
    yoke_status status;
    if (!*text)
        status = yoke_fail(YOKE_ECONFIG, "%s: %s has no value; give it one or remove the line", where,
                           option->name);
    else
        status = cli_options_set(into, option, text, where, YOKE_ECONFIG);
    free(list);
    return status;
}

static yoke_status unknown_key(const struct reader *reader, const char *where, const char *key)
{
    char hint[160];
    const struct cli_verb *verb = cli_verb_of(reader->verb);
    const struct cli_option *other = cli_option_anywhere(key);
    if (!other || other->no_key)
        return yoke_fail(YOKE_ECONFIG, "%s: unknown key '%s'%s; yoke %s --help lists what there is", where,
                         key, cli_hint(reader->verb, key, "", hint, sizeof hint), verb->name);
    for (const struct cli_verb *v = cli_verb_table; v->name; v++)
        if (other->verbs & v->bit)
            return yoke_fail(YOKE_ECONFIG,
                             "%s: key '%s' is an option of yoke %s, not of yoke %s; put it under '%s:'",
                             where, key, v->name, verb->name, v->name);
    return yoke_fail(YOKE_ECONFIG, "%s: key '%s' is not an option of yoke %s", where, key, verb->name);
}

static yoke_status doubled_key(const struct reader *reader, const yaml_node_t *mapping,
                               const yaml_node_pair_t *pair)
{
    const yaml_node_t *node = yaml_document_get_node(reader->document, pair->key);
    for (const yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < pair; p++) {
        const yaml_node_t *other = yaml_document_get_node(reader->document, p->key);
        const char *a = scalar(node), *b = scalar(other);
        if (!a || !b || strcmp(a, b)) continue;
        char where[512];
        place_of_node(reader, node, where, sizeof where);
        return yoke_fail(YOKE_ECONFIG, "%s: key '%s' was already given in line %zu", where, a,
                         other->start_mark.line + 1);
    }
    return YOKE_OK;
}

static yoke_status read_mapping(struct reader *reader, const yaml_node_t *mapping, bool top);

/*
 * Read the section of one verb. Its values are stored if the verb is the running one. They are checked in any
 * case, so that typing errors are found.
 */
static yoke_status read_section(struct reader *reader, const struct cli_verb *verb, const yaml_node_t *node)
{
    struct reader section = *reader;
    section.verb = verb->bit;
    if (node->type != YAML_MAPPING_NODE) {
        char where[512];
        place_of_node(reader, node, where, sizeof where);
        return yoke_fail(YOKE_ECONFIG, "%s: '%s' is a verb: write its options below it, indented", where,
                         verb->name);
    }
    if (verb->bit == reader->verb) return read_mapping(&section, node, false);
    YOKE_TRY(cli_options_new(verb->bit, &section.options));
    yoke_status status = read_mapping(&section, node, false);
    cli_options_free(section.options);
    return status;
}

static yoke_status read_mapping(struct reader *reader, const yaml_node_t *mapping, bool top)
{
    for (yaml_node_pair_t *pair = mapping->data.mapping.pairs.start; pair < mapping->data.mapping.pairs.top;
         pair++) {
        const yaml_node_t *node = yaml_document_get_node(reader->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(reader->document, pair->value);
        const char *key = scalar(node);
        char where[512];
        place_of_node(reader, node, where, sizeof where);
        if (!key) return yoke_fail(YOKE_ECONFIG, "%s: a key must be the name of an option", where);
        YOKE_TRY(doubled_key(reader, mapping, pair));
        const struct cli_option *option = cli_option_find(reader->verb, key);
        const struct cli_verb *verb = NULL;
        for (const struct cli_verb *v = cli_verb_table; v->name && top; v++)
            if (!strcmp(v->name, key)) verb = v;
        /*
         * There is an option `trace` of train and a verb `trace`. A plain value belongs to the option, and a
         * mapping to the verb.
         */
        if (verb && (!option || value->type == YAML_MAPPING_NODE)) {
            YOKE_TRY(read_section(reader, verb, value));
            continue;
        }
        if (!option || option->no_key) return unknown_key(reader, where, key);
        if (!strcmp(key, "config"))
            return yoke_fail(YOKE_ECONFIG, "%s: a configuration file cannot name another", where);
        YOKE_TRY(set_value(reader, option, value, reader->options));
    }
    return YOKE_OK;
}

static yoke_status parser_failed(const char *path, const yaml_parser_t *parser)
{
    size_t line = parser->problem_mark.line + 1, column = parser->problem_mark.column + 1;
    if (parser->error == YAML_MEMORY_ERROR) return yoke_fail(YOKE_ENOMEM, "no memory to read %s", path);
    if (parser->error == YAML_READER_ERROR)
        return yoke_fail(YOKE_ECONFIG, "%s: not readable as YAML at byte %zu: %s", path,
                         parser->problem_offset, parser->problem);
    return yoke_fail(YOKE_ECONFIG, "%s:%zu:%zu: not valid YAML: %s%s%s", path, line, column,
                     parser->problem ? parser->problem : "unknown reason", parser->context ? " " : "",
                     parser->context ? parser->context : "");
}

static yoke_status read_document(const char *path, yaml_parser_t *parser, struct cli_options *options)
{
    yaml_document_t document, second;
    if (!yaml_parser_load(parser, &document)) return parser_failed(path, parser);
    yaml_node_t *root = yaml_document_get_root_node(&document);
    struct reader reader = { path, &document, options, cli_options_verb(options) };
    yoke_status status = YOKE_OK;
    if (root && root->type != YAML_MAPPING_NODE)
        status = yoke_fail(YOKE_ECONFIG, "%s:%zu:%zu: expected 'key: value' lines", path,
                           root->start_mark.line + 1, root->start_mark.column + 1);
    else if (root)
        status = read_mapping(&reader, root, true);
    yaml_document_delete(&document);
    if (status || !root) return status;
    if (!yaml_parser_load(parser, &second)) return parser_failed(path, parser);
    root = yaml_document_get_root_node(&second);
    if (root)
        status = yoke_fail(YOKE_ECONFIG, "%s:%zu:1: a second YAML document; only one is read", path,
                           root->start_mark.line + 1);
    yaml_document_delete(&second);
    return status;
}

/*
 * Check how deep a document is nested, and how many anchors it has, before it is loaded. libyaml's time grows
 * with the square of either number. libyaml's events come one by one, so a document with too much is refused
 * where the excess begins.
 */
static yoke_status check_nesting(const char *path, const void *data, size_t bytes)
{
    enum { DEEPEST = 64, MOST_ANCHORS = 1000 };
    yaml_parser_t parser;
    yaml_event_t event = { .type = YAML_NO_EVENT };
    yoke_status status = YOKE_OK;
    int depth = 0, anchors = 0;
    if (!yaml_parser_initialize(&parser)) return yoke_fail(YOKE_ENOMEM, "no memory to read %s", path);
    yaml_parser_set_input_string(&parser, data, bytes);
    /* Text that is not YAML is refused later by the reader, with the reason. */
    for (bool is_end = false; !is_end && !status && yaml_parser_parse(&parser, &event);
         yaml_event_delete(&event)) {
        const bool begins = event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        is_end = event.type == YAML_STREAM_END_EVENT;
        depth += begins - (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT);
        anchors += (event.type == YAML_SEQUENCE_START_EVENT && event.data.sequence_start.anchor)
                   || (event.type == YAML_MAPPING_START_EVENT && event.data.mapping_start.anchor)
                   || (event.type == YAML_SCALAR_EVENT && event.data.scalar.anchor);
        if (depth > DEEPEST)
            status = yoke_fail(
                YOKE_ECONFIG,
                "%s:%zu:%zu: nested deeper than %d; options are 'key: value' lines, at most below the name of a verb",
                path, event.start_mark.line + 1, event.start_mark.column + 1, DEEPEST);
        else if (anchors > MOST_ANCHORS)
            status = yoke_fail(YOKE_ECONFIG, "%s:%zu:%zu: more than %d anchors", path,
                               event.start_mark.line + 1, event.start_mark.column + 1, MOST_ANCHORS);
    }
    yaml_parser_delete(&parser);
    return status;
}

yoke_status cli_config_read(const char *path, struct cli_options *options)
{
    enum { LONGEST = 1 << 17 };
    void *data;
    size_t bytes;
    yoke_status status = yokei_file_read_as(path, YOKE_ECONFIG, LONGEST, &data, &bytes);
    if (status) return yoke_fail_context(status, "configuration");
    yaml_parser_t parser;
    status = check_nesting(path, data, bytes);
    if (status) {
        free(data);
        return status;
    }
    if (!yaml_parser_initialize(&parser)) {
        free(data);
        return yoke_fail(YOKE_ENOMEM, "no memory to read %s", path);
    }
    yaml_parser_set_input_string(&parser, data, bytes);
    status = read_document(path, &parser, options);
    yaml_parser_delete(&parser);
    free(data);
    return status;
}

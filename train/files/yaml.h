/* SPDX-License-Identifier: Apache-2.0 */
/**
 * YAML files that people write: the whole file is read into a tree first. Each node knows its line and
 * column, so that an error can name the place. A file with an anchor, an alias or a tag is refused, and so is
 * a file with a key that stands twice, with more than one document, or with too much nesting.
 */
#ifndef TRAIN_FILES_YAML_H
#define TRAIN_FILES_YAML_H

#include <yoke/base.h>

enum yokei_yaml_kind { YOKEI_YAML_TEXT, YOKEI_YAML_LIST, YOKEI_YAML_MAPPING };

struct yokei_yaml_node {
    enum yokei_yaml_kind kind;
    const char *key;             /* if the node is the value of a mapping's key; otherwise NULL */
    const char *text;            /* of a scalar, without quotes */
    size_t line, column;         /* of the text; of a list or a mapping: of its key if it has one. From 1 */
    size_t key_line, key_column; /* of the key; as `line` and `column` if there is none */
    int n;                       /* number of children */
    int first, next; /* indices of nodes: the first child, and the next child of the same parent; -1 */
};

/** A file's tree. Node 0 is the root, a mapping. */
struct yokei_yaml {
    const char *path; /* for error texts; must outlive the tree */
    struct yokei_yaml_node *node;
    int n_nodes;
};

/**
 * Read a file of at most 1 MiB whose top level is a mapping. YOKE_ECONFIG: the file cannot be read, is no
 * such YAML, or is refused by the rules above. YOKE_ENOMEM. Free the tree with yokei_yaml_free.
 */
yoke_status yokei_yaml_read(const char *path, struct yokei_yaml *yaml_out);
/** The same for text in memory. `path` is used in error texts only. */
yoke_status yokei_yaml_parse(const char *path, const char *text, size_t bytes, struct yokei_yaml *yaml_out);
void yokei_yaml_free(struct yokei_yaml *yaml);

/** Fail with YOKE_ECONFIG and "path:line:column: ". `node` may not be NULL. */
yoke_status yokei_yaml_fail(const struct yokei_yaml *yaml, const struct yokei_yaml_node *node,
                            const char *format, ...) YOKE_PRINTF(3, 4);
/** The same with the place of the node's key. */
yoke_status yokei_yaml_fail_key(const struct yokei_yaml *yaml, const struct yokei_yaml_node *node,
                                const char *format, ...) YOKE_PRINTF(3, 4);
/** The children of a node, one after the other. NULL: there is none, or no other. */
const struct yokei_yaml_node *yokei_yaml_first(const struct yokei_yaml *yaml,
                                               const struct yokei_yaml_node *node);
const struct yokei_yaml_node *yokei_yaml_next(const struct yokei_yaml *yaml,
                                              const struct yokei_yaml_node *node);
/** The value of a key; NULL: the mapping does not have it. */
const struct yokei_yaml_node *yokei_yaml_get(const struct yokei_yaml *yaml,
                                             const struct yokei_yaml_node *mapping, const char *key);
/** As yokei_yaml_get, but a key that is missing is YOKE_ECONFIG: "<what> has no <key>: <advice>". */
yoke_status yokei_yaml_need(const struct yokei_yaml *yaml, const struct yokei_yaml_node *mapping,
                            const char *what, const char *key, const char *advice,
                            const struct yokei_yaml_node **value_out);
/**
 * Check that a node is a mapping with keys of `names` (NULL-terminated) alone. `what` says what the mapping
 * is about, such as "a link". The error about another key has the nearest name.
 */
yoke_status yokei_yaml_keys(const struct yokei_yaml *yaml, const struct yokei_yaml_node *mapping,
                            const char *what, const char *const names[]);
/** "a mapping", "a list", "'text'" or "nothing", for error texts. Uses a buffer of the caller. */
const char *yokei_yaml_show(const struct yokei_yaml_node *node, char *buffer, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** What the files that read a code object share. */
#ifndef EMULATE_HIP_GCN_READ_H
#define EMULATE_HIP_GCN_READ_H

#include "emulate/hip/gcn_bytes.h"
#include "emulate/hip/gcn_object.h"

/** Write a reason and return false. */
bool gcn_refuse(char *reason, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * gcn_metadata.c: read the metadata, a text of MessagePack, into object->entries: names, arguments and
 * counts. Each entry's symbol ("NAME.kd") is written to `symbols`, to be freed with its texts; it has
 * object->n_entries members.
 */
bool gcn_metadata_read(struct gcn_bytes note, struct gcn_object *object, char ***symbols_out, char *reason);

/** gcn_line.c: read line tables of DWARF 4 and 5. Their addresses are offsets of the image. */
struct gcn_line_sections {
    struct gcn_bytes lines, line_texts, texts; /* .debug_line, .debug_line_str, .debug_str */
};
bool gcn_lines_read(const struct gcn_line_sections *sections, struct gcn_lines **lines_out, char *reason);
void gcn_lines_destroy(struct gcn_lines *lines);

/** MessagePack, gcn_msgpack.c. Each returns false where the next value is torn or not of this kind. */
bool gcn_msgpack_map(struct gcn_bytes *b, uint32_t *pairs_out);
bool gcn_msgpack_array(struct gcn_bytes *b, uint32_t *members_out);
bool gcn_msgpack_text(struct gcn_bytes *b, const char **text_out, uint32_t *bytes_out);
bool gcn_msgpack_number(struct gcn_bytes *b, uint64_t *number_out); /* also true and false: 1 and 0 */
bool gcn_msgpack_skip(struct gcn_bytes *b);                         /* a value of any kind */

#endif

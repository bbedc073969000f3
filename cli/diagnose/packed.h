/* SPDX-License-Identifier: Apache-2.0 */
/** The bytes of a timeline's file in pieces. Files of gzip are unpacked on the way. */
#ifndef CLI_DIAGNOSE_PACKED_H
#define CLI_DIAGNOSE_PACKED_H

#include <stddef.h>
#include <yoke/base.h>

struct diagnose_packed;
/**
 * Open a file. YOKE_EDATA: it cannot be read, or is packed in a way that is not unpacked here; the text says
 * which program unpacks it. YOKE_ENOMEM.
 */
yoke_status diagnose_packed_open(const char *path, struct diagnose_packed **file_out);
/**
 * The next bytes: buffer [room]. *n_out is 0 at the end. The memory does not grow with the file. YOKE_EDATA:
 * the file cannot be read, or unpacks to far more than a timeline does.
 */
yoke_status diagnose_packed_read(struct diagnose_packed *file, char *buffer, size_t room, size_t *n_out);
/** After the end: why it came before the end of the packed data. NULL: it did not. */
const char *diagnose_packed_damage(const struct diagnose_packed *file);
void diagnose_packed_close(struct diagnose_packed *file);

#endif

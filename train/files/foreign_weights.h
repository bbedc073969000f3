/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Weights in formats that Yoke does not read. The messages name the file that was found, and give a command
 * that converts it where there is one. Such a command never writes to a file that is there already.
 */
#ifndef TRAIN_FILES_FOREIGN_WEIGHTS_H
#define TRAIN_FILES_FOREIGN_WEIGHTS_H

#include <yoke/base.h>

/** Refuse a file of another format, which is recognised by its first bytes. YOKE_EDATA. */
yoke_status yokei_refuse_foreign_file(const char *path);
/**
 * Refuse a folder that holds neither of the files `names`. YOKE_EDATA; the message says what it has instead.
 */
yoke_status yokei_refuse_foreign_folder(const char *folder, const char *const names[2]);
/** Write a path as a Python string that stands in a shell's '…': a path may have quotes in it. */
void yokei_python_string(const char *path, char *out, size_t bytes);

#endif

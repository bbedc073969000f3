/* SPDX-License-Identifier: Apache-2.0 */
/** Where the files of AMD's libraries of matrix products are looked for. */
#include <stdlib.h>
#include <string.h>

#include "backends/hip/products.h"

static bool open_first(const struct hip_product_file *file, const struct hip_library *hip, char *why,
                       size_t bytes)
{
    const char *given = getenv(file->variable);
    char path[1024];
    if (given && *given) return file->open("", given, why, bytes);
    if (!hip->emulated)
        return yokei_folders_open_newest(yokei_hip_folders, file->files, file->n_files, hip->numbers->major,
                                         file->open, why, bytes);
    /* The stand-in lies beside the stand-in for HIP. AMD's library cannot work with that. */
    yokei_stand_in_path("hip", file->emulated, path, sizeof path);
    return file->open("", path, why, bytes);
}

bool yokei_hip_product_file_open(struct hip_product_file *file, const struct hip_library *hip, char *reason,
                                 size_t bytes)
{
    char why[YOKE_REASON_BYTES] = "";
    const char *given = getenv(file->variable);
    if (given && !strcmp(given, "off")) {
        yokei_text(reason, bytes, "%s=off turns %s off", file->variable, file->name);
        return false;
    }
    if (!file->tried) {
        file->tried = true;
        file->is_open = open_first(file, hip, why, sizeof why);
        if (!file->is_open)
            yokei_text(file->reason, sizeof file->reason, "no %s (%s)%s%s", file->name, why,
                       hip->emulated ? "" : "; install ROCm's package ", hip->emulated ? "" : file->package);
    }
    if (!file->is_open) yokei_text(reason, bytes, "%s", file->reason);
    return file->is_open;
}

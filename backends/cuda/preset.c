/* SPDX-License-Identifier: Apache-2.0 */
/** The algorithms of cuBLASLt that a caller has chosen for single products, such as those of a plan. */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

struct cuda_preset {
    struct cuda_preset *next;
    char product[YOKEI_PRODUCT_BYTES];
    struct cuda_algorithm fields;
};

yoke_status yokei_cuda_preset_add(const yoke_device *device, struct cuda_preset **list, const char *product,
                                  const char *algorithm)
{
    struct cuda_algorithm fields;
    if (strlen(product) >= YOKEI_PRODUCT_BYTES || !yokei_cuda_algorithm_parse(algorithm, &fields))
        return yoke_fail(YOKE_ECONFIG, "%s: '%.100s' is no algorithm of cuBLASLt", device->info.spec,
                         algorithm);
    struct cuda_preset *preset = calloc(1, sizeof *preset);
    if (!preset) return yokei_gpu_no_host_memory(device, "an algorithm");
    yokei_text(preset->product, sizeof preset->product, "%s", product);
    preset->fields = fields;
    preset->next = *list;
    *list = preset;
    return YOKE_OK;
}

const struct cuda_algorithm *yokei_cuda_preset_of(const struct cuda_preset *list, const char *product)
{
    while (list && strcmp(list->product, product) != 0) list = list->next;
    return list ? &list->fields : NULL;
}

void yokei_cuda_presets_free(struct cuda_preset *list)
{
    while (list) {
        struct cuda_preset *next = list->next;
        free(list);
        list = next;
    }
}

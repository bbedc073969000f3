/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which weight changed: the next checkpoint of the run beside that of a replay. A flipped exponent bit moves
 * one element far. The optimizer moves all others by little, although they all go another way afterwards.
 */
#include <math.h>
#include <string.h>

#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"
#include "train/postmortem/inside.h"

/* The element must be so many times as far from the replay's as the furthest one of all other tensors. */
static const double FAR = 8;

struct furthest {
    struct yokei_tensor_difference first;
    double second;
};

static void note(void *context, const struct yokei_tensor_difference *d)
{
    struct furthest *f = context;
    if (d->problem) return;
    if (d->largest > f->first.largest) {
        f->second = f->first.largest;
        f->first = *d;
    } else
        f->second = fmax(f->second, d->largest);
}

/* The layer of the weight. If one rank alone holds it, that rank is at fault, whatever its outputs say. */
static void note_holder(struct yokei_postmortem *p)
{
    struct yokei_postmortem_facts *f = p->facts;
    int holder = -1, n = 0;
    for (int r = 0; r < p->boxes->n; r++)
        for (uint32_t i = 0; p->boxes->box[r] && i < p->boxes->box[r]->head.n_tensors; i++) {
            const struct yokei_box *box = p->boxes->box[r];
            if (strcmp(box->tensors[i].name, f->weight) != 0) continue;
            holder = r;
            n++;
            yokei_text(f->weight_layer, sizeof f->weight_layer, "%s",
                       yokei_box_layer_name(box, box->tensors[i].layer));
        }
    if (n != 1 || p->boxes->n < 2) return;
    f->own.ranks_off = (struct yokei_ranks_off){ .n = 1, .rank = { holder } };
    yokei_text(f->own.ranks_off.what, sizeof f->own.ranks_off.what, "it alone holds the weight that changed");
}

void yokei_postmortem_compare_weights(struct yokei_postmortem *p, const struct yokei_postmortem_order *o,
                                      const char *folder)
{
    struct yokei_checkpoint *then = NULL, *now = NULL;
    struct furthest found = { .second = 0 };
    struct yokei_postmortem_facts *f = p->facts;
    char saved[4200], path[4300];
    yokei_postmortem_save_folder(folder, saved, sizeof saved);
    yokei_checkpoint_path(saved, o->last, path, sizeof path);
    yoke_status status = yokei_checkpoint_open(o->beside, 0, &then);
    if (!status) status = yokei_checkpoint_open(path, YOKEI_SAFETENSORS_NO_HASH, &now);
    if (!status) status = yokei_checkpoint_compare(then, now, &found, note);
    yokei_checkpoint_close(then);
    yokei_checkpoint_close(now);
    if (status || !(found.first.largest > FAR * found.second)) return;
    yokei_text(f->weight, sizeof f->weight, "%s", found.first.name);
    f->weight_at = found.first.at;
    f->weight_apart = found.first.largest;
    f->others_apart = found.second;
    f->weight_step = o->last;
    note_holder(p);
}

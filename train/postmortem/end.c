/* SPDX-License-Identifier: Apache-2.0 */
/* Where the files of a replay lie, and how it ends: the trainer is asked to stop behind the last step. */
#include <signal.h>

#include "core/base/base.h"
#include "train/postmortem/inside.h"

void yokei_postmortem_save_folder(const char *folder, char *path, size_t bytes)
{
    yokei_text(path, bytes, "%s/checkpoints", folder);
}

static volatile sig_atomic_t stop;
static int64_t last_step;

static void stop_before_last(void *context, const struct yokei_training_progress *progress)
{
    (void)context;
    if (progress->step >= last_step - 1) stop = 1;
}

void yokei_replay_end_behind(struct yokei_training *t, int64_t first, int64_t last)
{
    last_step = last;
    stop = first >= last - 1;
    t->stop = &stop;
    t->progress = stop_before_last;
}

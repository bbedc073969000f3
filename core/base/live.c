/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of address ranges that are in use. When a caller releases an address, it is looked up here before it
 * is touched.
 */
#include "core/base/base.h"

#include <search.h>
#include <stdlib.h>

struct range {
    uintptr_t begin;
    size_t bytes; /* as the caller gave it; an empty range counts as one byte */
};

static uintptr_t last_of(const struct range *r) { return r->begin + (r->bytes ? r->bytes - 1 : 0); }

/*
 * Ranges of one list do not overlap. So two overlapping ranges count as equal, and an address finds the range
 * that contains it.
 */
static int compare(const void *left, const void *right)
{
    const struct range *a = left, *b = right;
    if (last_of(a) < b->begin) return -1;
    return a->begin > last_of(b);
}

struct yokei_live yokei_objects;

/* One lock for all lists, so that fork can be kept out of all of them at once (fork.c). */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void yokei_live_hold(void) { pthread_mutex_lock(&lock); }
void yokei_live_release(void) { pthread_mutex_unlock(&lock); }

yoke_status yokei_live_add(struct yokei_live *live, const void *address, size_t bytes)
{
    struct range *r = malloc(sizeof *r);
    if (!r) return yoke_fail(YOKE_ENOMEM, "no host memory for the list of what is in use");
    *r = (struct range){ (uintptr_t)address, bytes };
    pthread_mutex_lock(&lock);
    const struct range *const *found = tsearch(r, &live->tree, compare);
    const bool is_new = found && *found == r;
    const struct range other = found && !is_new ? **found : (struct range){ 0, 0 };
    pthread_mutex_unlock(&lock);
    if (is_new) return YOKE_OK;
    free(r);
    if (!found) return yoke_fail(YOKE_ENOMEM, "no host memory for the list of what is in use");
    return yoke_fail(YOKE_EINVAL, "%zu bytes at %p overlap the %zu bytes at %p, which are in use", bytes,
                     address, other.bytes, (void *)other.begin);
}

enum yokei_live_answer yokei_live_remove(struct yokei_live *live, const void *address, const void **begin_out,
                                         size_t *bytes_out)
{
    const struct range key = { (uintptr_t)address, 1 };
    enum yokei_live_answer answer = YOKEI_LIVE_NOT;
    pthread_mutex_lock(&lock);
    struct range *const *found = tfind(&key, &live->tree, compare), *r = found ? *found : NULL;
    if (r) {
        answer = r->begin == key.begin ? YOKEI_LIVE_IS : YOKEI_LIVE_INSIDE;
        if (begin_out) *begin_out = (const void *)r->begin;
        if (bytes_out) *bytes_out = r->bytes;
    }
    if (answer == YOKEI_LIVE_IS)
        tdelete(r, &live->tree, compare);
    else
        r = NULL;
    pthread_mutex_unlock(&lock);
    free(r);
    return answer;
}

bool yokei_live_has(struct yokei_live *live, const void *address)
{
    const struct range key = { (uintptr_t)address, 1 };
    pthread_mutex_lock(&lock);
    struct range *const *found = tfind(&key, &live->tree, compare);
    const bool has = found && (*found)->begin == key.begin;
    pthread_mutex_unlock(&lock);
    return has;
}

yoke_status yokei_object_leaves(const char *call, const char *what, const void *object)
{
    if (yokei_live_remove(&yokei_objects, object, NULL, NULL) == YOKEI_LIVE_IS) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "%s: %p is no %s, or one that was destroyed already: destroy each once",
                     call, object, what);
}

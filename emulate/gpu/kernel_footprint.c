/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of a footprint, and the ranges in them. */
#include "emulate/gpu/kernel_footprint.h"

#include <stdlib.h>

static size_t hash_of(uint64_t number, size_t capacity)
{
    return (size_t)(number * 0x9e3779b97f4a7c15u >> 20) & (capacity - 1);
}

static void insert(struct kernel_page **table, size_t capacity, struct kernel_page *page)
{
    size_t i = hash_of(page->number, capacity);
    while (table[i]) i = (i + 1) & (capacity - 1);
    table[i] = page;
}

static bool grow(struct kernel_footprint *f)
{
    const size_t capacity = f->capacity ? 2 * f->capacity : 64;
    struct kernel_page **table = calloc(capacity, sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < f->capacity; i++)
        if (f->table[i]) insert(table, capacity, f->table[i]);
    free(f->table);
    f->table = table;
    f->capacity = capacity;
    return true;
}

struct kernel_page *kernel_footprint_page(struct kernel_footprint *f, uint64_t number)
{
    struct kernel_page *page = NULL;
    for (size_t i = f->capacity ? hash_of(number, f->capacity) : 0; f->capacity && f->table[i];
         i = (i + 1) & (f->capacity - 1))
        if (f->table[i]->number == number) page = f->table[i];
    if (!page && (2 * f->n < f->capacity || grow(f))) {
        page = calloc(1, sizeof *page);
        if (page) {
            page->number = number;
            insert(f->table, f->capacity, page);
            f->n++;
        }
    }
    if (page)
        f->recent[number % KERNEL_RECENT_PAGES] = page;
    else
        f->incomplete = true;
    return page;
}

void kernel_footprint_free(struct kernel_footprint *f)
{
    for (size_t i = 0; i < f->capacity; i++) free(f->table[i]);
    free(f->table);
    *f = (struct kernel_footprint){ .n = 0 };
}

/* ---- ranges ---- */

struct list {
    struct kernel_range *at;
    size_t n, capacity;
    bool failed;
};

static void append(struct list *list, uint64_t from, uint64_t to, bool written)
{
    struct kernel_range *last = list->n ? &list->at[list->n - 1] : NULL;
    if (last && last->to == from && last->written == written) {
        last->to = to;
        return;
    }
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 16;
        struct kernel_range *grown = realloc(list->at, capacity * sizeof *grown);
        if (!grown) {
            list->failed = true;
            return;
        }
        list->at = grown;
        list->capacity = capacity;
    }
    list->at[list->n++] = (struct kernel_range){ from, to, written };
}

/* The runs of equal bits in one word of a page. */
static void add_word(struct list *list, uint64_t at, uint64_t read, uint64_t written)
{
    read &= ~written;
    if (read == ~(uint64_t)0 || written == ~(uint64_t)0) {
        append(list, at, at + 64, written != 0);
        return;
    }
    for (uint64_t any = read | written; any; any = read | written) {
        const int first = __builtin_ctzll(any);
        const bool is_written = written >> first & 1;
        uint64_t *bits = is_written ? &written : &read;
        const uint64_t behind = ~(*bits >> first);
        const int n = behind ? __builtin_ctzll(behind) : 64 - first;
        append(list, at + (uint64_t)first, at + (uint64_t)(first + n), is_written);
        *bits &= ~((~(uint64_t)0 >> (64 - n)) << first);
    }
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = (*(struct kernel_page *const *)a)->number,
                   y = (*(struct kernel_page *const *)b)->number;
    return (x > y) - (x < y);
}

struct kernel_range *kernel_footprint_ranges(const struct kernel_footprint *f, size_t *n_out)
{
    struct list list = { NULL, 0, 0, false };
    struct kernel_page **pages = f->n ? malloc(f->n * sizeof *pages) : NULL;
    size_t n = 0;
    *n_out = 0;
    if (!pages) return NULL;
    for (size_t i = 0; i < f->capacity; i++)
        if (f->table[i]) pages[n++] = f->table[i];
    qsort(pages, n, sizeof *pages, compare);
    for (size_t i = 0; i < n; i++)
        for (uint64_t w = 0; w < KERNEL_PAGE_BYTES / 64; w++)
            if (pages[i]->bits[0][w] | pages[i]->bits[1][w])
                add_word(&list, (pages[i]->number << KERNEL_PAGE_BITS) + 64 * w, pages[i]->bits[0][w],
                         pages[i]->bits[1][w]);
    free(pages);
    if (list.failed) {
        free(list.at);
        return NULL;
    }
    *n_out = list.n;
    return list.at;
}

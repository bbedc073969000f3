/* SPDX-License-Identifier: Apache-2.0 */
/* The free pieces of an address space. See gaps.h. */
#include "parallel/gaps.h"

#include <stdint.h>
#include <stdlib.h>

#include "core/base/base.h"

enum { NONE = -1 };

struct yokei_gap {
    size_t begin, bytes;
    size_t most;       /* the largest number of bytes of a piece in the subtree */
    uint32_t priority; /* a parent's priority is not below its children's */
    int left, right;
};

static size_t most_of(const struct yokei_gaps *g, int n) { return n == NONE ? 0 : g->gap[n].most; }

static void refresh(struct yokei_gaps *g, int n)
{
    struct yokei_gap *x = &g->gap[n];
    x->most = YOKE_MAX(x->bytes, YOKE_MAX(most_of(g, x->left), most_of(g, x->right)));
}

/* Split a tree into the pieces below `address`, and those at it or above. */
static void split(struct yokei_gaps *g, int n, size_t address, int *below, int *above)
{
    if (n == NONE) {
        *below = *above = NONE;
    } else if (g->gap[n].begin < address) {
        *below = n;
        split(g, g->gap[n].right, address, &g->gap[n].right, above);
        refresh(g, n);
    } else {
        *above = n;
        split(g, g->gap[n].left, address, below, &g->gap[n].left);
        refresh(g, n);
    }
}

/* Join two trees. All pieces of `below` lie below those of `above`. */
static int join(struct yokei_gaps *g, int below, int above)
{
    if (below == NONE || above == NONE) return below == NONE ? above : below;
    const bool upper = g->gap[below].priority < g->gap[above].priority;
    const int top = upper ? above : below;
    if (upper)
        g->gap[above].left = join(g, below, g->gap[above].left);
    else
        g->gap[below].right = join(g, g->gap[below].right, above);
    refresh(g, top);
    return top;
}

/* Remove the lowest or the highest piece of a tree that is not empty, and return its node. */
static int pull(struct yokei_gaps *g, int *tree, bool highest)
{
    const int n = *tree;
    int *next = highest ? &g->gap[n].right : &g->gap[n].left;
    if (*next == NONE) {
        *tree = highest ? g->gap[n].left : g->gap[n].right;
        return n;
    }
    const int found = pull(g, next, highest);
    refresh(g, n);
    return found;
}

static int end_of(const struct yokei_gaps *g, int tree, bool highest)
{
    int n = tree;
    for (int next = n; next != NONE; next = highest ? g->gap[n].right : g->gap[n].left) n = next;
    return n;
}

static void drop(struct yokei_gaps *g, int n)
{
    g->gap[n].right = g->unused;
    g->unused = n;
}

yoke_status yokei_gaps_create(int most, struct yokei_gaps *out)
{
    const int n = most + 2; /* between, before and behind the pieces in use */
    struct yokei_gaps g = { .gap = malloc((size_t)n * sizeof *g.gap), .root = 0, .unused = NONE };
    if (!g.gap) return yoke_fail(YOKE_ENOMEM, "planning memory: no host memory for %d buffers", most);
    /* the priorities are the same in each run, so that the tree is too */
    uint32_t priority = 1;
    for (int i = n - 1; i >= 0; i--) {
        priority = priority * UINT32_C(1664525) + UINT32_C(1013904223);
        g.gap[i].priority = priority ^ priority >> 16;
        if (i) drop(&g, i);
    }
    g.gap[0] = (struct yokei_gap){ 0, SIZE_MAX, SIZE_MAX, g.gap[0].priority, NONE, NONE };
    *out = g;
    return YOKE_OK;
}

void yokei_gaps_free(struct yokei_gaps *g)
{
    free(g->gap);
    g->gap = NULL;
}

/* Take the bytes from the lowest piece of a subtree that has as many. */
static size_t take_from(struct yokei_gaps *g, int n, size_t bytes)
{
    struct yokei_gap *x = &g->gap[n];
    size_t address = x->begin;
    if (most_of(g, x->left) >= bytes)
        address = take_from(g, x->left, bytes);
    else if (x->bytes >= bytes)
        x->begin += bytes, x->bytes -= bytes;
    else
        address = take_from(g, x->right, bytes);
    refresh(g, n);
    return address;
}

size_t yokei_gaps_take(struct yokei_gaps *g, size_t bytes)
{
    int below, above;
    const size_t address = take_from(g, g->root, bytes);
    /* a piece that was used up begins at the end of what was taken */
    split(g, g->root, address + bytes, &below, &above);
    const int first = end_of(g, above, false);
    if (first != NONE && !g->gap[first].bytes) drop(g, pull(g, &above, false));
    g->root = join(g, below, above);
    return address;
}

void yokei_gaps_give(struct yokei_gaps *g, size_t address, size_t bytes)
{
    int below, above, n;
    size_t begin = address, end = address + bytes;
    split(g, g->root, address, &below, &above);
    const int before = end_of(g, below, true), after = end_of(g, above, false);
    if (before != NONE && g->gap[before].begin + g->gap[before].bytes == address) {
        begin = g->gap[before].begin;
        drop(g, pull(g, &below, true));
    }
    if (after != NONE && g->gap[after].begin == end) {
        end = g->gap[after].begin + g->gap[after].bytes;
        drop(g, pull(g, &above, false));
    }
    n = g->unused;
    g->unused = g->gap[n].right;
    g->gap[n] = (struct yokei_gap){ begin, end - begin, end - begin, g->gap[n].priority, NONE, NONE };
    g->root = join(g, join(g, below, n), above);
}

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

/* Take the bytes from the lowest piece of a subtree that has as many. A piece that is used up is removed. */
static size_t take_from(struct yokei_gaps *g, int *tree, size_t bytes)
{
    const int n = *tree;
    struct yokei_gap *x = &g->gap[n];
    size_t address = x->begin;
    if (most_of(g, x->left) >= bytes) {
        address = take_from(g, &x->left, bytes);
    } else if (x->bytes > bytes) {
        x->begin += bytes, x->bytes -= bytes;
    } else if (x->bytes == bytes) {
        *tree = join(g, x->left, x->right);
        drop(g, n);
        return address;
    } else {
        address = take_from(g, &x->right, bytes);
    }
    refresh(g, n);
    return address;
}

size_t yokei_gaps_take(struct yokei_gaps *g, size_t bytes) { return take_from(g, &g->root, bytes); }

/* The pieces directly below and directly above an address that no piece has; -1: there is none. */
static void neighbours(const struct yokei_gaps *g, size_t address, int *below, int *above)
{
    *below = *above = NONE;
    for (int n = g->root; n != NONE;) {
        const bool is_below = g->gap[n].begin < address;
        *(is_below ? below : above) = n;
        n = is_below ? g->gap[n].right : g->gap[n].left;
    }
}

/* Refresh the nodes on the way to the piece that begins at `address`. */
static void refresh_way(struct yokei_gaps *g, int n, size_t address)
{
    const size_t begin = g->gap[n].begin;
    if (address != begin) refresh_way(g, address < begin ? g->gap[n].left : g->gap[n].right, address);
    refresh(g, n);
}

/* Remove the piece that begins at `address`. */
static void remove_at(struct yokei_gaps *g, int *tree, size_t address)
{
    const int n = *tree;
    if (g->gap[n].begin == address) {
        *tree = join(g, g->gap[n].left, g->gap[n].right);
        drop(g, n);
        return;
    }
    remove_at(g, address < g->gap[n].begin ? &g->gap[n].left : &g->gap[n].right, address);
    refresh(g, n);
}

void yokei_gaps_give(struct yokei_gaps *g, size_t address, size_t bytes)
{
    int below, above;
    neighbours(g, address, &below, &above);
    const bool joins_below = below != NONE && g->gap[below].begin + g->gap[below].bytes == address,
               joins_above = above != NONE && g->gap[above].begin == address + bytes;
    if (joins_below) {
        const size_t more = bytes + (joins_above ? g->gap[above].bytes : 0);
        if (joins_above) remove_at(g, &g->root, g->gap[above].begin);
        g->gap[below].bytes += more;
        refresh_way(g, g->root, g->gap[below].begin);
    } else if (joins_above) { /* it keeps its place among the others */
        g->gap[above].begin = address;
        g->gap[above].bytes += bytes;
        refresh_way(g, g->root, address);
    } else {
        const int n = g->unused;
        g->unused = g->gap[n].right;
        g->gap[n] = (struct yokei_gap){ address, bytes, bytes, g->gap[n].priority, NONE, NONE };
        split(g, g->root, address, &below, &above);
        g->root = join(g, join(g, below, n), above);
    }
}

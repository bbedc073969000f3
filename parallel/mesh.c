/* SPDX-License-Identifier: Apache-2.0 */
/* The mesh of ranks, and the layers of each stage. */
#include <string.h>
#include "core/base/base.h"
#include "parallel/mesh.h"

int yokei_mesh_replica(const struct yokei_mesh *m)
{
    int n = 0;
    for (int s = 0; s < m->pipeline; s++) n += yokei_mesh_width(m, s);
    return n;
}

struct yokei_mesh yokei_mesh_at(const struct yokei_mesh *mesh, int rank)
{
    struct yokei_mesh m = *mesh;
    for (m.s = 0; m.s + 1 < m.pipeline && rank >= m.data * yokei_mesh_width(mesh, m.s); m.s++)
        rank -= m.data * yokei_mesh_width(mesh, m.s);
    m.tensor = yokei_mesh_width(mesh, m.s);
    m.t = rank % m.tensor;
    m.d = rank / m.tensor;
    return m;
}

int yokei_mesh_rank(const struct yokei_mesh *mesh, int d, int s, int t)
{
    int first = 0;
    for (int i = 0; i < s; i++) first += mesh->data * yokei_mesh_width(mesh, i);
    return first + d * yokei_mesh_width(mesh, s) + t;
}

/* "2" if all stages have the same width, else the list of widths, "2,1,1". */
static const char *widths_text(const struct yokei_mesh *m, char *out, size_t bytes)
{
    size_t at = 0;
    *out = 0;
    for (int s = 0; s < (m->widths ? m->pipeline : 1) && at + 12 < bytes; s++, at = strlen(out))
        yokei_text(out + at, bytes - at, "%s%d", s ? "," : "", yokei_mesh_width(m, s));
    return out;
}

yoke_status yokei_mesh_create(int n_ranks, int rank, int data, int pipeline, int tensor, const int *widths,
                              int chunks, struct yokei_mesh *mesh_out)
{
    struct yokei_mesh m = { .pipeline = YOKE_MAX(pipeline, 1),
                            .tensor = YOKE_MAX(tensor, 1),
                            .widths = widths,
                            .chunks = YOKE_MAX(chunks, 1) };
    char text[256];
    if (data < 0 || pipeline < 0 || tensor < 0 || chunks < 0)
        return yoke_fail(YOKE_ECONFIG, "mesh: dp %d, pp %d, tp %d, chunks %d: none may be negative", data,
                         pipeline, tensor, chunks);
    int64_t model = widths ? 0 : (int64_t)m.pipeline * m.tensor;
    for (int s = 0; s < m.pipeline && widths; s++) {
        if (widths[s] < 1)
            return yoke_fail(YOKE_ECONFIG,
                             "mesh: stage %d of %d is given %d tensor ranks: give each stage at least 1", s,
                             m.pipeline, widths[s]);
        model += widths[s];
    }
    if (model > n_ranks || (!data && n_ranks % model) || (data && data * model != n_ranks))
        return yoke_fail(
            YOKE_ECONFIG,
            "mesh: dp %d x pp %d x tp %s does not fit %d ranks: %s must be the number of ranks; start %lld ranks, or change one of them",
            data ? data : 1, m.pipeline, widths_text(&m, text, sizeof text), n_ranks,
            widths ? "dp times the sum over the stages" : "their product",
            (long long)(model * YOKE_MAX(data, 1)));
    if (m.chunks > 1 && m.pipeline == 1)
        return yoke_fail(YOKE_ECONFIG,
                         "mesh: %d chunks of layers on one pipeline stage: give --pp 2 or more, or no chunks",
                         m.chunks);
    m.data = (int)(n_ranks / model);
    *mesh_out = yokei_mesh_at(&m, rank);
    return YOKE_OK;
}

int64_t yokei_mesh_micro_batch(const struct yokei_mesh *m, int64_t share, int64_t wanted)
{
    const int64_t pieces = m->pipeline == 1 ? 1 : 4 * m->pipeline;
    return wanted ? YOKE_MIN(wanted, YOKE_MAX(share, 1)) : YOKE_MAX(share / pieces, 1);
}

yoke_status yokei_mesh_chunks(const struct yokei_mesh *mesh, const struct yokei_blocks *blocks, int n_layers,
                              const int64_t *blocks_of, struct yokei_chunk *chunk_out)
{
    const int n = mesh->pipeline * mesh->chunks;
    int64_t before = 0, sum = 0;
    if (n > blocks->n)
        return yoke_fail(
            YOKE_ECONFIG,
            "%d pipeline stages of %d chunks need as many blocks, but the model has %d: lower --pp or the chunks, or take a "
            "deeper model",
            mesh->pipeline, mesh->chunks, blocks->n);
    for (int v = 0; v < n; v++) {
        const int64_t own = blocks_of ? blocks_of[v] : blocks->n / n + (v < blocks->n % n);
        if (own < 1)
            return yoke_fail(YOKE_ECONFIG, "virtual stage %d is given %lld blocks: each needs at least 1", v,
                             (long long)own);
        sum += own;
    }
    if (sum != blocks->n)
        return yoke_fail(YOKE_ECONFIG,
                         "the stages' blocks add up to %lld, but the model has %d: make them equal",
                         (long long)sum, blocks->n);
    for (int v = 0; v < n; v++) {
        const int64_t own = blocks_of ? blocks_of[v] : blocks->n / n + (v < blocks->n % n);
        if (v % mesh->pipeline == mesh->s) {
            struct yokei_chunk *c = &chunk_out[v / mesh->pipeline];
            c->first = v == 0 ? 0 : blocks->before + (int)before * blocks->per_block;
            c->end = v == n - 1 ? n_layers : blocks->before + (int)(before + own) * blocks->per_block;
        }
        before += own;
    }
    return YOKE_OK;
}

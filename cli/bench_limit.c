/* SPDX-License-Identifier: Apache-2.0 */
/* What no implementation can be faster than: memory that all ranks work on at once, and messages between neighbours. */
#include <stdlib.h>

#include "cli/bench_collectives.h"
#include "core/base/base.h"

#ifdef __x86_64__
#include <immintrin.h>

__attribute__((target("avx512f"))) static size_t triad_512(float *a, const float *b, const float *c, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) _mm512_stream_ps(a + i, _mm512_add_ps(_mm512_load_ps(b + i), _mm512_mul_ps(_mm512_set1_ps(3), _mm512_load_ps(c + i))));
    _mm_sfence();
    return i;
}

static size_t triad_128(float *a, const float *b, const float *c, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) _mm_stream_ps(a + i, _mm_add_ps(_mm_load_ps(b + i), _mm_mul_ps(_mm_set1_ps(3), _mm_load_ps(c + i))));
    _mm_sfence();
    return i;
}
#endif

void bench_triad(float *memory, double bytes)
{
    const size_t n = (size_t)(bytes / 3 / sizeof(float)) / 16 * 16; /* whole cache lines, so that all three begin with one */
    float *a = memory, *b = a + n, *c = b + n;
    size_t done = 0;
#ifdef __x86_64__
    done = (__builtin_cpu_supports("avx512f") ? triad_512 : triad_128)(a, b, c, n);
#endif
    for (; done < n; done++) a[done] = b[done] + 3 * c[done]; /* elsewhere: ordinary stores */
}

static yoke_status exchange(MPI_Comm comm, char *memory, size_t bytes, int left, int right)
{
    const uint64_t end = yokei_now_ns() + 60000000000ull;
    char *in = memory, *out = memory + 2 * bytes;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int code = 0, done = 0;
    code |= PMPI_Irecv(in, (int)bytes, MPI_BYTE, left, 0, comm, &requests[0]);
    code |= PMPI_Irecv(in + bytes, (int)bytes, MPI_BYTE, right, 1, comm, &requests[1]);
    code |= PMPI_Isend(out, (int)bytes, MPI_BYTE, right, 0, comm, &requests[2]);
    code |= PMPI_Isend(out + bytes, (int)bytes, MPI_BYTE, left, 1, comm, &requests[3]);
    while (!code && !done) {
        code = PMPI_Testall(4, requests, &done, statuses);
        if (!done && yokei_now_ns() > end) return yoke_fail(YOKE_ETIMEOUT, "4 MiB to the neighbours did not arrive in 60 s: the limit cannot be measured");
    }
    return code ? yoke_fail(YOKE_EBACKEND, "MPI_Testall failed: the limit cannot be measured") : YOKE_OK;
}

yoke_status bench_neighbours(MPI_Comm comm, yoke_comm *control, double *rate_out)
{
    enum { TURNS = 9, BYTES = 4 << 20 };
    const int size = yoke_comm_size(control), rank = yoke_comm_rank(control), left = (rank + size - 1) % size, right = (rank + 1) % size;
    double times[TURNS];
    char *memory = calloc(4, BYTES);
    yoke_status status = memory ? exchange(comm, memory, BYTES, left, right) : yoke_fail(YOKE_ENOMEM, "no memory for four messages of 4 MiB"); /* not counted */
    for (int i = 0; i < TURNS && !status; i++) {
        status = yoke_barrier(control, NULL);
        const uint64_t begin = yokei_now_ns();
        if (!status) status = exchange(comm, memory, BYTES, left, right);
        times[i] = (double)(yokei_now_ns() - begin) * 1e-9;
    }
    if (status != YOKE_ETIMEOUT) free(memory); /* else messages may still land in it */
    if (status) return status;
    YOKE_TRY(yoke_all_reduce(times, times, TURNS, YOKE_F64, YOKE_MAX, control, NULL));
    *rate_out = 2.0 * BYTES / bench_summary(times, TURNS).median; /* two messages each way */
    return YOKE_OK;
}

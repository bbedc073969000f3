// SPDX-License-Identifier: Apache-2.0
//
// C++ (11 or later): each rank multiplies two matrices on its device, and the products of all ranks are summed.
//   c++ sum.cpp $(pkg-config --cflags --libs libyoke-comm) -o sum
//   ./sum [DEVICE]      alone, on "host" unless named;      yoke run -n 2 -- ./sum      on two ranks
//
// C names the fields of a struct where it is initialised. C++ learnt that in 2020 only, so here the initialisers give a struct whose
// `size` is set and whose other fields have their defaults, and what differs is set afterwards.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <yoke/comm.h>
#include <yoke/yoke.h>

static void must(yoke_status status)
{
    if (status == YOKE_OK) return;
    std::fprintf(stderr, "%s: %s\n", yoke_status_text(status), yoke_last_error());
    std::fflush(nullptr);
    std::_Exit(yoke_status_exit_code(status)); // after a fault MPI is not finalised
}

int main(int argc, char **argv)
{
    const int M = 4, N = 3, K = 8;
    MPI_Comm world;
    must(yoke_mpi_start(&world));

    const char *spec = argc > 1 ? argv[1] : std::getenv("YOKE_DEVICE");
    yoke_device_config how = YOKE_DEVICE_CONFIG_INIT;
    yoke_device *device;
    yoke_stream *stream;
    must(yoke_device_open(spec ? spec : "host", &how, &device));
    must(yoke_stream_create(device, &stream));

    yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.name = "products";
    config.timeout_ms = 60000;
    yoke_comm *comm;
    must(yoke_comm_create(world, device, &config, &comm));

    // a[m, k] = m + 1, b[k, n] = n + 1: so c[m, n] = K (m + 1)(n + 1) on each rank, and the ranks' sum is exact.
    std::vector<float> host_a(M * K), host_b(K * N), host_c(M * N);
    for (int i = 0; i < M * K; i++) host_a[i] = static_cast<float>(i / K + 1);
    for (int i = 0; i < K * N; i++) host_b[i] = static_cast<float>(i % N + 1);
    void *a, *b, *c;
    must(yoke_alloc(device, host_a.size() * sizeof(float), &a));
    must(yoke_alloc(device, host_b.size() * sizeof(float), &b));
    must(yoke_alloc(device, host_c.size() * sizeof(float), &c));
    must(yoke_copy_to_device(stream, a, host_a.data(), host_a.size() * sizeof(float)));
    must(yoke_copy_to_device(stream, b, host_b.data(), host_b.size() * sizeof(float)));

    yoke_gemm_args product = YOKE_ARGS(gemm);
    product.M = M, product.N = N, product.K = K;
    product.batch = 1;
    product.a = a, product.lda = K;
    product.b = b, product.ldb = N;
    product.c = c, product.ldc = N;
    product.alpha = 1;
    yoke_cost cost = YOKE_COST_INIT;
    must(yoke_gemm_can(device, &product, &cost));
    must(yoke_stream_reserve(stream, cost.scratch_bytes));
    must(yoke_gemm(stream, &product));

    must(yoke_all_reduce(c, c, host_c.size(), YOKE_F32, YOKE_SUM, comm, stream));
    must(yoke_copy_to_host(stream, host_c.data(), c, host_c.size() * sizeof(float)));
    must(yoke_stream_sync(stream));
    must(yoke_comm_error(comm)); // what went wrong behind a stream

    const int n_ranks = yoke_comm_size(comm);
    int wrong = 0;
    for (int i = 0; i < M * N; i++) wrong += host_c[i] != static_cast<float>(n_ranks * K * (i / N + 1) * (i % N + 1));
    if (yoke_comm_rank(comm) == 0) std::printf("%d ranks: %d of %d elements wrong\n", n_ranks, wrong, M * N);

    for (void *memory : { a, b, c }) must(yoke_free(device, memory));
    must(yoke_comm_destroy(comm));
    must(yoke_stream_destroy(stream));
    must(yoke_device_close(device));
    must(yoke_mpi_stop());
    return wrong != 0;
}

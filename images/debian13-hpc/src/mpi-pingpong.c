/*
 * The latency and bandwidth between MPI ranks 0 and 1, the others waiting. Two lines, for people and parsers:
 *
 *   pingpong_latency_us 1.234        half the median round trip of 8 bytes
 *   pingpong_bandwidth_mbs 12345.6   4 MiB over half the median round trip, in 10^6 bytes a second
 *
 * Medians of batches, as one late wake-up must not colour the figure.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCHES = 21, SMALL = 8, LARGE = 4 << 20 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of one way, for both ranks; only rank 0's is meant to be used. */
static double one_way(int rank, char *buffer, int bytes, int trips)
{
    double batch[BATCHES];
    int peer = 1 - rank;

    for (int b = -1; b < BATCHES; b++) { /* batch -1 warms up */
        double start = MPI_Wtime();
        for (int t = 0; t < trips; t++) {
            if (rank == 0) {
                MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
                MPI_Recv(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
            }
        }
        if (b >= 0)
            batch[b] = (MPI_Wtime() - start) / trips / 2;
    }
    qsort(batch, BATCHES, sizeof batch[0], ascending);
    return batch[BATCHES / 2];
}

int main(int argc, char **argv)
{
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2) {
        fprintf(stderr, "mpi-pingpong: needs two ranks, has %d\n", ranks);
        MPI_Finalize();
        return 2;
    }
    if (rank < 2) {
        char *buffer = calloc(1, LARGE);
        if (!buffer)
            MPI_Abort(MPI_COMM_WORLD, 1);
        double latency = one_way(rank, buffer, SMALL, 500);
        double transfer = one_way(rank, buffer, LARGE, 10);
        if (rank == 0) {
            printf("pingpong_latency_us %.3f\n", latency * 1e6);
            printf("pingpong_bandwidth_mbs %.1f\n", LARGE / transfer / 1e6);
        }
        free(buffer);
    }
    MPI_Finalize();
    return 0;
}

/*
 * What MPI does with messages of several sizes, one line a batch, so that nothing is averaged before it is seen:
 *
 *   latency_us 8 1.234       half a round trip between two ranks
 *   bandwidth_mbs 8 3456.7   a window of 64 messages one way and an answer, in 10^6 bytes a second
 *   bidirectional_mbs 8 6789 the same, both ways at once
 *   barrier_us 0 4.321       mean of the slowest rank
 *   allreduce_us 8 7.654     the same, of a sum of doubles
 *   alltoall_us 8 9.876      the same, of so many bytes for each rank
 *
 * mpi-sweep [--short] TEST BATCHES SIZE...  Iterations are those of the OSU micro-benchmarks 5: 10000 for latency, 100 for both
 * bandwidths, 1000 for all others, and a tenth of it (bandwidths: a fifth) above 8192 bytes; with --short, a tenth of all. Every
 * transfer is checked. This is not OSU's program, and its figures are not OSU's.
 *
 * The first three are of pairs of ranks, all at once: each of the first half with the one as far into the second. Of each pair there
 * is a line.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, LARGE = 8192, MOST = 64 << 20 };

static int rank, ranks;
static MPI_Comm group; /* of the ranks that measure together: a pair, or all */
static char *out, *in;

static void fail(const char *what)
{
    fprintf(stderr, "mpi-sweep: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* pattern and wrong write and look for bytes that depend on their place and a seed. */
static void pattern(char *at, int bytes, int seed)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (char)(i * 7 + seed);
}

static int wrong(const char *at, int bytes, int seed)
{
    for (int i = 0; i < bytes; i++)
        if (at[i] != (char)(i * 7 + seed))
            return 1;
    return 0;
}

/* Each test does its iterations and says how long one took, in seconds. */

static double latency(int bytes, int iterations)
{
    double start = MPI_Wtime();
    for (int i = 0; i < iterations; i++) {
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, 1, 1, group);
            MPI_Recv(in, bytes, MPI_BYTE, 1, 1, group, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, 0, 1, group, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, 0, 1, group);
        }
    }
    return (MPI_Wtime() - start) / iterations / 2;
}

/* window sends from rank 0 and, if both is set, from rank 1 as well. */
static double window(int bytes, int iterations, int both)
{
    MPI_Request all[2 * WINDOW];
    char answer[4] = {0};
    double start = MPI_Wtime();
    for (int i = 0; i < iterations; i++) {
        int begun = 0;
        for (int w = 0; w < WINDOW && (both || rank == 1); w++)
            MPI_Irecv(in, bytes, MPI_BYTE, 1 - rank, 2, group, &all[begun++]);
        for (int w = 0; w < WINDOW && (both || rank == 0); w++)
            MPI_Isend(out, bytes, MPI_BYTE, 1 - rank, 2, group, &all[begun++]);
        MPI_Waitall(begun, all, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(answer, sizeof answer, MPI_BYTE, 1, 3, group, MPI_STATUS_IGNORE);
        else
            MPI_Send(answer, sizeof answer, MPI_BYTE, 0, 3, group);
    }
    return (MPI_Wtime() - start) / iterations / WINDOW / (both ? 2 : 1);
}

/* together times a collective alone: the barrier between two of them does not count. */
static double together(void (*collective)(int), int bytes, int iterations)
{
    double mine = 0, slowest;
    for (int i = 0; i < iterations; i++) {
        MPI_Barrier(group);
        double start = MPI_Wtime();
        collective(bytes);
        mine += MPI_Wtime() - start;
    }
    mine /= iterations;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, group);
    return slowest;
}

static void barrier(int bytes)
{
    (void)bytes;
    MPI_Barrier(group);
}

static void allreduce(int bytes)
{
    MPI_Allreduce(out, in, bytes / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, group);
}

static void alltoall(int bytes)
{
    MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, group);
}

/* prepare fills what is sent; verify looks at what the last iteration has brought. */
static void prepare(const char *test, int bytes)
{
    memset(in, 0, (size_t)bytes * (strcmp(test, "alltoall") ? 1 : ranks));
    if (!strcmp(test, "allreduce"))
        for (int i = 0; i < bytes / (int)sizeof(double); i++)
            ((double *)out)[i] = i % 1000 + rank;
    else if (!strcmp(test, "alltoall"))
        for (int r = 0; r < ranks; r++)
            pattern(out + (size_t)r * bytes, bytes, rank * 3 + r);
    else
        pattern(out, bytes, rank);
}

static void verify(const char *test, int bytes)
{
    if ((!strcmp(test, "latency") || !strcmp(test, "bidirectional")) && wrong(in, bytes, 1 - rank))
        fail("what came is not what was sent");
    if (!strcmp(test, "bandwidth") && rank == 1 && wrong(in, bytes, 0))
        fail("what came is not what was sent");
    if (!strcmp(test, "allreduce"))
        for (int i = 0; i < bytes / (int)sizeof(double); i++)
            if (((double *)in)[i] != (double)(i % 1000) * ranks + (double)ranks * (ranks - 1) / 2)
                fail("the sum is wrong");
    if (!strcmp(test, "alltoall"))
        for (int r = 0; r < ranks; r++)
            if (wrong(in + (size_t)r * bytes, bytes, r * 3 + rank))
                fail("what came is not what was sent");
}

static int bandwidth(const char *test)
{
    return !strcmp(test, "bandwidth") || !strcmp(test, "bidirectional");
}

static void batch(const char *test, int bytes, int iterations, int shown)
{
    double took;
    prepare(test, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(test, "latency"))
        took = latency(bytes, iterations);
    else if (bandwidth(test))
        took = window(bytes, iterations, !strcmp(test, "bidirectional"));
    else
        took = together(!strcmp(test, "barrier") ? barrier : !strcmp(test, "allreduce") ? allreduce : alltoall, bytes, iterations);
    verify(test, bytes);
    if (rank || !shown)
        return;
    if (bandwidth(test))
        printf("%s_mbs %d %.3f\n", test, bytes, bytes / took / 1e6);
    else
        printf("%s_us %d %.4f\n", test, bytes, took * 1e6);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int brief = argc > 1 && !strcmp(argv[1], "--short");
    const char *test = argc > brief + 1 ? argv[brief + 1] : "";
    int batches = argc > brief + 2 ? atoi(argv[brief + 2]) : 0;
    int pair = !strcmp(test, "latency") || bandwidth(test);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (batches < 1 || argc < brief + 4 ||
        !(pair || !strcmp(test, "barrier") || !strcmp(test, "allreduce") || !strcmp(test, "alltoall"))) {
        if (rank == 0)
            fprintf(stderr, "usage: mpi-sweep [--short] latency|bandwidth|bidirectional|barrier|allreduce|alltoall BATCHES "
                            "SIZE...\n");
        MPI_Finalize();
        return 2;
    }
    if (ranks < 2 || (pair && ranks % 2))
        fail(pair ? "this test is of pairs of ranks" : "this test needs two ranks at least");
    MPI_Comm_split(MPI_COMM_WORLD, pair ? rank % (ranks / 2) : 0, rank, &group);
    MPI_Comm_rank(group, &rank);
    MPI_Comm_size(group, &ranks);
    for (int a = brief + 3; a < argc; a++) {
        long bytes = atol(argv[a]), all = bytes * (strcmp(test, "alltoall") ? 1 : ranks);
        if (bytes < 0 || all > MOST || (!strcmp(test, "allreduce") && bytes % (int)sizeof(double)))
            fail("a size is not between 0 and 64 MiB, or not of whole doubles");
        if (!(out = calloc(1, all + 1)) || !(in = calloc(1, all + 1)))
            fail("no memory");
        int iterations = !strcmp(test, "latency") ? 10000 : bandwidth(test) ? 100 : 1000;
        if (bytes > LARGE)
            iterations /= bandwidth(test) ? 5 : 10;
        if (brief)
            iterations = iterations / 10 > 1 ? iterations / 10 : 1;
        batch(test, (int)bytes, iterations / 10 + 1, 0); /* warms up */
        for (int b = 0; b < batches; b++)
            batch(test, (int)bytes, iterations, 1);
        free(out);
        free(in);
    }
    MPI_Finalize();
    return 0;
}

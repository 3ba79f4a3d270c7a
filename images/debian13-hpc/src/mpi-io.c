/*
 * One file that all ranks write together by MPI-IO, each a block of it, and read: each the block of a rank on another node, if
 * there is one, so that no node reads what it has in memory since it wrote it. Two lines a pass:
 *
 *   write_mbs 812.4    all bytes over the time of the slowest rank from open to close, with a sync, in 10^6 bytes a second
 *   read_mbs 1033.9
 *
 * mpi-io FILE MIB PASSES: MIB of each rank, moved 1 MiB at a time. Every word is checked, which does not count, as it does not
 * to make them. The file is removed at the end. The method is that of IOR with -a MPIIO -e -C; this is not IOR.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = (1 << 20) / 8 };

static int rank, ranks;
static uint64_t buffer[WORDS];

static void fail(const char *what, int error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (error)
        MPI_Error_string(error, text, &length);
    fprintf(stderr, "mpi-io: rank %d: %s%s%s\n", rank, what, error ? ": " : "", text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void must(int error, const char *what)
{
    if (error)
        fail(what, error);
}

/* word is what stands in a place of the file in a pass. */
static uint64_t word(uint64_t place, int pass)
{
    return (place + 1) * 0x9e3779b97f4a7c15 + pass;
}

/* moved writes or reads a block and says how long that took all ranks, in seconds. What is read is checked after the clock. */
static double moved(const char *path, int writes, long block, long mib, int pass)
{
    MPI_File file;
    MPI_Status status;
    double start, mine, slowest;
    int count, wrong = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    mine = 0;
    must(MPI_File_open(MPI_COMM_WORLD, path, writes ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
         "open the file");
    for (long i = 0; i < mib; i++) {
        uint64_t first = ((uint64_t)block * mib + i) * WORDS;
        double paused = MPI_Wtime();
        for (int w = 0; writes && w < WORDS; w++)
            buffer[w] = word(first + w, pass);
        mine -= MPI_Wtime() - paused;
        if (writes)
            must(MPI_File_write_at(file, first * 8, buffer, WORDS, MPI_UINT64_T, &status), "write");
        else
            must(MPI_File_read_at(file, first * 8, buffer, WORDS, MPI_UINT64_T, &status), "read");
        MPI_Get_count(&status, MPI_UINT64_T, &count);
        paused = MPI_Wtime();
        for (int w = 0; !writes && w < WORDS; w++)
            wrong |= buffer[w] != word(first + w, pass);
        mine -= MPI_Wtime() - paused;
        if (count != WORDS)
            fail("the file is shorter than what was written", 0);
    }
    if (writes)
        must(MPI_File_sync(file), "sync");
    must(MPI_File_close(&file), "close the file");
    if (wrong)
        fail("what was read is not what was written", 0);
    mine += MPI_Wtime() - start;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

int main(int argc, char **argv)
{
    long mib = argc == 4 ? atol(argv[2]) : 0, passes = argc == 4 ? atol(argv[3]) : 0;
    MPI_Comm node;
    int here;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (mib < 1 || mib > 1 << 20 || passes < 1) {
        if (rank == 0)
            fprintf(stderr, "usage: mpi-io FILE MIB PASSES\n");
        MPI_Finalize();
        return 2;
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &here);
    for (int pass = 0; pass < passes; pass++) {
        double bytes = (double)ranks * mib * (1 << 20);
        double wrote = moved(argv[1], 1, rank, mib, pass);
        double read = moved(argv[1], 0, (rank + here) % ranks, mib, pass);
        if (rank == 0) {
            printf("write_mbs %.2f\nread_mbs %.2f\n", bytes / wrote / 1e6, bytes / read / 1e6);
            fflush(stdout);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        must(MPI_File_delete(argv[1], MPI_INFO_NULL), "remove the file");
    MPI_Finalize();
    return 0;
}

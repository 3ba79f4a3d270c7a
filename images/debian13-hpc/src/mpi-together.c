/*
 * Runs a command on every rank, all at once: ranks meet in a barrier before. What a shared host does to programs is seen only while
 * all of them run, so rank 0 says how long that was: the shortest time of a rank as a part of the longest,
 *
 *   overlap_percent 97.31
 *
 * mpi-together COMMAND [ARGUMENT...]  The exit status is the largest of all commands'.
 */
#include <mpi.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* run runs the command and says how it ended, as a shell does. */
static int run(char **command)
{
    pid_t child;
    int status, error = posix_spawnp(&child, command[0], NULL, NULL, command, environ);
    if (error) {
        fprintf(stderr, "mpi-together: %s: %s\n", command[0], strerror(error));
        return 127;
    }
    if (waitpid(child, &status, 0) < 0)
        return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    MPI_Request all[3];
    double took, least, most;
    int rank, ended, worst, done = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2) {
        if (rank == 0)
            fprintf(stderr, "usage: mpi-together COMMAND [ARGUMENT...]\n");
        MPI_Finalize();
        return 2;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    took = MPI_Wtime();
    ended = run(argv + 1);
    took = MPI_Wtime() - took;
    MPI_Iallreduce(&took, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD, &all[0]);
    MPI_Iallreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &all[1]);
    MPI_Iallreduce(&ended, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &all[2]);
    for (;;) { /* MPI's own way to wait would take the CPU from those that still run */
        MPI_Testall(3, all, &done, MPI_STATUSES_IGNORE);
        if (done)
            break;
        usleep(1000);
    }
    if (rank == 0)
        printf("overlap_percent %.2f\n", 100 * least / most);
    MPI_Finalize();
    return worst;
}

/*
 * The triad of STREAM: a[i] = b[i] + s * c[i], on all the CPUs that OpenMP is given. One line:
 *
 *   triad_gbs 20.45       best of the passes, in 10^9 bytes a second, 24 bytes an element as STREAM counts them
 *
 * An argument sets the elements of one array (default 20,000,000: 160 MB each, beyond any cache).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PASSES = 20 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 20000000;
    if (n < 1) {
        fprintf(stderr, "stream-triad: %s is not a number of elements\n", argv[1]);
        return 2;
    }
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (!a || !b || !c) {
        fprintf(stderr, "stream-triad: no memory for 3 arrays of %ld elements\n", n);
        return 1;
    }

    /* Touched by the thread that will use it, so that its pages lie in that thread's memory. */
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        a[i] = 0, b[i] = 1, c[i] = 2;

    double best = 1e30;
    for (int pass = 0; pass < PASSES; pass++) {
        double s = 3 + pass, start = now();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            a[i] = b[i] + s * c[i];
        double took = now() - start;
        if (took < best)
            best = took;
        if (a[n / 2] != 1 + s * 2) {
            fprintf(stderr, "stream-triad: wrong result in pass %d\n", pass);
            return 1;
        }
    }
    printf("triad_gbs %.2f\n", 24.0 * n / best / 1e9);
    return 0;
}

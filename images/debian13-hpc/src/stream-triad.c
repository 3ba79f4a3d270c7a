/*
 * The kernels of STREAM, on all the CPUs that OpenMP is given, in 10^9 bytes a second as STREAM counts them: copy c = a and scale
 * b = s c move 16 bytes an element, add c = a + b and triad a = b + s c 24.
 *
 *   stream-triad [ELEMENTS]        triad_gbs 20.45: the best of 20 passes of triad
 *   stream-triad ELEMENTS PASSES   all four, in each pass: copy_gbs 18.10, scale_gbs, add_gbs, triad_gbs
 *
 * ELEMENTS are those of one array (default 20,000,000: 160 MB each, beyond any cache). Each pass is checked. This is not STREAM's
 * own program.
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

static double triad(long n, double s, double *a, double *b, double *c)
{
    double start = now();
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
    return now() - start;
}

static int wrong(int pass)
{
    fprintf(stderr, "stream-triad: wrong result in pass %d\n", pass);
    return 1;
}

/* all begins each pass with a whole number in a, so that no rounding is in what must come out. */
static int all(long n, int passes, double *a, double *b, double *c)
{
    for (int pass = 0; pass < passes; pass++) {
        double s = 3, first = 1 + pass % 7, start;
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            a[i] = first;
        start = now();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            c[i] = a[i];
        double copied = now();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            b[i] = s * c[i];
        double scaled = now();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            c[i] = a[i] + b[i];
        double added = now(), took = triad(n, s, a, b, c);
        for (long i = 0; i < n; i += n / 1000 + 1)
            if (b[i] != s * first || c[i] != (1 + s) * first || a[i] != (2 * s + s * s) * first)
                return wrong(pass);
        printf("copy_gbs %.3f\nscale_gbs %.3f\nadd_gbs %.3f\ntriad_gbs %.3f\n", 16.0 * n / (copied - start) / 1e9,
               16.0 * n / (scaled - copied) / 1e9, 24.0 * n / (added - scaled) / 1e9, 24.0 * n / took / 1e9);
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 20000000;
    int passes = argc > 2 ? atoi(argv[2]) : PASSES;
    if (n < 1 || passes < 1 || argc > 3) {
        fprintf(stderr, "usage: stream-triad [ELEMENTS [PASSES]]\n");
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

    if (argc == 3)
        return all(n, passes, a, b, c);
    double best = 1e30;
    for (int pass = 0; pass < PASSES; pass++) {
        double s = 3 + pass, took = triad(n, s, a, b, c);
        if (took < best)
            best = took;
        if (a[n / 2] != 1 + s * 2)
            return wrong(pass);
    }
    printf("triad_gbs %.2f\n", 24.0 * n / best / 1e9);
    return 0;
}

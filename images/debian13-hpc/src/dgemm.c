/*
 * The rate of C = A * B for dense matrices of doubles, by the BLAS that programs of this image use, on one thread. One line a pass:
 *
 *   dgemm_gflops 42.17       2 * n^3 operations over the time, in 10^9 a second
 *
 * dgemm N PASSES. The result of each pass is checked.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    int n = argc == 3 ? atoi(argv[1]) : 0, passes = argc == 3 ? atoi(argv[2]) : 0;
    if (n < 1 || n > 40000 || passes < 1) {
        fprintf(stderr, "usage: dgemm N PASSES, N from 1 to 40000\n");
        return 2;
    }
    size_t all = (size_t)n * n;
    double *a = malloc(all * sizeof *a), *b = malloc(all * sizeof *b), *c = malloc(all * sizeof *c), one = 1, zero = 0;
    if (!a || !b || !c) {
        fprintf(stderr, "dgemm: no memory for 3 matrices of order %d\n", n);
        return 1;
    }
    for (size_t i = 0; i < all; i++)
        a[i] = (double)(i % 13) / 13 - 0.5, b[i] = (double)(i % 17) / 17 - 0.5;
    for (int pass = -1; pass < passes; pass++) { /* pass -1 warms up */
        double start = now();
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        double took = now() - start;
        for (int k = 0; k < 20; k++) { /* some elements, by hand; matrices are stored by columns */
            size_t i = (size_t)k * 7919 % n, j = (size_t)k * 104729 % n;
            double sum = 0;
            for (int l = 0; l < n; l++)
                sum += a[i + (size_t)l * n] * b[l + j * n];
            if (!(fabs(sum - c[i + j * n]) <= 1e-9 * n)) {
                fprintf(stderr, "dgemm: wrong result in pass %d\n", pass);
                return 1;
            }
        }
        if (pass >= 0) {
            printf("dgemm_gflops %.3f\n", 2.0 * n * n * n / took / 1e9);
            fflush(stdout);
        }
    }
    return 0;
}

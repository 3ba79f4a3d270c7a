/*
 * How many operations on doubles one thread does in a second, in four mixes of additions, subtractions, multiplications and
 * divisions: the shares that flops.c (Aburto, 1992) reports as its MFLOPS(1) to (4). Each operation needs the result of the one
 * before, but for the multiplications that go with additions. A line each:
 *
 *   empty_ms 12.3        an empty loop of 10^7 turns
 *   mix1_mflops 1234.5   add 40.4 %, subtract 23.1 %, multiply 26.9 %, divide 9.6 %
 *   mix2_mflops 1234.5   38.2, 9.2, 43.4, 9.2 %
 *   mix3_mflops 1234.5   42.5, 3.4, 50.7, 3.4 %
 *   mix4_mflops 1234.5   42.9, 2.2, 54.9, 0 %
 *
 * flops-mix SECONDS: for each mix. It is compiled as one wants to know, -O0 or -O3, and with -DREGISTER=register. Results are
 * compared with those of long doubles. This is not flops.c, and its figures are others.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifndef REGISTER
#define REGISTER
#endif

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

#define R2(s) s s
#define R4(s) R2(s) R2(s)
#define R5(s) R4(s) s
#define R7(s) R4(s) R2(s) s
#define R8(s) R4(s) R4(s)
#define R14(s) R7(s) R7(s)
#define R32(s) R8(s) R8(s) R8(s) R8(s)

/* a step of a polynomial, and one operation each; v stays small */
#define STEP v = v * x + c;
#define ADD v = v + c;
#define SUB v = v - d;
#define MUL v = v * x;
#define DIV v = v / e;

#define MIX1 R14(STEP) R7(ADD) R5(DIV) R8(SUB) R4(SUB)
#define MIX2 R32(STEP) R14(STEP) R8(STEP) R4(STEP) R8(MUL) R14(SUB DIV)
#define MIX3 R32(STEP) R14(STEP) R14(STEP) R2(STEP) R8(MUL) R4(MUL) R5(SUB DIV)
#define MIX4 R32(STEP) R7(STEP) R8(MUL) R2(MUL) MUL R2(SUB)

static const struct {
    const char *name;
    int operations;
} mixes[] = {{"mix1", 52}, {"mix2", 152}, {"mix3", 146}, {"mix4", 91}};

/* A turn's x lies between 0 and 1; its constants are read anew, or the compiler would calculate with them. */
static volatile double constants[] = {0.5, 0.001, 1.01};

#define SUM(type, body)                                                                                                        \
    {                                                                                                                          \
        const type c = constants[0], d = constants[1], e = constants[2];                                                       \
        (void)e; /* mix 4 divides by nothing */                                                                                \
        REGISTER type sum = 0, x, v;                                                                                           \
        for (REGISTER long i = 0; i < turns; i++) {                                                                            \
            x = (type)(i % 1000) / 1000, v = 1;                                                                                \
            body sum += v;                                                                                                     \
        }                                                                                                                      \
        return sum;                                                                                                            \
    }

static double fast(int mix, long turns)
{
    switch (mix) {
    case 0: SUM(double, MIX1)
    case 1: SUM(double, MIX2)
    case 2: SUM(double, MIX3)
    default: SUM(double, MIX4)
    }
}

static long double sure(int mix, long turns)
{
    switch (mix) {
    case 0: SUM(long double, MIX1)
    case 1: SUM(long double, MIX2)
    case 2: SUM(long double, MIX3)
    default: SUM(long double, MIX4)
    }
}

int main(int argc, char **argv)
{
    double seconds = argc == 2 ? atof(argv[1]) : 0;
    if (!(seconds > 0 && seconds <= 3600)) {
        fprintf(stderr, "usage: flops-mix SECONDS\n");
        return 2;
    }
    double start = now();
    for (REGISTER long i = 0; i < 10000000; i++)
        ;
    printf("empty_ms %.4f\n", (now() - start) * 1e3);
    for (int mix = 0; mix < 4; mix++) {
        long turns = 1000;
        double took, sum;
        for (;; turns = took < seconds / 16 ? turns * 8 : (long)(turns * seconds / took) + 1) {
            start = now();
            sum = fast(mix, turns);
            took = now() - start;
            if (took >= seconds)
                break;
        }
        long compared = turns < 2000 ? turns : 2000;
        long double right = sure(mix, compared);
        if (!(fabsl(fast(mix, compared) - right) <= 1e-12L * fabsl(right)) || !isfinite(sum)) {
            fprintf(stderr, "flops-mix: wrong result in %s\n", mixes[mix].name);
            return 1;
        }
        printf("%s_mflops %.2f\n", mixes[mix].name, mixes[mix].operations * (double)turns / took / 1e6);
    }
    return 0;
}

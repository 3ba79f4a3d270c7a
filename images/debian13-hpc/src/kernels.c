/*
 * Ten kernels of whole numbers and of doubles on one thread, after the list of BYTE's native mode benchmark: how often each is done
 * in a second, and the geometric means of two groups, as shares of what one core of an EPYC with Zen 4 does. A line each:
 *
 *   numeric-sort 3021.4
 *   integer-index 0.98       sorts, bits, emulation, assignment, cipher and code
 *   floating-index 1.02      Fourier, network and equations
 *
 * kernels SECONDS: of each. Every result is checked. This is not NBench: its programs, sizes and index are others, so only ratios
 * of these figures mean something.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint32_t seed;

static uint32_t random32(void) /* Marsaglia's xorshift */
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    return seed ^= seed << 5;
}

static double uniform(void)
{
    return random32() / 4294967296.0;
}

/* Each kernel does its work once and says whether the result is right. What it works on is its own, made anew each time. */

/* HEAPSORT defines a sort of an array of a type. */
#define HEAPSORT(name, type, less)                                                                                             \
    static void name(type *a, int n)                                                                                           \
    {                                                                                                                          \
        for (int begin = n / 2, end = n; end > 1;) {                                                                           \
            type moved;                                                                                                        \
            if (begin > 0)                                                                                                     \
                moved = a[--begin];                                                                                            \
            else                                                                                                               \
                moved = a[--end], a[end] = a[0];                                                                               \
            int at = begin;                                                                                                    \
            for (int child; (child = 2 * at + 1) < end; at = child) {                                                          \
                if (child + 1 < end && less(&a[child], &a[child + 1]))                                                         \
                    child++;                                                                                                   \
                if (!less(&moved, &a[child]))                                                                                  \
                    break;                                                                                                     \
                a[at] = a[child];                                                                                              \
            }                                                                                                                  \
            a[at] = moved;                                                                                                     \
        }                                                                                                                      \
    }

static int fewer(const int32_t *a, const int32_t *b) { return *a < *b; }
HEAPSORT(sort_numbers, int32_t, fewer)

static int numeric_sort(void)
{
    enum { N = 8000 };
    static int32_t a[N];
    uint32_t sum = 0;
    for (int i = 0; i < N; i++)
        sum += a[i] = (int32_t)random32();
    sort_numbers(a, N);
    for (int i = 0; i < N; i++) {
        sum -= a[i];
        if (i && a[i] < a[i - 1])
            return 0;
    }
    return sum == 0;
}

typedef struct {
    unsigned char length, text[79];
} word;

static int before(const word *a, const word *b)
{
    int c = memcmp(a->text, b->text, a->length < b->length ? a->length : b->length);
    return c < 0 || (c == 0 && a->length < b->length);
}
HEAPSORT(sort_words, word, before)

static int string_sort(void)
{
    enum { N = 2000 };
    static word a[N];
    uint32_t sum = 0;
    for (int i = 0; i < N; i++) {
        a[i].length = 4 + random32() % 76;
        for (int c = 0; c < a[i].length; c++)
            sum += a[i].text[c] = 'a' + random32() % 3;
    }
    sort_words(a, N);
    for (int i = 0; i < N; i++) {
        for (int c = 0; c < a[i].length; c++)
            sum -= a[i].text[c];
        if (i && before(&a[i], &a[i - 1]))
            return 0;
    }
    return sum == 0;
}

/* Runs of bits are set, cleared and turned over; the same is done by bytes, one for each bit, to compare. */
static int bit_field(void)
{
    enum { BITS = 1 << 18, RUNS = 2000, LONGEST = 2000, COMPARED = 20 };
    static uint64_t map[BITS / 64];
    static unsigned char slow[BITS];
    memset(map, 0, sizeof map);
    memset(slow, 0, sizeof slow);
    for (int run = 0; run < RUNS; run++) {
        if (run == COMPARED)
            for (int i = 0; i < BITS; i++)
                if ((map[i / 64] >> i % 64 & 1) != slow[i])
                    return 0;
        int what = random32() % 3, from = random32() % (BITS - LONGEST), to = from + 1 + random32() % LONGEST;
        for (int at = from; at < to;) {
            int bit = at % 64, count = to - at < 64 - bit ? to - at : 64 - bit;
            uint64_t mask = (count == 64 ? ~0ull : (1ull << count) - 1) << bit, *w = &map[at / 64];
            *w = what == 0 ? *w | mask : what == 1 ? *w & ~mask : *w ^ mask;
            at += count;
        }
        for (int at = from; at < to && run < COMPARED; at++)
            slow[at] = what == 0 ? 1 : what == 1 ? 0 : !slow[at];
    }
    return 1;
}

/* A number that is calculated with in whole numbers: (-1)^minus * digits * 2^exponent, whose highest digit is 1. */
typedef struct {
    int minus, exponent;
    uint64_t digits;
} soft;

static soft normal(soft a)
{
    if (!a.digits)
        return (soft){0, -4000, 0};
    while (!(a.digits >> 63))
        a.digits <<= 1, a.exponent--;
    return a;
}

static soft soft_of(double x)
{
    int exponent;
    double f = frexp(fabs(x), &exponent);
    return normal((soft){x < 0, exponent - 64, (uint64_t)ldexp(f, 64 - 1) << 1});
}

static double of_soft(soft a) { return ldexp((double)a.digits, a.exponent) * (a.minus ? -1 : 1); }

static soft soft_mul(soft a, soft b)
{
    uint64_t high = 0;
    for (int i = 0; i < 64; i++) { /* digit for digit; what falls out is rounded off */
        uint64_t added = b.digits >> i & 1 ? a.digits : 0, carry = high + added < high;
        high = (high + added) >> 1 | carry << 63;
    }
    return normal((soft){a.minus ^ b.minus, a.exponent + b.exponent + 64, high});
}

static soft soft_add(soft a, soft b)
{
    if (a.exponent < b.exponent) {
        soft other = a;
        a = b, b = other;
    }
    int apart = a.exponent - b.exponent;
    b.digits = apart > 63 ? 0 : b.digits >> apart >> 1; /* a digit of room for the carry */
    a.digits >>= 1, a.exponent++;
    if (a.minus == b.minus)
        a.digits += b.digits;
    else if (a.digits >= b.digits)
        a.digits -= b.digits;
    else
        a.digits = b.digits - a.digits, a.minus = b.minus;
    return normal(a);
}

static soft soft_div(soft a, soft b)
{
    uint64_t quotient = 0, rest = a.digits >> 1;
    for (int i = 0; i < 64; i++) {
        uint64_t carry = rest >> 63;
        rest <<= 1, quotient <<= 1;
        if (carry || rest >= b.digits)
            rest -= b.digits, quotient |= 1;
    }
    return normal((soft){a.minus ^ b.minus, a.exponent - b.exponent - 63, quotient});
}

static int emulation(void)
{
    for (int i = 0; i < 1000; i++) {
        double x = (uniform() - 0.5) * 1e3, y = (uniform() - 0.5) * 10 + 11, z = uniform() * 1e2;
        double is = of_soft(soft_div(soft_add(soft_mul(soft_of(x), soft_of(y)), soft_of(z)), soft_of(y)));
        if (!(fabs(is - (x * y + z) / y) <= 1e-12 * (fabs(x) + z)))
            return 0;
    }
    return 1;
}

/* What a hundred coefficients of (x + 1)^x on 0..2 are, by the trapezoid rule. */
static int fourier(void)
{
    enum { COEFFICIENTS = 50, POINTS = 200 };
    static double a[COEFFICIENTS], b[COEFFICIENTS];
    const double pi = acos(-1);
    for (int n = 0; n < COEFFICIENTS; n++) {
        a[n] = b[n] = 0;
        for (int i = 0; i <= POINTS; i++) {
            double x = 2.0 * i / POINTS, f = pow(x + 1, x) * (i == 0 || i == POINTS ? 0.5 : 1) * 2.0 / POINTS;
            a[n] += f * cos(pi * n * x);
            b[n] += f * sin(pi * n * x);
        }
    }
    /* As another program has calculated them in the same way. */
    return fabs(a[0] - 5.7639686700109) < 1e-9 && fabs(a[1] - 1.1341679971285) < 1e-9 && fabs(b[1] + 1.8818808259988) < 1e-9;
}

/* Who does what at the least cost, by shortest augmenting paths. The prices of rows and columns prove that there is no better. */
static int assignment(void)
{
    enum { N = 101 };
    static int cost[N + 1][N + 1], row[N + 1], column[N + 1], of[N + 1], way[N + 1], least[N + 1];
    for (int i = 1; i <= N; i++)
        for (int j = 1; j <= N; j++)
            cost[i][j] = random32() % 10000;
    memset(row, 0, sizeof row), memset(column, 0, sizeof column), memset(of, 0, sizeof of);
    for (int i = 1; i <= N; i++) {
        char seen[N + 1] = {0};
        for (int j = 0; j <= N; j++)
            least[j] = 1 << 30;
        int at = 0;
        of[0] = i;
        while (of[at]) {
            int who = of[at], next = 0, step = 1 << 30;
            seen[at] = 1;
            for (int j = 1; j <= N; j++)
                if (!seen[j]) {
                    int reduced = cost[who][j] - row[who] - column[j];
                    if (reduced < least[j])
                        least[j] = reduced, way[j] = at;
                    if (least[j] < step)
                        step = least[j], next = j;
                }
            for (int j = 0; j <= N; j++)
                if (seen[j])
                    row[of[j]] += step, column[j] -= step;
                else
                    least[j] -= step;
            at = next;
        }
        for (; at; at = way[at])
            of[at] = of[way[at]];
    }
    int paid = 0, priced = 0;
    for (int j = 1; j <= N; j++) {
        paid += cost[of[j]][j], priced += row[j] + column[j];
        for (int i = 1; i <= N; i++)
            if (cost[i][j] < row[i] + column[j])
                return 0;
    }
    return paid == priced;
}

/* The cipher IDEA (Lai and Massey, 1991), with 8 rounds and a key of 128 bits. */
static uint16_t times(uint16_t a, uint16_t b) /* modulo 2^16 + 1, where 0 stands for 2^16 */
{
    uint32_t x = a ? a : 0x10000, y = b ? b : 0x10000;
    return (uint16_t)((uint64_t)x * y % 0x10001);
}

static uint16_t inverse(uint16_t a) /* to the power of 2^16 - 1, by Fermat */
{
    uint16_t all = 1;
    for (int i = 0; i < 16; i++, a = times(a, a))
        all = times(all, a);
    return all;
}

static void keys_of(const uint16_t key[8], uint16_t k[52])
{
    for (int i = 0; i < 52; i++) /* of the key, turned by 25 bits after each eight */
        k[i] = i < 8 ? key[i] : (uint16_t)(k[i / 8 * 8 - 8 + (i % 8 + 1) % 8] << 9 | k[i / 8 * 8 - 8 + (i % 8 + 2) % 8] >> 7);
}

static void keys_back(const uint16_t k[52], uint16_t back[52])
{
    for (int r = 0; r <= 8; r++) {
        const uint16_t *from = k + 48 - 6 * r;
        int swapped = r > 0 && r < 8;
        back[6 * r] = inverse(from[0]), back[6 * r + 3] = inverse(from[3]);
        back[6 * r + 1] = -from[swapped ? 2 : 1], back[6 * r + 2] = -from[swapped ? 1 : 2];
        if (r < 8)
            back[6 * r + 4] = from[-2], back[6 * r + 5] = from[-1];
    }
}

static void cipher(const uint16_t k[52], uint16_t x[4])
{
    uint16_t a = x[0], b = x[1], c = x[2], d = x[3];
    for (int r = 0; r < 8; r++, k += 6) {
        a = times(a, k[0]), b += k[1], c += k[2], d = times(d, k[3]);
        uint16_t s = times(a ^ c, k[4]), t = times((uint16_t)((b ^ d) + s), k[5]);
        s += t;
        a ^= t, d ^= s;
        uint16_t turned = b ^ s;
        b = c ^ t, c = turned;
    }
    x[0] = times(a, k[0]), x[1] = c + k[1], x[2] = b + k[2], x[3] = times(d, k[3]);
}

static int idea(void)
{
    enum { N = 2000 };
    static uint16_t text[N], sent[N];
    uint16_t key[8], k[52], back[52];
    for (int i = 0; i < 8; i++)
        key[i] = random32();
    for (int i = 0; i < N; i++)
        sent[i] = text[i] = random32();
    keys_of(key, k), keys_back(k, back);
    for (int i = 0; i < N; i += 4)
        cipher(k, sent + i);
    if (!memcmp(text, sent, sizeof text))
        return 0;
    for (int i = 0; i < N; i += 4)
        cipher(back, sent + i);
    return !memcmp(text, sent, sizeof text);
}

/* A text is written by Huffman's code, and read. */
static int huffman(void)
{
    enum { N = 5000, LETTERS = 32 };
    static unsigned char text[N], read[N], bits[N * LETTERS];
    int weight[2 * LETTERS] = {0}, above[2 * LETTERS] = {0}, side[2 * LETTERS] = {0}, child[2 * LETTERS][2], nodes = LETTERS;
    for (int i = 0; i < N; i++)
        weight[text[i] = (random32() % LETTERS) & (random32() % LETTERS)]++;
    for (int i = 0; i < LETTERS; i++)
        weight[i]++; /* so that each has a code */
    for (; nodes < 2 * LETTERS - 1; nodes++) {
        for (int s = 0; s < 2; s++) {
            int rarest = -1;
            for (int i = 0; i < nodes; i++)
                if (!above[i] && (rarest < 0 || weight[i] < weight[rarest]))
                    rarest = i;
            above[rarest] = nodes, side[rarest] = s, child[nodes][s] = rarest;
            weight[nodes] += weight[rarest];
        }
    }
    size_t length = 0;
    for (int i = 0; i < N; i++) {
        unsigned char code[LETTERS];
        int n = 0;
        for (int at = text[i]; above[at]; at = above[at])
            code[n++] = side[at];
        while (n > 0)
            bits[length++] = code[--n];
    }
    size_t at = 0;
    for (int i = 0; i < N; i++) {
        int node = nodes - 1;
        while (node >= LETTERS)
            node = child[node][bits[at++]];
        read[i] = node;
    }
    return at == length && length < 5 * N && !memcmp(text, read, N);
}

/* A network of 35 inputs, 8 hidden and 8 outputs learns letters by back propagation. */
static int network(void)
{
    enum { IN = 35, HIDDEN = 8, OUT = 8, LETTERS = 26, EPOCHS = 400 };
    static double in[LETTERS][IN + 1], want[LETTERS][OUT], v[HIDDEN][IN + 1], w[OUT][HIDDEN + 1];
    for (int l = 0; l < LETTERS; l++) {
        for (int i = 0; i < IN; i++)
            in[l][i] = random32() % 2 ? 0.9 : 0.1;
        in[l][IN] = 1;
        for (int o = 0; o < OUT; o++)
            want[l][o] = ('A' + l) >> o & 1 ? 0.9 : 0.1;
    }
    for (int h = 0; h < HIDDEN; h++)
        for (int i = 0; i <= IN; i++)
            v[h][i] = uniform() - 0.5;
    for (int o = 0; o < OUT; o++)
        for (int h = 0; h <= HIDDEN; h++)
            w[o][h] = uniform() - 0.5;
    double first = 0, error = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        error = 0;
        for (int l = 0; l < LETTERS; l++) {
            double hidden[HIDDEN + 1], out, back[HIDDEN] = {0};
            for (int h = 0; h < HIDDEN; h++) {
                double sum = 0;
                for (int i = 0; i <= IN; i++)
                    sum += v[h][i] * in[l][i];
                hidden[h] = 1 / (1 + exp(-sum));
            }
            hidden[HIDDEN] = 1;
            for (int o = 0; o < OUT; o++) {
                double sum = 0;
                for (int h = 0; h <= HIDDEN; h++)
                    sum += w[o][h] * hidden[h];
                out = 1 / (1 + exp(-sum));
                double off = want[l][o] - out, slope = off * out * (1 - out);
                error += off * off;
                for (int h = 0; h < HIDDEN; h++)
                    back[h] += slope * w[o][h];
                for (int h = 0; h <= HIDDEN; h++)
                    w[o][h] += 0.5 * slope * hidden[h];
            }
            for (int h = 0; h < HIDDEN; h++) {
                double slope = back[h] * hidden[h] * (1 - hidden[h]);
                for (int i = 0; i <= IN; i++)
                    v[h][i] += 0.5 * slope * in[l][i];
            }
        }
        if (epoch == 0)
            first = error;
    }
    return error < first / 4;
}

/* A system of linear equations is solved, with rows exchanged. */
static int equations(void)
{
    enum { N = 101 };
    static double a[N][N], lu[N][N];
    double b[N], x[N];
    for (int i = 0; i < N; i++) {
        b[i] = x[i] = uniform();
        for (int j = 0; j < N; j++)
            lu[i][j] = a[i][j] = uniform() - 0.5;
    }
    for (int k = 0; k < N; k++) {
        int best = k;
        for (int i = k + 1; i < N; i++)
            if (fabs(lu[i][k]) > fabs(lu[best][k]))
                best = i;
        for (int j = 0; j < N; j++) {
            double kept = lu[k][j];
            lu[k][j] = lu[best][j], lu[best][j] = kept;
        }
        double kept = x[k];
        x[k] = x[best], x[best] = kept;
        for (int i = k + 1; i < N; i++) {
            double factor = lu[i][k] /= lu[k][k];
            for (int j = k + 1; j < N; j++)
                lu[i][j] -= factor * lu[k][j];
            x[i] -= factor * x[k];
        }
    }
    for (int i = N - 1; i >= 0; i--) {
        for (int j = i + 1; j < N; j++)
            x[i] -= lu[i][j] * x[j];
        x[i] /= lu[i][i];
    }
    for (int i = 0; i < N; i++) {
        double sum = -b[i], size = 1;
        for (int j = 0; j < N; j++)
            sum += a[i][j] * x[j], size += fabs(a[i][j] * x[j]);
        if (!(fabs(sum) <= 1e-10 * size))
            return 0;
    }
    return 1;
}

static const struct {
    const char *name;
    int (*once)(void);
    int floating;
    double reference; /* the rate of one core of an AMD EPYC with Zen 4 (family 25, model 17), as GCC 14 compiles it with -O2 */
} kernels[] = {
    {"numeric-sort", numeric_sort, 0, 2090}, {"string-sort", string_sort, 0, 1718}, {"bit-field", bit_field, 0, 3521},
    {"emulation", emulation, 0, 2784},       {"fourier", fourier, 1, 3709},         {"assignment", assignment, 0, 4132},
    {"idea", idea, 0, 11056},                {"huffman", huffman, 0, 7372},         {"network", network, 1, 265.8},
    {"equations", equations, 1, 5381},
};

int main(int argc, char **argv)
{
    double seconds = argc == 2 ? atof(argv[1]) : 0, logarithms[2] = {0};
    int of[2] = {0};
    if (!(seconds > 0 && seconds <= 3600)) {
        fprintf(stderr, "usage: kernels SECONDS\n");
        return 2;
    }
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        long times = 0;
        double start = now(), took;
        seed = 2463534242;
        do {
            if (!kernels[k].once()) {
                fprintf(stderr, "kernels: wrong result in %s\n", kernels[k].name);
                return 1;
            }
            times++;
        } while ((took = now() - start) < seconds);
        double rate = times / took;
        printf("%s %.2f\n", kernels[k].name, rate);
        logarithms[kernels[k].floating] += log(rate / kernels[k].reference);
        of[kernels[k].floating]++;
    }
    printf("integer-index %.4f\nfloating-index %.4f\n", exp(logarithms[0] / of[0]), exp(logarithms[1] / of[1]));
    return 0;
}

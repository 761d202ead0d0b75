/* Speeds of light of one core, for `make bench`: the highest rates at which it retires float32
 * fused multiply-adds and bfloat16 dot products. Prints `name GFLOP/s` lines; a multiply-add counts
 * as two operations. Build: cc -O2 peaks.c. Not part of any wheel. */

#include <stdio.h>
#include <time.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define REPEATS 4000000L
/* Independent chains hide the latency: ten for two multiply-adds a cycle of four cycles each, and
 * still few enough for sixteen registers; twenty for the dot product, which takes longer. */
#define TEN(step, v) step(v[0]) step(v[1]) step(v[2]) step(v[3]) step(v[4]) \
                     step(v[5]) step(v[6]) step(v[7]) step(v[8]) step(v[9])

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* The empty asm keeps the compiler from merging steps of a chain. */
#define KEEP(x) __asm__ volatile("" : "+v"(x));

#define FMA256(x) x = _mm256_fmadd_ps(x, half, half); KEEP(x)
__attribute__((target("avx2,fma"))) static double fma_avx2(void) {
    __m256 half = _mm256_set1_ps(0.5f);
    __m256 p[10] = {half, half, half, half, half, half, half, half, half, half};
    double begin = now();
    for (long r = 0; r < REPEATS; r++) { TEN(FMA256, p) }
    return now() - begin;
}

#define FMA512(x) x = _mm512_fmadd_ps(x, half, half); KEEP(x)
__attribute__((target("avx512f"))) static double fma_avx512(void) {
    __m512 half = _mm512_set1_ps(0.5f);
    __m512 p[10] = {half, half, half, half, half, half, half, half, half, half};
    double begin = now();
    for (long r = 0; r < REPEATS; r++) { TEN(FMA512, p) }
    return now() - begin;
}

#define DOT512(x) x = _mm512_dpbf16_ps(x, halves, halves); KEEP(x)
__attribute__((target("avx512f,avx512bf16"))) static double dot_bf16(void) {
    __m512bh halves = (__m512bh)_mm512_set1_epi32(0x3f003f00);
    __m512 zero = _mm512_setzero_ps();
    __m512 p[10] = {zero, zero, zero, zero, zero, zero, zero, zero, zero, zero};
    __m512 q[10] = {zero, zero, zero, zero, zero, zero, zero, zero, zero, zero};
    double begin = now();
    for (long r = 0; r < REPEATS; r++) { TEN(DOT512, p) TEN(DOT512, q) }
    return now() - begin;
}

static void report(const char *name, double (*run)(void), int multiplies) {
    double best = run();
    for (int i = 0; i < 9; i++) {
        double seconds = run();
        if (seconds < best) best = seconds;
    }
    printf("%s %.1f\n", name, 2e-9 * REPEATS * multiplies / best);
}

int main(void) {
    if (__builtin_cpu_supports("fma")) report("fma_avx2", fma_avx2, 10 * 8);
    if (__builtin_cpu_supports("avx512f")) report("fma_avx512", fma_avx512, 10 * 16);
    if (__builtin_cpu_supports("avx512bf16")) report("bf16_dot", dot_bf16, 20 * 32);
    return 0;
}
#else
int main(void) { return 0; }
#endif

/* Speeds of light of one core, for `make bench`: the highest rates at which it retires float32
 * fused multiply-adds, bfloat16 dot products and AMX products of tiles. An AMX tile product sums all
 * its k apart from the accumulator and then adds the sum, so its chain is not one rounding a step;
 * with one k a tile (and zeros beside it) it is, and `amx_step` is the rate of that. Prints
 * `name GFLOP/s` lines; a multiply-add counts as two operations. Build: cc -O2 peaks.c. Not part of
 * any wheel. */

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

#ifdef __linux__
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX __attribute__((target("amx-tile,amx-bf16")))
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Four accumulators of 16 x 16, products of 16 x (2 x pairs) by (2 x pairs) x 16. */
AMX static double amx_of(int pairs) {
    static uint8_t zeros[1024];
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 4; i++) { config.rows[i] = 16; config.row_bytes[i] = 64; }
    for (int i = 4; i < 6; i++) { config.rows[i] = 16; config.row_bytes[i] = (uint16_t)(4 * pairs); }
    for (int i = 6; i < 8; i++) { config.rows[i] = (uint8_t)pairs; config.row_bytes[i] = 64; }
    _tile_loadconfig(&config);
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
    _tile_loadd(4, zeros, 64); _tile_loadd(5, zeros, 64); _tile_loadd(6, zeros, 64); _tile_loadd(7, zeros, 64);
    double begin = now();
    for (long r = 0; r < REPEATS / 8; r++) {
        _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7); _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);
    }
    double seconds = now() - begin;
    _tile_release();
    return 8 * seconds;
}

AMX static double amx_bf16(void) { return amx_of(16); }
AMX static double amx_step(void) { return amx_of(1); }

/* The system gives the registers of tiles to those who ask. */
static int has_amx(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return __builtin_cpu_supports("amx-bf16") && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#endif

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
#ifdef __linux__
    if (has_amx()) {
        report("amx_bf16", amx_bf16, 4 * 16 * 16 * 32);
        report("amx_step", amx_step, 4 * 16 * 16);
    }
#endif
    return 0;
}
#else
int main(void) { return 0; }
#endif

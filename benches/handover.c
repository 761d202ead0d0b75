/* How long a cache line takes from one core to another, for `make bench`: two threads, each on a core of its own, hand a
 * number back and forth. Prints nanoseconds one way, nothing where threads cannot be kept on cores. Cores that share
 * their last cache take some 30, others 100 and more; a guest's may move from the one to the other while it runs.
 * Build: cc -O2 -pthread handover.c. Not part of any wheel. */

#define _GNU_SOURCE
#include <stdio.h>

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#define ROUNDS 200000L

static _Alignas(128) atomic_long ball;
static int cores[2];

static int keep_on(int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

/* Waits for odd numbers, gives back the even ones behind them. */
static void *other(void *nothing) {
    keep_on(cores[1]);
    for (long round = 0; round < ROUNDS; round++) {
        while (atomic_load(&ball) != 2 * round + 1) { }
        atomic_store(&ball, 2 * round + 2);
    }
    return nothing;
}

int main(void) {
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return 0;
    for (int core = 0, found = 0; found < 2; core++)
        if (CPU_ISSET(core, &all)) cores[found++] = core;
    pthread_t second;
    if (keep_on(cores[0]) != 0 || pthread_create(&second, NULL, other, NULL) != 0) return 0;
    struct timespec begin, end;
    for (long round = 0; round < ROUNDS; round++) {
        /* Until the second has begun. */
        if (round == 1) clock_gettime(CLOCK_MONOTONIC, &begin);
        atomic_store(&ball, 2 * round + 1);
        while (atomic_load(&ball) != 2 * round + 2) { }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    pthread_join(second, NULL);
    double nanoseconds = 1e9 * (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec);
    printf("%.1f\n", nanoseconds / (2 * (ROUNDS - 1)));
    return 0;
}
#else
int main(void) { return 0; }
#endif

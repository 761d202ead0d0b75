/* What the test programs check with: a line for each failure, and a status at the end. */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trn3.h"

static int check_failures = 0;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                                             \
            check_failures += 1;                                                                                       \
        }                                                                                                              \
    } while (0)

/* The status of a call, and the text of one that was not expected. */
#define CHECK_STATUS(expected, call)                                                                                   \
    do {                                                                                                               \
        const trn3_status check_status = (call);                                                                       \
        if (check_status != (expected)) {                                                                              \
            char check_text[512];                                                                                      \
            (void)trn3_last_error(check_text, sizeof check_text);                                                      \
            printf("%s:%d: %s gave %d, not %s: %s\n", __FILE__, __LINE__, #call, (int)check_status, #expected,         \
                   check_text);                                                                                        \
            check_failures += 1;                                                                                       \
        }                                                                                                              \
    } while (0)

#define CHECK_OK(call) CHECK_STATUS(TRN3_OK, call)

#define CHECK_BITS(expected, got)                                                                                      \
    do {                                                                                                               \
        const uint32_t check_expected = (expected);                                                                    \
        const uint32_t check_got = (got);                                                                              \
        if (check_expected != check_got) {                                                                             \
            printf("%s:%d: %s is %#" PRIx32 ", not %#" PRIx32 "\n", __FILE__, __LINE__, #got, check_got,               \
                   check_expected);                                                                                    \
            check_failures += 1;                                                                                       \
        }                                                                                                              \
    } while (0)

static inline int check_result(void) {
    printf(check_failures == 0 ? "ok\n" : "%d failures\n", check_failures);
    return check_failures == 0 ? 0 : 1;
}

#endif

// STUB, see sim/core.hh: messages.
#ifndef STUB_BASE_LOGGING_HH
#define STUB_BASE_LOGGING_HH

#include <cstdio>
#include <cstdlib>

#define stub_stop_if(condition, ...)                                                                                   \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            std::fprintf(stderr, __VA_ARGS__);                                                                         \
            std::fputc('\n', stderr);                                                                                  \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)
#define fatal_if(condition, ...) stub_stop_if(condition, __VA_ARGS__)
#define panic_if(condition, ...) stub_stop_if(condition, __VA_ARGS__)
#define warn(...) (std::fprintf(stderr, __VA_ARGS__), std::fputc('\n', stderr))

#endif

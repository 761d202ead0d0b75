// What the drivers of adapters check with, and the matmul that they run: operands, and the product by the arithmetic alone.
#ifndef TRN3_TESTING_HPP
#define TRN3_TESTING_HPP

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "trn3_device.hpp"

namespace testing {

inline int failures = 0;

inline void expect(bool holds, const char* what, int line) {
    if (!holds) {
        std::printf("line %d: failed: %s\n", line, what);
        failures += 1;
    }
}
#define EXPECT(condition) testing::expect((condition), #condition, __LINE__)

inline int result() {
    std::puts(failures == 0 ? "ok" : "FAILED");
    return failures == 0 ? 0 : 1;
}

inline std::string file(const char* path) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) {
        std::fprintf(stderr, "%s cannot be read\n", path);
        std::exit(2);
    }
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

constexpr std::size_t K = 128, M = 128, N = 512;

// bfloat16 of magnitude 2^-3 to 2^1 and either sign.
inline std::vector<std::uint16_t> operand(std::size_t count, std::uint32_t seed) {
    std::vector<std::uint16_t> values(count);
    for (auto& value : values) {
        seed = seed * 1664525u + 1013904223u;
        const std::uint32_t draw = seed >> 8;
        value = static_cast<std::uint16_t>(((draw & 1) << 15) | ((124 + (draw >> 1) % 4) << 7) | ((draw >> 8) & 0x7f));
    }
    return values;
}

// lhsT [K, M] and rhs [K, N] to float32 [M, N].
inline std::vector<std::uint32_t> product(const std::vector<std::uint16_t>& lhsT, const std::vector<std::uint16_t>& rhs) {
    std::vector<std::uint32_t> out(M * N);
    const trn3_array a = {sizeof a, lhsT.data(), TRN3_DTYPE_BFLOAT16, 2, {M, K}, {2, 2 * M}};
    const trn3_array b = {sizeof b, rhs.data(), TRN3_DTYPE_BFLOAT16, 2, {K, N}, {}};
    const trn3_array_mut y = {sizeof y, out.data(), TRN3_DTYPE_FLOAT32, 2, {M, N}, {}};
    trn3::check(trn3_matmul(&a, &b, nullptr, &y, nullptr, nullptr, 0));
    return out;
}

// What the interface alone says one run of a program takes.
inline std::uint64_t run_time(const std::string& program) {
    trn3::Device device;
    device.run(device.load(program), 1);
    const std::uint64_t end = device.next_event();
    device.advance(end);
    const auto done = device.poll();
    EXPECT(done && done->status == TRN3_OK && done->end_ps == end);
    return end;
}

}  // namespace testing

#endif

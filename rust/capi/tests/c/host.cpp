// The header in C++17, and a function of each kind through it.
#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "check.h"

static_assert(std::is_same_v<decltype(trn3_abi_version()), std::uint32_t>, "the version is a number");
static_assert(std::is_standard_layout_v<trn3_array> && std::is_trivially_copyable_v<trn3_array>, "plain data");

namespace {

template <typename Code> trn3_array in(const std::vector<Code> &codes, trn3_dtype dtype) {
    trn3_array array{};
    array.size = sizeof array;
    array.data = codes.data();
    array.dtype = dtype;
    array.ndim = 1;
    array.shape[0] = static_cast<std::int64_t>(codes.size());
    return array;
}

template <typename Code> trn3_array_mut out(std::vector<Code> &codes, trn3_dtype dtype) {
    trn3_array_mut array{};
    array.size = sizeof array;
    array.data = codes.data();
    array.dtype = dtype;
    array.ndim = 1;
    array.shape[0] = static_cast<std::int64_t>(codes.size());
    return array;
}

std::string last_error() {
    std::size_t size = 0;
    CHECK_OK(trn3_last_error_size(&size));
    std::string text(size, '\0');
    CHECK_OK(trn3_last_error(text.data(), text.size()));
    text.pop_back();
    return text;
}

} // namespace

int main() {
    CHECK(trn3_abi_version() == TRN3_ABI_VERSION);
    const std::vector<std::uint32_t> x{0x3f808000u, 0x40490fdbu};
    std::vector<std::uint16_t> y(2);
    const auto from = in(x, TRN3_DTYPE_FLOAT32);
    const auto to = out(y, TRN3_DTYPE_BFLOAT16);
    CHECK_OK(trn3_cast(&from, &to, nullptr, nullptr, 0));
    CHECK_BITS(0x3f80, y[0]);
    CHECK_BITS(0x4049, y[1]);
    CHECK_STATUS(TRN3_VALUE, trn3_cast(nullptr, &to, nullptr, nullptr, 0));
    CHECK(last_error() == "x is null");
    std::array<std::uint32_t, 6> words{};
    trn3_xorwow generator{sizeof generator, words.data(), 1, 6, 0};
    CHECK_OK(trn3_xorwow_seed(&generator, 1));
    std::uint32_t draw = 0;
    CHECK_OK(trn3_xorwow_next(&generator, &draw, 1));
    return check_result();
}

// A device of trn3 as a C++17 value, for adapters: owned, movable, failures thrown with the library's own text.
#ifndef TRN3_DEVICE_HPP
#define TRN3_DEVICE_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trn3.h"

namespace trn3 {

// A call that was refused, with its status.
class Error : public std::runtime_error {
  public:
    Error(trn3_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
    trn3_status status() const noexcept { return status_; }

  private:
    trn3_status status_;
};

inline std::string last_error() {
    std::size_t size = 0;
    if (trn3_last_error_size(&size) != TRN3_OK) {
        return "unknown failure";
    }
    std::string text(size, '\0');
    if (trn3_last_error(text.data(), text.size()) != TRN3_OK) {
        return "unknown failure";
    }
    text.resize(size - 1);
    return text;
}

inline void check(trn3_status status) {
    if (status != TRN3_OK) {
        throw Error(status, last_error());
    }
}

// A structure of the interface with its size set and everything else zero.
template <typename T> T record() {
    T value{};
    value.size = sizeof value;
    return value;
}

class Device {
  public:
    explicit Device(std::string_view config = {}) {
        if (trn3_abi_version() >> 16 != TRN3_VERSION_MAJOR) {
            throw Error(TRN3_ABI, "the library is of another version than trn3.h");
        }
        check(trn3_device_create(config.data(), config.size(), &handle_));
    }
    ~Device() {
        if (handle_ != nullptr) {
            (void)trn3_device_destroy(handle_);
        }
    }
    Device(Device&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Device& operator=(Device&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    trn3_device* get() const noexcept { return handle_; }

    std::uint64_t load(std::string_view program) {
        std::uint64_t number = 0;
        check(trn3_device_load(handle_, program.data(), program.size(), &number));
        return number;
    }
    trn3_tensor tensor(std::uint64_t program, std::string_view name) const {
        auto found = record<trn3_tensor>();
        check(trn3_device_tensor(handle_, program, name.data(), name.size(), &found));
        return found;
    }

    // HBM. What comes back is the delay in picoseconds.
    std::uint64_t read(std::uint64_t address, void* bytes, std::size_t length) {
        std::uint64_t delay = 0;
        check(trn3_memory_read(handle_, TRN3_SPACE_HBM, 0, address, bytes, length, &delay));
        return delay;
    }
    std::uint64_t write(std::uint64_t address, const void* bytes, std::size_t length) {
        std::uint64_t delay = 0;
        check(trn3_memory_write(handle_, TRN3_SPACE_HBM, 0, address, bytes, length, &delay));
        return delay;
    }

    void run(std::uint64_t program, std::uint64_t tag, std::uint32_t core = 0) {
        auto command = record<trn3_command>();
        command.kind = TRN3_COMMAND_RUN;
        command.core = core;
        command.program = program;
        submit(command, tag);
    }
    void submit(const trn3_command& command, std::uint64_t tag) { check(trn3_submit(handle_, &command, tag)); }
    bool can_submit(std::uint32_t core = 0) const {
        std::uint32_t can = 0;
        check(trn3_can_submit(handle_, core, &can));
        return can != 0;
    }
    std::uint64_t now() const {
        std::uint64_t ps = 0;
        check(trn3_now(handle_, &ps));
        return ps;
    }
    // TRN3_NEVER: nothing happens by itself. Holds until the host does something: a run on another core may move an end to
    // later.
    std::uint64_t next_event() const {
        std::uint64_t ps = 0;
        check(trn3_next_event(handle_, &ps));
        return ps;
    }
    void advance(std::uint64_t until_ps) { check(trn3_advance(handle_, until_ps)); }
    std::optional<trn3_completion> poll() {
        auto done = record<trn3_completion>();
        std::size_t count = 0;
        check(trn3_poll(handle_, &done, 1, &count));
        return count == 0 ? std::nullopt : std::optional(done);
    }

    std::vector<std::pair<std::string, std::uint64_t>> stats() const {
        std::size_t count = 0;
        check(trn3_stats_count(handle_, &count));
        std::vector<std::pair<std::string, std::uint64_t>> all;
        for (std::size_t index = 0; index < count; ++index) {
            char name[64];
            std::uint64_t value = 0;
            check(trn3_stats_name(handle_, index, name, sizeof name));
            check(trn3_stats_value(handle_, index, &value));
            all.emplace_back(name, value);
        }
        return all;
    }
    void reset_stats() { check(trn3_stats_reset(handle_)); }

    std::vector<char> save() {
        std::size_t size = 0;
        check(trn3_snapshot_size(handle_, &size));
        std::vector<char> bytes(size);
        check(trn3_snapshot_save(handle_, bytes.data(), bytes.size(), &size));
        bytes.resize(size);
        return bytes;
    }
    void restore(const std::vector<char>& bytes) { check(trn3_snapshot_load(handle_, bytes.data(), bytes.size())); }

  private:
    trn3_device* handle_ = nullptr;
};

}  // namespace trn3

#endif

// ADAPTER, to be built in a gem5 tree.
#include "trn3_wrapper.hh"

#include <algorithm>
#include <map>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "trn3_device.hpp"

struct Trn3Wrapper::Parts {
    trn3::Device device;
    std::size_t queue_size;
    AccessDone access_done;
    RunDone run_done;
    // Ends of accesses, in order of time and, at one time, of arrival.
    std::multimap<std::uint64_t, std::uint64_t> accesses;

    void tell_of_runs() {
        while (const auto done = device.poll()) {
            run_done(done->tag, done->status == TRN3_OK ? std::string() : std::string(done->message));
        }
    }
};

Trn3Wrapper::Trn3Wrapper(const std::string& config, std::size_t queue_size, AccessDone access_done, RunDone run_done)
    : parts_(new Parts{trn3::Device(config), queue_size, std::move(access_done), std::move(run_done), {}}) {
    if (queue_size == 0) {
        throw std::invalid_argument("queue_size is 0; at least 1 access must fit");
    }
}

Trn3Wrapper::~Trn3Wrapper() = default;

std::size_t Trn3Wrapper::queueSize() const { return parts_->queue_size; }

std::uint64_t Trn3Wrapper::memoryBytes() const {
    std::uint64_t bytes = 0;
    trn3::check(trn3_memory_size(parts_->device.get(), TRN3_SPACE_HBM, &bytes));
    return bytes;
}

std::uint64_t Trn3Wrapper::load(const std::string& program) { return parts_->device.load(program); }

std::uint64_t Trn3Wrapper::address(std::uint64_t program, const std::string& tensor) const {
    const trn3_tensor found = parts_->device.tensor(program, tensor);
    if (found.space != TRN3_SPACE_HBM) {
        throw std::invalid_argument("tensor " + tensor + " is not in HBM");
    }
    return found.address;
}

std::uint64_t Trn3Wrapper::read(std::uint64_t address, void* bytes, std::size_t length) {
    return parts_->device.read(address, bytes, length);
}

std::uint64_t Trn3Wrapper::write(std::uint64_t address, const void* bytes, std::size_t length) {
    return parts_->device.write(address, bytes, length);
}

bool Trn3Wrapper::canAccept() const { return parts_->accesses.size() < parts_->queue_size; }

void Trn3Wrapper::enqueue(std::uint64_t tag, std::uint64_t at_ps, std::uint64_t delay_ps) {
    if (!canAccept()) {
        throw std::logic_error("the queue of accesses is full: ask canAccept first");
    }
    parts_->accesses.emplace(at_ps + delay_ps, tag);
}

bool Trn3Wrapper::canRun(std::uint32_t core) const { return parts_->device.can_submit(core); }

void Trn3Wrapper::run(std::uint32_t core, std::uint64_t program, std::uint64_t tag, std::uint64_t at_ps) {
    advance(at_ps);
    parts_->device.run(program, tag, core);
}

std::uint64_t Trn3Wrapper::nextEvent() const {
    const std::uint64_t access = parts_->accesses.empty() ? NEVER : parts_->accesses.begin()->first;
    return std::min(access, parts_->device.next_event());
}

void Trn3Wrapper::advance(std::uint64_t until_ps) {
    for (std::uint64_t next = nextEvent(); next != NEVER && next <= until_ps; next = nextEvent()) {
        // What ends at once (a run that failed, a restored device) has a time that is past.
        parts_->device.advance(std::max(next, parts_->device.now()));
        parts_->tell_of_runs();
        while (!parts_->accesses.empty() && parts_->accesses.begin()->first <= next) {
            const std::uint64_t tag = parts_->accesses.begin()->second;
            parts_->accesses.erase(parts_->accesses.begin());
            parts_->access_done(tag);
        }
    }
    if (until_ps > parts_->device.now()) {
        parts_->device.advance(until_ps);
    }
}

std::size_t Trn3Wrapper::pending() const { return parts_->accesses.size(); }

void Trn3Wrapper::printStats(std::ostream& stream) const {
    for (const auto& [name, value] : parts_->device.stats()) {
        stream << "trn3." << name << ' ' << value << '\n';
    }
}

void Trn3Wrapper::resetStats() { parts_->device.reset_stats(); }

std::vector<char> Trn3Wrapper::save() {
    if (pending() != 0) {
        throw std::logic_error("accesses are under way: drain before saving");
    }
    return parts_->device.save();
}

void Trn3Wrapper::restore(const std::vector<char>& bytes) {
    parts_->device.restore(bytes);
    parts_->accesses.clear();
}

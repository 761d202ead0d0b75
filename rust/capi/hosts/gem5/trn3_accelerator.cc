// ADAPTER, to be built in a gem5 tree.
#include "trn3_accelerator.hh"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/logging.hh"
#include "mem/packet_access.hh"
#include "sim/core.hh"

namespace gem5 {

namespace {

constexpr Addr RegisterBytes = 4096;

std::string contents(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    fatal_if(!stream, "trn3: program %s cannot be read", path.c_str());
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace

Trn3Accelerator::Trn3Accelerator(const Trn3AcceleratorParams& params)
    : ClockedObject(params),
      base_(params.base),
      register_latency_(params.register_latency),
      wrapper_(
          params.config, params.queue_size, [this](std::uint64_t tag) { accessDone(tag); },
          [this](std::uint64_t tag, const std::string& message) { runDone(tag, message); }),
      port_(params.name + ".port", *this),
      event_([this] { process(); }, params.name + ".event") {
    fatal_if(sim_clock::as_int::ps != 1, "trn3: a tick must be a picosecond");
    for (const std::string& path : params.programs) {
        programs_.push_back(wrapper_.load(contents(path)));
    }
}

Port& Trn3Accelerator::getPort(const std::string& name, PortID index) {
    return name == "port" ? port_ : ClockedObject::getPort(name, index);
}

void Trn3Accelerator::startup() { scheduleNext(); }

Addr Trn3Accelerator::tensorAddress(std::size_t number, const std::string& tensor) const {
    return base_ + wrapper_.address(programs_.at(number), tensor);
}

AddrRangeList Trn3Accelerator::ranges() const { return {RangeSize(base_, wrapper_.memoryBytes() + RegisterBytes)}; }

Tick Trn3Accelerator::access(PacketPtr packet) {
    const Addr offset = packet->getAddr() - base_;
    const Addr memory = wrapper_.memoryBytes();
    if (offset >= memory) {
        return accessRegister(packet, offset - memory);
    }
    Tick delay = 0;
    if (packet->isRead()) {
        delay = wrapper_.read(offset, packet->getPtr<std::uint8_t>(), packet->getSize());
    } else if (packet->isWrite()) {
        delay = wrapper_.write(offset, packet->getConstPtr<std::uint8_t>(), packet->getSize());
    }
    return delay;
}

Tick Trn3Accelerator::accessRegister(PacketPtr packet, Addr offset) {
    panic_if(packet->getSize() != 8, "trn3: registers are accessed by 8 bytes, not %u", packet->getSize());
    if (packet->isRead()) {
        const std::uint64_t value = offset == COMPLETED ? completed_
                                    : offset == FAILED  ? failed_
                                    : offset == QUEUE   ? std::uint64_t{wrapper_.canRun(0)}
                                                        : 0;
        packet->setLE<std::uint64_t>(value);
    } else if (packet->isWrite() && offset == RUN) {
        const std::uint64_t number = packet->getLE<std::uint64_t>();
        if (number >= programs_.size() || !wrapper_.canRun(0)) {
            // As a device does: software reads what became of it.
            completed_ += 1;
            failed_ += 1;
        } else {
            wrapper_.run(0, programs_[number], number, curTick());
            scheduleNext();
        }
    }
    return register_latency_;
}

Tick Trn3Accelerator::MemoryPort::recvAtomic(PacketPtr packet) {
    // Without events between, what has ended until now is taken note of here.
    owner_.wrapper_.advance(curTick());
    const Tick latency = owner_.access(packet);
    if (packet->needsResponse()) {
        packet->makeResponse();
    }
    return latency;
}

void Trn3Accelerator::MemoryPort::recvFunctional(PacketPtr packet) {
    owner_.access(packet);
    if (packet->needsResponse()) {
        packet->makeResponse();
    }
}

bool Trn3Accelerator::request(PacketPtr packet) {
    // Responses that the other side does not take hold their places.
    if (!wrapper_.canAccept() || wrapper_.pending() + responses_.size() >= wrapper_.queueSize()) {
        owes_retry_ = true;
        return false;
    }
    wrapper_.advance(curTick());
    const Tick delay = access(packet);
    if (!packet->needsResponse()) {
        delete packet;
        return true;
    }
    packet->makeTimingResponse();
    packets_.emplace(next_tag_, packet);
    wrapper_.enqueue(next_tag_, curTick(), delay);
    next_tag_ += 1;
    scheduleNext();
    return true;
}

void Trn3Accelerator::respond() {
    waits_for_retry_ = false;
    while (!responses_.empty()) {
        if (!port_.sendTimingResp(responses_.front())) {
            waits_for_retry_ = true;
            return;
        }
        responses_.pop_front();
        if (owes_retry_) {
            owes_retry_ = false;
            port_.sendRetryReq();
        }
    }
    if (drainState() == DrainState::Draining && packets_.empty()) {
        signalDrainDone();
    }
}

void Trn3Accelerator::process() {
    wrapper_.advance(curTick());
    if (!waits_for_retry_) {
        respond();
    }
    scheduleNext();
}

void Trn3Accelerator::scheduleNext() {
    // What ended while a request advanced the device is answered by an event of its own.
    const bool answers = !responses_.empty() && !waits_for_retry_;
    const std::uint64_t next = answers ? curTick() : wrapper_.nextEvent();
    if (next == Trn3Wrapper::NEVER) {
        if (event_.scheduled()) {
            deschedule(event_);
        }
        return;
    }
    const Tick at = std::max<Tick>(next, curTick());
    if (!event_.scheduled()) {
        schedule(event_, at);
    } else if (event_.when() != at) {
        reschedule(event_, at);
    }
}

void Trn3Accelerator::accessDone(std::uint64_t tag) {
    const auto found = packets_.find(tag);
    responses_.push_back(found->second);
    packets_.erase(found);
}

void Trn3Accelerator::runDone(std::uint64_t tag, const std::string& message) {
    completed_ += 1;
    if (!message.empty()) {
        failed_ += 1;
        warn("trn3: program %lu: %s", static_cast<unsigned long>(tag), message.c_str());
    }
}

DrainState Trn3Accelerator::drain() {
    // Packets must be answered; programs under way are in the snapshot.
    return packets_.empty() && responses_.empty() ? DrainState::Drained : DrainState::Draining;
}

void Trn3Accelerator::drainResume() { scheduleNext(); }

void Trn3Accelerator::serialize(CheckpointOut& checkpoint) const {
    const std::vector<char> bytes = const_cast<Trn3Wrapper&>(wrapper_).save();
    const std::vector<unsigned> snapshot(
        reinterpret_cast<const unsigned char*>(bytes.data()),
        reinterpret_cast<const unsigned char*>(bytes.data()) + bytes.size());
    paramOut(checkpoint, "completed", completed_);
    paramOut(checkpoint, "failed", failed_);
    arrayParamOut(checkpoint, "snapshot", snapshot);
}

void Trn3Accelerator::unserialize(CheckpointIn& checkpoint) {
    std::vector<unsigned> snapshot;
    paramIn(checkpoint, "completed", completed_);
    paramIn(checkpoint, "failed", failed_);
    arrayParamIn(checkpoint, "snapshot", snapshot);
    std::vector<char> bytes(snapshot.size());
    std::transform(snapshot.begin(), snapshot.end(), bytes.begin(), [](unsigned byte) { return static_cast<char>(byte); });
    wrapper_.restore(bytes);
}

void Trn3Accelerator::resetStats() {
    ClockedObject::resetStats();
    wrapper_.resetStats();
}

}  // namespace gem5

// Drives the gem5 adapter through stubs: a matmul in functional, atomic and timing mode, retries, drain, checkpoint.
#include <sstream>

#include "testing.hpp"
#include "trn3_accelerator.hh"

using namespace gem5;

namespace {

class Processor : public RequestPort {
  public:
    using RequestPort::RequestPort;
    bool recvTimingResp(PacketPtr packet) override {
        if (refuses > 0) {
            refuses -= 1;
            refused = true;
            return false;
        }
        answered.emplace_back(curTick(), packet);
        return true;
    }
    void recvReqRetry() override { retries += 1; }

    std::vector<std::pair<Tick, PacketPtr>> answered;
    int refuses = 0, retries = 0;
    bool refused = false;
};

void functional_write(Processor& processor, Addr address, const std::vector<std::uint16_t>& values) {
    Packet packet(false, address, static_cast<unsigned>(2 * values.size()));
    std::memcpy(packet.getPtr<char>(), values.data(), packet.getSize());
    processor.sendFunctional(&packet);
    EXPECT(packet.isResponse());
}

std::vector<std::uint32_t> functional_read(Processor& processor, Addr address, std::size_t count) {
    Packet packet(true, address, static_cast<unsigned>(4 * count));
    processor.sendFunctional(&packet);
    std::vector<std::uint32_t> values(count);
    std::memcpy(values.data(), packet.getConstPtr<char>(), packet.getSize());
    return values;
}

std::uint64_t read_register(Processor& processor, Addr address) {
    Packet packet(true, address, 8);
    EXPECT(processor.sendAtomic(&packet) == 10000);
    return packet.getLE<std::uint64_t>();
}

void run_atomically(Processor& processor, const Trn3Accelerator& accelerator, std::uint64_t program) {
    Packet packet(false, accelerator.registers() + Trn3Accelerator::RUN, 8);
    packet.setLE(program);
    EXPECT(processor.sendAtomic(&packet) == 10000);
}

Packet* timed(Processor& processor, bool reads, Addr address, unsigned size) {
    auto* packet = new Packet(reads, address, size);
    EXPECT(processor.sendTimingReq(packet));
    return packet;
}

// Two cores that share HBM: an event that was asked for comes too early, finds nothing done, and is asked for again.
void moved_ends(const std::string& program) {
    std::vector<std::uint64_t> done;
    Trn3Wrapper wrapper(
        R"({"cores": 2, "overrides": {"hbm_gbps": 20}})", 1, [](std::uint64_t) {},
        [&](std::uint64_t tag, const std::string& message) {
            EXPECT(message.empty());
            done.push_back(tag);
        });
    const std::uint64_t number = wrapper.load(program);
    wrapper.run(0, number, 7, 0);
    const std::uint64_t said = wrapper.nextEvent();
    wrapper.run(1, number, 8, 0);
    const std::uint64_t moved = wrapper.nextEvent();
    EXPECT(moved >= said);
    wrapper.advance(moved - 1);
    EXPECT(done.empty());
    wrapper.advance(moved);
    const std::uint64_t last = wrapper.nextEvent();
    EXPECT(last != Trn3Wrapper::NEVER && last > said);
    wrapper.advance(last);
    EXPECT(done.size() == 2 && wrapper.nextEvent() == Trn3Wrapper::NEVER);
}

}  // namespace

int main(int, char** arguments) {
    const std::string program = testing::file(arguments[1]);
    const std::uint64_t span = testing::run_time(program);
    moved_ends(program);
    const auto lhsT = testing::operand(testing::K * testing::M, 1), rhs = testing::operand(testing::K * testing::N, 2);
    const auto expected = testing::product(lhsT, rhs);

    Trn3AcceleratorParams params;
    params.name = "system.trn3";
    params.base = Addr{1} << 40;
    params.programs = {arguments[1]};
    params.queue_size = 4;
    Trn3Accelerator accelerator(params);
    Processor processor("processor");
    auto& port = dynamic_cast<ResponsePort&>(accelerator.getPort("port"));
    processor.bind(port);
    accelerator.startup();
    const AddrRange range = port.getAddrRanges().front();
    EXPECT(range.start == params.base && accelerator.registers() + 4096 == range.end);
    EXPECT(!stub_queue.step());

    // Functional: values at once. Then the run, in time.
    functional_write(processor, accelerator.tensorAddress(0, "lhsT"), lhsT);
    functional_write(processor, accelerator.tensorAddress(0, "rhs"), rhs);
    stub_time = 5000;
    run_atomically(processor, accelerator, 0);
    run_atomically(processor, accelerator, 0);
    EXPECT(read_register(processor, accelerator.registers() + Trn3Accelerator::QUEUE) == 1);

    // Half-way through the first run: a checkpoint, which another object goes on from.
    stub_time = 5000 + span / 2;
    EXPECT(read_register(processor, accelerator.registers() + Trn3Accelerator::COMPLETED) == 0);
    EXPECT(accelerator.stub_drain() == DrainState::Drained);
    std::ostringstream checkpoint;
    accelerator.serialize(checkpoint);
    EXPECT(stub_queue.step() && curTick() == 5000 + span);
    EXPECT(read_register(processor, accelerator.registers() + Trn3Accelerator::COMPLETED) == 1);
    EXPECT(stub_queue.step() && curTick() == 5000 + 2 * span);
    EXPECT(read_register(processor, accelerator.registers() + Trn3Accelerator::COMPLETED) == 2);
    EXPECT(read_register(processor, accelerator.registers() + Trn3Accelerator::FAILED) == 0);
    EXPECT(!stub_queue.step());
    const Addr product = accelerator.tensorAddress(0, "product");
    EXPECT(functional_read(processor, product, expected.size()) == expected);

    // Atomic: a time for each access, none of which moves time. Timing: the same times, as events.
    Packet atomic(true, product, 256);
    const Tick delay = processor.sendAtomic(&atomic);
    EXPECT(delay > 0 && std::memcmp(atomic.getConstPtr<char>(), expected.data(), 256) == 0);
    const Tick start = curTick();
    std::vector<Packet*> sent;
    for (unsigned i = 0; i < 4; ++i) {
        sent.push_back(timed(processor, i != 2, product + 256 * i, i == 1 ? 4096 : 256));
    }
    Packet fifth(true, product, 256);
    EXPECT(!processor.sendTimingReq(&fifth));
    EXPECT(accelerator.stub_drain() == DrainState::Draining);
    processor.refuses = 1;
    EXPECT(stub_queue.step() && processor.refused && processor.answered.empty());
    while (stub_queue.step()) {
    }
    EXPECT(processor.answered.empty() && accelerator.drainState() == DrainState::Draining);
    processor.sendRetryResp();
    EXPECT(processor.retries == 1 && accelerator.drainState() == DrainState::Drained);
    EXPECT(processor.answered.size() == 4 && processor.answered[0].second == sent[0]);
    EXPECT(processor.answered[3].second == sent[1] && sent[0]->isResponse());
    EXPECT(std::memcmp(sent[0]->getConstPtr<char>(), expected.data(), 256) == 0);
    processor.answered.clear();
    accelerator.drainResume();
    const Tick again = curTick();
    EXPECT(again > start && processor.sendTimingReq(&fifth));
    EXPECT(stub_queue.step() && processor.answered.size() == 1 && processor.answered[0].first == again + delay);

    // What is no program fails, and says so.
    run_atomically(processor, accelerator, 7);
    EXPECT(read_register(processor, accelerator.registers() + Trn3Accelerator::FAILED) == 1);

    std::ostringstream stats;
    accelerator.printStats(stats);
    EXPECT(stats.str().find("trn3.commands_completed 2\n") != std::string::npos);
    accelerator.resetStats();
    stats.str("");
    accelerator.printStats(stats);
    EXPECT(stats.str().find("trn3.commands_completed 0\n") != std::string::npos);

    // From the checkpoint: the same times and the same bits.
    stub_time = 5000 + span / 2;
    Trn3Accelerator restored(params);
    Processor other("other");
    other.bind(dynamic_cast<ResponsePort&>(restored.getPort("port")));
    CheckpointIn saved(checkpoint.str());
    restored.unserialize(saved);
    restored.startup();
    EXPECT(stub_queue.step() && curTick() == 5000 + span);
    EXPECT(stub_queue.step() && curTick() == 5000 + 2 * span && !stub_queue.step());
    EXPECT(read_register(other, restored.registers() + Trn3Accelerator::COMPLETED) == 2);
    EXPECT(functional_read(other, product, expected.size()) == expected);
    for (Packet* packet : sent) {
        delete packet;
    }
    return testing::result();
}

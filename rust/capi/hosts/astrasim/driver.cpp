// Drives the ASTRA-sim adapters through stubs: a roof, kernels by shape and whole, collectives over a network with latency
// and bandwidth.
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "testing.hpp"
#include "trn3_compute_model.hh"
#include "trn3_network_bridge.hh"

namespace {

// What happens in the process, in whole nanoseconds, in order of time and of scheduling.
class Events {
  public:
    std::uint64_t now = 0;
    void add(std::uint64_t at, void (*handler)(void*), void* argument) { events_.emplace(at, Event{handler, argument}); }
    bool step() {
        if (events_.empty()) {
            return false;
        }
        const auto [at, event] = *events_.begin();
        events_.erase(events_.begin());
        now = at;
        event.handler(event.argument);
        return true;
    }
    // All there are; the number of them.
    int run() {
        int count = 0;
        while (step()) {
            count += 1;
            if (count == 100000) {
                EXPECT(!"events come to an end");
                break;
            }
        }
        return count;
    }

  private:
    struct Event {
        void (*handler)(void*);
        void* argument;
    };
    std::multimap<std::uint64_t, Event> events_;
};

// One rank's side of a network: a send meets its receive by ranks, tag and count, after latency and bytes over bandwidth.
class Wire : public AstraSim::AstraNetworkAPI {
  public:
    static constexpr std::uint64_t latency = 700, bytes_per_ns = 50;

    Wire(Events& events, std::map<int, Wire*>& ranks, int rank) : events_(events), ranks_(ranks), rank_(rank) {
        ranks_[rank] = this;
    }
    int sim_send(void*, std::uint64_t count, int, int dst, int tag, AstraSim::sim_request* request,
                 void (*handler)(void*), void* argument) override {
        request->reqCount = count;
        const std::uint64_t at = events_.now + latency + (count + bytes_per_ns - 1) / bytes_per_ns;
        // The sender hears later than the receiver, to whom that is nothing.
        events_.add(at + 5, handler, argument);
        Wire& target = *ranks_.at(dst);
        target.carried += count;
        const auto wanted = target.waiting_.find({rank_, tag, count});
        if (wanted == target.waiting_.end()) {
            return 1;
        }
        events_.add(at, wanted->second.first, wanted->second.second);
        target.waiting_.erase(wanted);
        return 0;
    }
    int sim_recv(void*, std::uint64_t count, int, int src, int tag, AstraSim::sim_request*, void (*handler)(void*),
                 void* argument) override {
        waiting_[{src, tag, count}] = {handler, argument};
        return 0;
    }
    void sim_schedule(AstraSim::timespec_t delta, void (*handler)(void*), void* argument) override {
        // As networks do: what is less than a nanosecond is lost.
        events_.add(events_.now + Trn3::picoseconds_of(delta) / 1000, handler, argument);
    }
    AstraSim::timespec_t sim_get_time() override { return {AstraSim::NS, static_cast<long double>(events_.now)}; }

    std::uint64_t carried = 0;

  private:
    Events& events_;
    std::map<int, Wire*>& ranks_;
    int rank_;
    std::map<std::tuple<int, int, std::uint64_t>, std::pair<void (*)(void*), void*>> waiting_;
};

struct Done : AstraSim::ComputeKernelSimulationMetaData {
    Events* events = nullptr;
    std::vector<std::pair<int, std::uint64_t>>* order = nullptr;
    int number = 0;
    static void handle(void* data) {
        auto& done = *static_cast<Done*>(static_cast<AstraSim::ComputeKernelSimulationMetaData*>(data));
        done.order->emplace_back(done.number, done.events->now);
    }
};

void roofs() {
    trn3::Device device;
    const Trn3::Roofline roofline(device, "bf16");
    std::uint64_t compute = 0, memory = 0;
    trn3::check(trn3_roofline(device.get(), 1000000000000, 0, "bf16", 4, &compute));
    trn3::check(trn3_roofline(device.get(), 0, 1000000000, "bf16", 4, &memory));
    const double peak = 1e12 / (static_cast<double>(compute) * 1e-12);
    const double bandwidth = 1e9 / (static_cast<double>(memory) * 1e-12);
    EXPECT(std::fabs(roofline.get_perf(1e9) / peak - 1) < 1e-6);
    EXPECT(std::fabs(roofline.get_perf(1e-3) / (bandwidth * 1e-3) - 1) < 1e-6);
    EXPECT(std::fabs(roofline.get_perf(1) / bandwidth - 1) < 1e-6);
    EXPECT(roofline.get_perf(0) == 0);
    for (double intensity : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
        bool refused = false;
        try {
            (void)roofline.get_perf(intensity);
        } catch (const std::invalid_argument&) {
            refused = true;
        }
        EXPECT(refused);
    }
}

void kernels(const std::string& text) {
    const std::uint64_t span = testing::run_time(text);
    const auto lhsT = testing::operand(testing::K * testing::M, 3), rhs = testing::operand(testing::K * testing::N, 4);
    trn3::Device device;
    Events events;
    std::map<int, Wire*> ranks;
    Wire network(events, ranks, 0);
    Trn3::ComputeModel model(device, network);

    Trn3::Kernel shape;
    shape.shape.kind = TRN3_KERNEL_MATMUL;
    shape.shape.m = shape.shape.k = shape.shape.n = 4096;
    shape.dtype = "mxfp8";
    trn3_kernel same = shape.shape;
    same.dtype = "mxfp8";
    same.dtype_length = 5;
    std::uint64_t estimate = 0, bound = 0;
    trn3::check(trn3_estimate(device.get(), &same, &estimate, nullptr));
    EXPECT(estimate > 0 && Trn3::picoseconds_of(model.get_static_runtime(shape)) == estimate);
    Trn3::Kernel roof;
    roof.kind = Trn3::Kernel::Kind::Roofline;
    roof.flops = roof.bytes = 1000000000;
    trn3::check(trn3_roofline(device.get(), roof.flops, roof.bytes, "bf16", 4, &bound));
    EXPECT(bound > 0 && Trn3::picoseconds_of(model.get_static_runtime(roof)) == bound);

    Trn3::Kernel whole;
    whole.kind = Trn3::Kernel::Kind::Program;
    whole.program = device.load(text);
    const auto address = [&](const char* name) { return device.tensor(whole.program, name).address; };
    device.write(address("lhsT"), lhsT.data(), 2 * lhsT.size());
    device.write(address("rhs"), rhs.data(), 2 * rhs.size());
    EXPECT(Trn3::picoseconds_of(model.get_static_runtime(whole)) == span && device.now() == 0);

    // Programs one after the other, shapes beside them; handlers in order of time, at the first nanosecond after the end.
    std::vector<std::pair<int, std::uint64_t>> order;
    Done done[4];
    for (int i = 0; i < 4; ++i) {
        done[i].events = &events;
        done[i].order = &order;
        done[i].number = i;
    }
    const auto up = [](std::uint64_t ps) { return (ps + 999) / 1000; };
    model.simulate(whole, nullptr, Done::handle, &done[0]);
    model.simulate(whole, nullptr, Done::handle, &done[1]);
    model.simulate(shape, nullptr, Done::handle, &done[2]);
    model.simulate(shape, nullptr, Done::handle, &done[3]);
    EXPECT(order.empty() && model.pending() == 4);
    events.run();
    EXPECT(order.size() == 4 && model.pending() == 0);
    const std::uint64_t ends[] = {up(span), up(2 * span), up(estimate), up(2 * estimate)};
    for (std::size_t i = 0; i < order.size(); ++i) {
        EXPECT(order[i].second == ends[order[i].first]);
        EXPECT(i == 0 || order[i - 1].second <= order[i].second);
    }
    EXPECT(Trn3::picoseconds_of(done[0].compute_delay) == span && Trn3::picoseconds_of(done[1].compute_delay) == 2 * span);
    EXPECT(Trn3::picoseconds_of(done[3].compute_delay) == 2 * estimate);
    std::vector<std::uint32_t> product(testing::M * testing::N);
    device.read(address("product"), product.data(), 4 * product.size());
    EXPECT(product == testing::product(lhsT, rhs));

    // What the model had in hand is in the device's snapshot, and goes on as it would have.
    device.run(whole.program, 9);
    const std::uint64_t end = device.next_event();
    const auto saved = device.save();
    trn3::Device other;
    other.restore(saved);
    EXPECT(other.next_event() == end && other.now() == device.now());
    other.advance(end);
    const auto finished = other.poll();
    EXPECT(finished && finished->tag == 9 && finished->status == TRN3_OK);
}

void collectives() {
    constexpr std::uint64_t COUNT = 1000, DST = 1 << 20;
    Events events;
    std::map<int, Wire*> wires;
    Wire first(events, wires, 0), second(events, wires, 1);
    Wire* networks[] = {&first, &second};
    trn3::Device devices[] = {trn3::Device("{\"rank\": 0}"), trn3::Device("{\"rank\": 1}")};
    Trn3::NetworkBridge bridge;
    std::vector<trn3_completion> done;
    const std::uint32_t group[] = {0, 1};
    auto part = trn3::record<trn3_command>();
    part.kind = TRN3_COMMAND_COLLECTIVE;
    part.operation = TRN3_OPERATION_ALL_REDUCE;
    part.reduction = TRN3_REDUCTION_ADD;
    part.group = group;
    part.group_count = 2;
    part.key = 5;
    part.dst_address = DST;
    part.count = COUNT;
    part.dtype = "float32";
    part.dtype_length = 7;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        std::vector<float> values(COUNT);
        for (std::size_t i = 0; i < COUNT; ++i) {
            values[i] = static_cast<float>(i) * (rank == 0 ? 1.0f : 1000.0f);
        }
        devices[rank].write(0, values.data(), 4 * COUNT);
        bridge.connect(rank, devices[rank], *networks[rank], [&](const trn3_completion& one) { done.push_back(one); });
    }
    bridge.submit(0, part, 10);
    EXPECT(done.empty());
    bridge.submit(1, part, 11);
    const int count = events.run();
    EXPECT(count < 40);
    // Two rounds of half the buffer, each after the latency and so many bytes.
    const std::uint64_t round = Wire::latency + COUNT * 4 / 2 / Wire::bytes_per_ns;
    EXPECT(done.size() == 2 && bridge.pending() == 0);
    for (const auto& one : done) {
        EXPECT(one.status == TRN3_OK && one.start_ps == 0 && one.end_ps == 2 * round * 1000);
    }
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        EXPECT(networks[rank]->carried == 2 * COUNT * 4 / 2);
        std::vector<float> values(COUNT);
        devices[rank].read(DST, values.data(), 4 * COUNT);
        bool all = true;
        for (std::size_t i = 0; i < COUNT; ++i) {
            all = all && values[i] == static_cast<float>(i) * 1001.0f;
        }
        EXPECT(all);
    }

    // A rank that nobody connected is refused by the network, in the completion's words.
    const std::uint32_t stranger[] = {0, 7};
    part.group = stranger;
    part.key = 6;
    done.clear();
    bridge.submit(0, part, 12);
    events.run();
    EXPECT(done.size() == 1 && done[0].status != TRN3_OK && std::strstr(done[0].message, "send returned") != nullptr);
}

}  // namespace

int main(int, char** arguments) {
    roofs();
    kernels(testing::file(arguments[1]));
    collectives();
    return testing::result();
}

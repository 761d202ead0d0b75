// Drives the SST adapter through stubs: a vector passes two arrays, by clock and self-link; a checkpoint between.
#include <cmath>
#include <cstring>

#include "testing.hpp"
#include "trn3_tile.h"

namespace {

constexpr std::uint32_t INPUTS = 96, OUTPUTS = 80;

// Small whole numbers: every product and sum is exact, and so is what arrives as the next input.
double matrix(std::uint32_t row, std::uint32_t column) { return static_cast<double>((row * 7 + column * 3) % 5) - 2; }
double vector(std::uint32_t item) { return static_cast<double>(item % 3) - 1; }

std::vector<float> expected(const std::vector<float>& input) {
    std::vector<float> sums(OUTPUTS);
    for (std::uint32_t row = 0; row < OUTPUTS; ++row) {
        for (std::uint32_t column = 0; column < INPUTS; ++column) {
            sums[row] += static_cast<float>(matrix(row, column)) * input[column];
        }
    }
    return sums;
}

const std::vector<float>& view(void* values) { return *static_cast<const std::vector<float>*>(values); }

struct Result {
    std::vector<SST::SimTime_t> arrivals;
    std::vector<float> output;
    SST::Cycle_t cycles;
};

Result finish(Trn3::Tile& tile) {
    for (int steps = 0; SST::stub_simulation.step(); ++steps) {
        if (steps > 1000000) {
            EXPECT(!"the simulation ends");
            break;
        }
    }
    EXPECT(SST::stub_simulation.primaries == 0);
    return {tile.arrivals(), view(tile.array().getOutputVector(1)), tile.cycles()};
}

template <typename F> bool throws(F&& call) {
    try {
        call();
        return false;
    } catch (const std::exception&) {
        return true;
    }
}

}  // namespace

int main() {
    SST::Params params;
    params.insert("numArrays", "2");
    params.insert("arrayInputSize", std::to_string(INPUTS));
    params.insert("arrayOutputSize", std::to_string(OUTPUTS));
    SST::BaseComponent::stub_slot = [&](SST::TimeConverter* converter, SST::Event::HandlerBase* handler) {
        return new Trn3::Trn3ComputeArray(2, params, converter, handler);
    };
    EXPECT(std::string(Trn3::Trn3ComputeArray::stub_name()) == "trn3.ComputeArray");
    EXPECT(Trn3::Trn3ComputeArray::stub_parameters().size() == 4 && Trn3::Tile::stub_parameters().size() == 2);
    auto* tile = new Trn3::Tile(1, params);
    auto& arrays = tile->array();
    for (std::uint32_t array = 0; array < 2; ++array) {
        for (std::uint32_t row = 0; row < OUTPUTS; ++row) {
            for (std::uint32_t column = 0; column < INPUTS; ++column) {
                arrays.setMatrixItem(static_cast<int>(array), static_cast<int>(row * INPUTS + column), matrix(row, column));
            }
        }
    }
    std::vector<float> input(INPUTS);
    for (std::uint32_t item = 0; item < INPUTS; ++item) {
        input[item] = static_cast<float>(vector(item));
        arrays.setVectorItem(0, static_cast<int>(item), vector(item));
    }
    EXPECT(view(arrays.getInputVector(0)) == input);
    EXPECT(throws([&] { arrays.setVectorItem(0, INPUTS, 1); }));
    EXPECT(throws([&] { arrays.setVectorItem(-1, 0, 1); }));
    EXPECT(throws([&] { arrays.setMatrixItem(0, -1, 1); }));
    EXPECT(throws([&] { arrays.compute(2); }));

    // The clock starts the first array; before its result is there, a checkpoint.
    EXPECT(SST::stub_simulation.step() && SST::stub_simulation.entries.size() == 1);
    const SST::SimTime_t latency = arrays.getArrayLatency(0);
    EXPECT(latency > 1000 && SST::stub_simulation.entries[0].at == 1000 + latency);
    const auto first = expected(input);
    EXPECT(view(arrays.getOutputVector(0)) == first);
    SST::Core::Serialization::serializer ser;
    SST::Core::Serialization::serializable* root = tile;
    SST_SER(root);
    SST::stub_simulation.serialize_order(ser);
    const Result straight = finish(*tile);
    EXPECT(straight.arrivals.size() == 2 && straight.arrivals[0] == 1000 + latency);
    // The second starts at the cycle after, and takes as long.
    const SST::SimTime_t start = straight.arrivals[0] / 1000 * 1000 + 1000;
    EXPECT(straight.arrivals[1] == start + arrays.getArrayLatency(1) && arrays.getArrayLatency(1) == latency);
    std::vector<float> second(first);
    second.resize(INPUTS);
    for (float value : second) {
        EXPECT(std::fabs(value) <= 256);  // exact in bfloat16
    }
    EXPECT(straight.output == expected(second));

    // Two at once: the core is one, so the second waits for it.
    arrays.compute(0);
    const SST::SimTime_t alone = arrays.getArrayLatency(0);
    arrays.compute(1);
    EXPECT(alone == latency && arrays.getArrayLatency(1) == 2 * latency);

    // From the checkpoint: the same times, cycles and bits.
    SST::Core::Serialization::serializer saved(ser.bytes());
    {
        auto& from = saved;
        SST::Core::Serialization::serializable* restored = nullptr;
        from.take(restored);
        SST::stub_simulation = SST::StubSimulation();
        SST::stub_simulation.serialize_order(from);
        auto* other = dynamic_cast<Trn3::Tile*>(restored);
        EXPECT(other != nullptr && other != tile && SST::stub_simulation.now == 1000);
        const Result again = finish(*other);
        EXPECT(again.arrivals == straight.arrivals && again.output == straight.output && again.cycles == straight.cycles);
    }
    return testing::result();
}

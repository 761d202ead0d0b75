// ADAPTER, to be built in an SST tree.
#include "trn3_compute_array.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace Trn3 {

namespace {

std::string tensor(const char* name, const char* space, std::uint32_t rows, std::uint32_t columns, const char* rest) {
    return std::string("{\"name\": \"") + name + "\", \"space\": \"" + space + "\", \"shape\": [" + std::to_string(rows) +
           ", " + std::to_string(columns) + "], " + rest + "}";
}

// A kernel for one array: the transposed matrix [inputs, outputs] and the vector [inputs, 1] are multiplied on TensorE.
std::string kernel(std::uint32_t inputs, std::uint32_t outputs) {
    const char* bf16 = "\"dtype\": \"bfloat16\", \"role\": \"input\"";
    return "{\"format\": \"trn3-program\", \"version\": 1, \"name\": \"array\", \"tensors\": [" +
           tensor("matrix", "hbm", inputs, outputs, bf16) + ", " + tensor("vector", "hbm", inputs, 1, bf16) + ", " +
           tensor("output", "hbm", outputs, 1, "\"dtype\": \"float32\", \"role\": \"output\"") + ", " +
           tensor("stationary", "sbuf", inputs, outputs, "\"dtype\": \"bfloat16\", \"address\": [0, 0]") + ", " +
           tensor("moving", "sbuf", inputs, 1, "\"dtype\": \"bfloat16\", \"address\": [0, 512]") + ", " +
           tensor("sums", "psum", outputs, 1, "\"dtype\": \"float32\", \"address\": [0, 0]") + ", " +
           tensor("result", "sbuf", outputs, 1, "\"dtype\": \"float32\", \"address\": [0, 1024]") +
           "], \"steps\": ["
           "{\"op\": \"dma_copy\", \"dst\": \"stationary\", \"src\": \"matrix\"},"
           "{\"op\": \"dma_copy\", \"dst\": \"moving\", \"src\": \"vector\"},"
           // Products are added to what PSUM holds, which is nothing in a fresh tensor.
           "{\"op\": \"fresh\", \"tensor\": \"sums\"},"
           "{\"op\": \"nc_matmul\", \"dst\": \"sums\", \"stationary\": \"stationary\", \"moving\": \"moving\"},"
           "{\"op\": \"tensor_copy\", \"dst\": \"result\", \"src\": \"sums\"},"
           "{\"op\": \"dma_copy\", \"dst\": \"output\", \"src\": \"result\"}]}";
}

std::uint32_t bits_of(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

float float_of(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace

Trn3ComputeArray::Trn3ComputeArray(SST::ComponentId_t id, SST::Params& params, SST::TimeConverter*,
                                   SST::Event::HandlerBase* handler)
    : ComputeArray(id),
      count_(params.find<std::uint32_t>("numArrays", 1)),
      inputs_(params.find<std::uint32_t>("arrayInputSize", 128)),
      outputs_(params.find<std::uint32_t>("arrayOutputSize", 128)),
      config_(params.find<std::string>("config", "")),
      handler_(handler) {
    if (count_ == 0 || inputs_ == 0 || inputs_ > 128 || outputs_ == 0 || outputs_ > 128) {
        throw std::invalid_argument("trn3: numArrays must be 1 or more, arrayInputSize and arrayOutputSize 1 to 128");
    }
    link_ = configureSelfLink("self", "1ps", new SST::Event::Handler2<Trn3ComputeArray, &Trn3ComputeArray::handleSelfEvent>(this));
    make();
    for (std::uint32_t array = 0; array < count_; ++array) {
        arrays_[array] = placed(device_->load(kernel(inputs_, outputs_)));
    }
}

Trn3ComputeArray::Array Trn3ComputeArray::placed(std::uint64_t program) const {
    const auto address = [&](const char* name) { return device_->tensor(program, name).address; };
    return {address("matrix"), address("vector"), address("output"), program};
}

void Trn3ComputeArray::make() {
    device_ = std::make_unique<trn3::Device>(config_);
    arrays_.resize(count_);
    latencies_.resize(count_);
    input_views_.resize(count_);
    output_views_.resize(count_);
}

std::size_t Trn3ComputeArray::checked(std::uint32_t array) const {
    if (array >= count_) {
        throw std::out_of_range("trn3: array " + std::to_string(array) + "; there are " + std::to_string(count_));
    }
    return array;
}

void Trn3ComputeArray::put(std::uint64_t address, std::uint64_t index, std::uint64_t count, double value) {
    if (index >= count) {
        throw std::out_of_range("trn3: item " + std::to_string(index) + "; there are " + std::to_string(count));
    }
    std::uint32_t rounded = 0;
    const std::uint32_t bits = bits_of(static_cast<float>(value));
    trn3::check(trn3_cast_one(TRN3_DTYPE_FLOAT32, bits, TRN3_DTYPE_BFLOAT16, TRN3_ROUNDING_NEAREST, TRN3_OVERFLOW_IEEE,
                              0, &rounded));
    const auto item = static_cast<std::uint16_t>(rounded);
    device_->write(address + index * sizeof item, &item, sizeof item);
}

void Trn3ComputeArray::setMatrixItem(std::int32_t array, std::int32_t index, double value) {
    const Array& of = arrays_[checked(static_cast<std::uint32_t>(array))];
    const auto item = static_cast<std::uint32_t>(index);
    // Hosts have rows of the matrix, TensorE keeps its transpose.
    const std::uint64_t row = item / inputs_, column = item % inputs_;
    const std::uint64_t count = std::uint64_t{inputs_} * outputs_;
    put(of.matrix, item < count ? column * outputs_ + row : count, count, value);
}

void Trn3ComputeArray::setVectorItem(std::int32_t array, std::int32_t index, double value) {
    const Array& of = arrays_[checked(static_cast<std::uint32_t>(array))];
    put(of.vector, static_cast<std::uint32_t>(index), inputs_, value);
}

void Trn3ComputeArray::compute(std::uint32_t array) {
    const std::size_t index = checked(array);
    const SST::SimTime_t now = getCurrentSimTime("1ps");
    // The core's time runs ahead of the simulation's while computations wait for it.
    device_->advance(std::max<std::uint64_t>(now, device_->now()));
    device_->run(arrays_[index].program, array);
    device_->advance(device_->next_event());
    const auto done = device_->poll();
    if (!done || done->status != TRN3_OK) {
        throw std::runtime_error(done ? std::string("trn3: ") + done->message : "trn3: a computation without an end");
    }
    latencies_[index] = done->end_ps - now;
}

void Trn3ComputeArray::beginComputation(std::uint32_t array) {
    compute(array);
    link_->send(getArrayLatency(array), new ArrayEvent(array));
}

void Trn3ComputeArray::handleSelfEvent(SST::Event* event) { (*handler_)(event); }

SST::SimTime_t Trn3ComputeArray::getArrayLatency(std::uint32_t array) { return latencies_[checked(array)]; }

std::vector<float> Trn3ComputeArray::outputs(const Array& array) {
    std::vector<std::uint32_t> bits(outputs_);
    device_->read(array.output, bits.data(), bits.size() * sizeof bits[0]);
    std::vector<float> values(bits.size());
    std::transform(bits.begin(), bits.end(), values.begin(), float_of);
    return values;
}

void Trn3ComputeArray::moveOutputToInput(std::uint32_t source, std::uint32_t destination) {
    auto values = outputs(arrays_[checked(source)]);
    values.resize(inputs_);
    const std::uint64_t address = arrays_[checked(destination)].vector;
    for (std::uint32_t index = 0; index < inputs_; ++index) {
        put(address, index, inputs_, static_cast<double>(values[index]));
    }
}

void* Trn3ComputeArray::getInputVector(std::uint32_t array) {
    const std::size_t index = checked(array);
    std::vector<std::uint16_t> items(inputs_);
    device_->read(arrays_[index].vector, items.data(), items.size() * sizeof items[0]);
    auto& view = input_views_[index];
    view.resize(inputs_);
    std::transform(items.begin(), items.end(), view.begin(),
                   [](std::uint16_t item) { return float_of(std::uint32_t{item} << 16); });
    return &view;
}

void* Trn3ComputeArray::getOutputVector(std::uint32_t array) {
    const std::size_t index = checked(array);
    output_views_[index] = outputs(arrays_[index]);
    return &output_views_[index];
}

void Trn3ComputeArray::serialize_order(SST::Core::Serialization::serializer& ser) {
    ComputeArray::serialize_order(ser);
    const bool unpacks = ser.mode() == SST::Core::Serialization::serializer::UNPACK;
    SST_SER(count_);
    SST_SER(inputs_);
    SST_SER(outputs_);
    SST_SER(config_);
    SST_SER(latencies_);
    SST_SER(link_);
    SST_SER(handler_);
    std::vector<char> snapshot;
    std::vector<std::uint64_t> programs;
    if (!unpacks) {
        snapshot = device_->save();
        for (const Array& array : arrays_) {
            programs.push_back(array.program);
        }
    }
    SST_SER(snapshot);
    SST_SER(programs);
    if (unpacks) {
        make();
        device_->restore(snapshot);
        std::transform(programs.begin(), programs.end(), arrays_.begin(),
                       [this](std::uint64_t program) { return placed(program); });
    }
}

}  // namespace Trn3

// ADAPTER, to be built in an SST tree (an element library); `make -C rust/capi/hosts sst` checks it here with stubs.
//
// Arrays of a NeuronCore's TensorE that multiply a matrix they hold by vectors, as a subcomponent: compute gives the
// values now, getArrayLatency what to delay their arrival by. All arrays share one core, so that a latency counts the
// time until the core is free.
#ifndef TRN3_COMPUTE_ARRAY_H
#define TRN3_COMPUTE_ARRAY_H

#include <sst/core/component.h>
#include <sst/core/link.h>
#include <sst/core/subcomponent.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trn3_device.hpp"

namespace Trn3 {

// What a self-link carries: the array that is done.
class ArrayEvent : public SST::Event {
  public:
    ArrayEvent() = default;
    explicit ArrayEvent(std::uint32_t array) : array_(array) {}
    std::uint32_t getArrayID() const { return array_; }

    void serialize_order(SST::Core::Serialization::serializer& ser) override {
        SST::Event::serialize_order(ser);
        SST_SER(array_);
    }
    ImplementSerializable(Trn3::ArrayEvent);

  private:
    std::uint32_t array_ = 0;
};

// What a component asks of arrays, whoever models them.
class ComputeArray : public SST::SubComponent {
  public:
    SST_ELI_REGISTER_SUBCOMPONENT_API(Trn3::ComputeArray, SST::TimeConverter*, SST::Event::HandlerBase*)

    explicit ComputeArray(SST::ComponentId_t id) : SST::SubComponent(id) {}
    ComputeArray() = default;

    virtual void setMatrixItem(std::int32_t array, std::int32_t index, double value) = 0;
    virtual void setVectorItem(std::int32_t array, std::int32_t index, double value) = 0;
    // Computes, and sends the handler an ArrayEvent when the time of it is over.
    virtual void beginComputation(std::uint32_t array) = 0;
    virtual void compute(std::uint32_t array) = 0;
    // Of the last computation, in picoseconds.
    virtual SST::SimTime_t getArrayLatency(std::uint32_t array) = 0;
    virtual void moveOutputToInput(std::uint32_t source, std::uint32_t destination) = 0;
    virtual void* getInputVector(std::uint32_t array) = 0;
    virtual void* getOutputVector(std::uint32_t array) = 0;
};

class Trn3ComputeArray : public ComputeArray {
  public:
    SST_ELI_REGISTER_SUBCOMPONENT(Trn3ComputeArray, "trn3", "ComputeArray", SST_ELI_ELEMENT_VERSION(0, 1, 0),
                                  "Matrix-vector products of a simulated Trainium3 core", Trn3::ComputeArray)
    SST_ELI_DOCUMENT_PARAMS(
        {"numArrays", "Number of arrays", "1"},
        {"arrayInputSize", "Elements of an input vector, 1 to 128", "128"},
        {"arrayOutputSize", "Elements of an output vector, 1 to 128", "128"},
        {"config", "JSON text of the device; empty: one core of trn3", ""})

    Trn3ComputeArray(SST::ComponentId_t id, SST::Params& params, SST::TimeConverter* timeBase,
                     SST::Event::HandlerBase* handler);
    Trn3ComputeArray() = default;

    // Items are rounded to bfloat16, sums are float32.
    void setMatrixItem(std::int32_t array, std::int32_t index, double value) override;
    void setVectorItem(std::int32_t array, std::int32_t index, double value) override;
    void beginComputation(std::uint32_t array) override;
    void compute(std::uint32_t array) override;
    SST::SimTime_t getArrayLatency(std::uint32_t array) override;
    // Output elements are rounded to bfloat16; what the input has more of is 0.
    void moveOutputToInput(std::uint32_t source, std::uint32_t destination) override;
    // std::vector<float>, as the device has them.
    void* getInputVector(std::uint32_t array) override;
    void* getOutputVector(std::uint32_t array) override;

    void serialize_order(SST::Core::Serialization::serializer& ser) override;
    ImplementSerializable(Trn3::Trn3ComputeArray);

  private:
    struct Array {
        std::uint64_t matrix = 0, vector = 0, output = 0;  // addresses
        std::uint64_t program = 0;
    };

    void make();
    Array placed(std::uint64_t program) const;
    std::size_t checked(std::uint32_t array) const;
    void put(std::uint64_t address, std::uint64_t index, std::uint64_t count, double value);
    std::vector<float> outputs(const Array& array);
    void handleSelfEvent(SST::Event* event);

    std::uint32_t count_ = 0, inputs_ = 0, outputs_ = 0;
    std::string config_;
    std::unique_ptr<trn3::Device> device_;
    std::vector<Array> arrays_;
    std::vector<SST::SimTime_t> latencies_;
    std::vector<std::vector<float>> input_views_, output_views_;
    SST::Link* link_ = nullptr;
    SST::Event::HandlerBase* handler_ = nullptr;
};

}  // namespace Trn3

#endif

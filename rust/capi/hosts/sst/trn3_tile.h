// ADAPTER, to be built in an SST tree.
//
// A small component that drives a ComputeArray by its clock: every cycle it starts the next array of a pipeline whose
// turn has come; what one computes is the next one's input.
#ifndef TRN3_TILE_H
#define TRN3_TILE_H

#include "trn3_compute_array.h"

namespace Trn3 {

class Tile : public SST::Component {
  public:
    SST_ELI_REGISTER_COMPONENT(Tile, "trn3", "Tile", SST_ELI_ELEMENT_VERSION(0, 1, 0),
                               "Passes a vector through arrays, one after the other", COMPONENT_CATEGORY_PROCESSOR)
    SST_ELI_DOCUMENT_PARAMS(
        {"clock", "Frequency at which arrays are looked after", "1GHz"},
        {"numArrays", "Arrays that the vector passes", "1"})
    SST_ELI_DOCUMENT_SUBCOMPONENT_SLOTS({"array", "The arrays", "Trn3::ComputeArray"})

    Tile(SST::ComponentId_t id, SST::Params& params);
    Tile() = default;

    ComputeArray& array() { return *array_; }
    // Of each array: when its result was there, in picoseconds.
    const std::vector<SST::SimTime_t>& arrivals() const { return arrivals_; }
    SST::Cycle_t cycles() const { return cycles_; }

    void serialize_order(SST::Core::Serialization::serializer& ser) override;
    ImplementSerializable(Trn3::Tile);

  private:
    // True once nothing is left to do: the clock may stop.
    bool tick(SST::Cycle_t cycle);
    void arrived(SST::Event* event);

    ComputeArray* array_ = nullptr;
    std::uint32_t count_ = 0, started_ = 0;
    SST::Cycle_t cycles_ = 0;
    std::vector<SST::SimTime_t> arrivals_;
};

}  // namespace Trn3

#endif

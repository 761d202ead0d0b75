// ADAPTER, to be built in an SST tree.
#include "trn3_tile.h"

#include <stdexcept>

namespace Trn3 {

Tile::Tile(SST::ComponentId_t id, SST::Params& params)
    : SST::Component(id), count_(params.find<std::uint32_t>("numArrays", 1)) {
    SST::TimeConverter* clock = registerClock(params.find<std::string>("clock", "1GHz"),
                                              new SST::Clock::Handler2<Tile, &Tile::tick>(this));
    SST::Event::HandlerBase* handler = new SST::Event::Handler2<Tile, &Tile::arrived>(this);
    array_ = loadUserSubComponent<ComputeArray>("array", SST::ComponentInfo::SHARE_NONE, clock, handler);
    if (array_ == nullptr) {
        throw std::invalid_argument("trn3.Tile: slot array is empty; put trn3.ComputeArray there");
    }
    registerAsPrimaryComponent();
    primaryComponentDoNotEndSim();
}

bool Tile::tick(SST::Cycle_t) {
    cycles_ += 1;
    if (started_ == count_) {
        return arrivals_.size() == count_;
    }
    if (started_ == arrivals_.size()) {
        if (started_ > 0) {
            array_->moveOutputToInput(started_ - 1, started_);
        }
        array_->beginComputation(started_);
        started_ += 1;
    }
    return false;
}

void Tile::arrived(SST::Event* event) {
    delete event;
    arrivals_.push_back(getCurrentSimTime("1ps"));
    if (arrivals_.size() == count_) {
        primaryComponentOKToEndSim();
    }
}

void Tile::serialize_order(SST::Core::Serialization::serializer& ser) {
    SST::Component::serialize_order(ser);
    SST_SER(array_);
    SST_SER(count_);
    SST_SER(started_);
    SST_SER(cycles_);
    SST_SER(arrivals_);
}

}  // namespace Trn3

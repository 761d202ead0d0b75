// STUB, see sim/core.hh.
#ifndef STUB_SIM_CLOCKED_OBJECT_HH
#define STUB_SIM_CLOCKED_OBJECT_HH

#include "mem/port.hh"
#include "sim/core.hh"

namespace gem5 {

struct ClockedObjectParams {
    std::string name;
};

class ClockedObject {
  public:
    explicit ClockedObject(const ClockedObjectParams&) {}
    virtual ~ClockedObject() = default;
    virtual Port& getPort(const std::string& name, PortID) { throw std::invalid_argument("no port " + name); }
    virtual void startup() {}
    virtual DrainState drain() { return DrainState::Drained; }
    virtual void drainResume() {}
    virtual void serialize(CheckpointOut&) const {}
    virtual void unserialize(CheckpointIn&) {}
    virtual void resetStats() {}

    void schedule(EventFunctionWrapper& event, Tick when) { stub_queue.add(event, when); }
    void deschedule(EventFunctionWrapper& event) { stub_queue.remove(event); }
    void reschedule(EventFunctionWrapper& event, Tick when) {
        stub_queue.remove(event);
        stub_queue.add(event, when);
    }
    DrainState drainState() const { return state_; }
    void signalDrainDone() { state_ = DrainState::Drained; }
    // What the simulator does to drain.
    DrainState stub_drain() { return state_ = drain(); }

  private:
    DrainState state_ = DrainState::Running;
};

}  // namespace gem5

#endif

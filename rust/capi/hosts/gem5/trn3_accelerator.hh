// ADAPTER, to be built in a gem5 tree (with Trn3Accelerator.py and SConscript beside it).
//
// A device as a gem5 object: its HBM answers a port in functional, atomic and timing mode; after it lies a page of
// registers, 8 bytes each, little-endian, through which software runs programs:
//
//   +0   RUN        writing a number runs that program of the list `programs` (from 0) on core 0
//   +8   COMPLETED  programs that are done
//   +16  FAILED     those of them that failed
//   +24  QUEUE      1 while another run fits
#ifndef TRN3_ACCELERATOR_HH
#define TRN3_ACCELERATOR_HH

#include <cstdint>
#include <deque>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "mem/port.hh"
#include "params/Trn3Accelerator.hh"
#include "sim/clocked_object.hh"
#include "trn3_wrapper.hh"

namespace gem5 {

class Trn3Accelerator : public ClockedObject {
  public:
    explicit Trn3Accelerator(const Trn3AcceleratorParams& params);

    Port& getPort(const std::string& name, PortID index = InvalidPortID) override;
    void startup() override;
    DrainState drain() override;
    void drainResume() override;
    void serialize(CheckpointOut& checkpoint) const override;
    void unserialize(CheckpointIn& checkpoint) override;
    void resetStats() override;

    void printStats(std::ostream& stream) const { wrapper_.printStats(stream); }
    // Address of a tensor of program `number` as the port sees it.
    Addr tensorAddress(std::size_t number, const std::string& tensor) const;
    Addr registers() const { return base_ + wrapper_.memoryBytes(); }

    enum Register : Addr { RUN = 0, COMPLETED = 8, FAILED = 16, QUEUE = 24 };

  private:
    class MemoryPort : public ResponsePort {
      public:
        MemoryPort(const std::string& name, Trn3Accelerator& owner) : ResponsePort(name), owner_(owner) {}
        AddrRangeList getAddrRanges() const override { return owner_.ranges(); }
        Tick recvAtomic(PacketPtr packet) override;
        void recvFunctional(PacketPtr packet) override;
        bool recvTimingReq(PacketPtr packet) override { return owner_.request(packet); }
        void recvRespRetry() override { owner_.respond(); }

      private:
        Trn3Accelerator& owner_;
    };

    AddrRangeList ranges() const;
    // Moves a packet's values and says how many picoseconds it takes.
    Tick access(PacketPtr packet);
    Tick accessRegister(PacketPtr packet, Addr offset);
    bool request(PacketPtr packet);
    void respond();
    void process();
    void scheduleNext();
    void accessDone(std::uint64_t tag);
    void runDone(std::uint64_t tag, const std::string& message);

    const Addr base_;
    const Tick register_latency_;
    Trn3Wrapper wrapper_;
    MemoryPort port_;
    EventFunctionWrapper event_;
    std::vector<std::uint64_t> programs_;
    std::map<std::uint64_t, PacketPtr> packets_;
    std::deque<PacketPtr> responses_;
    std::uint64_t next_tag_ = 0;
    std::uint64_t completed_ = 0;
    std::uint64_t failed_ = 0;
    bool owes_retry_ = false;
    bool waits_for_retry_ = false;
};

}  // namespace gem5

#endif

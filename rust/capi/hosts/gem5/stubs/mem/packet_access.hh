// STUB, see sim/core.hh: packets.
#ifndef STUB_MEM_PACKET_ACCESS_HH
#define STUB_MEM_PACKET_ACCESS_HH

#include <cstring>
#include <vector>

#include "sim/core.hh"

namespace gem5 {

class Packet {
  public:
    Packet(bool reads, Addr address, unsigned size) : reads_(reads), address_(address), bytes_(size) {}
    bool isRead() const { return reads_; }
    bool isWrite() const { return !reads_; }
    bool needsResponse() const { return !is_response_; }
    bool isResponse() const { return is_response_; }
    Addr getAddr() const { return address_; }
    unsigned getSize() const { return static_cast<unsigned>(bytes_.size()); }
    template <typename T> T* getPtr() { return reinterpret_cast<T*>(bytes_.data()); }
    template <typename T> const T* getConstPtr() const { return reinterpret_cast<const T*>(bytes_.data()); }
    void makeResponse() { is_response_ = true; }
    void makeTimingResponse() { makeResponse(); }
    template <typename T> void setLE(T value) { std::memcpy(bytes_.data(), &value, sizeof value); }
    template <typename T> T getLE() const {
        T value;
        std::memcpy(&value, bytes_.data(), sizeof value);
        return value;
    }

  private:
    bool reads_, is_response_ = false;
    Addr address_;
    std::vector<std::uint8_t> bytes_;
};
using PacketPtr = Packet*;

}  // namespace gem5

#endif

// STUB, see sim/core.hh: ports.
#ifndef STUB_MEM_PORT_HH
#define STUB_MEM_PORT_HH

#include <list>
#include <stdexcept>

#include "mem/packet_access.hh"

namespace gem5 {

using PortID = int;
constexpr PortID InvalidPortID = -1;

struct AddrRange {
    Addr start, end;
};
inline AddrRange RangeSize(Addr start, Addr size) { return {start, start + size}; }
using AddrRangeList = std::list<AddrRange>;

class Port {
  public:
    explicit Port(const std::string& name) : name_(name) {}
    virtual ~Port() = default;
    const std::string& name() const { return name_; }

  private:
    std::string name_;
};

class ResponsePort;

class RequestPort : public Port {
  public:
    using Port::Port;
    virtual bool recvTimingResp(PacketPtr packet) = 0;
    virtual void recvReqRetry() = 0;
    void bind(ResponsePort& peer);
    Tick sendAtomic(PacketPtr packet);
    void sendFunctional(PacketPtr packet);
    bool sendTimingReq(PacketPtr packet);
    void sendRetryResp();

  private:
    ResponsePort* peer_ = nullptr;
};

class ResponsePort : public Port {
  public:
    using Port::Port;
    virtual AddrRangeList getAddrRanges() const = 0;
    virtual Tick recvAtomic(PacketPtr packet) = 0;
    virtual void recvFunctional(PacketPtr packet) = 0;
    virtual bool recvTimingReq(PacketPtr packet) = 0;
    virtual void recvRespRetry() = 0;
    bool sendTimingResp(PacketPtr packet) { return peer_->recvTimingResp(packet); }
    void sendRetryReq() { peer_->recvReqRetry(); }

  private:
    friend class RequestPort;
    RequestPort* peer_ = nullptr;
};

inline void RequestPort::bind(ResponsePort& peer) {
    peer_ = &peer;
    peer.peer_ = this;
}
inline Tick RequestPort::sendAtomic(PacketPtr packet) { return peer_->recvAtomic(packet); }
inline void RequestPort::sendFunctional(PacketPtr packet) { peer_->recvFunctional(packet); }
inline bool RequestPort::sendTimingReq(PacketPtr packet) { return peer_->recvTimingReq(packet); }
inline void RequestPort::sendRetryResp() { peer_->recvRespRetry(); }

}  // namespace gem5

#endif

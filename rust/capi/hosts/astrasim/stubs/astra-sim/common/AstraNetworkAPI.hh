// STUB of what the adapter needs of ASTRA-sim, to compile and run it without ASTRA-sim: a network's interface.
#ifndef STUB_ASTRA_NETWORK_API_HH
#define STUB_ASTRA_NETWORK_API_HH

#include <cstdint>

namespace AstraSim {

enum time_type_e { SE, MS, US, NS, FS };

struct timespec_t {
    time_type_e time_res;
    long double time_val;
};

struct sim_request {
    std::uint32_t srcRank, dstRank;
    std::uint32_t tag;
    std::uint64_t reqCount;
};

class AstraNetworkAPI {
  public:
    virtual ~AstraNetworkAPI() = default;
    virtual int sim_send(void* buffer, std::uint64_t count, int type, int dst, int tag, sim_request* request,
                         void (*handler)(void*), void* argument) = 0;
    virtual int sim_recv(void* buffer, std::uint64_t count, int type, int src, int tag, sim_request* request,
                         void (*handler)(void*), void* argument) = 0;
    virtual void sim_schedule(timespec_t delta, void (*handler)(void*), void* argument) = 0;
    virtual timespec_t sim_get_time() = 0;
};

}  // namespace AstraSim

#endif

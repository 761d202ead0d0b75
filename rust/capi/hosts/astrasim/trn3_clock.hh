// ADAPTER, to be built in an ASTRA-sim tree: between its time and picoseconds.
#ifndef TRN3_CLOCK_HH
#define TRN3_CLOCK_HH

#include <cmath>
#include <cstdint>

#include "astra-sim/common/AstraNetworkAPI.hh"
#include "trn3.h"

namespace Trn3 {

inline std::uint64_t picoseconds_of(const AstraSim::timespec_t& time) {
    long double each = 0;
    switch (time.time_res) {
    case AstraSim::SE: each = 1e12L; break;
    case AstraSim::MS: each = 1e9L; break;
    case AstraSim::US: each = 1e6L; break;
    case AstraSim::NS: each = 1e3L; break;
    case AstraSim::FS: each = 1e-3L; break;
    }
    return static_cast<std::uint64_t>(std::llround(time.time_val * each));
}

inline AstraSim::timespec_t time_of(std::uint64_t picoseconds) {
    return {AstraSim::NS, static_cast<long double>(picoseconds) / 1000};
}

// Time from now until then in whole nanoseconds, which networks count: one that comes too early would come for ever.
inline AstraSim::timespec_t delay_until(std::uint64_t at_ps, std::uint64_t now_ps) {
    return time_of(at_ps > now_ps ? (at_ps - now_ps + 999) / 1000 * 1000 : 0);
}

// A call from the network at the earliest time that was asked for; later ones are asked for again then.
class Alarm {
  public:
    Alarm(AstraSim::AstraNetworkAPI& network, void (*handler)(void*), void* argument)
        : network_(&network), handler_(handler), argument_(argument) {}

    std::uint64_t now() const { return picoseconds_of(network_->sim_get_time()); }
    void set(std::uint64_t at_ps) {
        const std::uint64_t time = now();
        if (at_ps == TRN3_NEVER || (time <= set_for_ && set_for_ <= at_ps)) {
            return;
        }
        set_for_ = at_ps > time ? at_ps : time;
        network_->sim_schedule(delay_until(at_ps, time), handler_, argument_);
    }
    // The handler says so.
    void rang() {
        if (set_for_ <= now()) {
            set_for_ = TRN3_NEVER;
        }
    }

  private:
    AstraSim::AstraNetworkAPI* network_;
    void (*handler_)(void*);
    void* argument_;
    std::uint64_t set_for_ = TRN3_NEVER;
};

}  // namespace Trn3

#endif

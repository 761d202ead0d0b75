// STUB, see sim/core.hh: what gem5 makes of Trn3Accelerator.py.
#ifndef STUB_PARAMS_TRN3_ACCELERATOR_HH
#define STUB_PARAMS_TRN3_ACCELERATOR_HH

#include "sim/clocked_object.hh"

namespace gem5 {

struct Trn3AcceleratorParams : ClockedObjectParams {
    Addr base = 0;
    std::string config;
    std::vector<std::string> programs;
    unsigned queue_size = 64;
    Tick register_latency = 10000;
};

}  // namespace gem5

#endif

// STUB, see AstraNetworkAPI.hh: a compute model's interface.
#ifndef STUB_ASTRA_COMPUTE_API_HH
#define STUB_ASTRA_COMPUTE_API_HH

#include "astra-sim/common/AstraNetworkAPI.hh"

namespace AstraSim {

class Sys;

class ComputeKernel {
  public:
    virtual ~ComputeKernel() = default;
};

class ComputeKernelSimulationMetaData {
  public:
    timespec_t compute_delay;
};

class AstraComputeAPI {
  public:
    virtual ~AstraComputeAPI() = default;
    virtual timespec_t get_static_runtime(ComputeKernel& kernel) = 0;
    virtual void simulate(ComputeKernel& kernel, Sys* sys, void (*handler)(void*),
                          ComputeKernelSimulationMetaData* data) = 0;
};

}  // namespace AstraSim

#endif

// ADAPTER, to be built in an ASTRA-sim tree; `make -C rust/capi/hosts astrasim` checks it here with stubs.
//
// Compute as a device of trn3 has it: the roof of its peaks, run times of typed kernels, and programs run whole.
#ifndef TRN3_COMPUTE_MODEL_HH
#define TRN3_COMPUTE_MODEL_HH

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "astra-sim/common/AstraNetworkAPI.hh"
#include "astra-sim/system/AstraComputeAPI.hh"
#include "trn3_clock.hh"
#include "trn3_device.hpp"

namespace Trn3 {

// Attainable operations per second by operations per byte, as ASTRA-sim's Roofline.
class Roofline {
  public:
    // The device must outlive it; dtype as trn3_roofline takes it: bf16, fp8, mxfp8, ...
    Roofline(const trn3::Device& device, std::string dtype) : device_(device), dtype_(std::move(dtype)) {}
    double get_perf(double operational_intensity) const;

  private:
    const trn3::Device& device_;
    std::string dtype_;
};

// A kernel by its shape, or a program that is loaded: then inputs are what HBM holds, and time is what running takes.
struct Kernel : AstraSim::ComputeKernel {
    enum class Kind { Shape, Roofline, Program };
    Kind kind = Kind::Shape;
    trn3_kernel shape = trn3::record<trn3_kernel>();
    std::string dtype = "bf16";  // of shape and roofline
    std::uint64_t flops = 0, bytes = 0;
    std::uint64_t program = 0;
};

// Blocking: how long a kernel takes. Asynchronous: it waits for the core, and the handler is called when it is done, on
// the simulator's thread, from an event of the network's clock.
class ComputeModel : public AstraSim::AstraComputeAPI {
  public:
    // Both must outlive the model. The device's clock is the model's own to move.
    ComputeModel(trn3::Device& device, AstraSim::AstraNetworkAPI& network) : device_(device), alarm_(network, &woken, this) {}
    ComputeModel(const ComputeModel&) = delete;
    ComputeModel& operator=(const ComputeModel&) = delete;

    // A program takes the time of a run on a device like this one, without touching it.
    AstraSim::timespec_t get_static_runtime(AstraSim::ComputeKernel& kernel) override;
    // data->compute_delay is set before the handler is called with data. What fails is thrown from here or from the
    // event. Kernels that are shapes take their estimated time, one after another, beside programs that run.
    void simulate(AstraSim::ComputeKernel& kernel, AstraSim::Sys* sys, void (*handler)(void*),
                  AstraSim::ComputeKernelSimulationMetaData* data) override;

    // Kernels under way.
    std::size_t pending() const { return calls_.size(); }

  private:
    struct Call {
        void (*handler)(void*);
        AstraSim::ComputeKernelSimulationMetaData* data;
        std::uint64_t started_ps;
    };

    std::uint64_t picoseconds(const Kernel& kernel);
    static void woken(void* model);
    void wake();

    trn3::Device& device_;
    Alarm alarm_;
    std::map<std::uint64_t, Call> calls_;
    // Ends of kernels that are shapes, by time; and when the last of them ends.
    std::multimap<std::uint64_t, std::uint64_t> shapes_;
    std::uint64_t shapes_end_ = 0, next_tag_ = 1;
};

}  // namespace Trn3

#endif

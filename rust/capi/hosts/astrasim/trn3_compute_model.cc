// ADAPTER, to be built in an ASTRA-sim tree.
#include "trn3_compute_model.hh"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace Trn3 {

namespace {

Kernel& ours(AstraSim::ComputeKernel& kernel) {
    auto* found = dynamic_cast<Kernel*>(&kernel);
    if (found == nullptr) {
        throw std::invalid_argument("trn3: a kernel of another model; make a Trn3::Kernel of its shape");
    }
    return *found;
}

}  // namespace

double Roofline::get_perf(double operational_intensity) const {
    if (!(operational_intensity >= 0) || !std::isfinite(operational_intensity)) {
        throw std::invalid_argument("trn3: operational_intensity must be a number from 0 on");
    }
    // Work of milliseconds: the picosecond of the answer is a billionth of it. Neither side may leave 64 bits.
    constexpr double most = 0x1p52;
    const double bytes = std::min(0x1p32, most / std::max(operational_intensity, 1.0));
    const auto whole_bytes = static_cast<std::uint64_t>(std::max(bytes, 1.0));
    const auto flops = std::min(operational_intensity * static_cast<double>(whole_bytes), most);
    std::uint64_t ps = 0;
    trn3::check(trn3_roofline(device_.get(), static_cast<std::uint64_t>(std::llround(flops)), whole_bytes, dtype_.data(),
                              dtype_.size(), &ps));
    return ps == 0 ? 0 : flops / (static_cast<double>(ps) * 1e-12);
}

std::uint64_t ComputeModel::picoseconds(const Kernel& kernel) {
    std::uint64_t ps = 0;
    if (kernel.kind == Kernel::Kind::Roofline) {
        trn3::check(trn3_roofline(device_.get(), kernel.flops, kernel.bytes, kernel.dtype.data(), kernel.dtype.size(), &ps));
    } else {
        trn3_kernel shape = kernel.shape;
        shape.dtype = kernel.dtype.data();
        shape.dtype_length = kernel.dtype.size();
        trn3::check(trn3_estimate(device_.get(), &shape, &ps, nullptr));
    }
    return ps;
}

AstraSim::timespec_t ComputeModel::get_static_runtime(AstraSim::ComputeKernel& given) {
    const Kernel& kernel = ours(given);
    if (kernel.kind != Kernel::Kind::Program) {
        return time_of(picoseconds(kernel));
    }
    if (!calls_.empty()) {
        throw std::logic_error("trn3: get_static_runtime of a program while kernels are under way");
    }
    // The run is undone by going back to where it started.
    const std::vector<char> before = device_.save();
    device_.run(kernel.program, 0);
    device_.advance(device_.next_event());
    const auto done = device_.poll();
    device_.restore(before);
    if (!done || done->status != TRN3_OK) {
        throw std::runtime_error(done ? std::string("trn3: ") + done->message : "trn3: a program without an end");
    }
    return time_of(done->end_ps - done->start_ps);
}

void ComputeModel::simulate(AstraSim::ComputeKernel& given, AstraSim::Sys*, void (*handler)(void*),
                            AstraSim::ComputeKernelSimulationMetaData* data) {
    const Kernel& kernel = ours(given);
    const std::uint64_t now = alarm_.now();
    const std::uint64_t tag = next_tag_++;
    if (kernel.kind == Kernel::Kind::Program) {
        // What ends on the way is told of by the event that was asked for.
        device_.advance(std::max(now, device_.now()));
        device_.run(kernel.program, tag);
        calls_[tag] = {handler, data, now};
        alarm_.set(device_.next_event());
    } else {
        const std::uint64_t start = std::max(shapes_end_, now);
        shapes_end_ = start + picoseconds(kernel);
        calls_[tag] = {handler, data, now};
        shapes_.emplace(shapes_end_, tag);
        alarm_.set(shapes_.begin()->first);
    }
}

void ComputeModel::woken(void* model) { static_cast<ComputeModel*>(model)->wake(); }

void ComputeModel::wake() {
    const std::uint64_t now = alarm_.now();
    alarm_.rang();
    // Handlers may start other kernels: they are called when everything here is done.
    std::multimap<std::uint64_t, Call> done;
    const auto take = [&](std::uint64_t tag, std::uint64_t end) {
        const auto call = calls_.find(tag);
        done.emplace(end, call->second);
        calls_.erase(call);
    };
    device_.advance(std::max(now, device_.now()));
    while (const auto completion = device_.poll()) {
        if (completion->status != TRN3_OK) {
            throw std::runtime_error(std::string("trn3: ") + completion->message);
        }
        take(completion->tag, completion->end_ps);
    }
    while (!shapes_.empty() && shapes_.begin()->first <= now) {
        take(shapes_.begin()->second, shapes_.begin()->first);
        shapes_.erase(shapes_.begin());
    }
    alarm_.set(device_.next_event());
    if (!shapes_.empty()) {
        alarm_.set(shapes_.begin()->first);
    }
    for (const auto& [end, call] : done) {
        if (call.data != nullptr) {
            call.data->compute_delay = time_of(end - call.started_ps);
        }
        call.handler(call.data);
    }
}

}  // namespace Trn3

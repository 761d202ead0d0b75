// A host that drives the target: writes a product's operands over TLM, rings the doorbell, waits for the interrupt,
// reads the result and checks every bit against the C ABI's own product. Usage: host PROGRAM.json QUANTUM_NS
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/tlm_quantumkeeper.h>

#include "neuron_core.h"

namespace {

using trn3_host::NeuronCore;

constexpr int64_t K = 128, M = 128, N = 512;
constexpr uint64_t BURST = 4096;

class Host : public sc_core::sc_module {
 public:
  tlm_utils::simple_initiator_socket<Host> socket;
  sc_core::sc_in<bool> interrupt;

  Host(const sc_core::sc_module_name& name, NeuronCore& core, uint64_t program)
      : sc_module(name), socket("socket"), interrupt("interrupt"), core_(core), program_(program) {
    SC_THREAD(run);
  }
  int failures() const { return failures_; }

 private:
  SC_HAS_PROCESS(Host);

  void run() {
    keeper_.reset();
    std::mt19937_64 random(3);
    std::vector<uint16_t> stationary(K * M), moving(K * N);
    for (auto* operand : {&stationary, &moving})
      for (uint16_t& bits : *operand) bits = static_cast<uint16_t>((random() & 0x807f) | (120 + random() % 16) << 7);

    const trn3_tensor left = core_.tensor(program_, "lhsT"), right = core_.tensor(program_, "rhs");
    write(left.address, stationary.data(), stationary.size() * 2);
    write(right.address, moving.data(), moving.size() * 2);
    const sc_core::sc_time loaded = keeper_.get_current_time();
    set(trn3_host::PROGRAM, program_);
    for (const uint64_t tag : {7, 8}) {
      set(trn3_host::TAG, tag);
      set(trn3_host::DOORBELL, 1);
    }
    keeper_.sync();  // what follows waits for an event: nothing ahead of time any more
    for (const uint64_t tag : {7, 8}) {
      while (get(trn3_host::PENDING) == 0) wait(interrupt.posedge_event());
      expect(interrupt.read() || tag != 7, "the interrupt is up while completions wait");
      expect(get(trn3_host::COMPLETION_TAG) == tag, "completions come in order");
      expect(get(trn3_host::COMPLETION_STATUS) == TRN3_OK, "the run succeeds");
      const uint64_t start = get(trn3_host::COMPLETION_START), end = get(trn3_host::COMPLETION_END);
      expect(end <= sc_core::sc_time_stamp().value(), "the interrupt is not ahead of its cause");
      std::printf("run %llu: %llu to %llu ps; interrupt seen at %.0f ps\n", static_cast<unsigned long long>(tag),
                  static_cast<unsigned long long>(start), static_cast<unsigned long long>(end),
                  sc_core::sc_time_stamp().to_double());
      runs_.push_back(end - start);
      set(trn3_host::ACKNOWLEDGE, 1);
      keeper_.sync();
      wait(sc_core::SC_ZERO_TIME);
    }
    expect(runs_[0] == runs_[1], "a run takes the same time again");
    expect(!interrupt.read(), "the interrupt falls with the last completion");

    poll_ahead_of_time();

    std::vector<uint32_t> result(M * N);
    const trn3_tensor out = core_.tensor(program_, "product");
    read(out.address, result.data(), result.size() * 4);
    expect(result == product(stationary, moving), "the result is the product, bit for bit");
    check_direct(out.address, result);
    check_refusals();
    keeper_.sync();
    std::printf("operands written by %.3f us, result read by %.3f us, quantum %.0f ns\n", loaded.to_seconds() * 1e6,
                sc_core::sc_time_stamp().to_seconds() * 1e6, tlm::tlm_global_quantum::instance().get().to_seconds() * 1e9);
    sc_core::sc_stop();
  }

  // A host that polls runs ahead of SystemC's time by up to a quantum: it learns of the end once its own time is past
  // it, and the interrupt still rises at the end itself.
  void poll_ahead_of_time() {
    set(trn3_host::TAG, 9);
    set(trn3_host::DOORBELL, 1);
    const sc_core::sc_time step(100, sc_core::SC_NS);
    while (get(trn3_host::PENDING) == 0) {
      keeper_.inc(step);
      if (keeper_.need_sync()) keeper_.sync();
    }
    const uint64_t end = get(trn3_host::COMPLETION_END), seen = keeper_.get_current_time().value();
    expect(end <= seen && seen < end + step.value() + 1, "a poll sees the end with the step that reaches it");
    expect(get(trn3_host::COMPLETION_END) - get(trn3_host::COMPLETION_START) == runs_[0], "and the run took what runs take");
    keeper_.sync();
    wait(sc_core::SC_ZERO_TIME);
    expect(interrupt.read(), "the interrupt is up by then");
    set(trn3_host::ACKNOWLEDGE, 1);
    keeper_.sync();
    wait(sc_core::SC_ZERO_TIME);
  }

  static std::vector<uint32_t> product(const std::vector<uint16_t>& stationary, const std::vector<uint16_t>& moving) {
    std::vector<uint16_t> transposed(stationary.size());
    for (int64_t k = 0; k < K; ++k)
      for (int64_t m = 0; m < M; ++m)
        transposed[static_cast<size_t>(m * K + k)] = stationary[static_cast<size_t>(k * M + m)];
    std::vector<uint32_t> wanted(M * N);
    trn3_array a{}, b{};
    trn3_array_mut out{};
    a.size = b.size = sizeof a;
    out.size = sizeof out;
    a.data = transposed.data();
    b.data = moving.data();
    out.data = wanted.data();
    a.dtype = b.dtype = TRN3_DTYPE_BFLOAT16;
    out.dtype = TRN3_DTYPE_FLOAT32;
    a.ndim = b.ndim = out.ndim = 2;
    a.shape[0] = out.shape[0] = M;
    a.shape[1] = b.shape[0] = K;
    b.shape[1] = out.shape[1] = N;
    if (trn3_matmul(&a, &b, nullptr, &out, nullptr, nullptr, 0) != TRN3_OK) std::abort();
    return wanted;
  }

  // The pointer that the target lends shows what its transactions show.
  void check_direct(uint64_t address, const std::vector<uint32_t>& result) {
    tlm::tlm_generic_payload payload;
    tlm::tlm_dmi dmi;
    payload.set_read();
    payload.set_address(address);
    expect(socket->get_direct_mem_ptr(payload, dmi), "direct memory is granted");
    const unsigned char* bytes = dmi.get_dmi_ptr() + (address - dmi.get_start_address());
    const uint64_t length = std::min<uint64_t>(result.size() * 4, dmi.get_end_address() + 1 - address);
    expect(std::memcmp(bytes, result.data(), length) == 0, "direct memory holds the result");
    expect(dmi.get_read_latency() > sc_core::SC_ZERO_TIME, "direct accesses take time");
  }

  void check_refusals() {
    uint64_t word = 0;
    expect(access(NeuronCore::registers - 8, &word, 8, true) == tlm::TLM_ADDRESS_ERROR_RESPONSE, "beyond HBM");
    expect(access(NeuronCore::registers + 0x1000, &word, 8, true) == tlm::TLM_ADDRESS_ERROR_RESPONSE, "no register");
    expect(access(NeuronCore::registers, &word, 4, true) == tlm::TLM_BURST_ERROR_RESPONSE, "half a register");
    word = 99;
    access(NeuronCore::registers + trn3_host::PROGRAM, &word, 8, false);
    expect(access(NeuronCore::registers + trn3_host::DOORBELL, &word, 8, false) == tlm::TLM_GENERIC_ERROR_RESPONSE,
           "no such program");
  }

  tlm::tlm_response_status access(uint64_t address, void* data, uint64_t length, bool is_read) {
    tlm::tlm_generic_payload payload;
    payload.set_command(is_read ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND);
    payload.set_address(address);
    payload.set_data_ptr(static_cast<unsigned char*>(data));
    payload.set_data_length(static_cast<unsigned int>(length));
    payload.set_streaming_width(static_cast<unsigned int>(length));
    payload.set_byte_enable_ptr(nullptr);
    payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
    sc_core::sc_time delay = keeper_.get_local_time();
    socket->b_transport(payload, delay);
    keeper_.set(delay);
    if (keeper_.need_sync()) keeper_.sync();
    return payload.get_response_status();
  }
  void burst(uint64_t address, void* data, uint64_t length, bool is_read) {
    for (uint64_t done = 0; done < length; done += BURST) {
      const uint64_t here = std::min(BURST, length - done);
      const auto response = access(address + done, static_cast<unsigned char*>(data) + done, here, is_read);
      expect(response == tlm::TLM_OK_RESPONSE, "a burst is answered");
    }
  }
  void write(uint64_t address, void* data, uint64_t length) { burst(address, data, length, false); }
  void read(uint64_t address, void* data, uint64_t length) { burst(address, data, length, true); }
  void set(uint64_t offset, uint64_t value) {
    expect(access(NeuronCore::registers + offset, &value, 8, false) == tlm::TLM_OK_RESPONSE, "a register is written");
  }
  uint64_t get(uint64_t offset) {
    uint64_t value = 0;
    expect(access(NeuronCore::registers + offset, &value, 8, true) == tlm::TLM_OK_RESPONSE, "a register is read");
    return value;
  }
  void expect(bool holds, const char* what) {
    if (holds) return;
    ++failures_;
    std::fprintf(stderr, "FAILED: %s\n", what);
  }

  NeuronCore& core_;
  uint64_t program_;
  tlm_utils::tlm_quantumkeeper keeper_;
  std::vector<uint64_t> runs_;
  int failures_ = 0;
};

}  // namespace

int sc_main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: host PROGRAM.json QUANTUM_NS\n");
    return 2;
  }
  sc_core::sc_set_time_resolution(1, sc_core::SC_PS);
  std::ifstream file(argv[1]);
  std::ostringstream text;
  text << file.rdbuf();
  tlm_utils::tlm_quantumkeeper::set_global_quantum(sc_core::sc_time(std::atof(argv[2]), sc_core::SC_NS));

  NeuronCore core("core", "");
  Host host("host", core, core.load(text.str()));
  sc_core::sc_signal<bool> line("line");
  host.socket.bind(core.socket);
  core.interrupt.bind(line);
  host.interrupt.bind(line);
  sc_core::sc_start();
  return host.failures() == 0 ? 0 : 1;
}

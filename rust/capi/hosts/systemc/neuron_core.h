// One NeuronCore as a TLM-2.0 target: HBM behind a window of addresses, a few registers, an interrupt.
//
// Coding style: loosely timed. b_transport answers at once and adds the memory's delay to the annotated one; the core
// itself runs in the device's own time, which this module keeps with SystemC's: `advance` to the initiator's local
// time (which may be ahead of sc_time_stamp() by up to a quantum) before each access, and to the device's next event
// otherwise. Results never depend on the quantum; when a host hears of them does, as with any quantum.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include <systemc>
#include <tlm>
#include <tlm_utils/simple_target_socket.h>

#include <trn3.h>

namespace trn3_host {

// Registers, each of 8 bytes, from NeuronCore::registers on.
enum Register : uint64_t {
  PROGRAM = 0x00,            // write: number of the program to run
  TAG = 0x08,                // write: what comes back with its completion
  DOORBELL = 0x10,           // write: anything submits the run; refused with a TLM error when the queue is full
  PENDING = 0x18,            // read: completions not yet taken
  COMPLETION_TAG = 0x20,     // read: of the oldest completion
  COMPLETION_STATUS = 0x28,  // read: its trn3_status
  COMPLETION_START = 0x30,   // read: when it started, in picoseconds
  COMPLETION_END = 0x38,     // read: when it ended
  ACKNOWLEDGE = 0x40,        // write: anything drops the oldest completion; the interrupt falls with the last one
  REGISTER_BYTES = 0x48,
};

class NeuronCore : public sc_core::sc_module {
 public:
  // Where the registers lie: beyond any HBM.
  static constexpr uint64_t registers = uint64_t{1} << 48;

  tlm_utils::simple_target_socket<NeuronCore> socket;
  sc_core::sc_out<bool> interrupt;

  // `config` is the device's JSON description; empty: one core of trn3.
  NeuronCore(const sc_core::sc_module_name& name, const std::string& config);
  ~NeuronCore() override;
  NeuronCore(const NeuronCore&) = delete;
  NeuronCore& operator=(const NeuronCore&) = delete;

  // Loads a program (the text of `trn3 record`) and returns its number: firmware's work, which takes no time here.
  uint64_t load(const std::string& program);
  // Where a tensor of a program lies.
  trn3_tensor tensor(uint64_t program, const std::string& name) const;

 private:
  SC_HAS_PROCESS(NeuronCore);

  void transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  unsigned int debug(tlm::tlm_generic_payload& payload);
  bool direct_memory(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi);

  tlm::tlm_response_status memory(tlm::tlm_generic_payload& payload, uint64_t* delay_ps);
  tlm::tlm_response_status access_register(tlm::tlm_generic_payload& payload);
  tlm::tlm_response_status submit();
  uint64_t read_register(uint64_t offset) const;

  // Moves the device on to a time, if it is not there already, and arranges to be woken at its next event.
  void advance(const sc_core::sc_time& time);
  void wake();
  void drive_interrupt();
  static void on_complete(void* module, const trn3_completion* completion);

  trn3_device* device_ = nullptr;
  uint64_t hbm_bytes_ = 0;
  uint64_t program_ = 0, tag_ = 0;
  std::deque<trn3_completion> completions_;
  sc_core::sc_event wake_, interrupt_changed_;
};

}  // namespace trn3_host

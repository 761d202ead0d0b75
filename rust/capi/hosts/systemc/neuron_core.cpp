#include "neuron_core.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace trn3_host {

namespace {

// What a refusal of the library becomes where there is no TLM status for it.
void check(trn3_status status, const char* what) {
  if (status == TRN3_OK) return;
  char text[1024] = "";
  trn3_last_error(text, sizeof text);
  throw std::runtime_error(std::string(what) + ": " + text);
}

uint64_t picoseconds(const sc_core::sc_time& time) {
  return static_cast<uint64_t>(time / sc_core::sc_time(1, sc_core::SC_PS) + 0.5);
}

sc_core::sc_time time_of(uint64_t ps) { return sc_core::sc_time(static_cast<double>(ps), sc_core::SC_PS); }

}  // namespace

NeuronCore::NeuronCore(const sc_core::sc_module_name& name, const std::string& config)
    : sc_module(name), socket("socket"), interrupt("interrupt") {
  check(trn3_device_create(config.data(), config.size(), &device_), "trn3_device_create");
  check(trn3_memory_size(device_, TRN3_SPACE_HBM, &hbm_bytes_), "trn3_memory_size");
  check(trn3_on_complete(device_, &NeuronCore::on_complete, this), "trn3_on_complete");
  socket.register_b_transport(this, &NeuronCore::transport);
  socket.register_transport_dbg(this, &NeuronCore::debug);
  socket.register_get_direct_mem_ptr(this, &NeuronCore::direct_memory);
  SC_METHOD(wake);
  sensitive << wake_;
  dont_initialize();
  SC_METHOD(drive_interrupt);
  sensitive << interrupt_changed_;
  dont_initialize();
}

NeuronCore::~NeuronCore() { trn3_device_destroy(device_); }

uint64_t NeuronCore::load(const std::string& program) {
  uint64_t number = 0;
  check(trn3_device_load(device_, program.data(), program.size(), &number), "trn3_device_load");
  return number;
}

trn3_tensor NeuronCore::tensor(uint64_t program, const std::string& name) const {
  trn3_tensor place{};
  place.size = sizeof place;
  check(trn3_device_tensor(device_, program, name.data(), name.size(), &place), "trn3_device_tensor");
  return place;
}

void NeuronCore::transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  advance(sc_core::sc_time_stamp() + delay);
  payload.set_dmi_allowed(payload.get_address() < hbm_bytes_);
  if (payload.get_byte_enable_ptr() != nullptr) {
    payload.set_response_status(tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
    return;
  }
  if (payload.get_streaming_width() < payload.get_data_length()) {
    payload.set_response_status(tlm::TLM_BURST_ERROR_RESPONSE);
    return;
  }
  if (payload.get_address() >= registers) {
    payload.set_response_status(access_register(payload));
    return;
  }
  uint64_t delay_ps = 0;
  payload.set_response_status(memory(payload, &delay_ps));
  delay += time_of(delay_ps);
}

unsigned int NeuronCore::debug(tlm::tlm_generic_payload& payload) {
  if (payload.get_address() >= registers) return 0;
  return memory(payload, nullptr) == tlm::TLM_OK_RESPONSE ? payload.get_data_length() : 0;
}

tlm::tlm_response_status NeuronCore::memory(tlm::tlm_generic_payload& payload, uint64_t* delay_ps) {
  const uint64_t address = payload.get_address();
  const size_t length = payload.get_data_length();
  trn3_status status = TRN3_OK;
  if (payload.is_read())
    status = trn3_memory_read(device_, TRN3_SPACE_HBM, 0, address, payload.get_data_ptr(), length, delay_ps);
  else if (payload.is_write())
    status = trn3_memory_write(device_, TRN3_SPACE_HBM, 0, address, payload.get_data_ptr(), length, delay_ps);
  if (status == TRN3_VALUE) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  return status == TRN3_OK ? tlm::TLM_OK_RESPONSE : tlm::TLM_GENERIC_ERROR_RESPONSE;
}

bool NeuronCore::direct_memory(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) {
  constexpr uint64_t window = uint64_t{1} << 20;
  const uint64_t start = payload.get_address() / window * window;
  dmi.set_start_address(start);
  dmi.set_end_address(start + window - 1);
  if (start >= hbm_bytes_) return false;
  const uint64_t length = std::min(window, hbm_bytes_ - start);
  void* pointer = nullptr;
  if (trn3_memory_direct(device_, TRN3_SPACE_HBM, 0, start, length, &pointer) != TRN3_OK) return false;
  dmi.set_end_address(start + length - 1);
  dmi.set_dmi_ptr(static_cast<unsigned char*>(pointer));
  dmi.allow_read_write();
  // TLM counts a direct access by the byte: that of one access of the whole window, shared by its bytes.
  uint64_t delay_ps = 0;
  std::string bytes(length, '\0');
  if (trn3_memory_read(device_, TRN3_SPACE_HBM, 0, start, &bytes[0], length, &delay_ps) != TRN3_OK) return false;
  dmi.set_read_latency(time_of(delay_ps) / static_cast<double>(length));
  dmi.set_write_latency(time_of(delay_ps) / static_cast<double>(length));
  return true;
}

tlm::tlm_response_status NeuronCore::access_register(tlm::tlm_generic_payload& payload) {
  const uint64_t offset = payload.get_address() - registers;
  if (offset >= REGISTER_BYTES) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (payload.get_data_length() != 8 || offset % 8 != 0) return tlm::TLM_BURST_ERROR_RESPONSE;
  uint64_t value = 0;
  if (payload.is_read()) {
    value = read_register(offset);
    std::memcpy(payload.get_data_ptr(), &value, sizeof value);
    return tlm::TLM_OK_RESPONSE;
  }
  std::memcpy(&value, payload.get_data_ptr(), sizeof value);
  switch (offset) {
    case PROGRAM:
      program_ = value;
      return tlm::TLM_OK_RESPONSE;
    case TAG:
      tag_ = value;
      return tlm::TLM_OK_RESPONSE;
    case DOORBELL:
      return submit();
    case ACKNOWLEDGE:
      if (!completions_.empty()) completions_.pop_front();
      interrupt_changed_.notify(sc_core::SC_ZERO_TIME);
      return tlm::TLM_OK_RESPONSE;
    default:
      return tlm::TLM_COMMAND_ERROR_RESPONSE;
  }
}

uint64_t NeuronCore::read_register(uint64_t offset) const {
  if (offset == PENDING) return completions_.size();
  if (completions_.empty()) return 0;
  const trn3_completion& oldest = completions_.front();
  switch (offset) {
    case COMPLETION_TAG:
      return oldest.tag;
    case COMPLETION_STATUS:
      return static_cast<uint64_t>(oldest.status);
    case COMPLETION_START:
      return oldest.start_ps;
    case COMPLETION_END:
      return oldest.end_ps;
    default:
      return 0;
  }
}

tlm::tlm_response_status NeuronCore::submit() {
  trn3_command command{};
  command.size = sizeof command;
  command.kind = TRN3_COMMAND_RUN;
  command.program = program_;
  if (trn3_submit(device_, &command, tag_) != TRN3_OK) return tlm::TLM_GENERIC_ERROR_RESPONSE;
  uint64_t now = 0;
  check(trn3_now(device_, &now), "trn3_now");
  advance(time_of(now));
  return tlm::TLM_OK_RESPONSE;
}

void NeuronCore::advance(const sc_core::sc_time& time) {
  uint64_t now = 0, next = TRN3_NEVER;
  check(trn3_now(device_, &now), "trn3_now");
  // Another initiator may have been further ahead in its quantum.
  check(trn3_advance(device_, std::max(now, picoseconds(time))), "trn3_advance");
  check(trn3_next_event(device_, &next), "trn3_next_event");
  if (next == TRN3_NEVER) return;
  const uint64_t stamp = picoseconds(sc_core::sc_time_stamp());
  wake_.notify(time_of(next > stamp ? next - stamp : 0));
}

void NeuronCore::wake() { advance(sc_core::sc_time_stamp()); }

// Called inside trn3_advance, on its thread: an access ahead in its quantum learns of an end before SystemC's time
// has come to it; the interrupt rises at the end itself.
void NeuronCore::on_complete(void* module, const trn3_completion* completion) {
  auto* self = static_cast<NeuronCore*>(module);
  self->completions_.push_back(*completion);
  const uint64_t stamp = picoseconds(sc_core::sc_time_stamp());
  self->interrupt_changed_.notify(time_of(completion->end_ps > stamp ? completion->end_ps - stamp : 0));
}

void NeuronCore::drive_interrupt() { interrupt.write(!completions_.empty()); }

}  // namespace trn3_host

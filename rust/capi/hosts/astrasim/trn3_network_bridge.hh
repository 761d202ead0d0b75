// ADAPTER, to be built in an ASTRA-sim tree.
//
// Collectives of trn3's devices over ASTRA-sim's network: its latency and bandwidth say when messages are there. That
// network carries numbers of bytes, not bytes: those wait in the bridge, which is one for all ranks of the process.
#ifndef TRN3_NETWORK_BRIDGE_HH
#define TRN3_NETWORK_BRIDGE_HH

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "astra-sim/common/AstraNetworkAPI.hh"
#include "trn3_clock.hh"
#include "trn3_device.hpp"

namespace Trn3 {

class NetworkBridge {
  public:
    using Completed = std::function<void(const trn3_completion&)>;

    NetworkBridge() = default;
    NetworkBridge(const NetworkBridge&) = delete;
    NetworkBridge& operator=(const NetworkBridge&) = delete;
    ~NetworkBridge();

    // Lets a device of one core ride on a rank's network. Both must outlive the bridge, which moves the device's time.
    // Ranks of collectives are those of the network; completed hears of what is done. All ranks of a collective must be
    // connected before any of them submits.
    void connect(std::uint32_t rank, trn3::Device& device, AstraSim::AstraNetworkAPI& network, Completed completed);
    // Gives a command to a rank's device, now.
    void submit(std::uint32_t rank, const trn3_command& command, std::uint64_t tag);
    // Messages that were sent and not taken.
    std::size_t pending() const { return messages_.size(); }

  private:
    using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>;

    struct Message {
        NetworkBridge* bridge;
        Key key;
        int tag;
        std::vector<char> bytes;
        AstraSim::sim_request sending, receiving;
        bool has_come = false, is_sent = false;
        std::uint64_t at_ps = 0;
    };
    struct Rank {
        NetworkBridge* bridge;
        std::uint32_t number;
        trn3::Device* device;
        AstraSim::AstraNetworkAPI* network;
        Completed completed;
        Alarm alarm;
        void wake();
    };

    static trn3_status send(void* user, std::uint32_t from, std::uint32_t to, std::uint64_t key, std::uint64_t at_ps,
                            const void* bytes, std::size_t length);
    static trn3_status recv(void* user, std::uint32_t from, std::uint32_t to, std::uint64_t key, void* buffer,
                            std::size_t capacity, std::size_t* length, std::uint64_t* at_ps, std::uint32_t* has_come);
    static trn3_status schedule(void* user, std::uint64_t at_ps);
    static std::uint64_t now(void* user);
    static void start(void* message);
    static void sent(void* message);
    static void came(void* message);
    static void woken(void* rank);

    std::map<std::uint32_t, Rank> ranks_;
    std::map<Key, std::unique_ptr<Message>> messages_;
    // Messages that were taken, and whose sender has not heard of its end.
    std::map<const Message*, std::unique_ptr<Message>> taken_;
    int next_tag_ = 0;
};

}  // namespace Trn3

#endif

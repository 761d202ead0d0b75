// ADAPTER, to be built in an ASTRA-sim tree.
#include "trn3_network_bridge.hh"

#include <algorithm>
#include <climits>
#include <cstring>
#include <stdexcept>

namespace Trn3 {

namespace {
// ASTRA-sim's code of an element of one byte.
constexpr int BYTES = 0;
}  // namespace

NetworkBridge::~NetworkBridge() {
    for (const auto& [number, rank] : ranks_) {
        (void)trn3_set_network(rank.device->get(), nullptr);
    }
}

void NetworkBridge::connect(std::uint32_t rank, trn3::Device& device, AstraSim::AstraNetworkAPI& network,
                            Completed completed) {
    if (ranks_.count(rank) != 0) {
        throw std::invalid_argument("trn3: rank " + std::to_string(rank) + " is connected already");
    }
    const auto place = ranks_.emplace(rank, Rank{this, rank, &device, &network, std::move(completed),
                                                 Alarm(network, &NetworkBridge::woken, nullptr)}).first;
    place->second.alarm = Alarm(network, &NetworkBridge::woken, &place->second);
    auto table = trn3::record<trn3_network>();
    table.user = &place->second;
    table.send = send;
    table.recv = recv;
    table.schedule = schedule;
    table.now = now;
    trn3::check(trn3_set_network(device.get(), &table));
}

void NetworkBridge::submit(std::uint32_t rank, const trn3_command& command, std::uint64_t tag) {
    Rank& own = ranks_.at(rank);
    own.wake();
    own.device->submit(command, tag);
    own.wake();
}

void NetworkBridge::Rank::wake() {
    device->advance(std::max(alarm.now(), device->now()));
    while (const auto done = device->poll()) {
        completed(*done);
    }
    alarm.set(device->next_event());
}

void NetworkBridge::woken(void* rank) {
    static_cast<Rank*>(rank)->alarm.rang();
    static_cast<Rank*>(rank)->wake();
}

// Functions of the table: the device is inside a call, so that nothing here may call it, nor throw.
trn3_status NetworkBridge::send(void* user, std::uint32_t from, std::uint32_t to, std::uint64_t key, std::uint64_t at_ps,
                                const void* bytes, std::size_t length) {
    try {
        auto& rank = *static_cast<Rank*>(user);
        auto& bridge = *rank.bridge;
        if (bridge.ranks_.count(to) == 0) {
            return TRN3_VALUE;
        }
        const Key of{from, to, key};
        const auto* first = static_cast<const char*>(bytes);
        auto message = std::make_unique<Message>(
            Message{&bridge, of, bridge.next_tag_, std::vector<char>(first, first + length), {}, {}});
        bridge.next_tag_ = bridge.next_tag_ == INT_MAX ? 0 : bridge.next_tag_ + 1;
        Message* started = message.get();
        if (!bridge.messages_.emplace(of, std::move(message)).second) {
            return TRN3_BUSY;
        }
        // Not at once: the network may answer from within, and the device is inside a call.
        rank.network->sim_schedule(delay_until(at_ps, rank.alarm.now()), &NetworkBridge::start, started);
        return TRN3_OK;
    } catch (...) {
        return TRN3_INTERNAL;
    }
}

void NetworkBridge::start(void* user) {
    auto& message = *static_cast<Message*>(user);
    const auto [from, to, key] = message.key;
    Rank& source = message.bridge->ranks_.at(from);
    Rank& target = message.bridge->ranks_.at(to);
    // A receive must say how many bytes it waits for, which the receiver does not know before: it is posted for it.
    const std::uint64_t count = message.bytes.size();
    target.network->sim_recv(message.bytes.data(), count, BYTES, static_cast<int>(from), message.tag, &message.receiving,
                             &NetworkBridge::came, &message);
    source.network->sim_send(message.bytes.data(), count, BYTES, static_cast<int>(to), message.tag, &message.sending,
                             &NetworkBridge::sent, &message);
}

void NetworkBridge::came(void* user) {
    auto& message = *static_cast<Message*>(user);
    Rank& target = message.bridge->ranks_.at(std::get<1>(message.key));
    message.has_come = true;
    message.at_ps = target.alarm.now();
    target.alarm.set(message.at_ps);
}

void NetworkBridge::sent(void* user) {
    auto& message = *static_cast<Message*>(user);
    message.is_sent = true;
    message.bridge->taken_.erase(&message);
}

trn3_status NetworkBridge::recv(void* user, std::uint32_t from, std::uint32_t to, std::uint64_t key, void* buffer,
                                std::size_t capacity, std::size_t* length, std::uint64_t* at_ps, std::uint32_t* has_come) {
    try {
        auto& bridge = *static_cast<Rank*>(user)->bridge;
        *has_come = 0;
        const auto found = bridge.messages_.find(Key{from, to, key});
        if (found == bridge.messages_.end() || !found->second->has_come) {
            return TRN3_OK;
        }
        const Message& message = *found->second;
        *length = message.bytes.size();
        if (capacity < *length) {
            return TRN3_CAPACITY;
        }
        if (*length > 0) {
            std::memcpy(buffer, message.bytes.data(), *length);
        }
        *at_ps = message.at_ps;
        *has_come = 1;
        if (!message.is_sent) {
            bridge.taken_.emplace(&message, std::move(found->second));
        }
        bridge.messages_.erase(found);
        return TRN3_OK;
    } catch (...) {
        return TRN3_INTERNAL;
    }
}

trn3_status NetworkBridge::schedule(void* user, std::uint64_t at_ps) {
    try {
        static_cast<Rank*>(user)->alarm.set(at_ps);
        return TRN3_OK;
    } catch (...) {
        return TRN3_INTERNAL;
    }
}

std::uint64_t NetworkBridge::now(void* user) { return static_cast<const Rank*>(user)->alarm.now(); }

}  // namespace Trn3

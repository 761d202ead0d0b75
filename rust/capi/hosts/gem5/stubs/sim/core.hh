// STUB of what the adapter needs of gem5, to compile and run it without gem5: time, events, objects, checkpoints.
#ifndef STUB_SIM_CORE_HH
#define STUB_SIM_CORE_HH

#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace gem5 {

using Tick = std::uint64_t;
using Addr = std::uint64_t;

namespace sim_clock::as_int {
inline Tick ps = 1;
}

inline Tick stub_time = 0;
inline Tick curTick() { return stub_time; }

class EventFunctionWrapper {
  public:
    EventFunctionWrapper(std::function<void()> callback, const std::string& name)
        : callback_(std::move(callback)), name_(name) {}
    bool scheduled() const { return scheduled_; }
    Tick when() const { return when_; }

  private:
    friend class StubQueue;
    std::function<void()> callback_;
    std::string name_;
    bool scheduled_ = false;
    Tick when_ = 0;
};

// The events of the process, in order of time and of scheduling.
class StubQueue {
  public:
    void add(EventFunctionWrapper& event, Tick when) {
        event.scheduled_ = true;
        event.when_ = when;
        events_.emplace(when, &event);
    }
    void remove(EventFunctionWrapper& event) {
        event.scheduled_ = false;
        for (auto at = events_.begin(); at != events_.end(); ++at) {
            if (at->second == &event) {
                events_.erase(at);
                return;
            }
        }
    }
    // Runs the next event, if it is not later than that.
    bool step(Tick until = UINT64_MAX) {
        if (events_.empty() || events_.begin()->first > until) {
            return false;
        }
        auto* event = events_.begin()->second;
        stub_time = events_.begin()->first;
        events_.erase(events_.begin());
        event->scheduled_ = false;
        event->callback_();
        return true;
    }

  private:
    std::multimap<Tick, EventFunctionWrapper*> events_;
};
inline StubQueue stub_queue;

enum class DrainState { Running, Draining, Drained };

using CheckpointOut = std::ostream;

class CheckpointIn {
  public:
    explicit CheckpointIn(const std::string& text) {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            const auto equals = line.find('=');
            entries_[line.substr(0, equals)] = line.substr(equals + 1);
        }
    }
    const std::string& at(const std::string& name) const { return entries_.at(name); }

  private:
    std::map<std::string, std::string> entries_;
};

template <typename T> void paramOut(CheckpointOut& out, const std::string& name, const T& value) {
    out << name << '=' << value << '\n';
}
template <typename T> void paramIn(CheckpointIn& in, const std::string& name, T& value) {
    std::istringstream(in.at(name)) >> value;
}
template <typename T> void arrayParamOut(CheckpointOut& out, const std::string& name, const std::vector<T>& values) {
    out << name << '=';
    for (const T& value : values) {
        out << value << ' ';
    }
    out << '\n';
}
template <typename T> void arrayParamIn(CheckpointIn& in, const std::string& name, std::vector<T>& values) {
    std::istringstream text(in.at(name));
    values.clear();
    for (T value; text >> value;) {
        values.push_back(value);
    }
}

}  // namespace gem5

#endif

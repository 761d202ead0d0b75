// STUB of what the adapter needs of SST, to compile and run it without SST: components, links, clocks, checkpoints.
#ifndef STUB_SST_COMPONENT_H
#define STUB_SST_COMPONENT_H

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

namespace SST {

using SimTime_t = std::uint64_t;
using Cycle_t = std::uint64_t;
using ComponentId_t = std::uint64_t;

namespace Core::Serialization {

class serializer;

class serializable {
  public:
    using Factory = serializable* (*)();
    virtual ~serializable() = default;
    virtual void serialize_order(serializer&) {}
    virtual Factory stub_factory() const = 0;
};

#define ImplementSerializable(Type)                                                                                    \
  public:                                                                                                              \
    ::SST::Core::Serialization::serializable::Factory stub_factory() const override {                                  \
        return []() -> ::SST::Core::Serialization::serializable* { return new Type(); };                               \
    }                                                                                                                  \
    static_assert(true, "a semicolon follows")

// The simulator owns what it was given, to its end.
inline auto& stub_owned = *new std::vector<const void*>;

// Bytes of objects. An object that is pointed to several times is written once.
class serializer {
  public:
    enum Mode { SIZER, PACK, UNPACK };
    serializer() = default;
    explicit serializer(std::string bytes) : mode_(UNPACK), stream_(std::move(bytes)) {}
    Mode mode() const { return mode_; }
    std::string bytes() const { return stream_.str(); }

    template <typename T> std::enable_if_t<std::is_arithmetic_v<T>> take(T& value) {
        if (mode_ == UNPACK) {
            stream_.read(reinterpret_cast<char*>(&value), sizeof value);
        } else {
            stream_.write(reinterpret_cast<const char*>(&value), sizeof value);
        }
    }
    void take(std::string& text) { sequence(text); }
    template <typename T> void take(std::vector<T>& values) { sequence(values); }
    template <typename T> void take(T*& pointer) {
        auto number = reinterpret_cast<std::uintptr_t>(pointer);
        take(number);
        if (mode_ == UNPACK) {
            auto& object = objects_[number];
            if (object == nullptr && number != 0) {
                std::string type;
                take(type);
                object = factories().at(type)();
                stub_owned.push_back(object);
                object->serialize_order(*this);
            }
            pointer = dynamic_cast<T*>(object);
        } else if (number != 0 && objects_.emplace(number, pointer).second) {
            std::string type = typeid(*pointer).name();
            factories()[type] = pointer->stub_factory();
            take(type);
            pointer->serialize_order(*this);
        }
    }

  private:
    template <typename T> void sequence(T& values) {
        std::uint64_t size = values.size();
        take(size);
        values.resize(size);
        for (auto& value : values) {
            take(value);
        }
    }
    static std::map<std::string, serializable::Factory>& factories() {
        static std::map<std::string, serializable::Factory> all;
        return all;
    }

    Mode mode_ = PACK;
    std::stringstream stream_;
    std::map<std::uintptr_t, serializable*> objects_;
};

#define SST_SER(object) ser.take(object)

}  // namespace Core::Serialization

class Event : public Core::Serialization::serializable {
  public:
    class HandlerBase : public Core::Serialization::serializable {
      public:
        virtual void operator()(Event* event) = 0;
    };
    template <typename Object, void (Object::*method)(Event*)> class Handler2 : public HandlerBase {
      public:
        Handler2() = default;
        explicit Handler2(Object* object) : object_(object) {}
        void operator()(Event* event) override { (object_->*method)(event); }
        void serialize_order(Core::Serialization::serializer& ser) override { SST_SER(object_); }
        ImplementSerializable(Handler2);

      private:
        Object* object_ = nullptr;
    };
    ImplementSerializable(Event);
};

struct Clock {
    class HandlerBase : public Core::Serialization::serializable {
      public:
        virtual bool operator()(Cycle_t cycle) = 0;
    };
    template <typename Object, bool (Object::*method)(Cycle_t)> class Handler2 : public HandlerBase {
      public:
        Handler2() = default;
        explicit Handler2(Object* object) : object_(object) {}
        bool operator()(Cycle_t cycle) override { return (object_->*method)(cycle); }
        void serialize_order(Core::Serialization::serializer& ser) override { SST_SER(object_); }
        ImplementSerializable(Handler2);

      private:
        Object* object_ = nullptr;
    };
};

struct TimeConverter {};

class Link;

// Time, what happens in it, and what it happens to.
struct StubSimulation {
    struct Entry {
        SimTime_t at = 0;
        Link* link = nullptr;
        Event* event = nullptr;
    };
    SimTime_t now = 0, period = 0, next_tick = 0;
    Cycle_t cycle = 0;
    Clock::HandlerBase* clock = nullptr;
    std::vector<Entry> entries;
    int primaries = 0;

    bool step();
    void serialize_order(Core::Serialization::serializer& ser);
};
inline StubSimulation stub_simulation;

class Link : public Core::Serialization::serializable {
  public:
    Link() = default;
    explicit Link(Event::HandlerBase* handler) : handler_(handler) {}
    void send(SimTime_t delay, Event* event) {
        stub_simulation.entries.push_back({stub_simulation.now + delay, this, event});
    }
    void deliver(Event* event) { (*handler_)(event); }
    void serialize_order(Core::Serialization::serializer& ser) override { SST_SER(handler_); }
    ImplementSerializable(Link);

  private:
    Event::HandlerBase* handler_ = nullptr;
};

// The earlier of the next event and the next tick; events before ticks.
inline bool StubSimulation::step() {
    auto first = entries.begin();
    for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
        first = entry->at < first->at ? entry : first;
    }
    if (first != entries.end() && (clock == nullptr || first->at <= next_tick)) {
        const Entry entry = *first;
        entries.erase(first);
        now = entry.at;
        entry.link->deliver(entry.event);
        return true;
    }
    if (clock == nullptr) {
        return false;
    }
    now = next_tick;
    next_tick += period;
    if ((*clock)(++cycle)) {
        clock = nullptr;
    }
    return true;
}

inline void StubSimulation::serialize_order(Core::Serialization::serializer& ser) {
    SST_SER(now);
    SST_SER(period);
    SST_SER(next_tick);
    SST_SER(cycle);
    SST_SER(clock);
    SST_SER(primaries);
    std::uint64_t count = entries.size();
    SST_SER(count);
    entries.resize(count);
    for (Entry& entry : entries) {
        SST_SER(entry.at);
        SST_SER(entry.link);
        SST_SER(entry.event);
    }
}

class Params {
  public:
    void insert(const std::string& name, const std::string& value) { entries_[name] = value; }
    template <typename T> T find(const std::string& name, const T& otherwise) const {
        const auto found = entries_.find(name);
        if (found == entries_.end()) {
            return otherwise;
        }
        if constexpr (std::is_same_v<T, std::string>) {
            return found->second;
        } else {
            return static_cast<T>(std::stoull(found->second));
        }
    }

  private:
    std::map<std::string, std::string> entries_;
};

struct ComponentInfo {
    static constexpr std::uint64_t SHARE_NONE = 0;
};

class SubComponent;

class BaseComponent : public Core::Serialization::serializable {
  public:
    BaseComponent() = default;
    explicit BaseComponent(ComponentId_t) {}
    SimTime_t getCurrentSimTime(const std::string& unit) const {
        if (unit != "1ps") {
            throw std::invalid_argument("the stub knows picoseconds alone");
        }
        return stub_simulation.now;
    }
    Link* configureSelfLink(const std::string&, const std::string&, Event::HandlerBase* handler) { return new Link(handler); }
    TimeConverter* registerClock(const std::string& frequency, Clock::HandlerBase* handler) {
        if (frequency != "1GHz") {
            throw std::invalid_argument("the stub knows 1GHz alone");
        }
        Core::Serialization::stub_owned.push_back(handler);
        stub_simulation.clock = handler;
        stub_simulation.period = stub_simulation.next_tick = 1000;
        return nullptr;
    }
    // What is in a slot: the driver's choice.
    static inline std::function<SubComponent*(TimeConverter*, Event::HandlerBase*)> stub_slot;
    template <typename T>
    T* loadUserSubComponent(const std::string&, std::uint64_t, TimeConverter* converter, Event::HandlerBase* handler);
};

class Component : public BaseComponent {
  public:
    using BaseComponent::BaseComponent;
    void registerAsPrimaryComponent() {}
    void primaryComponentDoNotEndSim() { stub_simulation.primaries += 1; }
    void primaryComponentOKToEndSim() { stub_simulation.primaries -= 1; }
};

class SubComponent : public BaseComponent {
  public:
    using BaseComponent::BaseComponent;
};

template <typename T>
T* BaseComponent::loadUserSubComponent(const std::string&, std::uint64_t, TimeConverter* converter,
                                       Event::HandlerBase* handler) {
    return stub_slot ? dynamic_cast<T*>(stub_slot(converter, handler)) : nullptr;
}

struct StubDocument {
    const char *name, *description, *value;
};

}  // namespace SST

#define COMPONENT_CATEGORY_PROCESSOR 1
#define SST_ELI_ELEMENT_VERSION(major, minor, patch) 0
#define SST_ELI_REGISTER_COMPONENT(Type, library, name, version, description, category)                                \
    static const char* stub_name() { return library "." name; }
#define SST_ELI_REGISTER_SUBCOMPONENT(Type, library, name, version, description, interface)                            \
    static const char* stub_name() { return library "." name; }
#define SST_ELI_REGISTER_SUBCOMPONENT_API(...)
#define SST_ELI_DOCUMENT_PARAMS(...)                                                                                   \
    static std::vector<::SST::StubDocument> stub_parameters() { return {__VA_ARGS__}; }
#define SST_ELI_DOCUMENT_SUBCOMPONENT_SLOTS(...)                                                                       \
    static std::vector<::SST::StubDocument> stub_slots() { return {__VA_ARGS__}; }

#endif

// ADAPTER, to be built in a gem5 tree (src/mem or src/dev); `make -C rust/capi/hosts gem5` checks it here with stubs.
//
// A device of trn3 behind a class of its own: no header of gem5, none of trn3. Times are picoseconds.
#ifndef TRN3_WRAPPER_HH
#define TRN3_WRAPPER_HH

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

class Trn3Wrapper {
  public:
    // An access to HBM is done.
    using AccessDone = std::function<void(std::uint64_t tag)>;
    // A program is done; the message says what went wrong, and is empty where nothing did.
    using RunDone = std::function<void(std::uint64_t tag, const std::string& message)>;

    static constexpr std::uint64_t NEVER = UINT64_MAX;

    // config is the JSON text of a device (docs/how-to/embedding.md); queue_size says how many accesses may be under way.
    Trn3Wrapper(const std::string& config, std::size_t queue_size, AccessDone access_done, RunDone run_done);
    ~Trn3Wrapper();
    Trn3Wrapper(const Trn3Wrapper&) = delete;
    Trn3Wrapper& operator=(const Trn3Wrapper&) = delete;

    // Nanoseconds of the unit of time: events are scheduled by the picosecond, nothing is ticked.
    static constexpr double clockPeriod() { return 0.001; }
    std::size_t queueSize() const;
    std::uint64_t memoryBytes() const;

    std::uint64_t load(const std::string& program);
    // Where a tensor of a program lies in HBM.
    std::uint64_t address(std::uint64_t program, const std::string& tensor) const;

    // Values now, and the picoseconds that it takes: all there is to functional and atomic access.
    std::uint64_t read(std::uint64_t address, void* bytes, std::size_t length);
    std::uint64_t write(std::uint64_t address, const void* bytes, std::size_t length);

    // An access of timing mode, whose values have moved and which takes delay_ps: AccessDone hears of it then.
    bool canAccept() const;
    void enqueue(std::uint64_t tag, std::uint64_t at_ps, std::uint64_t delay_ps);

    // Runs a program on a core from at_ps on; RunDone hears of its end.
    bool canRun(std::uint32_t core) const;
    void run(std::uint32_t core, std::uint64_t program, std::uint64_t tag, std::uint64_t at_ps);

    // When advance has something to do, NEVER if it has not.
    std::uint64_t nextEvent() const;
    // Moves time on; calls back in order of time (programs before accesses that end together), on this thread.
    void advance(std::uint64_t until_ps);
    // Accesses under way. Programs under way do not count: a snapshot holds them.
    std::size_t pending() const;

    void printStats(std::ostream& stream) const;
    void resetStats();

    // The whole device; no access may be under way.
    std::vector<char> save();
    void restore(const std::vector<char>& bytes);

  private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

#endif

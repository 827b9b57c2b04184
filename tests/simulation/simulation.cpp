// Runs schedules of the simulation; tests/simulation/README.md says what it is.
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/simulation/redis_server.hpp"
#include "tests/simulation/world.hpp"

namespace {

using dlock::simulation::StoreKind;
using dlock::simulation::World;

constexpr const char* usage =
    "usage: dlock_simulation [--store redis|quorum|sentinel|cluster|postgres|etcd]\n"
    "         [--seed S] [--schedules N] [--seconds N] [--resume FILE] [--trace]\n"
    "\n"
    "Runs N schedules (1000 by default), with the seeds S (1), S + 1, ..., for at most\n"
    "that many seconds of processor time. Exits with 1 at the first one that breaks a\n"
    "promise, or if no command ran. --resume begins with the seed in the file, if it\n"
    "exists, and writes the next one to it. --trace prints what happens in each.\n";

struct Options {
  StoreKind store = StoreKind::redis;
  std::string store_name = "redis";
  std::uint64_t seed = 1;
  std::uint64_t schedules = 1000;
  double seconds = 1e9;
  std::string resume;  // a file
  bool traces = false;
};

bool parse(int count, char** words, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string name = words[i];
    options.traces |= name == "--trace";
    if (name == "--trace") continue;
    if (++i == count) return false;
    const char* value = words[i];
    if (name == "--seed") {
      options.seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--schedules") {
      options.schedules = std::strtoull(value, nullptr, 10);
    } else if (name == "--seconds") {
      options.seconds = std::strtod(value, nullptr);
    } else if (name == "--resume") {
      options.resume = value;
      std::ifstream(options.resume) >> options.seed;
    } else if (name == "--store") {
      options.store_name = value;
      constexpr const char* kinds[] = {"redis",   "quorum",   "sentinel",
                                       "cluster", "postgres", "etcd"};
      const auto* found = std::ranges::find(kinds, options.store_name);
      if (found == std::end(kinds)) return false;
      options.store = static_cast<StoreKind>(found - kinds);
    } else {
      return false;
    }
  }
  return true;
}

struct Totals {
  std::uint64_t schedules = 0;
  std::uint64_t commands = 0;
  std::uint64_t losses = 0;
  std::uint64_t digest = 0;  // differs if anything happened differently in a schedule
};

// Every thousandth schedule runs twice, because a seed has to replay exactly: the second
// time with the scripts as they are written.
std::string run(const Options& options, std::uint64_t seed, Totals& totals) {
  std::uint64_t digest = 0;
  {
    World world(seed, options.store, options.traces);
    const auto complaint = world.run();
    ++totals.schedules;
    totals.commands += static_cast<std::uint64_t>(world.commands());
    totals.losses += static_cast<std::uint64_t>(world.losses());
    digest = world.digest();
    totals.digest = totals.digest * 31 + digest;
    if (!complaint.empty() || seed % 1000 != 0) return complaint;
  }
  dlock::simulation::RedisServer::runs_scripts_literally = true;
  World again(seed, options.store, false);
  again.run();
  dlock::simulation::RedisServer::runs_scripts_literally = false;
  return again.digest() == digest ? "" : "the seed does not replay exactly";
}

}  // namespace

int main(int count, char** words) {
  Options options;
  if (!parse(count, words, options)) {
    std::fputs(usage, stderr);
    return 64;
  }
  // No file of the user is to change a schedule.
  for (const char* name : {"DLOCK_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR",
                           "NOTIFY_SOCKET", "DLOCK_HELD", "DLOCK_STORE"}) {
    ::unsetenv(name);
  }
  ::setenv("HOME", "/nonexistent", 1);
  if (!options.traces && std::freopen("/dev/null", "w", stderr) == nullptr) return 1;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  // No memory is given back between schedules, nor small pieces joined.
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 16 << 20);
  ::mallopt(M_MXFAST, 0);
  const auto elapsed = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  Totals totals;
  while (totals.schedules < options.schedules && elapsed() < options.seconds) {
    const auto seed = options.seed + totals.schedules;
    const auto complaint = run(options, seed, totals);
    if (!options.resume.empty()) std::ofstream(options.resume) << seed + 1 << '\n';
    if (complaint.empty()) continue;
    std::printf(
        "%s\nreplay: dlock_simulation --store %s --seed %llu --schedules 1 --trace\n",
        complaint.c_str(), options.store_name.c_str(),
        static_cast<unsigned long long>(seed));
    return 1;
  }
  std::printf(
      "%s: %llu schedules from seed %llu in %.1f s (%.0f a second), with %llu "
      "commands and %llu lost runs, digest %016llx: no promise was broken\n",
      options.store_name.c_str(), static_cast<unsigned long long>(totals.schedules),
      static_cast<unsigned long long>(options.seed), elapsed(),
      static_cast<double>(totals.schedules) / elapsed(),
      static_cast<unsigned long long>(totals.commands),
      static_cast<unsigned long long>(totals.losses),
      static_cast<unsigned long long>(totals.digest));
  if (totals.commands == 0) std::puts("no command ran, so nothing was tested");
  return totals.commands == 0 ? 1 : 0;
}

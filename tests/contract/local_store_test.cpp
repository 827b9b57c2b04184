// What only the embedded store promises: files, sessions, boots.

#include "store/local/local_store.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <list>
#include <memory>
#include <sstream>

#include "store/local/record_file.hpp"
#include "store/local/sessions.hpp"
#include "store/local/state_folder.hpp"
#include "store/local/text_files.hpp"
#include "tests/contract/contender.hpp"
#include "tests/contract/ended_process.hpp"

namespace dlock::local {
namespace {

namespace fs = std::filesystem;

RunEnd exit_with(int code) {
  RunEnd end;
  end.exit_code = code;
  end.outcome = "ran";
  return end;
}

// A process that does nothing until it is killed.
class Child {
 public:
  // The process keeps what `prepare` returns as long as it lives.
  explicit Child(const std::function<std::shared_ptr<void>()>& prepare) {
    int pipe[2];
    if (::pipe(pipe) != 0) throw std::runtime_error("no pipe");
    process.not_before = Clock::now();
    process.pid = ::fork();
    if (process.pid == 0) {
      const auto kept = prepare();
      ::close(pipe[0]);
      ::close(pipe[1]);  // tells the parent that the process is prepared
      for (;;) ::pause();
    }
    process.not_after = Clock::now();
    ::close(pipe[1]);
    char ignored = 0;
    while (::read(pipe[0], &ignored, 1) > 0) {
    }
    ::close(pipe[0]);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void end() {
    if (process.pid <= 0) return;
    ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
    process.pid = 0;
  }

  CommandProcess process;
};

// A command that closes all descriptors it inherits, as daemons do.
class Command : public Child {
 public:
  Command() : Child(close_all) {}

 private:
  static std::shared_ptr<void> close_all() {
    // Closes the pipe last: the parent waits for that.
    for (int fd = 1100; fd >= 3; --fd) ::close(fd);
    return nullptr;
  }
};

class LocalStores : public ::testing::Test {
 protected:
  Contender& contender(unsigned slots = 1, milliseconds timeout = milliseconds(2000)) {
    auto claim = claim_of("job");
    claim.slots = slots;
    return contenders_.emplace_back(context_, world_, claim, timeout);
  }

  // As if dlock had been killed; its command continues.
  void kill(Contender& contender) {
    contenders_.remove_if([&](const Contender& c) { return &c == &contender; });
  }

  std::string folder() const { return world_.path() + "/" + state_folder_name(); }
  std::string file() const {
    return folder() + "/" + key_of(claim_of("job").lock, StateKind::lock).file;
  }
  std::string log() const { return world_.path() + "/runs.jsonl"; }

  static std::string contents_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  // The failure of a request. Its message has to name the file.
  Failure failure_of_asking() {
    try {
      contender().ask();
    } catch (const Failure& failure) {
      return failure;
    }
    throw std::logic_error("no failure");
  }

  // The process of the command writes this itself, right before it starts.
  static void note_start(Contender& holder, pid_t pid, Clock::time_point started) {
    const auto note = holder.claimant().start_note();
    const auto time = std::chrono::floor<milliseconds>(started.time_since_epoch());
    const auto text = note->before_pid + std::to_string(pid) + note->before_time +
                      std::to_string(time.count()) + note->after;
    ASSERT_EQ(::write(note->file.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }

  void use_once() {
    auto& holder = contender();
    holder.granted();
    holder.release(exit_with(3));
    contenders_.clear();
  }

  asio::io_context context_;
  LocalWorld world_;
  std::list<Contender> contenders_;
};

// Registers of fences

TEST_F(LocalStores, admitted_fences_survive_a_boot) {
  contender().admit(10);
  use_once();
  fs::remove_all(folder());

  EXPECT_EQ(contender().admit(9), Admission::stale);
}

TEST_F(LocalStores, a_damaged_file_of_fences_is_an_error_with_its_name_and_not_changed) {
  contender().admit(1'234);
  auto text = contents_of(world_.path() + "/fences");
  text[text.find("1234")] = '0';
  std::ofstream(world_.path() + "/fences", std::ios::binary) << text;

  try {
    contender().admit(1'000);
    FAIL() << "admitted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured);
    EXPECT_NE(std::string(failure.what()).find("/fences"), std::string::npos);
  }
  EXPECT_EQ(contents_of(world_.path() + "/fences"), text);
}

TEST_F(LocalStores, a_process_that_was_killed_while_writing_fences_blocks_nobody) {
  contender().admit(1);
  std::ofstream(world_.path() + "/fences.new") << "half";

  EXPECT_EQ(contender().admit(2), Admission::admitted);
  EXPECT_FALSE(fs::exists(world_.path() + "/fences.new"));
}

// Runs

TEST_F(LocalStores, the_last_runs_survive_a_boot) {
  use_once();
  use_once();
  fs::remove_all(folder());

  ASSERT_EQ(contender().history().size(), 2u);
  use_once();
  EXPECT_EQ(contender().history().size(), 3u);
}

TEST_F(LocalStores, the_runs_survive_the_deletion_of_their_log) {
  use_once();
  fs::remove(log());

  EXPECT_EQ(contender().history().size(), 1u);
}

// Sessions and processes

TEST_F(LocalStores, a_lease_lasts_as_long_as_its_session_is_open_anywhere) {
  auto& holder = contender();
  holder.granted();
  const int inherited = ::dup(holder.claimant().session());
  kill(holder);

  const bool busy = contender().is_busy();
  ::close(inherited);

  EXPECT_TRUE(busy);
  EXPECT_TRUE(contender().is_granted());
}

TEST_F(LocalStores, a_lease_lasts_as_long_as_its_command) {
  Command command;
  auto& holder = contender();
  holder.granted();
  holder.start(command.process);
  kill(holder);

  const bool busy = contender().is_busy();
  command.end();

  EXPECT_TRUE(busy);
  EXPECT_TRUE(contender().is_granted());
}

TEST_F(LocalStores, a_lease_lasts_as_long_as_a_command_that_dlock_could_not_record) {
  auto& holder = contender();
  holder.granted();
  Command command;
  note_start(holder, command.process.pid, command.process.not_after);
  kill(holder);

  const bool busy = contender().is_busy();
  command.end();

  EXPECT_TRUE(busy);
  EXPECT_TRUE(contender().is_granted());
}

TEST_F(LocalStores, another_process_with_the_pid_of_a_command_is_not_that_command) {
  Command stranger;
  auto process = stranger.process;
  process.not_before -= std::chrono::seconds(5);
  process.not_after -= std::chrono::seconds(5);
  auto& holder = contender();
  holder.granted();
  holder.start(process);
  kill(holder);

  EXPECT_TRUE(contender().is_granted());
}

TEST_F(LocalStores,
       another_process_with_the_pid_of_an_unrecorded_command_is_not_that_command) {
  auto& holder = contender();
  holder.granted();
  const Command stranger;
  note_start(holder, stranger.process.pid,
             stranger.process.not_before - std::chrono::milliseconds(50));
  kill(holder);

  EXPECT_TRUE(contender().is_granted());
}

TEST_F(LocalStores, a_session_does_not_use_a_descriptor_that_scripts_use) {
  auto& holder = contender();
  holder.granted();

  EXPECT_GE(holder.claimant().session(), 100);
}

TEST_F(LocalStores, a_run_whose_last_process_died_without_a_report_is_recorded) {
  auto& holder = contender();
  const auto fence = holder.granted().fence;
  {
    const Command command;
    holder.start(command.process);
  }
  kill(holder);

  contender().granted();

  const auto run = contender().inspect().last_run;
  ASSERT_TRUE(run);
  EXPECT_EQ(run->fence, fence);
  EXPECT_EQ(run->outcome, "vanished");
}

TEST_F(LocalStores, an_ended_run_is_logged_even_if_another_one_vanished_meanwhile) {
  auto& holder = contender(2);
  const auto fence = holder.granted().fence;
  auto& other = contender(2);
  other.granted();
  {
    const Command command;
    other.start(command.process);
  }
  kill(other);

  holder.release(exit_with(3));

  const auto wanted = R"("fence":)" + std::to_string(fence.number) + R"(,"started":)";
  EXPECT_NE(contents_of(log()).find(R"("event":"end","namespace":"dlock","name":"job",)" +
                                    wanted),
            std::string::npos)
      << contents_of(log());
}

// Boots

TEST_F(LocalStores, no_lease_survives_a_boot) {
  contender().granted();
  contenders_.clear();
  fs::rename(folder(), world_.path() + "/state-of-an-earlier-boot");

  EXPECT_TRUE(contender().is_granted());
}

TEST_F(LocalStores, the_last_run_survives_a_boot) {
  use_once();
  fs::remove_all(folder());
  auto& newcomer = contender();
  newcomer.granted();
  newcomer.release();

  const auto run = newcomer.inspect().last_run;

  ASSERT_TRUE(run);
  EXPECT_EQ(run->exit_code, 3);
}

TEST_F(LocalStores, fences_continue_above_all_earlier_ones_after_a_boot) {
  // As far as the log is believed: greatest_plausible_fence().
  const auto far_ahead = static_cast<std::uint64_t>(
      std::chrono::microseconds(wall_now() + std::chrono::days(31)).count());
  use_once();
  fs::remove_all(folder());
  Holder earlier;
  earlier.fence.number = far_ahead;
  std::ofstream(log(), std::ios::app)
      << record::start_line({"dlock", "other"}, earlier) << 1 << record::start_line_time
      << 1 << record::start_line_end;

  EXPECT_GT(contender().granted().fence.number, far_ahead);
}

TEST_F(LocalStores, no_detached_lease_survives_a_boot_and_fences_continue_above_it) {
  auto& holder = contender();
  holder.claim.attached = false;
  const auto fence = holder.granted().fence;
  contenders_.clear();
  // As if it had been granted before the clock was set back.
  const auto last = std::to_string(fence.number);
  const auto later = std::to_string(fence.number + 3'600'000'000);
  auto text = contents_of(log());
  text.replace(text.find(last), last.size(), later);
  std::ofstream(log(), std::ios::binary) << text;
  fs::remove_all(folder());

  EXPECT_GT(contender().granted().fence.number, fence.number + 3'600'000'000);
}

TEST_F(LocalStores, a_logged_detached_grant_is_not_a_run_after_a_boot) {
  auto& holder = contender();
  holder.claim.attached = false;
  holder.granted();
  contenders_.clear();
  fs::remove_all(folder());

  EXPECT_FALSE(contender().inspect().last_run);
}

TEST_F(LocalStores, folders_and_sockets_of_earlier_boots_are_removed) {
  use_once();
  fs::remove_all(folder());
  fs::create_directory(world_.path() + "/state-x");
  fs::permissions(world_.path() + "/state-x", fs::perms::owner_all);
  for (const char* name : {"state-x/a.lock", "state-y.mdb", "wake-0000000000000001"}) {
    std::ofstream(world_.path() + "/" + name) << "x";
  }

  contender().granted();

  EXPECT_FALSE(fs::exists(world_.path() + "/state-x"));
  EXPECT_FALSE(fs::exists(world_.path() + "/state-y.mdb"));
  EXPECT_FALSE(fs::exists(world_.path() + "/wake-0000000000000001"));
}

// Damage

TEST_F(LocalStores, a_truncated_file_that_nobody_uses_is_replaced) {
  use_once();
  const auto whole = fs::file_size(file());
  for (const std::uintmax_t size : {std::uintmax_t{0}, std::uintmax_t{100},
                                    std::uintmax_t{4096}, std::uintmax_t{8191}}) {
    ASSERT_LT(size, whole);
    fs::resize_file(file(), size);

    use_once();

    EXPECT_GE(fs::file_size(file()), whole) << size;
  }
}

TEST_F(LocalStores, a_file_that_is_not_a_state_is_replaced_if_nobody_uses_the_lock) {
  use_once();
  std::ofstream(file(), std::ios::binary) << std::string(100'000, 'x');

  EXPECT_TRUE(contender().is_granted());
}

TEST_F(LocalStores, a_flipped_bit_is_an_error_and_never_an_older_state) {
  auto& holder = contender();
  holder.granted();
  auto& other = contender();
  other.ask();
  const auto bytes = contents_of(file());
  int refused = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 7) {
    auto changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    std::ofstream(file(), std::ios::binary) << changed;
    try {
      EXPECT_FALSE(contender(1, milliseconds(100)).is_granted()) << at;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured) << at;
      ++refused;
    }
    std::ofstream(file(), std::ios::binary) << bytes;
  }
  EXPECT_GT(refused, 10);
}

TEST_F(LocalStores, a_damaged_file_of_a_lock_in_use_is_an_error_with_its_name) {
  contender().granted();
  for (const std::string& damage : {std::string(), std::string("x")}) {
    std::ofstream(file(), std::ios::binary) << damage;

    const auto failure = failure_of_asking();

    EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured);
    EXPECT_NE(std::string(failure.what()).find(file()), std::string::npos);
    EXPECT_EQ(contents_of(file()), damage);
  }
}

TEST_F(LocalStores, no_lock_is_granted_in_replaced_files) {
  auto& holder = contender();
  holder.granted();
  auto& other = contender();
  other.ask();
  world_.wipe_out();

  EXPECT_THROW(other.ask(), Failure);
}

// Other boots and clocks

// As in a container with its own boot id.
TEST_F(LocalStores, nothing_is_granted_while_processes_hold_locks_of_another_boot) {
  contender().granted();
  fs::rename(folder(), world_.path() + "/state-22222222-of-a-container");

  EXPECT_EQ(failure_of_asking().kind(), Failure::Kind::misconfigured);
  EXPECT_TRUE(fs::exists(world_.path() + "/state-22222222-of-a-container"));
}

TEST_F(LocalStores, nothing_is_granted_while_processes_hold_locks_in_a_removed_state) {
  contender().granted();
  fs::remove_all(folder());

  EXPECT_EQ(failure_of_asking().kind(), Failure::Kind::misconfigured);
}

TEST_F(LocalStores, a_detached_lease_on_another_clock_is_not_granted_again) {
  auto& holder = contender();
  holder.claim.attached = false;
  holder.granted();
  contenders_.clear();
  fs::rename(folder(), folder() + "-time-4711");

  EXPECT_EQ(failure_of_asking().kind(), Failure::Kind::misconfigured);
}

TEST_F(LocalStores, an_expired_detached_lease_on_another_clock_is_free) {
  auto& holder = contender();
  holder.claim.attached = false;
  holder.claim.ttl = milliseconds(1);
  holder.granted();
  contenders_.clear();
  fs::rename(folder(), folder() + "-time-4711");
  const auto over = Clock::now() + milliseconds(10);
  while (Clock::now() < over) ::usleep(1000);

  EXPECT_TRUE(contender().is_granted());
  EXPECT_FALSE(fs::exists(folder() + "-time-4711"));
}

TEST_F(LocalStores, reading_needs_no_mutex) {
  auto& holder = contender();
  holder.granted();
  const Child hog([this] { return world_.hold_up(); });

  EXPECT_EQ(contender(1, milliseconds(50)).inspect().holders.size(), 1u);
}

// Upkeep

// Another process removes unused locks while this one waits to do so, and raises the
// floor.
TEST_F(LocalStores, the_removal_of_unused_locks_never_lowers_the_fence_floor) {
  use_once();
  const auto directory =
      Directory::open(world_.path(), false, Directory::Missing::accept);
  const auto state = open_state_folder(*directory);
  set_head(*state, {5, 0});
  auto& holder = contenders_.emplace_back(context_, world_, claim_of("new"));
  holder.granted();
  SessionsFile sessions(*directory, true);
  ASSERT_TRUE(sessions.try_lock(upkeep_mutex));
  const std::optional<RunEnd> end = exit_with(0);
  Task<Release> release(context_, holder.claimant().release(end, holder.wakeup));
  context_.restart();
  context_.poll();
  ASSERT_FALSE(release.is_done());

  set_head(*state, {1'000, wall_now().count()});
  sessions.unlock(upkeep_mutex);
  release.result();

  EXPECT_EQ(head_of(*state).fence_floor, 1'000u);
}

// What is left behind

TEST_F(LocalStores, reading_does_not_create_a_missing_store) {
  contender().inspect();

  EXPECT_FALSE(fs::exists(world_.path()));
}

TEST_F(LocalStores, a_waiter_leaves_no_socket_behind) {
  auto& holder = contender();
  holder.granted();
  auto& waiter = contender();
  waiter.queued();

  holder.release();
  waiter.granted();
  waiter.release();

  for (const auto& entry : fs::directory_iterator(world_.path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("wake-")) << entry.path();
  }
}

TEST_F(LocalStores, the_socket_of_a_dead_waiter_is_removed_by_others) {
  auto& holder = contender();
  holder.granted();
  auto& waiter = contender();
  waiter.queued();
  const auto socket = [&] {
    for (const auto& entry : fs::directory_iterator(world_.path())) {
      if (entry.path().filename().string().starts_with("wake-")) return entry.path();
    }
    return fs::path();
  }();
  ASSERT_FALSE(socket.empty());
  kill(waiter);
  std::ofstream(socket) << "as a killed process leaves it";

  holder.release();

  EXPECT_FALSE(fs::exists(socket));
}

TEST_F(LocalStores, a_busy_store_names_the_process_that_blocks_it) {
  const Child hog([this] { return world_.hold_up(); });
  auto& asker = contender(1, milliseconds(50));
  try {
    asker.ask();
    FAIL() << "answered";
  } catch (const Failure& failure) {
    EXPECT_NE(
        std::string(failure.what()).find("by process " + std::to_string(hog.process.pid)),
        std::string::npos)
        << failure.what();
  }
}

// Events

TEST_F(LocalStores, a_holder_that_died_unnoticed_expires_and_is_not_broken) {
  auto& holder = contender();
  const auto fence = holder.granted().fence;
  holder.start(ended_process());
  kill(holder);
  const auto directory =
      Directory::open(world_.path(), false, Directory::Missing::accept);
  const Fd mark = watch_mark(*directory);
  EventReader reader(*directory);
  auto& breaker = contender();

  const auto break_it = [&]() -> asio::awaitable<std::size_t> {
    const Break order{{fence}};
    const auto broken =
        co_await breaker.store->break_leases(breaker.claim.lock, order, breaker.wakeup);
    co_return broken.size();
  };
  EXPECT_EQ(result_of(context_, break_it()), 0u);

  const auto events = reader.read().value();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Event::Kind::expired);
}

}  // namespace
}  // namespace dlock::local

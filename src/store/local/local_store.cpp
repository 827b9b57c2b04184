#include "store/local/local_store.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "lock/history.hpp"
#include "store/local/cache_files.hpp"
#include "store/local/keys.hpp"
#include "store/local/registers.hpp"
#include "store/local/run_records.hpp"
#include "util/host.hpp"
#include "util/process.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock::local {
namespace {

// Between tries for the gate, which is held for some 20 microseconds at a time.
constexpr nanoseconds first_pause = std::chrono::microseconds(30);
constexpr nanoseconds longest_pause = milliseconds(2);

// How long one who was told to give up still tries, so as not to leave its place in
// the queue for others to clear.
constexpr milliseconds last_patience{50};

// How often locks out of use are looked for, and how many are dropped at once.
constexpr WallTime sweep_every = std::chrono::hours(24);
constexpr std::size_t sweep_most = 10'000;

}  // namespace

LocalStore::LocalStore(asio::io_context& context, Options options)
    : context_(context), options_(std::move(options)), ours_(options_.path.empty()) {
  if (!ours_) return;
  const auto found = default_directory(surroundings());
  if (!found) {
    throw Failure(Failure::Kind::misconfigured,
                  "no home directory to keep locks in: set HOME, or name a directory "
                  "(--store local:/dir)");
  }
  options_.path = *found;
}

LocalStore::~LocalStore() = default;

std::string LocalStore::url() const { return "local:" + options_.path; }

int LocalStore::session() const { return session_ ? session_->fd() : -1; }

void LocalStore::open(Directory::Missing missing) {
  if (!directory_) {
    directory_ = Directory::open(options_.path, ours_, missing);
    if (!directory_) return;
  }
  if (!gate_) gate_.emplace(*directory_, missing == Directory::Missing::create);
}

// For changes to a lease that another process was granted. False, and nothing is created,
// if nobody ever used the store.
bool LocalStore::open_what_is_there() {
  if (gate_ && !in_place()) close();
  if (gate_) return true;
  if (!directory_) {
    directory_ = Directory::open(options_.path, ours_, Directory::Missing::accept);
    if (!directory_) return false;
  }
  gate_.emplace(*directory_, true);
  return true;
}

// Lets go of files that somebody has removed or replaced.
void LocalStore::close() {
  stop_waiting();
  sessions_watcher_.reset();
  session_.reset();
  database_.reset();
  gate_.reset();
  directory_.reset();
  was_replaced_ = false;
}

asio::awaitable<LocalStore::Turn> LocalStore::take_turn(Gate::Access access,
                                                        Wakeup& wakeup) {
  return take_turn(*gate_, access, wakeup);
}

asio::awaitable<LocalStore::Turn> LocalStore::take_turn(Gate& gate, Gate::Access access,
                                                        Wakeup& wakeup) {
  const auto start = Clock::now();
  nanoseconds pause = first_pause;
  // The holder usually is done before a sleep would be.
  for (int tries = 0; tries < 3; ++tries) {
    if (gate.try_lock(access)) co_return Turn(gate);
    ::sched_yield();
  }
  while (!gate.try_lock(access)) {
    const auto waited = Clock::now() - start;
    if (wakeup.gives_up() && waited >= last_patience) {
      throw Failure(Failure::Kind::interrupted, "interrupted");
    }
    if (waited >= options_.timeout) {
      throw gate_shut(gate, std::chrono::duration_cast<milliseconds>(waited));
    }
    co_await wakeup.wait_until(Clock::now() + pause);
    pause = std::min(pause * 2, longest_pause);
  }
  co_return Turn(gate);
}

// Under the gate, where nothing else writes what is examined.
void LocalStore::open_database(Database::Access access) {
  const bool suffices =
      access == Database::Access::read || opened_for_ != Database::Access::read;
  if (database_ && (database_->has_failed() || !suffices)) database_.reset();
  if (!database_) {
    database_ = Database::open(*directory_, access);
    opened_for_ = access;
  }
  if (!database_ && access == Database::Access::write) create_database();
}

// The first of this boot: no lease is left, but fences go on and last runs are known.
void LocalStore::create_database() {
  const auto history = RunsLog(*directory_).read();
  database_ = Database::create(*directory_, [&](Transaction& transaction) {
    auto head = transaction.head();
    head.fence_floor = history.greatest_fence.number;
    head.swept = wall_now().count();
    transaction.set_head(head);
    for (const auto& [lock, run] : history.last_runs) {
      State state;
      state.last_fence = run.fence;
      state.last_run = run;
      if (const auto past = history.past.find(lock); past != history.past.end()) {
        state.past = past->second;
      }
      state.used = run.ended.value_or(run.started);
      transaction.put(key_of(lock), encoded(state));
    }
    for (const auto& [lock, runs] : history.runs) keep_runs(transaction, lock, runs);
  });
}

State LocalStore::load(Transaction& transaction, const LockName& lock) {
  const auto key = key_of(lock);
  const auto head = transaction.head();
  State state;
  if (const auto bytes = transaction.get(key)) {
    auto found = decoded(*bytes);
    if (!found) {
      throw Failure(Failure::Kind::misconfigured,
                    printable(directory_->path_of(Database::file_name())) +
                        " is damaged (a state does not match its checksum); move it "
                        "away once no command runs under its locks");
    }
    state = std::move(*found);
  }
  state.last_fence.number = std::max(state.last_fence.number, head.fence_floor);
  recall_commands(state, lock);
  return state;
}

// A dlock that was killed right after it started its command had no time to store its
// pid; the command itself has left it in the log.
void LocalStore::recall_commands(State& state, const LockName& lock) const {
  for (auto& holder : state.holders) {
    if (holder.command != 0 || holder.party.session == 0 ||
        holder.party.token == party_.token ||
        (gate_->is_locked(holder.party.session) && !has_ended(holder.party.pid))) {
      continue;
    }
    const auto command = command_of(RunsLog(*directory_).text(), lock, holder.fence);
    if (!command) continue;
    holder.command = command->pid;
    holder.command_after = holder.granted_at.time_since_epoch().count();
    holder.command_before = command->not_after.time_since_epoch().count();
  }
}

State LocalStore::load_to_change(Transaction& transaction, const LockName& lock) {
  auto state = load(transaction, lock);
  before_.reset();
  if (gate_->is_watched()) before_ = state;
  return state;
}

// Whether anything had to be written.
bool LocalStore::store(Transaction& transaction, const LockName& lock, const State& state,
                       const Cause& cause) {
  const auto key = key_of(lock);
  const auto bytes = encoded(state);
  const auto before = transaction.get(key);
  if (before == std::string_view(bytes)) return false;
  transaction.put(key, bytes);
  transaction.commit();
  if (before_) {
    publish(*directory_, events_between(*before_, state, lock, cause, Moment::now()));
  }
  return true;
}

// Before the state is stored, which is what commits.
void LocalStore::keep_runs(Transaction& transaction, const LockName& lock,
                           const std::vector<RunInfo>& runs) {
  if (runs.empty()) return;
  const auto key = key_of(lock, Kept::runs);
  std::string records(transaction.find(key).value_or(""));
  for (const auto& run : runs) records = with_run(records, run);
  transaction.put(key, records);
}

// Not under the gate, which whoever is woken takes at once.
void LocalStore::tell(const Consequences& consequences) {
  for (const auto session : consequences.wake) waker_.wake(*directory_, session);
  for (const auto session : consequences.buried) bury(*directory_, session);
  // What is left to do here can wait for them.
  if (!consequences.wake.empty()) ::sched_yield();
}

// The log serves later boots and people; that it cannot be written (a full disk) must
// not keep a lock from being granted or given back.
asio::awaitable<void> LocalStore::log_ends(const LockName& lock,
                                           const std::vector<RunInfo>& runs,
                                           Wakeup& wakeup) {
  std::string lines;
  for (const auto& run : runs) lines += end_line(lock, run) + "\n";
  co_await log(lines, wakeup);
}

asio::awaitable<void> LocalStore::log(const std::string& lines, Wakeup& wakeup) {
  if (lines.empty()) co_return;
  try {
    RunsLog runs(*directory_);
    if (runs.append(lines) == RunsLog::Length::usual) co_return;
    const Turn turn = co_await take_turn(Gate::Access::write, wakeup);
    runs.shorten();
  } catch (const Failure&) {
  }
}

// Who we are does not change, and the kernel need not be asked again at every ask.
const Party& LocalStore::own_party(const Claim& claim) {
  if (party_.pid == 0) {
    party_.pid = ::getpid();
    party_.pid_namespace = own_pid_namespace();
    party_.uid = ::geteuid();
    party_.host = host_name();
  }
  party_.token = claim.token;
  party_.session = session_of(claim.token);
  return party_;
}

asio::awaitable<Answer> LocalStore::ask(const Claim& claim, Queue queue, Wakeup& wakeup) {
  if (was_replaced_) close();
  open(Directory::Missing::create);
  // Before the state says that we live by it.
  if (!session_) session_.emplace(*directory_, session_of(claim.token));
  if (queue == Queue::join && !wake_socket_) {
    wake_socket_.emplace(context_, *directory_, session_of(claim.token), wakeup);
    processes_.emplace(context_, wakeup);
  }
  Claim kept = claim;
  kept.command = shortened_command(claim.command);
  const Ask asked{kept, own_party(claim), queue};

  State state;
  Answer answer;
  Consequences consequences;
  Moment moment;
  {
    const Turn turn = co_await take_turn(Gate::Access::write, wakeup);
    check_in_place();
    open_database(Database::Access::write);
    Transaction transaction(*database_, Database::Access::write);
    state = load_to_change(transaction, claim.lock);
    moment = Moment::now();
    answer = dlock::local::ask(state, asked, moment, *gate_, consequences);
    keep_runs(transaction, claim.lock, consequences.vanished);
    store(transaction, claim.lock, state);
  }
  if (auto* busy = std::get_if<Busy>(&answer)) {
    complete(busy->holders, state);
    if (busy->place > 0) follow(watch_for(state, claim.token, moment));
  } else if (std::holds_alternative<Grant>(answer)) {
    holder_ = *std::find_if(
        state.holders.begin(), state.holders.end(),
        [&](const Holder& holder) { return holder.party.token == claim.token; });
  }
  tell(consequences);
  co_await log_ends(claim.lock, consequences.vanished, wakeup);
  if (!claim.attached && std::holds_alternative<Grant>(answer)) {
    co_await log(grant_line(claim.lock, *holder_) + "\n", wakeup);
  }
  co_return answer;
}

asio::awaitable<Release> LocalStore::release(const Claim& claim,
                                             const std::optional<RunEnd>& end,
                                             Wakeup& wakeup) {
  stop_waiting();
  if (!claim.attached && !open_what_is_there()) co_return Release::not_ours;
  if (!gate_ || (claim.attached && !session_)) co_return Release::not_ours;

  auto outcome = Release::not_ours;
  Consequences consequences;
  std::vector<RunInfo> ended;
  {
    const Turn turn = co_await take_turn(Gate::Access::write, wakeup);
    open_database(Database::Access::give_back);
    if (!database_) co_return Release::not_ours;
    Transaction transaction(*database_, Database::Access::give_back);
    auto state = load_to_change(transaction, claim.lock);
    const auto moment = Moment::now();
    outcome =
        dlock::local::release(state, claim.token, end, moment, *gate_, consequences);
    sweep(transaction, moment);
    ended = std::move(consequences.vanished);
    if (outcome == Release::released && end) ended.push_back(*state.last_run);
    keep_runs(transaction, claim.lock, ended);
    store(transaction, claim.lock, state, {claim.token, end, {}});
    const bool lost = end && end->outcome == "lost" && outcome == Release::not_ours;
    if (lost && holder_ && before_) {
      publish(*directory_, {lost_event(*holder_, claim.lock, state, moment)});
    }
  }
  tell(consequences);
  if (outcome == Release::released && !end && noted_start_) {
    ended.push_back(run_that_was_none(*holder_));
  }
  co_await log_ends(claim.lock, ended, wakeup);
  co_return outcome;
}

asio::awaitable<Renewal> LocalStore::renew(const Claim& claim, Wakeup& wakeup) {
  if (!open_what_is_there()) co_return Renewal::gone;
  auto outcome = Renewal::gone;
  Consequences consequences;
  {
    const Turn turn = co_await take_turn(Gate::Access::write, wakeup);
    open_database(Database::Access::give_back);
    if (!database_) co_return Renewal::gone;
    Transaction transaction(*database_, Database::Access::give_back);
    auto state = load_to_change(transaction, claim.lock);
    outcome = dlock::local::renew(state, claim.token, claim.ttl, Moment::now(), *gate_,
                                  consequences);
    store(transaction, claim.lock, state);
  }
  tell(consequences);
  co_return outcome;
}

void LocalStore::check_in_place() {
  if (in_place()) return;
  was_replaced_ = true;  // closed at the next ask: the gate is in use here
  throw Failure(Failure::Kind::unreachable,
                "the files in " + printable(options_.path) + " were replaced");
}

void LocalStore::sweep(Transaction& transaction, Moment moment) {
  if (moment.wall.count() - transaction.head().swept <= sweep_every.count()) return;
  std::vector<std::string> unused;
  transaction.each("", [&](std::string_view key, std::string_view value) {
    if (is_key_of(Kept::runs, key)) return true;  // they go with the state
    if (is_key_of(Kept::limit, key)) {
      const auto state = decoded_limit(value);
      if (state && is_out_of_use(*state, moment.boot)) unused.emplace_back(key);
    } else {
      const auto state = decoded(value);
      if (state && is_out_of_use(*state, moment, *gate_)) unused.emplace_back(key);
    }
    return unused.size() < sweep_most;
  });
  // Their fences must stay behind whatever is granted under the same names later.
  std::uint64_t floor = 0;
  for (const auto& key : unused) {
    if (is_key_of(Kept::limit, key)) {
      transaction.erase(key);
      continue;
    }
    if (const auto state = decoded(*transaction.get(key))) {
      floor = std::max(floor, state->last_fence.number);
      for (const auto& waiter : state->waiters) bury(*directory_, waiter.party.session);
    }
    transaction.erase(key);
    transaction.erase(key_of_same(key, Kept::state, Kept::runs));
  }
  auto head = transaction.head();
  head.swept = moment.wall.count();
  head.fence_floor = std::max(head.fence_floor, floor);
  transaction.set_head(head);
}

asio::awaitable<void> LocalStore::started(const Claim& claim,
                                          const CommandProcess& process, Wakeup& wakeup) {
  // Not when it was granted: every system call there would delay the command. And not
  // when it has ended, for then the next in line waits.
  stop_waiting();
  waker_.prepare();
  const Turn turn = co_await take_turn(Gate::Access::write, wakeup);
  open_database(Database::Access::write);
  Transaction transaction(*database_, Database::Access::give_back);
  auto state = load_to_change(transaction, claim.lock);
  note_command(state, claim.token, process);
  store(transaction, claim.lock, state);
}

std::optional<StartNote> LocalStore::start_note(const Claim& claim) {
  if (!holder_) return std::nullopt;
  try {
    StartNote note;
    note.before_pid = start_line(claim.lock, *holder_);
    note.file = RunsLog(*directory_).open_for_note(note.before_pid);
    note.before_time = start_line_time;
    note.after = start_line_end;
    noted_start_ = true;
    return note;
  } catch (const Failure&) {
    return std::nullopt;  // as in log_ends()
  }
}

// Whether the files that we have open are still those that others would open.
bool LocalStore::in_place() const {
  struct stat opened {};
  struct stat named {};
  return directory_->is_in_place() && ::fstat(gate_->fd(), &opened) == 0 &&
         ::fstatat(directory_->fd(), "sessions", &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev &&
         (!database_ || database_->is_in_place(*directory_));
}

}  // namespace dlock::local

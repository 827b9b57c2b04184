#include "store/local/local_store.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "store/local/namespaces.hpp"
#include "store/local/state_folder.hpp"
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

// Whether a lock has no past that would have to be kept, and nobody who cares for it.
bool is_blank(const State& state) {
  return state.holders.empty() && state.waiters.empty() && state.dismissed.empty() &&
         state.runs.empty() && !state.last_run && !state.past.last;
}

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

// For a look; nothing is created. False if nobody ever used the store. Without folder_
// nobody has since the boot.
bool LocalStore::open_to_look() {
  open(Directory::Missing::accept);
  if (!gate_ || !gate_->exists()) return false;
  if (!folder_) folder_ = open_state_folder(*directory_);
  return true;
}

asio::awaitable<void> LocalStore::open_to_use(Wakeup& wakeup) {
  open(Directory::Missing::create);
  if (folder_) co_return;
  folder_ = open_state_folder(*directory_);
  if (folder_) co_return;
  const Turn turn = co_await take_turn(setup_gate, wakeup);
  folder_ = open_state_folder(*directory_);  // somebody may have been quicker
  if (!folder_) folder_ = make_state_folder(*directory_, *gate_);
}

// For changes to a lease that another process was granted. False, and nothing is created,
// if nobody has used the store since the boot.
bool LocalStore::open_what_is_there() {
  if (gate_ && !in_place()) close();
  if (gate_ && folder_) return true;
  if (!directory_) {
    directory_ = Directory::open(options_.path, ours_, Directory::Missing::accept);
    if (!directory_) return false;
  }
  folder_ = open_state_folder(*directory_);
  if (!folder_) return false;
  gate_.emplace(*directory_, true);
  return true;
}

// For the end of a run that is lost. False if there is no store any more, or none that
// may be used just now.
asio::awaitable<bool> LocalStore::open_to_record(Wakeup& wakeup) {
  try {
    if (gate_ && !in_place()) close();
    if (!directory_) {
      directory_ = Directory::open(options_.path, ours_, Directory::Missing::accept);
    }
    if (!directory_) co_return false;
    co_await open_to_use(wakeup);
    co_return true;
  } catch (const Failure&) {
    co_return false;
  }
}

// Lets go of files that somebody has removed or replaced.
void LocalStore::close() {
  stop_waiting();
  sessions_watcher_.reset();
  session_.reset();
  folder_.reset();
  gate_.reset();
  directory_.reset();
  was_replaced_ = false;
}

asio::awaitable<LocalStore::Turn> LocalStore::take_turn(GateByte byte, Wakeup& wakeup) {
  const auto start = Clock::now();
  nanoseconds pause = first_pause;
  // The holder usually is done before a sleep would be.
  for (int tries = 0; tries < 3; ++tries) {
    if (gate_->try_lock(byte)) co_return Turn(*gate_, byte);
    ::sched_yield();
  }
  while (!gate_->try_lock(byte)) {
    const auto waited = Clock::now() - start;
    if (wakeup.gives_up() && waited >= last_patience) {
      throw Failure(Failure::Kind::interrupted, "interrupted");
    }
    if (waited >= options_.timeout) {
      throw gate_shut(*gate_, byte, std::chrono::duration_cast<milliseconds>(waited));
    }
    co_await wakeup.wait_until(Clock::now() + pause);
    pause = std::min(pause * 2, longest_pause);
  }
  co_return Turn(*gate_, byte);
}

// Whether the files that we have open are still those that others would open.
bool LocalStore::in_place() const {
  return (folder_ ? folder_->is_in_place() : directory_->is_in_place()) &&
         gate_->is_in_place(*directory_);
}

void LocalStore::check_in_place() {
  if (in_place()) return;
  was_replaced_ = true;  // closed at the next ask: the gate is in use here
  throw Failure(Failure::Kind::unreachable,
                "the files in " + printable(options_.path) + " were replaced");
}

asio::awaitable<LocalStore::Change> LocalStore::begin_change(const LockName& lock,
                                                             Wakeup& wakeup) {
  const auto key = key_of(lock, Kept::lock);
  auto turn = co_await take_turn(key.gate, wakeup);
  auto file = file_to_change(key.file);
  auto state = state_in(file, lock);
  recall_commands(state, lock);
  std::optional<State> before;
  if (gate_->is_watched()) before = state;
  co_return Change{std::move(turn), std::move(file), std::move(state), std::move(before)};
}

// What there was a descriptor for at the grant must not lack one at the release: that of
// the waker is made anew when it is needed.
RecordFile LocalStore::file_to_change(const std::string& file) {
  try {
    return {*folder_, file, RecordFile::Access::write};
  } catch (const Failure& failure) {
    if (failure.kind() != Failure::Kind::exhausted || !waker_.let_go()) throw;
  }
  return {*folder_, file, RecordFile::Access::write};
}

// Whether anything had to be written.
bool LocalStore::commit(Change& change, const LockName& lock, const Cause& cause) {
  if (!change.file.exists() && is_blank(change.state)) return false;
  if (with_name(lock, encoded(change.state)) == change.file.payload()) return false;
  write(change.file, lock, change.state);
  if (change.before) {
    publish(*directory_, *gate_,
            events_between(*change.before, change.state, lock, cause, Moment::now()));
  }
  return true;
}

// Where a disk is full a file cannot grow, and yet a lock has to be given back. So there
// is room for that from the start, if it is to be had. In the end what can be missed
// makes room: past runs, which the log has, too; and what was to be told to those who
// need not run, who find the same run when they ask as if they were new.
void LocalStore::write(RecordFile& file, const LockName& lock, State& state) const {
  auto spare = room_for_ends(state);
  for (;;) {
    auto payload = with_name(lock, encoded(state));
    const bool has_room = file.has_room_for(payload.size() + spare);
    try {
      return file.write(std::move(payload), Moment::now(), spare);
    } catch (const Failure&) {
      const bool is_least = spare == 0 && state.runs.empty() && state.dismissed.empty();
      if (has_room || is_least) throw;
    }
    if (spare == 0) {
      state.runs.clear();
      state.dismissed.clear();
    }
    spare = 0;
  }
}

State LocalStore::state_in(const RecordFile& file, const LockName& lock) const {
  if (!file.exists()) return {};
  const auto named = named_in(file.payload());
  auto state = named && named->name == lock ? decoded(named->value) : std::nullopt;
  if (!state) {
    throw damaged(folder_->path_of(key_of(lock, Kept::lock).file),
                  "damaged (it is not the state of its lock)");
  }
  return std::move(*state);
}

// The first grant of a lock has to be beyond those that nobody remembers one by one.
void LocalStore::find_floor(State& state) {
  const auto head = head_of(*folder_);
  state.last_fence.number = head.fence_floor;
  note_sweep(head);
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

// Not under the gate, which whoever is woken takes at once.
void LocalStore::tell(const Consequences& consequences) {
  for (const auto session : consequences.wake) waker_.wake(*directory_, session);
  for (const auto session : consequences.dead) remove_wake_socket(*directory_, session);
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
    const Turn turn = co_await take_turn(upkeep_gate, wakeup);
    runs.shorten();
  } catch (const Failure&) {
  }
}

// Who we are does not change, and the kernel need not be asked again at every ask.
const Party& LocalStore::own_party(const Claim& claim) {
  if (party_.pid == 0) {
    party_.pid = ::getpid();
    party_.pid_namespace = own_namespaces().pids;
    party_.uid = ::geteuid();
    party_.host = host_name();
  }
  party_.token = claim.token;
  party_.session = session_of(claim.token);
  return party_;
}

asio::awaitable<Answer> LocalStore::ask(const Claim& claim, Queue queue, Wakeup& wakeup) {
  if (was_replaced_) close();
  // Before there is a session of ours: nobody makes the folder while there are any.
  co_await open_to_use(wakeup);
  // Before the state says that we live by it.
  if (!session_) session_.emplace(*directory_, session_of(claim.token));
  Claim kept = claim;
  kept.command = shortened_command(claim.command);
  const rules::Ask asked{kept, own_party(claim), queue};

  State state;
  Answer answer;
  Consequences consequences;
  Moment moment;
  {
    auto change = co_await begin_change(claim.lock, wakeup);
    check_in_place();
    if (!change.file.exists()) find_floor(change.state);
    if (change.state.last_fence >= greatest_fence) {
      throw Failure(Failure::Kind::misconfigured,
                    "the fences of this lock have come to their end in " +
                        printable(options_.path));
    }
    moment = Moment::now();
    answer = rules::ask(change.state, asked, moment, *gate_, consequences);
    for (const auto& run : consequences.vanished) note_past_run(change.state, run);
    // Nobody would know whose socket it is once the state knows of no session.
    if (!claim.attached && std::holds_alternative<Grant>(answer)) stop_waiting();
    commit(change, claim.lock);
    state = std::move(change.state);
  }
  if (auto* busy = std::get_if<Busy>(&answer)) {
    complete(busy->holders, state);
    if (busy->place > 0) {
      if (!processes_) processes_.emplace(context_, wakeup);
      follow(rules::waits_for(state, claim.token, moment));
      start_waiting(claim, wakeup);
    }
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
  const bool has_run = end && holder_ && holder_->party.token == claim.token;
  const bool is_lost = has_run && end->lost;
  // What others look at is where it is to be recorded.
  if (is_lost && !co_await open_to_record(wakeup)) co_return Release::not_ours;
  if (!gate_ || !folder_ || (claim.attached && !session_ && !is_lost)) {
    co_return Release::not_ours;
  }
  // What is held by files that nobody else would open keeps nobody out.
  if (has_run && !is_lost && !in_place()) co_return Release::gone;

  auto outcome = Release::not_ours;
  Consequences consequences;
  std::vector<RunInfo> ended;
  {
    auto change = co_await begin_change(claim.lock, wakeup);
    auto& state = change.state;
    if (has_run && !is_lost) {
      if (!in_place()) co_return Release::gone;
      if (const auto loss = loss_of(state, claim.token)) co_return release_telling(*loss);
    }
    if (is_lost && !change.file.exists()) find_floor(state);  // where it is recorded
    const auto moment = Moment::now();
    outcome = rules::release(state, claim.token, end, moment, *gate_, consequences);
    const bool was_ours = outcome == Release::released;
    if (is_lost && !was_ours) note_lost(state, *holder_, *end, moment);
    ended = std::move(consequences.vanished);
    if (end && (was_ours || is_lost)) ended.push_back(*state.last_run);
    for (const auto& run : ended) note_past_run(state, run);
    commit(change, claim.lock, {claim.token, end, {}});
    if (is_lost && !was_ours && change.before) {
      auto event = lost_event(*holder_, claim.lock, state, moment);
      event.run = *state.last_run;
      publish(*directory_, *gate_, {event});
    }
  }
  tell(consequences);
  if (outcome == Release::released && !end && noted_start_) {
    ended.push_back(run_that_was_none(*holder_));
  }
  co_await log_ends(claim.lock, ended, wakeup);
  holder_.reset();
  co_await drop_unused(wakeup);
  co_return outcome;
}

asio::awaitable<Renewal> LocalStore::renew(const Claim& claim, Wakeup& wakeup) {
  if (!open_what_is_there()) co_return Renewal::gone;
  auto outcome = Renewal::gone;
  Consequences consequences;
  {
    auto change = co_await begin_change(claim.lock, wakeup);
    outcome = rules::renew(change.state, claim.token, claim.ttl, Moment::now(), *gate_,
                           consequences);
    commit(change, claim.lock);
  }
  tell(consequences);
  co_return outcome;
}

asio::awaitable<void> LocalStore::started(const Claim& claim,
                                          const CommandProcess& process, Wakeup& wakeup) {
  // Not when it was granted: every system call there would delay the command. And not
  // when it has ended, for then the next in line waits.
  stop_waiting();
  {
    auto change = co_await begin_change(claim.lock, wakeup);
    note_command(change.state, claim.token, process);
    commit(change, claim.lock);
  }
  waker_.prepare();
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

}  // namespace dlock::local

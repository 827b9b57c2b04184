#include "store/local/files.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "store/local/text_files.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

// Pauses between attempts to lock a mutex, which is held for some 20 microseconds.
// Whoever has waited for long asks less often: else hundreds that ask keep its holder
// from running.
constexpr nanoseconds first_pause = std::chrono::microseconds(30);
nanoseconds longest_pause(nanoseconds waited) { return milliseconds(2) + waited / 8; }

// How long an interrupted process still tries, so that it leaves the queue by itself
// instead of being removed by others.
constexpr milliseconds last_patience{50};

// How often unused locks are searched for.
constexpr WallTime drop_unused_every = std::chrono::hours(24);

bool is_droppable(const AnsweredWaiter& answered) { return !answered.newer; }

}  // namespace

Files::Files(asio::io_context& context, std::string path, milliseconds timeout)
    : context_(context), path_(std::move(path)), timeout_(timeout), ours_(path_.empty()) {
  if (!ours_) return;
  const auto found = default_directory(surroundings());
  if (!found) {
    throw Failure::misconfigured(
        "no home directory for the locks; set HOME, or name a directory "
        "(--store local:/dir)");
  }
  path_ = *found;
}

void Files::open(Directory::Missing missing) {
  if (!directory_) {
    directory_ = Directory::open(path_, ours_, missing);
    if (!directory_) return;
  }
  if (!sessions_) sessions_.emplace(*directory_, missing == Directory::Missing::create);
}

bool Files::open_to_look() {
  open(Directory::Missing::accept);
  if (!sessions_ || !sessions_->exists()) return false;
  if (!folder_) folder_ = open_state_folder(*directory_);
  if (!folder_) refuse_if_used_elsewhere(*directory_, *sessions_);
  return true;
}

asio::awaitable<void> Files::open_to_use(Wakeup& wakeup) {
  open(Directory::Missing::create);
  if (folder_) co_return;
  folder_ = open_state_folder(*directory_);
  if (folder_) {
    keep_fresh(nullptr);
    co_return;
  }
  const MutexGuard guard = co_await lock_mutex(setup_mutex, wakeup);
  folder_ = open_state_folder(*directory_);  // another process may have been faster
  if (folder_) co_return;
  // A process of another epoch uses its own folder without setup_mutex.
  const MutexGuard all_locks = co_await lock_mutex(all_locks_mutex, wakeup);
  try {
    folder_ = make_state_folder(*directory_, *sessions_);
  } catch (const Transient&) {
    wake_all_waiters();  // they hold sessions without a state
    throw;
  }
}

bool Files::open_existing() {
  if (sessions_ && !in_place()) close();
  if (sessions_ && folder_) return true;
  if (!open_directory()) return false;
  folder_ = open_state_folder(*directory_);
  if (!folder_) return false;
  sessions_.emplace(*directory_, true);
  return true;
}

asio::awaitable<bool> Files::open_to_record(Wakeup& wakeup) {
  try {
    if (sessions_ && !in_place()) close();
    if (!open_directory()) co_return false;
    co_await open_to_use(wakeup);
    co_return true;
  } catch (const Failure&) {
    co_return false;
  }
}

void Files::close() {
  folder_.reset();
  sessions_.reset();
  directory_.reset();
  was_replaced_ = false;
}

asio::awaitable<MutexGuard> Files::lock_mutex(MutexByte byte, Wakeup& wakeup) {
  const auto start = Clock::now();
  nanoseconds pause = first_pause;
  // The holder is usually done before a sleep would end.
  for (int tries = 0; tries < 3; ++tries) {
    if (sessions_->try_lock(byte)) co_return MutexGuard(*sessions_, byte);
    ::sched_yield();
  }
  while (!sessions_->try_lock(byte)) {
    const auto waited = Clock::now() - start;
    if (wakeup.gives_up() && waited >= last_patience) {
      throw Failure::interrupted("interrupted");
    }
    if (waited >= timeout_) {
      throw mutex_unavailable(*sessions_, byte,
                              std::chrono::duration_cast<milliseconds>(waited));
    }
    co_await wakeup.wait_until(Clock::now() + pause);
    pause = std::min(pause * 2, longest_pause(waited));
  }
  co_return MutexGuard(*sessions_, byte);
}

bool Files::in_place() const {
  return (folder_ ? folder_->is_in_place() : directory_->is_in_place()) &&
         sessions_->is_in_place(*directory_);
}

void Files::check_in_place() {
  if (in_place()) return;
  was_replaced_ = true;  // closed at the next use: the mutex is held here
  throw Failure::unreachable("the files in " + printable(path_) + " were replaced");
}

Files::Change Files::begin(const LockName& lock, MutexGuard&& guard) {
  auto file = file_to_change(key_of(lock, StateKind::lock).file);
  auto state = state_in(file, lock);
  recall_holders(state, lock);
  std::optional<State> before;
  if (sessions_->is_watched()) before = state;
  return {std::move(guard), std::move(file), std::move(state), std::move(before)};
}

asio::awaitable<Files::Change> Files::begin_change(const LockName& lock, Wakeup& wakeup) {
  auto guard = co_await lock_mutex(key_of(lock, StateKind::lock).mutex, wakeup);
  co_return begin(lock, std::move(guard));
}

asio::awaitable<Files::Change> Files::begin_claim(const LockName& lock, Session own,
                                                  Wakeup& wakeup) {
  const auto key = key_of(lock, StateKind::lock);
  auto guard = co_await lock_mutex(key.mutex, wakeup);
  try {
    auto change = begin(lock, std::move(guard));  // which moves it at the end
    check_in_place();
    if (!change.file.exists() && sessions_->is_in_use(lock, own)) {
      wake_all_waiters();  // they may only be waiters
      throw Transient(Failure::Kind::unreachable,
                      printable(folder_->path_of(key.file)) +
                          " was removed while processes use the lock; stop those "
                          "processes first");
    }
    co_return change;
  } catch (const Damaged& damage) {
    check_in_place();
    if (sessions_->is_in_use(lock, own)) throw Transient(damage.kind(), damage.what());
    if (record::has_lease_by_hand(RunsLog(*directory_).text(), lock)) throw;
  }
  ::unlinkat(folder_->fd(), key.file.c_str(), 0);
  auto change = begin(lock, std::move(guard));
  change.state = state_from(RunsLog(*directory_).read(), lock);
  co_return change;
}

// A release must not fail for want of a descriptor that the grant had: the waker's is
// closed here and reopened when it is needed.
RecordFile Files::file_to_change(const std::string& file) {
  try {
    return {*folder_, file, RecordFile::Access::write};
  } catch (const Failure& failure) {
    if (failure.kind() != Failure::Kind::exhausted || !waker_.let_go()) throw;
  }
  return {*folder_, file, RecordFile::Access::write};
}

bool Files::commit(Change& change, const LockName& lock, const Cause& cause) {
  const auto& made = change.state;
  const bool is_blank = made.holders.empty() && made.waiters.empty() &&
                        made.answered.empty() && made.runs.empty() && !made.last_run &&
                        !made.past.last;
  if (!change.file.exists() && is_blank) return false;
  auto payload = with_name(lock, encoded(change.state));
  if (payload == change.file.payload()) return false;
  write(change.file, lock, change.state, std::move(payload));
  if (change.before) {
    publish(*directory_, *sessions_,
            events_between(*change.before, change.state, lock, cause, Moment::now()));
  }
  return true;
}

// On a full disk a file cannot grow, but a lock must still be released. The file
// therefore gets room for that from the start, if possible. As a last resort, dispensable
// data is dropped: past runs, which the log also has, and the results for deduplicated
// waiters, which find the same run when they ask as new claims. Results for superseded
// waiters are kept: as new claims they would be the newest.
void Files::write(RecordFile& file, const LockName& lock, State& state,
                  std::string payload) const {
  auto spare = room_for_ends(state);
  for (;;) {
    const bool has_room = file.has_room_for(payload.size() + spare);
    try {
      return file.write(payload, Moment::now(), spare);
    } catch (const Failure&) {
      const bool is_least = spare == 0 && state.runs.empty() &&
                            std::ranges::none_of(state.answered, is_droppable);
      if (has_room || is_least) throw;
    }
    if (spare == 0) {
      state.runs.clear();
      std::erase_if(state.answered, is_droppable);
      payload = with_name(lock, encoded(state));
    }
    spare = 0;
  }
}

asio::awaitable<void> Files::apply_fence_floor(State& state, Wakeup& wakeup) {
  const auto head = co_await sound_head(wakeup);
  state.last_fence.number = std::max(state.last_fence.number, head.fence_floor);
  note_sweep(head);
}

// What the state does not tell of a holder whose dlock has exited. A dlock that was
// killed right after it started its command could not store the pid; the command's
// process has written it to the log. One that could not change the state at its end has
// written that to the log.
void Files::recall_holders(State& state, const LockName& lock) const {
  for (auto& holder : state.holders) {
    if (holder.party.session == 0 || holder.party.token == own_token_) continue;
    const bool is_locked = sessions_->is_locked(holder.party.session);
    if (is_locked && (holder.command != 0 || !has_ended(holder.party.pid))) continue;
    const auto log = RunsLog(*directory_).text();
    if (!is_locked) holder.known_end = record::end_of(log, lock, holder.fence);
    const auto command = holder.command == 0 ? record::command_of(log, lock, holder.fence)
                                             : std::optional<record::LoggedCommand>();
    if (!command) continue;
    holder.command = command->pid;
    holder.command_after = holder.granted_at.time_since_epoch().count();
    holder.command_before = command->not_after.time_since_epoch().count();
  }
}

// Without the mutex, which a woken waiter locks at once.
void Files::notify(const Consequences& consequences) {
  for (const auto session : consequences.wake) waker_.wake(*directory_, session);
  for (const auto session : consequences.dead) remove_wake_socket(*directory_, session);
  // The rest can wait for them.
  if (!consequences.wake.empty()) ::sched_yield();
}

asio::awaitable<void> Files::log_ends(const LockName& lock,
                                      const std::vector<RunInfo>& runs, Wakeup& wakeup) {
  std::string lines;
  for (const auto& run : runs) lines += record::end_line(lock, run) + "\n";
  co_await log(lines, wakeup);
}

asio::awaitable<void> Files::log(const std::string& lines, Wakeup& wakeup) {
  if (lines.empty()) co_return;
  try {
    RunsLog runs(*directory_);
    if (runs.append(lines) == RunsLog::Length::usual) co_return;
    const MutexGuard guard = co_await lock_mutex(upkeep_mutex, wakeup);
    runs.shorten();
  } catch (const Failure&) {
  }
}

Files::Look Files::look_at(const LockName& lock) const {
  RecordFile file(*folder_, key_of(lock, StateKind::lock).file, RecordFile::Access::read);
  auto state = state_in(file, lock);
  recall_holders(state, lock);
  return {std::move(file), std::move(state)};
}

bool Files::open_directory() {
  if (!directory_) {
    directory_ = Directory::open(path_, ours_, Directory::Missing::accept);
  }
  return directory_.has_value();
}

void Files::keep_fresh(const RecordFile* file) const {
  static constexpr WallTime half_a_day = std::chrono::hours(12);
  const auto is_old = [](WallTime changed) { return wall_now() - changed > half_a_day; };
  if (file != nullptr && file->exists() && is_old(file->changed())) file->touch();
  struct stat status {};
  if (!is_old(sessions_->changed()) &&
      (file == nullptr || ::fstat(sessions_->fd(), &status) != 0 ||
       !is_old(WallTime(std::chrono::seconds(status.st_mtim.tv_sec))))) {
    return;
  }
  ::futimens(sessions_->fd(), nullptr);
  for (const char* name : {"fences", "runs.jsonl"}) {
    ::utimensat(directory_->fd(), name, nullptr, AT_SYMLINK_NOFOLLOW);
  }
  ::utimensat(folder_->fd(), head_file, nullptr, AT_SYMLINK_NOFOLLOW);
}

void Files::wake_all_waiters() {
  for (const auto& name : directory_->names()) {
    if (const auto session = session_of_wake_socket(name)) {
      waker_.wake(*directory_, *session);
    }
  }
}

asio::awaitable<FolderHead> Files::sound_head(Wakeup& wakeup) {
  try {
    co_return head_of(*folder_);
  } catch (const Damaged&) {
    // co_await is not allowed in a handler
  }
  const MutexGuard guard = co_await lock_mutex(upkeep_mutex, wakeup);
  co_return mend_head(*folder_, RunsLog(*directory_).read().greatest_fence);
}

void Files::note_sweep(const FolderHead& head) {
  is_sweep_due_ = wall_now() - WallTime(head.swept) > drop_unused_every;
}

// Once a day, by a process that has used a new lock or limit. Later grants of the same
// names need greater fences, so the floor is raised before the first file is removed.
asio::awaitable<void> Files::drop_unused(Wakeup& wakeup) {
  if (!std::exchange(is_sweep_due_, false)) co_return;
  try {
    FolderHead head;
    std::vector<std::string> unused;
    {
      const MutexGuard guard = co_await lock_mutex(upkeep_mutex, wakeup);
      // Another process may have done this while we waited, and raised the floor.
      head = head_of(*folder_);
      note_sweep(head);
      if (!std::exchange(is_sweep_due_, false)) co_return;
      unused = find_unused(*folder_, *sessions_, head);
      set_head(*folder_, head);
    }
    for (const auto& file : unused) {
      drop_if_unused(*directory_, *folder_, *sessions_, file, head.fence_floor);
    }
  } catch (const Failure&) {
    // Tried again by the next process that uses a new lock or limit.
  }
}

}  // namespace dlock::local

#include "store/local/local_values.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "rules/keeping.hpp"
#include "store/local/sessions.hpp"
#include "util/bits.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

constexpr std::string_view first_word = "dlock-value-1";

// Longer than any header line: two names of 255 bytes, percent-encoded, and some numbers.
constexpr std::size_t longest_line = 2048;

// The limit of --max-size; dlock writes no larger file.
constexpr off_t largest_file = (off_t{512} << 20) + off_t{longest_line};

constexpr std::string_view draft_prefix = "new-";

// No process writes to a draft for this long.
constexpr std::time_t draft_abandoned_after = 3600;

// The header line without its checksum.
std::string line_without_sum(const ValueHead& head) {
  std::string line(first_word);
  line += ' ' + head.boot;
  line += ' ' + std::to_string(head.fresh_until.time_since_epoch().count());
  line += ' ' + std::to_string(head.there_until.time_since_epoch().count());
  line += ' ' + percent_encoded(head.name.name_space);
  line += ' ' + percent_encoded(head.name.name);
  return line + ' ' + std::to_string(head.size) + ' ';
}

// The first line with its line break; empty if there is none.
std::string_view first_line(std::string_view text) {
  const auto end = text.substr(0, longest_line).find('\n');
  return end == std::string_view::npos ? "" : text.substr(0, end + 1);
}

std::string file_of(const LockName& name) {
  return checksum_text(checksum(name.name_space + '\0' + name.name));
}

constexpr const char* value_of_cache = "a cached value";

bool is_obsolete(const Directory& folder, const std::string& file,
                 const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return false;
  if (file.starts_with(draft_prefix)) {
    return std::time(nullptr) - status.st_mtime > draft_abandoned_after;
  }
  try {
    const Fd opened = folder.open_file(file, O_RDONLY, false);
    if (!opened) return false;
    const auto head =
        value_head_from(contents_of(opened.get(), longest_line, value_of_cache));
    return !head || head->boot != own_epoch() || head->there_until <= Clock::now();
  } catch (const Failure&) {
    return false;
  }
}

class LocalValues final : public ValueStore {
 public:
  explicit LocalValues(Files& files) : files_(files) {}

  // No mutex: a file is complete or does not exist.
  asio::awaitable<ValueLookup> get(const LockName& lock, std::size_t most,
                                   Wakeup&) override {
    if (!files_.open_directory()) co_return ValueLookup{};
    auto found = CacheFiles(files_.directory()).get(lock);
    if (found.value && found.value->bytes.size() > most) {
      co_return too_large(found.value->bytes.size(), most);
    }
    co_return found;
  }

  asio::awaitable<ValueLook> describe(const LockName& lock, Wakeup&) override {
    if (!files_.open_directory()) co_return ValueLook{};
    co_return CacheFiles(files_.directory()).look(lock);
  }

  asio::awaitable<Storing> put(const Claim& claim, const std::string& bytes,
                               Lifetime lifetime, Wakeup& wakeup) override {
    if (!files_.are_open() || !files_.in_place()) co_return Storing::not_ours;
    // Written before the mutex is locked, which must not be held during disk writes.
    auto draft = CacheFiles(files_.directory()).write(claim.lock, bytes, lifetime);
    const MutexGuard guard =
        co_await files_.lock_mutex(key_of(claim.lock, StateKind::lock).mutex, wakeup);
    auto state = files_.look_at(claim.lock).state;
    const auto own = rules::holder_of(state, claim.token);
    if (own == state.holders.end() || own->broken) co_return Storing::not_ours;
    draft.put_in_place();
    co_return Storing::stored;
  }

  asio::awaitable<void> forget(const LockName& lock, Wakeup&) override {
    if (files_.open_directory()) CacheFiles(files_.directory()).forget(lock);
    co_return;
  }

 private:
  Files& files_;
};

}  // namespace

std::string value_line(const ValueHead& head, std::string_view bytes) {
  const auto line = line_without_sum(head);
  return line + checksum_text(checksum(bytes, checksum(line))) + '\n';
}

std::optional<ValueHead> value_head_from(std::string_view text) {
  auto line = first_line(text);
  std::array<std::string_view, 8> words;
  for (auto& word : words) {
    const auto end = line.find_first_of(" \n");
    if (end == std::string_view::npos) return std::nullopt;
    word = line.substr(0, end);
    line.remove_prefix(end + 1);
  }
  ValueHead head;
  const auto fresh_until = number_in<std::int64_t>(words[2]);
  const auto there_until = number_in<std::int64_t>(words[3]);
  const auto name_space = percent_decoded(words[4]);
  const auto name = percent_decoded(words[5]);
  const auto size = number_in<std::size_t>(words[6]);
  if (words[0] != first_word || !line.empty() || !fresh_until || !there_until ||
      !name_space || !name || !size) {
    return std::nullopt;
  }
  head.boot = words[1];
  head.fresh_until = Clock::time_point(nanoseconds(*fresh_until));
  head.there_until = Clock::time_point(nanoseconds(*there_until));
  head.size = *size;
  head.name = {*name_space, *name};
  return head;
}

ValueLookup value_from(std::string text, const LockName& name, const std::string& boot,
                       Clock::time_point now) {
  ValueLookup found;
  const auto head = value_head_from(text);
  const auto line_size = first_line(text).size();
  const auto bytes = std::string_view(text).substr(line_size);
  if (!head || head->size != bytes.size() ||
      value_line(*head, bytes) != std::string_view(text).substr(0, line_size)) {
    found.damage = "is damaged";
    return found;
  }
  if (head->boot != boot || head->name != name || head->there_until <= now) return found;
  const bool is_fresh = head->fresh_until > now;
  text.erase(0, line_size);
  found.value = Value{std::move(text), is_fresh};
  return found;
}

// An open cache file whose header line is valid.
struct CacheFiles::Opened {
  Fd file;
  ValueHead head;
  struct stat status {};
};

// Nothing if the file does not exist, or is damaged; then `damage` says how.
std::optional<CacheFiles::Opened> CacheFiles::opened(const Directory& folder,
                                                     const std::string& file,
                                                     std::string& damage) {
  Opened opened{folder.open_file(file, O_RDONLY, false), {}, {}};
  if (!opened.file) return std::nullopt;
  const auto path = printable(folder.path_of(file));
  if (::fstat(opened.file.get(), &opened.status) != 0 ||
      opened.status.st_size > largest_file) {
    damage = path + " is not a dlock file";
    return std::nullopt;
  }
  // Before memory is allocated for the size that the header claims.
  const auto start = contents_of(opened.file.get(), longest_line, value_of_cache);
  auto head = value_head_from(start);
  const auto size = static_cast<std::uint64_t>(opened.status.st_size);
  if (!head || first_line(start).size() + head->size != size) {
    damage = path + " is damaged";
    return std::nullopt;
  }
  opened.head = std::move(*head);
  return opened;
}

// What `read` finds in the file for this name.
template <typename Found, typename Read>
Found CacheFiles::read_file(const LockName& name, Read read) const {
  const auto file_name = file_of(name);
  const auto folder = folder_of(file_name, Directory::Missing::accept);
  Found found;
  if (!folder) return found;
  try {
    const auto file = opened(*folder, file_name, found.damage);
    if (file) read(*file, printable(folder->path_of(file_name)), found);
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::exhausted) throw;
    found.damage = failure.what();
  }
  return found;
}

ValueLookup CacheFiles::get(const LockName& name) const {
  return read_file<ValueLookup>(
      name, [&](const Opened& file, const std::string& path, ValueLookup& found) {
        const auto size = static_cast<std::size_t>(file.status.st_size);
        found = value_from(contents_of(file.file.get(), size, value_of_cache), name,
                           own_epoch(), Clock::now());
        if (!found.damage.empty()) found.damage = path + " " + found.damage;
      });
}

ValueLook CacheFiles::look(const LockName& name) const {
  return read_file<ValueLook>(
      name, [&](const Opened& file, const std::string&, ValueLook& found) {
        const auto now = Clock::now();
        const auto& head = file.head;
        if (head.boot != own_epoch() || head.name != name || head.there_until <= now) {
          return;
        }
        const auto until = [&](Clock::time_point moment) {
          return std::chrono::ceil<milliseconds>(std::max(moment, now) - now);
        };
        // The file's modification time, which is wrong if the clock was set: only for
        // display.
        const auto& written = file.status.st_mtim;
        const auto age = wall_now() - std::chrono::seconds(written.tv_sec) -
                         std::chrono::floor<WallTime>(nanoseconds(written.tv_nsec));
        found.value = ValueInfo{
            head.size, std::chrono::floor<milliseconds>(std::max(age, WallTime(0))),
            until(head.fresh_until), until(head.there_until)};
      });
}

CacheFiles::Pending CacheFiles::write(const LockName& name, std::string_view bytes,
                                      Lifetime lifetime) const {
  const auto file = file_of(name);
  auto folder = *folder_of(file, Directory::Missing::create);
  // First: the space of the old files may be needed.
  auto leftovers = leftovers_in(folder);

  const auto now = Clock::now();
  const ValueHead head{own_epoch(), later(now, lifetime.ttl),
                       later(later(now, lifetime.ttl), lifetime.stale), name,
                       bytes.size()};
  const auto line = value_line(head, bytes);
  const auto random = random_bytes();
  Draft draft(folder, file, std::string(draft_prefix) + hex(random.data(), 8), O_WRONLY,
              "cannot write to " + printable(directory_.path_of("cache")));
  draft.write(line);
  draft.write(bytes);
  return {std::move(folder), std::move(draft), std::move(leftovers)};
}

void CacheFiles::Pending::put_in_place() {
  draft_.put_in_place();
  for (const auto& leftover : leftovers_) {
    struct stat status {};
    const bool is_there =
        ::fstatat(folder_.fd(), leftover.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
    // Unless another process has replaced it since.
    if (is_there && status.st_ino == leftover.inode) {
      ::unlinkat(folder_.fd(), leftover.name.c_str(), 0);
    }
  }
}

void CacheFiles::forget(const LockName& name) const {
  const auto file = file_of(name);
  const auto folder = folder_of(file, Directory::Missing::accept);
  if (folder && ::unlinkat(folder->fd(), file.c_str(), 0) != 0 && errno != ENOENT) {
    throw failure_of(errno, "cannot remove " + printable(folder->path_of(file)));
  }
}

// The directory of a file; nothing if it does not exist. There are 256 of them, so that
// each is small enough to be scanned at every write.
std::optional<Directory> CacheFiles::folder_of(const std::string& file,
                                               Directory::Missing missing) const {
  const auto cache = directory_.folder("cache", missing);
  return cache ? cache->folder(file.substr(file.size() - 2), missing) : std::nullopt;
}

// Expired values, values of earlier boots, and drafts of killed dlock processes.
std::vector<CacheFiles::Pending::Leftover> CacheFiles::leftovers_in(
    const Directory& folder) {
  std::vector<Pending::Leftover> leftovers;
  for (auto& file : folder.names()) {
    struct stat status {};
    if (::fstatat(folder.fd(), file.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        is_obsolete(folder, file, status)) {
      leftovers.push_back({std::move(file), status.st_ino});
    }
  }
  return leftovers;
}

std::unique_ptr<ValueStore> value_store_of(Files& files) {
  return std::make_unique<LocalValues>(files);
}

}  // namespace dlock::local

#include "store/local/database.hpp"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "lock/errors.hpp"
#include "store/local/boot_id.hpp"
#include "store/local/damage.hpp"
#include "store/local/map_faults.hpp"
#include "util/checksum.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

// Address space, not memory or disk: room for some hundred thousand locks.
constexpr std::size_t map_size = std::size_t{1} << 30;

// The file always ends this far behind the last page in use, on blocks that exist: so
// a release succeeds on a full disk, and a file shorter than its pages is a damaged
// one. No transaction uses nearly as much.
constexpr off_t room = 256 * 1024;
constexpr off_t growth = 1024 * 1024;
constexpr off_t last_room = 64 * 1024;

// The key of what is no lock; names have no control characters.
constexpr std::string_view head_key("\0head", 5);
constexpr std::uint64_t format = 0x34306b636f6c64u;  // "dlock04"

struct StoredHead {
  std::uint64_t format = dlock::local::format;
  DatabaseHead head;
};

Failure failure_from(int code, const std::string& path, const char* what) {
  if (code > 0) return failure_of(code, std::string(what) + " " + printable(path));
  if (code == MDB_MAP_FULL || code == MDB_TXN_FULL) {
    return Failure(Failure::Kind::unreachable, printable(path) + " is full");
  }
  return damaged(path, std::string("damaged (") + ::mdb_strerror(code) + ")");
}

void remove_those_of_earlier_boots(const Directory& directory) {
  const auto current = Database::file_name();
  for (const auto& name : entries_of(directory.pinned("."))) {
    const bool state = name.starts_with("state-") && name != current;
    const bool socket = name.starts_with("wake-");
    if (state || socket) ::unlinkat(directory.fd(), name.c_str(), 0);
  }
}

}  // namespace

const std::string& Database::file_name() {
  // A process sees one boot only.
  static const std::string name = "state-" + boot_id() + ".mdb";
  return name;
}

std::unique_ptr<Database> Database::open(const Directory& directory, Access access) {
  const auto name = file_name();
  const Fd file =
      directory.open_file(name, access == Access::read ? O_RDONLY : O_RDWR, false);
  if (!file) return nullptr;
  struct stat status {};
  ::fstat(file.get(), &status);
  check_length(file.get(), directory.path_of(name), status.st_size);
  std::unique_ptr<Database> database(new Database);
  database->device_ = status.st_dev;
  database->inode_ = status.st_ino;
  database->open_environment(directory, name, access);
  return database;
}

std::unique_ptr<Database> Database::create(
    const Directory& directory, const std::function<void(Transaction&)>& fill) {
  const auto name = file_name();
  // Under another name until it is complete: one who is killed half way leaves nothing
  // that looks like a database.
  const auto draft = name + ".new";
  ::unlinkat(directory.fd(), draft.c_str(), 0);
  try {
    std::unique_ptr<Database> database(new Database);
    database->open_environment(directory, draft, Access::write);
    ::fchmodat(directory.fd(), draft.c_str(), directory.file_mode(), 0);
    database->ensure_room(Access::write);
    Transaction transaction(*database, Access::write);
    transaction.set_head({});
    fill(transaction);
    transaction.commit();
  } catch (const Failure&) {
    ::unlinkat(directory.fd(), draft.c_str(), 0);
    throw;
  }
  if (::renameat(directory.fd(), draft.c_str(), directory.fd(), name.c_str()) != 0) {
    throw failure_of(errno, "cannot create " + printable(directory.path_of(name)));
  }
  remove_those_of_earlier_boots(directory);
  return open(directory, Access::write);
}

void Database::open_environment(const Directory& directory, const std::string& name,
                                Access access) {
  path_ = directory.path_of(name);
  const auto check = [&](int code) {
    if (code != MDB_SUCCESS) throw failure_from(code, path_, "cannot open");
  };
  check(::mdb_env_create(&environment_));
  check(::mdb_env_set_mapsize(environment_, map_size));
  const unsigned flags = MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC |
                         (access == Access::read ? unsigned{MDB_RDONLY} : 0u);
  check(::mdb_env_open(environment_, directory.pinned(name).c_str(), flags,
                       directory.file_mode()));
  check(
      ::mdb_env_set_assert(environment_, [](MDB_env*, const char*) { end_by_damage(); }));
  // LMDB forgets this for one of its two descriptors.
  int fd = -1;
  check(::mdb_env_get_fd(environment_, &fd));
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  say_when_the_map_breaks(path_);
}

Database::~Database() {
  if (environment_ != nullptr) ::mdb_env_close(environment_);
}

bool Database::is_in_place(const Directory& directory) const {
  struct stat status {};
  return ::fstatat(directory.fd(), file_name().c_str(), &status, AT_SYMLINK_NOFOLLOW) ==
             0 &&
         status.st_dev == device_ && status.st_ino == inode_;
}

void Database::ensure_room(Access access) {
  int fd = -1;
  ::mdb_env_get_fd(environment_, &fd);
  MDB_envinfo info{};
  ::mdb_env_info(environment_, &info);
  MDB_stat page{};
  ::mdb_env_stat(environment_, &page);
  const auto used = static_cast<off_t>((info.me_last_pgno + 1) * page.ms_psize);
  struct stat status {};
  if (::fstat(fd, &status) != 0 || status.st_size >= used + room) return;
  const off_t size = used + growth;
  if (::fallocate(fd, 0, 0, size) == 0) return;
  const int error = errno;
  // Not every file system can reserve blocks; the length is what must be there.
  if (error == EOPNOTSUPP && ::ftruncate(fd, size) == 0) return;
  // A full disk: what is set aside is for giving back, and lasts for some changes.
  if (access == Access::give_back && status.st_size >= used + last_room) return;
  throw failure_of(error, "cannot extend " + printable(path_));
}

Transaction::Transaction(Database& database, Database::Access access)
    : database_(database) {
  const bool write = access != Database::Access::read;
  if (write) database.ensure_room(access);
  const int code = ::mdb_txn_begin(database.environment_, nullptr, write ? 0 : MDB_RDONLY,
                                   &transaction_);
  if (code != MDB_SUCCESS) fail(code, "cannot read");
  if (const int opened = ::mdb_dbi_open(transaction_, nullptr, 0, &database.handle_);
      opened != MDB_SUCCESS) {
    ::mdb_txn_abort(transaction_);
    transaction_ = nullptr;
    fail(opened, "cannot read");
  }
}

Transaction::~Transaction() {
  if (transaction_ != nullptr) ::mdb_txn_abort(transaction_);
}

namespace {

// LMDB's values have no const; it does not write through these.
MDB_val value_of(std::string_view bytes) {
  return {bytes.size(), const_cast<char*>(bytes.data())};
}

std::string_view bytes_of(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

}  // namespace

DatabaseHead Transaction::head() {
  const auto stored = find(head_key);
  StoredHead head;
  if (!stored || stored->size() != sizeof head) {
    throw damaged(database_.path_, "not a database of dlock's");
  }
  std::memcpy(&head, stored->data(), sizeof head);
  if (head.format != format) {
    throw damaged(database_.path_, "written by another version of dlock");
  }
  return head.head;
}

void Transaction::set_head(const DatabaseHead& head) {
  const StoredHead stored{format, head};
  char bytes[sizeof stored];
  std::memcpy(bytes, &stored, sizeof stored);
  write(head_key, std::string_view(bytes, sizeof bytes));
}

std::optional<std::string_view> Transaction::find(std::string_view key) {
  MDB_val name = value_of(key);
  MDB_val value{};
  const int code = ::mdb_get(transaction_, database_.handle_, &name, &value);
  if (code == MDB_NOTFOUND) return std::nullopt;
  if (code != MDB_SUCCESS) fail(code, "cannot read");
  return bytes_of(value);
}

void Transaction::write(std::string_view key, std::string_view value) {
  MDB_val name = value_of(key);
  MDB_val bytes = value_of(value);
  const int code = ::mdb_put(transaction_, database_.handle_, &name, &bytes, 0);
  if (code != MDB_SUCCESS) fail(code, "cannot write to");
}

std::optional<std::string_view> Transaction::get(std::string_view key) {
  const auto value = find(key);
  if (!value) check_keys();
  return value;
}

// The exclusive or of all names' checksums tells whether one is missing or was changed.
void Transaction::check_keys() {
  std::uint64_t keys = 0;
  each("", [&](std::string_view key, std::string_view) {
    keys ^= checksum(key);
    return true;
  });
  if (keys != head().keys) throw damaged(database_.path_, "damaged (a name is missing)");
}

void Transaction::put(std::string_view key, std::string_view value) {
  if (!find(key)) {
    auto changed = head();
    changed.keys ^= checksum(key);
    set_head(changed);
  }
  write(key, value);
}

void Transaction::erase(std::string_view key) {
  if (!find(key)) return;
  auto changed = head();
  changed.keys ^= checksum(key);
  set_head(changed);
  MDB_val name = value_of(key);
  const int code = ::mdb_del(transaction_, database_.handle_, &name, nullptr);
  if (code != MDB_SUCCESS) fail(code, "cannot write to");
}

void Transaction::each(
    std::string_view prefix,
    const std::function<bool(std::string_view, std::string_view)>& visit) {
  MDB_cursor* opened = nullptr;
  if (const int code = ::mdb_cursor_open(transaction_, database_.handle_, &opened);
      code != MDB_SUCCESS) {
    fail(code, "cannot read");
  }
  const std::unique_ptr<MDB_cursor, decltype(&::mdb_cursor_close)> cursor(
      opened, &::mdb_cursor_close);
  MDB_val key = value_of(prefix);
  MDB_val value{};
  // An empty key is an error to LMDB.
  int code = ::mdb_cursor_get(cursor.get(), &key, &value,
                              prefix.empty() ? MDB_FIRST : MDB_SET_RANGE);
  while (code == MDB_SUCCESS && bytes_of(key).starts_with(prefix)) {
    if (bytes_of(key) != head_key && !visit(bytes_of(key), bytes_of(value))) return;
    code = ::mdb_cursor_get(cursor.get(), &key, &value, MDB_NEXT);
  }
  if (code != MDB_SUCCESS && code != MDB_NOTFOUND) fail(code, "cannot read");
}

void Transaction::commit() {
  const int code = ::mdb_txn_commit(std::exchange(transaction_, nullptr));
  if (code != MDB_SUCCESS) fail(code, "cannot write to");
}

void Transaction::fail(int code, const char* what) const {
  database_.has_failed_ = true;
  throw failure_from(code, database_.path_, what);
}

}  // namespace dlock::local

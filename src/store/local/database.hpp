// The embedded database: names to states, in LMDB, for one boot of the machine.
//
// The file is named after the boot and never synced: no lease outlives a reboot. Its
// transactions are under the caller's gate, since LMDB's own mutexes wait without end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/local/directory.hpp"
#include "store/local/map_faults.hpp"

struct MDB_env;
struct MDB_txn;

namespace dlock::local {

// What the database knows besides locks.
struct DatabaseHead {
  std::uint64_t fence_floor = 0;  // every fence is greater: fences of earlier boots
  std::int64_t swept = 0;         // wall clock, microseconds: when unused locks went
  std::uint64_t keys = 0;         // of all names there are: see Transaction::get
};

class Transaction;

// All failures are Failure: `misconfigured` with the file's name for a truncated,
// damaged or foreign one, `unreachable` for a full disk.
class Database {
 public:
  // `give_back` writes too, and may use up the room that is set aside for it.
  enum class Access { read, write, give_back };

  // The file of this boot, "state-<boot id>.mdb".
  static const std::string& file_name();

  // Opens it; under the gate. Nothing if there is none.
  static std::unique_ptr<Database> open(const Directory& directory, Access access);

  // Makes it, whole or not at all, with what `fill` puts into it; under the gate for
  // writing, and only if there is none. Databases of earlier boots are removed.
  static std::unique_ptr<Database> create(const Directory& directory,
                                          const std::function<void(Transaction&)>& fill);

  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Whether a change failed half way. Nothing is lost, but it has to be opened again.
  bool has_failed() const { return has_failed_; }

  // Whether the directory's file is still this one.
  bool is_in_place(const Directory& directory) const;

 private:
  friend class Transaction;
  Database() = default;
  void open_environment(const Directory& directory, const std::string& name,
                        Access access);
  void ensure_room(Access access);

  MDB_env* environment_ = nullptr;
  unsigned handle_ = 0;
  std::string path_;  // for messages
  bool has_failed_ = false;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
};

// One atomic change or one consistent look, under the gate. Undone unless committed.
class Transaction {
 public:
  Transaction(Database& database, Database::Access access);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  DatabaseHead head();
  void set_head(const DatabaseHead& head);

  // Valid until the next change. That a name is not there is believed only if all that
  // are there add up: a damaged name would free the lock that it belongs to.
  std::optional<std::string_view> get(std::string_view key);
  // The same for what does no harm if it is missing, and without the look at all names.
  std::optional<std::string_view> find(std::string_view key);
  void put(std::string_view key, std::string_view value);
  void erase(std::string_view key);

  // Every lock whose key begins with `prefix`, in order, until `visit` says false.
  void each(
      std::string_view prefix,
      const std::function<bool(std::string_view key, std::string_view value)>& visit);

  void commit();

  // Throws Failure unless all names add up.
  void check_keys();

 private:
  void write(std::string_view key, std::string_view value);
  [[noreturn]] void fail(int code, const char* what) const;

  LmdbAtWork at_work_;
  Database& database_;
  MDB_txn* transaction_ = nullptr;
};

}  // namespace dlock::local

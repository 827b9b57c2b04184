// The messages of PostgreSQL's protocol (version 3), from and to bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dlock::postgres {

// A statement with its parameters ($1, …) in text format; nothing is NULL. See in_full().
struct Statement {
  std::string sql;
  std::vector<std::optional<std::string>> params;
  // If so are all behind it in the batch: an error is a result without a tag, and no
  // failure; the others have no result then.
  bool may_fail = false;
  // What the server keeps it under until the session ends; empty: it does not. If it
  // `is_kept` already, only the parameters are sent.
  std::string name{};
  bool is_kept = false;
  // Its result, if it succeeds, is left out.
  bool is_guard = false;
};

// Up to one Sync: an implicit transaction, unless it begins one.
using Batch = std::vector<Statement>;

// One batch; GCC 12 cannot handle an initializer list in an awaited call.
inline std::vector<Batch> alone(Batch batch) { return std::vector<Batch>(1, batch); }
inline std::vector<Batch> alone(Statement statement) {
  return alone(Batch(1, std::move(statement)));
}

using Row = std::vector<std::optional<std::string>>;

// What the server says in a NoticeResponse or an ErrorResponse, as it says it.
struct Notice {
  std::string severity;  // not translated: WARNING, ERROR, FATAL
  std::string code;      // SQLSTATE
  std::string message;

  // Whether the server ends the session with it.
  bool is_fatal() const { return severity == "FATAL" || severity == "PANIC"; }
};

// Of one statement.
struct Result {
  std::string tag;  // "UPDATE 1"
  std::vector<Row> rows;
  // Those by which the server says that a commit is less than was asked for (classes 01
  // and 57), even if they came before this statement.
  std::vector<Notice> warnings;
};

struct Notification {
  std::string channel;
  std::string payload;
};

struct WireLimits {
  std::size_t message = 1u << 20;
  std::size_t reply = 32u << 20;  // all rows of an exchange, as they are in memory
  std::size_t rows = 10'000;      // of a statement; no question has more
  std::size_t columns = 64;
  std::size_t notifications = 10'000;  // that were not taken
  std::size_t notification = 8192;     // servers send 8,000 bytes, and the channel
  std::size_t notices = 100;           // that an exchange keeps
  std::size_t notice = 1000;           // what it keeps of one
};

// Requests before the login.
std::string startup_message(
    const std::vector<std::pair<std::string, std::string>>& parameters);
std::string tls_request();
// `key`: the body of BackendKeyData.
std::string cancel_request(std::string_view key);

std::string encoded_message(char type, std::string_view body);

// SQL as it is sent: with `pg_catalog.` for each `pg.`, and `OPERATOR(pg_catalog.=)` for
// `OP(=)`. Another `search_path` could have functions and operators of the same name.
std::string in_full(std::string sql);

// The statements, each with Parse (unless it is kept), Bind and Execute, and a Sync
// behind them.
std::string encoded_batch(const Batch& batch);
std::string encoded_batches(const std::vector<Batch>& batches);

// Ends a session in good order.
std::string terminate_message();

// What is sent as application_name: `text` in printable ASCII, cut to the 63 bytes that
// the server keeps.
std::string application_name_from(std::string_view text);

struct WireMessage {
  char type = 0;
  std::string body;
};

// Cuts what a server sends into messages.
class WireReader {
 public:
  explicit WireReader(std::size_t longest = WireLimits().message) : longest_(longest) {}

  void feed(std::string_view bytes);

  // The next complete message. Nothing if there is none, and for good once the bytes are
  // no message that a server sends to this program; see error().
  std::optional<WireMessage> next();

  bool is_empty() const { return at_ == buffer_.size(); }

  // What is wrong, for a message; empty if nothing is.
  const std::string& error() const { return error_; }

 private:
  std::size_t longest_;
  std::string buffer_;
  std::size_t at_ = 0;  // what comes before it has been read
  std::string error_;
};

// The fields of an ErrorResponse or NoticeResponse; nothing if it is malformed.
std::optional<Notice> notice_from(std::string_view body);

// The name and the value of a ParameterStatus; nothing if it is malformed.
std::optional<std::pair<std::string, std::string>> parameter_from(std::string_view body);

// Puts together the replies to batches, message by message.
class BatchReplies {
 public:
  explicit BatchReplies(WireLimits limits = {}) : limits_(limits) {}

  // Begins the replies to these batches.
  void expect(const std::vector<Batch>& batches);
  // The same for batches behind those whose replies have not all come.
  void expect_also(const std::vector<Batch>& batches);

  // Takes the next message of the session, also one between two exchanges. False if it
  // makes no sense at this place; see error().
  bool take(const WireMessage& message);

  bool is_complete() const { return batch_ == expected_.size(); }
  // Of the statements that succeeded, in order.
  std::vector<Result> take_results() { return std::exchange(results_, {}); }
  // The first error since expect(), and in which batch; a fatal one comes first.
  const std::optional<Notice>& fault() const { return fault_; }
  std::size_t faulty_batch() const { return faulty_batch_; }
  // I: outside of a transaction, T: in one, E: in one that has failed.
  char transaction() const { return transaction_; }

  std::optional<Notification> next_notification();
  // Changed parameters since the last call.
  std::vector<std::pair<std::string, std::string>> take_parameters() {
    return std::exchange(parameters_, {});
  }

  const std::string& error() const { return error_; }

 private:
  enum class Stage { parsed, bound, rows };

  bool fail(const std::string& why);
  bool take_unasked(const WireMessage& message);
  bool take_row(std::string_view body);
  bool take_end(std::string_view tag);
  bool take_fault(std::string_view body);
  bool take_notice(std::string_view body);
  bool take_notification(std::string_view body);
  bool take_ready(std::string_view body);

  WireLimits limits_;
  struct Expected {
    bool is_kept;
    bool is_guard;
    bool is_commit;
  };
  std::vector<std::vector<Expected>> expected_;  // of each batch, its statements
  std::vector<bool> is_within_;                  // behind each batch, in a transaction
  std::vector<std::size_t> may_fail_from_;       // the statement of each
  std::size_t batch_ = 0;
  std::size_t statement_ = 0;  // in the batch
  Stage stage_ = Stage::parsed;
  bool has_failed_ = false;  // the batch
  std::size_t bytes_ = 0;    // of the rows
  std::size_t notices_ = 0;
  Result result_;  // of the statement in progress
  std::vector<Result> results_;
  std::optional<Notice> fault_;
  std::size_t faulty_batch_ = 0;
  char transaction_ = 'I';
  std::deque<Notification> notifications_;
  std::vector<std::pair<std::string, std::string>> parameters_;
  std::string error_;
};

}  // namespace dlock::postgres

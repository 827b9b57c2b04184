#include "store/postgres/pg_wire.hpp"

#include <algorithm>
#include <utility>

#include "util/text.hpp"

namespace dlock::postgres {
namespace {

constexpr std::uint32_t protocol_3_0 = 3u << 16;
constexpr std::uint32_t tls_code = 80877103;
constexpr std::uint32_t cancel_code = 80877102;

constexpr std::size_t header_size = 5;  // the type, and a length that counts itself
constexpr std::size_t length_size = 4;

// What a server sends to a client that asks for nothing else: no COPY, no description.
constexpr std::string_view known_types = "RKSZNEA12CDI";

void put_32(std::string& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    to += static_cast<char>(static_cast<unsigned char>(value >> shift));
  }
}

void put_16(std::string& to, std::size_t value) {
  to += static_cast<char>(static_cast<unsigned char>(value >> 8));
  to += static_cast<char>(static_cast<unsigned char>(value));
}

// Up to a NUL, which nothing that is sent contains.
void put_text(std::string& to, std::string_view text) {
  to += text.substr(0, text.find('\0'));
  to += '\0';
}

std::string with_length(std::string_view body) {
  std::string bytes;
  put_32(bytes, static_cast<std::uint32_t>(body.size() + length_size));
  bytes += body;
  return bytes;
}

std::uint32_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + size; ++i) {
    value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

// Takes numbers and texts from the front of a message.
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : rest_(body) {}

  std::optional<std::uint32_t> number(std::size_t size) {
    if (rest_.size() < size) return std::nullopt;
    const auto value = number_at(rest_, 0, size);
    rest_.remove_prefix(size);
    return value;
  }

  std::optional<std::string_view> bytes(std::size_t size) {
    if (rest_.size() < size) return std::nullopt;
    const auto taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  // Up to its NUL.
  std::optional<std::string_view> text() {
    const auto end = rest_.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    const auto taken = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return taken;
  }

  bool is_at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

void put_statement(std::string& to, const Statement& statement) {
  std::string parse;
  put_text(parse, statement.name);
  put_text(parse, in_full(statement.sql));
  put_16(parse, 0);  // the server finds the types
  if (!statement.is_kept) to += encoded_message('P', parse);

  std::string bind(1, '\0');  // the unnamed portal
  put_text(bind, statement.name);
  put_16(bind, 0);  // all parameters are text
  put_16(bind, statement.params.size());
  for (const auto& param : statement.params) {
    put_32(bind, param ? static_cast<std::uint32_t>(param->size()) : UINT32_MAX);
    if (param) bind += *param;
  }
  put_16(bind, 0);  // all columns are text
  to += encoded_message('B', bind);

  to += encoded_message('E', std::string(5, '\0'));  // the unnamed portal, all rows
}

}  // namespace

std::string startup_message(
    const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::string body;
  put_32(body, protocol_3_0);
  for (const auto& [name, value] : parameters) {
    put_text(body, name);
    put_text(body, value);
  }
  body += '\0';
  return with_length(body);
}

std::string tls_request() {
  std::string body;
  put_32(body, tls_code);
  return with_length(body);
}

std::string cancel_request(std::string_view key) {
  std::string body;
  put_32(body, cancel_code);
  body += key;
  return with_length(body);
}

std::string encoded_message(char type, std::string_view body) {
  return type + with_length(body);
}

std::string in_full(std::string sql) {
  return replaced(replaced(std::move(sql), "pg.", "pg_catalog."), "OP(",
                  "OPERATOR(pg_catalog.");
}

std::string encoded_batch(const Batch& batch) {
  std::string bytes;
  for (const auto& statement : batch) put_statement(bytes, statement);
  return bytes + encoded_message('S', "");
}

std::string encoded_batches(const std::vector<Batch>& batches) {
  std::string bytes;
  for (const auto& batch : batches) bytes += encoded_batch(batch);
  return bytes;
}

std::string terminate_message() { return encoded_message('X', ""); }

std::string application_name_from(std::string_view text) {
  constexpr std::size_t longest = 63;
  std::string name(text.substr(0, longest));
  std::ranges::replace_if(
      name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

void WireReader::feed(std::string_view bytes) {
  if (!error_.empty()) return;
  buffer_.erase(0, at_);
  at_ = 0;
  buffer_ += bytes;
}

std::optional<WireMessage> WireReader::next() {
  const auto rest = std::string_view(buffer_).substr(at_);
  if (!error_.empty() || rest.empty()) return std::nullopt;
  if (known_types.find(rest[0]) == std::string_view::npos) {
    error_ = "a message of an unknown type";
    return std::nullopt;
  }
  if (rest.size() < header_size) return std::nullopt;
  const std::size_t length = number_at(rest, 1, length_size);
  if (length < length_size) error_ = "a message with an invalid length";
  if (length - length_size > longest_) error_ = "a message that is too long";
  if (!error_.empty() || rest.size() < length + 1) return std::nullopt;
  at_ += length + 1;
  return WireMessage{rest[0],
                     std::string(rest.substr(header_size, length - length_size))};
}

std::optional<Notice> notice_from(std::string_view body) {
  Notice notice;
  std::string translated;
  BodyReader reader(body);
  for (;;) {
    const auto type = reader.number(1);
    if (!type) return std::nullopt;
    if (*type == 0) break;
    const auto text = reader.text();
    if (!text) return std::nullopt;
    switch (static_cast<char>(*type)) {
      case 'S': translated = *text; break;
      case 'V': notice.severity = *text; break;
      case 'C': notice.code = *text; break;
      case 'M': notice.message = *text; break;
      default: break;
    }
  }
  if (notice.severity.empty()) notice.severity = translated;  // before version 9.6
  return notice;
}

std::optional<std::pair<std::string, std::string>> parameter_from(std::string_view body) {
  BodyReader reader(body);
  const auto name = reader.text();
  const auto value = reader.text();
  if (!name || !value || !reader.is_at_end()) return std::nullopt;
  return std::pair(std::string(*name), std::string(*value));
}

void BatchReplies::expect(const std::vector<Batch>& batches) {
  expected_.clear();
  is_within_.clear();
  may_fail_from_.clear();
  expect_also(batches);
  batch_ = statement_ = bytes_ = notices_ = 0;
  stage_ = Stage::parsed;
  has_failed_ = false;
  result_ = {};
  results_.clear();
  fault_.reset();
}

void BatchReplies::expect_also(const std::vector<Batch>& batches) {
  bool is_within = is_within_.empty() ? transaction_ == 'T' : is_within_.back();
  for (const auto& batch : batches) {
    auto& expected = expected_.emplace_back();
    for (const auto& statement : batch) {
      const bool is_commit = statement.sql == "COMMIT";
      const bool ends = is_commit || statement.sql == "ROLLBACK";
      is_within = !ends && (is_within || statement.sql.starts_with("BEGIN"));
      expected.push_back({statement.is_kept, statement.is_guard, is_commit});
    }
    is_within_.push_back(is_within);
    auto from = batch.size();
    while (from > 0 && batch[from - 1].may_fail) --from;
    may_fail_from_.push_back(from);
  }
}

bool BatchReplies::fail(const std::string& why) {
  error_ = why;
  return false;
}

bool BatchReplies::take(const WireMessage& message) {
  if (!error_.empty()) return false;
  if (take_unasked(message)) return error_.empty();
  if (is_complete()) return fail("a reply without a request");
  if (message.type == 'Z') return take_ready(message.body);
  if (has_failed_ || statement_ == expected_[batch_].size()) {
    return fail("a reply without a request");
  }
  const auto stage = stage_;
  const auto before_bound =
      expected_[batch_][statement_].is_kept ? Stage::parsed : Stage::bound;
  switch (message.type) {
    case '1':
      stage_ = Stage::bound;
      return stage < before_bound || fail("replies in the wrong order");
    case '2':
      stage_ = Stage::rows;
      return stage == before_bound || fail("replies in the wrong order");
    case 'D': return take_row(message.body);
    case 'C':
    case 'I': return take_end(message.body);
    default: return fail("a message at the wrong place");
  }
}

// Whether the message is one that may come at any time.
bool BatchReplies::take_unasked(const WireMessage& message) {
  switch (message.type) {
    case 'A': take_notification(message.body); return true;
    case 'N': take_notice(message.body); return true;
    case 'E': take_fault(message.body); return true;
    case 'S':
      if (auto parameter = parameter_from(message.body)) {
        // A server that repeats them without end is not remembered.
        if (parameters_.size() < limits_.notices) {
          parameters_.push_back(std::move(*parameter));
        }
      } else {
        fail("a malformed parameter");
      }
      return true;
    default: return false;
  }
}

bool BatchReplies::take_row(std::string_view body) {
  if (stage_ != Stage::rows) return fail("a row without a request");
  BodyReader reader(body);
  const auto columns = reader.number(2);
  if (!columns || *columns > limits_.columns) return fail("a row of too many columns");
  bytes_ += body.size() + sizeof(Row) + *columns * sizeof(Row::value_type);
  const bool is_too_long = bytes_ > limits_.reply || result_.rows.size() >= limits_.rows;
  if (is_too_long) return fail("a reply that is too long");
  auto& row = result_.rows.emplace_back();
  row.reserve(*columns);
  for (std::uint32_t i = 0; i < *columns; ++i) {
    const auto size = reader.number(4);
    if (!size) return fail("a malformed row");
    if (*size == UINT32_MAX) {
      row.emplace_back();
      continue;
    }
    const auto value = reader.bytes(*size);
    if (!value) return fail("a malformed row");
    row.emplace_back(std::string(*value));
  }
  return reader.is_at_end() || fail("a malformed row");
}

bool BatchReplies::take_end(std::string_view tag) {
  constexpr std::size_t longest = 64;
  if (stage_ != Stage::rows) return fail("replies in the wrong order");
  result_.tag = tag.substr(0, std::min(tag.find('\0'), longest));
  auto result = std::exchange(result_, {});
  if (expected_[batch_][statement_].is_commit && result.tag != "COMMIT") {
    return fail("a commit that was none");
  }
  if (!expected_[batch_][statement_].is_guard) results_.push_back(std::move(result));
  ++statement_;
  stage_ = Stage::parsed;
  return true;
}

bool BatchReplies::take_fault(std::string_view body) {
  auto fault = notice_from(body);
  if (!fault) return fail("a malformed error");
  const bool is_fatal = fault->is_fatal();
  if (!is_fatal && (is_complete() || has_failed_)) {
    return fail("an error without a request");
  }
  has_failed_ = true;
  result_ = {};
  // The error of a commit comes behind the result of the last statement.
  const bool is_of_commit = !is_complete() && statement_ == expected_[batch_].size();
  const auto failed = is_of_commit ? 0 : statement_;
  if (!is_fatal && failed >= may_fail_from_[batch_]) {
    if (is_of_commit) results_.pop_back();
    results_.emplace_back();
  } else if (!fault_ || (is_fatal && !fault_->is_fatal())) {
    fault_ = std::move(*fault);
    faulty_batch_ = batch_;
  }
  return true;
}

bool BatchReplies::take_notice(std::string_view body) {
  auto notice = notice_from(body);
  if (!notice) return fail("a malformed notice");
  const bool is_wanted = !is_complete() && (notice->code.starts_with("01") ||
                                            notice->code.starts_with("57"));
  if (is_wanted && notices_++ < limits_.notices) {
    notice->message.resize(std::min(notice->message.size(), limits_.notice));
    result_.warnings.push_back(std::move(*notice));
  }
  return true;
}

bool BatchReplies::take_notification(std::string_view body) {
  BodyReader reader(body);
  const auto pid = reader.number(4);
  const auto channel = reader.text();
  const auto payload = reader.text();
  if (!pid || !channel || !payload || !reader.is_at_end()) {
    return fail("a malformed notification");
  }
  if (body.size() > limits_.notification) return fail("a notification that is too long");
  // Anyone can send them, so too many are no reason to end the session. They are hints:
  // whoever has not taken the others will look anyway.
  if (notifications_.size() >= limits_.notifications) return true;
  notifications_.push_back({std::string(*channel), std::string(*payload)});
  return true;
}

bool BatchReplies::take_ready(std::string_view body) {
  constexpr std::string_view states = "ITE";
  if (body.size() != 1 || states.find(body[0]) == std::string_view::npos) {
    return fail("a malformed end of a reply");
  }
  if (!has_failed_ && statement_ != expected_[batch_].size())
    return fail("missing replies");
  // A failed batch may have ended it or not; a failed commit has.
  const bool is_possible =
      has_failed_ ? body[0] != 'T' : body[0] == (is_within_[batch_] ? 'T' : 'I');
  if (!is_possible) return fail("a transaction that was not asked for");
  // A commit without BEGIN happens at the Sync, behind the last statement.
  if (!result_.warnings.empty() && !results_.empty() && statement_ != 0) {
    auto& last = results_.back().warnings;
    last.insert(last.end(), result_.warnings.begin(), result_.warnings.end());
  }
  result_ = {};
  transaction_ = body[0];
  has_failed_ = false;
  stage_ = Stage::parsed;
  statement_ = 0;
  ++batch_;
  return true;
}

std::optional<Notification> BatchReplies::next_notification() {
  if (notifications_.empty()) return std::nullopt;
  auto notification = std::move(notifications_.front());
  notifications_.pop_front();
  return notification;
}

}  // namespace dlock::postgres

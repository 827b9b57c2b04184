#include "store/postgres/pg_connection.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "net/budget.hpp"
#include "net/net_failures.hpp"
#include "net/stream.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// A server that never stops sending must not delay signals and deadlines.
constexpr int reads_in_a_row = 64;

// Of the first reply: enough to tell another kind of server.
constexpr std::size_t longest_greeting = 16;

// What a server has no room for now, or is not ready for.
std::optional<net::Refusal::Reason> refusal_of(const Notice& error) {
  using Reason = net::Refusal::Reason;
  if (error.code == "53300") return Reason::overloaded;       // too many connections
  if (error.code.starts_with("57P0")) return Reason::absent;  // it starts or ends
  return std::nullopt;
}

}  // namespace

// The socket and codec of an open connection, and the state of the exchange in progress.
class PgConnection::Link {
 public:
  Link(asio::io_context& context, PgTarget target)
      : context_(context), target_(std::move(target)), shown_(target_.shown()) {}

  const std::string& shown() const { return shown_; }
  const PgTarget& target() const { return target_; }
  const PgSession& session() const { return session_; }
  bool is_open() const { return stream_ != nullptr && is_ready_; }
  std::uint64_t times_opened() const { return times_opened_; }

  void close() {
    stream_.reset();
    messages_ = MessageReader();
    replies_ = BatchReplies();
    greeting_.clear();
    is_ready_ = false;
    in_use_ = false;
  }

  void begin() { in_use_ = true; }

  void end(bool well) {
    in_use_ = false;
    if (well) return;
    if (stream_) stream_->abandon();
    close();
  }

  // Takes what has come since the last exchange. Closes the connection if the last
  // exchange was abandoned or the server has ended the session; throws Failure then if
  // that was in the middle of a transaction.
  void catch_up() {
    if (!stream_) return;
    const bool is_in_transaction = replies_.transaction() != 'I';
    if (in_use_) return close();
    try {
      int reads = 0;
      while (const auto bytes = stream_->read_at_once(shown_)) {
        take_in(*bytes);
        if (++reads == reads_in_a_row) break;
      }
      if (reads < reads_in_a_row && !replies_.fault()) return;
    } catch (const Failure&) {
    }
    close();
    if (is_in_transaction) throw closed();
  }

  // Connects and logs in, and sends `request` as soon as possible.
  asio::awaitable<void> open(const std::string& request, net::Budget& budget) {
    const net::Peer peer{target_.host, target_.port, target_.path, std::nullopt};
    stream_ = co_await net::open_stream(context_, peer, budget, last_used_);
    co_await log_in(request, budget);
    is_ready_ = true;
    ++times_opened_;
  }

  asio::awaitable<void> send(const std::string& request, net::Budget& budget) {
    co_await stream_->write(request, budget);
  }

  // The replies to what was sent.
  asio::awaitable<std::vector<Result>> results(const std::vector<Batch>& batches,
                                               net::Budget& budget) {
    replies_.expect(batches);
    take_messages();
    for (int reads = 0; !replies_.is_complete();) {
      if (const auto& fault = replies_.fault(); fault && fault->is_fatal()) {
        throw Failure(kind_of_error(fault->code), error_text(*fault, shown_));
      }
      const auto bytes = co_await stream_->read(budget, true);
      take_in(bytes);
      if (++reads % reads_in_a_row != 0) continue;
      co_await boost::asio::post(context_, boost::asio::use_awaitable);
      budget.check();
    }
    if (const auto& fault = replies_.fault()) {
      throw SqlError(*fault, shown_, replies_.faulty_batch());
    }
    co_return replies_.take_results();
  }

  bool has_failed_transaction() const {
    return stream_ != nullptr && replies_.transaction() == 'E';
  }

  asio::awaitable<std::optional<Notification>> notification(net::Budget& budget) {
    for (int reads = 0;;) {
      if (auto notification = replies_.next_notification()) co_return notification;
      const auto bytes = co_await stream_->read_until(budget);
      if (!bytes) co_return std::nullopt;
      take_in(*bytes);
      if (const auto& fault = replies_.fault()) {
        throw Failure(kind_of_error(fault->code), error_text(*fault, shown_));
      }
      if (++reads % reads_in_a_row != 0) continue;
      co_await boost::asio::post(context_, boost::asio::use_awaitable);
      if (budget.is_over()) co_return std::nullopt;
    }
  }

  Failure closed() const {
    return Failure(Failure::Kind::unreachable, shown_ + " closed the connection");
  }

 private:
  asio::awaitable<void> log_in(const std::string& request, net::Budget& budget) {
    session_ = {};
    std::vector<std::pair<std::string, std::string>> parameters{
        {"user", target_.user},
        {"database", target_.database},
        {"client_encoding", "UTF8"},
        {"application_name", application_name_from(target_.application_name)}};
    if (!target_.options.empty()) parameters.emplace_back("options", target_.options);
    const auto bytes = startup_message(parameters) + request;
    co_await stream_->write(bytes, budget);
    for (;;) {
      const auto message = co_await next_message(budget);
      if (message.type == 'Z') break;
      take_login(message);
    }
  }

  void take_login(const WireMessage& message) {
    switch (message.type) {
      case 'E': throw_refused(message.body);
      case 'R':
        if (message.body != std::string(4, '\0')) {
          throw Failure(Failure::Kind::rejected, shown_ + ": a password is needed");
        }
        break;
      case 'S':
        if (auto parameter = parameter_from(message.body)) take(std::move(*parameter));
        break;
      case 'K':
        key_ = message.body;
        for (std::size_t i = 0; i < 4 && i < key_.size(); ++i) {
          session_.pid =
              static_cast<std::int32_t>((static_cast<std::uint32_t>(session_.pid) << 8) |
                                        static_cast<unsigned char>(key_[i]));
        }
        break;
      default: break;
    }
  }

  [[noreturn]] void throw_refused(std::string_view body) const {
    const auto fault = notice_from(body);
    if (!fault) throw nonsense("a malformed error");
    if (const auto reason = refusal_of(*fault)) {
      throw net::Refusal(*reason, error_text(*fault, shown_));
    }
    throw SqlError(*fault, shown_);
  }

  asio::awaitable<WireMessage> next_message(net::Budget& budget) {
    for (;;) {
      if (auto message = messages_.next()) co_return std::move(*message);
      if (!messages_.error().empty()) throw nonsense(messages_.error());
      const auto bytes = co_await stream_->read(budget, true);
      feed(bytes);
    }
  }

  void feed(std::string_view bytes) {
    if (bytes.empty()) throw closed();
    if (greeting_.empty()) greeting_ = bytes.substr(0, longest_greeting);
    messages_.feed(bytes);
  }

  void take_in(std::string_view bytes) {
    feed(bytes);
    take_messages();
  }

  void take_messages() {
    while (const auto message = messages_.next()) {
      if (!replies_.take(*message)) throw nonsense(replies_.error());
    }
    if (!messages_.error().empty()) throw nonsense(messages_.error());
    for (auto& parameter : replies_.take_parameters()) take(std::move(parameter));
  }

  void take(std::pair<std::string, std::string> parameter) {
    constexpr std::size_t most = 64;
    const auto& [name, value] = parameter;
    if (name == "server_version") session_.server_version = printable(value, 200);
    if (name == "in_hot_standby") session_.in_hot_standby = value == "on";
    auto& known = session_.parameters;
    if (known.size() < most || known.count(name) != 0) known[name] = value;
  }

  Failure nonsense(const std::string& why) const {
    return Failure(Failure::Kind::unreachable,
                   shown_ + " does not speak the PostgreSQL protocol: " + why +
                       (is_ready_ ? "" : net::kind_of_server(greeting_)));
  }

  asio::io_context& context_;
  PgTarget target_;
  std::string shown_;
  std::unique_ptr<net::Stream> stream_;
  MessageReader messages_;
  BatchReplies replies_;
  PgSession session_;
  std::string key_;        // for cancel requests
  std::string greeting_;   // the first bytes of the server
  bool is_ready_ = false;  // logged in
  bool in_use_ = false;
  std::uint64_t times_opened_ = 0;
  std::optional<net::Endpoint> last_used_;
};

PgConnection::PgConnection(asio::io_context& context, PgTarget target)
    : link_(std::make_unique<Link>(context, std::move(target))) {}

PgConnection::~PgConnection() = default;

bool PgConnection::is_open() const { return link_->is_open(); }

std::uint64_t PgConnection::times_opened() const { return link_->times_opened(); }

const PgSession& PgConnection::session() const { return link_->session(); }

const PgTarget& PgConnection::target() const { return link_->target(); }

void PgConnection::close() { link_->close(); }

asio::awaitable<void> PgConnection::open(Clock::time_point until, Wakeup& wakeup) {
  if (!is_open()) co_await exchange({}, until, wakeup);
}

asio::awaitable<std::vector<Result>> PgConnection::exchange(std::vector<Batch> batches,
                                                            Clock::time_point until,
                                                            Wakeup& wakeup) {
  net::Budget budget(until, wakeup, link_->shown());
  std::exception_ptr failure;
  std::optional<SqlError> refused;
  std::vector<Result> found;
  try {
    budget.check();
    link_->catch_up();
    link_->begin();
    std::string request;
    for (const auto& batch : batches) request += encoded_batch(batch);
    if (!link_->is_open()) {
      co_await link_->open(request, budget);
    } else if (!request.empty()) {
      co_await link_->send(request, budget);
    }
    found = co_await link_->results(batches, budget);
  } catch (const SqlError& error) {
    refused = error;
  } catch (const Failure&) {
    failure = std::current_exception();
  }
  if (refused && link_->has_failed_transaction()) {
    try {
      const std::vector<Batch> rollback(1, Batch(1, Statement{"ROLLBACK", {}}));
      const auto request = encoded_batch(rollback.front());
      co_await link_->send(request, budget);
      co_await link_->results(rollback, budget);
    } catch (const Failure&) {
      failure = std::current_exception();
    }
  }
  budget.hand_on();
  link_->end(!failure && link_->is_open());
  if (refused) throw *refused;
  if (failure) std::rethrow_exception(failure);
  co_return found;
}

asio::awaitable<std::optional<Notification>> PgConnection::notification(
    Clock::time_point until, Wakeup& wakeup) {
  net::Budget budget(until, wakeup, link_->shown());
  std::exception_ptr failure;
  std::optional<Notification> found;
  bool is_harmless = false;
  try {
    if (!link_->is_open()) throw link_->closed();
    found = co_await link_->notification(budget);
  } catch (const Failure& error) {
    is_harmless = error.kind() == Failure::Kind::interrupted;
    failure = std::current_exception();
  }
  budget.hand_on();
  if (failure && !is_harmless) link_->close();
  if (failure) std::rethrow_exception(failure);
  co_return found;
}

asio::awaitable<void> PgConnection::cancel(Clock::time_point, Wakeup&) { co_return; }

}  // namespace dlock::postgres

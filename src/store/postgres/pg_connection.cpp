#include "store/postgres/pg_connection.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <string_view>
#include <utility>

#include "net/budget.hpp"
#include "net/password_command.hpp"
#include "net/stream.hpp"
#include "store/postgres/pg_login.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// A server that never stops sending must not delay signals and deadlines.
constexpr int most_reads_in_a_row = 64;

// Of the first reply: enough to tell another kind of server.
constexpr std::size_t longest_greeting = 16;

// A socket to the server, encrypted as the target demands: bytes out, messages in. After
// a Failure, other than one of kind interrupted while reading, the object can only be
// destroyed.
class PgLink {
 public:
  // `target` must outlive it.
  PgLink(asio::io_context& context, const PgTarget& target)
      : context_(context), target_(target), shown_(target.shown()) {}

  // Resolves the name, connects and sets up TLS; see dial() for `last_used`. Throws
  // Failure: unreachable, even if the target demands TLS and the server has none;
  // rejected for a certificate; interrupted.
  asio::awaitable<void> connect(net::Budget& budget,
                                std::optional<net::Endpoint>& last_used) {
    const net::Peer peer{target_.host, target_.port, target_.path, std::nullopt};
    stream_ = co_await net::open_stream(context_, peer, budget, last_used);
    channel_.is_trusted = !target_.path.empty();
    channel_.distrust = [this] {
      auto why = channel_.is_trusted ? "" : stream_->distrust(plan_);
      channel_.is_trusted = why.empty();
      return why;
    };
    if (!target_.path.empty()) co_return;
    stream_->limit_silence(target_.timeout);
    if (target_.ssl != SslMode::disable) co_await encrypt(budget);
  }

  // What a login over it may do.
  const LoginChannel& channel() const { return channel_; }

  asio::awaitable<void> write(const std::string& bytes, net::Budget& budget) {
    co_await stream_->write(bytes, budget);
  }

  // Sends what is possible at once, behind what is left of earlier calls. Ignores
  // failures, which the next read finds.
  void post(const std::string& bytes) {
    unsent_ += bytes;
    unsent_.erase(0, stream_->write_at_once(unsent_));
  }
  // Sends what is left of it, before anything else is written.
  asio::awaitable<void> send_rest(net::Budget& budget) {
    co_await write(unsent_, budget);
    unsent_.clear();
  }

  // The next message that has arrived completely; nothing if there is none. Throws
  // Failure (unreachable) for bytes that are none.
  std::optional<WireMessage> next() {
    auto message = messages_.next();
    if (!messages_.error().empty()) throw nonsense(messages_.error());
    if (message) is_known_ = true;
    return message;
  }

  // Waits for more bytes. Throws Failure if the time runs out or the connection ends.
  asio::awaitable<void> read(net::Budget& budget) {
    try {
      const auto bytes = co_await stream_->read(budget, true);
      take(bytes);
    } catch (const Failure& failure) {
      throw_with_hint(failure);
    }
    co_await rest_at_times(budget);
  }

  // The same, but returns false if the time runs out.
  asio::awaitable<bool> read_until(net::Budget& budget) {
    const auto bytes = co_await stream_->read_until(budget);
    if (!bytes) co_return false;
    take(*bytes);
    if (budget.is_over()) co_return false;
    if (++reads_in_a_row_ < most_reads_in_a_row) co_return true;
    co_await rest();
    if (budget.is_over()) co_return false;
    budget.check();
    co_return true;
  }

  // Takes what has arrived; false if that is nothing, or goes on without end.
  bool read_at_once() {
    const auto bytes = stream_->read_at_once(shown_);
    if (!bytes) {
      reads_in_a_row_ = 0;
      return false;
    }
    take(*bytes);
    return ++reads_in_a_row_ < most_reads_in_a_row;
  }

  // Whether there is something to take, or will be within a millisecond.
  bool has_input_soon() { return stream_->has_input_soon(); }
  // Returns once the server has closed the connection.
  asio::awaitable<void> read_to_end(net::Budget& budget) {
    for (;;) {
      const auto bytes = co_await stream_->read(budget, true);
      if (bytes.empty()) co_return;
      co_await rest_at_times(budget);
    }
  }

  // The server has sent what makes no sense.
  Failure nonsense(const std::string& why) const {
    return Failure::unreachable(shown_ + " does not speak the PostgreSQL protocol: " +
                                why + (is_known_ ? "" : net::kind_of_server(greeting_)));
  }

  Failure closed() const {
    return Failure::unreachable(shown_ + " closed the connection");
  }

  // Discards what was not sent yet.
  void abandon() {
    if (stream_) stream_->abandon();
  }

 private:
  asio::awaitable<void> encrypt(net::Budget& budget) {
    if (target_.negotiates_tls) {
      const bool is_agreed = co_await agree_on_tls(budget);
      if (!is_agreed) co_return;
    }
    plan_ = target_.tls;
    plan_.protocol = "postgresql";
    plan_.verifies_later = target_.ssl != SslMode::verify;
    const auto& name = plan_.name.empty() ? target_.host : plan_.name;
    try {
      co_await stream_->secure(plan_, name, budget);
    } catch (const net::Refusal& refusal) {
      if (target_.negotiates_tls) throw;
      throw net::Refusal(
          refusal.reason(),
          std::string(refusal.what()) + "; sslnegotiation=direct needs PostgreSQL 17");
    }
    const auto peer = stream_->tls_peer().value();
    if (!target_.negotiates_tls && peer.protocol != plan_.protocol) {
      throw Failure::unreachable(
          shown_ +
          " does not offer PostgreSQL behind TLS, as "
          "sslnegotiation=direct demands; version 17 and later do");
    }
    channel_.is_encrypted = true;
    channel_.binding = peer.binding;
    channel_.needs_proof = target_.ssl == SslMode::require && !plan_.insecure;
    // The authorities of the system take longer to load than the rest of a login.
    const bool is_quick = !plan_.verifies_later || !plan_.ca.empty();
    if (is_quick || target_.wants_to_know) {
      channel_.distrust();
    }
  }

  // Whether the server goes on with TLS. It must not send anything else before: that
  // would be read as if it came over TLS.
  asio::awaitable<bool> agree_on_tls(net::Budget& budget) {
    co_await write(tls_request(), budget);
    std::string reply;
    try {
      reply = co_await stream_->read(budget, true);
      if (reply.empty()) throw closed();
    } catch (const Failure& failure) {
      throw_with_hint(failure);
    }
    greeting_ = reply.substr(0, longest_greeting);
    budget.reached("first reply");
    if (reply == "S") co_return true;
    if (reply == "N" && target_.ssl == SslMode::prefer) co_return false;
    if (reply == "N") {
      throw Failure::unreachable(
          shown_ +
          " does not use TLS, which the sslmode demands: turn on ssl on the "
          "server, or change the sslmode");
    }
    // A server that has no room answers with an error, which nothing vouches for.
    if (reply[0] == 'E') {
      throw net::Refusal(net::Refusal::Reason::overloaded,
                         shown_ + " answers the request for TLS with an error");
    }
    throw nonsense("an invalid answer to the request for TLS");
  }

  asio::awaitable<void> rest_at_times(net::Budget& budget) {
    if (++reads_in_a_row_ < most_reads_in_a_row) co_return;
    co_await rest();
    budget.check();
  }

  asio::awaitable<void> rest() {
    reads_in_a_row_ = 0;
    co_await boost::asio::post(context_, boost::asio::use_awaitable);
  }

  void take(std::string_view bytes) {
    if (bytes.empty()) throw closed();
    if (!is_known_ && greeting_.size() <= 1)
      greeting_ = bytes.substr(0, longest_greeting);
    messages_.feed(bytes);
  }

  // Throws the exception being handled, with what may be the reason if the server has not
  // said anything.
  [[noreturn]] void throw_with_hint(const Failure& failure) const {
    const bool is_silent = greeting_.empty() && !is_known_;
    if (!is_silent || failure.kind() != Failure::Kind::unreachable ||
        net::is_slow(failure)) {
      throw;
    }
    // Some servers of other protocols wait for the end of a line.
    if (dynamic_cast<const net::Timeout*>(&failure) != nullptr) {
      throw net::Timeout(std::string(failure.what()) + "; is it PostgreSQL?");
    }
    const auto* hint = target_.ssl == SslMode::disable
                           ? "; does it require TLS (sslmode=require)?"
                           : "; is it PostgreSQL?";
    throw Failure(failure.kind(), std::string(failure.what()) + hint);
  }

  asio::io_context& context_;
  const PgTarget& target_;
  std::string shown_;
  std::unique_ptr<net::Stream> stream_;
  WireReader messages_;
  net::TlsOptions plan_;  // of the connection
  LoginChannel channel_;
  std::string unsent_;     // of what was posted
  std::string greeting_;   // the first bytes of the server
  bool is_known_ = false;  // the server has sent a message
  int reads_in_a_row_ = 0;
};

}  // namespace

// The open session, and the state of the exchange in progress.
class PgConnection::Talk {
 public:
  Talk(asio::io_context& context, PgTarget target)
      : context_(context), target_(std::move(target)), shown_(target_.shown()) {}

  const std::string& shown() const { return shown_; }
  const PgTarget& target() const { return target_; }
  const PgServerFacts& server_facts() const { return server_facts_; }
  bool is_open() const { return is_ready_; }
  std::uint64_t times_opened() const { return times_opened_; }
  Failure closed() const {
    return Failure::unreachable(shown_ + " closed the connection");
  }

  void close() {
    // A server undoes what its client has left in the middle of. At most 50 ms.
    for (int i = 0; is_ready_ && !in_use_ && !replies_.is_complete() && i < 50; ++i) {
      link_->post("");
      if (link_->has_input_soon()) catch_up();
    }
    part();
    drop();
  }

  void part() {
    if (is_ready_ && !in_use_) link_->post(terminate_message());
  }

  void begin() { in_use_ = true; }

  void end(bool well) {
    in_use_ = false;
    if (!well) drop();
  }

  // Takes what has come since the last exchange. Closes the connection if the last
  // exchange was abandoned or the server has ended the session; throws Failure then if
  // that was in the middle of a transaction.
  void catch_up() {
    if (!link_) return;
    const bool is_in_transaction = has_transaction();
    bool is_alive = is_ready_ && !in_use_;
    try {
      while (is_alive && link_->read_at_once()) take_messages();
      is_alive = is_alive && !has_ended();
    } catch (const Failure&) {
      is_alive = false;
    }
    if (is_alive) return;
    drop();
    if (is_in_transaction) throw closed();
  }

  // Connects and logs in, and sends `request` as soon as it may.
  asio::awaitable<void> open(std::string request, Clock::time_point until,
                             net::Budget& budget) {
    const auto began = Clock::now();
    // First: without it a connection would be useless.
    auto password = co_await secret(budget);
    remark_ = remark_on_password(password);
    const bool is_known = password == target_.user || password == target_.database;
    secret_ = is_known ? "" : password.value_or("");
    server_facts_ = {};
    replies_ = BatchReplies();
    link_.emplace(context_, target_);
    co_await link_->connect(budget, last_used_);
    has_sent_request_ = false;
    PgLogin login(shown_, target_, password, link_->channel(), salted_);
    auto bytes = startup_message(startup_parameters(target_));
    // A server that asks for a password that is not there is not logged in to anyway.
    if (!password && may_tell()) bytes += take_request(request);
    co_await link_->write(bytes, budget);
    co_await log_in(login, request, budget);
    const auto& channel = link_->channel();
    server_facts_.method = login.method();
    server_facts_.is_encrypted = channel.is_encrypted;
    server_facts_.is_proven = channel.is_trusted || login.is_bound();
    check_product(server_facts_, target_);
    is_ready_ = true;
    budget.reached("logged in");
    opening_took_ = Clock::now() - began;
    opened_for_ = until;
    ++times_opened_;
  }

  asio::awaitable<void> send(const std::string& request, net::Budget& budget) {
    co_await link_->write(request, budget);
  }

  void post(const std::vector<Batch>& batches) {
    if (!is_ready_ || in_use_) return;
    replies_.is_complete() ? replies_.expect(batches) : replies_.expect_also(batches);
    link_->post(encoded_batches(batches));
  }

  // Sends what is left of what was posted, and reads the replies to it. Drops the
  // connection, to be opened again, if that fails or has left a transaction behind.
  asio::awaitable<void> settle(net::Budget& budget) {
    if (replies_.is_complete() && has_failed_transaction()) abandon();
    if (!is_ready_ || replies_.is_complete()) co_return;
    try {
      co_await send_rest(budget);
      co_await read_replies(budget);
      if (replies_.transaction() == 'I') co_return;
    } catch (const Failure& failure) {
      if (failure.kind() == Failure::Kind::interrupted || budget.is_over()) throw;
    }
    abandon();
  }

  asio::awaitable<std::vector<Result>> results(const std::vector<Batch>& batches,
                                               net::Budget& budget) {
    replies_.expect(batches);
    co_await read_replies(budget);
    if (const auto& fault = replies_.fault()) {
      throw SqlError(told(*fault), shown_, replies_.faulty_batch());
    }
    co_return replies_.take_results();
  }

  // The timeout of an exchange that had this span, where opening the connection has used
  // up what the operation had: each of its exchanges has the same end.
  std::exception_ptr explained(const net::Timeout& timeout, Clock::duration span,
                               Clock::time_point until) const {
    if (timeout.is_slow() || opening_took_ < span || opened_for_ != until) {
      return std::current_exception();
    }
    return std::make_exception_ptr(net::Timeout(
        std::string(timeout.what()) + ", after " + for_people(opening_took_) +
            " for the connection and the login: if it is far away or busy, give it more "
            "time with --store-timeout",
        true));
  }

  bool is_in_transaction() const { return is_ready_ && has_transaction(); }

  // Whether a failed statement has left a transaction behind.
  bool has_failed_transaction() const {
    return is_ready_ && replies_.transaction() == 'E';
  }

  asio::awaitable<std::optional<Notification>> notification(net::Budget& budget) {
    co_await send_rest(budget);
    for (;;) {
      take_messages();
      if (auto notification = replies_.next_notification()) co_return notification;
      throw_if_ended();
      const bool has_time = co_await link_->read_until(budget);
      if (has_time) continue;
      take_messages();
      co_return replies_.next_notification();
    }
  }

  asio::awaitable<void> cancel(net::Budget& budget) {
    if (key_.empty()) co_return;
    auto target = target_;
    if (server_facts_.is_encrypted && target.ssl == SslMode::prefer) {
      target.ssl = SslMode::require;
    }
    // A name may have several addresses, and the key belongs to one server.
    if (target.tls.name.empty()) target.tls.name = target.host;
    if (last_used_) target.host = net::literal_of(*last_used_);
    PgLink link(context_, target);
    auto address = last_used_;
    co_await link.connect(budget, address);
    // An attacker who learns the key can only cancel; but no one else needs to know it.
    const bool must_be_same = link.channel().needs_proof && !link.channel().is_trusted;
    if (must_be_same && link.channel().binding != binding_) {
      throw Failure::rejected(shown_ + " has another certificate now");
    }
    co_await link.write(cancel_request(key_), budget);
    co_await link.read_to_end(budget);
  }

 private:
  asio::awaitable<std::optional<std::string>> secret(net::Budget& budget) {
    const auto& command = target_.password_command;
    if (target_.printed) co_return std::exchange(target_.printed, std::nullopt);
    if (!command.empty()) {
      co_return co_await net::password_printed_by(context_, command, budget);
    }
    co_return target_.password ? target_.password() : std::nullopt;
  }

  // What was posted leaves none behind.
  bool has_transaction() const {
    return replies_.is_complete() && replies_.transaction() != 'I';
  }

  asio::awaitable<void> read_replies(net::Budget& budget) {
    for (;;) {
      take_messages();
      throw_if_ended();
      if (replies_.is_complete()) co_return;
      co_await link_->read(budget);
    }
  }

  asio::awaitable<void> send_rest(net::Budget& budget) {
    in_use_ = true;  // and is dropped if this fails
    co_await link_->send_rest(budget);
    in_use_ = false;
  }

  void abandon() {
    in_use_ = true;
    drop();
  }

  void drop() {
    if (link_ && (in_use_ || !is_ready_)) link_->abandon();
    link_.reset();
    is_ready_ = false;
    in_use_ = false;
  }

  std::string take_request(std::string& request) {
    if (!request.empty()) has_sent_request_ = true;
    return std::exchange(request, "");
  }

  // Whether requests may be sent before the login has shown who reads them.
  bool may_tell() const {
    const bool needs_proof = link_->channel().needs_proof ||
                             target_.channel_binding == ChannelBinding::require;
    return !needs_proof || link_->channel().is_trusted;
  }

  // Sends `request` behind the last message of the login if possible.
  asio::awaitable<void> log_in(PgLogin& login, std::string& request,
                               net::Budget& budget) {
    for (;;) {
      const auto message = co_await next_message(budget);
      if (message.type == 'Z' && login.is_done()) break;
      if (message.type != 'R') {
        take_login(message, login.is_done());
        continue;
      }
      budget.reached("asked for the login");
      auto answer = login.answer(message.body);
      const bool may_send = login.is_done() || (answer.is_last && may_tell());
      auto bytes = std::move(answer.bytes);
      if (may_send) bytes += take_request(request);
      if (!bytes.empty()) co_await link_->write(bytes, budget);
    }
  }

  // Nothing has been executed if the login fails before the request was sent.
  asio::awaitable<WireMessage> next_message(net::Budget& budget) {
    try {
      for (;;) {
        if (auto message = link_->next()) co_return std::move(*message);
        co_await link_->read(budget);
      }
    } catch (const Failure& failure) {
      const bool is_harmless = failure.kind() == Failure::Kind::unreachable &&
                               !has_sent_request_ && !budget.is_over();
      if (!is_harmless) throw;
      throw net::Refusal(net::Refusal::Reason::absent, failure.what());
    }
  }

  void take_login(const WireMessage& message, bool is_logged_in) {
    if (message.type == 'E') {
      const auto notice = notice_from(message.body);
      if (!notice) throw link_->nonsense("a malformed error");
      auto error = session_error(told(*notice));
      if (error.code == "28P01") error.message += remark_ + expired();
      throw_refused(error, shown_);
    }
    if (message.type == 'N') return;
    if (message.type == 'S') {
      if (auto parameter = parameter_from(message.body))
        return server_facts_.take(parameter->first, parameter->second);
    }
    if (message.type == 'K' && is_logged_in && first_number(message.body)) {
      key_ = message.body;
      binding_ = link_->channel().binding;
      server_facts_.pid = static_cast<std::int32_t>(*first_number(key_));
      return;
    }
    throw link_->nonsense("a message at the wrong place in the login");
  }

  Notice told(Notice notice) const {
    notice.message = without_secret(notice.message, secret_);
    return notice;
  }

  // Of a password that a server has accepted before, and refuses now.
  std::string expired() const {
    const bool is_new = times_opened_ == 0 || !target_.password_command.empty();
    return is_new ? ""
                  : "; a login succeeded earlier, and a password that expires needs "
                    "--password-command";
  }

  bool has_ended() const { return replies_.fault() && replies_.fault()->is_fatal(); }

  // What the server says when it ends a session says nothing about a statement.
  void throw_if_ended() const {
    if (!has_ended()) return;
    const auto fault = session_error(told(*replies_.fault()));
    throw Failure(kind_of_error(fault.code), error_text(fault, shown_));
  }

  void take_messages() {
    while (const auto message = link_->next()) {
      if (!replies_.take(*message)) throw link_->nonsense(replies_.error());
    }
    for (const auto& [name, value] : replies_.take_parameters()) {
      server_facts_.take(name, value);
    }
  }

  asio::io_context& context_;
  PgTarget target_;
  std::string shown_;
  std::optional<PgLink> link_;
  BatchReplies replies_;
  PgServerFacts server_facts_;
  SaltedPassword salted_;
  std::string secret_;     // the password of the last login
  std::string remark_;     // on it
  std::string key_;        // of the last login, for cancel requests
  std::string binding_;    // the certificate of the server that the key is for
  bool is_ready_ = false;  // logged in
  bool in_use_ = false;
  bool has_sent_request_ = false;
  std::uint64_t times_opened_ = 0;
  Clock::duration opening_took_{};
  Clock::time_point opened_for_{};  // the end of the operation that opened it
  std::optional<net::Endpoint> last_used_;
};

PgConnection::PgConnection(asio::io_context& context, PgTarget target)
    : talk_(std::make_unique<Talk>(context, std::move(target))) {}

PgConnection::~PgConnection() { close(); }

bool PgConnection::is_open() const { return talk_->is_open(); }
bool PgConnection::is_in_transaction() const { return talk_->is_in_transaction(); }
bool PgConnection::has_failed_transaction() const {
  return talk_->has_failed_transaction();
}
bool PgConnection::is_still_open() {
  talk_->catch_up();
  return talk_->is_open();
}
std::uint64_t PgConnection::times_opened() const { return talk_->times_opened(); }
const PgServerFacts& PgConnection::server_facts() const { return talk_->server_facts(); }
const PgTarget& PgConnection::target() const { return talk_->target(); }
void PgConnection::close() { talk_->close(); }
void PgConnection::part() { talk_->part(); }

asio::awaitable<void> PgConnection::open(Call call) {
  if (!is_open()) co_await exchange({}, call);
}

asio::awaitable<std::vector<Result>> PgConnection::exchange(std::vector<Batch> batches,
                                                            Call call) {
  const auto began = Clock::now();
  net::Budget budget(call, talk_->shown());
  std::exception_ptr failure;
  std::optional<SqlError> refused;
  std::vector<Result> found;
  try {
    budget.check();
    talk_->catch_up();
    co_await talk_->settle(budget);
    talk_->begin();
    auto request = encoded_batches(batches);
    if (!talk_->is_open()) {
      co_await talk_->open(request, call.until, budget);
    } else if (!request.empty()) {
      co_await talk_->send(request, budget);
    }
    found = co_await talk_->results(batches, budget);
  } catch (const SqlError& error) {
    refused = error;
  } catch (const net::Timeout& timeout) {
    failure = talk_->explained(timeout, call.until - began, call.until);
  } catch (const Failure&) {
    failure = std::current_exception();
  }
  if (refused && talk_->has_failed_transaction()) {
    try {
      const std::vector<Batch> rollback(1, Batch(1, Statement{"ROLLBACK", {}}));
      const auto request = encoded_batches(rollback);
      co_await talk_->send(request, budget);
      co_await talk_->results(rollback, budget);
    } catch (const Failure&) {
      failure = std::current_exception();
    }
  }
  talk_->end(!failure && talk_->is_open());
  if (refused) throw *refused;
  if (failure) std::rethrow_exception(failure);
  co_return found;
}

void PgConnection::post(const std::vector<Batch>& batches) { talk_->post(batches); }

asio::awaitable<std::optional<Notification>> PgConnection::notification(Call call) {
  net::Budget budget(call, talk_->shown());
  try {
    if (!talk_->is_open()) throw talk_->closed();
    co_return co_await talk_->notification(budget);
  } catch (const Failure& failure) {
    if (failure.kind() != Failure::Kind::interrupted) talk_->close();
    throw;
  }
}

asio::awaitable<void> PgConnection::cancel(Call call) {
  net::Budget budget(call, talk_->shown());
  budget.check();
  co_await talk_->cancel(budget);
}

}  // namespace dlock::postgres

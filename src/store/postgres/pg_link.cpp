#include "store/postgres/pg_link.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "net/budget.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// A server that never stops sending must not delay signals and deadlines.
constexpr int most_reads_in_a_row = 64;

// Of the first reply: enough to tell another kind of server.
constexpr std::size_t longest_greeting = 16;

}  // namespace

PgLink::PgLink(asio::io_context& context, const PgTarget& target)
    : context_(context), target_(target), shown_(target.shown()) {}

asio::awaitable<void> PgLink::connect(net::Budget& budget,
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

asio::awaitable<void> PgLink::encrypt(net::Budget& budget) {
  if (target_.negotiates_tls) {
    const bool is_agreed = co_await agree_on_tls(budget);
    if (!is_agreed) co_return;
  }
  plan_ = target_.tls;
  plan_.protocol = "postgresql";
  plan_.verifies_later = target_.ssl != SslMode::verify;
  const auto& name = plan_.name.empty() ? target_.host : plan_.name;
  std::exception_ptr failure;
  try {
    co_await stream_->secure(plan_, name, budget);
  } catch (const net::Refusal& refusal) {
    failure = std::current_exception();
    if (!target_.negotiates_tls) {
      failure = std::make_exception_ptr(net::Refusal(
          refusal.reason(),
          std::string(refusal.what()) + "; sslnegotiation=direct needs PostgreSQL 17"));
    }
  }
  if (failure) std::rethrow_exception(failure);
  const auto peer = stream_->tls_peer().value();
  if (!target_.negotiates_tls && peer.protocol != plan_.protocol) {
    throw Failure::unreachable(shown_ +
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

// Whether the server goes on with TLS. It must not send anything else before: that would
// be read as if it came over TLS.
asio::awaitable<bool> PgLink::agree_on_tls(net::Budget& budget) {
  co_await write(tls_request(), budget);
  std::exception_ptr failure;
  std::string reply;
  try {
    reply = co_await stream_->read(budget, true);
    if (reply.empty()) throw closed();
  } catch (const Failure& error) {
    failure = with_hint(error);
  }
  if (failure) std::rethrow_exception(failure);
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

asio::awaitable<void> PgLink::write(const std::string& bytes, net::Budget& budget) {
  co_await stream_->write(bytes, budget);
}

asio::awaitable<void> PgLink::send_rest(net::Budget& budget) {
  co_await write(unsent_, budget);
  unsent_.clear();
}

std::optional<WireMessage> PgLink::next() {
  auto message = messages_.next();
  if (!messages_.error().empty()) throw nonsense(messages_.error());
  if (message) is_known_ = true;
  return message;
}

asio::awaitable<void> PgLink::read(net::Budget& budget) {
  std::exception_ptr failure;
  try {
    const auto bytes = co_await stream_->read(budget, true);
    take(bytes);
  } catch (const Failure& error) {
    failure = with_hint(error);
  }
  if (failure) std::rethrow_exception(failure);
  co_await rest_at_times(budget);
}

asio::awaitable<bool> PgLink::read_until(net::Budget& budget) {
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

bool PgLink::read_at_once() {
  const auto bytes = stream_->read_at_once(shown_);
  if (!bytes) {
    reads_in_a_row_ = 0;
    return false;
  }
  take(*bytes);
  return ++reads_in_a_row_ < most_reads_in_a_row;
}

asio::awaitable<void> PgLink::read_to_end(net::Budget& budget) {
  for (;;) {
    const auto bytes = co_await stream_->read(budget, true);
    if (bytes.empty()) co_return;
    co_await rest_at_times(budget);
  }
}

asio::awaitable<void> PgLink::rest_at_times(net::Budget& budget) {
  if (++reads_in_a_row_ < most_reads_in_a_row) co_return;
  co_await rest();
  budget.check();
}

asio::awaitable<void> PgLink::rest() {
  reads_in_a_row_ = 0;
  co_await boost::asio::post(context_, boost::asio::use_awaitable);
}

void PgLink::take(std::string_view bytes) {
  if (bytes.empty()) throw closed();
  if (!is_known_ && greeting_.size() <= 1) greeting_ = bytes.substr(0, longest_greeting);
  messages_.feed(bytes);
}

Failure PgLink::nonsense(const std::string& why) const {
  return Failure::unreachable(shown_ + " does not speak the PostgreSQL protocol: " + why +
                              (is_known_ ? "" : net::kind_of_server(greeting_)));
}

Failure PgLink::closed() const {
  return Failure::unreachable(shown_ + " closed the connection");
}

// The exception being handled, with what may be the reason if the server has not said
// anything.
std::exception_ptr PgLink::with_hint(const Failure& failure) const {
  const bool is_silent = greeting_.empty() && !is_known_;
  if (!is_silent || failure.kind() != Failure::Kind::unreachable ||
      net::is_slow(failure)) {
    return std::current_exception();
  }
  // Some servers of other protocols wait for the end of a line.
  if (dynamic_cast<const net::Timeout*>(&failure) != nullptr) {
    return std::make_exception_ptr(
        net::Timeout(std::string(failure.what()) + "; is it PostgreSQL?"));
  }
  const auto* hint = target_.ssl == SslMode::disable
                         ? "; does it require TLS (sslmode=require)?"
                         : "; is it PostgreSQL?";
  return std::make_exception_ptr(
      Failure(failure.kind(), std::string(failure.what()) + hint));
}

}  // namespace dlock::postgres

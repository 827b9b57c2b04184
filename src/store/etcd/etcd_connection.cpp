#include "store/etcd/etcd_connection.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "net/stream.hpp"
#include "util/failure.hpp"

namespace dlock::etcd {

namespace {

// A server that never stops sending must not delay signals and deadlines.
constexpr int reads_in_a_row = 64;

asio::awaitable<void> let_others_run(asio::io_context& context) {
  co_await asio::post(context, asio::use_awaitable);
}

}  // namespace

EtcdConnection::EtcdConnection(asio::io_context& context, ServerAddress server,
                               std::optional<net::TlsOptions> tls)
    : context_(context),
      server_(std::move(server)),
      tls_(std::move(tls)),
      shown_(server_.shown()) {
  if (tls_) tls_->protocol = "h2";
}

EtcdConnection::~EtcdConnection() = default;

void EtcdConnection::close() {
  http2_.reset();
  stream_.reset();
}

asio::awaitable<void> EtcdConnection::open(net::Budget& budget) {
  const net::Peer peer{server_.host, server_.port, "", tls_};
  stream_ = co_await net::open_stream(context_, peer, budget, last_used_);
  http2_ = std::make_unique<grpc::Http2>(shown_);
  is_writing_ = false;
  has_replied_ = false;
  ++times_opened_;
}

void EtcdConnection::drop_if_closed() {
  if (!is_open()) return;
  try {
    // Data that no call waits for. etcd never sends it without end.
    int reads = 0;
    while (const auto bytes = stream_->read_at_once(shown_)) {
      take_in(*bytes);
      if (++reads == reads_in_a_row) break;
    }
    if (reads == reads_in_a_row || !http2_->takes_calls()) close();
  } catch (const Failure&) {
    close();
  }
}

asio::awaitable<std::vector<CallReply>> EtcdConnection::exchange(
    const std::vector<grpc::CallStart>& calls, net::Budget& budget) {
  std::vector<grpc::CallId> ids;
  ids.reserve(calls.size());
  for (const auto& call : calls) ids.push_back(http2_->begin(call));
  std::optional<Failure> failure;
  try {
    int reads = 0;
    for (const auto id : ids) {
      while (!http2_->outcome(id)) {
        co_await send_all(budget);
        if (http2_->outcome(id)) break;
        const auto bytes = co_await stream_->read(budget, true);
        take_in(bytes);
        if (++reads % reads_in_a_row != 0) continue;
        co_await let_others_run(context_);
        budget.check();
      }
    }
  } catch (const Failure& error) {
    failure = with_hint(error, budget);
  }
  if (failure) close_unless_harmless(*failure);
  std::vector<CallReply> replies;
  for (const auto id : ids) {
    if (!is_open()) break;
    if (!failure) replies.push_back(reply_to(id));
    http2_->drop(id);
  }
  if (failure) throw *failure;
  co_return replies;
}

// The message counts only if it is the only one and the call ended well.
CallReply EtcdConnection::reply_to(grpc::CallId call) {
  const auto outcome = http2_->outcome(call);
  if (!outcome) return {{grpc::Code::internal, "no outcome"}, ""};
  CallReply reply{*outcome, ""};
  if (reply.outcome.code != grpc::Code::ok) return reply;
  auto message = http2_->next_message(call);
  if (!message) return {{grpc::Code::internal, std::string(grpc::no_reply)}, ""};
  if (http2_->next_message(call)) {
    return {{grpc::Code::internal, "a reply that is not one message"}, ""};
  }
  reply.message = std::move(*message);
  return reply;
}

grpc::CallId EtcdConnection::begin(const grpc::CallStart& start) {
  return http2_->begin(start);
}

void EtcdConnection::drop(grpc::CallId call) {
  if (is_open()) http2_->drop(call);
}

std::optional<grpc::CallOutcome> EtcdConnection::outcome(grpc::CallId call) const {
  return is_open() ? http2_->outcome(call) : std::nullopt;
}

asio::awaitable<std::optional<std::string>> EtcdConnection::next_message(
    grpc::CallId call, net::Budget& budget) {
  std::optional<Failure> failure;
  std::optional<std::string> message;
  try {
    for (int reads = 0;;) {
      message = http2_->next_message(call);
      if (message || http2_->outcome(call)) break;
      co_await send_all(budget);
      const auto bytes = co_await stream_->read_until(budget);
      if (!bytes) break;
      take_in(*bytes);
      if (++reads % reads_in_a_row != 0) continue;
      co_await let_others_run(context_);
      if (budget.is_over()) break;
    }
  } catch (const Failure& error) {
    failure = with_hint(error, budget);
  }
  if (failure) {
    close_unless_harmless(*failure);
    throw *failure;
  }
  co_return message;
}

asio::awaitable<void> EtcdConnection::send_all(net::Budget& budget) {
  const auto bytes = http2_->take_output();
  if (bytes.empty()) co_return;
  is_writing_ = true;
  co_await stream_->write(bytes, budget);
  is_writing_ = false;
}

void EtcdConnection::take_in(std::string_view bytes) {
  if (bytes.empty()) {
    throw Failure::unreachable(shown_ + " closed the connection");
  }
  if (!http2_->feed(bytes)) {
    const auto why =
        bytes.starts_with("HTTP/1.")
            ? "an HTTP/1 server or proxy answers there; name a member of "
              "etcd, or a proxy for gRPC"
            : http2_->error() + (has_replied_ ? "" : net::kind_of_server(bytes));
    throw Failure::unreachable(shown_ + " does not speak HTTP/2: " + why);
  }
  has_replied_ = true;
}

Failure EtcdConnection::with_hint(const Failure& failure,
                                  const net::Budget& budget) const {
  if (has_replied_ || tls_ || budget.is_over()) return failure;
  if (failure.kind() != Failure::Kind::unreachable) return failure;
  return net::with_tls_hint(failure, "etcds://");
}

// An interruption does not affect output that was sent completely.
void EtcdConnection::close_unless_harmless(const Failure& failure) {
  if (failure.kind() == Failure::Kind::interrupted && !is_writing_) return;
  stream_->abandon();
  close();
}

}  // namespace dlock::etcd

#include "store/redis/redis_connection.hpp"

#include <utility>

#include "net/budget.hpp"
#include "net/stream.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// Of the first reply: enough to tell another kind of server.
constexpr std::size_t longest_greeting = 16;

// The commands as the server expects them: each an array of strings.
std::string encoded(const std::vector<Command>& commands) {
  std::string out;
  for (const auto& command : commands) {
    out += '*' + std::to_string(command.size()) + "\r\n";
    for (const auto& part : command) {
      out += '$' + std::to_string(part.size()) + "\r\n";
      out += part;
      out += "\r\n";
    }
  }
  return out;
}

// Whether the server delays the reply until something happens.
bool blocks(const Command& command) { return command.front() == "BLPOP"; }

// What a full server sends on a new connection, whatever is requested there.
bool says_full(const Reply& reply) {
  return reply.is_error() &&
         reply.text.find("max number of clients") != std::string::npos;
}

Failure closed_by(const std::string& server, const std::vector<Reply>& before) {
  // A server that does not serve this client sends an error and closes.
  const bool has_said_why = !before.empty() && before.back().is_error();
  if (has_said_why) {
    auto why = failure_from(before.back(), server);
    if (why.kind() == Failure::Kind::rejected) return why;
  }
  return Failure::unreachable(
      server + " closed the connection" +
      (has_said_why ? ": " + printable(before.back().text, 200) : std::string()));
}

}  // namespace

// The socket and codec of an open connection, and the state of the exchange in progress.
class RedisConnection::Link {
 public:
  Link(asio::io_context& context, Target target)
      : context_(context), target_(std::move(target)), shown_(target_.shown()) {}

  const std::string& shown() const { return shown_; }
  bool is_open() const { return stream_ != nullptr; }
  void close() {
    stream_.reset();
    unasked_.reset();
    is_ready_ = false;
    has_served_ = false;
  }

  void begin() { in_use_ = true; }

  // Closes the connection if the last exchange was abandoned, the server has closed it
  // meanwhile, or the server has sent something unsolicited.
  void drop_if_closed() {
    if (stream_ && (in_use_ || !stream_->is_quiet())) close();
  }

  void end(bool well) {
    in_use_ = false;
    if (well) return;
    if (stream_) stream_->abandon();
    close();
  }

  asio::awaitable<void> open(net::Budget& budget) {
    // First: without it a connection would be useless.
    const auto password = co_await target_.login.secret(context_, budget);
    secret_ = password == target_.login.user ? "" : password.value_or("");
    const auto login = login_commands(target_, password);
    const net::Peer peer{target_.host, target_.port, target_.path, target_.tls};
    stream_ = co_await net::open_stream(context_, peer, budget, last_used_);
    if (!login.empty()) check_login(target_, password, co_await ask(login, budget));
    budget.reached("logged in");
    is_ready_ = true;
  }

  // Sends `commands` and returns the replies. The connection must be open.
  asio::awaitable<std::vector<Reply>> ask(const std::vector<Command>& commands,
                                          net::Budget& budget) {
    const auto bytes = encoded(commands);
    co_await write(bytes, budget);
    ReplyReader reader;
    std::string begin;  // of the replies
    std::vector<Reply> replies;
    replies.reserve(commands.size());
    const bool is_soon = !commands.empty() && !blocks(commands.back());
    while (replies.size() < commands.size()) {
      const auto received = co_await read(budget, is_soon);
      if (received.empty()) throw_lost(closed_by(shown_, replies));
      has_replied_ = true;
      if (begin.empty()) begin = received.substr(0, longest_greeting);
      if (!reader.feed(received)) throw nonsense(reader, begin);
      while (auto reply = reader.next()) {
        require_room(*reply);
        // The code stays, whatever the password is.
        const auto code = reply->is_error() ? reply->error_code().size() : 0;
        if (code > 0) {
          const auto rest = without_secret(reply->text.substr(code), secret_);
          reply->text.replace(code, std::string::npos, rest);
        }
        replies.push_back(std::move(*reply));
      }
      if (!reader.error().empty()) throw nonsense(reader, begin);
    }
    if (replies.size() > commands.size() || !reader.is_empty()) {
      throw Failure::unreachable(shown_ + " sent more replies than requested");
    }
    co_return replies;
  }

  asio::awaitable<void> send(const std::vector<Command>& commands, net::Budget& budget) {
    const auto bytes = encoded(commands);
    co_await stream_->write(bytes, budget);
  }

  // The next reply; nothing on a timeout.
  asio::awaitable<std::optional<Reply>> receive(net::Budget& budget) {
    if (!unasked_) unasked_.emplace();
    for (;;) {
      auto reply = unasked_->next();
      if (!unasked_->error().empty()) throw nonsense(*unasked_, "");
      if (reply) co_return reply;
      const auto received = co_await stream_->read_until(budget);
      if (!received) co_return std::nullopt;
      if (received->empty()) throw closed_by(shown_, {});
      unasked_->feed(*received);
    }
  }

 private:
  asio::awaitable<void> write(std::string_view bytes, net::Budget& budget) {
    try {
      co_await stream_->write(bytes, budget);
    } catch (const Failure& failure) {
      if (failure.kind() != Failure::Kind::unreachable || budget.is_over()) throw;
      // A full server may have closed the connection before the write.
      if (!has_served_) require_room(reply_at_once().value_or(Reply{}));
      throw_lost(failure);
    }
  }

  // What the server has sent before it closed the connection, if anything.
  std::optional<Reply> reply_at_once() {
    ReplyReader reader;
    try {
      const auto said = stream_->read_at_once(shown_);
      if (said && reader.feed(*said)) return reader.next();
    } catch (const Failure&) {
    }
    return std::nullopt;
  }

  asio::awaitable<std::string_view> read(net::Budget& budget, bool is_soon) {
    try {
      co_return co_await stream_->read(budget, is_soon);
    } catch (const Failure& failure) {
      if (failure.kind() != Failure::Kind::unreachable || budget.is_over()) throw;
      throw_lost(failure);
    }
  }

  // Throws Refusal if the first reply says that the server has no room for the client.
  void require_room(const Reply& reply) {
    const bool is_first = !std::exchange(has_served_, true);
    if (!is_first || !says_full(reply)) return;
    throw net::Refusal(net::Refusal::Reason::overloaded,
                       net::cannot_reach(shown_, printable(reply.text, 200)).what());
  }

  // Until it is ready, nothing but a login was sent.
  [[noreturn]] void throw_lost(const Failure& failure) const {
    if (is_ready_) throw with_hint(failure);
    throw net::Refusal(net::Refusal::Reason::absent, with_hint(failure).what());
  }

  Failure with_hint(const Failure& failure) const {
    if (has_replied_ || target_.tls || !target_.path.empty()) return failure;
    return net::with_tls_hint(failure, "rediss://");
  }

  Failure nonsense(const ReplyReader& reader, std::string_view begin) const {
    return Failure::unreachable(shown_ + " does not speak the Redis protocol: " +
                                printable(net::lower_first(reader.error()), 200) +
                                (has_served_ ? "" : net::kind_of_server(begin)));
  }

  asio::io_context& context_;
  Target target_;
  std::string shown_;
  std::string secret_;  // the password of the last login
  std::unique_ptr<net::Stream> stream_;
  std::optional<ReplyReader> unasked_;  // of a connection that subscribes
  bool is_ready_ = false;               // logged in
  bool has_served_ = false;             // the server has replied on this connection
  bool in_use_ = false;
  bool has_replied_ = false;  // the server has replied at least once
  std::optional<net::Endpoint> last_used_;
};

RedisConnection::RedisConnection(asio::io_context& context, Target target)
    : link_(std::make_unique<Link>(context, std::move(target))) {}

RedisConnection::~RedisConnection() = default;

bool RedisConnection::is_open() const { return link_->is_open(); }

void RedisConnection::drop_if_closed() { link_->drop_if_closed(); }

void RedisConnection::close() { link_->close(); }

asio::awaitable<void> RedisConnection::open(Call call) {
  if (!is_open()) co_await exchange({}, call);
}

// Every failure closes the connection.
asio::awaitable<std::vector<Reply>> RedisConnection::exchange(
    std::vector<Command> commands, Call call, Reopening reopening) {
  net::Budget budget(call, link_->shown());
  std::vector<Reply> replies;
  try {
    budget.check();
    link_->drop_if_closed();
    if (!link_->is_open() && reopening == Reopening::refused) {
      throw closed_by(link_->shown(), {});
    }
    link_->begin();
    if (!link_->is_open()) co_await link_->open(budget);
    if (!commands.empty()) replies = co_await link_->ask(commands, budget);
  } catch (const Failure&) {
    link_->end(false);
    throw;
  }
  link_->end(true);
  co_return replies;
}

asio::awaitable<void> RedisConnection::send(std::vector<Command> commands, Call call) {
  co_await open(call);
  net::Budget budget(call, link_->shown());
  try {
    budget.check();
    co_await link_->send(commands, budget);
  } catch (const Failure&) {
    link_->end(false);
    throw;
  }
  link_->end(true);
}

asio::awaitable<std::optional<Reply>> RedisConnection::receive(Call call) {
  net::Budget budget(call, link_->shown());
  std::optional<Reply> reply;
  try {
    reply = co_await link_->receive(budget);
  } catch (const Failure&) {
    link_->end(false);
    throw;
  }
  link_->end(true);
  co_return reply;
}

}  // namespace dlock::redis

// Many waiters for one lock on a Redis server, as clients in one process:
//
//   dlock_crowd SOCKET WAITERS SECTION_MS [HISTORY_MS [IDLE_SECONDS [SERVE_SECONDS]]]
//
// They queue one after the other while another client holds the lock. Then the lock is
// released, and each holds it for SECTION_MS. Runs of HISTORY_MS are recorded before (0:
// none), so that the server can tell how quickly the queue will drain. Prints what the
// server needs for the queue, how long hand-offs take, and whether the order was kept;
// serves for SERVE_SECONDS at most.
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/open.hpp"
#include "store/redis/redis_connection.hpp"
#include "store/redis/redis_facts.hpp"
#include "util/bits.hpp"

namespace {

using namespace dlock;
using std::chrono::seconds;

// Longer than in real life: all clients share one process, whose work delays every reply.
constexpr milliseconds store_timeout{600'000};

struct Plan {
  std::string socket;
  std::size_t waiters = 0;
  milliseconds section{};
  milliseconds history{};
  seconds idle{};
  seconds serving{};
};

Claim new_claim() {
  Claim claim;
  claim.lock = {"dlock", "crowd"};
  claim.token = Token{random_bytes()};
  claim.ttl = seconds(3600);
  claim.command = {"true"};
  return claim;
}

RunEnd good_end(milliseconds took) {
  RunEnd end;
  end.exit_code = 0;
  end.outcome = "ran";
  end.duration = took;
  return end;
}

// One client, with its own store as each process has one.
struct Client {
  Client(asio::io_context& context, const StoreUrl& url)
      : store(open_store(url, store_timeout, context)),
        claimant(store->claimant(new_claim())),
        wakeup(context) {}

  std::unique_ptr<Store> store;
  std::unique_ptr<Claimant> claimant;
  Wakeup wakeup;
};

double per(double total, double count) { return count > 0 ? total / count : 0; }

class Crowd {
 public:
  Crowd(asio::io_context& context, Plan plan)
      : context_(context), plan_(std::move(plan)), timer_(context) {
    url_ = parsed_store_url("redis+unix:" + plan_.socket);
    connection_.emplace(context_, redis::targets_of(url_).front());
  }

  asio::awaitable<void> run() {
    Client holder(context_, url_);
    if (plan_.history.count() > 0) co_await record_runs();
    co_await holder.claimant->ask(Queue::join, holder.wakeup);
    const auto empty = co_await info();
    const auto began = Clock::now();
    for (std::size_t i = 0; i < plan_.waiters; ++i) co_await join(i);
    const auto took = Clock::now() - began;
    std::printf("joined          %zu in %.1f s\n", plan_.waiters, in_seconds(took));
    std::fflush(stdout);
    co_await report_idle(empty);
    co_await serve(holder);
    std::exit(inversions_ == 0 ? 0 : 1);  // parked ones may be asleep for minutes
  }

 private:
  static double in_seconds(Clock::duration span) {
    return std::chrono::duration<double>(span).count();
  }

  asio::awaitable<void> sleep(Clock::duration span) {
    // Not a Wakeup: the timer of a context looks at all of them each time.
    asio::steady_timer timer(context_);
    timer.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(span));
    co_await timer.async_wait(asio::use_awaitable);
  }

  asio::awaitable<redis::Fields> info() {
    std::vector<redis::Command> commands;
    for (const auto* section : {"clients", "memory", "stats", "cpu"}) {
      commands.push_back({"INFO", section});
    }
    Wakeup wakeup(context_);
    const auto replies =
        co_await connection_->exchange(std::move(commands), wakeup.within(store_timeout));
    redis::Fields fields;
    for (const auto& reply : replies) fields.merge(redis::fields_of_info(reply.text));
    co_return fields;
  }

  static double number(const redis::Fields& fields, const char* name) {
    const auto found = fields.find(name);
    return found == fields.end() ? 0 : std::strtod(found->second.c_str(), nullptr);
  }

  static double cpu(const redis::Fields& fields) {
    return number(fields, "used_cpu_user") + number(fields, "used_cpu_sys");
  }

  asio::awaitable<void> record_runs() {
    for (int i = 0; i < 5; ++i) {
      Client client(context_, url_);
      co_await client.claimant->ask(Queue::join, client.wakeup);
      co_await sleep(plan_.history);
      co_await client.claimant->release(good_end(plan_.history), client.wakeup);
    }
  }

  // Enters the queue; returns when the server has replied, so that the order is known.
  asio::awaitable<void> join(std::size_t number) {
    auto client = std::make_shared<Client>(context_, url_);
    co_await client->claimant->ask(Queue::join, client->wakeup);
    asio::co_spawn(context_, wait(std::move(client), number),
                   [](const std::exception_ptr& error) {
                     if (error) std::rethrow_exception(error);
                   });
  }

  asio::awaitable<void> wait(std::shared_ptr<Client> client, std::size_t number) {
    for (;;) {
      co_await client->claimant->await_turn(client->wakeup.within(milliseconds::max()));
      const auto answer = co_await client->claimant->ask(Queue::join, client->wakeup);
      if (std::holds_alternative<Grant>(answer)) break;
    }
    const auto now = Clock::now();
    hand_overs_.push_back(now - released_at_);
    if (number < next_) ++inversions_;
    next_ = std::max(next_, number + 1);
    if (plan_.section.count() > 0) co_await sleep(plan_.section);
    released_at_ = Clock::now();
    co_await client->claimant->release(good_end(plan_.section), client->wakeup);
    if (hand_overs_.size() == plan_.waiters) timer_.cancel();
  }

  asio::awaitable<void> report_idle(const redis::Fields& empty) {
    const auto before = co_await info();
    std::printf("connections     %.0f\n", number(before, "connected_clients"));
    std::printf("server memory   %.1f MB, %.0f bytes a waiter\n",
                number(before, "used_memory") / 1e6,
                per(number(before, "used_memory") - number(empty, "used_memory"),
                    static_cast<double>(plan_.waiters)));
    std::fflush(stdout);
    if (plan_.idle.count() == 0) co_return;
    co_await sleep(plan_.idle);
    const auto after = co_await info();
    const auto span = static_cast<double>(plan_.idle.count());
    std::printf(
        "while they wait %.0f commands/s of clients and scripts, %.1f new "
        "connections/s, %.1f %% of a core\n",
        (number(after, "total_commands_processed") -
         number(before, "total_commands_processed")) /
            span,
        (number(after, "total_connections_received") -
         number(before, "total_connections_received")) /
            span,
        100 * (cpu(after) - cpu(before)) / span);
    std::printf("connections     %.0f\n", number(after, "connected_clients"));
    std::fflush(stdout);
  }

  asio::awaitable<void> serve(Client& holder) {
    const auto before = co_await info();
    released_at_ = Clock::now();
    const auto began = released_at_;
    co_await holder.claimant->release(good_end(plan_.section), holder.wakeup);
    if (hand_overs_.size() < plan_.waiters) {
      timer_.expires_after(plan_.serving);
      boost::system::error_code ignored;
      co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    const auto took = in_seconds(Clock::now() - began);
    const auto after = co_await info();
    const auto served = hand_overs_.size();
    std::printf("served          %zu of %zu in %.1f s, %zu inversions\n", served,
                plan_.waiters, took, inversions_);
    const auto tenth = std::max<std::size_t>(served / 10, 1);
    std::printf(
        "hand-off        median %.2f ms, of the first tenth %.2f ms, of the last "
        "%.2f ms; longest %.0f ms\n",
        median(0, served), median(0, tenth), median(served - tenth, served), longest());
    std::printf(
        "server          %.1f commands of clients and scripts and %.2f ms of its "
        "core for each\n",
        per(number(after, "total_commands_processed") -
                number(before, "total_commands_processed"),
            static_cast<double>(served)),
        1000 * per(cpu(after) - cpu(before), static_cast<double>(served)));
    std::fflush(stdout);
  }

  double median(std::size_t from, std::size_t to) const {
    std::vector<Clock::duration> some(hand_overs_.begin() + static_cast<long>(from),
                                      hand_overs_.begin() + static_cast<long>(to));
    if (some.empty()) return 0;
    const auto middle = some.begin() + static_cast<long>(some.size() / 2);
    std::nth_element(some.begin(), middle, some.end());
    return 1000 * in_seconds(*middle);
  }

  double longest() const {
    const auto most = std::max_element(hand_overs_.begin(), hand_overs_.end());
    return most == hand_overs_.end() ? 0 : 1000 * in_seconds(*most);
  }

  asio::io_context& context_;
  Plan plan_;
  StoreUrl url_;
  std::optional<redis::RedisConnection> connection_;
  asio::steady_timer timer_;
  Clock::time_point released_at_;
  std::vector<Clock::duration> hand_overs_;
  std::size_t next_ = 0;
  std::size_t inversions_ = 0;
};

long number_at(int argc, char** argv, int at, long otherwise) {
  return argc > at ? std::strtol(argv[at], nullptr, 10) : otherwise;
}

void raise_limit_of_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 64;
  raise_limit_of_files();
  Plan plan;
  plan.socket = argv[1];
  plan.waiters = static_cast<std::size_t>(number_at(argc, argv, 2, 0));
  plan.section = milliseconds(number_at(argc, argv, 3, 0));
  plan.history = milliseconds(number_at(argc, argv, 4, 0));
  plan.idle = seconds(number_at(argc, argv, 5, 0));
  plan.serving = seconds(number_at(argc, argv, 6, 3600));
  try {
    asio::io_context context(1);
    Crowd crowd(context, plan);
    asio::co_spawn(context, crowd.run(), [](const std::exception_ptr& error) {
      if (error) std::rethrow_exception(error);
    });
    context.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dlock_crowd: %s\n", error.what());
    return 70;
  }
}

#include "store/redis/redis_store.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "record/encoders.hpp"
#include "store/redis/records.hpp"
#include "store/redis/redis_claimant.hpp"
#include "store/redis/redis_health.hpp"
#include "store/redis/redis_inspector.hpp"
#include "store/redis/script_calls.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// Far from where sums of times would overflow.
constexpr std::int64_t greatest = std::int64_t{1} << 53;

std::optional<Clock::time_point> moment_from(const Reply& reply) {
  const auto at = dlock::number_in<std::int64_t>(reply.text);
  if (!at || *at < 0 || *at > greatest) return std::nullopt;
  return Clock::time_point(std::chrono::microseconds(*at));
}

// "TOKEN PID HOST"
std::optional<rules::Turn> turn_from(const std::string& member, const Reply& at) {
  const auto moment = moment_from(at);
  record::RecordWords words(member);
  const auto token = token_from(words.next());
  if (!moment || !token) return std::nullopt;
  rules::Turn turn{*token, *moment};
  words(turn.pid);
  const auto host = percent_decoded(words.rest());
  if (!words.is_usable() || !host) return std::nullopt;
  turn.host = *host;
  return turn;
}

// The limit of a string on the server.
constexpr std::int64_t largest = std::int64_t{512} << 20;

std::optional<std::int64_t> count_in(const std::string& text) {
  const auto number = dlock::number_in<std::int64_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

// The value may be replaced between the read of its record and that of its data.
constexpr int most_looks = 3;

std::string key_of_value(const LockName& lock) { return key_of(lock) + ":v"; }

std::string key_of_data(const LockName& lock, const std::string& fence) {
  return key_of_value(lock) + ":" + fence;
}

std::string lease_ttl(const Claim& claim) {
  return std::to_string((claim.ttl + claim.lock_delay).count());
}

bool is_word(const Reply& reply, const char* word) {
  return reply.kind == Reply::Kind::string && reply.text == word;
}

class RedisValues final : public ValueStore {
 public:
  // `route` must outlive this.
  explicit RedisValues(Route& route) : route_(route) {}

  asio::awaitable<ValueLookup> get(const LockName& lock, std::size_t most,
                                   Wakeup& wakeup) override {
    for (int looks = 0; looks < most_looks; ++looks) {
      const auto record = co_await look_up(lock, wakeup);
      if (!record) co_return ValueLookup{};
      if (record->size > most) co_return too_large(record->size, most);
      auto bytes = record->data;
      if (record->is_in_pieces()) bytes = co_await read_pieces(lock, *record, wakeup);
      if (bytes.size() == record->size && checksum_text(checksum(bytes)) == record->sum) {
        ValueLookup found;
        found.value = Value{std::move(bytes), record->is_fresh};
        co_return found;
      }
    }
    const auto* node = co_await route_.open(lock, route_.new_call(wakeup));
    ValueLookup damaged;
    damaged.damage = node->name() + ": the stored value is incomplete";
    co_return damaged;
  }

  asio::awaitable<ValueLook> describe(const LockName& lock, Wakeup& wakeup) override {
    const auto replies = co_await read_fields(lock, value_info_fields, wakeup);
    co_return ValueLook{value_info_from(replies[0], replies[1]), ""};
  }

  asio::awaitable<Storing> put(const Claim& claim, const std::string& bytes,
                               Lifetime lifetime, Wakeup& wakeup) override {
    const bool in_pieces = bytes.size() > value_piece;
    if (in_pieces) {
      const auto written = co_await write_pieces(claim, bytes, wakeup);
      if (written == Storing::not_ours) co_return written;
    }
    std::vector<std::string> args{text_of(claim.token),
                                  lease_ttl(claim),
                                  std::to_string((lifetime.ttl + lifetime.stale).count()),
                                  std::to_string(lifetime.stale.count()),
                                  std::to_string(bytes.size()),
                                  checksum_text(checksum(bytes)),
                                  in_pieces ? "1" : "0",
                                  in_pieces ? "" : bytes};
    const auto response =
        co_await route_.run(put_value_script, claim.lock, std::move(args), wakeup);
    if (is_word(response.reply(), "not ours")) co_return Storing::not_ours;
    if (!is_word(response.reply(), "stored")) throw response.failure();
    co_return Storing::stored;
  }

  asio::awaitable<void> forget(const LockName& lock, Wakeup& wakeup) override {
    const auto record = co_await look_up(lock, wakeup);
    Command forget{"DEL", key_of_value(lock)};
    if (record) forget.push_back(key_of_data(lock, record->fence));
    const auto response =
        co_await route_.exchange(lock, alone(std::move(forget)), wakeup);
    if (response.reply().is_error()) throw response.failure();
  }

 private:
  // The fields of a value and how long it has left. One round trip without a script: a
  // value that expires between the two commands is just treated as missing.
  asio::awaitable<std::vector<Reply>> read_fields(const LockName& lock,
                                                  std::span<const char* const> names,
                                                  Wakeup& wakeup) {
    Command fields{"HMGET", key_of_value(lock)};
    fields.insert(fields.end(), names.begin(), names.end());
    std::vector<Command> commands;
    commands.push_back(std::move(fields));
    commands.push_back({"PTTL", key_of_value(lock)});
    auto response = co_await route_.exchange(lock, std::move(commands), wakeup);
    for (const auto& reply : response.replies) {
      if (reply.is_error()) throw response.node->failure(reply);
    }
    co_return std::move(response.replies);
  }

  asio::awaitable<std::optional<ValueRecord>> look_up(const LockName& lock,
                                                      Wakeup& wakeup) {
    const auto replies = co_await read_fields(lock, value_fields, wakeup);
    co_return value_record_from(replies[0], replies[1]);
  }

  asio::awaitable<std::string> read_pieces(const LockName& lock,
                                           const ValueRecord& record, Wakeup& wakeup) {
    std::string bytes;
    bytes.reserve(record.size);
    while (bytes.size() < record.size) {
      const auto last = std::min(bytes.size() + value_piece, record.size) - 1;
      Command read{"GETRANGE", key_of_data(lock, record.fence),
                   std::to_string(bytes.size()), std::to_string(last)};
      const auto response =
          co_await route_.exchange(lock, alone(std::move(read)), wakeup);
      const auto& reply = response.reply();
      if (reply.kind != Reply::Kind::string) throw response.failure();
      bytes += reply.text;
      if (bytes.size() != last + 1) break;  // it was removed, or is another one
    }
    co_return bytes;
  }

  asio::awaitable<Storing> write_pieces(const Claim& claim, const std::string& bytes,
                                        Wakeup& wakeup) {
    for (std::size_t begin = 0; begin < bytes.size(); begin += value_piece) {
      std::vector<std::string> args{text_of(claim.token), lease_ttl(claim),
                                    std::to_string(begin),
                                    bytes.substr(begin, value_piece)};
      const auto response =
          co_await route_.run(put_piece_script, claim.lock, std::move(args), wakeup);
      if (is_word(response.reply(), "not ours")) co_return Storing::not_ours;
      if (!is_word(response.reply(), "written")) throw response.failure();
    }
    co_return Storing::stored;
  }

  Route& route_;
};

class RedisRates final : public RateLimits {
 public:
  // `route` must outlive this.
  RedisRates(asio::io_context& context, Route& route)
      : context_(context), route_(route) {}

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override {
    std::vector<std::string> args{member_of(claim), std::to_string(claim.rate.most),
                                  std::to_string(claim.rate.period.count()),
                                  std::to_string(claim.patience.count())};
    const auto response =
        co_await route_.run(limit_script, claim.limit, std::move(args), wakeup);
    co_return response.checked(rate_answer_from(response.reply()));
  }

  // As in release(): not `wakeup`, which may be interrupted.
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override {
    std::vector<std::string> args{member_of(claim)};
    Wakeup own(context_);
    const Call call{wakeup.last_request_until(route_.timeout(), last_patience), own};
    const auto response =
        co_await route_.run(withdraw_script, claim.limit, std::move(args), call);
    if (response.reply().is_error()) throw response.failure();
  }

  asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) override {
    const auto response = co_await route_.run(look_at_limit_script, limit, {}, wakeup);
    auto kept = response.checked(kept_limit_from(response.reply()));
    co_return rules::look(std::move(kept.state), kept.now);
  }

  asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) override {
    Command forget{"DEL"};
    for (const char* part : {":limit", ":limit:stamps", ":limit:queue", ":limit:turns"}) {
      forget.push_back(key_of(limit) + part);
    }
    const auto response =
        co_await route_.exchange(limit, alone(std::move(forget)), wakeup);
    if (response.reply().is_error()) throw response.failure();
  }

 private:
  asio::io_context& context_;
  Route& route_;
};

class RedisStore final : public Store {
 public:
  // `url` as users see it, without secrets.
  RedisStore(asio::io_context& context, std::string url, std::unique_ptr<Route> route)
      : context_(context),
        url_(std::move(url)),
        route_(std::move(route)),
        inspector_(*route_),
        values_(*route_),
        rates_(context, *route_) {}

  std::string url() const override { return url_; }
  bool leases_expire() const override { return true; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override {
    return std::make_unique<RedisClaimant>(context_, *route_, claim);
  }

  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override {
    std::vector<std::string> args;
    args.reserve(2 + order.fences.size());
    args.push_back(taker_text());
    args.emplace_back(order.by_force ? "forced_by" : "broken_by");
    for (const auto& fence : order.fences) args.push_back(std::to_string(fence.number));
    const auto response =
        co_await route_->run(break_script, lock, std::move(args), wakeup);
    std::vector<Broken> broken;
    for (auto& holder : response.checked(broken_from(response.reply()))) {
      broken.push_back({std::move(holder), {}});
    }
    co_return broken;
  }

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override {
    std::vector<std::string> args{std::to_string(fence.number)};
    const auto response =
        co_await route_->run(admit_fence_script, resource, std::move(args), wakeup);
    co_return response.checked(admission_from(response.reply()));
  }

  LockInspector& inspector() override { return inspector_; }
  ValueStore* values() override { return &values_; }
  RateLimits* rates() override { return &rates_; }

 private:
  asio::io_context& context_;
  std::string url_;
  std::unique_ptr<Route> route_;
  RedisInspector inspector_;
  RedisValues values_;
  RedisRates rates_;
};

}  // namespace

std::string member_of(const RateClaim& claim) {
  return text_of(claim.token) + " " + std::to_string(claim.pid) + " " +
         percent_encoded(claim.host);
}

std::optional<KeptLimit> kept_limit_from(const Reply& reply) {
  const auto& parts = reply.elements;
  constexpr std::int64_t most = 10'000;  // the limit of the command line
  if (reply.kind != Reply::Kind::array || parts.size() != 5 ||
      parts[1].kind != Reply::Kind::integer || parts[2].kind != Reply::Kind::integer ||
      parts[1].integer < 0 || parts[1].integer > most || parts[2].integer < 0 ||
      parts[2].integer > greatest || parts[4].elements.size() % 2 != 0) {
    return std::nullopt;
  }
  const auto now = moment_from(parts[0]);
  if (!now) return std::nullopt;
  KeptLimit kept;
  kept.now = *now;
  kept.state.rate = {static_cast<unsigned>(parts[1].integer),
                     milliseconds(parts[2].integer)};
  for (const auto& stamp : parts[3].elements) {
    const auto moment = moment_from(stamp);
    if (!moment) return std::nullopt;
    kept.state.stamps.push_back(*moment);
  }
  if (!std::ranges::is_sorted(kept.state.stamps)) return std::nullopt;
  const auto& turns = parts[4].elements;
  for (std::size_t i = 0; i < turns.size(); i += 2) {
    auto turn = turn_from(turns[i].text, turns[i + 1]);
    if (!turn) return std::nullopt;
    kept.state.turns.push_back(std::move(*turn));
  }
  return kept;
}

std::optional<ValueRecord> value_record_from(const Reply& fields, const Reply& left) {
  if (fields.kind != Reply::Kind::array ||
      fields.elements.size() != std::size(value_fields) ||
      left.kind != Reply::Kind::integer) {
    return std::nullopt;
  }
  const bool is_there = std::ranges::all_of(fields.elements, [](const Reply& field) {
    return field.kind == Reply::Kind::string;
  });
  if (!is_there || left.integer <= 0) return std::nullopt;
  const auto fence = count_in(fields.elements[0].text);
  const auto size = count_in(fields.elements[1].text);
  const auto stale = count_in(fields.elements[3].text);
  if (!fence || !size || *size > largest || !stale) return std::nullopt;
  ValueRecord record;
  record.fence = fields.elements[0].text;
  record.size = static_cast<std::size_t>(*size);
  record.sum = fields.elements[2].text;
  record.data = fields.elements[4].text;
  record.is_fresh = left.integer > *stale;
  return record;
}

std::optional<ValueInfo> value_info_from(const Reply& fields, const Reply& left) {
  if (fields.kind != Reply::Kind::array ||
      fields.elements.size() != std::size(value_info_fields) ||
      left.kind != Reply::Kind::integer || left.integer <= 0) {
    return std::nullopt;
  }
  const auto size = count_in(fields.elements[0].text);
  const auto stale = count_in(fields.elements[1].text);
  const auto lives = count_in(fields.elements[2].text);
  if (!size || *size > largest || !stale) return std::nullopt;
  ValueInfo info;
  info.size = static_cast<std::size_t>(*size);
  if (lives && *lives >= left.integer) info.age = milliseconds(*lives - left.integer);
  info.fresh_for = milliseconds(std::max<std::int64_t>(left.integer - *stale, 0));
  info.expires_in = milliseconds(left.integer);
  return info;
}

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  auto route = std::make_unique<SoleRoute>(context, targets_of(url).front(), timeout);
  return store_of(context, url.text(), std::move(route));
}

asio::awaitable<Examination> examine(const ExaminationOrder& order) {
  const auto facts = co_await facts_of_all(order, targets_of(order.url));
  co_return examination_of(facts.front());
}

std::unique_ptr<Store> store_of(asio::io_context& context, std::string url,
                                std::unique_ptr<Route> route) {
  return std::make_unique<RedisStore>(context, std::move(url), std::move(route));
}

}  // namespace dlock::redis

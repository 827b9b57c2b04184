#include "store/redis/redis_values.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "store/redis/keys.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// The value may be replaced between the read of its record and that of its data.
constexpr int most_looks = 3;

std::string key_of_value(const LockName& lock) { return key_of(lock) + ":v"; }

std::string key_of_data(const LockName& lock, const std::string& fence) {
  return key_of_value(lock) + ":" + fence;
}

std::string lease_ttl(const Claim& claim) {
  return std::to_string((claim.ttl + claim.lock_delay).count());
}

bool says(const Reply& reply, const char* word) {
  return reply.kind == Reply::Kind::string && reply.text == word;
}

}  // namespace

// The fields of a value and how long it has left. One round trip without a script: a
// value that expires between the two commands is just treated as missing.
asio::awaitable<std::vector<Reply>> RedisValues::read_fields(
    const LockName& lock, std::span<const char* const> names, Wakeup& wakeup) {
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

asio::awaitable<std::optional<ValueRecord>> RedisValues::look_up(const LockName& lock,
                                                                 Wakeup& wakeup) {
  const auto replies = co_await read_fields(lock, value_fields, wakeup);
  co_return value_record_from(replies[0], replies[1]);
}

asio::awaitable<std::string> RedisValues::read_pieces(const LockName& lock,
                                                      const ValueRecord& record,
                                                      Wakeup& wakeup) {
  std::string bytes;
  bytes.reserve(record.size);
  while (bytes.size() < record.size) {
    const auto last = std::min(bytes.size() + value_piece, record.size) - 1;
    Command read{"GETRANGE", key_of_data(lock, record.fence),
                 std::to_string(bytes.size()), std::to_string(last)};
    const auto response = co_await route_.exchange(lock, alone(std::move(read)), wakeup);
    const auto& reply = response.reply();
    if (reply.kind != Reply::Kind::string) throw response.failure();
    bytes += reply.text;
    if (bytes.size() != last + 1) break;  // it is gone, or another one
  }
  co_return bytes;
}

asio::awaitable<ValueLookup> RedisValues::get(const LockName& lock, std::size_t most,
                                              Wakeup& wakeup) {
  for (int looks = 0; looks < most_looks; ++looks) {
    const auto record = co_await look_up(lock, wakeup);
    if (!record) co_return ValueLookup{};
    if (record->size > most) co_return too_large(record->size, most);
    auto bytes = record->data;
    if (record->is_in_pieces()) bytes = co_await read_pieces(lock, *record, wakeup);
    if (bytes.size() == record->size && sum_of(bytes) == record->sum) {
      ValueLookup found;
      found.value = Value{std::move(bytes), record->is_fresh};
      co_return found;
    }
  }
  const auto* node = co_await route_.open(lock, route_.budget_end(), wakeup);
  ValueLookup damaged;
  damaged.damage = node->name() + ": the stored value is incomplete";
  co_return damaged;
}

asio::awaitable<ValueLook> RedisValues::describe(const LockName& lock, Wakeup& wakeup) {
  const auto replies = co_await read_fields(lock, value_info_fields, wakeup);
  co_return ValueLook{value_info_from(replies[0], replies[1]), ""};
}

asio::awaitable<Storing> RedisValues::write_pieces(const Claim& claim,
                                                   const std::string& bytes,
                                                   Wakeup& wakeup) {
  for (std::size_t begin = 0; begin < bytes.size(); begin += value_piece) {
    std::vector<std::string> args{text_of(claim.token), lease_ttl(claim),
                                  std::to_string(begin),
                                  bytes.substr(begin, value_piece)};
    const auto response =
        co_await route_.run(put_piece_script, claim.lock, std::move(args), wakeup);
    if (says(response.reply(), "not ours")) co_return Storing::not_ours;
    if (!says(response.reply(), "written")) throw response.failure();
  }
  co_return Storing::stored;
}

asio::awaitable<Storing> RedisValues::put(const Claim& claim, const std::string& bytes,
                                          Lifetime lifetime, Wakeup& wakeup) {
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
                                sum_of(bytes),
                                in_pieces ? "1" : "0",
                                in_pieces ? "" : bytes};
  const auto response =
      co_await route_.run(put_value_script, claim.lock, std::move(args), wakeup);
  if (says(response.reply(), "not ours")) co_return Storing::not_ours;
  if (!says(response.reply(), "stored")) throw response.failure();
  co_return Storing::stored;
}

asio::awaitable<void> RedisValues::forget(const LockName& lock, Wakeup& wakeup) {
  const auto record = co_await look_up(lock, wakeup);
  Command forget{"DEL", key_of_value(lock)};
  if (record) forget.push_back(key_of_data(lock, record->fence));
  const auto response = co_await route_.exchange(lock, alone(std::move(forget)), wakeup);
  if (response.reply().is_error()) throw response.failure();
}

}  // namespace dlock::redis

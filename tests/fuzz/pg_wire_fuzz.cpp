// What a PostgreSQL server sends after the login, in pieces of any size.

#include <algorithm>
#include <string>

#include "fuzz.hpp"
#include "store/postgres/pg_errors.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_standing.hpp"

using namespace dlock;
using fuzz::require;

namespace {

// Small enough for inputs to reach them.
constexpr postgres::WireLimits wire_limits{300, 400, 8, 5, 5};

std::string described(const postgres::Notice& notice) {
  return notice.severity + "/" + notice.code + "/" + notice.message + "\n";
}

// What the store reads of a result is there, or a failure.
std::string described(const postgres::Result& result) {
  std::string text;
  if (const auto standing = postgres::standing_from(result)) {
    text = std::to_string(standing->timeline) + "/" + std::to_string(standing->pid) +
           "/" + standing->started + (standing->is_standby ? " standby" : "") +
           (standing->is_read_only ? " read-only" : "");
    for (const bool all : {false, true}) {
      const auto why = postgres::too_few_standbys({all, 2}, standing->standby_names,
                                                  standing->followers);
      text += why.value_or(" enough");
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    try {
      const auto& row = postgres::row_at(result, i, "host:1");
      text += postgres::column_at(row, i, "host:1").value_or("NULL");
      text += std::to_string(postgres::number_at(row, i).value_or(0));
      text += std::to_string(postgres::time_at(row, i, "host:1").count()) + "\n";
    } catch (const Failure& failure) {
      fuzz::require_message(failure);
    }
  }
  return text;
}

// Everything that results from `bytes`, as the replies to two batches, if they arrive in
// pieces of `size`.
std::string replies_in(std::string_view bytes, std::size_t size) {
  postgres::WireReader reader(wire_limits.message);
  postgres::BatchReplies replies(wire_limits);
  const postgres::Batch may_fail(1, postgres::Statement{"SELECT 1", {}, true});
  replies.expect({postgres::Batch(2), may_fail, postgres::Batch(1)});
  bool is_well = true;
  while (!bytes.empty() && is_well) {
    reader.feed(bytes.substr(0, size));
    bytes.remove_prefix(std::min(size, bytes.size()));
    while (const auto message = reader.next()) {
      require(message->body.size() <= wire_limits.message, "no message is too long");
      is_well = replies.take(*message);
      require(is_well == replies.error().empty(), "a failure has a reason");
      if (!is_well) break;
    }
    if (!reader.error().empty()) require(!reader.next(), "a failure is for good");
    is_well = is_well && reader.error().empty();
  }
  std::string all = is_well ? "" : "failed\n";
  if (replies.is_complete()) all += "complete\n";
  if (const auto& fault = replies.fault()) {
    all += described(*fault);
    fuzz::require_message(postgres::SqlError(*fault, "host:1", replies.faulty_batch()));
  }
  std::size_t columns = 0;
  for (const auto& result : replies.take_results()) {
    all += result.tag + "\n" + described(result);
    for (const auto& row : result.rows) {
      columns = std::max(columns, row.size());
      for (const auto& value : row) all += value.value_or("NULL") + ";";
    }
    for (const auto& warning : result.warnings) all += described(warning);
    require(result.warnings.size() <= wire_limits.notices, "few notices are kept");
  }
  require(columns <= wire_limits.columns, "no row has too many columns");
  while (const auto news = replies.next_notification()) {
    all += news->channel + "=" + news->payload + "\n";
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::text_of(data, size);
  const auto whole = replies_in(bytes, std::string_view::npos);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{17}}) {
    require(replies_in(bytes, piece) == whole, "the pieces do not matter");
  }
  return 0;
}

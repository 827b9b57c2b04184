#include "store/postgres/kept_statements.hpp"

#include <utility>

namespace dlock::postgres {
namespace {

// Each takes some kilobytes of the server's memory.
constexpr unsigned most_names = 40;

// A run that does not wait acquires and releases with fewer, and listens to nothing.
constexpr unsigned exchanges_of_a_short_session = 3;

bool listens(const std::vector<Batch>& batches) {
  for (const auto& batch : batches) {
    for (const auto& statement : batch) {
      if (statement.sql.starts_with("LISTEN ")) return true;
    }
  }
  return false;
}

}  // namespace

// Without parameters there is nothing to plan, and the text is often another one.
void KeptStatements::name(std::uint64_t session, std::vector<Batch>& batches) {
  new_.clear();
  if (std::exchange(session_, session) != session) {
    names_.clear();
    used_names_ = exchanges_ = 0;
    is_worth_it_ = false;
  }
  is_worth_it_ =
      is_worth_it_ || ++exchanges_ > exchanges_of_a_short_session || listens(batches);
  if (is_off_ || !is_worth_it_) return;
  for (auto& batch : batches) {
    for (auto& statement : batch) {
      if (statement.params.empty()) continue;
      const auto kept = names_.find(statement.sql);
      statement.is_kept = kept != names_.end();
      if (statement.is_kept) {
        statement.name = kept->second;
      } else if (used_names_ < most_names && !new_.contains(statement.sql)) {
        statement.name = "dlock_" + std::to_string(++used_names_);
        new_[statement.sql] = statement.name;
      }
    }
  }
}

void KeptStatements::note() {
  names_.insert(new_.begin(), new_.end());
  new_.clear();
}

bool KeptStatements::is_lost(const SqlError& error) {
  constexpr const char* no_such_statement = "26000";
  if (error.code() != no_such_statement) return false;
  is_off_ = true;
  return true;
}

}  // namespace dlock::postgres

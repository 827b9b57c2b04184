// Which statements the server keeps for a session.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "store/postgres/pg_errors.hpp"
#include "store/postgres/pg_wire.hpp"

namespace dlock::postgres {

// What a session executes a second time, the server need not parse again, nor plan. Not
// behind a pooler, where the next transaction may have another session. To keep
// statements costs more than it saves in the session of a run that does not wait.
class KeptStatements {
 public:
  // Names those of the statements that are worth it. The batches are what is sent next in
  // this session.
  void name(std::uint64_t session, std::vector<Batch>& batches);

  // None of what name() has named last was refused.
  void note();

  // Whether the server has lost a statement, as behind a pooler that does not look like
  // one. None is named from then on.
  bool is_lost(const SqlError& error);

 private:
  std::uint64_t session_ = 0;
  unsigned exchanges_ = 0;                    // in the session, behind its first one
  bool is_worth_it_ = false;                  // in the session
  std::map<std::string, std::string> names_;  // of SQL
  std::map<std::string, std::string> new_;
  unsigned used_names_ = 0;  // those of refused statements as well
  bool is_off_ = false;
};

}  // namespace dlock::postgres

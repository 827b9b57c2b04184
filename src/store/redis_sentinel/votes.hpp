// What several sentinels say, and what that comes to. Plain functions on values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "store/redis/announced.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/route.hpp"
#include "util/failure.hpp"

namespace dlock::redis_sentinel {

using redis::Address;
using redis::Reply;
using redis::Word;

// What one sentinel says of a primary and its replicas.
struct Vote {
  std::optional<Address> primary;    // nothing: it knows none of that name
  std::map<Address, bool> replicas;  // and whether each is up
};

// What became of the question to one sentinel; neither while it has not answered.
struct Ballot {
  std::optional<Vote> vote;
  std::optional<Failure> failure;

  bool is_open() const { return !vote && !failure; }
};

// A sentinel's replies to GET-MASTER-ADDR-BY-NAME and, if that was asked, REPLICAS; or
// the first of them that is no answer.
std::variant<Vote, Reply> vote_from(const std::vector<Reply>& replies);

// The address that more than half of all sentinels name: one beside an old primary that
// is cut off must not be enough. Nothing if there is none.
std::optional<Address> elected(const std::vector<Ballot>& ballots);

// What they say of an address, and whether that is certain though some have not answered.
bool is_certain(const Address& address, const std::vector<Ballot>& ballots);
Word word_on(const Address& address, const std::vector<Ballot>& ballots);

// How many replicas are up: those that more than half of all sentinels see down are not.
unsigned replicas_up(const std::vector<Ballot>& ballots);

// Whether any names another address than this one.
bool is_another_named(const Address& address, const std::vector<Ballot>& ballots);

// Why there is no such address: exhausted if this machine was short of something,
// misconfigured if most know no primary of the name, rejected or misconfigured if most
// fail so, unreachable else. `names` are those of the sentinels, in the order of the
// ballots.
Failure nobody_elected(const std::string& master, const std::vector<std::string>& names,
                       const std::vector<Ballot>& ballots);

}  // namespace dlock::redis_sentinel

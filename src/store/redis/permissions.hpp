// The commands and ACL permissions that dlock needs, and how to check each of them.
//
// Tests compare the manual's ACL line, and the permissions that the tests run with, with
// this table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::redis {

// A command that dlock or one of its scripts calls.
struct Permission {
  std::string_view name;  // as in an ACL rule
  // The command for the check. KEY stands for a key, NAMESPACE for the prefix of all
  // keys.
  std::string_view form;
  enum class How {
    tried,  // calling `form` has no effect: permissions are checked before arguments
    asked,  // every form has an effect, but a script can ask whether it may call this one
    known,  // follows from whether that script could run
  } how = How::tried;
  // Whether only dlock watch needs it, and locks do not.
  bool is_for_watch = false;
};

constexpr Permission needed_permissions[] = {
    {"client|setname", "CLIENT SETNAME dlock"},
    {"publish", "PUBLISH KEY:e x", Permission::How::asked, true},
    {"xadd", "XADD KEY x x x", Permission::How::tried, true},
    {"xrange", "XRANGE KEY x x", Permission::How::tried, true},
    {"subscribe", "SUBSCRIBE KEY:e", Permission::How::asked, true},
    {"psubscribe", "PSUBSCRIBE NAMESPACE:*", Permission::How::asked, true},
    {"ping", "PING", Permission::How::tried, true},
    {"evalsha", "EVALSHA 0000000000000000000000000000000000000000 1 KEY"},
    {"eval", "", Permission::How::known},
    {"blpop", "BLPOP KEY x"},
    {"scan", "SCAN x"},
    {"select", "SELECT x"},
    {"time", "TIME"},
    {"exists", "EXISTS KEY"},
    {"get", "GET KEY"},
    {"set", "SET KEY x NX XX"},
    {"del", "DEL KEY"},
    {"pttl", "PTTL KEY"},
    {"pexpire", "PEXPIRE KEY x"},
    {"getrange", "GETRANGE KEY 0 0"},
    {"setrange", "SETRANGE KEY x x"},
    {"hget", "HGET KEY x"},
    {"hset", "HSET KEY x x x"},
    {"hdel", "HDEL KEY x"},
    {"hgetall", "HGETALL KEY"},
    {"hmget", "HMGET KEY x"},
    {"lindex", "LINDEX KEY 0"},
    {"lpush", "LPUSH KEY x", Permission::How::asked},
    {"lrem", "LREM KEY x x"},
    {"ltrim", "LTRIM KEY x x"},
    {"rpush", "RPUSH KEY x", Permission::How::asked},
    {"zadd", "ZADD KEY x x"},
    {"zcard", "ZCARD KEY"},
    {"zrange", "ZRANGE KEY 0 0"},
    {"zrank", "ZRANK KEY x"},
    {"zrem", "ZREM KEY x"},
    {"zremrangebyscore", "ZREMRANGEBYSCORE KEY x x"},
    {"zscore", "ZSCORE KEY x"},
};

// The same for servers that fail over, of a cluster, and of a quorum.
constexpr Permission needed_on_replicated[] = {{"role", "ROLE"}, {"wait", "WAIT x x"}};
constexpr Permission needed_in_cluster[] = {{"cluster|myid", "CLUSTER MYID"},
                                            {"cluster|slots", "CLUSTER SLOTS"},
                                            {"wait", "WAIT x x"}};
constexpr Permission needed_in_quorum[] = {{"role", "ROLE"}, {"info", "INFO server"}};

// A command without effect. Its reply tells whether the server knows the command and, if
// `tells_rights`, whether the user may call it. Servers check whether they know a
// command, and then its number of arguments, before permissions; and these before the
// arguments.
struct Trial {
  const Permission* right;
  std::vector<std::string> command;
  bool tells_rights;
};

// With a key and the prefix of all keys.
std::vector<Trial> trials_of(std::span<const Permission> rights, const std::string& key,
                             const std::string& prefix);

// "CLIENT SETNAME x" as three words.
std::vector<std::string> words_of(std::string_view command);

// The form of a permission with these, split into words.
std::vector<std::string> command_of(const Permission& right, const std::string& key,
                                    const std::string& prefix);

// "CLIENT SETNAME" for client|setname.
std::string shown_name(const Permission& right);

}  // namespace dlock::redis

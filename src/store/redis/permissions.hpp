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
  enum class How {
    tried,  // calling `form` has no effect: permissions are checked before arguments
    asked,  // every form has an effect, but a script can ask whether it may call this one
    known,  // follows from whether that script could run
    not_needed,  // locks and dlock watch work without: not checked
  };
  // The command for the check, in its first word a | before a subcommand. KEY stands for
  // a key, NAMESPACE for the prefix of all keys.
  std::string_view form;
  How how = How::tried;
  // Whether only dlock watch needs it, and locks do not.
  bool is_for_watch = false;
};
using How = Permission::How;

constexpr Permission needed_permissions[] = {
    {"CLIENT|SETNAME dlock", How::not_needed},
    {"PUBLISH KEY:e x", How::asked, true},
    {"XADD KEY x x x", How::tried, true},
    {"XRANGE KEY x x", How::tried, true},
    {"SUBSCRIBE KEY:e", How::asked, true},
    {"PSUBSCRIBE NAMESPACE:*", How::asked, true},
    {"PING", How::tried, true},
    {"EVALSHA x 1 KEY"},
    {"EVAL", How::known},
    {"BLPOP KEY x"},
    {"SCAN x"},
    {"SELECT x"},
    {"TIME"},
    {"EXISTS KEY"},
    {"GET KEY"},
    {"SET KEY x NX XX"},
    {"DEL KEY"},
    {"PTTL KEY"},
    {"PEXPIRE KEY x"},
    {"GETRANGE KEY 0 0"},
    {"SETRANGE KEY x x"},
    {"HGET KEY x"},
    {"HSET KEY x x x"},
    {"HDEL KEY x"},
    {"HGETALL KEY"},
    {"HMGET KEY x"},
    {"LINDEX KEY 0"},
    {"LPUSH KEY x", How::asked},
    {"LREM KEY x x"},
    {"LTRIM KEY x x"},
    {"RPUSH KEY x", How::asked},
    {"ZADD KEY x x"},
    {"ZCARD KEY"},
    {"ZRANGE KEY 0 0"},
    {"ZRANK KEY x"},
    {"ZREM KEY x"},
    {"ZREMRANGEBYSCORE KEY x x"},
    {"ZSCORE KEY x"},
};

// The same for servers that fail over, of a cluster, and of a quorum.
constexpr Permission needed_on_replicated[] = {{"ROLE"}, {"WAIT x x"}};
constexpr Permission needed_in_cluster[] = {
    {"CLUSTER|MYID"}, {"CLUSTER|SLOTS"}, {"ROLE"}, {"WAIT x x"}};
constexpr Permission needed_in_quorum[] = {{"ROLE"}, {"INFO server"}};

// A command without effect. Its reply tells whether the server knows the command and, if
// the permission is tried, whether the user may call it. Servers check whether they know
// a command, and then its number of arguments, before permissions; and these before the
// arguments. With a key and the prefix of all keys.
std::vector<std::string> trial_of(const Permission& right, const std::string& key,
                                  const std::string& prefix);

// "GET KEY" as two words.
std::vector<std::string> words_of(std::string_view command);

// The form of a permission with these.
std::string form_of(const Permission& right, const std::string& key,
                    const std::string& prefix);

// Its name as in an ACL rule, "client|setname", and as it is called: "CLIENT SETNAME".
std::string acl_name(const Permission& right);
std::string shown_name(const Permission& right);

}  // namespace dlock::redis

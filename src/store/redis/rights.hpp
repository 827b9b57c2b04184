// What a user of a server has to be allowed, and how to find out whether it is.
//
// Tests hold the manual's ACL line and the rights that dlock is tested with against it.
#pragma once

#include <string_view>

namespace dlock::redis {

// A command of dlock's or of its scripts.
struct Right {
  std::string_view name;  // as rights have it
  // How it is found out. KEY stands for a key, NAMESPACE for what all keys begin with.
  std::string_view form;
  enum class How {
    tried,  // `form` changes nothing, whatever there is: rights come before arguments
    asked,  // there is no such form, but a script can ask whether it may call this one
    known,  // by that script
  } how = How::tried;
  // Whether locks do without it, and only dlock watch does not.
  bool is_for_watch = false;
};

constexpr Right needed_rights[] = {
    {"client|setname", "CLIENT SETNAME dlock"},
    {"publish", "PUBLISH KEY:e x", Right::How::asked, true},
    {"subscribe", "SUBSCRIBE KEY:e", Right::How::asked, true},
    {"psubscribe", "PSUBSCRIBE NAMESPACE:*", Right::How::asked, true},
    {"ping", "PING", Right::How::tried, true},
    {"evalsha", "EVALSHA 0000000000000000000000000000000000000000 1 KEY"},
    {"eval", "", Right::How::known},
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
    {"lpush", "LPUSH KEY x", Right::How::asked},
    {"lrem", "LREM KEY x x"},
    {"ltrim", "LTRIM KEY x x"},
    {"rpush", "RPUSH KEY x", Right::How::asked},
    {"zadd", "ZADD KEY x x"},
    {"zcard", "ZCARD KEY"},
    {"zrange", "ZRANGE KEY 0 0"},
    {"zrank", "ZRANK KEY x"},
    {"zrem", "ZREM KEY x"},
    {"zremrangebyscore", "ZREMRANGEBYSCORE KEY x x"},
    {"zscore", "ZSCORE KEY x"},
};

}  // namespace dlock::redis

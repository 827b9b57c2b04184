#include "tests/simulation/redis_server.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <lua.hpp>
#include <regex>
#include <span>
#include <sstream>
#include <stdexcept>

#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::simulation {
namespace {

using redis::Reply;
using Kind = Reply::Kind;

Reply integer(std::int64_t number) { return {Kind::integer, number, {}, {}}; }
Reply bulk(std::string text) { return {Kind::string, 0, std::move(text), {}}; }
Reply status(std::string text) { return {Kind::status, 0, std::move(text), {}}; }
Reply error(std::string text) { return {Kind::error, 0, std::move(text), {}}; }
Reply array(std::vector<Reply> elements = {}) {
  return {Kind::array, 0, {}, std::move(elements)};
}

std::string encoded(const Reply& reply) {
  switch (reply.kind) {
    case Kind::nil: return "$-1\r\n";
    case Kind::integer: return ':' + std::to_string(reply.integer) + "\r\n";
    case Kind::status: return '+' + reply.text + "\r\n";
    case Kind::error: return '-' + reply.text + "\r\n";
    case Kind::string:
      return '$' + std::to_string(reply.text.size()) + "\r\n" + reply.text + "\r\n";
    case Kind::array: break;
  }
  auto text = '*' + std::to_string(reply.elements.size()) + "\r\n";
  for (const auto& element : reply.elements) text += encoded(element);
  return text;
}

std::string number_text(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text;
}

// A script as its top-level functions, which are made once, and the rest: to make them
// anew takes more than half of the time of a script. The variables at the top level
// become globals of the script, and each run sets them; a function that has the name of
// one gets another name. No functions if that would not be the same.
std::pair<std::string, std::string> parts_of(std::string script) {
  constexpr std::string_view local = "local ", function = "local function ";
  std::string functions, rest;
  std::map<std::string, std::string> known;  // the lines that declare a variable
  bool is_in_function = false;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(local, 0) != 0 || line.rfind(function, 0) == 0) continue;
    std::istringstream names(line.substr(local.size(), line.find(" =") - local.size()));
    for (std::string name; std::getline(names >> std::ws, name, ',');) {
      if (known.emplace(name, line).first->second != line) return {"", script};
      if (script.find(std::string(function) + name + '(') == std::string::npos) continue;
      script =
          std::regex_replace(script, std::regex("\\b" + name + "\\("), name + "_of(");
    }
  }
  lines = std::istringstream(script);
  for (std::string line; std::getline(lines, line);) {
    const auto code = line.substr(0, line.find(" --"));
    const bool is_function = line.rfind(function, 0) == 0;
    is_in_function = is_in_function || is_function;
    if (line.rfind(local, 0) == 0) {
      const bool is_set = is_function || code.find('=') != std::string::npos;
      line = (is_set ? line : code + " = nil").substr(local.size());
    }
    (is_in_function ? functions : rest) += line + '\n';
    const bool is_short = is_function && code.ends_with(" end");
    if (is_short || line.rfind("end", 0) == 0) is_in_function = false;
  }
  return {functions, rest};
}

// One interpreter for all servers: a script keeps no state.
class Interpreter {
 public:
  Interpreter() : lua_(luaL_newstate()) {
    luaL_openlibs(lua_);
    lua_gc(lua_, LUA_GCSETPAUSE, 400);  // rarely: there is memory enough
    lua_newtable(lua_);
    const std::pair<const char*, lua_CFunction> functions[] = {
        {"call", call}, {"pcall", pcall}, {"error_reply", error_reply}};
    for (const auto& [name, function] : functions) {
      lua_pushcfunction(lua_, function);
      lua_setfield(lua_, -2, name);
    }
    lua_setglobal(lua_, "redis");
  }
  ~Interpreter() { lua_close(lua_); }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  using Part = std::span<const std::string>;  // of the words of a command

  Reply run(const redis::Script& of, Part keys, Part arguments, RedisServer& server) {
    server_ = &server;
    auto& script = scripts_[{&of, RedisServer::runs_scripts_literally}];
    if (script == 0) script = loaded(of.text);
    lua_rawgeti(lua_, LUA_REGISTRYINDEX, script);
    lua_getfenv(lua_, -1);
    set_field("KEYS", keys);
    set_field("ARGV", arguments);
    lua_pop(lua_, 1);
    Reply reply;
    if (lua_pcall(lua_, 0, 1, 0) != 0) {
      const char* why = lua_tostring(lua_, -1);
      reply = error(std::string("ERR ") + (why == nullptr ? "?" : why));
    } else {
      reply = reply_at(-1);
    }
    lua_settop(lua_, 0);
    return reply;
  }

 private:
  // Returns a reference to its function, which has globals to itself.
  int loaded(const std::string& text) {
    const auto& [functions, rest] = RedisServer::runs_scripts_literally
                                        ? std::pair(std::string(), text)
                                        : parts_of(text);
    lua_newtable(lua_);
    lua_pushnil(lua_);
    while (lua_next(lua_, LUA_GLOBALSINDEX) != 0) {
      lua_pushvalue(lua_, -2);
      lua_insert(lua_, -2);
      lua_settable(lua_, -4);
    }
    for (const auto& part : {functions, rest}) {
      if (luaL_loadbuffer(lua_, part.data(), part.size(), "@script") != 0) {
        throw std::runtime_error(lua_tostring(lua_, -1));
      }
      lua_pushvalue(lua_, 1);
      lua_setfenv(lua_, -2);
    }
    const int script = luaL_ref(lua_, LUA_REGISTRYINDEX);
    lua_call(lua_, 0, 0);
    lua_settop(lua_, 0);
    return script;
  }

  void set_field(const char* name, Part words) {
    lua_createtable(lua_, static_cast<int>(words.size()), 0);
    for (std::size_t i = 0; i < words.size(); ++i) {
      lua_pushlstring(lua_, words[i].data(), words[i].size());
      lua_rawseti(lua_, -2, static_cast<int>(i) + 1);
    }
    lua_setfield(lua_, -2, name);
  }

  static std::string string_at(lua_State* lua, int index) {
    if (lua_type(lua, index) == LUA_TNUMBER) {
      return number_text(lua_tonumber(lua, index));
    }
    std::size_t size = 0;
    const char* text = lua_tolstring(lua, index, &size);
    return text == nullptr ? std::string() : std::string(text, size);
  }

  Reply reply_at(int index) {
    switch (lua_type(lua_, index)) {
      case LUA_TNUMBER:
        return integer(static_cast<std::int64_t>(lua_tonumber(lua_, index)));
      case LUA_TSTRING: return bulk(string_at(lua_, index));
      case LUA_TBOOLEAN: return lua_toboolean(lua_, index) != 0 ? integer(1) : Reply{};
      case LUA_TTABLE: break;
      default: return {};
    }
    lua_getfield(lua_, index, "err");
    lua_getfield(lua_, index - 1, "ok");
    const auto problem = string_at(lua_, -2);
    const auto fine = string_at(lua_, -1);
    lua_pop(lua_, 2);
    if (!problem.empty()) return error(problem);
    if (!fine.empty()) return status(fine);
    auto all = array();
    for (int i = 1;; ++i) {
      lua_rawgeti(lua_, index, i);
      const bool is_end = lua_isnil(lua_, -1);
      if (!is_end) all.elements.push_back(reply_at(-1));
      lua_pop(lua_, 1);
      if (is_end) return all;
    }
  }

  static void push(lua_State* lua, const Reply& reply) {
    switch (reply.kind) {
      case Kind::nil: lua_pushboolean(lua, 0); return;
      case Kind::integer: lua_pushnumber(lua, static_cast<double>(reply.integer)); return;
      case Kind::string:
        lua_pushlstring(lua, reply.text.data(), reply.text.size());
        return;
      case Kind::status:
      case Kind::error:
        lua_newtable(lua);
        lua_pushlstring(lua, reply.text.data(), reply.text.size());
        lua_setfield(lua, -2, reply.is_error() ? "err" : "ok");
        return;
      case Kind::array: break;
    }
    lua_createtable(lua, static_cast<int>(reply.elements.size()), 0);
    for (std::size_t i = 0; i < reply.elements.size(); ++i) {
      push(lua, reply.elements[i]);
      lua_rawseti(lua, -2, static_cast<int>(i) + 1);
    }
  }

  static Reply performed(lua_State* lua) {
    Words words;
    for (int i = 1; i <= lua_gettop(lua); ++i) words.push_back(string_at(lua, i));
    return server_->execute(words);
  }
  static int call(lua_State* lua) {
    bool failed = false;
    {  // a jump out of this function calls no destructors
      const auto reply = performed(lua);
      failed = reply.is_error();
      if (failed) {
        lua_pushlstring(lua, reply.text.data(), reply.text.size());
      } else {
        push(lua, reply);
      }
    }
    return failed ? lua_error(lua) : 1;
  }
  static int pcall(lua_State* lua) {
    push(lua, performed(lua));
    return 1;
  }
  static int error_reply(lua_State* lua) {
    push(lua, error(string_at(lua, 1)));
    return 1;
  }

  static RedisServer* server_;
  lua_State* lua_;
  std::map<std::pair<const redis::Script*, bool>, int> scripts_;
};

RedisServer* Interpreter::server_ = nullptr;

// That an EVALSHA or EVAL calls by this id or text; null if it is none of dlock's.
const redis::Script* script_of(std::string_view id_or_text) {
  static const auto known = [] {
    std::map<std::string_view, const redis::Script*> all;
    for (const auto* script :
         {&redis::ask_script, &redis::renew_script, &redis::reclaim_script,
          &redis::release_script, &redis::break_script, &redis::inspect_script,
          &redis::remove_expired_script, &redis::withdraw_script,
          &redis::set_lease_script}) {
      all.emplace(script->sha1, script);
      all.emplace(script->text, script);
    }
    return all;
  }();
  const auto found = known.find(id_or_text);
  return found == known.end() ? nullptr : found->second;
}

Peer::Act act_of(const redis::Script* script) {
  return script == &redis::ask_script       ? Peer::Act::ask
         : script == &redis::release_script ? Peer::Act::release
                                            : Peer::Act::other;
}

std::int64_t count_of(std::size_t size) { return static_cast<std::int64_t>(size); }

// An index as LRANGE takes it, within a sequence of that size.
std::int64_t position(const std::string& text, std::size_t size) {
  const auto index = std::strtoll(text.c_str(), nullptr, 10);
  return index < 0 ? std::max<std::int64_t>(index + count_of(size), 0) : index;
}

double score_in(const std::string& text) {
  return text == "-inf"   ? -INFINITY
         : text == "+inf" ? INFINITY
                          : std::strtod(text.c_str(), nullptr);
}

}  // namespace

RedisServer::RedisServer(Executed executed, std::shared_ptr<ServerGroup> group)
    : executed_(std::move(executed)), group_(std::move(group)) {
  start();
}

void RedisServer::pause(Time span) {
  Peer::pause(span);
  if (group_) group_->is_absent(*this);
}

void RedisServer::disturb(Time span) {
  if (!group_) return pause(span);
  group_->disturb();
}

void RedisServer::start() {
  is_up = true;
  started_ = Kernel::current()->now;
  run_id_.clear();
  for (int i = 0; i < 40; ++i) {
    run_id_ += "0123456789abcdef"[Kernel::current()->random.below(16)];
  }
}

void RedisServer::crash() {
  is_up = false;
  if (!group_) values_.clear();
  loaded_.clear();
  drop_clients();
  if (group_) group_->is_absent(*this);
}

void RedisServer::drop_clients() {
  clients_.clear();
  for (const auto& one : std::exchange(connections, {})) {
    if (const auto connection = one.lock()) connection->close_server(true);
  }
}

bool RedisServer::has(const std::string& key) {
  moment_ = clock();
  return value_at(key) != nullptr;
}

bool RedisServer::move_keys(RedisServer& to, std::uint64_t count) {
  for (; count > 0 && !values_.empty(); --count) {
    const auto place = Kernel::current()->random.below(values_.size());
    const auto key = std::next(values_.begin(), static_cast<std::ptrdiff_t>(place));
    to.values_[key->first] = std::move(key->second);
    values_.erase(key);
  }
  return values_.empty();
}

void RedisServer::end_waits(const Reply& reply) {
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    auto& client = *clients_[i];
    if (std::exchange(client.waiting, 0) == 0) continue;
    client.connection->send_down(encoded(reply));
    proceed(client);
  }
}

RedisServer::Value* RedisServer::value_at(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  if (found->second.expires && moment_ / 1000 > *found->second.expires) {
    values_.erase(found);
    return nullptr;
  }
  return &found->second;
}

template <typename Kind>
Kind* RedisServer::find_as(const std::string& key) {
  auto* value = value_at(key);
  return value == nullptr ? nullptr : std::get_if<Kind>(&value->of);
}

template <typename Kind>
Kind& RedisServer::made_as(const std::string& key) {
  if (auto* found = find_as<Kind>(key)) return *found;
  return std::get<Kind>((values_[key] = Value{Kind{}}).of);
}

void RedisServer::drop_if_empty(const std::string& key) {
  const auto* list = find_as<List>(key);
  const auto* hash = find_as<Hash>(key);
  const auto* set = find_as<SortedSet>(key);
  if ((list && list->empty()) || (hash && hash->empty()) || (set && set->order.empty())) {
    values_.erase(key);
  }
}

RedisServer::Leases RedisServer::leases(const std::string& of) {
  const auto lock = "dlock:{" + of + "}", records = lock + ":h";
  Leases leases;
  if (group_ && &group_->owner() != this) return leases;
  auto* const next = group_ ? group_->next_owner() : nullptr;
  auto& at_lock = next != nullptr && next->has(lock) ? *next : *this;
  auto& at_records = next != nullptr && next->has(records) ? *next : *this;
  moment_ = clock();
  const auto* holder = at_lock.find_as<std::string>(lock);
  const auto* hash = at_records.find_as<Hash>(records);
  if (holder == nullptr || hash == nullptr) return leases;
  for (const auto& [token, text] : *hash) {
    unsigned long long fence = 0;
    long long ends = 0;
    char kind = 0;
    std::sscanf(text.c_str(), "%*c %*u %llu %*u %lld %c", &fence, &ends, &kind);
    if (kind != 'h' && kind != 'b' && kind != 'd') continue;
    if (*holder == token) {
      leases[fence] = moment_of(*at_lock.value_at(lock)->expires * 1000);
    } else if (*holder == "dlock:shared" && ends > moment_) {  // of several
      leases[fence] = moment_of(ends);
    }
  }
  return leases;
}

void RedisServer::closed(const std::shared_ptr<Connection>& by) {
  std::erase_if(clients_, [&](const auto& client) { return client->connection == by; });
  by->close_server(false);
}

void RedisServer::received(const std::shared_ptr<Connection>& from,
                           std::string_view bytes) {
  const auto found =
      std::find_if(clients_.begin(), clients_.end(),
                   [&](const auto& client) { return client->connection == from; });
  auto& client = found != clients_.end()
                     ? **found
                     : *clients_.emplace_back(std::make_unique<Client>());
  client.connection = from;
  client.bytes += bytes;
  proceed(client);
}

void RedisServer::proceed(Client& client) {
  while (client.waiting == 0) {
    const auto words = next_command(client);
    if (!words) return;
    moment_ = clock();
    script_ = nullptr;
    const auto reply = top_level(client, *words);
    if (Kernel::current()->traces) trace(*client.connection->process, *words, reply);
    if (!reply.empty()) client.connection->send_down(reply);
    if (script_ != nullptr && group_) group_->has_written(*this);
    static const auto key = "dlock:{" + main_lock + "}";
    const bool is_main = script_ != nullptr && words->at(3) == key;
    const auto act = is_main ? act_of(script_) : Act::other;
    if (script_ != nullptr) executed_(*client.connection->process, act);
    serve_waiting();
  }
}

void RedisServer::trace(const Process& by, const Words& words, const std::string& reply) {
  auto line = "process " + std::to_string(by.pid) + " sent " + words[0];
  if (words[0].starts_with("EVAL")) {
    const auto act = act_of(script_of(words[1]));
    line += act == Act::ask ? " to ask" : act == Act::release ? " to release" : "";
  }
  Kernel::current()->trace(line + ": " + printable(reply, 60));
}

// Nothing if it is not complete yet.
std::optional<Words> RedisServer::next_command(Client& client) {
  std::size_t at = 0;
  const auto number = [&](char kind) -> std::optional<std::size_t> {
    const auto end = client.bytes.find("\r\n", at);
    if (end == std::string::npos || client.bytes[at] != kind) return std::nullopt;
    const auto value = std::strtoull(client.bytes.c_str() + at + 1, nullptr, 10);
    at = end + 2;
    return value;
  };
  const auto count = number('*');
  if (!count) return std::nullopt;
  Words words;
  while (words.size() < *count) {
    const auto size = number('$');
    if (!size || client.bytes.size() < at + *size + 2) return std::nullopt;
    words.push_back(client.bytes.substr(at, *size));
    at += *size + 2;
  }
  client.bytes.erase(0, at);
  return words;
}

std::string RedisServer::top_level(Client& client, const Words& words) {
  const std::string_view name = words.front();
  if (name == "ASKING") {
    client.asks = true;
    return encoded(status("OK"));
  }
  const bool asks = std::exchange(client.asks, false);
  const auto reply = group_ ? group_->reply(*this, words, asks) : std::nullopt;
  if (reply) return encoded(*reply);
  if (name == "BLPOP") {
    wait_for_element(client, words);
    return "";
  }
  if (name == "EVAL" || name == "EVALSHA")
    return encoded(evaluate(words, name == "EVAL"));
  if (name == "CLIENT") return encoded(status("OK"));
  if (name == "WAIT") return encoded(integer(0));
  if (name == "ROLE") return encoded(array({bulk("master"), integer(0), array()}));
  if (name == "INFO") {
    const auto up = (Kernel::current()->now - started_) / second;
    return encoded(bulk("# Server\r\nredis_mode:standalone\r\nrun_id:" + run_id_ +
                        "\r\nuptime_in_seconds:" + std::to_string(up) + "\r\n"));
  }
  return encoded(execute(words));
}

Reply RedisServer::evaluate(const Words& words, bool by_text) {
  static Interpreter interpreter;
  const auto* script = script_of(words[1]);
  if (script == nullptr) throw std::runtime_error("an unknown script: " + words[1]);
  if (by_text) loaded_.insert(script);
  if (loaded_.count(script) == 0) return error("NOSCRIPT No matching script.");
  const auto keys = std::strtoul(words[2].c_str(), nullptr, 10);
  const auto rest = std::span(words).subspan(3);
  script_ = script;
  return interpreter.run(*script, rest.first(keys), rest.subspan(keys), *this);
}

void RedisServer::wait_for_element(Client& client, const Words& words) {
  client.waits_for.assign(words.begin() + 1, words.end() - 1);
  client.waiting = ++waits_;
  if (pop(client)) return;
  const auto span = std::strtod(words.back().c_str(), nullptr);
  if (span == 0) return;
  auto& kernel = *Kernel::current();
  kernel.at(
      kernel.now + static_cast<Time>(span * second),
      [this, connection = std::weak_ptr(client.connection), waiting = client.waiting] {
        for (auto& one : clients_) {
          if (one->waiting != waiting || one->connection != connection.lock()) {
            continue;
          }
          one->waiting = 0;
          one->connection->send_down("*-1\r\n");
          return proceed(*one);
        }
      });
}

bool RedisServer::pop(Client& client) {
  for (const auto& key : client.waits_for) {
    auto* list = find_as<List>(key);
    if (list == nullptr) continue;
    client.connection->send_down(encoded(array({bulk(key), bulk(list->front())})));
    list->pop_front();
    drop_if_empty(key);
    client.waiting = 0;
    return true;
  }
  return false;
}

// Who has waited for longest comes first.
void RedisServer::serve_waiting() {
  std::vector<Client*> waiting;
  for (const auto& client : clients_) {
    if (client->waiting != 0) waiting.push_back(client.get());
  }
  std::sort(waiting.begin(), waiting.end(), [](const auto* one, const auto* other) {
    return one->waiting < other->waiting;
  });
  for (auto* client : waiting) {
    if (pop(*client)) {
      Kernel::current()->at(0, [this, connection = client->connection] {
        for (auto& one : clients_) {
          if (one->connection == connection) return proceed(*one);
        }
      });
    }
  }
}

Reply RedisServer::execute(const Words& words) {
  const std::string_view name = words.front();
  if (name == "TIME") {
    return array({bulk(std::to_string(moment_ / 1'000'000)),
                  bulk(std::to_string(moment_ % 1'000'000))});
  }
  if (name == "PUBLISH") return integer(0);
  if (name == "XADD") return bulk("1-0");
  const auto& key = words.at(1);
  if (name[0] == 'Z') return on_set(words);
  if (name[0] == 'H') return on_hash(words);
  if (name[0] == 'L' || name == "RPUSH") return on_list(words);
  if (name == "DEL") {
    std::int64_t deleted = 0;
    for (auto word = words.begin() + 1; word != words.end(); ++word) {
      deleted += value_at(*word) != nullptr ? 1 : 0;
      values_.erase(*word);
    }
    return integer(deleted);
  }
  auto* value = value_at(key);
  if (name == "EXISTS") return integer(value != nullptr ? 1 : 0);
  if (name == "GET") {
    const auto* text = find_as<std::string>(key);
    return text == nullptr ? Reply{} : bulk(*text);
  }
  if (name == "PTTL") {
    if (value == nullptr) return integer(-2);
    return integer(value->expires ? *value->expires - moment_ / 1000 : -1);
  }
  if (name == "PEXPIRE") {
    if (value == nullptr) return integer(0);
    value->expires = moment_ / 1000 + std::strtoll(words.at(2).c_str(), nullptr, 10);
    if (*value->expires <= moment_ / 1000) values_.erase(key);
    return integer(1);
  }
  if (name == "SET") {
    const bool only_new = words.size() > 5 && words[5] == "NX";
    if (only_new && value != nullptr) return {};
    auto& made = values_[key] = Value{words.at(2)};
    if (words.size() > 4) {
      made.expires = moment_ / 1000 + std::strtoll(words[4].c_str(), nullptr, 10);
    }
    return status("OK");
  }
  throw std::runtime_error("the simulation has no command " + words[0]);
}

Reply RedisServer::on_list(const Words& words) {
  const std::string_view name = words[0];
  const auto& key = words[1];
  if (name == "LPUSH" || name == "RPUSH") {
    auto& list = made_as<List>(key);
    for (auto word = words.begin() + 2; word != words.end(); ++word) {
      if (name == "LPUSH") {
        list.push_front(*word);
      } else {
        list.push_back(*word);
      }
    }
    return integer(count_of(list.size()));
  }
  auto* list = find_as<List>(key);
  if (list == nullptr) return name == "LINDEX" ? Reply{} : integer(0);
  if (name == "LINDEX") {
    const auto index = std::strtoll(words[2].c_str(), nullptr, 10);
    const auto at = index < 0 ? index + count_of(list->size()) : index;
    if (at < 0 || at >= count_of(list->size())) return {};
    return bulk((*list)[static_cast<std::size_t>(at)]);
  }
  if (name == "LTRIM") {
    const auto size = list->size();
    const auto first = position(words[2], size);
    const auto stop = std::strtoll(words[3].c_str(), nullptr, 10);
    const auto last = std::min<std::int64_t>(stop < 0 ? stop + count_of(size) : stop,
                                             count_of(size) - 1);
    List kept;
    for (auto i = first; i <= last; ++i)
      kept.push_back((*list)[static_cast<std::size_t>(i)]);
    *list = std::move(kept);
    drop_if_empty(key);
    return status("OK");
  }
  if (name != "LREM")
    throw std::runtime_error("the simulation has no command " + words[0]);
  const bool from_end = words[2][0] == '-';  // one element
  const auto found = std::find(list->begin(), list->end(), words[3]);
  if (found == list->end()) return integer(0);
  if (from_end) {
    list->erase(std::find(list->rbegin(), list->rend(), words[3]).base() - 1);
  } else {
    list->erase(found);
  }
  drop_if_empty(key);
  return integer(1);
}

Reply RedisServer::on_hash(const Words& words) {
  const std::string_view name = words[0];
  const auto& key = words[1];
  if (name == "HSET") {
    auto& hash = made_as<Hash>(key);
    for (std::size_t i = 2; i + 1 < words.size(); i += 2) hash[words[i]] = words[i + 1];
    return integer(0);
  }
  auto* hash = find_as<Hash>(key);
  const auto field = [&](const std::string& of) {
    if (hash == nullptr) return Reply{};
    const auto found = hash->find(of);
    return found == hash->end() ? Reply{} : bulk(found->second);
  };
  if (name == "HGET") return field(words.at(2));
  auto all = array();
  if (name == "HMGET") {
    for (std::size_t i = 2; i < words.size(); ++i)
      all.elements.push_back(field(words[i]));
    return all;
  }
  if (name == "HGETALL") {
    if (hash == nullptr) return all;
    for (const auto& [of, value] : *hash) {
      all.elements.push_back(bulk(of));
      all.elements.push_back(bulk(value));
    }
    return all;
  }
  if (name != "HDEL")
    throw std::runtime_error("the simulation has no command " + words[0]);
  std::int64_t deleted = 0;
  for (std::size_t i = 2; i < words.size() && hash != nullptr; ++i) {
    deleted += count_of(hash->erase(words[i]));
  }
  drop_if_empty(key);
  return integer(deleted);
}

Reply RedisServer::on_set(const Words& words) {
  const std::string_view name = words[0];
  const auto& key = words[1];
  if (name == "ZADD") {
    auto& set = made_as<SortedSet>(key);
    const auto& member = words.at(3);
    const auto score = score_in(words[2]);
    const auto known = set.scores.find(member);
    if (known != set.scores.end()) set.order.erase({known->second, member});
    set.scores[member] = score;
    set.order.insert({score, member});
    return integer(1);
  }
  auto* set = find_as<SortedSet>(key);
  if (name == "ZCARD") return integer(set == nullptr ? 0 : count_of(set->order.size()));
  if (name == "ZRANGE") {
    auto all = array();
    if (set == nullptr) return all;
    const auto is = [&](const char* word) {
      return std::find(words.begin() + 4, words.end(), word) != words.end();
    };
    std::vector<std::pair<double, std::string>> in_order(set->order.begin(),
                                                         set->order.end());
    const bool by_score = is("BYSCORE"), reversed = is("REV");
    if (reversed) std::reverse(in_order.begin(), in_order.end());
    const auto limit = std::find(words.begin() + 4, words.end(), "LIMIT");
    auto left = limit == words.end() ? std::int64_t{1} << 40
                                     : std::strtoll((limit + 2)->c_str(), nullptr, 10);
    const auto bound = [](const std::string& text) {
      const bool is_open = text[0] == '(';
      return std::pair(score_in(is_open ? text.substr(1) : text), is_open);
    };
    const auto from = bound(words[reversed ? 3 : 2]), to = bound(words[reversed ? 2 : 3]);
    const auto size = in_order.size();
    const auto stop = std::strtoll(words[3].c_str(), nullptr, 10);
    const auto last = stop < 0 ? stop + count_of(size) : stop;
    for (std::size_t i = 0; i < size && left > 0; ++i) {
      const auto& [score, member] = in_order[i];
      const bool is_in =
          by_score ? (from.second ? score > from.first : score >= from.first) &&
                         (to.second ? score < to.first : score <= to.first)
                   : count_of(i) >= position(words[2], size) && count_of(i) <= last;
      if (!is_in) continue;
      --left;
      all.elements.push_back(bulk(member));
      if (is("WITHSCORES")) all.elements.push_back(bulk(number_text(score)));
    }
    return all;
  }
  if (name == "ZREMRANGEBYSCORE") return integer(0);  // of the index of names only
  const auto found = set == nullptr ? std::map<std::string, double>::iterator()
                                    : set->scores.find(words.at(2));
  if (set == nullptr || found == set->scores.end()) {
    return name == "ZREM" ? integer(0) : Reply{};
  }
  const std::pair entry(found->second, found->first);
  if (name == "ZSCORE") return bulk(number_text(entry.first));
  if (name == "ZRANK") {
    return integer(std::distance(set->order.begin(), set->order.find(entry)));
  }
  if (name != "ZREM")
    throw std::runtime_error("the simulation has no command " + words[0]);
  set->order.erase(entry);
  set->scores.erase(found);
  drop_if_empty(key);
  return integer(1);
}

}  // namespace dlock::simulation

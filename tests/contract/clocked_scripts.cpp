#include "tests/contract/clocked_scripts.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace dlock::against {
namespace {

// KEYS[2] is the time in microseconds. The expiry of a key is stored beside it. As on a
// server, a key that is overwritten or removed loses its expiry. Messages to lists and
// channels are only recorded, because no client listens.
constexpr std::string_view before_script = R"lua(
local server, clock, ends, said = redis, tonumber(KEYS[2]), KEYS[1] .. '>ends', {}
for _, over in ipairs(server.call('ZRANGEBYSCORE', ends, '-inf', KEYS[2])) do
  server.call('DEL', over)
  server.call('ZREM', ends, over)
end
local function clocked(command, name, ...)
  if command == 'TIME' then
    return { string.sub(KEYS[2], 1, -7), tostring(tonumber(string.sub(KEYS[2], -6))) }
  elseif command == 'PEXPIRE' then
    if server.call('EXISTS', name) == 0 then return 0 end
    server.call('ZADD', ends, string.format('%.0f', clock + (...) * 1000), name)
    return 1
  elseif command == 'PTTL' then
    if server.call('EXISTS', name) == 0 then return -2 end
    local at = server.call('ZSCORE', ends, name)
    return at and math.ceil((at - clock) / 1000) or -1
  elseif command == 'SET' then
    local text, _, ms, only_new = ...
    if only_new and server.call('EXISTS', name) == 1 then return false end
    if ms then
      server.call('ZADD', ends, string.format('%.0f', clock + ms * 1000), name)
    else
      server.call('ZREM', ends, name)
    end
    return server.call('SET', name, text)
  elseif command == 'DEL' then
    server.call('ZREM', ends, name, ...)
  elseif command == 'RPUSH' or command == 'PUBLISH' then
    for _, text in ipairs({ ... }) do
      said[#said + 1] = name
      said[#said + 1] = tostring(text)
    end
    return command == 'RPUSH' and 1 or 0
  end
  return server.call(command, name, ...)
end
local redis = { call = clocked, pcall = clocked, error_reply = server.error_reply }
local function script()
)lua";

constexpr std::string_view after_script = R"lua(
end
local answer, name = script(), KEYS[1]
return { answer, server.call('GET', name), clocked('PTTL', name),
  server.call('HGETALL', name .. ':h'), server.call('ZRANGE', name .. ':q', 0, -1),
  server.call('HGETALL', name .. ':w'), server.call('HMGET', name .. ':s', 'slots', 'fence',
  'refused', 'superseded'),
  server.call('LINDEX', name .. ':r', 0), said }
)lua";

void append(std::string& bytes, const redis::Command& command) {
  bytes += "*" + std::to_string(command.size()) + "\r\n";
  for (const auto& word : command) {
    bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
}

}  // namespace

ClockedServer::ClockedServer()
    : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = server_.socket();
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  if (::connect(socket_.get(), generic, sizeof address) != 0) {
    throw std::runtime_error("the server cannot be reached");
  }
}

std::string ClockedServer::load(const char* text, const Replacement& replaced) {
  std::string changed(text);
  if (!replaced.find.empty()) {
    const auto at = changed.find(replaced.find);
    if (at == std::string::npos) throw std::runtime_error("nothing to replace");
    changed.replace(at, replaced.find.size(), replaced.replace);
  }
  const auto replies =
      exchange({{"SCRIPT", "LOAD",
                 std::string(before_script) + changed + std::string(after_script)}});
  if (replies[0].is_error()) throw std::runtime_error(replies[0].text);
  return replies[0].text;
}

redis::Command ClockedServer::call(const std::string& script, const std::string& key,
                                   WallTime now, const std::vector<std::string>& args) {
  redis::Command command{"EVALSHA", script, "2", key, std::to_string(now.count())};
  command.insert(command.end(), args.begin(), args.end());
  return command;
}

void ClockedServer::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw std::runtime_error("the server takes no commands");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::vector<redis::Reply> ClockedServer::exchange(
    const std::vector<redis::Command>& commands) {
  std::string bytes;
  for (const auto& command : commands) append(bytes, command);
  send(bytes);
  std::vector<redis::Reply> replies;
  std::array<char, 65536> buffer;
  while (replies.size() < commands.size()) {
    if (auto reply = reader_.next()) {
      replies.push_back(std::move(*reply));
      continue;
    }
    pollfd readable{socket_.get(), POLLIN, 0};
    const bool answers = ::poll(&readable, 1, 20'000) == 1;
    const auto size = answers ? ::read(socket_.get(), buffer.data(), buffer.size()) : -1;
    if (size <= 0 || !reader_.feed({buffer.data(), static_cast<std::size_t>(size)})) {
      throw std::runtime_error("the server does not answer");
    }
  }
  return replies;
}

}  // namespace dlock::against

// Messages as a PostgreSQL server sends them.
#pragma once

#include <string>
#include <string_view>

#include "store/postgres/pg_wire.hpp"

namespace dlock::postgres::pg_messages {

inline std::string number(std::size_t value, int bytes) {
  std::string text;
  while (bytes-- > 0) {
    text += static_cast<char>(static_cast<unsigned char>(value >> (8 * bytes)));
  }
  return text;
}

inline std::string message(char type, std::string_view body) {
  return encoded_message(type, body);
}

// A statement was parsed and bound.
inline const std::string accepted = message('1', "") + message('2', "");

inline std::string row(const Row& columns) {
  auto body = number(columns.size(), 2);
  for (const auto& column : columns) {
    body += column ? number(column->size(), 4) + *column : std::string(4, '\xFF');
  }
  return message('D', body);
}

inline std::string done(const std::string& tag) { return message('C', tag + '\0'); }

inline std::string ready(char state = 'I') { return message('Z', std::string(1, state)); }

inline std::string fields(const std::string& severity, const std::string& code,
                          const std::string& text) {
  return "S" + severity + '\0' + "V" + severity + '\0' + "C" + code + '\0' + "M" + text +
         '\0' + '\0';
}
inline std::string error(const std::string& severity, const std::string& code,
                         const std::string& text) {
  return message('E', fields(severity, code, text));
}
inline std::string notice(const std::string& severity, const std::string& code,
                          const std::string& text) {
  return message('N', fields(severity, code, text));
}

inline std::string parameter(const std::string& name, const std::string& value) {
  return message('S', name + '\0' + value + '\0');
}

inline std::string notification(const std::string& channel, const std::string& payload) {
  return message('A', number(7, 4) + channel + '\0' + payload + '\0');
}

// A request of the login.
inline std::string authentication(std::size_t kind, const std::string& data = "") {
  return message('R', number(kind, 4) + data);
}

// What follows an accepted login.
inline std::string greeting(const std::string& version = "15.18") {
  return authentication(0) + parameter("server_version", version) +
         parameter("in_hot_standby", "off") + message('K', number(4711, 4) + "KEY!") +
         ready();
}

}  // namespace dlock::postgres::pg_messages

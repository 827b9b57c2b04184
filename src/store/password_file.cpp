#include "store/password_file.hpp"

#include "util/failure.hpp"
#include "util/small_file.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// Far more than any password or token.
constexpr std::size_t longest_password = 64u << 10;

Failure unusable(const std::string& why) {
  return Failure(Failure::Kind::misconfigured, why);
}

}  // namespace

std::string password_from(std::string content) {
  constexpr const char* mark = "\xEF\xBB\xBF";
  if (content.starts_with(mark)) content.erase(0, 3);
  if (content.find('\0') != std::string::npos) {
    throw unusable("contains a NUL byte (it must be UTF-8 text, not UTF-16 or binary)");
  }
  const auto end = content.find_last_not_of("\r\n");
  content.resize(end == std::string::npos ? 0 : end + 1);
  if (content.empty()) throw unusable("it is empty");
  if (content.find_first_of("\r\n") != std::string::npos) {
    throw unusable("it has more than one line, and a password is one line");
  }
  return content;
}

std::string password_in(const std::string& file) {
  FileKind kind{"password file " + printable(file, 200), longest_password,
                Use::credential};
  kind.is_secret = true;
  const auto content = small_file(file, kind).text;
  try {
    return password_from(content);
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), kind.name + ": " + failure.what());
  }
}

}  // namespace dlock

// What a server answers, and reading it from bytes of any kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::redis {

struct Reply {
  enum class Kind { nil, integer, status, string, error, array };
  Kind kind = Kind::nil;
  std::int64_t integer = 0;
  std::string text;  // of a status, string or error
  std::vector<Reply> elements;

  bool is_error() const { return kind == Kind::error; }
  // The first word of an error ("NOSCRIPT"), or empty.
  std::string_view error_code() const;
};

// How much of a reply is taken: a hostile one must not cost memory.
struct ReplyLimits {
  std::size_t bytes = 8u << 20;    // of one reply
  std::size_t elements = 100'000;  // of one reply, nested ones included
  std::size_t line = 64u << 10;    // of a status, an error or a number
};

// Takes bytes as they come and gives out whole replies. hiredis does the parsing; what it
// would accept too much of is refused before it gets there.
class ReplyReader {
 public:
  explicit ReplyReader(ReplyLimits limits = {});
  ~ReplyReader();
  ReplyReader(ReplyReader&&) noexcept;
  ReplyReader& operator=(ReplyReader&&) noexcept;

  // Adds bytes. False once the bytes are no reply, or one beyond the limits; then for
  // good.
  bool feed(std::string_view bytes);

  // The next whole reply, if it is there. Nothing for ever once feed() or this failed.
  std::optional<Reply> next();

  // Whether every byte that was fed belongs to a reply that next() gave out.
  bool is_empty() const;

  // What was wrong, in a few words; empty while nothing is.
  const std::string& error() const;

 private:
  class Codec;
  std::unique_ptr<Codec> codec_;
};

}  // namespace dlock::redis

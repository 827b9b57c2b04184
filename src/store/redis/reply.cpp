#include "store/redis/reply.hpp"

#include <hiredis/read.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>
#include <utility>

namespace dlock::redis {
namespace {

struct FreeReader {
  void operator()(redisReader* reader) const { redisReaderFree(reader); }
};

// The item being read: hiredis 0.14 has its stack inline, 1.x on the heap.
template <typename Reader>
auto current_task(const Reader& reader, int) -> decltype(*reader.task[reader.ridx]) {
  return *reader.task[reader.ridx];
}
template <typename Reader>
auto current_task(const Reader& reader, long) -> decltype((reader.rstack[reader.ridx])) {
  return reader.rstack[reader.ridx];
}

// The limit of hiredis 0.14; later versions allow more.
constexpr std::size_t deepest = 7;

}  // namespace

std::string_view Reply::error_code() const {
  if (!is_error()) return {};
  return std::string_view(text).substr(0, text.find(' '));
}

// hiredis calls back for each item that it has read; the reply is built here. A callback
// stops it by returning null; the reason is kept here.
class ReplyReader::Codec {
 public:
  explicit Codec(ReplyLimits limits) : limits_(limits) {
    // Counts are int in hiredis 0.14 and size_t later, hence the templates.
    functions_.createString = create_string;
    functions_.createArray = create_array;
    functions_.createInteger = create_integer;
    functions_.createNil = create_nil;
    functions_.freeObject = [](void*) {};  // everything belongs to the codec
    reader_.reset(redisReaderCreateWithFunctions(&functions_));
    if (!reader_) throw std::bad_alloc();
    reader_->privdata = this;
  }

  bool feed(std::string_view bytes) {
    if (!error_.empty()) return false;
    if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK) {
      fail(reader_->errstr);
      return false;
    }
    fed_ += bytes.size();
    if (!ready_) parse();
    return error_.empty();
  }

  std::optional<Reply> next() {
    if (!error_.empty()) return std::nullopt;
    if (!ready_) parse();
    return std::exchange(ready_, std::nullopt);
  }

  bool is_empty() const { return !ready_ && fed_ == begun_at_; }
  const std::string& error() const { return error_; }

 private:
  static Codec& codec_of(const redisReadTask* task) {
    return *static_cast<Codec*>(task->privdata);
  }

  static void* create_string(const redisReadTask* task, char* text, std::size_t size) {
    return codec_of(task).add_text(task, {text, size});
  }

  template <typename Count>
  static void* create_array(const redisReadTask* task, Count count) {
    return codec_of(task).add_array(task, static_cast<std::size_t>(count));
  }

  static void* create_integer(const redisReadTask* task, long long value) {
    auto& codec = codec_of(task);
    Reply* reply = codec.add(task, Reply::Kind::integer);
    reply->integer = value;
    return reply;
  }

  static void* create_nil(const redisReadTask* task) {
    auto& codec = codec_of(task);
    if (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_ARRAY) {
      return codec.fail("a type that is not in RESP2");
    }
    return codec.add(task, Reply::Kind::nil);
  }

  void* add_text(const redisReadTask* task, std::string_view text) {
    auto kind = Reply::Kind::string;
    switch (task->type) {
      case REDIS_REPLY_STATUS: kind = Reply::Kind::status; break;
      case REDIS_REPLY_ERROR: kind = Reply::Kind::error; break;
      case REDIS_REPLY_STRING:
        // hiredis skips the bytes after a string without checking them; they are
        // available.
        if (std::memcmp(text.data() + text.size(), "\r\n", 2) != 0) {
          return fail("a string longer than announced");
        }
        break;
      default: return fail("a type that is not in RESP2");
    }
    const auto most = kind == Reply::Kind::string ? limits_.bytes : limits_.line;
    if (text.size() > most) return fail("a line that is too long");
    Reply* reply = add(task, kind);
    reply->text = text;
    return reply;
  }

  void* add_array(const redisReadTask* task, std::size_t count) {
    if (task->type != REDIS_REPLY_ARRAY) return fail("a type that is not in RESP2");
    std::size_t depth = 0;
    for (auto* outer = task->parent; outer != nullptr; outer = outer->parent) ++depth;
    if (depth >= deepest) return fail("arrays nested too deeply");
    if (count > limits_.elements - std::min(announced_, limits_.elements)) {
      return fail("too many elements");
    }
    announced_ += count;
    Reply* reply = add(task, Reply::Kind::array);
    // Reserved at once, because hiredis keeps pointers to elements that are arrays.
    reply->elements.reserve(count);
    return reply;
  }

  // Creates the reply in its array, or as the root.
  Reply* add(const redisReadTask* task, Reply::Kind kind) {
    ++built_;
    Reply* reply = &root_;
    if (task->parent != nullptr) {
      reply = &static_cast<Reply*>(task->parent->obj)->elements.emplace_back();
    }
    reply->kind = kind;
    return reply;
  }

  void* fail(std::string_view why) {
    if (error_.empty()) error_ = why;
    return nullptr;
  }

  void parse() {
    void* parsed = nullptr;
    if (redisReaderGetReply(reader_.get(), &parsed) != REDIS_OK) {
      std::string_view why = reader_->errstr;
      constexpr std::string_view known = "Protocol error, ";
      if (why.substr(0, known.size()) == known) why.remove_prefix(known.size());
      fail(why.empty() ? "invalid bytes" : why);
      return;
    }
    const auto unread = reader_->len - reader_->pos;
    if (parsed == nullptr) {
      check_what_is_to_come(std::string_view(reader_->buf + reader_->pos, unread));
    } else if (built_ != 1 + announced_) {
      // Later versions of hiredis read types for which it has no callback.
      fail("a type that is not in RESP2");
    }
    const auto taken = parsed == nullptr ? fed_ : fed_ - unread;
    if (taken - begun_at_ > limits_.bytes) fail("too many bytes");
    if (parsed == nullptr || !error_.empty()) return;
    ready_ = std::exchange(root_, Reply());
    built_ = announced_ = 0;
    begun_at_ = taken;
  }

  // hiredis would buffer an incomplete item without limit. `unread` is the beginning of
  // the item, without its type if that is known.
  void check_what_is_to_come(std::string_view unread) {
    if (unread.empty()) return;
    const auto& task = current_task(*reader_, 0);
    const auto end = unread.find("\r\n");
    if (end == std::string_view::npos) {
      if (unread.size() > limits_.line + 1) fail("a line that is too long");
      return;
    }
    if (task.type != REDIS_REPLY_STRING) return;
    std::size_t size = 0;
    std::from_chars(unread.data(), unread.data() + end, size);
    if (size > limits_.bytes) fail("a string that is too long");
  }

  ReplyLimits limits_;
  redisReplyObjectFunctions functions_{};
  std::unique_ptr<redisReader, FreeReader> reader_;

  Reply root_;  // under construction
  std::size_t announced_ = 0;
  std::size_t built_ = 0;
  std::optional<Reply> ready_;

  std::size_t fed_ = 0;
  std::size_t begun_at_ = 0;  // the offset at which the current reply begins
  std::string error_;
};

ReplyReader::ReplyReader(ReplyLimits limits) : codec_(std::make_unique<Codec>(limits)) {}
ReplyReader::~ReplyReader() = default;
ReplyReader::ReplyReader(ReplyReader&&) noexcept = default;
ReplyReader& ReplyReader::operator=(ReplyReader&&) noexcept = default;

bool ReplyReader::feed(std::string_view bytes) { return codec_->feed(bytes); }
std::optional<Reply> ReplyReader::next() { return codec_->next(); }
bool ReplyReader::is_empty() const { return codec_->is_empty(); }
const std::string& ReplyReader::error() const { return codec_->error(); }

}  // namespace dlock::redis

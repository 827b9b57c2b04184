#include "store/redis/reply.hpp"

#include <hiredis/read.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "store/store_url.hpp"
#include "store/url_advice.hpp"
#include "util/text.hpp"

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

// What the codes of errors mean to the user.
struct Meaning {
  std::string_view code;
  const char* text;
  Failure::Kind kind = Failure::Kind::unreachable;
};
constexpr Meaning meanings[] = {
    {"OOM", "the server's memory is full (maxmemory)"},
    {"MISCONF",
     "the server accepts no writes because it cannot save its data (its log says why)"},
    {"NOREPLICAS",
     "the server accepts no writes with so few replicas (min-replicas-to-write)"},
    {"READONLY", "the server is a replica, which grants no locks"},
    {"MASTERDOWN", "the server is a replica that has lost its primary"},
    {"LOADING", "the server is still loading its data"},
    {"BUSY", "the server is busy with another client's script (SCRIPT KILL stops it)"},
    {"CLUSTERDOWN", "the cluster is down: some slots are not served"},
    {"DENIED",
     "the server is in protected mode: it serves other machines only if a password or "
     "`bind` is set",
     Failure::Kind::rejected},
    {"WRONGPASS", "wrong user or password", Failure::Kind::rejected},
};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Before Redis 7.0, the error of a script contains that of its command: "-OOM command".
const Meaning* meaning_of(const Reply& error) {
  const auto* found = std::ranges::find_if(meanings, [&](const Meaning& one) {
    return error.error_code() == one.code ||
           has(error.text, ": -" + std::string(one.code) + " ");
  });
  return found == std::end(meanings) ? nullptr : found;
}

// Without arguments, which may contain a token, and without positions in a script, which
// tell users nothing: "@user_script: 3: -TEXT" up to Redis 6.2, later "TEXT script: SHA,
// on @user_script:3.".
std::string without_particulars(std::string text) {
  text.resize(std::min(text.find(", with args beginning with"), text.size()));
  const auto on = text.find(", on @user_script");
  if (on != std::string::npos) text.resize(std::min(text.rfind(" script: ", on), on));
  constexpr std::string_view at = "@user_script: ";
  if (const auto begin = text.rfind(at); begin != std::string::npos) {
    const auto end = text.find(": ", begin + at.size());
    if (end != std::string::npos) text.erase(0, end + 2);
  }
  return text;
}

bool is_about_rights(const Reply& error) {
  // Missing permissions of a script have no code: up to Redis 7.0 the user "can't", later
  // it is an "ACL failure".
  return has(error.text, "NOPERM") ||
         has(error.text, "The user executing the script can't") ||
         has(error.text, "ACL failure in script");
}

Failure unknown_command(const std::string& server, const std::string& command,
                        const std::string& said) {
  return Failure::misconfigured(
      server + ": the server does not know " +
      (command.empty() ? "a command that dlock needs" : command) +
      " (renamed or disabled, or not forwarded by a proxy; for a sentinel, "
      "use redis+sentinel://)" +
      detail(said));
}

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
      check_announced_size(std::string_view(reader_->buf + reader_->pos, unread));
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
  void check_announced_size(std::string_view unread) {
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

Failure password_required(const std::string& server, std::string_view options) {
  return Failure::rejected(server + ": password required: use " + std::string(options) +
                           password_of_run_outside());
}

Failure failure_from(const Reply& error, const std::string& server) {
  const auto& text = error.text;
  const auto code = error.error_code();
  const auto said = printable(without_particulars(text), 200);
  // A client that is not logged in may send only short requests; for a longer one the
  // server sends a protocol error that mentions authentication.
  if (code == "NOAUTH" || has(text, "Authentication required") ||
      has(text, "unauthenticated")) {
    return password_required(server, usual_password_options);
  }
  if (is_about_rights(error)) return Failure::rejected(server + ": " + said);
  if (has(text, "WRONGTYPE")) {
    return Failure::misconfigured(server +
                                  ": the lock's key does not hold a lock: " + said);
  }
  if (code == "MOVED" || code == "ASK" || code == "CROSSSLOT") {
    return Failure::misconfigured(server +
                                  " is a member of a cluster: use redis+cluster://");
  }
  if (const auto command = unknown_command_in(error)) {
    return unknown_command(server, *command, said);
  }
  if (const auto* meaning = meaning_of(error)) {
    return Failure(meaning->kind, server + ": " + meaning->text + " [" +
                                      std::string(meaning->code) + "]" + detail(said));
  }
  return Failure::unreachable(server + ": " + said);
}

std::optional<std::string> unknown_command_in(const Reply& reply) {
  if (!reply.is_error()) return std::nullopt;
  constexpr std::string_view forms[] = {"nknown command", "nknown Redis command",
                                        "nknown subcommand", "nsupported command"};
  for (const auto form : forms) {
    const auto at = reply.text.find(form);
    if (at == std::string::npos) continue;
    constexpr std::string_view quotes = "'`\"";
    const auto begin = reply.text.find_first_of(quotes, at);
    if (begin == std::string::npos) return "";
    const auto end = reply.text.find_first_of(quotes, begin + 1);
    return printable(reply.text.substr(begin + 1, end - begin - 1), 60);
  }
  return std::nullopt;
}

bool hides_refused_command(const Reply& reply) {
  if (!reply.is_error()) return false;
  const auto unknown = unknown_command_in(reply);
  return unknown ? unknown->empty() : is_about_rights(reply) && has(reply.text, "script");
}

Fields fields_of_info(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    const auto end = std::min(text.find("\r\n"), text.size());
    const auto line = text.substr(0, end);
    const auto colon = line.find(':');
    if (colon != std::string_view::npos) {
      fields.emplace(line.substr(0, colon), line.substr(colon + 1));
    }
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return fields;
}

Fields fields_of_pairs(const Reply& reply) {
  Fields fields;
  for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    fields.emplace(reply.elements[i].text, reply.elements[i + 1].text);
  }
  return fields;
}

std::string field(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

}  // namespace dlock::redis

#include "grpc/http2.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <map>
#include <new>
#include <utility>

namespace dlock::grpc {

namespace {

// The flow-control window: enough for an ordinary reply at once.
constexpr std::int32_t window = 1 << 20;

struct OpenCall {
  Headers headers;
  MessageReader messages;
  std::string outbox;    // the bytes to send,
  std::size_t sent = 0;  // and how many of them were sent
  bool is_last = false;
  std::optional<CallOutcome> outcome;
};

std::string_view text_of(const std::uint8_t* bytes, std::size_t size) {
  // The bytes of nghttp2 can be used as characters.
  return {reinterpret_cast<const char*>(bytes), size};
}

nghttp2_nv header(std::string_view name, std::string_view value) {
  // nghttp2 copies the text; its C interface lacks const.
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

CallOutcome outcome_of_reset(std::uint32_t error) {
  if (error == NGHTTP2_REFUSED_STREAM) {
    return {Code::unavailable, "the server accepts no more calls on this connection"};
  }
  return {Code::unavailable,
          std::string("the server ended the call: ") + nghttp2_http2_strerror(error)};
}

}  // namespace

class Http2::Session {
 public:
  Session(std::string authority, Http2Limits limits)
      : authority_(std::move(authority)), limits_(limits) {
    nghttp2_session_callbacks* callbacks = nullptr;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session* made = nullptr;
    const int result = nghttp2_session_client_new(&made, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    session_.reset(made);
    check(result);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
    };
    check(
        nghttp2_submit_settings(made, NGHTTP2_FLAG_NONE, settings, std::size(settings)));
    check(nghttp2_session_set_local_window_size(made, NGHTTP2_FLAG_NONE, 0, window));
  }

  bool takes_calls() const {
    return error_.empty() && !goes_away_ &&
           nghttp2_session_check_request_allowed(session_.get()) != 0;
  }

  CallId begin(const CallStart& start) {
    const auto timeout = timeout_text(start.timeout);
    std::vector<nghttp2_nv> headers{
        header(":method", "POST"),     header(":scheme", "http"),
        header(":path", start.path),   header(":authority", authority_),
        header("te", "trailers"),      header("content-type", "application/grpc"),
        header("user-agent", "dlock"),
    };
    if (start.timeout.count() > 0) headers.push_back(header("grpc-timeout", timeout));
    for (const auto& one : start.metadata) {
      headers.push_back(header(one.name, one.value));
    }
    nghttp2_data_provider source{};
    source.read_callback = on_read;
    const auto id = nghttp2_submit_request(session_.get(), nullptr, headers.data(),
                                           headers.size(), &source, nullptr);
    check(id);
    auto& call = calls_.try_emplace(id, new_call()).first->second;
    if (id < 0) call.outcome = CallOutcome{Code::unavailable, nghttp2_strerror(id)};
    call.outbox = framed(start.message);
    call.is_last = start.is_last;
    return id;
  }

  void drop(CallId id) {
    const auto* call = find(id);
    if (call == nullptr) return;
    if (!call->outcome) {
      nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    }
    calls_.erase(id);
  }

  std::string take_output() {
    produce();
    return std::exchange(output_, {});
  }

  bool feed(std::string_view bytes) {
    if (!error_.empty()) return false;
    const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
    const auto taken = nghttp2_session_mem_recv(session_.get(), begin, bytes.size());
    check(taken);
    // After a protocol error nghttp2 sends GOAWAY and reads no more.
    produce();
    if (taken < 0) {
      fail(nghttp2_strerror(static_cast<int>(taken)));
    } else if (nghttp2_session_want_read(session_.get()) == 0 && !goes_away_) {
      fail("invalid HTTP/2 frames");
    }
    return error_.empty();
  }

  const std::string& error() const { return error_; }

  std::optional<std::string> next_message(CallId id) {
    auto* call = find(id);
    return call == nullptr ? std::nullopt : call->messages.next();
  }

  std::optional<CallOutcome> outcome(CallId id) const {
    const auto found = calls_.find(id);
    if (found == calls_.end()) return std::nullopt;
    return found->second.outcome;
  }

 private:
  static Session& self(void* user_data) { return *static_cast<Session*>(user_data); }

  // Lack of memory ends the program, as everywhere. Other errors are handled where they
  // can occur.
  static void check(std::int64_t result) {
    if (result == NGHTTP2_ERR_NOMEM) throw std::bad_alloc();
  }

  void produce() {
    for (;;) {
      const std::uint8_t* bytes = nullptr;
      const auto size = nghttp2_session_mem_send(session_.get(), &bytes);
      check(size);
      if (size <= 0) return;
      output_ += text_of(bytes, static_cast<std::size_t>(size));
    }
  }

  OpenCall new_call() const {
    return {{}, MessageReader(limits_.bytes), {}, 0, false, {}};
  }

  OpenCall* find(CallId id) {
    const auto found = calls_.find(id);
    return found == calls_.end() ? nullptr : &found->second;
  }

  void fail(std::string why) {
    error_ = std::move(why);
    for (auto& [id, call] : calls_) {
      if (!call.outcome) call.outcome = CallOutcome{Code::unavailable, error_};
    }
  }

  // Ends the call from our side because of an invalid reply.
  void refuse(CallId id, OpenCall& call, std::string why) {
    call.outcome = CallOutcome{Code::internal, std::move(why)};
    nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame,
                       const std::uint8_t* name, std::size_t name_size,
                       const std::uint8_t* value, std::size_t value_size, std::uint8_t,
                       void* user_data) {
    const auto id = frame->hd.stream_id;
    auto* call = self(user_data).find(id);
    if (call == nullptr || call->outcome) return 0;
    if (!call->headers.add(text_of(name, name_size), text_of(value, value_size))) {
      self(user_data).refuse(id, *call, "a reply with too many headers");
    }
    return 0;
  }

  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id,
                     const std::uint8_t* bytes, std::size_t size, void* user_data) {
    auto* call = self(user_data).find(id);
    if (call == nullptr || call->outcome) return 0;
    if (!call->messages.feed(text_of(bytes, size))) {
      self(user_data).refuse(id, *call, "a reply that is too long, or not gRPC");
    }
    return 0;
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    auto& session = self(user_data);
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      session.goes_away_ = true;
      return 0;
    }
    const bool has_end =
        frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (!has_end || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    auto* call = session.find(frame->hd.stream_id);
    if (call == nullptr || call->outcome) return 0;
    call->outcome = call->headers.outcome();
    if (!call->outcome) {
      call->outcome = CallOutcome{Code::internal, "a reply without a status"};
    } else if (!call->messages.is_whole()) {
      call->outcome = CallOutcome{Code::internal, "a truncated reply"};
    }
    return 0;
  }

  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error,
                      void* user_data) {
    auto* call = self(user_data).find(id);
    if (call != nullptr && !call->outcome) call->outcome = outcome_of_reset(error);
    return 0;
  }

  static ssize_t on_read(nghttp2_session*, std::int32_t id, std::uint8_t* buffer,
                         std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                         void* user_data) {
    auto* call = self(user_data).find(id);
    if (call == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const auto left = std::string_view(call->outbox).substr(call->sent);
    if (left.empty() && !call->is_last) return NGHTTP2_ERR_DEFERRED;
    const auto count = left.copy(reinterpret_cast<char*>(buffer), size);
    call->sent += count;
    if (count == left.size()) {
      call->outbox.clear();
      call->sent = 0;
      if (call->is_last) *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return static_cast<ssize_t>(count);
  }

  struct Delete {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };

  std::string authority_;
  Http2Limits limits_;
  std::map<CallId, OpenCall> calls_;  // before the session, which calls back when it ends
  std::unique_ptr<nghttp2_session, Delete> session_;
  std::string output_;  // not yet taken
  std::string error_;
  bool goes_away_ = false;
};

Http2::Http2(std::string authority, Http2Limits limits)
    : session_(std::make_unique<Session>(std::move(authority), limits)) {}
Http2::~Http2() = default;

bool Http2::takes_calls() const { return session_->takes_calls(); }
CallId Http2::begin(const CallStart& start) { return session_->begin(start); }
void Http2::drop(CallId call) { session_->drop(call); }
std::string Http2::take_output() { return session_->take_output(); }
bool Http2::feed(std::string_view bytes) { return session_->feed(bytes); }
const std::string& Http2::error() const { return session_->error(); }
std::optional<std::string> Http2::next_message(CallId call) {
  return session_->next_message(call);
}
std::optional<CallOutcome> Http2::outcome(CallId call) const {
  return session_->outcome(call);
}

}  // namespace dlock::grpc

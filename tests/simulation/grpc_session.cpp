#include "tests/simulation/grpc_session.hpp"

#include <stdexcept>
#include <utility>
#include <vector>

namespace dlock::simulation {
namespace {

std::string_view view(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

nghttp2_nv header(std::string_view name, std::string_view value) {
  // nghttp2 copies the text; its C interface lacks const.
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

struct GrpcSession::Callbacks {
  static GrpcSession& self(void* data) { return *static_cast<GrpcSession*>(data); }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame,
                       const std::uint8_t* name, std::size_t name_size,
                       const std::uint8_t* value, std::size_t value_size, std::uint8_t,
                       void* data) {
    if (view(name, name_size) == ":path") {
      self(data).calls_[frame->hd.stream_id].path = view(value, value_size);
    }
    return 0;
  }

  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id,
                     const std::uint8_t* bytes, std::size_t size, void* data) {
    auto* call = self(data).find(id);
    if (call != nullptr) call->messages.feed(view(bytes, size));
    while (call != nullptr) {
      auto message = call->messages.next();
      if (!message) break;
      self(data).takes_(id, call->path, std::move(*message));
      call = self(data).find(id);
    }
    return 0;
  }

  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t, void* data) {
    if (self(data).calls_.erase(id) > 0) self(data).ends_(id);
    return 0;
  }

  static ssize_t on_read(nghttp2_session* session, std::int32_t id, std::uint8_t* buffer,
                         std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                         void* data) {
    auto* call = self(data).find(id);
    if (call == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (call->outbox.empty() && call->status.empty()) return NGHTTP2_ERR_DEFERRED;
    const auto count = call->outbox.copy(reinterpret_cast<char*>(buffer), size);
    call->outbox.erase(0, count);
    if (call->outbox.empty() && !call->status.empty()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const nghttp2_nv trailers[] = {header("grpc-status", call->status),
                                     header("grpc-message", call->why)};
      nghttp2_submit_trailer(session, id, trailers, std::size(trailers));
    }
    return static_cast<ssize_t>(count);
  }
};

GrpcSession::GrpcSession(Takes takes, Ends ends)
    : takes_(std::move(takes)), ends_(std::move(ends)) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks,
                                                            Callbacks::on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::on_close);
  nghttp2_session* made = nullptr;
  nghttp2_session_server_new(&made, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  session_.reset(made);
  nghttp2_submit_settings(made, NGHTTP2_FLAG_NONE, nullptr, 0);
}

GrpcSession::Call* GrpcSession::find(int id) {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : &found->second;
}

void GrpcSession::feed(std::string_view bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  if (nghttp2_session_mem_recv(session_.get(), begin, bytes.size()) < 0) {
    throw std::runtime_error("the simulation received no HTTP/2");
  }
}

void GrpcSession::reply(int id, std::string_view message, bool is_last) {
  auto* call = find(id);
  if (call == nullptr) return;
  call->outbox += grpc::framed(message);
  if (is_last) call->status = "0";
  proceed(id, *call);
}

void GrpcSession::fail(int id, grpc::Code code, const std::string& why) {
  auto* call = find(id);
  if (call == nullptr) return;
  call->status = std::to_string(static_cast<int>(code));
  call->why = why;
  proceed(id, *call);
}

void GrpcSession::proceed(int id, Call& call) {
  if (std::exchange(call.has_replied, true)) {
    nghttp2_session_resume_data(session_.get(), id);
    return;
  }
  const nghttp2_nv headers[] = {header(":status", "200"),
                                header("content-type", "application/grpc")};
  nghttp2_data_provider source{};
  source.read_callback = Callbacks::on_read;
  nghttp2_submit_response(session_.get(), id, headers, std::size(headers), &source);
}

std::string GrpcSession::output() {
  std::string all;
  for (;;) {
    const std::uint8_t* bytes = nullptr;
    const auto size = nghttp2_session_mem_send(session_.get(), &bytes);
    if (size <= 0) return all;
    all += view(bytes, static_cast<std::size_t>(size));
  }
}

}  // namespace dlock::simulation

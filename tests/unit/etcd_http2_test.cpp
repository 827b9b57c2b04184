// Calls over HTTP/2, against a server that is simulated frame by frame.

#include <gtest/gtest.h>

#include <algorithm>

#include "grpc/http2.hpp"

namespace dlock::grpc {
namespace {

using namespace std::string_literals;

enum FrameType { data = 0, headers = 1, reset = 3, settings = 4, ping = 6, goaway = 7 };
constexpr int end_stream = 1;
constexpr int end_headers = 4;

std::string number(std::uint32_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text += static_cast<char>(value >> shift & 0xFF);
  }
  return text;
}

std::string frame(FrameType type, int flags, std::uint32_t stream,
                  const std::string& payload) {
  return number(static_cast<std::uint32_t>(payload.size()), 3) + static_cast<char>(type) +
         static_cast<char>(flags) + number(stream, 4) + payload;
}

// A header in HPACK without compression.
std::string plain(const std::string& name, const std::string& value) {
  return "\0"s + static_cast<char>(name.size()) + name + static_cast<char>(value.size()) +
         value;
}

const auto response = plain(":status", "200") + plain("content-type", "application/grpc");
const auto well = plain("grpc-status", "0");

class EtcdHttp2 : public ::testing::Test {
 protected:
  EtcdHttp2() {
    EXPECT_TRUE(http2_.feed(frame(settings, 0, 0, "")));
    http2_.take_output();
  }

  CallId begin(bool is_last = true) {
    CallStart start;
    start.path = "/service/Method";
    start.message = "question";
    start.is_last = is_last;
    return http2_.begin(start);
  }

  // The outcome of a call after the server has sent these frames.
  CallOutcome outcome_after(const std::string& frames) {
    const auto call = begin();
    http2_.take_output();
    http2_.feed(frames);
    return http2_.outcome(call).value_or(CallOutcome{Code::ok, "goes on"});
  }

  Http2 http2_{"host:1"};
};

std::string trailers_only(const std::string& more) {
  return frame(headers, end_headers | end_stream, 1, response + more);
}

TEST_F(EtcdHttp2, a_call_is_sent_in_one_piece) {
  begin();
  const auto out = http2_.take_output();

  EXPECT_NE(out.find(framed("question")), std::string::npos);
  EXPECT_EQ(http2_.take_output(), "");
}

TEST_F(EtcdHttp2, a_message_and_an_ok_status_are_the_reply) {
  const auto call = begin();
  http2_.take_output();

  EXPECT_TRUE(http2_.feed(frame(headers, end_headers, 1, response) +
                          frame(data, 0, 1, framed("answer"))));
  EXPECT_FALSE(http2_.outcome(call));
  EXPECT_EQ(http2_.next_message(call), "answer");
  EXPECT_TRUE(http2_.feed(frame(headers, end_headers | end_stream, 1, well)));

  ASSERT_TRUE(http2_.outcome(call));
  EXPECT_EQ(http2_.outcome(call)->code, Code::ok);
  EXPECT_FALSE(http2_.next_message(call));
}

TEST_F(EtcdHttp2, a_reply_may_arrive_in_pieces_of_any_size) {
  const auto call = begin();
  http2_.take_output();
  const auto all = frame(headers, end_headers, 1, response) +
                   frame(data, 0, 1, framed("one") + framed("two").substr(0, 4)) +
                   frame(data, 0, 1, framed("two").substr(4)) +
                   frame(headers, end_headers | end_stream, 1, well);

  for (const char c : all) ASSERT_TRUE(http2_.feed({&c, 1}));

  EXPECT_EQ(http2_.next_message(call), "one");
  EXPECT_EQ(http2_.next_message(call), "two");
  EXPECT_EQ(http2_.outcome(call)->code, Code::ok);
}

TEST_F(EtcdHttp2, an_error_may_be_in_the_first_headers) {
  const auto outcome = outcome_after(
      trailers_only(plain("grpc-status", "5") + plain("grpc-message", "lease%20not%2")));

  EXPECT_EQ(outcome.code, Code::not_found);
  EXPECT_EQ(outcome.message, "lease not%2");
}

TEST_F(EtcdHttp2, a_reply_without_a_status_is_an_error) {
  EXPECT_EQ(outcome_after(trailers_only("")).code, Code::internal);
}

TEST_F(EtcdHttp2, a_status_that_is_not_a_number_is_an_error) {
  for (const std::string status : {"", "zero", "0x", "-0x1", "99999999999999999999"}) {
    const Headers unused;
    Headers received;
    received.add(":status", "200");
    received.add("content-type", "application/grpc+proto");
    received.add("grpc-status", status);

    EXPECT_EQ(received.outcome()->code, Code::unknown) << status;
    EXPECT_FALSE(unused.outcome());
  }
}

TEST_F(EtcdHttp2, an_error_page_of_a_proxy_means_unavailable) {
  const auto sorry = plain(":status", "503") + plain("content-type", "text/html");

  const auto outcome = outcome_after(frame(headers, end_headers | end_stream, 1, sorry));

  EXPECT_EQ(outcome.code, Code::unavailable);
  EXPECT_EQ(outcome.message, "HTTP status 503");
}

TEST_F(EtcdHttp2, a_truncated_reply_is_an_error) {
  const auto outcome = outcome_after(frame(headers, end_headers, 1, response) +
                                     frame(data, 0, 1, framed("answer").substr(0, 7)) +
                                     frame(headers, end_headers | end_stream, 1, well));

  EXPECT_EQ(outcome.code, Code::internal);
}

TEST_F(EtcdHttp2, the_server_is_unavailable_for_a_refused_call_and_a_reset_one) {
  const auto refused = outcome_after(frame(reset, 0, 1, number(7, 4)));

  EXPECT_EQ(refused.code, Code::unavailable);

  begin();
  http2_.take_output();
  http2_.feed(frame(reset, 0, 3, number(2, 4)));
  EXPECT_EQ(http2_.outcome(3)->code, Code::unavailable);
}

TEST_F(EtcdHttp2, goaway_ends_calls_that_were_not_begun_and_allows_no_new_ones) {
  const auto first = begin();
  const auto second = begin();
  http2_.take_output();
  EXPECT_TRUE(http2_.takes_calls());

  http2_.feed(frame(goaway, 0, 0, number(1, 4) + number(0, 4)));

  EXPECT_FALSE(http2_.takes_calls());
  EXPECT_FALSE(http2_.outcome(first));
  ASSERT_TRUE(http2_.outcome(second));
  EXPECT_EQ(http2_.outcome(second)->code, Code::unavailable);

  EXPECT_TRUE(http2_.feed(trailers_only(well)));
  EXPECT_EQ(http2_.outcome(first)->code, Code::ok);
}

TEST_F(EtcdHttp2, a_ping_is_answered) {
  EXPECT_TRUE(http2_.feed(frame(ping, 0, 0, "12345678")));

  EXPECT_EQ(http2_.take_output(), frame(ping, 1, 0, "12345678"));
}

TEST_F(EtcdHttp2, bytes_that_are_not_http2_end_the_connection_and_its_calls) {
  const auto call = begin();
  http2_.take_output();

  EXPECT_FALSE(http2_.feed("HTTP/1.1 400 Bad Request\r\n\r\n"));

  EXPECT_NE(http2_.error(), "");
  EXPECT_FALSE(http2_.takes_calls());
  EXPECT_EQ(http2_.outcome(call)->code, Code::unavailable);
  EXPECT_FALSE(http2_.feed(trailers_only(well)));
}

TEST_F(EtcdHttp2, a_message_over_the_limit_is_refused_before_it_has_arrived) {
  Http2 small("host:1", {100});
  CallStart start;
  start.path = "/service/Method";
  const auto call = small.begin(start);
  small.feed(frame(settings, 0, 0, ""));
  small.take_output();

  small.feed(frame(headers, end_headers, 1, response) +
             frame(data, 0, 1, "\0"s + number(200, 4) + "begin"));

  ASSERT_TRUE(small.outcome(call));
  EXPECT_EQ(small.outcome(call)->code, Code::internal);
  EXPECT_NE(small.take_output(), "");  // the reset of the call
}

TEST_F(EtcdHttp2, a_compressed_message_is_refused) {
  auto compressed = framed("answer");
  compressed[0] = 1;

  const auto outcome = outcome_after(frame(headers, end_headers, 1, response) +
                                     frame(data, 0, 1, compressed));

  EXPECT_EQ(outcome.code, Code::internal);
}

TEST_F(EtcdHttp2, too_many_headers_are_refused) {
  Headers received;
  const std::string value(1000, 'x');

  int taken = 0;
  while (taken < 100 && received.add("name", value)) ++taken;

  EXPECT_EQ(taken, 16);
}

TEST_F(EtcdHttp2, an_open_call_is_cancelled_when_it_is_dropped) {
  const auto call = begin(false);
  http2_.take_output();

  http2_.drop(call);

  EXPECT_EQ(http2_.take_output(), frame(reset, 0, 1, number(8, 4)));
  EXPECT_TRUE(http2_.feed(frame(headers, end_headers, 1, response)));
  EXPECT_FALSE(http2_.outcome(call));
}

}  // namespace
}  // namespace dlock::grpc

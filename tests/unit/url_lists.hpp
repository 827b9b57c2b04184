// Helpers for the tests of URLs that name several servers.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/open.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock {

// Why the URL is refused, without the URL; empty if it is not.
inline std::string refusal_of_url(const std::string& url) {
  try {
    parsed_store_url(url);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured) << url;
    const std::string message = failure.what();
    return message.substr(message.find("': ") + 3);
  }
  return "";
}

// "one:6379 [::1]:7000"
inline std::string places_of(const std::vector<ServerAddress>& servers) {
  std::string text;
  for (const auto& server : servers) text += (text.empty() ? "" : " ") + server.shown();
  return text;
}

// "h1,h2,h3"
inline std::string hosts(int count) {
  std::string text = "h1";
  for (int i = 2; i <= count; ++i) text += ",h" + std::to_string(i);
  return text;
}

}  // namespace dlock

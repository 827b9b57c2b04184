// Helpers for the tests of URLs that name several servers.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/redis/target.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock {

template <typename Plan>
Plan plan_from_url(const std::string& url) {
  const auto colon = url.find(':');
  return Plan::parsed(url.substr(0, colon), url.substr(colon + 1));
}

// Why the URL is refused; empty if it is not.
template <typename Plan>
std::string refusal_of_url(const std::string& url) {
  try {
    plan_from_url<Plan>(url);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured) << url;
    return failure.what();
  }
  return "";
}

// "one:6379 [::1]:7000"
inline std::string places_of(const std::vector<redis::Target>& servers) {
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

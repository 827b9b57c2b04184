#include "store/local/plan.hpp"

#include "store/local/local_health.hpp"
#include "store/local/local_store.hpp"

namespace dlock::local {
namespace {

// Without doubled or trailing slashes, so that one directory has one name.
std::string normalized(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (c != '/' || out.empty() || out.back() != '/') out += c;
  }
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

}  // namespace

Plan Plan::parsed(std::string_view, const std::string& rest) {
  if (!rest.empty() && (rest.front() != '/' || rest.find('\0') != std::string::npos)) {
    throw Failure(Failure::Kind::misconfigured, "the directory must be an absolute path");
  }
  return {normalized(rest)};
}

std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context) {
  return std::make_unique<LocalStore>(context, plan.path, timeout);
}

asio::awaitable<Examination> examine(const Plan& plan, const std::string&,
                                     milliseconds timeout, asio::io_context&, Wakeup&) {
  Examination examination;
  examination.findings = findings_of(facts_of(plan.path, timeout));
  co_return examination;
}

}  // namespace dlock::local

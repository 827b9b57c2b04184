#include "store/none/plan.hpp"

#include "store/none/none_store.hpp"

namespace dlock::none {

Plan Plan::parsed(std::string_view, const std::string& rest) {
  if (!rest.empty()) {
    throw Failure(Failure::Kind::misconfigured, "nothing may follow none:");
  }
  return {};
}

std::unique_ptr<Store> open(const Plan&, milliseconds, asio::io_context&) {
  return std::make_unique<NoneStore>();
}

asio::awaitable<Examination> examine(const Plan&, const std::string&, milliseconds,
                                     asio::io_context&, Wakeup&) {
  Examination examination;
  examination.findings.push_back({"store", Finding::Level::info,
                                  "none: excludes nobody, so there is nothing to check",
                                  ""});
  co_return examination;
}

}  // namespace dlock::none

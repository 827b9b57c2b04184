#include "store/redis/plan.hpp"

#include <utility>

#include "store/redis/address.hpp"
#include "store/redis/examine.hpp"
#include "store/redis/redis_store.hpp"

namespace dlock::redis {

void set_login(Target& target, const Credentials& credentials) {
  const bool has_other = !credentials.password_file.empty() || credentials.password;
  if (target.is_login_alone && (has_other || credentials.user == target.password)) {
    target.user = *std::exchange(target.password, std::nullopt);
    target.is_login_alone = false;
  }
  if (credentials.user) target.user = *credentials.user;
  if (!credentials.password_file.empty()) {
    target.password_file = credentials.password_file;
    target.password.reset();
  } else if (credentials.password) {
    target.password = credentials.password;
  }
  if (target.tls) target.tls = credentials.tls;
}

Plan Plan::parsed(std::string_view scheme, const std::string& rest) {
  return {target_from(scheme, rest)};
}

std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context) {
  return store_of(plan.target, timeout, context);
}

asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup) {
  const auto facts = co_await facts_of(context, plan.target, name_space, timeout, wakeup);
  co_return examination_of(findings_of(facts), {&facts, 1});
}

}  // namespace dlock::redis

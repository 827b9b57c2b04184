#include "cli/show/limit_view.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "cli/terminal/speaker.hpp"
#include "loop/run_blocking.hpp"
#include "store/open.hpp"
#include "util/text.hpp"

namespace dlock {

std::string text_of(const Rate& rate) {
  constexpr std::pair<const char*, std::int64_t> units[] = {
      {"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}};
  const auto period = rate.period.count();
  const auto* unit = std::find_if(std::begin(units), std::end(units),
                                  [&](const auto& u) { return period % u.second == 0; });
  return std::to_string(rate.most) + "/" + std::to_string(period / unit->second) +
         unit->first;
}

std::string limit_text(const std::string& name, const LimitInfo& limit,
                       const std::string& store) {
  if (!limit.rate)
    return printable_name(name) + ": not in use in " + printable(store) + "\n";
  auto text = printable_name(name) + ": " + text_of(*limit.rate) + ", " +
              std::to_string(limit.remaining) + " remaining";
  if (limit.next_in.count() > 0) text += ", next in " + for_people(limit.next_in);
  text += "\n";
  for (const auto& waiter : limit.waiters) {
    text += "  waiting: " +
            (waiter.host.empty()
                 ? std::string("unknown client")
                 : printable(waiter.host, 64) + ", pid " + std::to_string(waiter.pid)) +
            ", turn in " + for_people(waiter.turn_in) + "\n";
  }
  return text;
}

Json json_of(const std::string& name, const LimitInfo& limit) {
  Json waiters = Json::array();
  for (const auto& waiter : limit.waiters) {
    waiters.push_back({{"host", waiter.host.empty() ? Json(nullptr) : Json(waiter.host)},
                       {"pid", waiter.pid == 0 ? Json(nullptr) : Json(waiter.pid)},
                       {"retry_in_ms", waiter.turn_in.count()}});
  }
  const auto& rate = limit.rate;
  return Json{
      {"name", name},
      {"rate", rate ? Json(text_of(*rate)) : Json(nullptr)},
      {"remaining", rate ? Json(limit.remaining) : Json(nullptr)},
      {"retry_in_ms", rate ? Json(limit.next_in.count()) : Json(nullptr)},
      {"waiters", waiters},
  };
}

Exit show_limit(const CommonOptions& common, const std::string& name) {
  asio::io_context context(1);
  Wakeup wakeup(context);
  const auto store = open_store(common.store, store_timeout(common, {}), context);
  const LockName limit{common.name_space, name};
  const auto info =
      run_blocking(context, [&] { return rates_of(*store).look(limit, wakeup); });
  print(common.json ? to_line(json_of(name, info)) + "\n"
                    : limit_text(name, info, store->url()));
  return {};
}

Exit reset_limit(const CommonOptions& common, const std::string& name) {
  asio::io_context context(1);
  Wakeup wakeup(context);
  const auto store = open_store(common.store, store_timeout(common, {}), context);
  const LockName limit{common.name_space, name};
  run_blocking(context, [&]() -> asio::awaitable<bool> {
    co_await rates_of(*store).reset(limit, wakeup);
    co_return true;
  });
  return {};
}

}  // namespace dlock

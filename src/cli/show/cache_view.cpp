#include "cli/show/cache_view.hpp"

#include <boost/asio/io_context.hpp>

#include "cli/show/lock_view.hpp"
#include "cli/terminal/speaker.hpp"
#include "loop/run_blocking.hpp"
#include "store/open.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

asio::awaitable<CachedValue> look(Store& store, const LockName& lock,
                                  const Speaker& speaker, Wakeup& wakeup) {
  auto found = co_await values_of(store).describe(lock, wakeup);
  if (!found.damage.empty()) {
    speaker.warning("the cached value is unusable: " + found.damage);
  }
  CachedValue cached{found.value, std::nullopt};
  auto info = co_await store.inspector().inspect(lock, wakeup);
  if (!info.holders.empty()) cached.computed_by = std::move(info.holders.front());
  co_return cached;
}

}  // namespace

std::string cached_text(const CachedValue& cached, const std::string& store) {
  std::string text = "nothing is cached in " + printable(store);
  if (const auto& value = cached.value) {
    text = std::to_string(value->size) + " bytes";
    if (value->age) text += ", stored " + for_people(*value->age) + " ago";
    text += value->fresh_for.count() > 0
                ? ", fresh for another " + for_people(value->fresh_for)
                : ", stale, served for another " + for_people(value->expires_in) +
                      " during a refresh";
  }
  text += "\n";
  if (const auto& holder = cached.computed_by) {
    text += "being computed by " + described(*holder) + "\n";
  }
  return text;
}

Json json_of(const std::string& key, const CachedValue& cached) {
  const auto& value = cached.value;
  const auto ms = [&](milliseconds time) { return Json(time.count()); };
  return Json{
      {"key", key},
      {"cached", value.has_value()},
      {"size", value ? Json(value->size) : Json(nullptr)},
      {"age_ms", value && value->age ? ms(*value->age) : Json(nullptr)},
      {"fresh_for_ms", value ? ms(value->fresh_for) : Json(nullptr)},
      {"expires_in_ms", value ? ms(value->expires_in) : Json(nullptr)},
      {"maker", cached.computed_by ? json_of(*cached.computed_by) : Json(nullptr)},
  };
}

Exit show_value(const CommonOptions& common, const LockName& lock) {
  asio::io_context context(1);
  Wakeup wakeup(context);
  const Speaker speaker(lock.name, common.quiet, common.verbose);
  const auto store = open_store(common.store, store_timeout(common, {}), context);
  const auto cached =
      run_blocking(context, [&] { return look(*store, lock, speaker, wakeup); });
  const auto key = lock.name.substr(lock.name.find(':') + 1);
  print(common.json ? to_line(json_of(key, cached)) + "\n"
                    : cached_text(cached, store->url()));
  return {cached.value ? 0 : code_of(ExitStatus::not_held), {}};
}

}  // namespace dlock

#include "store/redis_quorum/voter.hpp"

#include <boost/asio/co_spawn.hpp>
#include <chrono>
#include <exception>
#include <utility>

namespace dlock::redis_quorum {

Voter::Voter(asio::io_context& context, const redis::Target& target, milliseconds timeout,
             milliseconds max_ttl)
    : context_(context),
      max_ttl_(max_ttl),
      route_(new redis::SoleRoute(context, target, timeout, redis::Role::independent)),
      store_(redis::store_of(context, target.shown(),
                             std::unique_ptr<redis::Route>(route_))),
      wakeup_(context) {}

std::optional<Failure> Voter::has_no_vote() const {
  const auto up =
      std::chrono::floor<milliseconds>(Clock::now() - route_->node().life().began);
  return why_no_vote(name(), up, max_ttl_);
}

Failure Voter::still_busy() const {
  return Failure::unreachable(name() + " has not replied to an earlier request");
}

void Voter::perform(Work work) {
  next_ = std::move(work);
  if (is_busy_) return give_up();
  is_busy_ = true;
  asio::co_spawn(context_, work_off(shared_from_this()), [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  });
}

void Voter::give_up() {
  if (is_busy_) wakeup_.give_up(true);
}

asio::awaitable<void> Voter::work_off(std::shared_ptr<Voter> self) {
  while (self->next_) {
    const auto work = std::exchange(self->next_, nullptr);
    self->wakeup_.give_up(false);
    co_await work(self->wakeup_);
  }
  self->is_busy_ = false;
}

}  // namespace dlock::redis_quorum

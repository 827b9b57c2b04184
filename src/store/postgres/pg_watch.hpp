// Sessions that watch the locks of a namespace.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "lock/store.hpp"
#include "store/postgres/pg_primary.hpp"

namespace dlock::postgres {

// Each on a separate connection. All that is referred to must outlive them.
NewWatchSession watches(asio::io_context& context, std::shared_ptr<PgHosts> hosts,
                        const Watched& watched, Wakeup& wakeup);

}  // namespace dlock::postgres

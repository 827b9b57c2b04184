// The embedded store: small files hold the state, kernel locks prove who is alive. Rate
// limits and fence registers need no more than its files.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "lock/store.hpp"
#include "store/store_url.hpp"

namespace dlock::local {

// As Files. Throws Failure (misconfigured) if there is no default directory.
std::unique_ptr<Store> store_at(asio::io_context& context, std::string path,
                                milliseconds timeout);

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::local

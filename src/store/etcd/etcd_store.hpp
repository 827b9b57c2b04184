// Locks in an etcd cluster, shared by many machines; they survive the loss of a minority
// of its members.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "lock/store.hpp"
#include "store/etcd/etcd_calls.hpp"
#include "store/store_url.hpp"

namespace dlock::etcd {

// `url` as users see it, without secrets. `access`: the addresses of the members and the
// login.
std::unique_ptr<Store> store_of(std::string url, const EtcdAccess& access,
                                milliseconds timeout, asio::io_context& context);

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::etcd

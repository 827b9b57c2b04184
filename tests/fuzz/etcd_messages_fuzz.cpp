// Messages of etcd. The first byte selects the request that they reply to.

#include "fuzz.hpp"
#include "store/etcd/etcd_messages.hpp"

using namespace dlock;
using fuzz::require;

namespace {

etcd::TxnRequest transaction() {
  etcd::TxnRequest txn;
  txn.then.emplace_back(etcd::PutRequest{});
  txn.then.emplace_back(etcd::RangeRequest{});
  txn.otherwise.emplace_back(etcd::DeleteRequest{});
  return txn;
}

const etcd::Request requests[] = {
    etcd::RangeRequest{},          transaction(),
    etcd::LeaseGrantRequest{},     etcd::LeaseRevokeRequest{},
    etcd::LeaseKeepAliveRequest{}, etcd::LeaseTimeToLiveRequest{},
    etcd::StatusRequest{},         etcd::AlarmsRequest{},
    etcd::MemberListRequest{},     etcd::AuthenticateRequest{},
};

void check(const etcd::TxnRequest& request, const etcd::TxnResult& result) {
  const auto& executed = result.succeeded ? request.then : request.otherwise;
  require(result.results.size() == executed.size(), "each operation has a result");
  for (std::size_t i = 0; i < executed.size(); ++i) {
    require(result.results[i].index() == executed[i].index(), "and one of the same kind");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = fuzz::text_of(data + 1, size - 1);
  const auto which = data[0] % (std::size(requests) + 1);
  if (which == std::size(requests)) {
    const auto answer = etcd::decoded_watch(bytes);
    require(!answer || answer->events.size() <= size, "no event takes no byte");
    return 0;
  }
  const auto& request = requests[which];
  const auto result = etcd::decoded(request, bytes);
  if (!result) return 0;
  require(result->index() == request.index(), "an answer is of its request's kind");
  if (const auto* txn = std::get_if<etcd::TxnRequest>(&request)) {
    check(*txn, std::get<etcd::TxnResult>(*result));
  }
  return 0;
}

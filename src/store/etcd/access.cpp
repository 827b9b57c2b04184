#include "store/etcd/access.hpp"

#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::etcd {

Access access_of(const StoreUrl& url) {
  return {url.servers,        url.tls,
          url.login.user,     url.login.alone == Login::Alone::user,
          url.login.password, url.login.password_file};
}

std::string password_of(const Access& access) {
  if (!access.password_file.empty()) return password_in(access.password_file);
  if (access.password) return *access.password;
  // Otherwise the calls would go out without a login.
  throw Failure(
      Failure::Kind::misconfigured,
      "no password for " +
          (access.is_user_alone ? std::string("the user before the @ of the store's URL")
                                : "user '" + printable(access.user, 200) + "'") +
          ": use --password-file or DLOCK_PASSWORD");
}

}  // namespace dlock::etcd

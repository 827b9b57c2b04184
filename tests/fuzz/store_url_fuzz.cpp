// Store URLs.

#include "fuzz.hpp"
#include "store/open.hpp"
#include "util/failure.hpp"

using namespace dlock;
using fuzz::require;

namespace {

// A login without a colon is the user if the password is set elsewhere, as it is for
// whoever uses a URL that is shown.
StoreUrl with_password_elsewhere(const std::string& url) {
  auto store = parsed_store_url(url);
  Credentials credentials;
  credentials.password_file = "/file";
  store.set(credentials);
  return store;
}

void require_login(const StoreUrl& url) {
  require(!url.login.password || !url.login.password->empty(), "a password is one");
  require(url.sentinel_login.user.empty() && !url.sentinel_login.password,
          "sentinels are not told the login of the servers");
}

void require_servers(const StoreUrl& url) {
  const auto& form = url.kind->form;
  const auto count = url.servers.size();
  require(url.path.empty() ? count >= form.least && count <= form.most : count == 0,
          "a list of servers has bounds");
  require(url.path.empty() || url.path.front() == '/', "a path is absolute");
  require(url.path.find('\0') == std::string::npos, "a path ends where it ends");
  for (const auto& server : url.servers) {
    require(!server.host.empty() && (server.port != 0 || form.port == 0),
            "a server has one place");
  }
  require(url.master.size() <= 255 && url.master.empty() != form.has_master,
          "a name has bounds");
}

void require_same_again(const StoreUrl& url) {
  const auto text = url.text();
  require(is_printable_utf8(text), "a URL is printable");
  const auto again = with_password_elsewhere(text);
  require(again.text() == text, "a URL that is shown stays as it is");
  require(!again.login.password, "a URL that is shown has no password");
  // What may be a password is not shown.
  const auto user = url.login.alone == Login::Alone::user ? "" : url.login.user;
  require(
      again.kind == url.kind && again.servers == url.servers && again.path == url.path &&
          again.master == url.master && again.login.user == user &&
          again.uses_tls() == url.uses_tls() && again.database == url.database &&
          again.database_name == url.database_name && again.parameters == url.parameters,
      "a URL that is shown leads to the same servers");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string url(fuzz::text_of(data, size));
  try {
    const auto parsed = parsed_store_url(url);
    if (parsed.kind->form.place == UrlForm::Place::servers) {
      require_login(parsed);
      require_servers(parsed);
      require_same_again(parsed);
    }
    if (parsed.kind->form.place == UrlForm::Place::directory) {
      const auto& path = parsed.path;
      require(path.empty() || path.front() == '/', "a path is absolute");
      require(path.find('\0') == std::string::npos, "a path ends where it ends");
      require(parsed_store_url("local:" + path).path == path,
              "a normalized path stays as it is");
    }
  } catch (const Failure& failure) {
    require(failure.kind() == Failure::Kind::misconfigured, "a bad URL is a bad setting");
    fuzz::require_message(failure);
  }
  return 0;
}

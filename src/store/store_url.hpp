// A store URL, parsed once for every kind of store: servers, login, settings.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/tls_context.hpp"
#include "store/url_parts.hpp"
#include "util/clock.hpp"

namespace dlock {

namespace asio = boost::asio;

class Store;
class Wakeup;
namespace net {
class Budget;
}
struct Examination;
struct StoreUrl;

// What `dlock doctor` is asked for.
struct ExaminationOrder {
  const StoreUrl& url;
  std::string name_space;
  milliseconds timeout;        // of each request
  milliseconds store_timeout;  // of one operation of a run, for advice
  asio::io_context& context;
  Wakeup& wakeup;
};

// As open_store() and examine_store(); each kind of store declares its own.
using OpenStore = std::unique_ptr<Store>(const StoreUrl& url, milliseconds timeout,
                                         asio::io_context& context);
using ExamineStore = asio::awaitable<Examination>(const ExaminationOrder& order);

// The SQL that makes what a store of this kind keeps its locks in.
using SchemaText = std::string(const StoreUrl& url);

// How many replicas must acknowledge a grant or a renewal for it to count.
struct Replicas {
  bool all = false;    // every replica that is up, and at least one
  unsigned count = 0;  // if not `all`

  bool operator==(const Replicas&) const = default;
};

// The conditions for a grant of a quorum of independent servers.
struct QuorumTerms {
  unsigned least_strength = 0;  // how many servers must be able to forget it safely
  // A server that has been up for less may have forgotten a grant and has no vote; no
  // lease is longer. 0: no server forgets an acknowledged grant by a restart.
  milliseconds max_ttl{60'000};

  bool operator==(const QuorumTerms&) const = default;
};

// Settings besides the URL: the login, TLS, and the conditions for a grant.
struct Credentials {
  std::optional<std::string> user;
  std::optional<std::string> password;
  std::string password_file;  // takes precedence over the password; empty: none
  std::vector<std::string> password_command;  // the same
  net::TlsOptions tls;                        // for a store over TLS

  // For sentinels, which never receive the login above.
  std::optional<std::string> sentinel_user;
  std::optional<std::string> sentinel_password;
  std::string sentinel_password_file;
  bool sentinel_tls = true;  // if the servers are used over TLS

  Replicas replicas;
  QuorumTerms terms;
  AddressMap addresses;
};

// Who a server is told that we are.
struct Login {
  std::string user;  // empty: none, or the default user
  std::optional<std::string> password;
  std::string password_file;  // read at each login, so that a rotated password is used
  std::vector<std::string> password_command;  // run at each login, as its words
  // What it is if the URL has just one word before the @: some stores take it for the
  // user, others for the password.
  enum class Alone { nothing, user, password } alone = Alone::nothing;

  bool has_password() const {
    return password || !password_file.empty() || !password_command.empty();
  }

  // For one login: what the command prints, within the budget (net/password_command), or
  // what is in the file, as password_in(), or the password. Nothing if there is none.
  asio::awaitable<std::optional<std::string>> secret(asio::io_context& context,
                                                     net::Budget& budget) const;

  // Replaces what is set besides the URL. A lone password becomes the user if the
  // password is set there, or if it is the user there: so it is in a URL that this
  // program has written.
  void set(const std::optional<std::string>& new_user,
           const std::optional<std::string>& new_password,
           const std::string& new_password_file,
           const std::vector<std::string>& new_password_command = {});
};

// What a kind of store supports besides locks, and which settings it has a use for.
struct StoreFeatures {
  bool leases_expire = false;  // Store::leases_expire
  bool values = true;          // Store::values
  bool rates = true;           // Store::rates
  bool replicas = false;       // waits for replicas (Replicas)
  bool votes = false;          // is a quorum (QuorumTerms)
  bool sentinels = false;      // its servers are named by sentinels, with their own login
};

// How long an operation may take at most, by what the URL says; nothing: it says nothing.
using UsualTimeout = std::optional<milliseconds>(const StoreUrl& url);

// Takes the parameters of a URL that libpq could read, by name. Throws Failure
// (misconfigured) for one that is not supported.
using TakeParameters = void(StoreUrl& url,
                            const std::map<std::string, std::string>& parameters);

// Which parts the URLs of a kind of store have.
struct UrlForm {
  enum class Place {
    nowhere,
    directory,  // an absolute path, or nothing
    servers,    // a list, or a socket if the kind has a scheme for it
  };
  Place place = Place::servers;
  std::string_view shape = {};            // what follows the scheme, for messages
  std::string_view server = "server";     // one of them, for messages
  std::uint16_t port = 0;                 // if none is named
  std::size_t least = 1;                  // of the servers
  std::size_t most = most_servers;        //
  std::string_view path = {};             // what may follow the servers, for messages
  std::string_view why_no_database = {};  // the beginning of that message
  bool is_user_required = false;          // a lone word is the user, not the password
  bool has_master = false;                // the path begins with the name of a primary
  bool has_database = false;              // the path may end with a number, or ?db=N
  // If set, the URL is read as libpq reads it: a lone word is surely the user, a server
  // may be the directory of a socket, /NAME is the database, and parameters follow.
  TakeParameters* take_parameters = nullptr;
};

// A setting that a URL leaves open, and that other programs for this kind of store also
// have set for themselves; or one that the URL has in the terms of those.
struct OutsideSetting {
  std::string name;    // "user"
  std::string value;   // "***" for a secret
  std::string origin;  // the variable, or the file; empty: the URL
  bool is_variable = true;
};
using OutsideSettings = std::vector<OutsideSetting>(const StoreUrl& url);

// A kind of store: a row of the table in store/open.cpp.
struct StoreKind {
  std::string_view scheme;
  std::string_view tls_scheme = {};  // the same over TLS; empty: there is none
  std::string_view socket_scheme =
      {};                  // the same over a unix socket; empty: there is none
  std::string_view shown;  // all of these, for messages
  UrlForm form;
  StoreFeatures features;
  OpenStore* open;
  ExamineStore* examine;
  OutsideSettings* outside = nullptr;  // in force for a URL; null: there are none
  SchemaText* schema = nullptr;        // null: such a store needs none
  UsualTimeout* timeout = nullptr;     // null: its URLs say nothing

  bool has_scheme(std::string_view text) const {
    return !text.empty() &&
           (text == scheme || text == tls_scheme || text == socket_scheme);
  }
};

struct StoreUrl {
  const StoreKind* kind = nullptr;  // never null in what parsed() returns
  // The directory of a local store, empty for the default one; or a unix socket.
  std::string path;
  // Members, sentinels, voters, or the only server; all different. Empty with a path, or
  // if there is a usual one.
  std::vector<ServerAddress> servers;
  std::string master;  // the name of the primary, as in `sentinel monitor`
  unsigned database = 0;
  std::string database_name;                      // of PostgreSQL
  std::map<std::string, std::string> parameters;  // no secret is among them
  std::vector<std::string> ignored;               // names of parameters: see ignore()
  Login login;  // the same on every server, except for sentinels
  std::optional<net::TlsOptions> tls;
  Login sentinel_login;
  std::optional<net::TlsOptions> sentinel_tls;
  Replicas replicas;
  QuorumTerms terms;
  AddressMap addresses;  // of the servers that others announce

  // Parses what follows the scheme and its colon. Throws Failure (misconfigured) if it is
  // invalid; the message repeats nothing of it, because it may contain a password.
  static StoreUrl parsed(const StoreKind& kind, std::string_view scheme,
                         const std::string& rest);

  // Replaces the login and the TLS settings by those set elsewhere, and sets the rest. No
  // effect on a store without a login.
  void set(const Credentials& credentials);

  // Notes a parameter that no store has: it is one of another program that reads the same
  // URL. Throws Failure (misconfigured) if must_be_obeyed(), or if it has no name that
  // can be shown.
  void ignore(const std::string& name);

  // Whether a lease there expires unless it is renewed (Store::leases_expire).
  bool leases_expire() const { return kind->features.leases_expire; }

  // Whether the servers are used over TLS, and if so, without verification.
  bool uses_tls() const { return tls.has_value(); }
  bool is_insecure() const { return tls && tls->insecure; }

  // The URL without passwords and default values. Printable ASCII, unless it is that of
  // a directory.
  std::string text() const;
};

// Overwrites what `word`, a word of the command line, has between :// and @, and as
// parameters whose names are those of passwords or tokens, by x, because every user can
// read the arguments of a process.
void hide_login(char* word);

// The scheme as this program names it: in lower case, valkey as redis, and postgresql as
// postgres.
std::string canonical_scheme(std::string_view scheme);

// The password in `file`, which may be a pipe: see small_file(). Throws Failure like
// small_file(), as a secret, and like password_from().
std::string password_in(const std::string& file);

// The password in the content of a file: its only line, without the end of the line (\n,
// \r\n or \r) and blank lines after it, and without a byte order mark before it. Blanks
// belong to the password. Throws Failure (misconfigured) without any of the content if
// there is no password, there is a second line, or a NUL byte.
std::string password_from(std::string content);

// What is odd about a password that a server has refused: a line end or a blank at one of
// its ends, as a variable or a file may have by mistake. The end of a message, or
// nothing.
std::string remark_on_password(const std::optional<std::string>& password);

// No store: grants everything, remembers nothing. For development, and for switching
// locking off without editing a crontab.
namespace none {

OpenStore open;
ExamineStore examine;

}  // namespace none
}  // namespace dlock

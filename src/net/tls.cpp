#include "net/tls.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "net/endpoint.hpp"
#include "net/messages.hpp"
#include "net/refusal.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"
#include "util/small_file.hpp"
#include "util/text.hpp"

namespace dlock::net {
namespace {

// OpenSSL's own BIO for sockets writes with write(2), which raises SIGPIPE when the
// server has gone. The session's descriptor is the BIO's data.
int fd_of(BIO* bio) { return *static_cast<const int*>(BIO_get_data(bio)); }

int bio_write(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const auto sent =
      ::send(fd_of(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* buffer, int size) {
  BIO_clear_retry_flags(bio);
  const auto received = ::recv(fd_of(bio), buffer, static_cast<std::size_t>(size), 0);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(received);
}

long bio_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;  // nothing is buffered
}

BIO* new_bio(int& fd) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  BIO* bio = BIO_new(method);
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, &fd);
  BIO_set_init(bio, 1);
  return bio;
}

// The first error since the queue was cleared, which caused the others.
std::string reason_of_openssl() {
  const auto error = ERR_peek_error();
  if (ERR_GET_LIB(error) == ERR_LIB_SYS) return reason_of(ERR_GET_REASON(error));
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? "unknown error" : with_small_letter(printable(reason));
}

// The alerts by which a server asks for a client certificate or rejects ours (RFC 8446,
// 6.2).
bool is_about_our_certificate(unsigned long error) {
  switch (ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case 116:  // certificate required; OpenSSL 1.1.1 has no name for it
      return true;
    default: return false;
  }
}

bool is_unexpected_end(unsigned long error) {
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
  return ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
#else
  return error == 0;
#endif
}

// What is wrong with the content of a file that should be in PEM format.
std::string flaw_of(const std::string& text) {
  if (text.empty()) return "the file is empty";
  if (text.find("-----BEGIN ") != std::string::npos) return "";
  // The outermost part of certificates, keys and PKCS #12.
  return text.starts_with("\x30") ? "it is in DER or PKCS #12 format, not PEM (see "
                                    "openssl-x509, openssl-pkey and openssl-pkcs12)"
                                  : "it is not in PEM format (no -----BEGIN line)";
}

// A file of the plan that was read once.
struct Loadable {
  std::string what;  // "CA file"
  std::string name;  // as the user wrote it
  std::string path;  // by which OpenSSL can read it
  std::string flaw;

  Failure unusable(std::string why = "") const {
    if (why.empty()) why = flaw;
    if (why.empty()) why = reason_of_openssl();
    return Failure(Failure::Kind::misconfigured,
                   "cannot use the " + what + " " + printable(name, 200) + ": " + why);
  }
};

struct PassPhrase {
  std::string text;
  bool is_set = false;
  bool is_wanted = false;  // the key has one
};

// Copies the pass phrase to where OpenSSL wants it. Without this function, or for 0, it
// would ask for it on the terminal.
int give_pass_phrase(char* buffer, int size, int, void* given) {
  auto& phrase = *static_cast<PassPhrase*>(given);
  phrase.is_wanted = true;
  if (!phrase.is_set || phrase.text.size() > static_cast<std::size_t>(size)) return -1;
  std::memcpy(buffer, phrase.text.data(), phrase.text.size());
  return static_cast<int>(phrase.text.size());
}

// Why a key could not be used, if it is its pass phrase or its certificate.
std::string flaw_of_key(const TlsOptions& plan, const PassPhrase& phrase) {
  const auto error = ERR_peek_error();
  const auto reason = ERR_GET_LIB(error) == ERR_LIB_X509 ? ERR_GET_REASON(error) : 0;
  if (reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH) {
    return "it is not the key of the certificate " + printable(plan.certificate, 200);
  }
  if (!phrase.is_wanted) return "";
  return phrase.is_set ? "the pass phrase in the file of --tls-key-password-file is not "
                         "that of the "
                         "key"
                       : "it has a pass phrase: use --tls-key-password-file";
}

// OpenSSL would wait for the writer of a pipe, and read a device without end.
Loadable loadable(const std::string& what, const std::string& file, Use use,
                  bool is_secret = false) {
  constexpr std::size_t longest = 16u << 20;
  FileKind kind{"cannot use the " + what + " " + printable(file, 200), longest, use};
  kind.is_secret = is_secret;
  kind.failure = [](int error, const std::string& message) {
    return Failure(Failure::Kind::misconfigured, message + ": " + std::strerror(error));
  };
  const auto read = small_file(file, kind);
  Loadable loaded{what, file, file, flaw_of(read.text)};
  if (!read.is_pipe) return loaded;
  static std::map<std::string, Fd> copies;
  auto& copy = copies[file];
  if (!copy) {
    copy = Fd(::memfd_create("dlock", MFD_CLOEXEC));
    if (!copy || !write_all(copy.get(), read.text)) throw failure_of(errno, kind.name);
  }
  loaded.path = "/proc/self/fd/" + std::to_string(copy.get());
  return loaded;
}

SSL_CTX* new_context() {
  // The machine's openssl.cnf may name modules, which a static program cannot load, and
  // no requirement here may depend on it.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) throw std::bad_alloc();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

bool is_regular_file(const char* path) {
  struct stat status {};
  return ::stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

// An empty variable counts as not set.
const char* chosen(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

// Loads the CA certificates that this machine trusts. Their path is compiled into OpenSSL
// for the distribution that dlock was built on; other distributions have other paths.
void trust_as_the_machine_does(SSL_CTX* context) {
  const char* file = chosen(X509_get_default_cert_file_env());
  const char* directory = chosen(X509_get_default_cert_dir_env());
  const bool is_chosen = file != nullptr || directory != nullptr;
  if (file == nullptr) file = X509_get_default_cert_file();
  if (directory == nullptr) directory = X509_get_default_cert_dir();
  if (is_chosen || ::access(file, F_OK) == 0 || ::access(directory, F_OK) == 0) {
    // OpenSSL would wait for the writer of a FIFO.
    if (is_regular_file(file)) SSL_CTX_load_verify_locations(context, file, nullptr);
    SSL_CTX_load_verify_locations(context, nullptr, directory);
  } else {
    for (const auto* bundle : {
             "/etc/ssl/certs/ca-certificates.crt",  // Debian, Arch, Alpine
             "/etc/pki/tls/certs/ca-bundle.crt",    // Fedora, Red Hat
             "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
             "/etc/ssl/ca-bundle.pem",  // SUSE
             "/etc/ssl/cert.pem",
         }) {
      if (SSL_CTX_load_verify_locations(context, bundle, nullptr) == 1) break;
    }
  }
  ERR_clear_error();  // an unreadable file adds no trusted certificates
}

void trust(SSL_CTX* context, const TlsOptions& plan) {
  ERR_clear_error();
  if (plan.insecure) {
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
    return;
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (plan.ca.empty()) {
    trust_as_the_machine_does(context);
  } else {
    const auto file = loadable("CA file", plan.ca, Use::authority);
    if (SSL_CTX_load_verify_locations(context, file.path.c_str(), nullptr) != 1) {
      throw file.unusable();
    }
  }
}

void identify(SSL_CTX* context, const TlsOptions& plan) {
  if (plan.certificate.empty()) return;
  ERR_clear_error();
  PassPhrase phrase;
  phrase.is_set = static_cast<bool>(plan.key_password);
  if (phrase.is_set) phrase.text = plan.key_password();
  SSL_CTX_set_default_passwd_cb(context, give_pass_phrase);
  SSL_CTX_set_default_passwd_cb_userdata(context, &phrase);
  const auto certificate =
      loadable("certificate", plan.certificate, Use::credential, plan.key.empty());
  if (SSL_CTX_use_certificate_chain_file(context, certificate.path.c_str()) != 1) {
    throw certificate.unusable();
  }
  const auto key = loadable("key", plan.key.empty() ? plan.certificate : plan.key,
                            Use::credential, true);
  const bool is_usable =
      SSL_CTX_use_PrivateKey_file(context, key.path.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  if (!is_usable) throw key.unusable(flaw_of_key(plan, phrase));
}

void expect(SSL* session, const std::string& host, bool insecure) {
  const bool is_address = endpoint_of_literal(host, 0).has_value();
  // The final dot of an absolute name does not occur in certificates.
  auto name = is_address ? host.substr(0, host.find('%')) : host;
  if (!is_address && !name.empty() && name.back() == '.') name.pop_back();
  // With an empty name OpenSSL would not check anything.
  bool is_set = !name.empty();
  if (!is_address) {
    // The expansion of SSL_set_tlsext_host_name, without its old-style cast.
    is_set = is_set && SSL_ctrl(session, SSL_CTRL_SET_TLSEXT_HOSTNAME,
                                TLSEXT_NAMETYPE_host_name, name.data()) == 1;
  }
  if (!insecure) {
    X509_VERIFY_PARAM* wanted = SSL_get0_param(session);
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                                X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    is_set = is_set &&
             (is_address ? X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str())
                         : X509_VERIFY_PARAM_set1_host(wanted, name.c_str(), 0)) == 1;
  }
  if (!is_set) {
    throw Failure(Failure::Kind::misconfigured,
                  "invalid host name for TLS: '" + printable(host, 200) + "'");
  }
}

// Offers a protocol (ALPN). A server that does not speak it ends the handshake or ignores
// the offer.
void offer(SSL* session, const std::string& protocol) {
  if (protocol.empty()) return;
  std::vector<unsigned char> names{static_cast<unsigned char>(protocol.size())};
  names.insert(names.end(), protocol.begin(), protocol.end());
  // Unlike other OpenSSL functions it returns 0 for success.
  if (SSL_set_alpn_protos(session, names.data(), static_cast<unsigned>(names.size())) !=
      0) {
    throw std::bad_alloc();
  }
}

}  // namespace

Tls::Tls(const TlsOptions& plan, const std::string& host, int fd, std::string server)
    : server_(std::move(server)), fd_(fd), context_(new_context()) {
  trust(context_.get(), plan);
  identify(context_.get(), plan);
  session_.reset(SSL_new(context_.get()));
  if (!session_) throw std::bad_alloc();
  expect(session_.get(), host, plan.insecure);
  offer(session_.get(), plan.protocol);
  BIO* bio = new_bio(fd_);
  SSL_set_bio(session_.get(), bio, bio);
  SSL_set_connect_state(session_.get());
}

Tls::~Tls() = default;

// Errors left over from other calls would be taken for the reason of ours.
void Tls::forget_errors() {
  ERR_clear_error();
  errno = 0;
}

Progress Tls::handshake() {
  forget_errors();
  return progress_of(SSL_do_handshake(session_.get()));
}

Progress Tls::write(std::string_view bytes) {
  forget_errors();
  std::size_t written = 0;
  auto progress =
      progress_of(SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &written));
  // If the server has ended the connection, the write has not succeeded.
  if (progress.state == Progress::State::done && written == 0) {
    return {Progress::State::failed, 0, EPIPE};
  }
  progress.size = written;
  return progress;
}

Progress Tls::read(char* buffer, std::size_t size) {
  forget_errors();
  std::size_t received = 0;
  auto progress = progress_of(SSL_read_ex(session_.get(), buffer, size, &received));
  progress.size = received;
  return progress;
}

bool Tls::is_quiet() {
  forget_errors();
  char byte = 0;
  const int result = SSL_peek(session_.get(), &byte, 1);
  return result <= 0 && SSL_get_error(session_.get(), result) == SSL_ERROR_WANT_READ;
}

Progress Tls::progress_of(int result) {
  if (result == 1) return {Progress::State::done};
  const int error_number = errno;
  const auto error = ERR_peek_error();
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ: return {Progress::State::wants_to_read};
    case SSL_ERROR_WANT_WRITE: return {Progress::State::wants_to_write};
    case SSL_ERROR_ZERO_RETURN: return {Progress::State::done};
    case SSL_ERROR_SYSCALL:
      if (error_number != 0) return {Progress::State::failed, 0, error_number};
      break;
    default: break;
  }
  const bool in_handshake = SSL_is_init_finished(session_.get()) == 0;
  const auto verdict = SSL_get_verify_result(session_.get());
  if (in_handshake && verdict != X509_V_OK &&
      SSL_get_verify_mode(session_.get()) != SSL_VERIFY_NONE) {
    throw Failure(Failure::Kind::rejected,
                  server_ + ": certificate not trusted: " +
                      with_small_letter(X509_verify_cert_error_string(verdict)));
  }
  if (is_about_our_certificate(error)) {
    throw Failure(Failure::Kind::rejected,
                  server_ + " does not accept our certificate: " + reason_of_openssl());
  }
  if (is_unexpected_end(error) || error == 0) {
    if (!in_handshake) return {Progress::State::done};
    throw Refusal(Refusal::Reason::overloaded,  // such a server sends no reason
                  server_ + " closed the connection during the TLS handshake");
  }
  // The first bytes of a server without TLS are taken for a version or a length.
  const auto reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  const bool is_plain =
      reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
      reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST ||
      reason == SSL_R_RECORD_LENGTH_MISMATCH;
  throw Failure(Failure::Kind::unreachable, "cannot start TLS with " + server_ + ": " +
                                                reason_of_openssl() +
                                                (is_plain ? "; does it use TLS?" : ""));
}

}  // namespace dlock::net

#include "net/tls.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <cerrno>
#include <new>
#include <utility>
#include <vector>

#include "net/dial.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::net {
namespace {

// OpenSSL's own BIO for sockets writes with write(2), which raises SIGPIPE when the
// server has closed. The session's descriptor is the BIO's data.
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
    throw Failure::misconfigured("invalid host name for TLS: '" + printable(host, 200) +
                                 "'");
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

struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};

struct FreeVerification {
  void operator()(X509_STORE_CTX* verification) const {
    X509_STORE_CTX_free(verification);
  }
};

// RFC 5929, 4.1: the digest of the certificate by the algorithm of its signature, but by
// none that is weaker than SHA-256.
std::string binding_of(X509* certificate) {
  int algorithm = NID_undef;
  const bool is_known =
      X509_get_signature_info(certificate, &algorithm, nullptr, nullptr, nullptr) == 1;
  if (!is_known || algorithm == NID_undef) return "";
  if (algorithm == NID_md5 || algorithm == NID_sha1) algorithm = NID_sha256;
  const EVP_MD* digest = EVP_get_digestbynid(algorithm);
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (digest == nullptr || X509_digest(certificate, digest, bytes, &size) != 1) return "";
  return {bytes, bytes + size};
}

// Which option helps, as the end of the message; empty if another certificate is needed.
std::string remedy_for(long verdict) {
  switch (verdict) {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return ": name the CA of the server with --tls-ca FILE";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return ": say which name it must have with --tls-name NAME";
    default: return "";
  }
}

}  // namespace

Tls::Tls(const TlsOptions& plan, const std::string& host, int fd, std::string server)
    : server_(std::move(server)), fd_(fd), context_(tls_context(plan)) {
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
    progress = {Progress::State::failed, 0, EPIPE};
  }
  // With TLS 1.3, a server that refuses our certificate says so after the handshake and
  // closes. What it has said is still there if our next bytes find the connection reset.
  if (progress.state == Progress::State::failed) {
    char byte = 0;
    read(&byte, 1);
    return progress;
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

TlsPeer Tls::peer() const {
  TlsPeer peer;
  const std::unique_ptr<X509, FreeCertificate> certificate(
      SSL_get_peer_certificate(session_.get()));
  if (certificate) peer.binding = binding_of(certificate.get());
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(session_.get(), &protocol, &size);
  if (protocol != nullptr) peer.protocol.assign(protocol, protocol + size);
  return peer;
}

std::string Tls::distrust(TlsOptions plan) const {
  if (plan.insecure) return "not verified";
  if (!plan.verifies_later) return "";
  plan.verifies_later = false;
  plan.certificate.clear();  // ours
  const auto context = tls_context(plan);
  const std::unique_ptr<X509, FreeCertificate> certificate(
      SSL_get_peer_certificate(session_.get()));
  const std::unique_ptr<X509_STORE_CTX, FreeVerification> verification(
      X509_STORE_CTX_new());
  if (!verification ||
      X509_STORE_CTX_init(verification.get(), SSL_CTX_get_cert_store(context.get()),
                          certificate.get(),
                          SSL_get_peer_cert_chain(session_.get())) != 1) {
    throw std::bad_alloc();
  }
  X509_STORE_CTX_set_default(verification.get(), "ssl_server");
  X509_VERIFY_PARAM* wanted = X509_STORE_CTX_get0_param(verification.get());
  X509_VERIFY_PARAM_set1(wanted, SSL_get0_param(session_.get()));  // the host's name
  X509_VERIFY_PARAM_set_auth_level(wanted, SSL_get_security_level(session_.get()));
  if (X509_verify_cert(verification.get()) == 1) return "";
  return lower_first(
      X509_verify_cert_error_string(X509_STORE_CTX_get_error(verification.get())));
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
    throw Failure::rejected(server_ + ": certificate not trusted: " +
                            lower_first(X509_verify_cert_error_string(verdict)) +
                            remedy_for(verdict));
  }
  if (is_about_our_certificate(error)) {
    throw Failure::rejected(server_ +
                            " does not accept our certificate: " + reason_of_openssl());
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
  throw Failure::unreachable("cannot start TLS with " + server_ + ": " +
                             reason_of_openssl() +
                             (is_plain ? "; does it use TLS?" : ""));
}

}  // namespace dlock::net

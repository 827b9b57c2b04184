#include "net/tls_context.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "net/budget.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"
#include "util/small_file.hpp"
#include "util/text.hpp"

namespace dlock::net {

std::string reason_of_openssl() {
  const auto error = ERR_peek_error();
  if (ERR_GET_LIB(error) == ERR_LIB_SYS) return reason_of(ERR_GET_REASON(error));
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? "unknown error" : lower_first(printable(reason));
}

namespace {

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
    return Failure::misconfigured("cannot use the " + what + " " + printable(name, 200) +
                                  ": " + why);
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

// Whether OpenSSL cannot decrypt a file: it leaves out ciphers that are long broken, such
// as DES. Empties its queue of errors.
bool is_cipher_missing() {
  bool is_missing = false;
  while (const auto error = ERR_get_error()) {
    is_missing |=
        ERR_GET_LIB(error) == ERR_LIB_EVP && ERR_GET_REASON(error) == ERR_R_UNSUPPORTED;
  }
  return is_missing;
}

// Why a key could not be used, if it is its pass phrase or its certificate.
std::string flaw_of_key(const TlsOptions& plan, const PassPhrase& phrase) {
  const auto error = ERR_peek_error();
  const auto reason = ERR_GET_LIB(error) == ERR_LIB_X509 ? ERR_GET_REASON(error) : 0;
  if (reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH) {
    return "it is not the key of the certificate " + printable(plan.certificate, 200);
  }
  if (!phrase.is_wanted) return "";
  if (!phrase.is_set) return "it has a pass phrase: use --tls-key-password-file";
  if (is_cipher_missing()) {
    return "it is encrypted with a cipher that is too old: encrypt it again with "
           "openssl pkcs8 -topk8";
  }
  return "the pass phrase in the file of --tls-key-password-file is not that of the key";
}

// OpenSSL would wait for the writer of a pipe, and read a device without end.
Loadable loadable(const std::string& what, const std::string& file, Use use,
                  bool is_secret = false) {
  constexpr std::size_t longest = 16u << 20;
  FileKind kind{"cannot use the " + what + " " + printable(file, 200), longest, use};
  kind.is_secret = is_secret;
  kind.failure = [](int error, const std::string& message) {
    return Failure::misconfigured(message + ": " + std::strerror(error));
  };
  const auto read = small_file(file, kind);
  Loadable loaded{what, file, file, flaw_of(read.text)};
  if (!read.is_pipe) return loaded;
  static std::map<std::string, Fd> copies;
  auto& copy = copies[file];
  if (!copy) {
    copy = Fd(::memfd_create("dlock", MFD_CLOEXEC));
    if (!copy) throw failure_of_call(errno, kind.name, "memfd_create");
    if (!write_all(copy.get(), read.text)) throw failure_of(errno, kind.name);
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
void trust_system_authorities(SSL_CTX* context) {
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
  if (plan.insecure || plan.verifies_later) {
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
    return;
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (plan.ca.empty()) {
    trust_system_authorities(context);
  } else {
    const auto file = loadable("CA file", plan.ca, Use::authority);
    if (SSL_CTX_load_verify_locations(context, file.path.c_str(), nullptr) != 1) {
      throw file.unusable();
    }
  }
}

void identify(SSL_CTX* context, const TlsOptions& plan) {
  if (plan.certificate.empty()) {
    if (!plan.key_password) return;
    throw Failure::misconfigured(
        "--tls-key-password-file needs --tls-cert and --tls-key");
  }
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

}  // namespace

TlsContext tls_context(const TlsOptions& plan) {
  TlsContext context(new_context());
  trust(context.get(), plan);
  identify(context.get(), plan);
  return context;
}

void FreeContext::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

}  // namespace dlock::net

// Valid and invalid certificates for tests.
#pragma once

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

namespace dlock {

struct FreeOpenssl {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// A certificate and its key.
class Certificate {
 public:
  struct Plan {
    std::string common_name;
    std::string alternative_names;  // "DNS:localhost,IP:127.0.0.1"; empty: none
    bool is_authority = false;
    long from = -3600;  // seconds from now
    long until = 3600;
  };

  // Signed by `issuer`, or by itself if that is null.
  Certificate(const Plan& plan, const Certificate* issuer)
      : key_(new_key()), certificate_(X509_new()) {
    X509* x = certificate_.get();
    const Certificate& signer = issuer == nullptr ? *this : *issuer;
    X509_set_version(x, 2);
    static long serial = 0;
    ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(x), plan.from);
    X509_gmtime_adj(X509_getm_notAfter(x), plan.until);
    X509_set_pubkey(x, key_.get());
    const auto* name = static_cast<const unsigned char*>(
        static_cast<const void*>(plan.common_name.c_str()));
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8, name, -1,
                               -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(signer.certificate_.get()));
    if (plan.is_authority) extend(NID_basic_constraints, "critical,CA:TRUE");
    if (!plan.alternative_names.empty()) {
      extend(NID_subject_alt_name, plan.alternative_names);
    }
    if (X509_sign(x, signer.key_.get(), EVP_sha256()) == 0) {
      throw std::runtime_error("cannot sign a certificate");
    }
  }

  void write(const std::string& certificate_file, const std::string& key_file) const {
    PEM_write_X509(opened(certificate_file).get(), certificate_.get());
    if (key_file.empty()) return;
    PEM_write_PrivateKey(opened(key_file).get(), key_.get(), nullptr, nullptr, 0, nullptr,
                         nullptr);
  }

  void use_in(SSL_CTX* context) const {
    SSL_CTX_use_certificate(context, certificate_.get());
    SSL_CTX_use_PrivateKey(context, key_.get());
  }

 private:
  static EVP_PKEY* new_key() {
    EVP_PKEY* key = nullptr;
    EVP_PKEY_CTX* context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nullptr);
    EVP_PKEY_keygen_init(context);
    EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1);
    EVP_PKEY_keygen(context, &key);
    EVP_PKEY_CTX_free(context);
    return key;
  }

  static std::unique_ptr<std::FILE, FreeOpenssl> opened(const std::string& file) {
    return std::unique_ptr<std::FILE, FreeOpenssl>(std::fopen(file.c_str(), "we"));
  }

  void extend(int what, const std::string& value) {
    X509_EXTENSION* extension =
        X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
    X509_add_ext(certificate_.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }

  std::unique_ptr<EVP_PKEY, FreeOpenssl> key_;
  std::unique_ptr<X509, FreeOpenssl> certificate_;
};

}  // namespace dlock

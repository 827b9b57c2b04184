#include "cli/args/linked_in.hpp"

#include <ares.h>
#include <gnu/libc-version.h>
#include <hiredis/hiredis.h>
#include <nghttp2/nghttp2.h>
#include <openssl/crypto.h>
#include <utf8proc.h>
#include <xxhash.h>

#include <CLI/Version.hpp>
#include <boost/version.hpp>
#include <nlohmann/json.hpp>
#include <protozero/version.hpp>
#include <toml.hpp>

namespace dlock {

// From version.cpp, which the build generates.
extern const char* const linked_packages;

namespace {

std::string dotted(unsigned major, unsigned minor, unsigned patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(patch);
}

std::string library(const std::string& name, const std::string& version) {
  return name + " " + version + "\n";
}

}  // namespace

std::string linked_in() {
  const auto xxhash = XXH_versionNumber();
  auto text =
      // As "OpenSSL 3.0.22 3 Feb 2026".
      std::string(OpenSSL_version(OPENSSL_VERSION)) + "\n" +
      library("glibc", gnu_get_libc_version()) +
      library("c-ares", ares_version(nullptr)) +
      library("nghttp2", nghttp2_version(0)->version_str) +
      library("hiredis", dotted(HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH)) +
      library("xxHash", dotted(xxhash / 10000, xxhash / 100 % 100, xxhash % 100)) +
      library("utf8proc", utf8proc_version()) +
      library("Boost", dotted(BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000,
                              BOOST_VERSION % 100)) +
      library("CLI11", CLI11_VERSION) +
      library("toml11",
              dotted(TOML11_VERSION_MAJOR, TOML11_VERSION_MINOR, TOML11_VERSION_PATCH)) +
      library("nlohmann-json",
              dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                     NLOHMANN_JSON_VERSION_PATCH)) +
      library("protozero", PROTOZERO_VERSION_STRING) +
#ifdef __clang__
      library("Clang", __clang_version__);
#else
      library("GCC and libstdc++", __VERSION__);
#endif
  if (*linked_packages != '\0')
    text += std::string("from the packages ") + linked_packages + "\n";
  return text;
}

}  // namespace dlock

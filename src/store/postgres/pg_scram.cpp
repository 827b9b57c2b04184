#include "store/postgres/pg_scram.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock::postgres {
namespace {

// 200,000 take 80 ms, in which nothing else runs. Servers demand 4,096 by default.
constexpr std::uint32_t most_iterations = 200'000;

constexpr std::size_t digest_size = 32;  // SHA-256

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

std::string sha_256(std::string_view data) {
  std::string digest(digest_size, '\0');
  if (EVP_Digest(data.data(), data.size(), bytes_of(digest), nullptr, EVP_sha256(),
                 nullptr) != 1) {
    throw std::bad_alloc();
  }
  return digest;
}

std::string hmac(std::string_view key, std::string_view data) {
  std::string code(digest_size, '\0');
  unsigned size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(data),
           data.size(), bytes_of(code), &size) == nullptr) {
    throw std::bad_alloc();
  }
  return code;
}

std::string base64(std::string_view data) {
  std::string text((data.size() + 2) / 3 * 4 + 1, '\0');
  text.resize(static_cast<std::size_t>(
      EVP_EncodeBlock(bytes_of(text), bytes_of(data), static_cast<int>(data.size()))));
  return text;
}

// Nothing unless it is what base64() writes.
std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::string data(text.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(bytes_of(data), bytes_of(text), static_cast<int>(text.size())) <
      0) {
    return std::nullopt;
  }
  const auto padding = text.ends_with("==") ? 2u : text.ends_with("=") ? 1u : 0u;
  data.resize(data.size() - padding);
  if (base64(data) != text) return std::nullopt;
  return data;
}

std::string salted_key(const std::string& password, const std::string& salt,
                       std::uint32_t iterations, SaltedPassword& known) {
  const bool is_known = !known.key.empty() && known.password == password &&
                        known.salt == salt && known.iterations == iterations;
  if (is_known) return known.key;
  std::string key(digest_size, '\0');
  const auto prepared = prepared_password(password);
  if (PKCS5_PBKDF2_HMAC(prepared.data(), static_cast<int>(prepared.size()),
                        bytes_of(salt), static_cast<int>(salt.size()),
                        static_cast<int>(iterations), EVP_sha256(),
                        static_cast<int>(key.size()), bytes_of(key)) != 1) {
    throw std::bad_alloc();
  }
  known = {password, salt, iterations, key};
  return key;
}

// The value of the attribute `name` at the front of `text`, which is removed.
std::optional<std::string_view> take_attribute(std::string_view& text, char name) {
  if (text.size() < 2 || text[0] != name || text[1] != '=') return std::nullopt;
  const auto end = std::min(text.find(','), text.size());
  const auto value = text.substr(2, end - 2);
  text.remove_prefix(std::min(end + 1, text.size()));
  return value;
}

bool is_mapped_to_space(utf8proc_int32_t c) {
  return c == 0x00A0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200B) || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_mapped_to_nothing(utf8proc_int32_t c) {
  return c == 0x00AD || c == 0x034F || c == 0x1806 || (c >= 0x180B && c <= 0x180D) ||
         c == 0x200C || c == 0x200D || c == 0x2060 || (c >= 0xFE00 && c <= 0xFE0F) ||
         c == 0xFEFF;
}

// Tables C.2 to C.9 of RFC 3454, and characters without a meaning.
bool is_prohibited(utf8proc_int32_t c) {
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return true;
    default: break;
  }
  return c == 0x0340 || c == 0x0341 || (c >= 0xFFFC && c <= 0xFFFD) ||
         (c >= 0x2FF0 && c <= 0x2FFB);
}

// RFC 3454, 6: text with a letter that is written from right to left begins and ends with
// such letters, and has none of the others.
bool has_mixed_directions(const std::vector<utf8proc_int32_t>& text) {
  const auto is_rightward = [](utf8proc_int32_t c) {
    return utf8proc_get_property(c)->bidi_class == UTF8PROC_BIDI_CLASS_L;
  };
  const auto is_leftward = [](utf8proc_int32_t c) {
    const auto direction = utf8proc_get_property(c)->bidi_class;
    return direction == UTF8PROC_BIDI_CLASS_R || direction == UTF8PROC_BIDI_CLASS_AL;
  };
  if (std::ranges::none_of(text, is_leftward)) return false;
  return !is_leftward(text.front()) || !is_leftward(text.back()) ||
         std::ranges::any_of(text, is_rightward);
}

}  // namespace

std::string prepared_password(const std::string& password) {
  const bool is_ascii =
      std::ranges::all_of(password, [](char c) { return (c & 0x80) == 0; });
  if (is_ascii) return password;
  std::vector<utf8proc_int32_t> characters;
  for (std::string_view rest = password; !rest.empty();) {
    const auto next = first_character(rest);
    if (next.bytes == 0) return password;
    rest.remove_prefix(next.bytes);
    const auto c = static_cast<utf8proc_int32_t>(next.code_point);
    if (is_mapped_to_nothing(c)) continue;
    characters.push_back(is_mapped_to_space(c) ? ' ' : c);
  }
  std::string mapped;
  for (const auto c : characters) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto size = utf8proc_encode_char(c, bytes.data());
    mapped.append(bytes.begin(), bytes.begin() + size);
  }
  utf8proc_uint8_t* normal = nullptr;
  const auto size =
      utf8proc_map(bytes_of(std::string_view(mapped)),
                   static_cast<utf8proc_ssize_t>(mapped.size()), &normal,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE |
                                                  UTF8PROC_COMPAT));
  if (size < 0) return password;
  const std::string prepared(normal, normal + size);
  std::free(normal);
  std::vector<utf8proc_int32_t> result;
  for (std::string_view rest = prepared; !rest.empty();) {
    const auto next = first_character(rest);
    rest.remove_prefix(std::max<std::size_t>(next.bytes, 1));
    result.push_back(static_cast<utf8proc_int32_t>(next.code_point));
  }
  const bool is_refused = result.empty() || has_mixed_directions(result) ||
                          std::ranges::any_of(result, is_prohibited);
  return is_refused ? password : prepared;
}

Scram::Scram(std::string server, std::string header, std::string binding,
             const std::string& user, std::string nonce)
    : server_(std::move(server)),
      header_(std::move(header)),
      binding_(std::move(binding)),
      bare_("n=" + user + ",r=" + nonce),
      nonce_(std::move(nonce)) {}

Failure Scram::malformed(const std::string& what) const {
  return Failure::unreachable(server_ + ": SCRAM login failed: " + what);
}

std::string Scram::final_message(std::string_view from_server,
                                 const std::string& password, SaltedPassword& salted) {
  auto rest = from_server;
  const auto nonce = take_attribute(rest, 'r');
  const auto salt_text = take_attribute(rest, 's');
  const auto iterations_text = take_attribute(rest, 'i');
  const auto salt = salt_text ? from_base64(*salt_text) : std::nullopt;
  const auto iterations =
      iterations_text ? number_in<std::uint32_t>(*iterations_text).value_or(0) : 0;
  if (!nonce || !salt || iterations == 0 || !rest.empty()) {
    throw malformed("the server's first message is malformed");
  }
  if (!nonce->starts_with(nonce_) || nonce->size() == nonce_.size()) {
    throw malformed("the server's nonce does not continue ours");
  }
  if (iterations > most_iterations) {
    throw malformed("the server demands " + std::to_string(iterations) + " iterations; " +
                    std::to_string(most_iterations) + " are the most allowed");
  }
  const auto key = salted_key(password, *salt, iterations, salted);
  const auto message = "c=" + base64(header_ + binding_) + ",r=" + std::string(*nonce);
  const auto all = bare_ + "," + std::string(from_server) + "," + message;
  const auto client_key = hmac(key, "Client Key");
  auto proof = hmac(sha_256(client_key), all);
  for (std::size_t i = 0; i < proof.size(); ++i) {
    proof[i] = static_cast<char>(proof[i] ^ client_key[i]);
  }
  server_signature_ = hmac(hmac(key, "Server Key"), all);
  return message + ",p=" + base64(proof);
}

void Scram::check_server(std::string_view from_server) const {
  auto rest = from_server;
  if (const auto error = take_attribute(rest, 'e')) {
    throw Failure::rejected(server_ + ": login refused: " + printable(*error, 200));
  }
  const auto text = take_attribute(rest, 'v');
  const auto signature = text ? from_base64(*text) : std::nullopt;
  if (!signature || !rest.empty() || server_signature_.empty()) {
    throw malformed("the server's last message is malformed");
  }
  const bool is_right =
      signature->size() == server_signature_.size() &&
      CRYPTO_memcmp(signature->data(), server_signature_.data(), signature->size()) == 0;
  if (!is_right) {
    throw Failure::rejected(server_ +
                            ": the server does not prove that it knows the password");
  }
}

}  // namespace dlock::postgres

// What to write instead of a store URL that cannot be used, and what of it can be shown.
#pragma once

#include <string>
#include <string_view>

namespace dlock {

// The URL for a message, without anything that may be a password, even if that is in the
// wrong place: the scheme, and the host if it cannot be anything else.
std::string shown_url(std::string_view url);

// A word of the command line for a message. It may be a URL in the wrong place.
std::string shown_word(std::string_view word);

// Overwrites what `word`, a word of the command line, has between :// and @, and as
// parameters whose names are those of passwords or tokens, by x, because every user can
// read the arguments of a process.
void hide_login(char* word);

// The scheme as this program names it: in lower case, valkey as redis, and postgresql as
// postgres.
std::string canonical_scheme(std::string_view scheme);

// What to write instead of a URL with this (canonical) scheme, which is the one of no
// store: a reason for a message. `all_kinds` lists the stores. Repeats of the URL only
// what cannot be a password.
std::string advice_on(const std::string& scheme, std::string_view rest,
                      const std::string& all_kinds);

// The same for a text that has no scheme.
std::string advice_on_text(std::string_view text, const std::string& all_kinds);

// The same for a query, or a fragment, that is not supported. `path` is what may be
// there instead: "only /db may follow the host".
std::string advice_on_query(std::string_view query, const std::string& path);

}  // namespace dlock

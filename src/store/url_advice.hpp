// What to write instead of a store URL that cannot be used, and what of it can be shown.
#pragma once

#include <string>
#include <string_view>

namespace dlock {

// The end of a message that a password is missing: inside the command of another dlock,
// that it does not pass on its own; else nothing.
std::string password_of_run_outside();

// Whether a parameter with this name, which no kind of store has, may say with whom to
// talk and as whom, or which locks are meant, so that it must not be ignored.
bool must_be_obeyed(std::string_view name);

// The URL for a message, without anything that may be a password, even if that is in the
// wrong place: the scheme, and the host if it cannot be anything else.
std::string shown_url(std::string_view url);

// A word of the command line for a message. It may be a URL in the wrong place.
std::string shown_word(std::string_view word);

// What to write instead of a URL with this (canonical) scheme, which is the one of no
// store: a reason for a message. `all_kinds` lists the stores. Repeats of the URL only
// what cannot be a password.
std::string advice_on(const std::string& scheme, std::string_view rest,
                      const std::string& all_kinds);

// The same for a text that has no scheme.
std::string advice_on_text(std::string_view text, const std::string& all_kinds);

// What is wrong with the first characters of what should be a URL, as of a file that is
// read without a shell; or nothing.
std::string advice_on_begin(std::string_view url);

}  // namespace dlock

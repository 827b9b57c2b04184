// Reads scenes: tests of a line or two. tests/contract/scenes.hpp has their grammar.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"

namespace dlock::scene {

using Words = std::vector<std::string>;
using Facts = std::map<std::string, std::string>;

inline Words split(const std::string& text, const char* separators) {
  Words words;
  std::size_t end = 0;
  for (auto begin = text.find_first_not_of(separators); begin != std::string::npos;
       begin = text.find_first_not_of(separators, end)) {
    end = std::min(text.find_first_of(separators, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
  }
  return words;
}

// A number, or a time in milliseconds.
inline std::int64_t number_in(const std::string& text) {
  std::size_t end = 0;
  const auto number = std::stoll(text, &end);
  const std::map<std::string, int> units{
      {"", 1}, {"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}};
  return number * units.at(text.substr(end));
}
inline milliseconds time_in(const std::string& text) {
  return milliseconds(number_in(text));
}

inline std::string yes_or_no(bool is_true) { return is_true ? "true" : "false"; }

// "name(option, option=value)"
struct Term {
  explicit Term(const std::string& text) : name(text.substr(0, text.find('('))) {
    if (name.size() == text.size()) return;
    for (auto option : split(text.substr(name.size()), "(),")) {
      option.erase(0, option.find_first_not_of(' '));
      const auto equals = option.find('=');
      options.emplace_back(option.substr(0, equals),
                           equals == std::string::npos ? "" : option.substr(equals + 1));
    }
  }
  std::string name;
  std::vector<std::pair<std::string, std::string>> options;
};

// The words of a step; a blank within parentheses separates none.
inline Words words_of(const std::string& step) {
  Words words;
  for (const auto& word : split(step, " \n")) {
    const bool goes_on = !words.empty() && words.back().find('(') != std::string::npos &&
                         words.back().back() != ')';
    if (goes_on) {
      words.back() += ' ' + word;
    } else {
      words.push_back(word);
    }
  }
  return words;
}

inline const std::map<std::string, Loss> losses{{"broken", Loss::broken},
                                                {"taken_over", Loss::taken_over},
                                                {"unconfirmed", Loss::unconfirmed},
                                                {"gone", Loss::gone}};
inline const std::map<Release, std::string> releases{
    {Release::released, "released"}, {Release::not_ours, "not_ours"},
    {Release::left, "left"},         {Release::taken_over, "taken_over"},
    {Release::gone, "gone"},         {Release::broken, "broken"}};
inline const std::map<Renewal, std::string> renewals{{Renewal::confirmed, "confirmed"},
                                                     {Renewal::broken, "broken"},
                                                     {Renewal::reclaimed, "reclaimed"},
                                                     {Renewal::taken_over, "taken_over"},
                                                     {Renewal::gone, "gone"}};
template <typename Of>
using Options = std::map<std::string, std::function<void(Of&, const std::string&)>>;

template <typename Of>
void set(Of& what, const Options<Of>& known, const Term& term) {
  for (const auto& [name, value] : term.options) {
    const auto option = known.find(name);
    if (option == known.end()) throw std::logic_error("there is no option " + name);
    option->second(what, value);
  }
}

using Text = const std::string&;
inline const Options<RunEnd> options_of_ends{
    {"code", [](RunEnd& e, Text v) { e.exit_code = static_cast<int>(number_in(v)); }},
    {"signal", [](RunEnd& e, Text v) { e.signal = v, e.exit_code.reset(); }},
    {"outcome", [](RunEnd& e, Text v) { e.outcome = v; }},
    {"lost", [](RunEnd& e, Text v) { e.lost = losses.at(v), e.outcome = "lost"; }},
    {"leaves_lease", [](RunEnd& e, Text) { e.leaves_lease = true; }},
    {"shared", [](RunEnd& e, Text) { e.is_shared = true; }},
};
inline const Options<Claim> options_of_claims{
    {"shared", [](Claim& c, Text) { c.mode = Mode::shared; }},
    {"slots", [](Claim& c, Text v) { c.slots = static_cast<unsigned>(number_in(v)); }},
    {"max", [](Claim& c, Text v) { c.max_queue = static_cast<unsigned>(number_in(v)); }},
    {"brief", [](Claim& c, Text) { c.ttl = milliseconds(600), c.reclaim = true; }},
    {"supersedes", [](Claim& c, Text) { c.supersedes = true; }},
    {"replaces", [](Claim& c, Text) { c.replaces = true; }},
    {"spreads", [](Claim& c, Text) { c.spreads = true; }},
    {"priority", [](Claim& c, Text v) { c.priority = static_cast<int>(number_in(v)); }},
    {"min_hold", [](Claim& c, Text v) { c.min_hold = time_in(v); }},
    {"dedupe", [](Claim& c, Text v) { c.dedupe = Dedupe{time_in(v)}; }},
    {"retry",
     [](Claim& c, Text v) {
       c.dedupe = Dedupe{time_in(v), true};
     }},
    {"joins",
     [](Claim& c, Text) {
       c.dedupe = Dedupe{{}, false, true};
     }},
    {"retry_since",
     [](Claim& c, Text v) {
       c.dedupe = Dedupe{milliseconds(1), true, false, Clock::now() - time_in(v)};
     }},
    {"period", [](Claim& c, Text v) { c.period = v; }},
    {"detached", [](Claim& c, Text) { c.attached = false; }},
    {"ttl", [](Claim& c, Text v) { c.ttl = time_in(v); }},
    {"keeps_ttl", [](Claim& c, Text) { c.keeps_ttl = true; }},
    {"reclaim", [](Claim& c, Text) { c.reclaim = true; }},
    {"tokenless", [](Claim& c, Text) { c.token = {}; }},
    {"delay", [](Claim& c, Text v) { c.lock_delay = time_in(v); }},
    {"pid", [](Claim& c, Text v) { c.on_behalf_of = static_cast<pid_t>(number_in(v)); }},
    {"label", [](Claim& c, Text v) { c.label = v; }},
    {"name", [](Claim& c, Text v) { c.lock.name = v; }},
    {"space", [](Claim& c, Text v) { c.lock.name_space = v; }},
};

// What is played: a sequence of steps, each of which does something and tells facts.
class Play : public ::testing::Test {
 protected:
  explicit Play(std::string steps) : steps_(std::move(steps)) {}

  // Does what the first of these words says, and replaces them by what has to come of it.
  virtual Facts facts_of(const Term& who, Words& expected) = 0;
  // Plays what is not told about anyone; true if it was that.
  virtual bool is_played(const Words& /*words*/) { return false; }
  virtual bool goes_on(const Words& /*condition*/) { return true; }
  virtual bool comes_true(const std::function<bool()>& is_true) { return is_true(); }
  virtual Fence fence_of(const std::string& whom) const = 0;

 private:
  void TestBody() override {
    for (const auto& step : split(steps_, ";")) {
      const auto words = words_of(step);
      if (words.empty()) continue;
      if (words[0] == "only" && !goes_on(words)) return;
      if (words[0] == "only") continue;
      try {
        play(words);
      } catch (const std::exception& failure) {
        ADD_FAILURE() << "in the step `" << step << "` of `" << steps_
                      << "`: " << failure.what();
        return;
      }
    }
  }

  void play(Words words) {
    if (is_played(words)) return;
    const bool repeats = words[0] == "soon";
    if (repeats) words.erase(words.begin());
    const Term who(words[0]);
    std::string wrong = "nothing was expected";
    const auto comes = [&] {
      Words expected(words.begin() + 1, words.end());
      const auto facts = facts_of(who, expected);
      wrong = difference(facts, expected);
      return wrong.empty();
    };
    if (repeats ? !comes_true(comes) : !comes()) throw std::runtime_error(wrong);
  }

  // What does not agree; empty if all does.
  std::string difference(const Facts& facts, const Words& expected) {
    for (const auto& word : expected) {
      const auto at = word.find_first_of("=<>");
      auto name = word.substr(0, at);
      std::string wanted = "true";
      std::string how = "=";
      if (at != std::string::npos) {
        const auto end = word.find_first_not_of("=<>", at);
        how = word.substr(at, end - at);
        wanted = end == std::string::npos ? "" : word.substr(end);
      } else if (name[0] == '!') {
        name.erase(0, 1);
        wanted = "false";
        if (facts.count(name) == 0) {
          wanted = name;
          name = "is";
          how = "!";
        }
      } else if (facts.count(name) == 0) {
        wanted = name;
        name = "is";
      }
      if (name == "fence") wanted = std::to_string(fence_of(wanted).number);
      const auto found = facts.find(name);
      const auto is = found == facts.end() ? "unknown" : found->second;
      if (!agrees(is, how, wanted)) {
        std::string all = word + " was expected, but it is";
        for (const auto& [fact, value] : facts) all += ' ' + fact + '=' + value;
        return all;
      }
    }
    return "";
  }
  static bool agrees(const std::string& is, const std::string& how,
                     const std::string& wanted) {
    if (how == "=") return is == wanted;
    if (how == "!") return is != wanted;
    const auto number = number_in(is) - number_in(wanted);
    return how == ">" ? number > 0 : how == "<=" ? number <= 0 : number < 0;
  }

  std::string steps_;
};

// The scenes of a text by their titles.
inline std::map<std::string, std::string> scenes_in(const char* text) {
  std::istringstream lines(text);
  std::string title;
  std::map<std::string, std::string> scenes;
  for (std::string one; std::getline(lines, one);) {
    if (one.empty() || one[0] == '#') continue;
    if (one[0] == ' ') {
      scenes.at(title) += one + '\n';
      continue;
    }
    title = one.substr(0, one.find(':'));
    std::replace(title.begin(), title.end(), ' ', '_');
    if (!scenes.emplace(title, "").second) throw std::logic_error("twice: " + title);
  }
  return scenes;
}

}  // namespace dlock::scene

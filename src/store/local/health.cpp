#include "store/local/health.hpp"

#include "util/text.hpp"

namespace dlock::local {
namespace {

using Level = Finding::Level;

constexpr std::uint64_t mebibyte = 1u << 20u;

// Space for the files of some hundred new locks.
constexpr std::uint64_t too_little = mebibyte;
constexpr std::uint64_t little = 16 * mebibyte;
constexpr std::uint64_t few_files = 100;

// The message without the advice that follows it.
std::string without_advice(const std::string& message) {
  return message.substr(0, message.find("; "));
}

Finding missing(const Facts& facts) {
  const auto path = printable(facts.path);
  if (facts.parents_are_missing) {
    return {"directory", Level::error,
            path + " does not exist, and neither does its parent directory",
            "create it: install -d -m 700 " + path};
  }
  if (!facts.can_be_created) {
    return {"directory", Level::error,
            path + " does not exist, and cannot be created in " + printable(facts.parent),
            "create it as a user with permission, or name another one (--store "
            "local:/dir)"};
  }
  return {"directory", Level::info, path + " does not exist yet",
          "nothing to do: the first lock creates it"};
}

Finding directory(const Facts& facts) {
  const auto path = printable(facts.path);
  const auto quoted = printable_command({facts.path}, 4096);
  if (facts.unusable) {
    std::string advice =
        "use a directory of your own, or one that is set up as shared (chmod 2770)";
    if (facts.everybody_writes) {
      advice = "chmod o-w " + quoted + ", once you trust its contents";
    } else if (facts.is_sticky) {
      advice = "chmod -t " + quoted;
    } else if (facts.is_link_or_file) {
      advice = "name the directory itself";
    } else if (facts.is_unreliable) {
      advice = "use a directory on a local disk, or a server";
    }
    return {"directory", Level::error, without_advice(*facts.unusable), advice};
  }
  if (!facts.can_be_written) {
    return {"directory", Level::error, "this user cannot write to " + path,
            "chmod u+rwx " + quoted + ", or, if it is shared, join its group"};
  }
  return {"directory", Level::ok, path, ""};
}

// The directory above `path` that systemd-tmpfiles and the like clean up, if any.
std::string cleaned_place(const std::string& path) {
  for (const std::string place : {"/tmp", "/var/tmp"}) {
    if (path.starts_with(place + "/")) return place;
  }
  return "";
}

Finding file_system(const Facts& facts) {
  const auto name = facts.file_system.empty() ? "local" : facts.file_system;
  if (const auto place = cleaned_place(facts.path); !place.empty()) {
    return {
        "file-system", Level::info,
        name + ", below " + place +
            ", where programs remove what was not used for days: past runs and fences "
            "of locks are lost then",
        "if that matters, use a directory elsewhere (/var/lib/NAME)"};
  }
  if (!facts.forgets) return {"file-system", Level::ok, name, ""};
  return {"file-system", Level::info,
          name + ", in memory: a reboot loses past runs and the fences of dlock fence",
          "if that matters, use a directory on a disk"};
}

Finding state(const Facts& facts) {
  if (facts.state) {
    return {
        "state", Level::error, without_advice(*facts.state),
        "the next run under that lock replaces the file, unless it may contain a lease "
        "by hand: then move it away; past runs and fences are kept"};
  }
  if (facts.busy) {
    return {"state", Level::error, *facts.busy,
            "check what that process waits for; continue it or end it"};
  }
  if (facts.mended) {
    return {"state", Level::info, without_advice(*facts.mended),
            "nothing to do: the next run with a new lock name writes it anew"};
  }
  if (!facts.has_state) {
    return {"state", Level::ok, "none since boot", ""};
  }
  return {"state", Level::ok,
          "intact, " + std::to_string(facts.locks) +
              (facts.locks == 1 ? " lock" : " locks") + " known",
          ""};
}

std::optional<Finding> fences(const Facts& facts) {
  if (!facts.fences) return std::nullopt;
  return Finding{"fences", Level::error, without_advice(*facts.fences),
                 "restore it from a backup, or remove it if no fence register matters"};
}

std::optional<Finding> far_ahead(const Facts& facts) {
  if (!facts.fence_far_ahead) return std::nullopt;
  return Finding{"fences", Level::warning,
                 printable(facts.path) + "/runs.jsonl has fence " +
                     std::to_string(facts.fence_far_ahead->number) +
                     ", implausibly far ahead of the clock",
                 "see 'A fence far ahead of the clock' in docs/operating.md"};
}

std::string list_of(const std::vector<std::string>& names, const std::string& separator) {
  constexpr std::size_t most = 5;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) {
    text += (i > 0 ? separator : "") + printable(names[i], 100);
  }
  if (names.size() > most) {
    text += separator + std::to_string(names.size() - most) + " more";
  }
  return text;
}

Finding files(const Facts& facts) {
  if (!facts.stale.empty()) {
    return {"files", Level::warning,
            "unused, and not removed automatically: " + list_of(facts.stale, ", "),
            "remove them from " + printable(facts.path)};
  }
  if (!facts.abandoned.empty()) {
    return {"files", Level::info,
            "left over from killed processes: " + list_of(facts.abandoned, ", "),
            "nothing to do: the next run removes them"};
  }
  return {"files", Level::ok, "none left over", ""};
}

std::string shown(std::uint64_t bytes) {
  constexpr std::uint64_t gibibyte = 1024 * mebibyte;
  if (bytes >= gibibyte) return std::to_string(bytes / gibibyte) + " GiB";
  if (bytes >= mebibyte) return std::to_string(bytes / mebibyte) + " MiB";
  return std::to_string(bytes / 1024) + " KiB";
}

std::optional<Finding> space(const Facts& facts) {
  if (!facts.room) return std::nullopt;
  const auto left = shown(facts.room->bytes) + " free";
  const auto files = facts.room->files;
  const std::string advice = "free space on that file system";
  if (facts.room->bytes < too_little) {
    return Finding{"space", Level::error, left + ": too little for new locks", advice};
  }
  if (files && *files == 0) {
    return Finding{"space", Level::error, "no more files can be created (no inodes left)",
                   advice};
  }
  if (facts.room->bytes < little) return Finding{"space", Level::warning, left, advice};
  if (files && *files < few_files) {
    return Finding{"space", Level::warning,
                   "only " + std::to_string(*files) + " more files can be created",
                   advice};
  }
  return Finding{"space", Level::ok, left, ""};
}

}  // namespace

std::vector<Finding> findings_of(const Facts& facts) {
  std::vector<Finding> findings;
  if (!facts.exists && !facts.unusable) {
    findings.push_back(missing(facts));
    if (auto found = space(facts)) findings.push_back(std::move(*found));
    return findings;
  }
  findings.push_back(directory(facts));
  if (findings.back().level == Level::error) return findings;
  findings.push_back(file_system(facts));
  findings.push_back(state(facts));
  if (auto found = fences(facts)) findings.push_back(std::move(*found));
  if (auto found = far_ahead(facts)) findings.push_back(std::move(*found));
  findings.push_back(files(facts));
  if (auto found = space(facts)) findings.push_back(std::move(*found));
  return findings;
}

}  // namespace dlock::local

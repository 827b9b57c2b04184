// Files of cached values: reading one returns what was written, or nothing.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/local/local_values.hpp"
#include "store/local/sessions.hpp"
#include "tests/unit/temporary_directory.hpp"
#include "util/failure.hpp"

namespace dlock::local {
namespace {

using std::chrono::seconds;

const LockName report{"dlock", "cache:two words"};
const std::string boot = "6fbb5c2e-9b5c-4d11-a3ba-6cbb1bd1ac9e";
constexpr Clock::time_point now{std::chrono::hours(5)};

std::string file_with(const std::string& bytes) {
  const ValueHead head{boot, now + seconds(10), now + seconds(30), report, bytes.size()};
  return value_line(head, bytes) + bytes;
}

std::optional<std::string> bytes_in(const std::string& file,
                                    Clock::time_point moment = now) {
  const auto found = value_from(file, report, boot, moment);
  return found.value ? std::optional(found.value->bytes) : std::nullopt;
}

bool is_damaged(const std::string& file) {
  return !value_from(file, report, boot, now).damage.empty();
}

TEST(ValueFile, reads_back_as_written) {
  for (const auto& bytes :
       {std::string(), std::string("a\nb\n"), std::string("\0\xff \n", 4)}) {
    EXPECT_EQ(bytes_in(file_with(bytes)), bytes);
  }
}

TEST(ValueFile, begins_with_a_line_that_describes_it) {
  const auto head = value_head_from(file_with("value"));

  ASSERT_TRUE(head);
  EXPECT_EQ(head->boot, boot);
  EXPECT_EQ(head->fresh_until, now + seconds(10));
  EXPECT_EQ(head->there_until, now + seconds(30));
  EXPECT_EQ(head->name, report);
  EXPECT_EQ(head->size, 5u);
}

TEST(ValueFile, is_damaged_if_truncated_anywhere) {
  const auto file = file_with("value");
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_TRUE(is_damaged(file.substr(0, size))) << size;
  }
}

TEST(ValueFile, is_damaged_by_a_changed_or_extra_byte) {
  const auto file = file_with("value");
  for (std::size_t at = 0; at < file.size(); ++at) {
    auto changed = file;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_TRUE(is_damaged(changed)) << at;
  }
  EXPECT_TRUE(is_damaged(file + "x"));
}

TEST(ValueFile, turns_stale_and_expires_exactly_on_time) {
  const auto file = file_with("value");
  const auto is_fresh_at = [&](Clock::time_point moment) {
    return value_from(file, report, boot, moment).value->is_fresh;
  };

  EXPECT_TRUE(is_fresh_at(now + seconds(10) - nanoseconds(1)));
  EXPECT_FALSE(is_fresh_at(now + seconds(10)));
  EXPECT_TRUE(bytes_in(file, now + seconds(30) - nanoseconds(1)));
  EXPECT_FALSE(bytes_in(file, now + seconds(30)));
}

TEST(ValueFile, of_another_boot_or_name_is_ignored_and_not_damaged) {
  const auto file = file_with("value");
  const std::string other_boot(36, '0');
  for (const auto& found : {value_from(file, report, other_boot, now),
                            value_from(file, {"dlock", "cache:other"}, boot, now),
                            value_from(file, {"other", "cache:two words"}, boot, now)}) {
    EXPECT_FALSE(found.value);
    EXPECT_EQ(found.damage, "");
  }
}

class CacheFolder : public ::testing::Test {
 protected:
  void store(const LockName& name, const std::string& bytes, milliseconds ttl) {
    files_.write(name, bytes, {ttl, {}}).put_in_place();
  }
  std::size_t count() const {
    std::size_t found = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(root_.file("store/cache"))) {
      found += entry.is_regular_file();
    }
    return found;
  }

  TemporaryDirectory root_;
  Directory directory_ =
      *Directory::open(root_.file("store"), false, Directory::Missing::create);
  CacheFiles files_{directory_};
};

TEST_F(CacheFolder, a_draft_is_invisible_and_is_removed_with_its_object) {
  {
    auto draft = files_.write(report, "value", {seconds(10), {}});
    EXPECT_EQ(count(), 1u);
    EXPECT_FALSE(files_.get(report).value);
  }

  EXPECT_EQ(count(), 0u);
}

TEST_F(CacheFolder, a_value_replaces_the_previous_one) {
  store(report, "old", seconds(10));
  store(report, "new", seconds(10));

  EXPECT_EQ(files_.get(report).value->bytes, "new");
  EXPECT_EQ(count(), 1u);
}

TEST_F(CacheFolder, expired_values_do_not_pile_up) {
  for (int i = 0; i < 2000; ++i) {
    store({"dlock", "cache:" + std::to_string(i)}, "value", milliseconds(0));
  }

  EXPECT_LE(count(), 256u);
}

TEST_F(CacheFolder, values_that_have_not_expired_are_kept) {
  for (int i = 0; i < 2000; ++i) {
    store({"dlock", "cache:" + std::to_string(i)}, "value", seconds(1000));
  }

  EXPECT_EQ(count(), 2000u);
}

TEST_F(CacheFolder, a_value_that_never_expires_is_fresh) {
  store(report, "value", milliseconds::max());

  EXPECT_TRUE(files_.get(report).value->is_fresh);
}

TEST_F(CacheFolder, a_directory_in_place_of_a_value_is_reported) {
  store(report, "value", seconds(10));
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(root_.file("store/cache"))) {
    if (!entry.is_regular_file()) continue;
    std::filesystem::remove(entry.path());
    std::filesystem::create_directory(entry.path());
    break;
  }

  EXPECT_NE(files_.get(report).damage, "");
  EXPECT_THROW(store(report, "value", seconds(10)), Failure);
}

}  // namespace
}  // namespace dlock::local

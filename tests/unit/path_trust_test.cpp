// Who could change a file that the user names, as a table of paths.

#include "util/path_trust.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>

#include "tests/unit/temporary_directory.hpp"

namespace dlock {

void PrintTo(const Danger& danger, std::ostream* out) { *out << text_of(danger); }

namespace {

using Why = Danger::Why;

constexpr uid_t caller = 1000;
constexpr uid_t other = 1001;
constexpr gid_t group = 50;

Owned directory(uid_t owner, mode_t mode) { return {owner, group, S_IFDIR | mode}; }
Owned file(uid_t owner, mode_t mode) { return {owner, group, S_IFREG | mode}; }
Owned fifo(uid_t owner, mode_t mode) { return {owner, group, S_IFIFO | mode}; }
Owned link(uid_t owner) { return {owner, group, S_IFLNK | 0777}; }

Owned private_group(Owned what) {
  what.is_private = true;
  return what;
}
Owned with_links(Owned what, nlink_t links) {
  what.links = links;
  return what;
}
Owned unmapped(Owned what) {
  what.is_unmapped = true;
  return what;
}

// The file /d/f.
std::vector<PathStep> way(const Owned& in, const std::optional<Owned>& found) {
  return {{"/", directory(0, 0755), "/d", in}, {"/d", in, "/d/f", found}};
}

std::optional<Why> cause(const std::vector<PathStep>& steps, Use use,
                         uid_t who = caller) {
  const auto danger = danger_on(steps, use, who);
  return danger ? std::optional(danger->why) : std::nullopt;
}

struct PathCase {
  const char* what;
  Owned in;
  Owned found;
  std::optional<Why> settings;
  std::optional<Why> authority;
  std::optional<Why> credential;
  std::optional<Why> output;
};

constexpr std::nullopt_t fine = std::nullopt;

TEST(PathTrust, is_decided_by_who_can_change_the_file_its_directory_or_its_link) {
  const auto ours = directory(caller, 0755);
  const auto temporary = directory(0, 01777);
  const std::vector<PathCase> cases{
      // settings, authority, credential, output
      {"own file", ours, file(caller, 0644), fine, fine, fine, fine},
      {"root's file", ours, file(0, 0644), fine, fine, fine, fine},
      {"another's file", ours, file(other, 0644), Why::others_file, fine, fine, fine},
      {"a world-writable file", ours, file(caller, 0646), Why::writable_file,
       Why::writable_file, Why::writable_file, fine},
      {"a group's file", ours, file(caller, 0664), Why::group_file, fine, fine, fine},
      {"a private group's file", ours, private_group(file(caller, 0664)), fine, fine,
       fine, fine},
      {"another's directory", directory(other, 0755), file(caller, 0644),
       Why::owned_directory, fine, fine, fine},
      {"a hidden owner's directory", unmapped(directory(65534, 0755)), file(caller, 0644),
       fine, fine, fine, fine},
      {"a world-writable directory", directory(0, 0777), file(caller, 0644),
       Why::writable_directory, Why::writable_directory, fine, fine},
      {"a group's directory", directory(caller, 0775), file(caller, 0644),
       Why::group_directory, fine, fine, fine},
      {"a private group's directory", private_group(directory(caller, 0775)),
       file(caller, 0644), fine, fine, fine, fine},
      {"own file in /tmp", temporary, file(caller, 0644), fine, fine, fine, fine},
      {"root's file in /tmp", temporary, file(0, 0644), fine, fine, fine, fine},
      {"another's file in /tmp", temporary, file(other, 0644), Why::others_entry,
       Why::others_entry, fine, Why::others_entry},
      {"another's FIFO in /tmp", temporary, fifo(other, 0644), Why::others_entry,
       Why::others_entry, fine, Why::others_entry},
      {"another's file in a directory that all may write", directory(0, 0777),
       file(other, 0644), Why::writable_directory, Why::writable_directory, fine,
       Why::others_entry},
      {"a second name in /tmp", temporary, with_links(file(caller, 0644), 2),
       Why::hard_link, Why::hard_link, fine, Why::hard_link},
      {"a second name in an own directory", ours, with_links(file(caller, 0644), 2), fine,
       fine, fine, fine},
      {"a second name in another's directory", directory(other, 0755),
       with_links(file(caller, 0644), 2), Why::owned_directory, fine, fine,
       Why::hard_link},
      {"a file of the owner of a sticky directory", directory(other, 01777),
       file(other, 0644), Why::owned_directory, Why::others_entry, fine, fine},
      {"own link", ours, link(caller), fine, fine, fine, fine},
      {"root's link in /tmp", temporary, link(0), fine, fine, fine, fine},
      {"another's link", ours, link(other), fine, Why::others_link, Why::others_link,
       Why::others_link},
      {"another's link in /tmp", temporary, link(other), Why::others_entry,
       Why::others_link, Why::others_link, Why::others_link},
      {"a hidden owner's link", unmapped(directory(65534, 0755)), unmapped(link(65534)),
       fine, fine, fine, fine},
      {"a hidden owner's link in /tmp", temporary, unmapped(link(65534)),
       Why::others_entry, Why::others_link, Why::others_link, Why::others_link},
  };

  for (const auto& one : cases) {
    const auto steps = way(one.in, one.found);
    EXPECT_EQ(cause(steps, Use::settings), one.settings) << one.what;
    EXPECT_EQ(cause(steps, Use::authority), one.authority) << one.what;
    EXPECT_EQ(cause(steps, Use::credential), one.credential) << one.what;
    EXPECT_EQ(cause(steps, Use::output), one.output) << one.what;
  }
}

TEST(PathTrust, root_trusts_only_itself) {
  const auto steps = way(directory(0, 0755), file(caller, 0644));

  EXPECT_EQ(cause(steps, Use::settings, 0), Why::others_file);
  EXPECT_EQ(cause(way(directory(0, 0755), link(caller)), Use::output, 0),
            Why::others_link);
}

TEST(PathTrust, every_directory_on_the_way_counts) {
  std::vector<PathStep> steps{{"/", directory(0, 0775), "/d", directory(caller, 0755)},
                              {"/d", directory(caller, 0755), "/d/f", file(0, 0644)}};

  const auto danger = danger_on(steps, Use::settings, caller);

  ASSERT_TRUE(danger);
  EXPECT_EQ(danger->why, Why::group_directory);
  EXPECT_EQ(danger->path, "/");
}

TEST(PathTrust, a_new_report_may_be_created_anywhere) {
  EXPECT_EQ(cause(way(directory(0, 01777), fine), Use::output), fine);
  EXPECT_EQ(cause({}, Use::output), fine);
}

TEST(PathTrust, a_danger_is_told_with_its_remedy) {
  EXPECT_EQ(text_of({Why::group_directory, "/srv/d", {0, 987654, S_IFDIR | 0775}}),
            "refusing to use a file in the directory /srv/d, which the group 987654 can "
            "write (chmod g-w /srv/d)");
}

std::vector<std::string> paths(const Way& way) {
  std::vector<std::string> all;
  for (const auto& step : way.steps) all.push_back(step.path);
  return all;
}

TEST(WayTo, leads_through_links_to_what_open_would_open) {
  const TemporaryDirectory root;
  ASSERT_EQ(::mkdir(root.file("data").c_str(), 0755), 0);
  Fd(::open(root.file("data/f").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ASSERT_EQ(::symlink("data", root.file("now").c_str()), 0);
  ASSERT_EQ(::symlink("now/../now/./f", root.file("f").c_str()), 0);

  const auto way = way_to(root.file("f"));

  EXPECT_EQ(way.error, 0);
  EXPECT_EQ(way.name, "f");
  const auto all = paths(way);
  EXPECT_TRUE(root.path().starts_with(all.front())) << all.front();
  EXPECT_EQ(all.back(), root.file("data/../data/f"));
  struct stat found {
  }, expected{};
  EXPECT_EQ(::fstat(open_at(way, O_RDONLY).get(), &found), 0);
  EXPECT_EQ(::stat(root.file("data/f").c_str(), &expected), 0);
  EXPECT_EQ(found.st_ino, expected.st_ino);
}

TEST(WayTo, fails_as_open_does) {
  const TemporaryDirectory root;
  Fd(::open(root.file("f").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ASSERT_EQ(::symlink("loop", root.file("loop").c_str()), 0);

  EXPECT_EQ(way_to("").error, ENOENT);
  EXPECT_EQ(way_to(root.file("f/")).error, ENOTDIR);
  EXPECT_EQ(way_to(root.file("f/x")).error, ENOTDIR);
  EXPECT_EQ(way_to(root.file("none/x")).error, ENOENT);
  EXPECT_EQ(way_to(root.file("loop")).error, ELOOP);
  const auto missing = way_to(root.file("none"));
  EXPECT_FALSE(has_end(missing));
  EXPECT_FALSE(open_at(missing, O_RDONLY));
  EXPECT_EQ(errno, ENOENT);
}

TEST(WayTo, an_open_descriptor_is_what_it_leads_to) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd in(ends[1]), out(ends[0]);

  const auto way = way_to("/dev/fd/" + std::to_string(out.get()));

  EXPECT_TRUE(way.is_descriptor);
  EXPECT_TRUE(open_at(way, O_RDONLY | O_NONBLOCK));
}

TEST(WayTo, a_closed_directory_keeps_others_from_reaching_a_file) {
  const TemporaryDirectory root;  // mode 0700
  Fd(::open(root.file("f").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));

  EXPECT_FALSE(is_reachable(way_to(root.file("f"))));
  ASSERT_EQ(::chmod(root.path().c_str(), 0711), 0);
  EXPECT_TRUE(is_reachable(way_to(root.file("f"))));
}

}  // namespace
}  // namespace dlock

// Where the local store is, and which directories it trusts.

#include "store/local/directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/temporary_directory.hpp"
#include "util/failure.hpp"

namespace dlock::local {
namespace {

using Kind = Failure::Kind;
using Missing = Directory::Missing;

TEST(DefaultDirectory, of_root_is_below_var) {
  EXPECT_EQ(default_directory({0, "/home/admin", "/home/admin/.state"}),
            "/var/lib/dlock");
}

TEST(DefaultDirectory, of_others_is_below_their_state_home) {
  EXPECT_EQ(default_directory({1000, "/home/me", "/state"}), "/state/dlock");
}

TEST(DefaultDirectory, is_below_home_where_there_is_no_state_home) {
  EXPECT_EQ(default_directory({1000, "/home/me", ""}), "/home/me/.local/state/dlock");
}

TEST(DefaultDirectory, does_not_depend_on_the_working_directory) {
  EXPECT_EQ(default_directory({1000, "/home/me", "state"}),
            "/home/me/.local/state/dlock");
  EXPECT_EQ(default_directory({1000, "me", ""}), std::nullopt);
}

TEST(DefaultDirectory, is_none_where_there_is_no_home) {
  EXPECT_EQ(default_directory({1000, "", ""}), std::nullopt);
}

class Directories : public ::testing::Test {
 protected:
  std::string made(const std::string& name, mode_t mode) {
    const auto path = root_.file(name);
    std::filesystem::create_directory(path);
    ::chmod(path.c_str(), mode);
    return path;
  }

  std::string made_by_somebody_else(const std::string& name, mode_t mode) {
    const auto path = made(name, mode);
    if (::chown(path.c_str(), 4711, 4711) != 0) throw std::runtime_error("chown");
    ::chmod(path.c_str(), mode);  // chown takes setgid away
    return path;
  }

  static mode_t mode_of(const std::string& path) {
    struct stat status {};
    ::lstat(path.c_str(), &status);
    return status.st_mode & 07777;
  }

  // The kind of failure with which it is refused; nothing if it is not.
  static std::optional<Kind> refusal_of(const std::string& path, bool ours = false) {
    try {
      Directory::open(path, ours, Missing::create);
    } catch (const Failure& failure) {
      return failure.kind();
    }
    return std::nullopt;
  }

  TemporaryDirectory root_;
};

TEST_F(Directories, one_that_is_missing_is_made_for_its_user_alone) {
  Directory::open(root_.file("store"), false, Missing::create);

  EXPECT_EQ(mode_of(root_.file("store")), 0700u);
}

TEST_F(Directories, one_that_is_missing_is_made_the_same_under_any_umask) {
  for (const mode_t mask : {mode_t{0}, mode_t{0777}}) {
    const auto path = root_.file("store" + std::to_string(mask));
    const auto before = ::umask(mask);
    Directory::open(path, false, Missing::create);
    ::umask(before);

    EXPECT_EQ(mode_of(path), 0700u);
  }
}

TEST_F(Directories, one_that_is_missing_is_nothing_where_that_is_accepted) {
  EXPECT_FALSE(Directory::open(root_.file("store"), false, Missing::accept));
  EXPECT_FALSE(std::filesystem::exists(root_.file("store")));
}

TEST_F(Directories, the_default_one_is_made_with_its_parents) {
  Directory::open(root_.file("a/b/store"), true, Missing::create);

  EXPECT_EQ(mode_of(root_.file("a")), 0700u);
  EXPECT_EQ(mode_of(root_.file("a/b/store")), 0700u);
}

TEST_F(Directories, one_that_was_named_is_not_made_with_its_parents) {
  EXPECT_EQ(refusal_of(root_.file("a/store")), Kind::misconfigured);
}

TEST_F(Directories, one_of_our_own_is_trusted) {
  EXPECT_EQ(refusal_of(made("store", 0700)), std::nullopt);
  EXPECT_EQ(refusal_of(made("store", 0755)), std::nullopt);
}

TEST_F(Directories, one_that_everybody_may_write_to_is_refused) {
  EXPECT_EQ(refusal_of(made("open", 0777)), Kind::rejected);
  EXPECT_EQ(refusal_of(made("sticky", 01777)), Kind::rejected);
}

TEST_F(Directories, a_link_is_refused) {
  std::filesystem::create_directory_symlink(made("store", 0700), root_.file("link"));

  EXPECT_EQ(refusal_of(root_.file("link")), Kind::misconfigured);
}

TEST_F(Directories, a_dangling_link_is_refused_and_its_target_not_made) {
  std::filesystem::create_directory_symlink(root_.file("target"), root_.file("link"));

  EXPECT_EQ(refusal_of(root_.file("link")), Kind::misconfigured);
  EXPECT_FALSE(std::filesystem::exists(root_.file("target")));
}

TEST_F(Directories, a_file_is_refused) {
  std::ofstream(root_.file("file")) << "x";

  EXPECT_EQ(refusal_of(root_.file("file")), Kind::misconfigured);
}

TEST_F(Directories, what_is_no_directory_is_told_by_its_name) {
  std::ofstream(root_.file("file")) << "x";
  try {
    Directory::open(root_.file("file"), false, Missing::create);
    FAIL() << "trusted";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find(root_.file("file")), std::string::npos);
  }
}

TEST_F(Directories, files_of_an_own_one_are_for_its_user_alone) {
  const auto directory = Directory::open(made("store", 0700), false, Missing::create);

  EXPECT_EQ(directory->file_mode(), 0600u);
}

TEST_F(Directories, files_of_one_that_is_shared_are_for_its_group) {
  const auto directory = Directory::open(made("store", 02770), false, Missing::create);

  EXPECT_EQ(directory->file_mode(), 0660u);
}

TEST_F(Directories, one_is_in_place_until_it_is_moved) {
  const auto directory = Directory::open(root_.file("store"), false, Missing::create);
  const bool before = directory->is_in_place();

  std::filesystem::rename(root_.file("store"), root_.file("elsewhere"));

  EXPECT_TRUE(before);
  EXPECT_FALSE(directory->is_in_place());
}

TEST_F(Directories, one_that_another_took_the_place_of_is_not_in_place) {
  const auto directory = Directory::open(root_.file("store"), false, Missing::create);

  std::filesystem::rename(root_.file("store"), root_.file("elsewhere"));
  made("store", 0700);

  EXPECT_FALSE(directory->is_in_place());
}

// Only root can make directories of others.
class ForeignDirectories : public Directories {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  }
};

TEST_F(ForeignDirectories, the_default_one_has_to_be_our_own) {
  EXPECT_EQ(refusal_of(made_by_somebody_else("store", 0700), true), Kind::rejected);
  EXPECT_EQ(refusal_of(made_by_somebody_else("shared", 02770), true), Kind::rejected);
}

TEST_F(ForeignDirectories, one_of_somebody_else_is_refused) {
  EXPECT_EQ(refusal_of(made_by_somebody_else("store", 0755)), Kind::rejected);
}

// Whoever owns it need not be one of the group.
TEST_F(ForeignDirectories, one_of_somebody_else_that_is_shared_is_refused) {
  EXPECT_EQ(refusal_of(made_by_somebody_else("store", 02770)), Kind::rejected);
}

TEST_F(ForeignDirectories, one_of_somebody_else_that_all_may_write_to_is_refused) {
  EXPECT_EQ(refusal_of(made_by_somebody_else("store", 02777)), Kind::rejected);
}

// Files in a directory

class Files : public Directories {
 protected:
  std::optional<Kind> file_refusal_of(const std::string& name, int flags = O_RDWR) {
    try {
      directory_.open_file(name, flags, true);
    } catch (const Failure& failure) {
      return failure.kind();
    }
    return std::nullopt;
  }

  Directory directory_ = *Directory::open(root_.file("store"), false, Missing::create);
  std::string path_ = root_.file("store/file");
};

TEST_F(Files, one_that_is_missing_is_made_for_its_user_alone) {
  const auto before = ::umask(0);
  const auto file = directory_.open_file("file", O_RDWR, true);
  ::umask(before);

  EXPECT_TRUE(file);
  EXPECT_EQ(mode_of(path_), 0600u);
}

TEST_F(Files, one_that_is_missing_is_nothing_where_it_is_not_to_be_made) {
  EXPECT_FALSE(directory_.open_file("file", O_RDONLY, false));
}

TEST_F(Files, one_that_is_there_is_opened) {
  std::ofstream(path_) << "x";

  EXPECT_TRUE(directory_.open_file("file", O_RDONLY, false));
}

TEST_F(Files, a_link_is_refused) {
  std::ofstream(root_.file("target")) << "x";
  std::filesystem::create_symlink(root_.file("target"), path_);

  EXPECT_EQ(file_refusal_of("file"), Kind::misconfigured);
}

TEST_F(Files, a_dangling_link_is_refused_and_its_target_not_made) {
  std::filesystem::create_symlink(root_.file("target"), path_);

  EXPECT_EQ(file_refusal_of("file"), Kind::misconfigured);
  EXPECT_FALSE(std::filesystem::exists(root_.file("target")));
}

TEST_F(Files, a_file_of_two_names_is_refused) {
  std::ofstream(root_.file("target")) << "x";
  std::filesystem::create_hard_link(root_.file("target"), path_);

  EXPECT_EQ(file_refusal_of("file"), Kind::misconfigured);
}

TEST_F(Files, a_file_that_others_may_write_to_is_refused) {
  std::ofstream(path_) << "x";
  std::filesystem::permissions(path_, std::filesystem::perms(0620));

  EXPECT_EQ(file_refusal_of("file"), Kind::misconfigured);
}

TEST_F(Files, a_file_of_somebody_else_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  std::ofstream(path_) << "x";
  ASSERT_EQ(::chown(path_.c_str(), 61001, 61001), 0);

  EXPECT_EQ(file_refusal_of("file"), Kind::misconfigured);
}

TEST_F(Files, none_is_made_where_there_is_one) {
  std::filesystem::create_symlink(root_.file("target"), path_);

  EXPECT_THROW(directory_.create_file("file", O_RDWR), Failure);
  EXPECT_FALSE(std::filesystem::exists(root_.file("target")));
}

TEST_F(Files, a_folder_is_made_with_its_mode_and_a_link_to_one_is_refused) {
  const auto before = ::umask(0777);
  const auto folder = directory_.folder("folder", Missing::create);
  ::umask(before);
  EXPECT_EQ(mode_of(folder->path()), 0700u);

  std::filesystem::create_directory_symlink(root_.file("store/folder"),
                                            root_.file("store/link"));
  EXPECT_THROW(directory_.folder("link", Missing::create), Failure);
}

class SharedFiles : public Directories {
 protected:
  Directory shared() {
    made("shared", 02770);
    return *Directory::open(root_.file("shared"), false, Missing::create);
  }
};

TEST_F(SharedFiles, they_are_its_groups_and_nobody_elses) {
  const auto directory = shared();
  const auto before = ::umask(0777);
  EXPECT_TRUE(directory.open_file("file", O_RDWR, true));
  EXPECT_EQ(directory.folder("folder", Missing::create)->file_mode(), 0660u);
  ::umask(before);
  EXPECT_EQ(mode_of(root_.file("shared/file")), 0660u);
  EXPECT_EQ(mode_of(root_.file("shared/folder")), 02770u);

  // As a file that was made elsewhere, and moved here.
  std::filesystem::permissions(root_.file("shared/file"), std::filesystem::perms(0644));
  EXPECT_THROW(directory.open_file("file", O_RDWR, false), Failure);
}

TEST_F(Files, a_directory_is_refused) {
  std::filesystem::create_directory(path_);

  EXPECT_EQ(file_refusal_of("file"), Kind::misconfigured);
}

TEST_F(Files, a_pipe_is_refused_and_not_waited_for) {
  ::mkfifo(path_.c_str(), 0600);

  EXPECT_EQ(file_refusal_of("file", O_WRONLY), Kind::misconfigured);
  EXPECT_EQ(file_refusal_of("file", O_RDONLY), Kind::misconfigured);
}

TEST_F(Files, the_pinned_path_leads_to_the_directory_even_if_it_was_moved) {
  std::ofstream(path_) << "x";
  std::filesystem::rename(root_.file("store"), root_.file("elsewhere"));

  EXPECT_TRUE(std::filesystem::exists(directory_.pinned("file")));
}

}  // namespace
}  // namespace dlock::local

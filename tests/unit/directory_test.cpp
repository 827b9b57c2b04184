// Where the local store is, and which directories it trusts.

#include "store/directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/temporary_directory.hpp"
#include "util/failure.hpp"

namespace dlock {
namespace {

using Kind = Failure::Kind;
using Missing = Directory::Missing;

TEST(DefaultDirectory, is_below_the_state_home_and_for_root_below_var) {
  const struct {
    Surroundings user;
    std::optional<std::string> directory;
  } rows[] = {{{0, "/home/admin", "/home/admin/.state"}, "/var/lib/dlock"},
              {{1000, "/home/me", "/state"}, "/state/dlock"},
              {{1000, "/home/me", ""}, "/home/me/.local/state/dlock"},
              // It does not depend on the working directory.
              {{1000, "/home/me", "state"}, "/home/me/.local/state/dlock"},
              {{1000, "me", ""}, std::nullopt},
              {{1000, "", ""}, std::nullopt},
              // As container engines set it for a user whom the image does not know.
              {{1000, "/", ""}, std::nullopt}};
  for (const auto& [user, directory] : rows)
    EXPECT_EQ(default_directory(user), directory);
}

TEST(FileSystem, of_a_network_is_named) {
  EXPECT_NE(why_unreliable(0x6969, "nfs4").find("(NFS)"), std::string::npos);
  EXPECT_NE(why_unreliable(0x01021997, "9p").find("(9P)"), std::string::npos);
}

TEST(FileSystem, of_a_disk_is_reliable) {
  EXPECT_EQ(why_unreliable(0xEF53, "ext4"), "");
  EXPECT_EQ(why_unreliable(0x794C7630, "overlay"), "");
  EXPECT_EQ(why_unreliable(0xF15F, "ecryptfs"), "");
}

TEST(FileSystem, on_fuse_is_named_and_only_that_of_a_block_device_is_reliable) {
  constexpr unsigned long fuse = 0x65735546;
  EXPECT_EQ(why_unreliable(fuse, "fuseblk"), "");
  for (const std::string type : {"fuse.sshfs", "fuse.gocryptfs", "fuse"}) {
    const auto why = why_unreliable(fuse, type);
    EXPECT_NE(why.find("FUSE file system (" + type + ")"), std::string::npos);
    EXPECT_EQ(why.find("network"), std::string::npos);
  }
  EXPECT_NE(why_unreliable(fuse, ""), "");
  EXPECT_NE(why_unreliable(fuse, "virtiofs").find("virtual machine"), std::string::npos);
}

TEST(FileSystem, type_is_that_of_the_mount) {
  constexpr std::string_view mounts =
      "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "97 24 0:45 / /home/a\\040- rw shared:2 master:3 - fuse.sshfs web:/ rw,user_id=0\n"
      "9 24 0:46 / /mnt rw - fuse x rw";
  EXPECT_EQ(mount_type_in(mounts, "24"), "ext4");
  EXPECT_EQ(mount_type_in(mounts, "97"), "fuse.sshfs");
  EXPECT_EQ(mount_type_in(mounts, "9"), "fuse");
  EXPECT_EQ(mount_type_in(mounts, "7"), "");
  EXPECT_EQ(mount_type_in("", "24"), "");
  EXPECT_EQ(mount_type_in("24 1\n24", "24"), "");
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
    ::chmod(path.c_str(), mode);  // chown clears setgid
    return path;
  }

  static mode_t mode_of(const std::string& path) {
    struct stat status {};
    ::lstat(path.c_str(), &status);
    return status.st_mode & 07777;
  }

  // The kind of failure with which the directory is refused; nothing if it is accepted.
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

TEST_F(Directories, a_missing_directory_is_created_for_its_user_only) {
  Directory::open(root_.file("store"), false, Missing::create);

  EXPECT_EQ(mode_of(root_.file("store")), 0700u);
}

TEST_F(Directories, the_umask_does_not_affect_a_created_directory) {
  for (const mode_t mask : {mode_t{0}, mode_t{0777}}) {
    const auto path = root_.file("store" + std::to_string(mask));
    const auto before = ::umask(mask);
    Directory::open(path, false, Missing::create);
    ::umask(before);

    EXPECT_EQ(mode_of(path), 0700u);
  }
}

TEST_F(Directories, a_missing_directory_can_be_accepted_and_is_not_created) {
  EXPECT_FALSE(Directory::open(root_.file("store"), false, Missing::accept));
  EXPECT_FALSE(std::filesystem::exists(root_.file("store")));
}

TEST_F(Directories, the_default_directory_is_created_with_its_parents) {
  Directory::open(root_.file("a/b/store"), true, Missing::create);

  EXPECT_EQ(mode_of(root_.file("a")), 0700u);
  EXPECT_EQ(mode_of(root_.file("a/b/store")), 0700u);
}

TEST_F(Directories, a_named_directory_without_its_parent_is_refused) {
  EXPECT_EQ(refusal_of(root_.file("a/store")), Kind::misconfigured);
}

TEST_F(Directories, only_its_user_may_write_to_one_that_is_trusted_or_a_group) {
  const std::pair<mode_t, std::optional<Kind>> modes[] = {
      {0700, std::nullopt},
      {0755, std::nullopt},
      {0777, Kind::rejected},
      {01777, Kind::rejected},
      // In a shared one that is sticky, a user cannot replace the files of another.
      {03770, Kind::rejected},
      {01700, std::nullopt}};
  for (const auto& [mode, refusal] : modes) {
    EXPECT_EQ(refusal_of(made("store", mode)), refusal) << mode;
  }
}

TEST_F(Directories, files_and_links_to_nothing_are_refused_and_no_target_is_created) {
  std::filesystem::create_directory_symlink(made("store", 0700), root_.file("link"));
  std::filesystem::create_directory_symlink(root_.file("target"), root_.file("dangling"));
  std::ofstream(root_.file("file")) << "x";

  EXPECT_EQ(refusal_of(root_.file("link")), std::nullopt);
  for (const char* name : {"dangling", "file"}) {
    EXPECT_EQ(refusal_of(root_.file(name)), Kind::misconfigured) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(root_.file("target")));
}

TEST_F(Directories, the_refusal_of_a_file_names_its_path) {
  std::ofstream(root_.file("file")) << "x";
  try {
    Directory::open(root_.file("file"), false, Missing::create);
    FAIL() << "trusted";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find(root_.file("file")), std::string::npos);
  }
}

TEST_F(Directories, files_are_for_the_user_or_for_the_group_of_a_shared_one) {
  const auto mode_in = [](const std::string& path) {
    return Directory::open(path, false, Missing::create)->file_mode();
  };
  EXPECT_EQ(mode_in(made("store", 0700)), 0600u);
  EXPECT_EQ(mode_in(made("shared", 02770)), 0660u);
}

TEST_F(Directories, a_directory_is_in_place_until_it_is_moved_or_replaced) {
  const auto directory = Directory::open(root_.file("store"), false, Missing::create);
  EXPECT_TRUE(directory->is_in_place());

  std::filesystem::rename(root_.file("store"), root_.file("elsewhere"));
  EXPECT_FALSE(directory->is_in_place());
  made("store", 0700);
  EXPECT_FALSE(directory->is_in_place());
}

// Only root can create directories that belong to other users.
class ForeignDirectories : public Directories {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  }
};

TEST_F(ForeignDirectories, are_refused_even_if_they_are_shared) {
  // The owner need not be a member of the group.
  for (const mode_t mode : {0700, 0755, 02770, 02777}) {
    for (const bool ours : {true, false}) {
      EXPECT_EQ(refusal_of(made_by_somebody_else("store", mode), ours), Kind::rejected)
          << mode << ours;
    }
  }
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

TEST_F(Files, a_missing_file_is_created_for_its_user_only) {
  const auto before = ::umask(0);
  const auto file = directory_.open_file("file", O_RDWR, true);
  ::umask(before);

  EXPECT_TRUE(file);
  EXPECT_EQ(mode_of(path_), 0600u);
}

TEST_F(Files, a_missing_file_is_created_only_on_request) {
  EXPECT_FALSE(directory_.open_file("file", O_RDONLY, false));
}

TEST_F(Files, an_existing_file_is_opened) {
  std::ofstream(path_) << "x";

  EXPECT_TRUE(directory_.open_file("file", O_RDONLY, false));
}

TEST_F(Files, only_a_file_of_its_own_is_opened) {
  namespace fs = std::filesystem;
  const auto file = [this](const char* name) { return root_.file("store/") + name; };
  std::ofstream(root_.file("target")) << "x";
  fs::create_symlink(root_.file("target"), file("link"));
  fs::create_symlink(root_.file("missing"), file("dangling"));
  fs::create_hard_link(root_.file("target"), file("linked"));
  std::ofstream(file("writable")) << "x";
  fs::permissions(file("writable"), fs::perms(0620));
  fs::create_directory(file("directory"));

  for (const char* name : {"link", "dangling", "linked", "writable", "directory"}) {
    EXPECT_EQ(file_refusal_of(name), Kind::misconfigured) << name;
  }
  EXPECT_THROW(directory_.create_file("dangling", O_RDWR), Failure);
  EXPECT_FALSE(fs::exists(root_.file("missing")));
}

TEST_F(Files, a_file_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  std::ofstream(path_) << "x";
  ASSERT_EQ(::chown(path_.c_str(), 61001, 61001), 0);

  EXPECT_EQ(file_refusal_of("file"), Kind::misconfigured);
}

TEST_F(Files, a_folder_is_created_with_its_mode_and_a_link_to_one_is_refused) {
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

TEST_F(SharedFiles, are_for_the_group_and_nobody_else) {
  const auto directory = shared();
  const auto before = ::umask(0777);
  EXPECT_TRUE(directory.open_file("file", O_RDWR, true));
  EXPECT_EQ(directory.folder("folder", Missing::create)->file_mode(), 0660u);
  ::umask(before);
  EXPECT_EQ(mode_of(root_.file("shared/file")), 0660u);
  EXPECT_EQ(mode_of(root_.file("shared/folder")), 02770u);

  // Like a file that was created elsewhere and moved here.
  std::filesystem::permissions(root_.file("shared/file"), std::filesystem::perms(0644));
  EXPECT_THROW(directory.open_file("file", O_RDWR, false), Failure);
}

TEST_F(Files, a_pipe_is_refused_without_blocking) {
  ::mkfifo(path_.c_str(), 0600);

  EXPECT_EQ(file_refusal_of("file", O_WRONLY), Kind::misconfigured);
  EXPECT_EQ(file_refusal_of("file", O_RDONLY), Kind::misconfigured);
}

TEST_F(Files, the_pinned_path_follows_a_directory_that_was_moved) {
  std::ofstream(path_) << "x";
  std::filesystem::rename(root_.file("store"), root_.file("elsewhere"));

  EXPECT_TRUE(std::filesystem::exists(directory_.pinned("file")));
}

}  // namespace
}  // namespace dlock

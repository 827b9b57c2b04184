// Where a command is searched for, and how errors of exec are classified.

#include "supervise/launch.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace dlock {
namespace {

using List = std::vector<std::string>;
using Kind = SpawnFailure::Kind;

TEST(Candidates, a_command_is_searched_for_in_each_directory_of_the_path) {
  EXPECT_EQ(candidates("make", "/usr/bin:/bin"), (List{"/usr/bin/make", "/bin/make"}));
}

TEST(Candidates, a_command_with_a_slash_is_not_searched_for) {
  EXPECT_EQ(candidates("./make", "/usr/bin"), (List{"./make"}));
  EXPECT_EQ(candidates("/bin/make", "/usr/bin"), (List{"/bin/make"}));
  EXPECT_EQ(candidates("a/b", "/usr/bin"), (List{"a/b"}));
}

TEST(Candidates, an_empty_entry_of_the_path_means_the_working_directory) {
  EXPECT_EQ(candidates("x", ":/bin"), (List{"./x", "/bin/x"}));
  EXPECT_EQ(candidates("x", "/bin:"), (List{"/bin/x", "./x"}));
  EXPECT_EQ(candidates("x", "/a::/b"), (List{"/a/x", "./x", "/b/x"}));
}

TEST(Candidates, an_empty_path_means_the_working_directory) {
  EXPECT_EQ(candidates("x", ""), (List{"./x"}));
}

TEST(Candidates, without_a_path_the_default_directories_are_searched) {
  const auto found = candidates("x", nullptr);

  EXPECT_NE(std::find(found.begin(), found.end(), "/bin/x"), found.end());
  EXPECT_NE(std::find(found.begin(), found.end(), "/usr/bin/x"), found.end());
}

TEST(Candidates, an_empty_command_has_no_candidates) {
  EXPECT_EQ(candidates("", "/usr/bin:/bin"), List{});
}

TEST(ExecErrors, a_missing_file_is_not_found) {
  EXPECT_EQ(kind_of_exec_error(ENOENT, false), Kind::not_found);
  EXPECT_EQ(kind_of_exec_error(ENOTDIR, false), Kind::not_found);
}

TEST(ExecErrors, a_file_whose_interpreter_is_missing_is_not_executable) {
  EXPECT_EQ(kind_of_exec_error(ENOENT, true), Kind::not_executable);
}

TEST(ExecErrors, a_file_that_cannot_be_executed_is_not_executable) {
  for (const int error : {EACCES, EPERM, ENOEXEC, EISDIR, ELOOP, E2BIG, ETXTBSY}) {
    EXPECT_EQ(kind_of_exec_error(error, true), Kind::not_executable) << error;
  }
}

TEST(ExecErrors, lacking_memory_processes_or_descriptors_is_a_lack_of_resources) {
  for (const int error : {ENOMEM, EAGAIN, EMFILE, ENFILE}) {
    EXPECT_EQ(kind_of_exec_error(error, true), Kind::no_resources) << error;
  }
}

}  // namespace
}  // namespace dlock

// Where a command is searched for, and how errors of exec are classified.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "supervise/spawn.hpp"

namespace dlock {
namespace {

using List = std::vector<std::string>;
using SpawnKind = SpawnFailure::Kind;

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
  EXPECT_EQ(kind_of_exec_error(ENOENT, false), SpawnKind::not_found);
  EXPECT_EQ(kind_of_exec_error(ENOTDIR, false), SpawnKind::not_found);
}

TEST(ExecErrors, a_file_whose_interpreter_is_missing_is_not_executable) {
  EXPECT_EQ(kind_of_exec_error(ENOENT, true), SpawnKind::not_executable);
}

TEST(ExecErrors, a_file_that_cannot_be_executed_is_not_executable) {
  for (const int error : {EACCES, EPERM, ENOEXEC, EISDIR, ELOOP, E2BIG, ETXTBSY}) {
    EXPECT_EQ(kind_of_exec_error(error, true), SpawnKind::not_executable) << error;
  }
}

TEST(ExecErrors, lacking_memory_processes_or_descriptors_is_a_lack_of_resources) {
  for (const int error : {ENOMEM, EAGAIN, EMFILE, ENFILE}) {
    EXPECT_EQ(kind_of_exec_error(error, true), SpawnKind::no_resources) << error;
  }
}

// The environment after address_to_this_process().
List addressed(List environment, pid_t dlock) {
  auto table = pointers(environment);
  address_to_this_process(table.data(), dlock);
  List found;
  for (char** variable = table.data(); *variable != nullptr; ++variable) {
    found.emplace_back(*variable);
  }
  return found;
}

const auto self = std::to_string(::getpid());

TEST(Addressed, variables_that_name_dlock_name_this_process) {
  EXPECT_EQ(addressed({"A=1", "LISTEN_PID=77", "LISTEN_FDS=2", "WATCHDOG_PID=77",
                       "SYSTEMD_EXEC_PID=77", "B=77"},
                      77),
            (List{"A=1", "LISTEN_PID=" + self, "LISTEN_FDS=2", "WATCHDOG_PID=" + self,
                  "SYSTEMD_EXEC_PID=" + self, "B=77"}));
}

TEST(Addressed, dlock_is_the_parent_by_default) {
  const auto parent = "WATCHDOG_PID=" + std::to_string(::getppid());
  EXPECT_EQ(addressed({parent}, 0), List{"WATCHDOG_PID=" + self});
}

TEST(Addressed, variables_that_name_others_stay) {
  const List others{"LISTEN_PID=770",      "WATCHDOG_PID=7",       "SYSTEMD_EXEC_PID=",
                    "LISTEN_PIDFDID=1234", "SYSTEMD_EXEC_PID=77x", "LISTEN_PID=x77"};
  EXPECT_EQ(addressed(others, 77), others);
  EXPECT_EQ(addressed({}, 77), List{});
}

TEST(Addressed, the_second_name_of_dlock_is_removed) {
  EXPECT_EQ(addressed({"LISTEN_PIDFDID=1", "LISTEN_PID=77", "C=1"}, 77),
            (List{"LISTEN_PID=" + self, "C=1"}));
}

}  // namespace
}  // namespace dlock

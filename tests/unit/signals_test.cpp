// Signals by name, and which of them kill a process.

#include "supervise/signals.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace dlock {
namespace {

TEST(SignalName, of_a_signal_has_no_prefix) {
  EXPECT_EQ(signal_name(SIGHUP), "HUP");
  EXPECT_EQ(signal_name(SIGINT), "INT");
  EXPECT_EQ(signal_name(SIGQUIT), "QUIT");
  EXPECT_EQ(signal_name(SIGILL), "ILL");
  EXPECT_EQ(signal_name(SIGTRAP), "TRAP");
  EXPECT_EQ(signal_name(SIGABRT), "ABRT");
  EXPECT_EQ(signal_name(SIGBUS), "BUS");
  EXPECT_EQ(signal_name(SIGFPE), "FPE");
  EXPECT_EQ(signal_name(SIGKILL), "KILL");
  EXPECT_EQ(signal_name(SIGUSR1), "USR1");
  EXPECT_EQ(signal_name(SIGSEGV), "SEGV");
  EXPECT_EQ(signal_name(SIGUSR2), "USR2");
  EXPECT_EQ(signal_name(SIGPIPE), "PIPE");
  EXPECT_EQ(signal_name(SIGALRM), "ALRM");
  EXPECT_EQ(signal_name(SIGTERM), "TERM");
  EXPECT_EQ(signal_name(SIGCHLD), "CHLD");
  EXPECT_EQ(signal_name(SIGCONT), "CONT");
  EXPECT_EQ(signal_name(SIGSTOP), "STOP");
  EXPECT_EQ(signal_name(SIGTSTP), "TSTP");
  EXPECT_EQ(signal_name(SIGTTIN), "TTIN");
  EXPECT_EQ(signal_name(SIGTTOU), "TTOU");
  EXPECT_EQ(signal_name(SIGURG), "URG");
  EXPECT_EQ(signal_name(SIGXCPU), "XCPU");
  EXPECT_EQ(signal_name(SIGXFSZ), "XFSZ");
  EXPECT_EQ(signal_name(SIGVTALRM), "VTALRM");
  EXPECT_EQ(signal_name(SIGPROF), "PROF");
  EXPECT_EQ(signal_name(SIGWINCH), "WINCH");
  EXPECT_EQ(signal_name(SIGIO), "IO");
  EXPECT_EQ(signal_name(SIGPWR), "PWR");
  EXPECT_EQ(signal_name(SIGSYS), "SYS");
}

TEST(SignalName, of_a_real_time_signal_counts_from_the_first) {
  EXPECT_EQ(signal_name(SIGRTMIN), "RTMIN+0");
  EXPECT_EQ(signal_name(SIGRTMIN + 1), "RTMIN+1");
  EXPECT_EQ(signal_name(SIGRTMAX), "RTMIN+" + std::to_string(SIGRTMAX - SIGRTMIN));
}

TEST(SignalName, of_a_signal_without_a_name_is_its_number) {
  EXPECT_EQ(signal_name(-1), "-1");
  EXPECT_EQ(signal_name(32), "32");
  EXPECT_EQ(signal_name(SIGRTMAX + 1), std::to_string(SIGRTMAX + 1));
}

TEST(EndsByDefault, most_signals_do) {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGKILL, SIGUSR1, SIGUSR2,
                           SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGIO, SIGPWR}) {
    EXPECT_TRUE(ends_by_default(signal)) << signal_name(signal);
  }
}

TEST(EndsByDefault, real_time_signals_do) { EXPECT_TRUE(ends_by_default(SIGRTMIN + 3)); }

TEST(EndsByDefault, signals_that_are_ignored_by_default_do_not) {
  for (const int signal : {SIGCHLD, SIGURG, SIGWINCH, SIGCONT}) {
    EXPECT_FALSE(ends_by_default(signal)) << signal_name(signal);
  }
}

TEST(EndsByDefault, signals_that_stop_do_not) {
  for (const int signal : {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU}) {
    EXPECT_FALSE(ends_by_default(signal)) << signal_name(signal);
  }
}

TEST(SignalNamed, is_the_signal_with_that_name) {
  for (const int signal : {1, 9, 15, 31, SIGRTMIN, SIGRTMAX}) {
    EXPECT_EQ(signal_named(signal_name(signal)), signal);
  }
  for (const auto* name : {"", "0", "SIGTERM", "term", "RTMIN+99"}) {
    EXPECT_FALSE(signal_named(name)) << name;
  }
}

TEST(AsksToEnd, holds_for_signals_that_people_and_service_managers_send) {
  EXPECT_TRUE(asks_to_end(SIGTERM));
  EXPECT_TRUE(asks_to_end(SIGINT));
  EXPECT_TRUE(asks_to_end(SIGHUP));
  EXPECT_FALSE(asks_to_end(SIGUSR1));
  EXPECT_FALSE(asks_to_end(SIGPIPE));
}

TEST(WentToGroup, holds_for_signals_of_the_terminal) {
  for (const int signal : {SIGINT, SIGQUIT, SIGWINCH}) {
    EXPECT_TRUE(went_to_group(signal, true, false)) << signal_name(signal);
    EXPECT_TRUE(went_to_group(signal, true, true)) << signal_name(signal);
    EXPECT_FALSE(went_to_group(signal, false, false)) << signal_name(signal);
  }
}

TEST(WentToGroup, does_not_hold_for_the_hang_up_that_the_leader_of_a_session_gets) {
  for (const int signal : {SIGHUP, SIGCONT}) {
    EXPECT_TRUE(went_to_group(signal, true, false)) << signal_name(signal);
    EXPECT_FALSE(went_to_group(signal, true, true)) << signal_name(signal);
    EXPECT_FALSE(went_to_group(signal, false, false)) << signal_name(signal);
  }
}

TEST(WentToGroup, holds_for_a_stop_whoever_sent_it) {
  EXPECT_TRUE(went_to_group(SIGTSTP, true, false));
  EXPECT_TRUE(went_to_group(SIGTSTP, false, false));
}

TEST(WentToGroup, does_not_hold_for_alarms_and_limits) {
  for (const int signal : {SIGALRM, SIGXCPU, SIGTERM, SIGUSR1}) {
    EXPECT_FALSE(went_to_group(signal, true, false)) << signal_name(signal);
  }
}

constexpr JobPlace of_dlock{20, 10};  // the job of a shell whose pid is 10

TEST(PassedOn, is_what_the_group_did_not_get) {
  EXPECT_EQ(passed_on(SIGTERM, false, of_dlock, of_dlock), SIGTERM);
  EXPECT_EQ(passed_on(SIGINT, false, of_dlock, {30, 10}), SIGINT);
  EXPECT_EQ(passed_on(SIGRTMAX, false, of_dlock, {30, 30}), SIGRTMAX);
}

TEST(PassedOn, is_not_what_the_command_got_with_the_group) {
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP, SIGWINCH, SIGCONT, SIGTSTP}) {
    EXPECT_EQ(passed_on(signal, true, of_dlock, of_dlock), 0) << signal_name(signal);
  }
}

TEST(PassedOn, is_what_a_command_in_another_group_missed) {
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP, SIGWINCH, SIGCONT, SIGTSTP}) {
    EXPECT_EQ(passed_on(signal, true, of_dlock, {30, 10}), signal) << signal_name(signal);
  }
  EXPECT_EQ(passed_on(SIGINT, true, of_dlock, {30, 30}), SIGINT);
}

TEST(PassedOn, is_what_a_command_at_an_unknown_place_may_have_missed) {
  EXPECT_EQ(passed_on(SIGINT, true, of_dlock, {}), SIGINT);
}

TEST(PassedOn, is_a_stop_that_works_in_another_session) {
  EXPECT_EQ(passed_on(SIGTSTP, true, of_dlock, {30, 30}), SIGSTOP);
}

TEST(PassedOn, is_no_stop_where_no_shell_could_continue_the_command) {
  EXPECT_EQ(passed_on(SIGTSTP, true, {10, 10}, {30, 10}), 0);
  EXPECT_EQ(passed_on(SIGTSTP, true, {10, 10}, {30, 30}), 0);
}

}  // namespace
}  // namespace dlock

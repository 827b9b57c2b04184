// The replies of the scripts: only their exact shapes are accepted.

#include <gtest/gtest.h>

#include "lock/lease.hpp"
#include "store/redis/script_calls.hpp"

namespace dlock::redis {
namespace {

constexpr Clock::time_point sent_at{std::chrono::hours(1)};

// Parsed from the bytes that a server sends.
Reply reply(const std::string& bytes) {
  ReplyReader reader;
  reader.feed(bytes);
  return reader.next().value();
}

Claim claim() {
  Claim made;
  made.lock = {"dlock", "job"};
  made.slots = 3;
  return made;
}

std::optional<AskReply> parsed(const std::string& bytes) {
  return ask_reply_from(reply(bytes), claim(), sent_at);
}

const std::string granted = "*4\r\n$7\r\ngranted\r\n$2\r\n42\r\n:2\r\n$0\r\n\r\n";
const std::string busy =
    "*6\r\n$4\r\nbusy\r\n$16\r\n1700000000000000\r\n:2\r\n:5\r\n:1234\r\n"
    "*2\r\n$7\r\nforeign\r\n:1234\r\n";

TEST(RedisAnswers, a_grant_has_its_fence_its_slot_and_its_deadline) {
  const auto answer = parsed(granted);

  ASSERT_TRUE(answer);
  const auto& grant = std::get<Grant>(answer->answer);
  EXPECT_EQ(grant.fence.number, 42u);
  EXPECT_EQ(grant.slot, 2u);
  EXPECT_EQ(grant.sent_at, sent_at);
  EXPECT_EQ(grant.deadline, sent_at + milliseconds(29'698));
}

TEST(RedisAnswers, busy_has_the_place_and_how_long_it_can_last) {
  const auto answer = parsed(busy);

  ASSERT_TRUE(answer);
  EXPECT_EQ(std::get<Busy>(answer->answer).place, 2u);
  EXPECT_EQ(std::get<Busy>(answer->answer).queued, 5u);
  EXPECT_EQ(std::get<Busy>(answer->answer).holders.size(), 1u);
  EXPECT_EQ(answer->blocked_for, 1234);
}

// "busy" without holders, with this in the place of `blocked for`.
std::optional<AskReply> busy_with(const std::string& number) {
  return parsed("*6\r\n$4\r\nbusy\r\n$1\r\n9\r\n:501\r\n:600\r\n:" + number +
                "\r\n*0\r\n");
}

TEST(RedisAnswers, a_waiter_far_back_is_told_for_how_long_it_is_parked) {
  using namespace std::chrono_literals;
  const auto parked = busy_with("-45000");
  const auto others_do_it = busy_with("-2");
  const auto absurd = busy_with("-9223372036854775807");

  ASSERT_TRUE(parked && others_do_it && absurd);
  EXPECT_EQ(parked->parked_for, 45s);
  EXPECT_EQ(parked->blocked_for, others_watch);
  EXPECT_EQ(others_do_it->parked_for, std::nullopt);
  EXPECT_EQ(others_do_it->blocked_for, others_watch);
  EXPECT_EQ(absurd->parked_for, 10min);
}

TEST(RedisAnswers, outer_runs_and_other_slots_are_understood) {
  EXPECT_EQ(std::get<HeldByOuterRun>(parsed("*2\r\n$5\r\nabove\r\n$1\r\n7\r\n")->answer)
                .fence.number,
            7u);
  EXPECT_EQ(std::get<SlotsDiffer>(parsed("*2\r\n$5\r\nslots\r\n:4\r\n")->answer).in_use,
            4u);
}

TEST(RedisAnswers, a_run_that_counts_is_running_or_has_ended) {
  const auto going_on = parsed("*2\r\n$12\r\ndeduplicated\r\n$11\r\nr 42 7 0 {}\r\n");
  const auto ended = parsed("*2\r\n$12\r\ndeduplicated\r\n$11\r\ne 42 7 9 {}\r\n");

  ASSERT_TRUE(going_on && ended);
  EXPECT_EQ(std::get<Deduplicated>(going_on->answer).by.fence.number, 42u);
  EXPECT_EQ(std::get<Deduplicated>(going_on->answer).by.outcome, "running");
  EXPECT_EQ(std::get<Deduplicated>(ended->answer).by.ended, WallTime(9));
}

TEST(RedisAnswers, a_newer_claim_is_named_by_host_and_pid) {
  const auto by =
      parsed("*2\r\n$10\r\nsuperseded\r\n$23\r\n{\"host\":\"web1\",\"pid\":7}\r\n");
  const auto by_nobody = parsed("*2\r\n$10\r\nsuperseded\r\n$2\r\n{}\r\n");

  ASSERT_TRUE(by && by_nobody);
  EXPECT_EQ(std::get<Superseded>(by->answer).host, "web1");
  EXPECT_EQ(std::get<Superseded>(by->answer).pid, 7);
  EXPECT_EQ(std::get<Superseded>(by_nobody->answer).host, "");
}

TEST(RedisAnswers, a_grant_that_is_broken_at_once_says_by_whom) {
  const auto broken = parsed(
      "*6\r\n$7\r\ngranted\r\n$2\r\n42\r\n:0\r\n$0\r\n\r\n$6\r\nbroken\r\n"
      "$45\r\n{\"replaced_by\":{\"host\":\"web2\",\"user\":\"root\"}}\r\n");
  const auto by_nobody = parsed(
      "*6\r\n$7\r\ngranted\r\n$2\r\n42\r\n:0\r\n$0\r\n\r\n$6\r\nbroken\r\n$2\r\n{}\r\n");
  const auto nonsense = parsed(
      "*6\r\n$7\r\ngranted\r\n$2\r\n42\r\n:0\r\n$0\r\n\r\n$5\r\nwhole\r\n$2\r\n{}\r\n");

  ASSERT_TRUE(broken);
  EXPECT_TRUE(std::get<Grant>(broken->answer).broken);
  EXPECT_EQ(broken->taken_by, (Taker{"root", "web2", true}));
  ASSERT_TRUE(by_nobody);
  EXPECT_FALSE(by_nobody->taken_by);
  EXPECT_FALSE(nonsense);
}

TEST(RedisAnswers, only_the_exact_shape_is_a_grant) {
  for (const auto* bytes : {
           "$7\r\ngranted\r\n",
           "+granted\r\n",
           "*1\r\n$7\r\ngranted\r\n",
           "*2\r\n$7\r\ngranted\r\n$2\r\n42\r\n",
           "*4\r\n+granted\r\n$2\r\n42\r\n:2\r\n$0\r\n\r\n",
           "*3\r\n$7\r\nGRANTED\r\n$2\r\n42\r\n:2\r\n",
           "*4\r\n$7\r\ngranted\r\n:42\r\n:2\r\n$0\r\n\r\n",
           "*4\r\n$7\r\ngranted\r\n$2\r\n42\r\n$1\r\n2\r\n$0\r\n\r\n",
           "*4\r\n$7\r\ngranted\r\n$2\r\n42\r\n:3\r\n$0\r\n\r\n",
           "*4\r\n$7\r\ngranted\r\n$2\r\n42\r\n:-1\r\n$0\r\n\r\n",
           "*4\r\n$7\r\ngranted\r\n$1\r\n0\r\n:2\r\n$0\r\n\r\n",
           "*4\r\n$7\r\ngranted\r\n$2\r\n-1\r\n:2\r\n$0\r\n\r\n",
           "*4\r\n$7\r\ngranted\r\n$3\r\n4 2\r\n:2\r\n$0\r\n\r\n",
           "*4\r\n$7\r\ngranted\r\n$-1\r\n:2\r\n$0\r\n\r\n",
           "*4\r\n$7\r\ngranted\r\n$2\r\n42\r\n:2\r\n:2\r\n",
           "*1\r\n*3\r\n$7\r\ngranted\r\n$2\r\n42\r\n:2\r\n",
           "*3\r\n$7\r\ngranted\r\n$2\r\n42\r\n:2\r\n",
           "*4\r\n$7\r\ngranted\r\n$2\r\n42\r\n:2\r\n$1\r\n7\r\n",
           "-granted\r\n",
           "$-1\r\n",
           "*-1\r\n",
           ":1\r\n",
           "+OK\r\n",
       }) {
    EXPECT_FALSE(parsed(bytes)) << bytes;
  }
}

TEST(RedisAnswers, the_other_answers_need_their_exact_shape_too) {
  for (const auto* bytes :
       {"*2\r\n$5\r\nabove\r\n:7\r\n", "*2\r\n$5\r\nslots\r\n:0\r\n",
        "*2\r\n$5\r\nslots\r\n$1\r\n4\r\n", "*1\r\n$8\r\ngiven up\r\n",
        "*1\r\n$12\r\ndeduplicated\r\n", "*2\r\n$12\r\ndeduplicated\r\n$0\r\n\r\n",
        "*2\r\n$12\r\ndeduplicated\r\n$9\r\n42 7 0 {}\r\n",
        "*2\r\n$12\r\ndeduplicated\r\n$11\r\nx 42 7 0 {}\r\n",
        "*2\r\n$12\r\ndeduplicated\r\n$2\r\ne \r\n",
        "*2\r\n$12\r\ndeduplicated\r\n:1\r\n",
        "*6\r\n$4\r\nbusy\r\n$1\r\n1\r\n:-2\r\n:5\r\n:1234\r\n*0\r\n",
        "*6\r\n$4\r\nbusy\r\n$1\r\nx\r\n:2\r\n:5\r\n:1234\r\n*0\r\n",
        "*6\r\n$4\r\nbusy\r\n$1\r\n1\r\n:2\r\n:5\r\n:1234\r\n*1\r\n$1\r\nx\r\n"}) {
    EXPECT_FALSE(parsed(bytes)) << bytes;
  }
}

TEST(RedisAnswers, renewals_and_releases_are_one_word) {
  EXPECT_EQ(renewal_from(reply("$7\r\nrenewed\r\n")), Renewal::confirmed);
  EXPECT_EQ(renewal_from(reply("$9\r\nreclaimed\r\n")), Renewal::reclaimed);
  EXPECT_EQ(renewal_from(reply("$10\r\ntaken over\r\n")), Renewal::taken_over);
  EXPECT_EQ(renewal_from(reply("$4\r\ngone\r\n")), Renewal::gone);
  EXPECT_EQ(renewal_from(reply("+renewed\r\n")), std::nullopt);
  EXPECT_EQ(renewal_from(reply("+reclaimed\r\n")), std::nullopt);
  EXPECT_EQ(renewal_from(reply("*1\r\n$7\r\nrenewed\r\n")), std::nullopt);
  EXPECT_EQ(release_from(reply("$8\r\nreleased\r\n")), Release::released);
  EXPECT_EQ(release_from(reply("$8\r\nnot ours\r\n")), Release::not_ours);
  EXPECT_EQ(release_from(reply("$8\r\nRELEASED\r\n")), std::nullopt);
  EXPECT_EQ(release_from(reply(":1\r\n")), std::nullopt);
}

TEST(RedisAnswers, admissions_are_one_exact_word) {
  EXPECT_EQ(admission_from(reply("$8\r\nadmitted\r\n")), Admission::admitted);
  EXPECT_EQ(admission_from(reply("$5\r\nstale\r\n")), Admission::stale);
  EXPECT_EQ(admission_from(reply("+admitted\r\n")), std::nullopt);
  EXPECT_EQ(admission_from(reply("$-1\r\n")), std::nullopt);
}

TEST(RedisAnswers, a_break_lists_the_holders_that_it_took_the_lock_from) {
  const auto broken = broken_from(
      reply("*2\r\n$16\r\n1700000000000000\r\n*4\r\n$14\r\nx 0 7 1 9 b {}\r\n:5\r\n"
            "$14\r\nx 1 8 1 9 h {}\r\n:5\r\n"));

  ASSERT_TRUE(broken);
  ASSERT_EQ(broken->size(), 2u);
  EXPECT_EQ((*broken)[0].fence.number, 7u);
  EXPECT_TRUE((*broken)[0].broken);
  EXPECT_TRUE((*broken)[0].attached);
  EXPECT_FALSE((*broken)[1].broken);
}

TEST(RedisAnswers, a_break_may_list_no_holders) {
  const auto broken = broken_from(reply("*2\r\n$16\r\n1700000000000000\r\n*0\r\n"));

  ASSERT_TRUE(broken);
  EXPECT_TRUE(broken->empty());
}

TEST(RedisAnswers, only_the_exact_shape_is_the_reply_to_a_break) {
  for (const std::string bytes :
       {"+OK\r\n", "*0\r\n", "*1\r\n$1\r\n7\r\n", "*2\r\n$1\r\nx\r\n*0\r\n",
        "*2\r\n$1\r\n7\r\n:1\r\n", "*2\r\n$1\r\n7\r\n*1\r\n$7\r\nforeign\r\n",
        "-ERR no\r\n", "*3\r\n$1\r\n7\r\n*0\r\n*0\r\n"}) {
    EXPECT_FALSE(broken_from(reply(bytes))) << bytes;
  }
}

TEST(RedisAnswers, a_renewal_or_release_can_say_that_the_lease_is_broken) {
  EXPECT_EQ(renewal_from(reply("*2\r\n$6\r\nbroken\r\n$2\r\n{}\r\n")), Renewal::broken);
  EXPECT_EQ(release_from(reply("*2\r\n$6\r\nbroken\r\n$2\r\n{}\r\n")), Release::broken);
  EXPECT_EQ(renewal_from(reply("$6\r\nbroken\r\n")), std::nullopt);
}

TEST(RedisAnswers, who_broke_a_lease_is_read_as_far_as_the_reply_says) {
  const auto taker = [](const std::string& info) {
    return taker_from(reply("*2\r\n$6\r\nbroken\r\n$" + std::to_string(info.size()) +
                            "\r\n" + info + "\r\n"));
  };

  EXPECT_EQ(taker(R"({"host":"web1","broken_by":{"host":"web2","user":"root"}})"),
            (Taker{"root", "web2", false}));
  EXPECT_EQ(taker(R"({"host":"web1","broken_by":{"user":7}})"), (Taker{"", "", false}));
  EXPECT_EQ(taker(R"({"host":"web1"})"), std::nullopt);
  EXPECT_EQ(taker(R"({"broken_by":"root"})"), std::nullopt);
  EXPECT_EQ(taker("nonsense"), std::nullopt);
  EXPECT_EQ(taker_from(reply("$7\r\nrenewed\r\n")), std::nullopt);
}

TEST(RedisAnswers, a_waiter_is_told_to_ask_now_or_later) {
  EXPECT_EQ(pause_from(reply("*2\r\n$1\r\nw\r\n$4\r\n3100\r\n")), milliseconds(3100));

  EXPECT_EQ(pause_from(reply("*2\r\n$1\r\nw\r\n$1\r\n0\r\n")), std::nullopt);
}

TEST(RedisAnswers, any_other_element_makes_a_waiter_ask_now) {
  EXPECT_EQ(pause_from(reply("*-1\r\n")), std::nullopt);
  EXPECT_EQ(pause_from(reply("*1\r\n$4\r\n3100\r\n")), std::nullopt);
  EXPECT_EQ(pause_from(reply("+3100\r\n")), std::nullopt);
  for (const std::string text : {"", "-1", "1x", "x", "99999999999", "1.5"}) {
    const auto told =
        "*2\r\n$1\r\nw\r\n$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
    EXPECT_EQ(pause_from(reply(told)), std::nullopt) << text;
  }
}

Reply popped(const std::string& text) {
  return reply("*2\r\n$1\r\nw\r\n$" + std::to_string(text.size()) + "\r\n" + text +
               "\r\n");
}

TEST(RedisAnswers, a_waiter_is_told_that_the_lock_was_handed_over_to_it) {
  Claim claim;
  claim.ttl = milliseconds(30'000);
  const Clock::time_point asked_at(milliseconds(5'000));

  const auto handed = handed_over_from(
      popped("granted 1700000000000042 1700000000000007:0123456789abcdef"), claim,
      asked_at);

  ASSERT_TRUE(handed);
  EXPECT_EQ(handed->after, "1700000000000007:0123456789abcdef");
  const auto* grant = &std::get<Grant>(handed->answer);
  EXPECT_EQ(grant->fence.number, 1'700'000'000'000'042u);
  EXPECT_EQ(grant->slot, 0u);
  EXPECT_EQ(grant->sent_at, asked_at);
  EXPECT_EQ(grant->deadline, LeaseTiming(claim.ttl, {}, {}).deadline(asked_at));
  EXPECT_EQ(pause_from(popped("granted 1700000000000042")), std::nullopt);
}

TEST(RedisAnswers, only_the_exact_element_hands_the_lock_over) {
  for (const std::string text :
       {"", "0", "3100", "granted", "granted ", "granted 0", "granted x", "granted -1",
        "granted 1x", "granted 1 0", "Granted 1", "granted  1",
        "granted 2 1:0123456789abcde", "granted 2 1:0123456789abcdef 1"}) {
    EXPECT_FALSE(handed_over_from(popped(text), Claim(), {})) << text;
  }
  EXPECT_FALSE(handed_over_from(reply("*-1\r\n"), Claim(), {}));
  EXPECT_FALSE(handed_over_from(reply("$9\r\ngranted 1\r\n"), Claim(), {}));
  EXPECT_FALSE(handed_over_from(reply("*1\r\n$9\r\ngranted 1\r\n"), Claim(), {}));
}

TEST(RedisAnswers, a_limit_admits_or_returns_a_turn_or_the_rate_in_use) {
  const auto admitted = rate_answer_from(reply("*3\r\n$8\r\nadmitted\r\n:4\r\n:0\r\n"));
  const auto later = rate_answer_from(reply("*4\r\n$5\r\nlater\r\n:0\r\n:731\r\n:1\r\n"));
  const auto differs = rate_answer_from(reply("*3\r\n$7\r\ndiffers\r\n:5\r\n:800\r\n"));

  EXPECT_EQ(std::get<Admitted>(admitted.value()).remaining, 4u);
  EXPECT_EQ(std::get<NotAdmitted>(later.value()).next_in.count(), 731);
  EXPECT_TRUE(std::get<NotAdmitted>(later.value()).has_turn);
  EXPECT_EQ(std::get<RateDiffers>(differs.value()).in_use, (Rate{5, milliseconds(800)}));
}

TEST(RedisAnswers, only_the_exact_shapes_are_answers_of_a_limit) {
  for (const std::string bytes :
       {":1\r\n", "$8\r\nadmitted\r\n", "*0\r\n", "*1\r\n$8\r\nadmitted\r\n",
        "*2\r\n$8\r\nadmitted\r\n:4\r\n", "*3\r\n+admitted\r\n:4\r\n:0\r\n",
        "*3\r\n$8\r\nadmitted\r\n:-1\r\n:0\r\n", "*3\r\n$8\r\nadmitted\r\n:4\r\n:-1\r\n",
        "*3\r\n$8\r\nadmitted\r\n$1\r\n4\r\n:0\r\n",
        "*4\r\n$8\r\nadmitted\r\n:4\r\n:0\r\n:1\r\n",
        "*3\r\n$5\r\nlater\r\n:0\r\n:731\r\n",
        "*3\r\n$7\r\ndiffers\r\n:9223372036854775807\r\n:800\r\n"}) {
    EXPECT_FALSE(rate_answer_from(reply(bytes))) << bytes;
  }
}

}  // namespace
}  // namespace dlock::redis

// The messages of PostgreSQL's protocol, from and to bytes.

#include "store/postgres/pg_wire.hpp"

#include <gtest/gtest.h>

#include "tests/unit/pg_messages.hpp"

namespace dlock::postgres {
namespace {

using namespace std::string_literals;
using namespace pg_messages;

// A batch of so many statements.
Batch statements(std::size_t count) { return Batch(count, Statement{"SELECT 1", {}}); }

// What a reader of `bytes` that come in pieces of `size` makes of them.
struct Reading {
  BatchReplies replies;
  std::string error;

  Reading(const std::vector<Batch>& batches, std::string_view bytes,
          std::size_t size = std::string_view::npos, WireLimits limits = {})
      : replies(limits) {
    WireReader reader(limits.message);
    replies.expect(batches);
    while (!bytes.empty() && error.empty()) {
      reader.feed(bytes.substr(0, size));
      bytes.remove_prefix(std::min(size, bytes.size()));
      while (const auto message = reader.next()) {
        if (!replies.take(*message)) break;
      }
      error = reader.error() + replies.error();
    }
  }
};

TEST(PgRequests, are_laid_out_as_the_protocol_says) {
  EXPECT_EQ(tls_request(), "\0\0\0\x08\x04\xD2\x16\x2F"s);
  EXPECT_EQ(startup_message({{"user", "me"}}), "\0\0\0\x11\0\x03\0\0user\0me\0\0"s);
  EXPECT_EQ(cancel_request("\0\0\0\x01KEY!"s),
            "\0\0\0\x10\x04\xD2\x16\x2E\0\0\0\x01KEY!"s);
  EXPECT_EQ(terminate_message(), "X\0\0\0\x04"s);
}

TEST(PgRequests, carry_parameters_beside_the_statement) {
  const Batch batch{{"SELECT $1, $2", {"it's", std::nullopt}}};

  EXPECT_EQ(encoded_batch(batch),
            "P\0\0\0\x15\0SELECT $1, $2\0\0\0"
            "B\0\0\0\x18\0\0\0\0\0\x02\0\0\0\x04it's\xFF\xFF\xFF\xFF\0\0"
            "E\0\0\0\x09\0\0\0\0\0"
            "S\0\0\0\x04"s);
}

TEST(PgRequests, give_a_statement_its_name_and_send_one_that_is_kept_no_more) {
  Batch batch{{"SELECT $1", {"a"}}};
  batch[0].name = "one";

  EXPECT_EQ(encoded_batch(batch),
            "P\0\0\0\x14one\0SELECT $1\0\0\0"
            "B\0\0\0\x14\0one\0\0\0\0\x01\0\0\0\x01"
            "a\0\0"
            "E\0\0\0\x09\0\0\0\0\0"
            "S\0\0\0\x04"s);

  batch[0].is_kept = true;
  EXPECT_EQ(encoded_batch(batch),
            "B\0\0\0\x14\0one\0\0\0\0\x01\0\0\0\x01"
            "a\0\0"
            "E\0\0\0\x09\0\0\0\0\0"
            "S\0\0\0\x04"s);
}

TEST(PgReplies, to_a_statement_that_is_kept_begin_with_its_parameters) {
  auto batch = statements(2);
  batch[1].is_kept = true;
  const auto bound = message('2', "") + row({"2"}) + done("SELECT 1") + ready();

  Reading reading({batch}, accepted + row({"1"}) + done("SELECT 1") + bound);

  EXPECT_EQ(reading.error, "");
  ASSERT_TRUE(reading.replies.is_complete());
  EXPECT_EQ(reading.replies.take_results().at(1).rows.at(0).at(0), "2");
  batch[0].is_kept = true;
  EXPECT_NE(Reading({batch}, accepted).error, "");
  batch[0].is_kept = false;
  EXPECT_NE(Reading({batch}, bound).error, "");
}

TEST(PgRequests, name_the_program_in_63_printable_characters) {
  EXPECT_EQ(application_name_from("dlock nightly"), "dlock nightly");
  EXPECT_EQ(application_name_from("dlock a\nb\0c\xC3\xA9"s), "dlock a?b?c??");
  EXPECT_EQ(application_name_from(std::string(100, 'x')), std::string(63, 'x'));
}

TEST(PgReplies, give_each_statement_its_rows) {
  const auto bytes = accepted + row({"1", std::nullopt, ""}) + row({"2", "b", "c"}) +
                     done("SELECT 2") + accepted + done("UPDATE 1") + ready();

  Reading reading({statements(2)}, bytes);

  ASSERT_TRUE(reading.replies.is_complete()) << reading.error;
  const auto results = reading.replies.take_results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].rows,
            (std::vector<Row>{{"1", std::nullopt, ""}, {"2", "b", "c"}}));
  EXPECT_EQ(results[0].tag, "SELECT 2");
  EXPECT_EQ(results[1].tag, "UPDATE 1");
  EXPECT_TRUE(results[1].rows.empty());
}

TEST(PgReplies, mean_the_same_wherever_they_are_cut) {
  const auto bytes = parameter("in_hot_standby", "off") + accepted + row({"1"}) +
                     done("SELECT 1") + notification("channel", "payload") +
                     error("ERROR", "42703", "no") + ready('E') + accepted +
                     done("NOTIFY") + ready();
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    Reading reading({statements(2), statements(1)}, bytes, size);

    ASSERT_TRUE(reading.replies.is_complete()) << size << ": " << reading.error;
    EXPECT_EQ(reading.replies.take_results().size(), 2u);
    EXPECT_EQ(reading.replies.fault().value().code, "42703");
    EXPECT_EQ(reading.replies.faulty_batch(), 0u);
    EXPECT_EQ(reading.replies.next_notification().value().payload, "payload");
    EXPECT_FALSE(reading.replies.next_notification());
  }
}

TEST(PgReplies, are_incomplete_wherever_they_end_too_early) {
  const auto bytes = accepted + row({"1"}) + done("SELECT 1") + ready();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Reading reading({statements(1)}, bytes.substr(0, size));

    EXPECT_FALSE(reading.replies.is_complete()) << size;
    EXPECT_EQ(reading.error, "") << size;
  }
}

TEST(PgReplies, make_no_sense_with_a_transaction_that_was_not_asked_for) {
  const Statement begin{"BEGIN", {}};
  const Statement write{"UPDATE", {}};
  const Statement commit{"COMMIT", {}};
  const auto wrote = accepted + done("UPDATE 1");
  const auto began = accepted + done("BEGIN");
  const auto committed = accepted + done("COMMIT");
  const auto is_believed = [](const Batch& batch, const std::string& bytes) {
    const Reading reading({batch}, bytes);
    return reading.error.empty() && reading.replies.is_complete();
  };
  EXPECT_TRUE(is_believed({write}, wrote + ready()));
  EXPECT_FALSE(is_believed({write}, wrote + ready('T')));
  EXPECT_FALSE(is_believed({write}, wrote + ready('E')));
  EXPECT_TRUE(is_believed({begin, write}, began + wrote + ready('T')));
  EXPECT_FALSE(is_believed({begin, write}, began + wrote + ready()));
  EXPECT_FALSE(is_believed({begin, write}, began + wrote + ready('E')));
  EXPECT_TRUE(is_believed({begin, write, commit}, began + wrote + committed + ready()));
  EXPECT_FALSE(
      is_believed({begin, write, commit}, began + wrote + committed + ready('T')));
  EXPECT_FALSE(is_believed({begin, write, commit},
                           began + wrote + accepted + done("ROLLBACK") + ready()));
}

TEST(PgReplies, leave_out_the_result_of_a_guard) {
  Statement guard{"SELECT 1", {}};
  guard.is_guard = true;
  Reading reading({{guard, {"SELECT 2", {}}}},
                  accepted + row({"guard"}) + done("SELECT 1") + accepted + row({"2"}) +
                      done("SELECT 1") + ready());

  const auto results = reading.replies.take_results();
  ASSERT_EQ(results.size(), 1u) << reading.error;
  EXPECT_EQ(results[0].rows, (std::vector<Row>{{"2"}}));
}

TEST(PgReplies, with_rows_without_columns_are_limited_as_well) {
  std::string rows;
  for (int i = 0; i < 10'001; ++i) rows += row({});
  const Reading reading({statements(1)}, accepted + rows);

  EXPECT_EQ(reading.error, "a reply that is too long");
}

TEST(PgReplies, skip_what_follows_an_error_up_to_the_end_of_its_batch) {
  Reading reading({statements(3), statements(1)},
                  accepted + done("BEGIN") + error("ERROR", "40001", "again") +
                      ready('E') + error("ERROR", "25P02", "aborted") + ready('E'));

  ASSERT_TRUE(reading.replies.is_complete()) << reading.error;
  EXPECT_EQ(reading.replies.fault().value().code, "40001");
  EXPECT_EQ(reading.replies.transaction(), 'E');
}

TEST(PgReplies, of_a_batch_do_not_depend_on_where_the_one_before_failed) {
  for (const std::size_t size : {0, 5, 10}) {
    Reading reading({statements(1), statements(1)},
                    accepted.substr(0, size) + error("ERROR", "22P05", "no such letter") +
                        ready() + accepted + done("UPDATE 1") + ready());

    ASSERT_TRUE(reading.replies.is_complete()) << size << reading.error;
    EXPECT_EQ(reading.replies.fault().value().code, "22P05");
  }
}

TEST(PgReplies, take_an_error_of_the_commit_behind_the_last_statement) {
  Reading reading({statements(1)}, accepted + done("UPDATE 1") +
                                       error("ERROR", "40001", "again") + ready());

  ASSERT_TRUE(reading.replies.is_complete()) << reading.error;
  EXPECT_EQ(reading.replies.fault().value().code, "40001");
}

TEST(PgReplies, of_a_statement_that_may_fail_are_one_result_wherever_it_fails) {
  const std::vector<Batch> batches{{{"SELECT 1", {}, true}}, statements(1)};
  const auto refused = error("ERROR", "55P03", "lock timeout") + ready();
  const auto last = accepted + row({"last"}) + done("SELECT 1") + ready();
  for (const auto& first : {refused, accepted + refused, accepted + row({"1"}) + refused,
                            accepted + row({"1"}) + done("SELECT 1") + refused}) {
    Reading reading(batches, first + last);

    ASSERT_TRUE(reading.replies.is_complete()) << reading.error;
    EXPECT_FALSE(reading.replies.fault());
    const auto results = reading.replies.take_results();
    ASSERT_EQ(results.size(), 2u);
    EXPECT_TRUE(results[0].tag.empty() && results[0].rows.empty());
    EXPECT_EQ(results[1].rows.at(0).at(0), "last");
  }
}

TEST(PgReplies, keep_warnings_that_a_commit_is_less_than_it_should_be) {
  const auto doubt = notice("WARNING", "01000", "canceling wait for replication");
  Reading reading({statements(1), statements(1)},
                  notice("NOTICE", "42P07", "exists") + accepted + done("UPDATE 1") +
                      doubt + ready() + accepted + done("SELECT 1") + ready());

  auto results = reading.replies.take_results();
  ASSERT_EQ(results.size(), 2u);
  ASSERT_EQ(results[0].warnings.size(), 1u);
  EXPECT_EQ(results[0].warnings[0].code, "01000");
  EXPECT_TRUE(results[1].warnings.empty());
}

TEST(PgReplies, prefer_the_reason_why_the_server_ends_the_session) {
  Reading reading({statements(1)}, error("ERROR", "57014", "timeout") +
                                       error("FATAL", "57P01", "shutting down"));

  EXPECT_TRUE(reading.replies.fault().value().is_fatal());
  EXPECT_EQ(reading.replies.fault().value().code, "57P01");
}

TEST(PgReplies, remember_notifications_between_exchanges) {
  BatchReplies replies;
  replies.expect({});

  EXPECT_TRUE(replies.take({'A', notification("a", "1").substr(5)}));
  replies.expect({statements(1)});

  EXPECT_EQ(replies.next_notification().value().channel, "a");
}

struct Nonsense {
  std::string name;
  std::string bytes;
};

TEST(PgReplies, that_make_no_sense_are_refused) {
  const Nonsense all[] = {
      {"an unknown type", "H"},
      {"COPY", message('G', "\0\0\0"s)},
      {"a length below 4", "C\0\0\0\x03"s},
      {"a length of 0", "C\0\0\0\0"s},
      {"a length of 4 GiB", "D\xFF\xFF\xFF\xFF"s},
      {"a message over the limit", "D\0\x11\0\0"s},
      {"a row without a request", ready().substr(0, 0) + row({"1"})},
      {"a row before the statement was accepted", message('1', "") + row({"1"})},
      {"an end without a beginning", done("SELECT 1")},
      {"the wrong order", message('2', "")},
      {"a statement that begins twice", message('1', "") + message('1', "")},
      {"a reply to a statement that was not sent",
       accepted + done("SELECT 1") + accepted},
      {"the end of a batch that is not answered", ready()},
      {"a second end", accepted + done("SELECT 1") + ready() + ready()},
      {"a repeated reply",
       accepted + done("SELECT 1") + ready() + accepted + done("SELECT 1") + ready()},
      {"an invalid state", accepted + done("SELECT 1") + message('Z', "X")},
      {"a state of two", accepted + done("SELECT 1") + message('Z', "II")},
      {"no state", accepted + done("SELECT 1") + message('Z', "")},
      {"a login", message('R', "\0\0\0\0"s)},
      {"a key", message('K', "12345678")},
      {"an error of no fields", message('E', "")},
      {"an error without an end", message('E', "Mtext\0"s)},
      {"an error with a cut field", message('E', "Mtext")},
      {"two errors", error("ERROR", "1", "a") + error("ERROR", "1", "a")},
      {"a parameter without a value", message('S', "name\0"s)},
      {"a cut notification", message('A',
                                     "\0\0\0\x01"
                                     "channel\0payload"s)},
      {"a row without a count", accepted + message('D', "\0"s)},
      {"a row of 65 columns", accepted + row(Row(65, "x"))},
      {"a row that lacks a column", accepted + message('D', "\0\x02\0\0\0\x01x"s)},
      {"a column longer than its row", accepted + message('D', "\0\x01\0\0\0\x02x"s)},
      {"a column of -2", accepted + message('D', "\0\x01\xFF\xFF\xFF\xFE"s)},
      {"more than the row", accepted + message('D', "\0\x01\0\0\0\x01xy"s)},
  };
  for (const auto& [name, bytes] : all) {
    EXPECT_NE(Reading({statements(1)}, bytes).error, "") << name;
    EXPECT_NE(Reading({statements(1)}, bytes, 1).error, "") << name;
  }
}

TEST(PgReplies, are_refused_for_good) {
  WireReader reader;
  reader.feed("?");
  EXPECT_FALSE(reader.next());
  reader.feed(ready());

  EXPECT_FALSE(reader.next());
  EXPECT_NE(reader.error(), "");
}

TEST(PgReplies, are_bounded) {
  WireLimits limits;
  limits.message = 100;
  limits.reply = 1000;
  limits.notifications = 3;
  std::string rows = accepted;
  for (int i = 0; i < 20; ++i) rows += row({std::string(50, 'x')});
  std::string notifications;
  for (int i = 0; i < 4; ++i) notifications += notification("a", "");

  EXPECT_NE(Reading({statements(1)}, rows, 7, limits).error, "");
  // They are only hints: what is more than the limit is dropped, and ends no session.
  EXPECT_EQ(Reading({statements(1)}, notifications, 7, limits).error, "");
  EXPECT_NE(
      Reading({statements(1)}, accepted + row({std::string(100, 'x')}), 7, limits).error,
      "");
}

TEST(PgReplies, of_which_notices_and_parameters_have_no_end_are_not_remembered) {
  BatchReplies replies;
  replies.expect({statements(1)});
  const WireMessage doubt{'N', notice("WARNING", "01000", "x").substr(5)};
  const WireMessage changed{'S', "a\0b\0"s};
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(replies.take(doubt));
    ASSERT_TRUE(replies.take(changed));
  }
  for (const auto& part : {WireMessage{'1', ""}, WireMessage{'2', ""},
                           WireMessage{'C', "SELECT 1\0"s}, WireMessage{'Z', "I"}}) {
    ASSERT_TRUE(replies.take(part));
  }

  EXPECT_EQ(replies.take_results().at(0).warnings.size(), WireLimits().notices);
  EXPECT_LE(replies.take_parameters().size(), WireLimits().notices);
}

TEST(PgErrors, are_read_without_the_translation_of_their_severity) {
  const auto fields = "SFEHLER\0VERROR\0C42501\0Mverboten\0Dx\0\0"s;

  const auto notice = notice_from(fields).value();

  EXPECT_EQ(notice.severity, "ERROR");
  EXPECT_EQ(notice.code, "42501");
  EXPECT_EQ(notice.message, "verboten");
  EXPECT_FALSE(notice.is_fatal());
  EXPECT_TRUE(notice_from("SFATAL\0C57P01\0Mx\0\0"s).value().is_fatal());
}

}  // namespace
}  // namespace dlock::postgres

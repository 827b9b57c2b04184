// What is kept of an output beyond a limit, and the last lines of one.

#include "cli/terminal/bounded_output.hpp"

#include <gtest/gtest.h>

namespace dlock {
namespace {

using Stream = BoundedOutput::Stream;

// "o:..." and "e:..." for what was on the streams, and "|" for the gap.
std::string replayed(const BoundedOutput& kept) {
  std::string text;
  Stream last = Stream::lost;
  kept.replay(
      [&](Stream stream, std::string_view bytes) {
        if (stream != last) text += stream == Stream::output ? "o:" : "e:";
        last = stream;
        text += bytes;
      },
      [&] {
        text += "|";
        last = Stream::lost;
      });
  return text;
}

TEST(BoundedOutput, keeps_everything_in_order_up_to_the_limit) {
  BoundedOutput kept(10);

  kept.add(Stream::output, "abc");
  kept.add(Stream::error, "de");
  kept.add(Stream::output, "fghij");

  EXPECT_EQ(replayed(kept), "o:abce:deo:fghij");
  EXPECT_EQ(kept.left_out(), 0u);
}

TEST(BoundedOutput, drops_the_middle_whatever_the_pieces_are) {
  const std::string all = "abcdefghijklmnopqrstuvwxyz";
  for (std::size_t size = 1; size <= all.size(); ++size) {
    BoundedOutput kept(9);
    for (std::size_t at = 0; at < all.size(); at += size) {
      kept.add(Stream::output, std::string_view(all).substr(at, size));
    }

    EXPECT_EQ(replayed(kept), "o:abcd|o:vwxyz") << size;
    EXPECT_EQ(kept.left_out(), 17u);
  }
}

TEST(BoundedOutput, of_one_byte_is_the_last_one) {
  BoundedOutput kept(1);

  kept.add(Stream::output, "abc");
  kept.add(Stream::error, "d");

  EXPECT_EQ(replayed(kept), "|e:d");
  EXPECT_EQ(kept.left_out(), 3u);
}

TEST(BoundedOutput, of_streams_that_alternate_takes_bounded_memory) {
  BoundedOutput kept(1000);
  for (int i = 0; i < 100'000; ++i) {
    kept.add(i % 2 == 0 ? Stream::output : Stream::error, "x");
  }

  const auto text = replayed(kept);

  EXPECT_GE(text.size(), 100u);
  EXPECT_LE(text.size(), 3 * 1000u);
  EXPECT_EQ(kept.last_lines(), std::string(4096, 'x'));
}

TEST(BoundedOutput, beyond_the_memory_is_the_same) {
  constexpr std::size_t most = 3 * Spool::memory_most;
  BoundedOutput kept(most);
  std::string all;
  for (std::size_t i = 0; all.size() < 2 * most; ++i) all += std::to_string(i) + "\n";

  for (std::size_t at = 0; at < all.size(); at += 60'001) {
    kept.add(Stream::output, std::string_view(all).substr(at, 60'001));
  }

  EXPECT_EQ(replayed(kept) == "o:" + all.substr(0, most / 2) +
                                  "|o:" + all.substr(all.size() - (most - most / 2)),
            true);
  EXPECT_EQ(kept.left_out(), all.size() - most);
}

TEST(LastLines, are_printable_and_whole) {
  EXPECT_EQ(last_lines("", false), "");
  EXPECT_EQ(last_lines("a", false), "a");
  EXPECT_EQ(last_lines("a\n", false), "a");
  EXPECT_EQ(last_lines("a\n\nb\n\n", false), "a\n\nb\n");
  EXPECT_EQ(last_lines("a\nb\nc\n", false, 2), "b\nc");
  EXPECT_EQ(last_lines("nd of a line\nb\n", true), "b");
  EXPECT_EQ(last_lines("nd of a line", true), "nd of a line");
  EXPECT_EQ(last_lines("\033[31mred\t\xff\r\n", false), "\\x1b[31mred\\t\\xff\\r");
  EXPECT_EQ(last_lines(std::string(5000, 'x') + "\nb", false), "b");
  EXPECT_EQ(last_lines(std::string(5000, 'x'), false), std::string(4096, 'x'));
}

}  // namespace
}  // namespace dlock

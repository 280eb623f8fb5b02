#include "commlens/formats/io/json_stream.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/trace/test_support.hpp"

namespace commlens::formats {
namespace {

using test_support::ScratchDirectory;

/// What a stream hands out: members as "key=json", elements one by one.
struct Read {
  std::vector<std::string> members;
  std::vector<nlohmann::json> elements;
  bool is_cut_off = false;
  std::string error;
};

Read read_stream(const std::string& text) {
  const ScratchDirectory directory;
  Result<JsonStream> stream = JsonStream::open(directory.write("t.json", text), "events");
  Read read;
  if (!stream) {
    read.error = stream.error().message;
    return read;
  }
  JsonStream::Piece piece;
  while (true) {
    const Result<bool> more = stream->next(piece);
    if (!more || !*more) {
      read.error = more ? "" : more.error().message.substr(directory.write("t.json", "").size());
      read.is_cut_off = stream->is_cut_off();
      return read;
    }
    if (piece.is_run) {
      for (const nlohmann::json& element : nlohmann::json::parse(piece.json)) {
        read.elements.push_back(element);
      }
    } else {
      read.members.push_back(std::string(piece.key) + "=" + std::string(piece.json));
    }
  }
}

TEST(JsonStream, HandsOutMembersAndElements) {
  const Read got = read_stream(
      R"( {"a": 1, "b": "x,]}\"{", "events": [{"n": [1, 2]}, 7 , "s"], "c": {"d": []}, "e": null} )");
  EXPECT_EQ(got.members, (std::vector<std::string>{"a=1", R"(b="x,]}\"{")", R"(c={"d": []})", "e=null"}));
  EXPECT_EQ(nlohmann::json(got.elements), nlohmann::json::parse(R"([{"n": [1, 2]}, 7, "s"])"));
  EXPECT_FALSE(got.is_cut_off);
  EXPECT_EQ(got.error, "");
}

TEST(JsonStream, TakesAnArrayAloneAndAnEmptyOne) {
  EXPECT_EQ(read_stream("[1,2 , 3]").elements.size(), 3U);
  EXPECT_EQ(read_stream("\xef\xbb\xbf[]").elements.size(), 0U);
  EXPECT_EQ(read_stream(R"({"events": [ ], "x": 1})").members, std::vector<std::string>{"x=1"});
}

TEST(JsonStream, PassesCommasAtBothEnds) {
  EXPECT_EQ(read_stream(R"({"events": [,,1,2,], "x": 1})").elements.size(), 2U);
}

TEST(JsonStream, KeepsEscapesThatEndInBackslashes) {
  const Read got = read_stream(R"({"events": ["a\\", "b\\\"],[", "\\\\"], "x": "\\"})");
  EXPECT_EQ(nlohmann::json(got.elements), nlohmann::json::parse(R"(["a\\", "b\\\"],[", "\\\\"])"));
  EXPECT_EQ(got.members, std::vector<std::string>{R"(x="\\")"});
}

/// Elements of all lengths, so that the ends of buffers and runs fall on every kind of byte.
TEST(JsonStream, JoinsWhatLiesAcrossBuffers) {
  std::string text = R"({"first": 1, "events": [)";
  nlohmann::json expected = nlohmann::json::array();
  for (int index = 0; text.size() < (std::size_t{9} << 20); ++index) {
    const nlohmann::json element = {
        {"i", index}, {"s", std::string(static_cast<std::size_t>(index % 977), index % 2 == 0 ? '\\' : '"')}};
    text += (index == 0 ? "" : index % 3 == 0 ? " ,\n " : ",") + element.dump();
    expected.push_back(element);
  }
  text += "\n], \"last\": 2}";
  const Read got = read_stream(text);
  EXPECT_EQ(got.members, (std::vector<std::string>{"first=1", "last=2"}));
  EXPECT_TRUE(nlohmann::json(got.elements) == expected);
}

TEST(JsonStream, GivesWhatIsWholeOfATextThatWasCutOff) {
  const std::string text = R"({"a": 1, "events": [{"n": 1}, {"n": 2}], "b": 2})";
  for (std::size_t size = 1; size < text.size(); ++size) {
    const Read got = read_stream(text.substr(0, size));
    EXPECT_EQ(got.error, "") << size;
    EXPECT_TRUE(got.is_cut_off) << size;
    EXPECT_LE(got.elements.size(), 2U);
  }
  EXPECT_EQ(read_stream(text.substr(0, text.size() - 20)).elements.size(), 1U);
  EXPECT_EQ(read_stream(text.substr(0, text.size() - 20) + "\n ").elements.size(), 1U);
}

TEST(JsonStream, SaysWhereATextIsNoJson) {
  EXPECT_EQ(read_stream("").error, ": byte 0: the file is empty");
  EXPECT_EQ(read_stream("hello").error, ": byte 0: expected JSON, an object or an array");
  EXPECT_EQ(read_stream("{17: 1}").error, ": byte 1: expected the name of a member in quotes");
  EXPECT_EQ(read_stream(R"({"a" 1})").error, ": byte 5: expected ':' after the name of a member");
  EXPECT_EQ(read_stream(R"({"a":,})").error, ": byte 5: expected a value");
}

TEST(JsonStream, RefusesAPieceBeyondTheLimit) {
  const std::string open = R"({"events": [{"x": ")";
  const Read got = read_stream(open + std::string(std::size_t{70} << 20, 'a'));
  EXPECT_EQ(got.error, ": byte 12: a single value of more than 64 MiB; is a bracket or quote left open?");
}

TEST(ElementsOf, SplitsAtCommasOutsideOfBracketsAndStrings) {
  EXPECT_EQ(elements_of(R"([{"a":[1,2]},"x,]",3])"),
            (std::vector<std::string_view>{R"({"a":[1,2]})", R"("x,]")", "3"}));
  EXPECT_TRUE(elements_of("[ ]").empty());
  EXPECT_EQ(elements_of(R"(["open,])").size(), 1U);
}

}  // namespace
}  // namespace commlens::formats

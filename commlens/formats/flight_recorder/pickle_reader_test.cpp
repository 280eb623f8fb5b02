#include "commlens/formats/flight_recorder/pickle_reader.hpp"

#include <gtest/gtest.h>

namespace commlens::formats::flight_recorder {
namespace {

using namespace std::string_view_literals;

/// The value of a pickle as JSON text, or the error.
std::string read_pickled(std::string_view pickle, PickleLimits limits = {}) {
  PickleReader reader(pickle, limits);
  const Result<PickleReader::Id> value = reader.read();
  if (!value) {
    return value.error().message;
  }
  const Result<nlohmann::json> json = reader.json(*value);
  return json ? json->dump() : json.error().message;
}

TEST(PickleReader, ReadsNumbersOfEveryOpcode) {
  // Opcodes and their arguments from CPython's pickletools.
  EXPECT_EQ(read_pickled("N."), "null");
  EXPECT_EQ(read_pickled("\x88."), "true");
  EXPECT_EQ(read_pickled("\x89."), "false");
  EXPECT_EQ(read_pickled("I01\n."), "true");
  EXPECT_EQ(read_pickled("I-12\n."), "-12");
  EXPECT_EQ(read_pickled("L123456789012L\n."), "123456789012");
  EXPECT_EQ(read_pickled("K\xff."), "255");
  EXPECT_EQ(read_pickled("M\xff\xff."), "65535");
  EXPECT_EQ(read_pickled("J\xfe\xff\xff\xff."), "-2");
  EXPECT_EQ(read_pickled("\x8a\x02\x00\x80."sv), "-32768");
  EXPECT_EQ(read_pickled("\x8a\x00."sv), "0");
  EXPECT_EQ(read_pickled("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."sv), "null");  // 2^64
  EXPECT_EQ(read_pickled("\x8b\x01\x00\x00\x00\x7f."sv), "127");
  EXPECT_EQ(read_pickled("F-0.5\n."), "-0.5");
  EXPECT_EQ(read_pickled("G\x3f\xe0\x00\x00\x00\x00\x00\x00."sv), "0.5");
}

TEST(PickleReader, ReadsTextOfEveryOpcode) {
  EXPECT_EQ(read_pickled("S'a\\'b\\x41\\n'\n."), R"("a'bA\n")");
  EXPECT_EQ(read_pickled("Vx\\u00fc\\U0001f600\n."), "\"x\xc3\xbc\xf0\x9f\x98\x80\"");
  EXPECT_EQ(read_pickled("X\x02\x00\x00\x00hi."sv), R"("hi")");
  EXPECT_EQ(read_pickled("\x8c\x02hi."), R"("hi")");
  EXPECT_EQ(read_pickled("\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi."sv), R"("hi")");
  EXPECT_EQ(read_pickled("T\x02\x00\x00\x00hi."sv), R"("hi")");
  EXPECT_EQ(read_pickled("U\x02hi."), R"("hi")");
  EXPECT_EQ(read_pickled("B\x02\x00\x00\x00hi."sv), R"("hi")");
  EXPECT_EQ(read_pickled("C\x02hi."), R"("hi")");
  EXPECT_EQ(read_pickled("\x8e\x02\x00\x00\x00\x00\x00\x00\x00hi."sv), R"("hi")");
}

TEST(PickleReader, ReadsContainersAndTheMemo) {
  EXPECT_EQ(read_pickled("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00)."sv), "[]");
  EXPECT_EQ(read_pickled("(K\x01K\x02t."), "[1,2]");
  EXPECT_EQ(read_pickled("(K\x01K\x02l."), "[1,2]");
  EXPECT_EQ(read_pickled("K\x01\x85."), "[1]");
  EXPECT_EQ(read_pickled("K\x01K\x02K\x03\x87."), "[1,2,3]");
  EXPECT_EQ(read_pickled("](K\x01K\x02"
                         "eK\x03"
                         "a."),
            "[1,2,3]");
  EXPECT_EQ(read_pickled("(U\x01"
                         "aK\x01"
                         "d."),
            R"({"a":1})");
  EXPECT_EQ(read_pickled("}(U\x01"
                         "aK\x01K\x07Nu."),
            R"({"7":null,"a":1})");
  EXPECT_EQ(read_pickled("}U\x01"
                         "aK\x01s."),
            R"({"a":1})");
  EXPECT_EQ(read_pickled("(U\x01xq\x05h\x05j\x05\x00\x00\x00g5\nt."sv), R"(["x","x","x","x"])");
  EXPECT_EQ(read_pickled("(U\x01x\x94h\x00t."sv), R"(["x","x"])");
  EXPECT_EQ(read_pickled("(U\x01xp0\nr\x01\x00\x00\x00h\x01t."sv), R"(["x","x"])");
}

TEST(PickleReader, RefusesWhatWouldRunCode) {
  for (const auto& [opcode, name] : {std::pair{'c', "GLOBAL"},
                                     {'R', "REDUCE"},
                                     {'b', "BUILD"},
                                     {'i', "INST"},
                                     {'o', "OBJ"},
                                     {'\x81', "NEWOBJ"},
                                     {'\x92', "NEWOBJ_EX"},
                                     {'\x93', "STACK_GLOBAL"},
                                     {'P', "PERSID"},
                                     {'\x82', "EXT1"}}) {
    EXPECT_EQ(read_pickled("N" + std::string(1, opcode) + "x\ny\n."),
              "byte 1 of the pickle: opcode " + std::string(name) +
                  " would make an object or run code; only plain data is read");
  }
  EXPECT_EQ(read_pickled("N\xff"), "byte 1 of the pickle: 0xff is no opcode of plain data");
}

TEST(PickleReader, SaysWhereAPickleIsWrong) {
  EXPECT_EQ(read_pickled("N"), "byte 1 of the pickle: the file ends before STOP; is it whole?");
  EXPECT_EQ(read_pickled("X\xff\xff\xff\xffhi"),
            "byte 0 of the pickle: the file ends within a value; is it whole?");
  EXPECT_EQ(read_pickled("."), "byte 0 of the pickle: STOP without exactly one value");
  EXPECT_EQ(read_pickled("(N."), "byte 2 of the pickle: STOP without exactly one value");
  EXPECT_EQ(read_pickled("t"), "byte 0 of the pickle: no MARK");
  EXPECT_EQ(read_pickled("]K\x01s"), "byte 3 of the pickle: too few values for it");
  EXPECT_EQ(read_pickled("]K\x01K\x02s"), "byte 5 of the pickle: items for what is no dict");
  EXPECT_EQ(read_pickled("](K\x01u"), "byte 4 of the pickle: too few values for it");
  EXPECT_EQ(read_pickled("h\x03"), "byte 0 of the pickle: number 3 of the memo was never put there");
  EXPECT_EQ(read_pickled("q\x03"), "byte 0 of the pickle: nothing to put into the memo, or too much");
  EXPECT_EQ(read_pickled("g-1\n"), "byte 0 of the pickle: no number of the memo");
  EXPECT_EQ(read_pickled("S'x\n"), "byte 0 of the pickle: a STRING without its quotes");
}

TEST(PickleReader, HoldsItsLimits) {
  EXPECT_EQ(read_pickled("(NNNt.", {.values = 3}), "byte 4 of the pickle: more than 3 values");
  EXPECT_EQ(read_pickled("(((((t.", {.values = 4}), "byte 4 of the pickle: more MARKs than the limit");
  // A list of ten times a list of ten times …, each stored once: 10^9 values in 250 bytes.
  std::string bomb = "]q";
  bomb += '\0';
  for (char level = 1; level <= 9; ++level) {
    bomb += "](";
    for (int time = 0; time < 10; ++time) {
      bomb += {'h', static_cast<char>(level - 1)};
    }
    bomb += {'e', 'q', level};
  }
  bomb.insert(0, "(");
  bomb += "t.";
  EXPECT_EQ(read_pickled(bomb, {.json_size = 1'000'000}), "the pickle holds more than 1000000 bytes of data");
}

TEST(PickleReader, AListThatHoldsItselfEndsAtADepth) {
  const std::string itself = read_pickled(
      "]q\x00h\x00"
      "a."sv);
  EXPECT_EQ(itself, std::string(17, '[') + std::string(17, ']'));
}

}  // namespace
}  // namespace commlens::formats::flight_recorder

#include "commlens/machine/machine_reader.hpp"

#include <map>

#include <gtest/gtest.h>

#include "commlens/base/text.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

constexpr const char* k_small_machine = R"({
 "schema": "commlens.machine/1",
 "name": "small",
 "title": "Two GPUs",
 "ranks_per_node": {"value":2,"unit":"ranks","source":"seen","confidence":"A"},
 "cpu": "intel",
 "processor": {
  "name": "GPU",
  "architecture": "hopper",
  "memory": {"value":80,"unit":"GiB","source":"data sheet","confidence":"B"}
 },
 "scale_up": {
  "kind": "links",
  "bandwidth": {"value":450,"unit":"GB/s","source":"data sheet","confidence":"B"},
  "classes": [
   {
    "name": "wide",
    "bandwidth": {"value":450,"unit":"GB/s","source":"data sheet","confidence":"B"},
    "pairs": [[0,1]]
   }
  ]
 },
 "scale_out": {"kind":"none"}
}
)";

/// What the reader says of the file with one text replaced.
std::string refusal_of(std::string_view from, std::string_view to) {
  const std::string file = replaced(k_small_machine, from, to);
  EXPECT_NE(file, k_small_machine) << from;
  const Result<Machine> machine = read_machine("m.json", file);
  return machine ? "" : machine.error().message;
}

TEST(MachineFile, IsReadAndWrittenAsItIs) {
  const Result<Machine> machine = read_machine("m.json", k_small_machine);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->up.bandwidth->value, 450);
  EXPECT_EQ(machine->up.bandwidth->source, "data sheet");
  EXPECT_EQ(machine->up.classes.front().pairs.size(), 1U);
  EXPECT_EQ(machine_json(*machine), k_small_machine);
}

TEST(MachineFile, OfEveryBuiltInMachineIsInOneForm) {
  EXPECT_EQ(built_in_machines().size(), 16U);
  for (const EmbeddedFile& built_in : built_in_machines()) {
    const Result<Machine> machine = read_machine(built_in.stem(), built_in.text);
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(machine->name, built_in.stem());
    EXPECT_EQ(machine_json(*machine), built_in.text) << built_in.stem();
    EXPECT_TRUE(machine->borrows.empty() || find_machine(machine->borrows)) << built_in.stem();
  }
}

TEST(MachineFile, WithCountsThatAreNoWholeNumbersIsRefused) {
  EXPECT_EQ(refusal_of("\"value\":2,", "\"value\":1.5,"),
            "m.json:5: ranks_per_node: 1.5 ranks cannot be: they are counted");
  EXPECT_EQ(refusal_of("[0,1]", "[0,1e300]"),
            "m.json:19: scale_up.classes.pairs: 1e300 is no whole number from 0 to 1e15");
}

TEST(MachineFile, NeedsNoNumbersOfLinksThatAreNotKnown) {
  const std::string file = replaced(k_small_machine, "\"scale_out\": {\"kind\":\"none\"}",
                                    "\"scale_out\": {\"kind\":\"unknown\"}");
  const Result<Machine> machine = read_machine("m.json", file);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(missing_numbers(*machine), (std::vector<std::string>{"scale_out.nics", "scale_out.bandwidth"}));
  EXPECT_EQ(refusal_of("\"scale_out\": {\"kind\":\"none\"}", "\"scale_out\": {\"kind\":\"rails\"}"),
            "m.json:23: scale_out.nics: is missing");
}

// OLCF: one quad, one dual and one single link of even GCDs; one quad and two singles of odd ones; 12 in all.
TEST(MachineFile, OfFrontierHasItsTwelveLinks) {
  const Machine frontier = *find_machine("frontier");
  std::map<std::int64_t, double> rates;
  std::size_t links = 0;
  for (const LinkClass& link : frontier.up.classes) {
    for (const auto& [first, second] : link.pairs) {
      rates[first] += link.bandwidth.value;
      rates[second] += link.bandwidth.value;
      ++links;
    }
  }
  EXPECT_EQ(links, 12U);
  for (std::int64_t gcd = 0; gcd < 8; ++gcd) {
    EXPECT_EQ(rates[gcd], gcd % 2 == 0 ? 350 : 300) << gcd;
  }
  EXPECT_EQ(frontier.out.owners, (std::vector<std::int64_t>{1, 3, 5, 7}));
}

TEST(MachineFile, WithoutUnitSourceOrConfidenceIsRefused) {
  EXPECT_EQ(refusal_of(R"({"value":80,"unit":"GiB","source":"data sheet","confidence":"B"})", "80"),
            "m.json:10: processor.memory: a number needs its unit, source and confidence: {\"value\": 80, "
            "\"unit\": "
            "\"GiB\", \"source\": \"…\", \"confidence\": \"A\"}");
  EXPECT_EQ(refusal_of(R"("value":80,"unit":"GiB",)", R"("value":80,)"),
            "m.json:10: processor.memory.unit: is missing");
  EXPECT_EQ(refusal_of(R"("unit":"GiB")", R"("unit":"GB")"),
            "m.json:10: processor.memory.unit: is 'GB'; it must be 'GiB'");
  EXPECT_EQ(refusal_of(R"("unit":"GiB","source":"data sheet")", R"("unit":"GiB","source":"")"),
            "m.json:10: processor.memory.source: must be a text");
  EXPECT_EQ(refusal_of(R"("source":"seen","confidence":"A")", R"("source":"seen","confidence":"X")"),
            "m.json:5: ranks_per_node.confidence: must be A, B, C, D or M (docs/machines.md)");
}

TEST(MachineFile, WithNumbersThatCannotBeIsRefused) {
  EXPECT_EQ(refusal_of(R"("value":80)", R"("value":-80)"),
            "m.json:10: processor.memory: -80 GiB cannot be: 0.1 to 10000 are possible");
  EXPECT_EQ(refusal_of(R"("value":80)", R"("value":80e9)"),
            "m.json:10: processor.memory: 80000000000 GiB cannot be: 0.1 to 10000 are possible");
  EXPECT_EQ(refusal_of(R"("value":80)", R"("value":"80")"),
            "m.json:10: processor.memory.value: must be a number, it is \"80\"");
  EXPECT_EQ(refusal_of("[0,1]", "[0,2]"),
            "m.json:19: scale_up.classes.pairs: [0, 2] are not two of the node's 2 ranks");
}

TEST(MachineFile, WithMissingOrUnknownFieldsIsRefused) {
  EXPECT_EQ(refusal_of(R"("name": "small",)", ""), "m.json:1: name: is missing");
  EXPECT_EQ(refusal_of(R"("title")", R"("titel")"), "m.json:4: titel: is not known");
  EXPECT_EQ(refusal_of("commlens.machine/1", "commlens.machine/9"),
            "m.json:1: schema: must be 'commlens.machine/1'");
  EXPECT_EQ(refusal_of(R"("architecture": "hopper")", R"("architecture": "fermi")"),
            "m.json:7: processor.architecture: 'fermi' is not known");
  EXPECT_FALSE(read_machine("m.json", "[]"));
  EXPECT_FALSE(read_machine("m.json", ""));
}

TEST(MachineFile, WithKindsThatAreNotKnownIsRefused) {
  EXPECT_EQ(
      refusal_of("\"scale_out\": {\"kind\":\"none\"}", "\"scale_out\": {\"kind\":\"dragonly\"}"),
      "m.json:23: scale_out.kind: 'dragonly' is not known; choose dragonfly, fat tree, rails, torus, none, "
      "unknown");
  EXPECT_EQ(refusal_of("\"kind\": \"links\"", "\"kind\": \"link\""),
            "m.json:13: scale_up.kind: 'link' is not known; choose nvswitch, mesh, links, none, unknown");
}

TEST(MachineFile, WithAKeyTwiceIsRefused) {
  EXPECT_EQ(refusal_of(" \"cpu\": \"intel\",", " \"cpu\": \"intel\",\n \"cpu\": \"amd\","),
            "m.json:7: cpu: is there twice");
  EXPECT_EQ(refusal_of("\"value\":80,", "\"value\":80,\"value\":90,"),
            "m.json:10: processor.memory.value: is there twice");
}

TEST(MachineFile, ThatBorrowsFromNobodyIsRefused) {
  const auto borrowing = [](const std::string& lender) {
    return refusal_of(" \"cpu\": \"intel\",", " \"cpu\": \"intel\",\n \"borrows\": \"" + lender + "\",");
  };
  EXPECT_EQ(borrowing("nothere"),
            "m.json:7: borrows: 'nothere' is no file and none of the known machines, which commlens machines "
            "lists");
  EXPECT_EQ(borrowing("dgx_h100"), "");
}

TEST(MachineName, IsFoundOrTheNearestIsNamed) {
  EXPECT_EQ(find_machine("dgx_h10").error().message,
            "machine 'dgx_h10' is no file and none of the known ones, is it 'dgx_h100'?; commlens machines "
            "lists them");
}

}  // namespace
}  // namespace commlens

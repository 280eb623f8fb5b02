#include "commlens/config/shell_script.hpp"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace commlens {
namespace {

/// The commands of a script, one a line, their words between bars; unknown parts as written, in ‹›.
std::string commands_of(const std::string& script) {
  const Result<ShellScript> read = read_shell_script("s.sh", script);
  if (!read) {
    return read.error().message;
  }
  std::string all;
  for (const ShellCommand& command : read->commands) {
    std::string line;
    for (const ShellWord& word : command.words) {
      const bool is_open = read->values.unknown_in(word.text) != nullptr;
      const std::string text = read->values.as_written(word.text);
      line += (line.empty() ? "" : "|") + (is_open ? fmt::format("<{}>", text) : text);
    }
    all += line + (command.only_if_line > 0 ? fmt::format(" ?{}", command.only_if_line) : "") + "\n";
  }
  return all;
}

TEST(ShellScript, SplitsWordsAndKeepsQuotes) {
  EXPECT_EQ(commands_of("run a 'b c' \"d e\" f\\ g # comment\n"), "run|a|b c|d e|f g\n");
  EXPECT_EQ(commands_of("run a \\\n  b\nnext\n"), "run|a|b\nnext\n");
  EXPECT_EQ(commands_of("run '$A' \"\\$B\" x#y\n"), "run|$A|$B|x#y\n");
}

TEST(ShellScript, LeavesOutRedirectionsAndDocuments) {
  EXPECT_EQ(commands_of("run a 2>&1 | tee \"log\"\n"), "run|a\ntee|log\n");
  EXPECT_EQ(commands_of("run a > out.txt 2> err.txt &> both b\n"), "run|a|b\n");
  EXPECT_EQ(commands_of("cat <<EOF\nrun $X\n$(date)\nEOF\nrun b <<-'END'\n\tx\n\tEND\nlast\n"),
            "cat\nrun|b\nlast\n");
}

TEST(ShellScript, FollowsVariables) {
  EXPECT_EQ(commands_of("A=1\nexport B=2 C=\"x y\"\nrun $A ${B} $C \"$C\"\n"), "run|1|2|x|y|x y\n");
  EXPECT_EQ(commands_of("A=1; A+=2; B=$A$A\nrun $B\n"), "run|1212\n");
  EXPECT_EQ(commands_of("ARGS=\"--a 1 \\\n  --b\"\nrun $ARGS\n"), "run|--a|1|--b\n");
  EXPECT_EQ(commands_of("X=8 Y=2 run $X\n"), "run|8\n");
}

TEST(ShellScript, AnApostropheBetweenQuotesIsALetter) {
  EXPECT_EQ(commands_of("A=7\nrun \"it's '$A' \" \"${B:-\"c d\"}\"\n"), "run|it's '7' |c d\n");
}

TEST(ShellScript, TakesDefaults) {
  EXPECT_EQ(commands_of("run ${TP:-4} ${TP-5} ${TP:-}\n"), "run|4|5\n");
  EXPECT_EQ(commands_of("TP=2\nrun ${TP:-4} ${TP:+yes} ${PP:+no}\n"), "run|2|yes\n");
  EXPECT_EQ(commands_of("TP=\nrun ${TP:-4} ${TP-5}x\n"), "run|4|x\n");
  EXPECT_EQ(commands_of("run ${A:-${B:-\"c d\"}} ${A:=7} $A\n"), "run|c d|7|7\n");
  EXPECT_EQ(commands_of("N=$SLURM_NNODES\nrun ${N:-1}\n"), "run|1\n");
}

TEST(ShellScript, FollowsArrays) {
  EXPECT_EQ(commands_of(
                "A=(\n  --x 1 # one\n  #--y 2\n  \"--z 3\"\n)\nA+=(--w)\nrun \"${A[@]}\" ${#A[@]} ${A[1]}\n"),
            "run|--x|1|--z 3|--w|4|1\n");
  EXPECT_EQ(commands_of("A=(\"--z 3\")\nrun ${A[@]}\n"), "run|--z|3\n");
  EXPECT_EQ(commands_of("A=()\nrun a \"${A[@]}\" b\n"), "run|a|b\n");
  EXPECT_EQ(commands_of("A=(1 2)\nB=(0 \"${A[@]}\")\nrun ${B[*]} \"${B[*]}\"\n"), "run|0|1|2|0 1 2\n");
}

TEST(ShellScript, KeepsTheLineOfEachWord) {
  const ShellScript script = read_shell_script("s.sh", "A=(\n  --x\n  1\n)\nrun \"${A[@]}\" y\n").value();
  const std::vector<ShellWord>& words = script.commands.at(0).words;
  ASSERT_EQ(words.size(), 4U);
  EXPECT_EQ(words[0].line, 5);
  EXPECT_EQ(words[1].line, 2);
  EXPECT_EQ(words[2].line, 3);
  EXPECT_EQ(words[3].line, 5);
  const ShellScript text = read_shell_script("s.sh", "N=4\nA=\"--x 1\"\nrun $A --y $N\n").value();
  EXPECT_EQ(text.commands.at(0).words.at(1).line, 2);
  EXPECT_EQ(text.commands.at(0).words.at(4).line, 3);
}

TEST(ShellScript, Calculates) {
  EXPECT_EQ(commands_of("A=8\nB=3\nrun $((A * B)) $(($A+B*2)) $(( (A-B) / 2 )) $((A>B ? 1 : 0))\n"),
            "run|24|14|2|1\n");
  EXPECT_EQ(commands_of("run $((1 / 0)) $((X + 1)) $((08))\n"), "run|<$((1 / 0))>|<$X>|<$((08))>\n");
  EXPECT_EQ(commands_of("run $((9223372036854775807 + 1))\n"), "run|<$((9223372036854775807 + 1))>\n");
}

TEST(ShellScript, MarksWhatOnlyARunKnows) {
  EXPECT_EQ(commands_of("N=$(nvidia-smi | wc -l)\nrun $N x$N `date` $UNSET $1\n"),
            "run|<$(nvidia-smi | wc -l)>|<x$(nvidia-smi | wc -l)>|<`date`>|<$UNSET>|<$1>\n");
  EXPECT_EQ(commands_of("A=abc\nrun ${A%c} ${A/b/x} ${A:0:1} ${!A} $? $$\n"),
            "run|<${A%c}>|<${A/b/x}>|<${A:0:1}>|<${!A}>|<$?>|<$$>\n");
  EXPECT_EQ(commands_of("run \"$@\" $* $#\n"), "run|0\n");
}

TEST(ShellScript, FollowsConditions) {
  EXPECT_EQ(commands_of("P=bf16\nif [ $P = bf16 ]; then A=--bf16; elif [ $P = fp16 ]; then A=--fp16; else "
                        "A=; fi\nrun $A\n"),
            "run|--bf16\n");
  EXPECT_EQ(commands_of("if [[ -n \"$KEY\" ]]; then A=1; else A=2; fi\nrun $A\n"), "run|2\n");
  EXPECT_EQ(commands_of("T=4\nif [ \"$T\" -gt 1 ] && [[ $T != 8 || -z $T ]]; then run sp; fi\n"), "run|sp\n");
  EXPECT_EQ(commands_of("if ! [ a = b ]; then run x; fi\nif (( 2 > 1 )); then run y; fi\n"),
            "run|x\nrun|y\n");
  EXPECT_EQ(commands_of("N=gb200\nif [[ $N == gb* ]]; then run x; fi\n"), "run|x\n");
  EXPECT_EQ(commands_of("[ 1 -eq 1 ] && A=1 || A=2\n[ 1 -eq 2 ] && B=1 || B=2\nrun $A $B\n"), "run|1|2\n");
}

TEST(ShellScript, FollowsCases) {
  const std::string text =
      "case \"$1x$S\" in\n  x7B|x8B) N=32 ;;\n  x70B)\n    N=80\n    ;;\n  *) N=1 ;;\nesac\nrun $N\n";
  EXPECT_EQ(commands_of("S=70B\n" + text), "run|80\n");
  EXPECT_EQ(commands_of("S=8B\n" + text), "run|32\n");
  EXPECT_EQ(commands_of("S=9B\n" + text), "run|1\n");
}

TEST(ShellScript, DoubtsWhatAnUnknownConditionDecides) {
  EXPECT_EQ(commands_of("A=1\nif [ -f x ]; then\n  A=2\n  go\nfi\nrun $A\n"), "go ?2\nrun|<[ -f x ]>\n");
  EXPECT_EQ(commands_of("A=(--a)\nif [ -d x ]; then A+=(--load x); fi\nrun \"${A[@]}\"\n"),
            "run|--a|<[ -d x ]>\n");
  EXPECT_EQ(commands_of("[ -f x ] && A=2\nrun $A\n"), "run|<[ -f x ]>\n");
  EXPECT_EQ(commands_of("while read -r l; do A=$l; done < f\nrun $A\n"), "run|<while read -r l>\n");
  const ShellScript script =
      read_shell_script("s.sh", "if [ -d x ]; then A=\"--load x\"; fi\nrun $A\n").value();
  const ShellUnknown* const unknown = script.values.unknown_in(script.commands.at(0).words.at(1).text);
  ASSERT_NE(unknown, nullptr);
  ASSERT_EQ(unknown->may_be.size(), 2U);
  EXPECT_EQ(unknown->may_be[0].text, "--load");
  EXPECT_EQ(unknown->line, 1);
}

TEST(ShellScript, FollowsLoopsFunctionsAndShells) {
  EXPECT_EQ(commands_of("for i in 1 2; do run $i; done\n"), "run|1\nrun|2\n");
  EXPECT_EQ(commands_of("while [[ $# -gt 0 ]]; do A=$1; shift; done\nrun a\n"), "run|a\n");
  EXPECT_EQ(commands_of("go() {\n  run $1 \"$@\"\n}\ngo x y\n"), "run|x|x|y\ngo|x|y\n");
  EXPECT_EQ(commands_of("C=\"run a\"\neval $C\nsrun bash -c \"$C b\"\n"),
            "run|a\neval|run|a\nrun|a|b\nsrun|bash|-c|run a b\n");
}

TEST(ShellScript, RefusesWhatNeverEnds) {
  EXPECT_EQ(commands_of("run\nA=\"x\n"), "s.sh:2: the quote is never closed");
  EXPECT_EQ(commands_of("A=(1 2\n"), "s.sh:1: the array A= is never closed");
  EXPECT_EQ(commands_of("run ${A\n"), "s.sh:1: the bracket is never closed");
  EXPECT_EQ(commands_of("cat <<EOF\nx\n"), "s.sh:1: the text up to 'EOF' never ends");
  EXPECT_EQ(commands_of(""), "s.sh: the file is empty");
}

TEST(ShellScript, StopsAtItsLimits) {
  std::string doubling = "A=xxxxxxxxxxxxxxxx\n";
  for (int times = 0; times < 40; ++times) {
    doubling += "A=$A$A\n";
  }
  EXPECT_EQ(commands_of(doubling),
            "s.sh: its variables hold more than 4 MiB of text; no launch script needs that");
  std::string nested = "run ";
  for (int depth = 0; depth < 1000; ++depth) {
    nested += "${A:-";
  }
  EXPECT_EQ(commands_of(nested + "\n"), "s.sh:1: the bracket is never closed");
  std::string set_twice = "run ";
  for (int depth = 0; depth < 30; ++depth) {
    set_twice += "${A:=";
  }
  EXPECT_NE(commands_of(set_twice + std::string(30, '}') + "\n"), "");
  EXPECT_NE(commands_of("f() { f; f; }\nf\n"), "");
}

TEST(ShellScript, EveryPrefixIsReadOrRefused) {
  const std::string text =
      "A=(1 \"b c\" $(x))\nif [[ $A == 1 && -f y ]]; then B=${A[0]:-$((2*3))}; elif (( B )); then run; "
      "else\ncase $B in\na|b) "
      "run 2>&1 ;;\n*) : ;;\nesac\nfi\nf() { for i in 1 2; do echo \"$i\" <<E\nE\ndone; }\nf && g || h\n";
  for (std::size_t length = 1; length <= text.size(); ++length) {
    const Result<ShellScript> script = read_shell_script("s.sh", text.substr(0, length));
    EXPECT_TRUE(script || script.error().message.starts_with("s.sh")) << length;
  }
}

}  // namespace
}  // namespace commlens

#include "cli/sweep/job_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/text/unit_text.hpp"
#include "planner/commands.hpp"

namespace rigcast::cli {
namespace {

// A core makes some 100 scenarios a second: shards of minutes, of which an engine has no more than
// it likes.
constexpr std::int64_t kScenariosPerCore = 10'000;
constexpr std::int64_t kMaxShards = 1000;

struct Script {
  std::string command;  // of the shell, without shard and output
  std::string size;     // for a comment
  std::string output;
  int shards = 0, cores = 0;

  // "out.csv" -> "out.3.csv".
  std::string output_of(const std::string& shard) const {
    const std::filesystem::path path = output;
    const std::string name = path.stem().string() + "." + shard + path.extension().string();
    return (path.parent_path() / name).string();
  }
  // Ends with 1 where combinations make no scenario: the lines are there, and say why.
  std::string run(const std::string& shard, const std::string& cores_of,
                  const std::string& to) const {
    return fmt::format("{} --shard {}/{} --jobs {} -o {} || [ $? = 1 ]", command, shard, shards,
                       cores_of, to);
  }
  std::string merge(const std::string& files) const {
    return fmt::format("rigcast sweep --merge {} -o {}", files, output);
  }
  std::string merge() const {  // in bash
    return merge(output_of(shards == 1 ? "1" : fmt::format("{{1..{}}}", shards)));
  }
};

std::string slurm(const Script& s) {
  const std::string task = "$SLURM_ARRAY_TASK_ID";
  return fmt::format(R"(#!/bin/bash
# {}: sbatch FILE, in a folder that all nodes see.
# Those that were killed go on where they were: sbatch --array=3,5 FILE
# Once all are done: {}
#SBATCH --job-name=rigcast-sweep
#SBATCH --array=1-{}
#SBATCH --cpus-per-task={}
#SBATCH --time=02:00:00
{}
)",
                     s.size, s.merge(), s.shards, s.cores,
                     s.run(task, "\"$SLURM_CPUS_PER_TASK\"", s.output_of("$SLURM_ARRAY_TASK_ID")));
}

std::string parallel(const Script& s) {
  return fmt::format(R"(#!/bin/bash
# {}: bash FILE. Run again, it does what is not done yet, and goes on with what was
# killed. Other hosts: -S HOST1,HOST2 --env shard --workdir . as flags of parallel, in a folder
# that all see.
set -euo pipefail
shard() {{
  {}
}}
export -f shard
PARALLEL_SHELL=$(command -v bash) parallel --joblog {}.joblog --resume-failed shard ::: {{1..{}}}
{}
)",
                     s.size, s.run("$1", fmt::format("{}", s.cores), s.output_of("$1")), s.output,
                     s.shards, s.merge());
}

std::string in_quotes(const std::string& text) {  // of Python, whose escapes are JSON's
  return nlohmann::json(text).dump();
}

// Braces that are none of Snakemake's.
std::string doubled_braces(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '{' || c == '}' ? std::string(2, c) : std::string(1, c);
  return out;
}

std::string snakemake(Script s) {
  s.command = doubled_braces(s.command);
  const std::string shard = s.run("{wildcards.i}", "{threads}", "{output.rows}");
  const std::string merge = "rigcast sweep --merge {input} -o {output} || [ $? = 1 ]";
  return fmt::format(R"(# {}: snakemake -s FILE --cores all, or with a cluster's profile.
rule sweep:
    input: expand({}, i=range(1, {}))
    output: {}
    shell: {}

rule shard:
    output: rows={}, shard={}
    wildcard_constraints: i="[0-9]+"
    threads: {}
    shell: {}
)",
                     s.size, in_quotes(s.output_of("{i}")), s.shards + 1, in_quotes(s.output),
                     in_quotes(merge), in_quotes(s.output_of("{i}")),
                     in_quotes(s.output_of("{i}") + ".shard"), s.cores, in_quotes(shard));
}

// A word of HTCondor's "arguments", which has quotes and macros of its own.
std::string condor_word(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '$' ? "$(DOLLAR)" : c == '\'' || c == '"' ? std::string(2, c) : std::string(1, c);
  return "'" + out + "'";
}

std::string condor(const Script& s) {
  // The shell's $1 is the shard: "-c 'COMMAND' sh SHARD".
  const std::string run =
      condor_word(s.run("$1", fmt::format("{}", s.cores), s.output_of("$1"))) + " sh $(shard)";
  return fmt::format(R"(# {}: condor_submit FILE, in a folder that all machines see.
# Those that were killed go on where they were: condor_submit FILE again, with fewer numbers.
# Once all are done: {}
executable = /bin/sh
transfer_executable = false
should_transfer_files = no
arguments = "-c {}"
getenv = PATH, HOME, XDG_DATA_HOME, RIGCAST_DATA
request_cpus = {}
request_memory = 2GB
log = {}.log
error = {}.err
queue shard from seq 1 {} |
)",
                     s.size, s.merge(), run, s.cores, s.output, s.output_of("$(shard)"), s.shards);
}

}  // namespace

Result<std::string> job_script(const std::string& engine, const SweepJob& job) {
  const bool is_array = engine == "slurm" || engine == "condor";
  if (!is_array && engine != "parallel" && engine != "snakemake")
    return bad_input(
        fmt::format("--emit {}: expected slurm, parallel, snakemake or condor", engine));
  if (planner::shell_text({job.output}) != job.output)
    return bad_input(fmt::format("-o {}: a script would need quotes for this name", job.output),
                     "letters, digits and the characters -_./ alone");
  const int cores = job.cores > 0 ? job.cores : is_array ? 4 : 1;
  const std::int64_t per_shard = kScenariosPerCore * cores;
  const auto usual = std::min((job.scenarios + per_shard - 1) / per_shard, kMaxShards);
  const int shards = job.shards > 0 ? job.shards : int(usual);
  const Script script{
      planner::shell_text(job.words),
      fmt::format("{} combinations in {} shards", text_count(job.scenarios), shards), job.output,
      shards, cores};
  if (engine == "slurm") return slurm(script);
  if (engine == "condor") return condor(script);
  return engine == "parallel" ? parallel(script) : snakemake(script);
}

}  // namespace rigcast::cli

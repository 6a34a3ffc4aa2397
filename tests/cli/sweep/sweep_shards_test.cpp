// Shards of a sweep: made by tasks of job arrays, and put together again.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;

namespace {

using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::optional<std::string>>;

// 513 combinations: pieces of two, the last of one. 18 layers are more than the smallest has.
const Words kSwept{"sweep",
                   "--gpu",
                   "rtx-3060-12gb",
                   "--model",
                   "llama-3.2-1b",
                   "--set",
                   "placement.gpu_layers=0..18",
                   "--set",
                   "workload.depth=0..800:100",
                   "--set",
                   "model.name=llama-3.2-1b,llama-3.2-3b,llama-3.1-8b"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string shard_of(const Folder& folder, int shard) {
  return folder / ("out." + std::to_string(shard) + ".csv");
}

// All shards of `swept`, and their files.
Words make_shards(const Folder& folder, int count, const Words& swept, const Words& more = {}) {
  Words files;
  for (int i = 1; i <= count; ++i) {
    files.push_back(shard_of(folder, i));
    const std::string shard = std::to_string(i) + "/" + std::to_string(count);
    const Outcome o = run(with(with(swept, {"--shard", shard, "-o", files.back()}), more));
    INFO(o.error);
    REQUIRE(o.exit <= 1);
  }
  return files;
}

Outcome merge(const Words& files, const Words& more = {}) {
  return run(with(with({"sweep", "--merge"}, files), more));
}

void check_merge_refused(const Words& files, const std::string& why, const std::string& hint) {
  const Outcome o = merge(files);
  INFO(o.out << o.error);
  CHECK(o.exit == 2);
  CHECK(o.out.empty());
  CHECK(contains(o.error, why));
  CHECK(contains(o.error, "\n  " + hint));
}

// The shard that a task makes of two combinations that it says, "2/3", or the error.
std::string shard_in(const Environment& environment, const std::string& shard) {
  const Folder folder;
  const std::string file = folder / "out.csv";
  How how;
  for (const char* name : {"SLURM_ARRAY_TASK_ID", "SGE_TASK_ID", "LSB_JOBINDEX", "PBS_ARRAY_INDEX",
                           "PBS_ARRAYID", "PARALLEL_SEQ"})
    how.environment[name] = std::nullopt;
  for (const auto& [name, value] : environment) how.environment[name] = value;
  const Outcome o = run({"sweep", "--gpu", "rtx-3060-12gb", "--model", "llama-3.2-1b", "--set",
                         "workload.depth=0,10", "--shard", shard, "-o", file},
                        how);
  if (o.exit != 0) return std::to_string(o.exit) + " " + o.error;
  const auto about = nlohmann::json::parse(read(file + ".shard"));
  return about.at("shard").dump() + "/" + about.at("of").dump();
}

}  // namespace

TEST_CASE("Merged shards are the bytes of the whole sweep", "[cli][sweep]") {
  const Folder folder;
  for (const Words& format : {Words{}, Words{"--format", "json"}}) {
    const Outcome whole = run(with(with(kSwept, format), {"-o", folder / "whole"}));
    const Outcome merged = merge(
        [&] {
          Words files = make_shards(folder, 4, kSwept, format);
          std::ranges::reverse(files);
          return files;
        }(),
        {"-o", folder / "merged"});
    INFO(merged.error);
    CHECK(whole.exit == 1);  // some combinations make no scenario
    CHECK(merged.exit == whole.exit);
    CHECK(merged.error == whole.error);
    CHECK(read(folder / "merged") == read(folder / "whole"));
    CHECK_FALSE(read(folder / "merged").empty());
    CHECK_FALSE(fs::exists(folder / "whole.shard"));
  }
}

TEST_CASE("More shards than pieces merge, too", "[cli][sweep]") {
  const Folder folder;
  const Words two{"sweep",        "--gpu", "rtx-3060-12gb",      "--model",
                  "llama-3.2-1b", "--set", "workload.depth=0,10"};
  CHECK(merge(make_shards(folder, 3, two)).out == run(two).out);
}

TEST_CASE("The page of merged shards has the data of the whole sweep's", "[cli][sweep]") {
  const Folder folder;
  const auto data = [](const std::string& page) {
    const auto begin = page.find("\"schema\"");
    REQUIRE(begin != std::string::npos);
    return page.substr(begin, page.find("</script>", begin) - begin);
  };
  run(with(kSwept, {"-o", folder / "whole", "--html", folder / "whole.html"}));
  for (const Words& format : {Words{}, Words{"--format", "json"}}) {
    const Words files = make_shards(folder, 2, kSwept, format);
    merge(files, {"-o", folder / "merged", "--html", folder / "merged.html"});
    CHECK(data(read(folder / "merged.html")) == data(read(folder / "whole.html")));
  }
}

TEST_CASE("A shard that was killed runs again, and gives the same bytes", "[cli][sweep]") {
  const Folder folder;
  const Words long_one = with(kSwept, {"--set", "workload.prompt_tokens=100..400:100", "--jobs",
                                       "1", "--shard", "2/2", "-o"});
  const std::string file = folder / "killed.csv";
  How killed;
  killed.interrupt_once = [&] {
    std::error_code none;
    return fs::file_size(file + ".part", none) > 100 && !none;
  };
  killed.signals = {SIGKILL};
  REQUIRE(run(with(long_one, {file}), killed).exit == 128 + SIGKILL);
  CHECK_FALSE(fs::exists(file));
  CHECK_FALSE(fs::exists(file + ".shard"));
  REQUIRE(run(with(long_one, {file})).exit == 1);
  REQUIRE(run(with(long_one, {folder / "once.csv"})).exit == 1);
  CHECK(read(file) == read(folder / "once.csv"));
  CHECK(read(file + ".shard") == read(folder / "once.csv.shard"));
}

TEST_CASE("Shards that are missing, doubled or foreign are refused", "[cli][sweep]") {
  const Folder folder, other_count, other_sweep, other_format, other_files;
  const Words two{"sweep",        "--gpu", "rtx-3060-12gb",      "--model",
                  "llama-3.2-1b", "--set", "workload.depth=0,10"};
  const Words three = make_shards(folder, 3, two);
  check_merge_refused({three[1]}, "2 of 3 shards are missing: 1/3, 3/3",
                      "name their files too, or run them: --shard I/N -o FILE");
  check_merge_refused({three[0], three[2], three[0]},
                      three[0] + " and " + three[0] + " are both shard 1/3", "name one of them");
  const Words of_two = make_shards(other_count, 2, two);
  check_merge_refused({three[0], of_two[1]},
                      three[0] + " is shard 1/3, " + of_two[1] + " is shard 2/2",
                      "all must be of one N");
  const Words of_other = make_shards(other_sweep, 3, with(two, {"--context", "4096"}));
  check_merge_refused({three[0], of_other[1], three[2]},
                      three[0] + " and " + of_other[1] + ": shards of different sweeps",
                      "leave out what is of another sweep");
  const Words as_json = make_shards(other_format, 3, two, {"--format", "json"});
  check_merge_refused({three[0], as_json[1], three[2]}, "one has CSV, the other JSON",
                      "run one of them again");
}

TEST_CASE("Shards of one sweep whose files have changed between them are refused", "[cli][sweep]") {
  const Folder folder;
  const auto shard = [&](const char* which, const std::string& bandwidth) {
    const std::string rig =
        folder.write("rig.toml",
                     "name = \"mine\"\nsource = \"a test\"\ngpu = [\"rtx-3060-12gb\"]\n"
                     "cpu = \"ryzen-7-5800x\"\nram_bandwidth = \"" +
                         bandwidth + " GB/s\"\n");
    const std::string file = folder / (std::string(which) + bandwidth);
    REQUIRE(run({"sweep", "--rig", rig, "--model", "llama-3.2-1b", "--set", "workload.depth=0,10",
                 "--shard", std::string(which) + "/2", "-o", file})
                .exit == 0);
    return file;
  };
  const std::string one = shard("1", "40");
  check_merge_refused({one, shard("2", "50")}, "made with different files of rigs",
                      "run the older one again, with the files of the other");
  CHECK(merge({one, shard("2", "40")}).exit == 0);
}

TEST_CASE("A file that is no shard, or not all of one, is refused", "[cli][sweep]") {
  const Folder folder;
  const Words two{"sweep",        "--gpu", "rtx-3060-12gb",      "--model",
                  "llama-3.2-1b", "--set", "workload.depth=0,10"};
  const Words files = make_shards(folder, 2, two);
  const std::string about = read(files[1] + ".shard");
  fs::remove(files[1] + ".shard");
  check_merge_refused(files, files[1] + ": " + files[1] + ".shard is not there",
                      "what --shard I/N -o FILE makes has FILE.shard beside it");
  for (const char* bad : {"", "{}", "[1]", "{\"schema\": \"rigcast.shard/1\"}",
                          "{\"schema\": \"rigcast.report/1\"}"}) {
    folder.write("out.2.csv.shard", bad);
    check_merge_refused(files, files[1] + ".shard describes no shard", "run that shard again");
  }
  auto changed = nlohmann::json::parse(about);
  changed["piece_bytes"] = nlohmann::json::array();
  folder.write("out.2.csv.shard", changed.dump());
  check_merge_refused(files, "describes no shard", "run that shard again");
  folder.write("out.2.csv.shard", about);
  CHECK(merge(files).exit == 0);
  std::string text = read(files[1]);
  folder.write("out.2.csv", text.substr(0, text.size() - 1));
  check_merge_refused(files, files[1] + " is not what " + files[1] + ".shard describes",
                      "it was cut off or changed since: run that shard again");
  text[text.size() - 2] = '9';
  folder.write("out.2.csv", text);
  check_merge_refused(files, "is not what", "it was cut off or changed since");
  check_merge_refused({folder / "none.csv"}, "none.csv", "");
}

TEST_CASE("Shards are never overwritten by what they make, and --merge takes no sweep's flags",
          "[cli][sweep]") {
  const Folder folder;
  const Words files = make_shards(folder, 2,
                                  {"sweep", "--gpu", "rtx-3060-12gb", "--model", "llama-3.2-1b",
                                   "--set", "workload.depth=0,10"});
  const Outcome o = merge(files, {"-o", files[0]});
  CHECK(o.exit == 2);
  CHECK(contains(o.error, "that is one of the shards"));
  CHECK(merge(files, {"--model", "llama-3.2-1b"}).exit == 2);
  CHECK(merge(files, {"--set", "workload.depth=0,10"}).exit == 2);
  CHECK(merge(files, {"--shard", "1/2"}).exit == 2);
}

TEST_CASE("The task of a job array is its shard", "[cli][sweep]") {
  CHECK(shard_in({{"SLURM_ARRAY_TASK_ID", "2"},
                  {"SLURM_ARRAY_TASK_MIN", "0"},
                  {"SLURM_ARRAY_TASK_MAX", "6"},
                  {"SLURM_ARRAY_TASK_STEP", "2"},
                  {"SLURM_ARRAY_TASK_COUNT", "4"}},
                 "auto") == "2/4");
  CHECK(shard_in({{"SGE_TASK_ID", "3"},
                  {"SGE_TASK_FIRST", "1"},
                  {"SGE_TASK_LAST", "5"},
                  {"SGE_TASK_STEPSIZE", "1"}},
                 "auto") == "3/5");
  CHECK(shard_in({{"LSB_JOBINDEX", "4"}, {"LSB_JOBINDEX_END", "7"}, {"LSB_JOBINDEX_STEP", "1"}},
                 "auto") == "4/7");
  for (const char* variable :
       {"PBS_ARRAY_INDEX", "PBS_ARRAYID", "PARALLEL_SEQ", "SLURM_ARRAY_TASK_ID"})
    CHECK(shard_in({{variable, "3"}}, "auto/8") == "3/8");
}

TEST_CASE("A task whose shard is not known is refused", "[cli][sweep]") {
  const auto refused = [](const Environment& environment, const std::string& shard,
                          const std::string& why, const std::string& hint) {
    const std::string o = shard_in(environment, shard);
    INFO(o);
    CHECK(o.starts_with("2 rigcast: --shard auto"));
    CHECK(contains(o, why));
    CHECK(contains(o, "\n  " + hint));
  };
  refused({}, "auto", "no task of a job array runs this", "it reads the variables of Slurm");
  refused({{"SGE_TASK_ID", "undefined"}}, "auto", "no task of a job array", "");
  refused({{"LSB_JOBINDEX", "0"}, {"LSB_JOBINDEX_END", "0"}}, "auto", "no task of a job", "");
  refused({{"PBS_ARRAY_INDEX", "3"}}, "auto", "PBS does not say how many tasks",
          "say it: --shard auto/8");
  refused({{"PBS_ARRAY_INDEX", "0"}}, "auto/8", "PBS_ARRAY_INDEX is 0",
          "number the array's tasks from 1 to 8");
  refused({{"PBS_ARRAY_INDEX", "9"}}, "auto/8", "PBS_ARRAY_INDEX is 9", "number the array's");
  // sbatch --array=1,3,7
  refused({{"SLURM_ARRAY_TASK_ID", "3"},
           {"SLURM_ARRAY_TASK_MIN", "1"},
           {"SLURM_ARRAY_TASK_MAX", "7"},
           {"SLURM_ARRAY_TASK_STEP", "1"},
           {"SLURM_ARRAY_TASK_COUNT", "3"}},
          "auto", "task 3 of Slurm is in an array with gaps from 1 to 7", "--shard auto/8 where");
  refused({{"SLURM_ARRAY_TASK_ID", "2"}, {"PARALLEL_SEQ", "1"}}, "auto/4",
          "both Slurm (SLURM_ARRAY_TASK_ID) and GNU parallel (PARALLEL_SEQ)",
          "name the one that is meant: --shard $SLURM_ARRAY_TASK_ID/N");
}

TEST_CASE("Scripts of a sweep name its shards and its flags", "[cli][sweep]") {
  const auto script = [](const char* engine, const Words& more = {}) {
    const Outcome o =
        run(with(with(kSwept, {"--emit", engine, "--shards", "8", "-o", "a/x.csv"}), more));
    INFO(o.error);
    CHECK(o.exit == 0);
    return o.out;
  };
  const std::string command =
      "rigcast sweep --gpu rtx-3060-12gb --model llama-3.2-1b --set "
      "placement.gpu_layers=0..18 --set workload.depth=0..800:100 --set "
      "model.name=llama-3.2-1b,llama-3.2-3b,llama-3.1-8b ";
  for (const char* engine : {"slurm", "parallel", "snakemake", "condor"}) {
    INFO(engine);
    CHECK(contains(script(engine), command));
    CHECK(contains(script(engine), "513 combinations in 8 shards"));
    CHECK(contains(script(engine, {"--format", "json"}), "--format json --shard"));
  }
  CHECK(contains(script("slurm"), "#SBATCH --array=1-8\n"));
  CHECK(contains(script("slurm", {"--jobs", "6"}), "#SBATCH --cpus-per-task=6\n"));
  CHECK(contains(script("slurm"), "rigcast sweep --merge a/x.{1..8}.csv -o a/x.csv"));
  CHECK(contains(script("condor"), "queue shard from seq 1 8 |"));
  const auto refused = [](const Words& more, const std::string& why) {
    const Outcome o = run(with(kSwept, more));
    INFO(o.error);
    CHECK(o.exit == 2);
    CHECK(o.out.empty());
    CHECK(contains(o.error, why));
  };
  refused({"--emit", "make"}, "expected slurm, parallel, snakemake or condor");
  refused({"--emit", "slurm", "-o", "my sweep.csv"}, "a script would need quotes");
  refused({"--emit", "slurm", "--shard", "1/2"}, "neither --shard nor --html");
}

TEST_CASE("Scripts have the quotes of their engine", "[cli][sweep]") {
  const Folder folder;
  const std::string rig =
      folder.write("{a} $b.toml",
                   "name = \"mine\"\nsource = \"a test\"\ngpu = [\"rtx-3060-12gb\"]\n"
                   "cpu = \"ryzen-7-5800x\"\n");
  const auto has = [&](const char* engine, const std::string& text) {
    const Outcome o = run({"sweep", "--rig", rig, "--model", "llama-3.2-1b", "--set",
                           "workload.depth=0,10", "--emit", engine});
    INFO(o.out << o.error);
    CHECK(o.exit == 0);
    CHECK(contains(o.out, text));
    CHECK(contains(o.out, "sweep.csv"));  // where no output is named
  };
  has("slurm", "/{a} $b.toml' --model");
  has("parallel", "/{a} $b.toml' --model");
  has("snakemake", "/{{a}} $b.toml' --model");
  has("condor", "/{a} $(DOLLAR)b.toml'' --model");
}

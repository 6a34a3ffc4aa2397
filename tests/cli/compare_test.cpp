// `rigcast compare` as people type it.
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;

namespace {

Outcome compare(std::vector<std::string> more) {
  std::vector<std::string> words{"compare",
                                 "--model",
                                 "llama-3.1-8b",
                                 "--context",
                                 "8192",
                                 "--gpus",
                                 "rtx-3060-12gb,rtx-4090,2xrtx-3060-12gb",
                                 "--rig",
                                 "desktop-ddr5",
                                 "--output-tokens",
                                 "200"};
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

nlohmann::json rigs(const std::vector<std::string>& more) {
  std::vector<std::string> words = more;
  words.insert(words.end(), {"--format", "json"});
  const Outcome o = compare(words);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const auto j = nlohmann::json::parse(o.out);
  CHECK(j.at("schema") == "rigcast.comparison/1");
  return j.at("rigs");
}

double turn_s(const nlohmann::json& rig) {
  return rig.at("models").at(0).at("turn_s").get<double>();
}

}  // namespace

TEST_CASE("Every rig has a plan, a price and a power", "[cli][compare]") {
  const auto all = rigs({});
  REQUIRE(all.size() == 3);
  for (const auto& r : all) {
    CHECK(r.at("usd") > 0);
    CHECK(r.at("watts") > 0);
    CHECK(r.at("qualifies") == true);
    CHECK(r.at("models").at(0).at("fits") == true);
  }
}

TEST_CASE("Within a budget the fastest comes first, without one speed for the price",
          "[cli][compare]") {
  const auto rich = rigs({"--budget", "5000"});
  for (const auto& r : rich) CHECK(turn_s(rich.front()) <= turn_s(r));
  CHECK(rich.front().at("rig") == "rtx-4090");
  const auto poor = rigs({"--budget", "700"});
  CHECK(poor.front().at("rig") != "rtx-4090");
  CHECK(poor.front().at("usd") <= 700);
  const auto any = rigs({});
  for (const auto& r : any)
    CHECK(any.front().at("usd").get<double>() * turn_s(any.front()) <=
          1.0001 * r.at("usd").get<double>() * turn_s(r));
}

TEST_CASE(
    "What alone costs more than the budget is not computed, and changes nothing of the others",
    "[cli][compare]") {
  const auto all = rigs({}), limited = rigs({"--budget", "700"});
  REQUIRE(limited.size() == all.size());
  std::size_t within = 0;
  for (const auto& r : limited) {
    const auto same = std::ranges::find_if(
        all, [&](const nlohmann::json& one) { return one.at("rig") == r.at("rig"); });
    REQUIRE(same != all.end());
    const auto& model = r.at("models").at(0);
    if (same->at("usd") <= 700) {
      ++within;
      CHECK(r.at("qualifies") == same->at("qualifies"));
      CHECK(model.at("plan") == same->at("models").at(0).at("plan"));
      // Times are differences of a clock that goes on from rig to rig: alike but for its rounding.
      CHECK(turn_s(r) == Approx(turn_s(*same)).epsilon(1e-9));
    } else {
      CHECK(model.at("fits").is_null());
      CHECK(contains(model.at("lack"), " USD: more than the budget"));
      CHECK(r.at("qualifies") == false);
    }
  }
  CHECK((within > 0 && within < all.size()));
}

TEST_CASE("One's own price counts, for every card of its kind", "[cli][compare]") {
  for (const auto& r : rigs({"--price", "rtx-3060-12gb=150"})) {
    if (r.at("rig") == "rtx-3060-12gb") CHECK(r.at("usd") == 150);
    if (r.at("rig") == "2xrtx-3060-12gb") CHECK(r.at("usd") == 300);
  }
  CHECK(compare({"--price", "samsung-990-pro=90"}).exit == 0);
  for (const char* wrong : {"rtx-3060-12gb", "rtx-3060-12gb=", "rtx-3060-12gb=cheap", "rtx-99=5"})
    CHECK(compare({"--price", wrong}).exit == 2);
}

TEST_CASE("Where nothing qualifies the exit says so", "[cli][compare]") {
  const Outcome o = compare({"--budget", "10"});
  CHECK(o.exit == 1);
  CHECK(contains(o.out, "nothing for 10 USD does all of it"));
  CHECK(compare({"--min-tps", "9000"}).exit == 1);
}

TEST_CASE("A machine of the catalogue stands among GPUs, without a price if it has none",
          "[cli][compare]") {
  const Outcome o = run({"compare", "--model", "llama-3.1-8b", "--gpus", "macbook-air-m2,rtx-3090",
                         "--context", "4096", "--output-tokens", "100"});
  INFO(o.error);
  CHECK(o.exit == 0);
  CHECK(contains(o.out, "macbook-air-m2"));
  CHECK(contains(o.out, "?"));
  CHECK(run({"compare", "--model", "llama-3.1-8b", "--gpus", "rtx-4900"}).exit == 2);
  const Outcome rigs = run({"compare", "--model", "llama-3.1-8b", "--rigs", "my-toaster"});
  CHECK(rigs.exit == 2);
  CHECK(contains(rigs.error, "--rigs: no rig named"));
  CHECK(contains(run({"compare", "--model", "llama-3.1-8b"}).error, "nothing to compare"));
  CHECK(compare({"--gpu", "rtx-3090"}).exit == 2);
  CHECK(compare({"--budget", "nan"}).exit == 2);
}

TEST_CASE("Several models are compared at once", "[cli][compare]") {
  const Outcome o = run({"compare", "--model", "llama-3.2-1b,llama-3.1-8b", "--gpus",
                         "rtx-3060-12gb,rtx-4090", "--context", "4096"});
  INFO(o.error);
  CHECK(o.exit == 0);
  CHECK(contains(o.out, "Llama 3.2 1B\nturns of 512 + 512 tokens fill a context of 4,096"));
  CHECK(contains(o.out, "Llama 3.1 8B\nturns of 512 + 512 tokens fill a context of 4,096"));
  CHECK(run({"compare", "--model", "llama-3.2-1b,nobodys-7b", "--gpus", "rtx-4090"}).exit == 2);
}

TEST_CASE("An interrupt ends a comparison as it ends any program, not as an answer",
          "[cli][compare]") {
  const Outcome o = run({"compare", "--model", "qwen2.5-14b,llama-3.1-8b,qwen3-30b-a3b", "--base",
                         "budget-rtx-3060", "--context", "8192"},
                        {.interrupt_after = std::chrono::milliseconds(1500)});
  CHECK(o.exit == 128 + SIGINT);
  CHECK(o.out.empty());
}

TEST_CASE("Without rigs to compare, parts that help the one there are", "[cli][compare]") {
  const Outcome o =
      run({"compare", "--model", "qwen2.5-14b", "--base", "budget-rtx-3060", "--context", "8192",
           "--output-tokens", "200", "--quant", "Q4_K_M", "--format", "json"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const auto all = nlohmann::json::parse(o.out).at("rigs");
  REQUIRE(all.size() > 3);
  CHECK(all[0].at("rig") == "as it is");
  CHECK(all[0].at("usd").is_null());
  double before = 1e9;
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK(turn_s(all[i]) < turn_s(all[0]));
    if (all[i].at("usd").is_null()) continue;
    const double worth = (turn_s(all[0]) / turn_s(all[i]) - 1) / all[i].at("usd").get<double>();
    CHECK(worth <= before);
    before = worth;
  }
  const Outcome text = run({"compare", "--model", "qwen2.5-14b", "--base", "budget-rtx-3060",
                            "--context", "8192", "--output-tokens", "200", "--quant", "Q4_K_M"});
  CHECK(contains(text.out, "most for the money: "));
  CHECK(contains(text.out, " times as fast"));
}

TEST_CASE("A machine costs what all its parts cost, each with its kind and month",
          "[cli][compare]") {
  const auto machines = [](std::vector<std::string> more) {
    std::vector<std::string> words{"compare",
                                   "--model",
                                   "llama-3.1-8b",
                                   "--rigs",
                                   "gaming-rtx-4090,dual-rtx-3090,macbook-air-m2",
                                   "--format",
                                   "json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words);
    INFO(o.error);
    REQUIRE(o.exit == 0);
    return nlohmann::json::parse(o.out);
  };
  const auto j = machines({});
  CHECK(j.at("price_of") == "machine");
  for (const auto& r : j.at("rigs")) {
    const auto& parts = r.at("price").at("parts");
    if (r.at("rig") == "macbook-air-m2") {
      CHECK(r.at("usd").is_null());
      CHECK(!r.at("price").at("unpriced").empty());
      continue;
    }
    CHECK(parts.size() >= 5);  // GPU, CPU, RAM, drive, and the rest
    double sum = 0;
    for (const auto& part : parts) {
      sum += part.at("usd").get<double>();
      CHECK(part.at("date").get<std::string>().size() == 7);
      CHECK(!part.at("source").get<std::string>().empty());
    }
    CHECK(r.at("usd").get<double>() == Approx(sum));
  }
  CHECK(contains(j.at("verdict"), "1 of 3 have no price"));
  CHECK(j.at("rigs").at(2).at("rig") == "macbook-air-m2");
  // A list of one's own comes first, and single prices before it.
  const Folder folder;
  folder.write("mine.toml",
               "[[price]]\npart = \"macbook-air-m2\"\nusd = 100\ndate = \"2026-11\"\n"
               "[[price]]\npart = \"rtx-4090\"\nusd = 1000\nkind = \"used\"\ndate = \"2026-11\"\n");
  const auto own = machines({"--prices", folder / "mine.toml", "--price", "rtx-4090=900"});
  for (const auto& r : own.at("rigs")) {
    if (r.at("rig") == "macbook-air-m2") CHECK(r.at("usd") == 100);
    if (r.at("rig") == "gaming-rtx-4090") CHECK(r.at("price").at("parts").at(0).at("usd") == 900);
  }
  folder.write("bad.toml", "[[price]]\npart = \"rtx-4090\"\nusd = -5\n");
  CHECK(compare({"--prices", folder / "bad.toml"}).exit == 2);
  CHECK(compare({"--prices", folder / "none.toml"}).exit == 2);
}

TEST_CASE("Every machine is held to the same loss, and overlapping forecasts are a tie",
          "[cli][compare]") {
  const auto all = rigs({});
  const double most = all.at(0).at("models").at(0).at("max_loss_nats").get<double>();
  for (const auto& r : all) {
    CHECK(r.at("models").at(0).at("max_loss_nats") == most);
    CHECK(r.at("models").at(0).at("loss_nats").get<double>() <= most);
  }
  CHECK(rigs({"--max-loss", "0.1"}).at(0).at("models").at(0).at("max_loss_nats") == 0.1);
  const Outcome alike = run({"compare", "--model", "llama-3.1-8b", "--gpus",
                             "rtx-4080,rtx-4080-super", "--format", "json"});
  const auto j = nlohmann::json::parse(alike.out);
  REQUIRE(j.at("ties").size() == 1);
  CHECK(contains(j.at("verdict"), "a tie with rtx-4080"));
}

TEST_CASE("A comparison as CSV has a line for each rig and model", "[cli][compare]") {
  const Outcome o = compare({"--format", "csv"});
  CHECK(o.exit == 0);
  CHECK(std::ranges::count(o.out, '\n') == 4);
  CHECK(o.out.starts_with("rig,model,fits,plan,quant,loss_nats,first_token_s,turn_s,"));
}

TEST_CASE("A budget alone compares the GPUs that it buys", "[cli][compare]") {
  const Outcome o =
      run({"compare", "--model", "llama-3.1-8b", "--budget", "250", "--format", "json"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const auto all = nlohmann::json::parse(o.out).at("rigs");
  REQUIRE(all.size() >= 2);
  for (const auto& r : all) CHECK(r.at("usd") <= 250);
}

TEST_CASE("What is named twice is compared once, and said", "[cli][compare]") {
  const Outcome o = run(
      {"compare", "--model", "llama-3.2-1b", "--gpus", "rtx-4090, rtx-4090", "--format", "json"});
  CHECK(contains(o.error, "--gpus: rtx-4090 is named twice, compared once"));
  const auto j = nlohmann::json::parse(o.out);
  CHECK(j.at("rigs").size() == 1);
  CHECK(j.at("ties").empty());
}

TEST_CASE("One more of a rig's two cards is the third", "[cli][compare]") {
  const Outcome o =
      run({"compare", "--base", "dual-rtx-3090", "--model", "qwen2.5-32b", "--quant", "F16"});
  INFO(o.out << o.error);
  CHECK(contains(o.out, "third rtx-3090"));
  CHECK_FALSE(contains(o.out, "second rtx-3090"));
}

TEST_CASE("Parts beyond the budget, and cards that cannot be put in, are not proposed",
          "[cli][compare]") {
  const Outcome poor =
      run({"compare", "--base", "dual-rtx-3090", "--model", "llama-3.2-1b", "--budget", "1"});
  CHECK(contains(poor.out, "no single part for 1 USD makes it faster"));
  CHECK(contains(poor.out, " parts cost more than 1 USD: not computed"));
  const Outcome laptop =
      run({"compare", "--base", "laptop-rtx-4060", "--model", "llama-3.2-1b", "--format", "json"});
  INFO(laptop.error);
  const auto report = nlohmann::json::parse(laptop.out);
  REQUIRE(!report.at("rigs").empty());
  for (const auto& rig : report.at("rigs"))  // a laptop keeps the GPU that it has
    CHECK(rig.at("models").at(0).at("report").at("scenario").at("rig").at("gpu") ==
          nlohmann::json{"rtx-4060-laptop"});
}

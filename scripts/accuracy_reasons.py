"""Reasons why a run has no forecast or a forecast a large error, collected by hand for accuracy.py."""
import re

# Rows of (metric or None, regime or None, pattern, sentence); the first match applies. The pattern
# is searched in "chip model quant tool notes", followed by "RAM unknown" if its bandwidth does not
# follow. Reasons come only from statements of sources or from tables; without either an error is
# "not explained".
FAR_OFF = [
    (None, None, r"did not fit \d+ GB VRAM",
     "the source says that it did not fit into VRAM"),
    (None, None, r"Intel Mac dGPU on Metal",
     "Metal on a discrete GPU of an Intel Mac: the source calls this backend pathological"),
    ("pp_tps", None, r"ubatch sweep",
     "a sweep over ubatches from one token on, which few chips were measured with"),
    ("tg_tps", "layer split", r"hybrid decode",
     "what was in RAM is not stated: a layer split is assumed, experts in RAM are likely"),
    (None, "CPU only", r"dual socket",
     "two sockets under Windows without NUMA: a third of the speed for its cores of other machines"),
    (None, None, r"SBC host",
     "a single-board computer as host: the source sees its launches and its link as the limit"),
    ("tg_tps", None, r"tps includes prompt time",
     "the figure includes the time of a prompt whose length is not stated"),
    (None, None, r"ollama default \(not stated",
     "the quant is not stated: the source names the tool's default"),
    (None, None, r"stream-concurrency",
     "from the thread of a pull request that lets kernels run at the same time"),
    ("pp_tps", "CPU only", r"apple-m\d",
     "the one ARM chip among those measured in prefill on the CPU"),
    ("pp_tps", None, r"MLA on",
     "latent attention on the CPU, which no other chip was measured with"),
    ("pp_tps", None, r"strix-halo.* gpt-oss",
     "this model's runs on this chip differ by a factor of two between builds and backends"),
    ("pp_tps", None, r"strix-halo",
     "the only AMD chip whose prompts are measured, and the only one by Vulkan and ROCm"),
    ("pp_tps", "several GPUs", r"full offload",
     "a prompt over several GPUs: how much of it they worked on at once differs between machines"),
    (None, "experts in RAM", r"RAM unknown",
     "the RAM's bandwidth does not follow from what the source states"),
    (None, "layer split", r"RAM unknown",
     "the RAM's bandwidth does not follow from what the source states"),
    (None, "CPU only", r"RAM unknown",
     "the RAM's bandwidth does not follow from what the source states"),
]


def likely_reason(row):
    """row: one of the rows farthest off, with what its source states."""
    ram = "" if row["ram_known"] else "RAM unknown"
    text = " ".join((row["chip"], row["model"], row["quant"], row["tool"], row["notes"], ram))
    for metric, regime, pattern, sentence in FAR_OFF:
        if metric in (None, row["metric"]) and regime in (None, row["regime"]) \
                and re.search(pattern, text, re.IGNORECASE):
            return sentence
    return "not explained"


# Patterns in the output of `rigcast validate`, and the line of the table in which each counts.
NOT_FORECAST = [
    (r"no rule for mix", "the quant mix is one whose tensors no rule describes, and no file size "
                         "is stated"),
    (r"no quant mix and no file size", "neither quant mix nor file size is stated"),
    (r"^does not fit", "the forecast or what is stated says that it does not fit into memory"),
    (r"the GPU is not named|neither a GPU nor a CPU|the host computes, and neither",
     "the source does not name the part that computed"),
    (r"^no (CPU|GPU|model|SSD) named", "a part or a model that the catalogue lacks"),
    (r"whether the GPU or the CPU computed", "the source does not say which device computed"),
    (r"the KV cache of some layers is in RAM", "only some layers had their KV cache in RAM"),
]


def reason_class(reason):
    for pattern, words in NOT_FORECAST:
        if re.search(pattern, reason):
            return words
    return reason

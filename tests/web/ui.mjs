// A running `rigcast ui`, and the questions that tests and pictures ask it.
import { spawn } from "node:child_process";

export const rtx = "model.name=llama-3.1-8b&rig.gpu=rtx-3060-12gb&workload.context=8192";
export const states = {
  forecast: `forecast?${rtx}&model.quant=Q6_K`,
  misfit: `forecast?${rtx}&model.quant=F16&placement.gpu_layers=33`,
  error: `forecast?model.name=llama-3.1-8b&rig.gpu=rtx-4900`,
  plan: `plan?${rtx}`,
  compare: "compare?model.name=llama-3.1-8b&gpus=rtx-3060-12gb,rtx-3090&budget=900",
  users: "users?model.name=llama-3.2-1b&rig.gpu=rtx-4090&load.preset=chat",
  check: "check",
};

/** Starts the program; `address` is what it prints. */
export async function start(port = 0) {
  const child = spawn(process.env.PROGRAM, ["ui", "--port", String(port)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const address = await new Promise((done, failed) => {
    child.stdout.once("data", (line) => done(String(line).trim()));
    child.once("exit", () => failed(new Error("rigcast ui ended")));
  });
  const stop = () => {
    const ended = new Promise((done) => child.once("exit", done));
    child.kill("SIGINT");
    return ended;
  };
  return { address, stop };
}

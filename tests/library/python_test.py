#!/usr/bin/env python3
"""The Python module says what the program says: python_test.py, with rigcast on the path (or RIGCAST_PROGRAM)."""

import json
import os
import pickle
import subprocess
import threading
import unittest

import rigcast

PROGRAM = os.environ.get("RIGCAST_PROGRAM", "rigcast")
SCENARIO = {
    "rig": {"gpu": ["rtx-3060-12gb"]},
    "model": {"name": "llama-3.1-8b", "quant": "Q6_K"},
    "workload": {"context": 8192},
}
WORDS = ["--gpu", "rtx-3060-12gb", "--model", "llama-3.1-8b", "--quant", "Q6_K", "--context", "8192"]


def program(*words):
    return subprocess.run([PROGRAM, "simulate", *words, "--format", "json"], capture_output=True, text=True)


class Forecast(unittest.TestCase):
    def test_is_what_the_program_prints(self):
        report = rigcast.forecast(SCENARIO)
        self.assertEqual(report, json.loads(program(*WORDS, "--no-advice").stdout))
        self.assertEqual(report["schema"], "rigcast.report/1")

    def test_options_are_those_of_the_program(self):
        report = rigcast.forecast(SCENARIO, positions=[0, 4000], by_context=True, advice=True)
        printed = program(*WORDS, "--positions", "0,4000", "--by-context")
        self.assertEqual(json.dumps(report), json.dumps(json.loads(printed.stdout)))

    def test_takes_the_text_of_a_scenario_file(self):
        text = '[rig]\ngpu = ["rtx-3060-12gb"]\n[model]\nname = "llama-3.1-8b"\nquant = "Q6_K"\n[workload]\ncontext = 8192\n'
        self.assertEqual(rigcast.forecast(text), rigcast.forecast(SCENARIO))

    def test_errors_are_exceptions_with_the_same_text(self):
        with self.assertRaises(rigcast.ForecastError) as raised:
            rigcast.forecast({"rig": {"gpu": ["rtx-3061"]}, "model": {"name": "x"}})
        error = raised.exception
        printed = program("--set", 'rig.gpu=["rtx-3061"]', "--model", "x")
        self.assertEqual(printed.stderr, f"rigcast: --set {error}\n")
        self.assertEqual((error.kind, error.key), ("bad_input", "rig.gpu"))
        self.assertIn("did you mean", error.hint)
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))

    def test_what_does_not_fit_is_an_answer(self):
        large = {"rig": {"gpu": ["rtx-3060-12gb"], "ram_capacity": "16 GiB"}, "model": {"name": "llama-3.1-405b"},
                 "placement": {"gpu_layers": 126}}
        self.assertFalse(rigcast.forecast(large)["fits"])

    def test_threads_forecast_at_the_same_time(self):
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(rigcast.forecast(SCENARIO))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [rigcast.forecast(SCENARIO)] * 4)

    def test_other_threads_run_meanwhile(self):
        done = threading.Event()
        turns = 0

        def ask():
            rigcast.forecast(SCENARIO | {"load": {"preset": "chat"}, "workload": {"context": 8192, "users": 4}})
            done.set()

        thread = threading.Thread(target=ask)
        thread.start()
        while not done.wait(0.01):
            turns += 1
        thread.join()
        self.assertGreater(turns, 3)  # with the lock held there would be none

    def test_a_signal_ends_it(self):
        code = (
            "import os, signal, threading, rigcast\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it\n"
            "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "try:\n"
            "    while True: rigcast.forecast({'rig': {'gpu': ['rtx-4090']}, 'model': {'name': 'llama-3.1-8b'}}, exact=True)\n"
            "except KeyboardInterrupt: print('interrupted')\n"
        )
        ended = subprocess.run(["python3", "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.stdout, "interrupted\n", ended.stderr)


if __name__ == "__main__":
    unittest.main()

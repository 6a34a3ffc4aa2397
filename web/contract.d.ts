// What the views read of the program's answers (docs/report.md), for the type checker alone:
// nothing of this file is in a page. Answers have more keys than are named here.

declare const d3: {
  scaleLinear: typeof import("d3-scale").scaleLinear;
  scaleLog: typeof import("d3-scale").scaleLog;
  line: typeof import("d3-shape").line;
  area: typeof import("d3-shape").area;
};

/** What a page knows beside the answer. */
interface About {
  title: string;
  command: string;
  version: string;
  timelines: Timeline[];
  /** Alternatives come with the next answer. */
  waits?: boolean;
}

interface Timeline {
  /** resident, warm or cold; token: a step of the decode. */
  start: string;
  end_s: number;
  /** Spans are [from, to, what], in seconds; short gaps between them are drawn as busy. */
  lanes: { name: string; busy_s: number; spans: [number, number, string][] }[];
}

type Pair = [number, number];
interface Bound {
  resource: string;
  share: number;
}
interface Start {
  total_s: number;
  bound_by: Bound | null;
  breakdown_s: Record<string, number>;
}
interface Position {
  tokens: number;
  tokens_per_s: number;
  bound_by: string;
  spread?: Pair | null;
  interval?: Pair | null;
}
interface DeviceMemory {
  device: string;
  tier: "vram" | "ram" | "ssd";
  weights: number;
  kv: number;
  activations: number;
  staging: number;
  page_cache: number;
  overhead: number;
  total: number;
  capacity: number;
}
interface Cliff {
  axis: "position" | "context";
  at_tokens: number;
  before_tokens_per_s: number;
  after_tokens_per_s: number;
  until_tokens: number | null;
  cause: string;
  device: string;
}
interface Advice {
  change: string;
  tokens_per_s: number;
  ttft_s: number;
  gain: number;
  flags: string;
  loss_nats: number | null;
}
interface ScenarioFacts {
  rig: {
    name: string;
    gpu_names: string[];
    cpu_name: string;
    ram_name: string;
    ssd_name: string;
    pcie: string[];
    os: string;
  };
  model: { name: string; full_name: string; quant: string; layers: number; context: number };
  placement: { gpu_layers: number; cpu_moe_layers: number; cpu_ffn_layers: number };
  kv: { policy: string; type_k: string; type_v: string };
  runtime: { full_name: string; era: string; backend: string; threads: number };
  workload: {
    depth: number;
    prompt_tokens: number;
    output_tokens: number;
    context: number;
    start: string;
  };
}
interface ContextSpeed {
  context: number;
  fits: boolean;
  last_tokens_per_s: number | null;
}

interface Percentiles {
  mean: number;
  p50: number;
  p90: number;
  p95: number;
  p99: number | null;
}
interface ServingFigures {
  requests: number;
  left_out: number;
  duration_s: number;
  ttft_s: Percentiles;
  tpot_s: Percentiles;
  itl_s: Percentiles;
  e2e_s: Percentiles;
  throughput: {
    requests_per_s: number;
    output_tokens_per_s: number;
    prompt_tokens_per_s: number;
  };
  goodput: number | null;
  within_slo: number | null;
  queue: number;
  running: { mean: number; peak: number };
  kv: {
    capacity: number;
    mean: number;
    peak: number;
    hit_rate: number;
    preemptions: number;
  };
  busy: number;
  with_prompts: number;
  sequences_full: number;
  cache_full: number;
  step_full: number;
  bound_by: string;
  state: string;
}
interface Serving extends ServingFigures {
  load: string;
  interval: { fastest: ServingFigures | null; slowest: ServingFigures | null };
}

interface HourPoint {
  at_s: number;
  sessions: number;
  session_tokens: number;
  reclaim: string;
  tokens_per_s: number;
  interval: Pair;
  unpressed_tokens_per_s: number;
  disk_bytes_per_step: number;
  swap_bytes_per_step: number;
}

interface Report {
  schema: string;
  origin: "predicted" | "measured";
  scenario: ScenarioFacts;
  ttft: { resident: Start | null; warm: Start | null; cold: Start | null };
  longest_context: number;
  by_context: ContextSpeed[];
  outside_ram_bytes: number;
  prefill_tokens_per_s: number | null;
  decode: { tokens_per_s: number | null; by_position: Position[] };
  memory: DeviceMemory[];
  cliffs: Cliff[];
  hours?: { first_page_s: number | null; points: HourPoint[] };
  bottleneck: { prefill: Bound | null; decode: Bound | null };
  utilisation: Record<string, number | null>;
  interval: {
    tokens_per_s: Pair | null;
    ttft_s: Pair | null;
    prefill_tokens_per_s: Pair | null;
  };
  inputs: Record<string, number>;
  inputs_assumed: string[];
  correction: { runs: number } | null;
  serving: Serving | null;
  measured: { runs: number; read_bytes_per_s: number; ceiling_bytes_per_s: number | null } | null;
  advice: Advice[];
  fits: boolean;
  errors: string[];
  warnings: string[];
}

interface Choice {
  what: string;
  report: Report;
  quality: { loss_nats: number; kind: string; within_factor: number };
  first_token_s: number;
  request_s: number;
  turn_s: number;
  unmet: string;
  on_front: boolean;
  knee: boolean;
  commands: Record<string, string | string[] | null>;
}
interface Plan {
  options: number;
  too_large: number;
  choices: Choice[];
  rejected: { what: string; reason: string }[];
  fits: boolean;
  reason: string | null;
  would_fit: string | null;
}

interface ComparedModel {
  model: string;
  fits: boolean | null;
  max_loss_nats: number | null;
  plan: string | null;
  loss_nats: number | null;
  first_token_s: number | null;
  turn_s: number | null;
  unmet: string | null;
  lack: string | null;
  report: Report | null;
}
interface ComparedRig {
  rig: string;
  usd: number | null;
  watts: number | null;
  qualifies: boolean;
  price: {
    parts: { part: string; usd: number; kind: string; date: string | null; source: string }[];
    unpriced: string[];
  };
  models: ComparedModel[];
}
interface Comparison {
  price_of: string;
  budget_usd: number | null;
  beyond_budget: number;
  verdict: string;
  ties: string[];
  rigs: ComparedRig[];
}

interface CapacityPoint extends ServingFigures {
  users?: number;
  rate?: number;
}
interface Capacity {
  rig: string;
  model: string;
  quant: string;
  runtime: string;
  load: string;
  slo: string;
  users: number | null;
  rate: number | null;
  interval: [number | null, number | null];
  limited_by: string;
  limited_at: number | null;
  curve: CapacityPoint[];
  changes: { flags: string; users?: number; rate?: number }[];
  command: string;
  notes: string[];
  warnings: string[];
}

interface ValidationRow {
  id: string;
  rig: string;
  regime: string;
  metric: string;
  predicted: number;
  measured: number;
  error: number;
  interval: Pair | null;
  inside: boolean | null;
  counted: boolean;
  load?: string;
}
interface ValidationSummary {
  metric: string;
  regime: string;
  n: number;
  chips: number;
  median_abs_error: number;
  p90_abs_error: number;
  bias: number;
  coverage: number | null;
}
interface Remark {
  id: string;
  reason: string;
}
interface BarVerdict {
  label: string;
  metric: string;
  runs: number;
  median_abs_error: number;
  worst: { id: string; error: number };
  allowed_median: number | null;
  allowed_inside: number | null;
  allowed_worst: number | null;
  median_holds: boolean;
  worst_holds: boolean;
  inside_holds: boolean;
}
interface Validation {
  rows: ValidationRow[];
  summary: ValidationSummary[];
  activities: {
    phase: string;
    kind: string;
    predicted_s: number;
    measured_s: number;
    error: number;
  }[];
  skipped: Remark[];
  notes: Remark[];
  bars?: BarVerdict[];
}

/** `keys` are the swept ones, the first of `columns`; a row has a value for each column. */
type Cell = string | number | boolean | null;
interface Sweep {
  keys: string[];
  columns: string[];
  rows: Cell[][];
}

/** Of `capacity` for several machines, `plan` and `compare` with a load. */
interface Way {
  what: string;
  quant: string;
  serves: number;
  interval: [number | null, number | null];
  limited_by: string;
  loss_nats: number;
  command: string;
}
interface Fleet extends Partial<ServingFigures> {
  machines: number;
  interval: [number | null, number | null];
  share_of_server: number;
  meets_slo: boolean;
}
interface RigLoad {
  rig: string;
  usd_of_machine: number | null;
  watts: number | null;
  way: Way | null;
  why_not: string | null;
  notes: string[];
  usd_each: number | null;
  fleet?: Fleet | null;
  usd?: number | null;
  qualifies?: boolean;
}
interface RigLoads {
  schema: string;
  model: string;
  load: string;
  slo: string;
  price_of: string;
  unit: string;
  verdict: string;
  users?: number | null;
  rate?: number | null;
  budget_usd?: number | null;
  rigs: RigLoad[];
}
interface LoadChoice extends Way {
  usd: number | null;
  fleet: Fleet | null;
}
interface LoadPlan {
  rig: string;
  model: string;
  runtime: string;
  load: string;
  slo: string;
  users: number | null;
  rate: number | null;
  too_large: number;
  choices: LoadChoice[];
  notes: string[];
  warnings: string[];
}

interface HTMLElement {
  /** Draws a chart anew, as after a change of what it shows. */
  redraw?: () => void;
}

"use strict";
/* Speed over the hours of a timeline: where memory fills, and what pays. */

/** @type {Record<string, string>} */
const PAYS = {
  fits: "all fits",
  files: "weights are read again from the disk",
  swap: "what is no file is swapped",
  both: "weights are read again, some of the cache is swapped",
  full: "no room: the system ends a process",
};

/** What pays at a moment. @param {HourPoint} p */
function paysText(p) {
  return p.sessions ? PAYS[p.reclaim] : "no session is open";
}

/** @param {number} seconds */
function hoursText(seconds) {
  const minutes = Math.round(seconds / 60);
  const rest = minutes % 60 ? `${minutes % 60} min` : "";
  if (minutes < 60) return rest || "0 min";
  return `${Math.floor(minutes / 60)} h ${rest}`.trim();
}

/** The moment nearest to an hour. @param {HourPoint[]} points @param {number} hour
    @returns {ReturnType<Cursor["read"]>} */
function momentAt(points, hour) {
  const far = (/** @type {HourPoint} */ p) => Math.abs(p.at_s / 3600 - hour);
  const p = points.reduce((a, b) => (far(b) < far(a) ? b : a));
  const words = `${figure(p.tokens_per_s)} tok/s`;
  const sessions = `${count(p.sessions)} × ${count(p.session_tokens)} tokens`;
  return {
    x: p.at_s / 3600,
    y: p.tokens_per_s,
    spoken: `${hoursText(p.at_s)}: ${words}, ${paysText(p)}`,
    parts: [
      el("span", {}, el("b", {}, words), ` after ${hoursText(p.at_s)}`),
      sessions,
      paysText(p),
    ],
  };
}

/** @param {Report} r */
function hoursPanel(r) {
  if (!r.hours || r.hours.points.length < 2) return null;
  const { points, first_page_s: first } = r.hours;
  const last = points[points.length - 1];
  const xMax = Math.max(last.at_s / 3600, 1e-3);
  const drawing = curve({
    summary: `Speed of each session over ${hoursText(last.at_s)}: from ${figure(
      points[0].tokens_per_s,
    )} to ${figure(last.tokens_per_s)} tokens per second.`,
    xName: "hours",
    yName: "tok/s",
    xMax,
    series: [{ class: "speed", points: points.map((p) => [p.at_s / 3600, p.tokens_per_s]) }],
    band: points.map((p) => [p.at_s / 3600, p.interval[0], p.interval[1]]),
    verticals:
      first === null ? [] : [{ x: first / 3600, name: "memory is full", under: hoursText(first) }],
    cursor: {
      value: xMax,
      max: xMax,
      step: xMax / 128,
      label: "Hours",
      read: (hour) => momentAt(points, hour),
    },
  });
  const table = smallTable(
    "Speed over hours",
    [
      "after",
      "#sessions",
      "#tokens",
      "#tok/s",
      "#GB from disk a step",
      "#GB from swap",
      "what pays",
    ],
    points.map((p) => [
      hoursText(p.at_s),
      count(p.sessions),
      count(p.session_tokens),
      figure(p.tokens_per_s),
      p.disk_bytes_per_step ? figure(p.disk_bytes_per_step / 1e9) : "-",
      p.swap_bytes_per_step ? figure(p.swap_bytes_per_step / 1e9) : "-",
      paysText(p),
    ]),
  );
  return card("Over hours", "speed of each session", drawing, more("As a table", table));
}

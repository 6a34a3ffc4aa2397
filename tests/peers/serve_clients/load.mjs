// A load by autocannon: node load.mjs URL MODEL KEY
import assert from 'node:assert/strict';
import autocannon from 'autocannon';

const [url, model, key] = process.argv.slice(2);
const result = await autocannon({
  url: `${url}/v1/completions`,
  method: 'POST',
  headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
  body: JSON.stringify({ model, prompt: 'Hello', max_tokens: 8, ignore_eos: true }),
  connections: 8,
  amount: 64,
  timeout: 60,
});
assert.equal(result.errors + result.timeouts, 0);
assert.equal(result['2xx'], 64);
assert.equal(result.non2xx, 0);
console.log(`autocannon: 64 requests of 8 clients, latency p50 ${result.latency.p50} ms, ` +
            `p99 ${result.latency.p99} ms`);

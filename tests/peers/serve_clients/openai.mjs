// OpenAI's client library against a server: node openai.mjs URL MODEL KEY
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const [url, model, key] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Hello' },
];

const models = await client.models.list();
assert.deepEqual(models.data.map((m) => m.id), [model]);

const sampling = { model, max_tokens: 12, temperature: 0 };
const whole = await client.chat.completions.create({ ...sampling, messages });
assert.equal(whole.choices[0].message.role, 'assistant');
assert.ok(['stop', 'length'].includes(whole.choices[0].finish_reason));
assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);

// The same in a stream.
let text = '';
let usage = null;
const stream = await client.chat.completions.create({
  ...sampling, messages, stream: true, stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta?.content ?? '';
  usage = chunk.usage ?? usage;
}
assert.equal(text, whole.choices[0].message.content);
assert.equal(usage.completion_tokens, whole.usage.completion_tokens);

const completion = await client.completions.create({ ...sampling, prompt: 'Once upon a time' });
assert.ok(completion.usage.completion_tokens > 0);
// An answer ends before a stop.
const stop = completion.choices[0].text.slice(3, 5);
if (stop.length === 2) {
  const cut = await client.completions.create({ ...sampling, prompt: 'Once upon a time', stop });
  const at = completion.choices[0].text.indexOf(stop);
  assert.equal(cut.choices[0].text, completion.choices[0].text.slice(0, at));
  assert.equal(cut.choices[0].finish_reason, 'stop');
}

// Errors are those that the library knows.
await assert.rejects(client.chat.completions.create({ ...sampling, messages, n: 2 }), (e) =>
  e instanceof OpenAI.BadRequestError && e.param === 'n');
await assert.rejects(client.chat.completions.create({ ...sampling, model: 'other', messages }),
  OpenAI.NotFoundError);
if (key !== 'none') {
  const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'other', maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
}

// Who leaves within a stream does not keep the engine.
const left = await client.completions.create({
  model, prompt: 'Once', max_tokens: 400, stream: true, ignore_eos: true,
});
for await (const chunk of left) {
  assert.ok(chunk.id);
  left.controller.abort();
  break;
}
const headers = { Authorization: `Bearer ${key}` };
const metric = async (name) => {
  const page = await (await fetch(`${url}/metrics`, { headers })).text();
  return Number(page.split('\n').find((line) => line.startsWith(name)).split(' ')[1]);
};
for (let i = 0; (await metric('rigcast_requests_running')) > 0; ++i) {
  assert.ok(i < 200, 'the request that was left still runs');
  await new Promise((done) => setTimeout(done, 50));
}
assert.ok((await metric('rigcast_requests_total{outcome="cancelled"}')) >= 1);
console.log(`openai: chats, streams, completions, errors and an abort as they should be`);

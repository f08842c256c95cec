// SPDX-License-Identifier: Apache-2.0
// tiktoken under node, as coproc.py wants it: one line of JSON when it is
// ready, then for each number of seconds it reads, one with what it did.
//
// usage: node peer_tiktoken.mjs MODULES FILE...
import { createRequire } from 'node:module';
import fs from 'node:fs';
import readline from 'node:readline';

const [modules, ...files] = process.argv.slice(2);
const { get_encoding } = createRequire(modules + '/x.js')('tiktoken');
const encoding = get_encoding('r50k_base');
const texts = files.flatMap(
	(f) => fs.readFileSync(f, 'utf8').split('\0'));
const bytes = texts.reduce((n, t) => n + Buffer.byteLength(t), 0);
const now = () => Number(process.hrtime.bigint()) / 1e9;

function pass() {
	let ids = 0;
	for (const t of texts)
		ids += encoding.encode_ordinary(t).length;
	return ids;
}

const ids = pass();
console.log(JSON.stringify({ first_batch_at: now(), bytes, ids }));
for await (const line of readline.createInterface({ input: process.stdin })) {
	const start = now();
	let done = 0;
	do {
		pass();
		done += bytes;
	} while (now() - start < Number(line));
	console.log(JSON.stringify({ bytes: done, seconds: now() - start }));
}

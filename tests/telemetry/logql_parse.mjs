// Reads a JSON list of queries, prints a JSON list: does each parse without an error node?
import { parser } from '@grafana/lezer-logql';

let text = '';
for await (const piece of process.stdin) text += piece;
const verdicts = JSON.parse(text).map((query) => {
  let ok = true;
  parser.parse(query).iterate({ enter: (node) => { if (node.type.isError) ok = false; } });
  return ok;
});
console.log(JSON.stringify(verdicts));

// What the programs for Node.js share: run steps by name, and print one line of JSON for each.
const LIMIT = 20000; // milliseconds: clients retry for ever where a broker refuses what they send

class Absent extends Error {}

const late = () =>
  new Promise((_, reject) => setTimeout(() => reject(new Error(`no end within ${LIMIT / 1000} s`)), LIMIT));

async function run(steps) {
  const [bootstrap, sasl, runId, ...names] = process.argv.slice(2);
  for (const name of names) {
    const mechanism = name.startsWith("sasl-") ? name.slice(5) : null;
    const step = steps[mechanism ? "sasl" : name];
    const address = name === "tls" ? process.env.TLS_BOOTSTRAP : mechanism ? sasl : bootstrap;
    if (name === "steady") await step(address, runId, `${runId}.${name}`); // it ends with the process
    let line = { step: name, fate: "works" };
    try {
      await Promise.race([step(address, runId, `${runId}.${name}`, mechanism), late()]);
    } catch (error) {
      line = { step: name, fate: error instanceof Absent ? "absent" : "fails", why: String(error.message || error) };
    }
    console.log(JSON.stringify(line).replace('{"step":', '{"step": '));
  }
  process.exit(0);
}

module.exports = { run, Absent };

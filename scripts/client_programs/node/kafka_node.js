// The steps with kafka-node, which is found by NODE_PATH.
const fs = require("fs");
const { Admin, ConsumerGroup, KafkaClient, Offset, Producer } = require("kafka-node");
const { promisify } = require("util");
const { run } = require("./steps.js");

const settings = (kafkaHost) => ({ kafkaHost, connectTimeout: 8000, requestTimeout: 8000, connectRetryOptions: { retries: 2 } });
const client = (bootstrap, clientId) => new KafkaClient({ ...settings(bootstrap), clientId });

const ready = (found) =>
  new Promise((resolve, reject) => {
    found.once("ready", () => resolve(found));
    found.on("error", reject);
  });

// Run consumers of one group until enough is true of the records and of the partitions of each.
async function consuming(bootstrap, groupId, topic, count, enough, then = async () => {}) {
  const seen = { records: 0, assigned: Array(count).fill(0) };
  const members = seen.assigned.map((_, at) => {
    const options = { ...settings(bootstrap), id: groupId, groupId, fromOffset: "earliest", autoCommit: false };
    const member = new ConsumerGroup({ ...options, sessionTimeout: 6000, heartbeatInterval: 500 }, [topic]);
    member.on("message", () => { seen.records += 1; });
    member.on("error", (error) => { seen.failed = error; });
    member.on("rebalanced", () => { seen.assigned[at] = member.topicPayloads.length; });
    return member;
  });
  for (const end = Date.now() + 12000; Date.now() < end && !enough(seen) && !seen.failed; ) await new Promise((go) => setTimeout(go, 50));
  if (enough(seen) && !seen.failed) await then(members[0]);
  members.forEach((member) => member.close(() => {}));
  if (seen.failed) throw seen.failed;
  if (!enough(seen)) throw new Error(`${seen.records} records, the members have ${seen.assigned} partitions`);
}

run({
  produce: async (b, t, c) => {
    const producer = await ready(new Producer(client(b, c), { requireAcks: -1 }));
    await promisify(producer.send.bind(producer))([{ topic: t, messages: ["v", "v", "v"] }]);
  },
  consume: (b, t, c) => consuming(b, c, t, 1, (seen) => seen.records >= 3),
  rebalance: (b, t, c) => consuming(b, c, t, 2, (seen) => seen.assigned.join() === "1,1"),
  commit: async (b, t, c) => {
    await consuming(b, c, t, 1, (seen) => seen.records >= 3, (member) => promisify(member.commit.bind(member))(true));
    const offset = await ready(new Offset(client(b, c)));
    const found = await promisify(offset.fetchCommits.bind(offset))(c, [0, 1].map((partition) => ({ topic: t, partition })));
    if (!Object.values(found[t]).some((at) => at > 0)) throw new Error(`committed offsets are ${JSON.stringify(found)}`);
  },
  offsets: async (b, t, c) => {
    const offset = await ready(new Offset(client(b, c)));
    const found = await promisify(offset.fetch.bind(offset))([{ topic: t, partition: 0, time: -1, maxNum: 1 }]);
    if (found[t][0][0] < 3) throw new Error(`offsets ${JSON.stringify(found)}`);
  },
  // Copy records and commit their offsets until the process ends.
  steady: async (b, t, c) => {
    const producer = await ready(new Producer(client(b, c), { requireAcks: -1 }));
    const options = { ...settings(b), id: c, groupId: c, fromOffset: "earliest", sessionTimeout: 6000, heartbeatInterval: 500, autoCommitIntervalMs: 500 };
    const member = new ConsumerGroup(options, [t]);
    member.on("message", ({ value }) => producer.send([{ topic: `${t}-out`, messages: [value] }], (error) => { if (error) console.error(error); }));
    member.on("error", console.error);
    producer.on("error", console.error);
    await new Promise(() => {});
  },
  tls: async (b, t, c) => {
    const trusted = { ...settings(b), clientId: c, sslOptions: { ca: [fs.readFileSync(process.env.TLS_CA, "utf8")] } };
    const producer = await ready(new Producer(new KafkaClient(trusted), { requireAcks: -1 }));
    await promisify(producer.send.bind(producer))([{ topic: t, messages: ["v"] }]);
  },
  admin: async (b, t, c) => {
    const admin = await ready(new Admin(client(b, c)));
    await promisify(admin.createTopics.bind(admin))([{ topic: `${t}-admin`, partitions: 1, replicationFactor: 1 }]);
  },
});

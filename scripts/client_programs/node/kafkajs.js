// The steps with kafkajs, which is found by NODE_PATH.
const fs = require("fs");
const { Kafka, logLevel, CompressionTypes } = require("kafkajs");
const { run } = require("./steps.js");

const VERSION = parseInt(require("kafkajs/package.json").version, 10);
const [USER, PASSWORD] = ["featuregate", "featuregate-secret"];

const client = (bootstrap, clientId, more = {}) =>
  new Kafka({ brokers: [bootstrap], clientId, logLevel: logLevel.NOTHING, retry: { retries: 3 }, requestTimeout: 8000, ...more });

function login(mechanism) {
  if (mechanism !== "OAUTHBEARER") return { mechanism: mechanism.toLowerCase(), username: USER, password: PASSWORD };
  const now = Math.floor(Date.now() / 1000);
  const parts = [{ alg: "none" }, { sub: USER, iat: now - 60, exp: now + 600 }];
  const value = [...parts.map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")), ""].join(".");
  return { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value }) };
}

// Repeat an admin call while the broker has not heard of the new topic yet.
async function retried(call) {
  for (const end = Date.now() + 5000; ; await new Promise((go) => setTimeout(go, 100))) {
    try {
      return await call();
    } catch (error) {
      if (!/does not host/.test(error.message) || Date.now() > end) throw error;
    }
  }
}

async function send(kafka, topic) {
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  await producer.send({ topic, messages: [{ value: "v" }, { value: "v" }, { value: "v" }] });
  await producer.disconnect();
}

// Run consumers of one group until enough is true of what they have seen.
async function consuming(kafka, groupId, topic, members, enough) {
  const seen = { records: 0, assigned: members.map(() => 0) };
  const consumers = members.map(() => kafka.consumer({ groupId, sessionTimeout: 6000, rebalanceTimeout: 8000, heartbeatInterval: 500 }));
  let failed;
  try {
    await Promise.all(
      consumers.map(async (consumer, at) => {
        consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
          seen.assigned[at] = (payload.memberAssignment[topic] || []).length;
        });
        consumer.on(consumer.events.CRASH, ({ payload }) => { failed = payload.error; });
        await consumer.connect();
        await consumer.subscribe({ topic, fromBeginning: true });
        await consumer.run({ eachMessage: async () => { seen.records += 1; } });
      }),
    );
    for (const end = Date.now() + 12000; Date.now() < end && !enough(seen) && !failed; ) await new Promise((go) => setTimeout(go, 50));
    if (failed) throw failed;
    if (!enough(seen)) throw new Error(`${seen.records} records, the members have ${seen.assigned} partitions`);
  } finally {
    await Promise.all(consumers.map((consumer) => consumer.disconnect().catch(() => {})));
  }
}

run({
  produce: (b, t, c) => send(client(b, c), t),
  consume: (b, t, c) => consuming(client(b, c), c, t, [0], (seen) => seen.records >= 3),
  rebalance: (b, t, c) => consuming(client(b, c), c, t, [0, 1], (seen) => seen.assigned.join() === "1,1"),
  commit: async (b, t, c) => {
    const admin = client(b, c).admin();
    await admin.connect();
    await admin.setOffsets({ groupId: c, topic: t, partitions: [{ partition: 0, offset: "1" }] });
    const found = JSON.stringify(await admin.fetchOffsets(VERSION < 2 ? { groupId: c, topic: t } : { groupId: c, topics: [t] }));
    await admin.disconnect();
    if (!found.includes('"offset":"1"')) throw new Error(`committed offsets are ${found}`);
  },
  offsets: async (b, t, c) => {
    const admin = client(b, c).admin();
    await admin.connect();
    const [first] = await admin.fetchTopicOffsets(t);
    await admin.disconnect();
    if (first.low !== "0" || Number(first.high) < 3) throw new Error(`offsets ${first.low}, ${first.high}`);
  },
  admin: async (b, t, c) => {
    const admin = client(b, c).admin();
    await admin.connect();
    const topic = `${t}-admin`;
    await retried(() => admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 1 }] }));
    if (admin.createPartitions) // 1.12 has none
      await retried(() => admin.createPartitions({ topicPartitions: [{ topic, count: 2 }] }));
    await retried(() => admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: topic }] }));
    await retried(() => admin.deleteTopics({ topics: [topic] }));
    await admin.disconnect();
  },
  transactions: async (b, t, c) => {
    const producer = client(b, c).producer({ transactionalId: c, maxInFlightRequests: 1, idempotent: true });
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic: `${t}-out`, messages: [{ value: "v" }] });
    await transaction.sendOffsets({ consumerGroupId: c, topics: [{ topic: t, partitions: [{ partition: 0, offset: "1" }] }] });
    await transaction.commit();
    await producer.disconnect();
  },
  // Copy records and commit their offsets until the process ends.
  steady: async (b, t, c) => {
    const kafka = client(b, c, { retry: { retries: 100, maxRetryTime: 1000 } });
    const producer = kafka.producer({ allowAutoTopicCreation: false });
    await producer.connect();
    const consumer = kafka.consumer({ groupId: c, sessionTimeout: 6000, rebalanceTimeout: 8000, heartbeatInterval: 500, metadataMaxAge: 1000 });
    await consumer.connect();
    await consumer.subscribe({ topic: t, fromBeginning: true });
    const eachMessage = async ({ message }) => { await producer.send({ topic: `${t}-out`, messages: [{ value: message.value }] }); };
    await consumer.run({ autoCommitThreshold: 1, eachMessage });
    await new Promise(() => setInterval(() => {}, 1000));
  },
  tls: (b, t, c) => send(client(b, c, { ssl: { ca: [fs.readFileSync(process.env.TLS_CA, "utf8")] } }), t),
  sasl: (b, t, c, mechanism) =>
    send(client(b, c, { sasl: login(mechanism) }), `${t}-sasl`),
});

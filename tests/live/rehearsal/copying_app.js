// The same app as copying_app.py, in another language.
const { Kafka, logLevel } = require("kafkajs");

const kafka = new Kafka({ brokers: process.env.BOOTSTRAP_SERVERS.split(","), logLevel: logLevel.NOTHING });

async function main() {
  const producer = kafka.producer();
  const consumer = kafka.consumer({ groupId: "copies" });
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message }) => {
      await producer.send({ topic: "bills", messages: [{ key: message.key, value: message.value }] });
    },
  });
}

main();

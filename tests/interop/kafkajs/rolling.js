// A producer and a consumer as they come, at work until the input ends. Then: how many records were acknowledged, what
// was read, and every error that either was told, as one line of JSON. Arguments: servers, topic.
const { Kafka, logLevel } = require("kafkajs");

const [servers, topic] = process.argv.slice(2);
const PAUSE_MS = 5;
const CATCH_UP_MS = 60_000;
const kafka = new Kafka({ brokers: servers.split(","), logLevel: logLevel.NOTHING });
const received = [];
const errors = [];
let acknowledged = 0;
let stopping = false;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function produce() {
  const producer = kafka.producer();
  await producer.connect();
  for (let number = 0; !stopping; number++) {
    try {
      await producer.send({ topic, messages: [{ key: `key ${number % 20}`, value: String(number) }] });
      acknowledged++;
    } catch (error) {
      errors.push(`producer: ${error}`);
    }
    await pause(PAUSE_MS);
  }
  await producer.disconnect();
}

async function consume() {
  const consumer = kafka.consumer({ groupId: `${topic}-readers` });
  consumer.on(consumer.events.CRASH, ({ payload }) => errors.push(`consumer: ${payload.error}`));
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      received.push([partition, Number(message.offset), Number(message.value.toString())]);
    },
  });
  return consumer;
}

async function main() {
  const consumer = await consume();
  const producing = produce();
  console.log("running");
  process.stdin.resume();
  await new Promise((resolve) => process.stdin.on("end", resolve));
  stopping = true;
  await producing;
  const deadline = Date.now() + CATCH_UP_MS;
  while (new Set(received.map((row) => row[2])).size < acknowledged && Date.now() < deadline) await pause(100);
  await consumer.disconnect();
  console.log(JSON.stringify({ acknowledged, received, errors }));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);

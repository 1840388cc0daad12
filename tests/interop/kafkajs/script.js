// What a client does in its life, and what it saw of it, as one line of JSON. Arguments: servers, a name, first ms.
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require("kafkajs");

const [servers, name, first] = process.argv.slice(2);
const beginMs = Number(first);
const topic = `${name}-orders`;
const groupId = `${name}-readers`;
const RECORDS = 60;
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };

const kafka = new Kafka({ brokers: servers.split(","), clientId: name, logLevel: logLevel.NOTHING });
const admin = kafka.admin();
const seen = {};

const text = (bytes) => (bytes === null || bytes === undefined ? null : bytes.toString());
const byPartition = (rows, value) =>
  Object.fromEntries(rows.map((row) => [row.partition, value(row)]).sort(([one], [other]) => one - other));

async function failure(work) {
  try {
    await work();
    return "none";
  } catch (error) {
    const [cause] = error.errors || [error.cause && error.cause.type ? error.cause : error];
    return cause.type || cause.name;
  }
}

async function create() {
  const wanted = { topic, numPartitions: 3, configEntries: [{ name: "retention.ms", value: "86400000" }] };
  await admin.createTopics({ topics: [wanted] });
  seen.again = await admin.createTopics({ topics: [wanted] });
  seen.partitions = await partitions(3);
}

// A broker may hear of it a moment after the controller has said that it is done.
async function partitions(wanted) {
  const count = async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length;
  await until(async () => (await failure(count)) === "none" && (await count()) === wanted);
  return wanted;
}

function record(codec, index) {
  const key = index % 5 === 0 ? null : `key-${index % 7}`;
  return {
    key,
    partition: key === null ? index % 3 : undefined,
    value: index % 11 === 0 ? null : `${codec} ${index}`,
    timestamp: String(beginMs + index),
    headers: index % 2 === 0 ? { codec, empty: "" } : {},
  };
}

async function produce() {
  const producer = kafka.producer();
  await producer.connect();
  const places = [];
  for (const [codec, compression] of Object.entries(CODECS)) {
    const messages = Array.from({ length: RECORDS }, (_, index) => record(codec, index));
    const sent = await producer.send({ topic, compression, messages });
    places.push(...sent.map((each) => [each.partition, each.baseOffset]));
  }
  seen.places = places.sort();
  await producer.disconnect();
  const hasty = kafka.producer({ retry: { retries: 0 } });
  await hasty.connect();
  seen["too large"] = await failure(() => hasty.send({ topic, messages: [{ value: "x".repeat(2_080_000) }] }));
  await hasty.disconnect();
}

async function consume() {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 200, maxWaitTimeInMs: 200 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const found = [];
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({
      autoCommit: true,
      eachMessage: async ({ partition, message }) => {
        const headers = Object.fromEntries(Object.entries(message.headers).map(([key, value]) => [key, text(value)]));
        const age = Number(message.timestamp) - beginMs;
        found.push([partition, Number(message.offset), text(message.key), text(message.value), age, headers]);
        if (found.length === RECORDS * Object.keys(CODECS).length) resolve();
      },
    });
  });
  seen["group while it reads"] = await described();
  await consumer.disconnect();
  seen.records = found.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  seen["group afterwards"] = await described();
  seen.committed = await committed();
}

async function described() {
  const { groups } = await admin.describeGroups([groupId]);
  return `${groups[0].state} ${groups[0].members.length} ${groups[0].protocol}`;
}

async function committed() {
  const [{ partitions: rows }] = await admin.fetchOffsets({ groupId, topics: [topic] });
  return byPartition(rows, (row) => Number(row.offset));
}

async function lookUp() {
  const offsets = await admin.fetchTopicOffsets(topic);
  seen.earliest = byPartition(offsets, (row) => Number(row.low));
  seen.latest = byPartition(offsets, (row) => Number(row.high));
  const found = await admin.fetchTopicOffsetsByTimestamp(topic, beginMs + 30);
  seen["at a time"] = byPartition(found, (row) => Number(row.offset));
}

// Two members of one group share the partitions; who leaves gives them back.
async function share() {
  const assigned = { one: 0, other: 0 };
  const members = [];
  for (const member of Object.keys(assigned)) {
    const consumer = kafka.consumer({ groupId, heartbeatInterval: 200, maxWaitTimeInMs: 200 });
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      assigned[member] = (payload.memberAssignment[topic] || []).length;
    });
    await consumer.connect();
    await consumer.subscribe({ topic });
    consumer.run({ eachMessage: async () => {} });
    members.push(consumer);
  }
  await until(() => assigned.one > 0 && assigned.other > 0 && assigned.one + assigned.other === 3);
  seen.shared = [assigned.one + assigned.other];
  await members[1].disconnect();
  await until(() => assigned.one === 3);
  seen["alone again"] = assigned.one;
  await members[0].disconnect();
}

async function until(condition) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20));
}

async function administer() {
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
  await admin.alterConfigs({
    validateOnly: false,
    resources: [{ ...resource, configEntries: [{ name: "retention.ms", value: "172800000" }] }],
  });
  const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [resource] });
  const entry = resources[0].configEntries.find((each) => each.configName === "retention.ms");
  seen.retention = `${entry.configValue} ${entry.configSource}`;
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "7" }] });
  seen.trimmed = byPartition(await admin.fetchTopicOffsets(topic), (row) => Number(row.low));
  await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] });
  seen.grown = await partitions(5);
  await admin.setOffsets({ groupId, topic, partitions: [{ partition: 1, offset: "3" }] });
  seen["set back"] = await committed();
  await admin.deleteGroups([groupId]);
  seen["group gone"] = await described();
  await admin.deleteTopics({ topics: [topic] });
  const describe = () => admin.fetchTopicMetadata({ topics: [topic] });
  await until(async () => (await failure(describe)) !== "none");
  seen["topic gone"] = await failure(describe);
}

async function main() {
  await admin.connect();
  for (const step of [create, produce, consume, lookUp, share, administer]) await step();
  await admin.disconnect();
  console.log(JSON.stringify(seen));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);

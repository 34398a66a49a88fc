// A client of Hightide in Node, made of nothing but the contract in protos/: it creates a topic, writes records, reads
// them back, and reads them once more as a member of a consumer group.
import {parseArgs} from "node:util";

import grpc from "@grpc/grpc-js";

import {Cluster} from "./cluster.js";
import {call} from "./contract.js";
import {Member} from "./member.js";

const PARTITIONS = 4;

const {values: options} = parseArgs({
  options: {
    bootstrap: {type: "string", default: "127.0.0.1:9092"}, // the host:port of any broker
    topic: {type: "string", default: "from-node"}, // the topic to create, write and read
    group: {type: "string", default: "from-node"}, // the consumer group to join
    records: {type: "string", default: "100"}, // how many records to write
    read: {type: "string"}, // how many records to read as a member of the group; default: as many as it writes
  },
});

// Asks the controller for a topic with three replicas. One that exists already is fine.
async function createTopic(cluster, topic) {
  const request = {topic, partition_count: PARTITIONS, replication_factor: 3};
  try {
    await cluster.retry(topic, () => call(cluster.controller(), "CreateTopic", request));
  } catch (error) {
    if (error.code !== grpc.status.ALREADY_EXISTS) throw error;
  }
}

// Writes numbered records to all partitions in turn. Returns the offset of the first one in each.
// A call that is made again after it failed may write its records twice: only Produce has idempotent producers.
async function produce(cluster, topic, count) {
  const batches = Array.from({length: PARTITIONS}, () => []);
  for (let number = 0; number < count; number++) {
    batches[number % PARTITIONS].push({key: Buffer.from(`${number}`), value: Buffer.from(`record ${number}`)});
  }
  const writes = batches.map(async (records, partition) => {
    if (!records.length) return 0;
    const request = {topic, partition, records, acks: "ACKS_ALL"};
    const write = () => call(cluster.leader(topic, partition), "ProduceRecords", request);
    return (await cluster.retry(topic, write)).base_offset;
  });
  return Promise.all(writes);
}

// Reads `count` records from the leaders of all partitions, from the given offsets on.
async function fetch(cluster, topic, first, count) {
  const next = [...first];
  let fetched = 0;
  for (let partition = 0; fetched < count; partition = (partition + 1) % PARTITIONS) {
    const answer = await cluster.fetchRecords(topic, partition, next[partition], 100);
    fetched += answer.records.length;
    next[partition] = answer.next_offset;
  }
  return fetched;
}

// Joins a group, reads `count` records from where the group is, and leaves.
async function readAsMember(cluster, group, topic, count) {
  const member = await Member.join(cluster, group, topic);
  let read = 0;
  while (read < count) {
    const records = await member.poll();
    read += records.length; // Whatever a program does with records, it does it here, before it polls again.
  }
  await member.leave();
  return read;
}

const {bootstrap, topic, group} = options;
const count = Number(options.records);
const until = Number(options.read ?? options.records);
const cluster = new Cluster(bootstrap);
try {
  await createTopic(cluster, topic);
  console.log(`created ${topic}`);
  const first = await produce(cluster, topic, count);
  console.log(`produced ${count} records`);
  console.log(`fetched ${await fetch(cluster, topic, first, count)} records`);
  console.log(`the group has read ${await readAsMember(cluster, group, topic, until)} records`);
} finally {
  cluster.close();
}

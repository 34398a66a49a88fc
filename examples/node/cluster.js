import {setTimeout as sleep} from "node:timers/promises";

import grpc from "@grpc/grpc-js";

import {call, v1} from "./contract.js";

// Reasons of errors that pass when the metadata are asked for again.
const ASK_AGAIN = new Set([
  "NOT_LEADER", "NOT_CONTROLLER", "NOT_COORDINATOR", "UNKNOWN_TOPIC", "UNKNOWN_PARTITION", "PARTITION_OFFLINE",
]);

// Says that the metadata name nobody for this, for example while a leader is elected.
class Nobody extends Error {}

// Finds the process to ask: the leader of a partition, the controller, the coordinator of a group.
export class Cluster {
  #bootstrap;
  #clients = new Map();
  #metadata = {brokers: [], topics: [], coordinators: [], controller: null};

  // `bootstrap` is the host:port of any broker. Nothing is asked yet.
  constructor(bootstrap) {
    this.#bootstrap = bootstrap;
  }

  close() {
    for (const client of this.#clients.values()) client.close();
  }

  // Calls `attempt`. If it meets the wrong process, or one that is gone, asks for the metadata and calls it again.
  async retry(topic, attempt, timeoutMs = 30_000) {
    const giveUpAt = Date.now() + timeoutMs;
    for (;;) {
      try {
        return await attempt();
      } catch (error) {
        if (!passes(error) || Date.now() > giveUpAt) throw error;
      }
      await sleep(50);
      await this.#refresh(topic);
    }
  }

  // Asks any broker that answers, the known ones first.
  async #refresh(topic) {
    let failed;
    for (const address of [...this.#metadata.brokers.map(addressOf), this.#bootstrap]) {
      try {
        const broker = this.#client(v1.BrokerService, address);
        this.#metadata = await call(broker, "GetMetadata", {topics: [topic]}, 2_000);
        return;
      } catch (error) {
        failed = error;
      }
    }
    throw failed;
  }

  // The broker that leads a partition.
  leader(topic, partition) {
    const found = this.#metadata.topics.find((each) => each.topic === topic)?.partitions[partition];
    const broker = this.#metadata.brokers.find((each) => each.id === found?.leader);
    if (!broker) throw new Nobody(`nobody is known to lead ${topic}-${partition} now`);
    return this.#client(v1.BrokerService, addressOf(broker));
  }

  // The active controller.
  controller() {
    if (!this.#metadata.controller) throw new Nobody("no active controller is known now");
    return this.#client(v1.ControllerService, addressOf(this.#metadata.controller));
  }

  // The active coordinator of a group: that of the shard which the CRC-32C of the group's name gives.
  coordinator(group) {
    const shards = this.#metadata.coordinators;
    const found = shards[crc32c(Buffer.from(group)) % shards.length];
    if (!found?.host) throw new Nobody(`no active coordinator of group ${group} is known now`);
    return this.#client(v1.CoordinatorService, addressOf(found));
  }

  // Reads records of one partition from its leader, and waits for some if there are none.
  fetchRecords(topic, partition, offset, waitMs) {
    const request = {topic, partition, offset, max_records: 1_000, max_wait_ms: waitMs};
    return this.retry(topic, () => call(this.leader(topic, partition), "FetchRecords", request));
  }

  // The only client of a service at an address. For a cluster with TLS, it takes other credentials here.
  #client(Service, address) {
    const key = `${Service.serviceName} ${address}`;
    if (!this.#clients.has(key)) {
      this.#clients.set(key, new Service(address, grpc.credentials.createInsecure()));
    }
    return this.#clients.get(key);
  }
}

// Whether an error may be gone at the next attempt. The reason in the ErrorInfo is for programs: in the trailer
// grpc-status-details-bin, which holds a google.rpc.Status, it is the only text of its kind.
function passes(error) {
  if (error instanceof Nobody || error.code === grpc.status.UNAVAILABLE) return true;
  const [details] = error.metadata?.get("grpc-status-details-bin") ?? [];
  const words = details?.toString("latin1").match(/[A-Z_]{4,}/g) ?? [];
  return words.some((word) => ASK_AGAIN.has(word));
}

function addressOf(endpoint) {
  return endpoint.host.includes(":") ? `[${endpoint.host}]:${endpoint.port}` : `${endpoint.host}:${endpoint.port}`;
}

// CRC-32C of bytes (RFC 3720, B.4).
function crc32c(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

import {setTimeout as sleep} from "node:timers/promises";

const SESSION_TIMEOUT_MS = 10_000;

// A consumer in a group. The coordinator sends orders down its stream, and it answers each of them.
// It does so in poll() and leave() only. So nothing is read while a partition is given back, and the positions that an
// answer commits are those of records that the program has finished. The price: a program that does not poll for two
// thirds of the session timeout is no member any more.
export class Member {
  #cluster;
  #stream;
  #orders = [];
  #ending; // Settles when the stream ends: undefined, or why.
  #error; // Why the stream ended.
  #last;
  #owned = new Map();

  constructor(cluster, stream, welcome, ending) {
    this.#cluster = cluster;
    this.#stream = stream;
    this.#last = welcome;
    this.#ending = ending;
    stream.on("data", (order) => this.#orders.push(order));
    ending.then((error) => (this.#error = error ?? new Error("the coordinator has ended the stream")));
  }

  // Registers a consumer of one topic in a group, and waits for the welcome.
  static join(cluster, group, topic) {
    const registration = {
      group,
      topics: [{topic, streams: 1}],
      auto_commit: true,
      offset_reset: "OFFSET_RESET_SMALLEST",
      session_timeout_ms: SESSION_TIMEOUT_MS,
    };
    return cluster.retry(topic, async () => {
      const stream = cluster.coordinator(group).RegisterConsumer();
      const ending = new Promise((resolve) => stream.once("end", () => resolve()).once("error", resolve));
      stream.write({registration});
      const welcome = await Promise.race([
        new Promise((resolve) => stream.once("data", resolve)),
        ending.then((error) => Promise.reject(error ?? new Error("the coordinator did not answer"))),
      ]);
      console.log(`joined group ${group} as ${welcome.registered.consumer_id}`);
      return new Member(cluster, stream, welcome, ending);
    });
  }

  // Obeys the orders that have come, and returns the next records of the partitions that the member owns.
  // Returns none if there are none for a moment. An error means that it is a member no more.
  async poll() {
    while (this.#orders.length) this.#obey(this.#orders.shift());
    if (this.#error) throw this.#error;
    for (const position of this.#owned.values()) {
      const {topic, partition, offset} = position;
      const answer = await this.#cluster.fetchRecords(topic, partition, offset, 0);
      if (answer.records.length) {
        position.offset = answer.next_offset;
        return answer.records;
      }
    }
    await sleep(20);
    return [];
  }

  // Does what an order says and answers it. The answer repeats the order's sequence, generation and epoch.
  #obey(order) {
    this.#last = order;
    const {coordinator_epoch, generation, sequence} = order;
    const answer = {coordinator_epoch, generation, sequence};
    switch (order.message) {
      case "ping":
        answer.ping = {positions: [...this.#owned.values()]};
        break;
      case "stop_fetcher":
        answer.stop_fetcher = {positions: this.#giveBack(order.stop_fetcher.partitions)};
        break;
      case "start_fetcher":
        this.#start(order.start_fetcher.streams.flatMap((stream) => stream.partitions));
        answer.start_fetcher = {};
        break;
      default:
        throw new Error(`an order that this program does not know: ${order.message}`);
    }
    this.#stream.write(answer);
  }

  #start(partitions) {
    for (const {topic, partition, generation, offset} of partitions) {
      this.#owned.set(`${topic}-${partition}`, {topic, partition, generation, offset, leader_epoch: -1});
      console.log(`starts ${topic}-${partition} at offset ${offset}`);
    }
  }

  #giveBack(partitions) {
    const names = partitions.map(({topic, partition}) => `${topic}-${partition}`);
    const positions = names.flatMap((name) => this.#owned.get(name) ?? []);
    for (const name of names) {
      this.#owned.delete(name);
      console.log(`stops ${name}`);
    }
    return positions;
  }

  // Gives everything back and ends the membership. The positions are committed when it returns.
  async leave() {
    const {coordinator_epoch, generation} = this.#last;
    const goodbye = {positions: [...this.#owned.values()]};
    this.#stream.write({coordinator_epoch, generation, goodbye});
    const error = await this.#ending;
    if (error) throw error;
  }
}

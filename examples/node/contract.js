// The services and messages of protos/, as gRPC's JavaScript client wants them. Nothing is generated: they are read
// when the program starts.
import {readdirSync} from "node:fs";
import {fileURLToPath} from "node:url";

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const directory = fileURLToPath(new URL("../../protos", import.meta.url));
const files = readdirSync(`${directory}/hightide/v1`).filter((name) => name.endsWith(".proto"));
const definition = protoLoader.loadSync(files.map((name) => `hightide/v1/${name}`), {
  includeDirs: [directory],
  keepCase: true,
  // Offsets are exact up to 2^53, which takes a partition some 28 years at ten million records a second.
  longs: Number,
  enums: String,
  defaults: true,
  oneofs: true,
});

export const v1 = grpc.loadPackageDefinition(definition).hightide.v1;

// A unary call as a promise.
export function call(client, method, request, timeoutMs = 15_000) {
  return new Promise((resolve, reject) => {
    const deadline = Date.now() + timeoutMs;
    client[method](request, {deadline}, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

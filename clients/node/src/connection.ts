/** How to reach a server: deadline, retries, TLS, token, proxy. */

import { readFileSync } from "node:fs";
import { BlockList, isIP, isIPv6 } from "node:net";

import { type ChannelCredentials, type ChannelOptions, credentials as grpcCredentials, Metadata } from "@grpc/grpc-js";

import { options, type WithoutNull } from "./messages.js";

export const MAX_ATTEMPTS = 4;
/** The longest deadline in milliseconds: a day. */
export const MAX_MS = 86_400_000;
const DEFAULT_MS = 2000;
const IDEMPOTENT = ["Triage", "BatchTriage", "GetModelInfo", "GetVocabulary"]; // all but the stream
const SERVICE_CONFIG = {
  loadBalancingConfig: [{ round_robin: {} }],
  methodConfig: [
    {
      name: IDEMPOTENT.map((method) => ({ service: "triage.v1.TriageService", method })),
      retryPolicy: {
        maxAttempts: MAX_ATTEMPTS,
        initialBackoff: "0.05s",
        maxBackoff: "0.5s",
        backoffMultiplier: 2,
        retryableStatusCodes: ["UNAVAILABLE"],
      },
    },
  ],
  // A server with more failures than answers gets no retries, which could keep it from recovering.
  retryThrottling: { maxTokens: 20, tokenRatio: 0.1 },
};
const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/; // RFC 6750
const ADDRESS = /^(?:dns:\/\/\/|dns:|ipv4:|ipv6:)?(?:\[([0-9A-Fa-f:]+)\]|([^:,/[\]]+))(?::[0-9]+)?$/;
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** How a client calls its server. */
export interface ClientOptions {
  /** How long a call may take in milliseconds, its retries included; 2000 by default. */
  timeoutMs?: number | null;
  /** Credentials of an encrypted connection, as from `tlsCredentials`; without them the connection is in plain text. */
  credentials?: ChannelCredentials | null;
  /** Sent with each call as `authorization: Bearer TOKEN`. */
  token?: string | null;
  /** The token may go to another host in plain text. */
  insecure?: boolean | null;
  /** Use the HTTP proxy that the environment names. It can read a connection in plain text. */
  httpProxy?: boolean | null;
}

/** Where a server is and how to call it. Throws a RangeError or a TypeError for a wrong option. */
export class Connection {
  readonly timeoutMs: number;
  readonly credentials: ChannelCredentials;
  readonly channelOptions: ChannelOptions;
  readonly #token: string | undefined;

  constructor(
    readonly server: string,
    settings: ClientOptions,
  ) {
    const given = options("options", settings, ["timeoutMs", "credentials", "token", "insecure", "httpProxy"]);
    if (!server || /^https?:/.test(server)) {
      throw new TypeError(`server: expected HOST:PORT; got ${JSON.stringify(server)}`);
    }
    this.timeoutMs = checkedMs("timeoutMs", given.timeoutMs ?? DEFAULT_MS);
    checkToken(server, given);
    this.#token = given.token;
    this.credentials = given.credentials ?? grpcCredentials.createInsecure();
    this.channelOptions = {
      "grpc.enable_http_proxy": given.httpProxy ? 1 : 0,
      "grpc.service_config": JSON.stringify(SERVICE_CONFIG),
      "grpc.service_config_disable_resolution": 1, // no DNS record changes the retries
    };
  }

  /** Returns the metadata of a call. */
  metadata(): Metadata {
    const metadata = new Metadata();
    if (this.#token !== undefined) {
      metadata.set("authorization", `Bearer ${this.#token}`);
    }
    return metadata;
  }

  /** Returns the deadline of a call that begins now: after `timeoutMs`, by default this connection's. */
  deadline(timeoutMs?: number): Date {
    return new Date(Date.now() + checkedMs("timeoutMs", timeoutMs ?? this.timeoutMs));
  }
}

/** Returns `value`, or throws a RangeError: every call has a deadline, of a day at most. */
function checkedMs(name: string, value: number): number {
  if (!(value > 0 && value <= MAX_MS)) {
    throw new RangeError(`${name}: expected milliseconds above 0 and at most ${MAX_MS}; got ${value}`);
  }
  return value;
}

function checkToken(server: string, given: WithoutNull<ClientOptions>): void {
  if (given.token === undefined) {
    return;
  }
  if (!TOKEN.test(given.token)) {
    throw new TypeError("token: expected letters, digits and -._~+/ with = at the end (RFC 6750)"); // it is a secret
  }
  if (given.credentials?._isSecure() || given.insecure) {
    return;
  }
  if (!isLoopback(server)) {
    throw new TypeError(
      `token: ${server} is another host and the connection is not encrypted: ` +
        "give credentials: tlsCredentials(...), or insecure: true to send it in plain text",
    );
  }
  if (given.httpProxy) {
    throw new TypeError("token: an HTTP proxy would read it: give credentials: tlsCredentials(...)");
  }
}

/** Whether a gRPC target is on this machine; false for one that is not understood. */
export function isLoopback(server: string): boolean {
  if (server.startsWith("unix:")) {
    return true;
  }
  const match = ADDRESS.exec(server);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) {
    return false;
  }
  if (host.toLowerCase() === "localhost") {
    return true;
  }
  return isIP(host) !== 0 && LOOPBACK.check(host, isIPv6(host) ? "ipv6" : "ipv4");
}

/** PEM files of an encrypted connection. */
export interface TlsFiles {
  /** The authorities to trust; by default Node's own list. */
  rootCertificates?: string | null;
  /** The client's certificate chain, for a server that requires one. */
  certificate?: string | null;
  /** Its private key. */
  privateKey?: string | null;
}

/** Returns credentials of an encrypted connection; throws an error if a file cannot be read or is not PEM. */
export function tlsCredentials(files: TlsFiles = {}): ChannelCredentials {
  const names = ["rootCertificates", "certificate", "privateKey"] as const;
  const { rootCertificates, certificate, privateKey } = options("tlsCredentials", files, names);
  if ((certificate === undefined) !== (privateKey === undefined)) {
    throw new TypeError("certificate and privateKey: expected both or none");
  }
  return grpcCredentials.createSsl(
    pem(rootCertificates, "CERTIFICATE"),
    pem(privateKey, "PRIVATE KEY"),
    pem(certificate, "CERTIFICATE"),
  );
}

function pem(path: string | undefined, kind: string): Buffer | null {
  if (path === undefined) {
    return null;
  }
  const content = readFileSync(path);
  if (!new RegExp(`-----BEGIN [A-Z ]*${kind}-----`).test(content.toString("latin1"))) {
    throw new TypeError(`${path}: expected a PEM file with a ${kind}`);
  }
  return content;
}

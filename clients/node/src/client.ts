/** A client of TriageService whose calls are promises. */

import type { CallOptions, ClientUnaryCall, Metadata, ServiceError } from "@grpc/grpc-js";

import { type ClientOptions, Connection } from "./connection.js";
import { fromRpc } from "./errors.js";
import type { EvidenceState, TriageResponse } from "./generated/triage/v1/triage.js";
import {
  BatchTriageRequest,
  GetModelInfoRequest,
  type GetModelInfoResponse,
  GetVocabularyRequest,
  type GetVocabularyResponse,
  TriageRequest,
  TriageServiceClient,
} from "./generated/triage/v1/triage_service.js";
import { Interview, type InterviewOptions } from "./interview.js";
import { int32 } from "./messages.js";

/** Settings of one call. */
export interface CallSettings {
  /** Its own deadline in milliseconds, its retries included. */
  timeoutMs?: number;
  /** Ends the call, which then rejects with a CallCancelledError. */
  signal?: AbortSignal;
  /** Name of the model, if the server has several; the first one by default. */
  model?: string;
}

/** Settings of one call with evidence. */
export interface TriageSettings extends CallSettings {
  /** Leave codes that the model does not know out of the decision, instead of refusing the call. */
  allowUnknownCodes?: boolean;
  /** How many questions to put next the response suggests, 0 to 10; 0 by default. */
  questions?: number;
  /** Hand over to a person what is novel, contradictory, or has a lower P(safe): `deferred` then says why. */
  deferBelow?: number;
  /** Let questions be about what takes an instrument, such as a stethoscope. */
  canMeasure?: boolean;
}

/** Of one call about one evidence state. */
export interface StateSettings extends TriageSettings {
  /** Codes that no question is about, such as those that the patient could not tell. */
  notToAsk?: Iterable<string>;
  /** Explain the answer, which takes some further runs of the model. */
  explain?: boolean;
}

type Method<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: Response) => void,
) => ClientUnaryCall;

/**
 * Calls a TriageService; keep one for the life of the program, and `close` it then.
 *
 * A call that ends with UNAVAILABLE is tried again, four times in all, within its deadline. Each method rejects with a
 * `TriageError`, and throws a TypeError or a RangeError for a wrong argument.
 */
export class TriageClient {
  readonly #connection: Connection;
  readonly #stub: TriageServiceClient;

  constructor(server: string, options: ClientOptions = {}) {
    this.#connection = new Connection(server, options);
    const { credentials, channelOptions } = this.#connection;
    this.#stub = new TriageServiceClient(server, credentials, channelOptions);
  }

  /** Closes the connection as soon as its calls have ended. */
  close(): void {
    this.#stub.close();
  }

  /** Resolves to the answer to one evidence state. */
  triage(state: EvidenceState, settings: StateSettings = {}): Promise<TriageResponse> {
    const request = TriageRequest.create({
      state,
      allowUnknownCodes: settings.allowUnknownCodes,
      questions: int32("questions", settings.questions),
      notToAsk: [...(settings.notToAsk ?? [])],
      explain: settings.explain,
      model: settings.model,
      deferBelow: settings.deferBelow,
      canMeasure: settings.canMeasure,
    });
    return this.#call(this.#stub.triage, request, settings);
  }

  /** Resolves to the answer to each evidence state, in their order. One faulty state fails them all. */
  async batchTriage(states: readonly EvidenceState[], settings: TriageSettings = {}): Promise<TriageResponse[]> {
    const request = BatchTriageRequest.create({
      states: [...states],
      allowUnknownCodes: settings.allowUnknownCodes,
      questions: int32("questions", settings.questions),
      model: settings.model,
      deferBelow: settings.deferBelow,
      canMeasure: settings.canMeasure,
    });
    return (await this.#call(this.#stub.batchTriage, request, settings)).responses;
  }

  /** Resolves to the model that answers, and how it was made. */
  modelInfo(settings: CallSettings = {}): Promise<GetModelInfoResponse> {
    return this.#call(this.#stub.getModelInfo, GetModelInfoRequest.create({ model: settings.model }), settings);
  }

  /** Resolves to the evidence that the model knows, with the question to ask a patient for each. */
  vocabulary(settings: CallSettings = {}): Promise<GetVocabularyResponse> {
    return this.#call(this.#stub.getVocabulary, GetVocabularyRequest.create({ model: settings.model }), settings);
  }

  /** Begins an interview. `close` it, or say things until an answer has `ended`. */
  interview(options: InterviewOptions = {}): Interview {
    return new Interview(this.#stub, this.#connection, options);
  }

  #call<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    { timeoutMs, signal }: CallSettings,
  ): Promise<Response> {
    signal?.throwIfAborted();
    const deadline = this.#connection.deadline(timeoutMs);
    return new Promise((resolve, reject) => {
      const abort = (): void => call.cancel();
      const call = method.call(
        this.#stub,
        request,
        this.#connection.metadata(),
        { deadline },
        (error: ServiceError | null, response: Response) => {
          signal?.removeEventListener("abort", abort);
          if (error) {
            reject(fromRpc(error));
          } else {
            resolve(response);
          }
        },
      );
      signal?.addEventListener("abort", abort, { once: true });
    });
  }
}

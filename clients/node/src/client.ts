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
import { codes, int32, options } from "./messages.js";

/** Settings of one call. */
export interface CallSettings {
  /** Its own deadline in milliseconds, its retries included. */
  timeoutMs?: number | null;
  /** Ends the call, which then rejects with a CallCancelledError. */
  signal?: AbortSignal | null;
  /** Name of the model, if the server has several; the first one by default. */
  model?: string | null;
}

/** Settings of one call with evidence. */
export interface TriageSettings extends CallSettings {
  /** Leave codes that the model does not know out of the decision, instead of refusing the call. */
  allowUnknownCodes?: boolean | null;
  /** How many questions to put next the response suggests, 0 to 10; 0 by default. */
  questions?: number | null;
  /** Hand over to a person what is novel, contradictory, or has a lower P(safe): `deferred` then says why. */
  deferBelow?: number | null;
  /** Let questions be about what takes an instrument, such as a stethoscope. */
  canMeasure?: boolean | null;
}

/** Of one call about one evidence state. */
export interface StateSettings extends TriageSettings {
  /** Codes that no question is about, such as those that the patient could not tell. */
  notToAsk?: Iterable<string> | null;
  /** Explain the answer, which takes some further runs of the model. */
  explain?: boolean | null;
}

const CALL = ["timeoutMs", "signal", "model"] as const;
const TRIAGE = [...CALL, "allowUnknownCodes", "questions", "deferBelow", "canMeasure"] as const;
const STATE = [...TRIAGE, "notToAsk", "explain"] as const;

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

  constructor(server: string, settings: ClientOptions = {}) {
    this.#connection = new Connection(server, settings);
    const { credentials, channelOptions } = this.#connection;
    this.#stub = new TriageServiceClient(server, credentials, channelOptions);
  }

  /** Closes the connection as soon as its calls have ended. */
  close(): void {
    this.#stub.close();
  }

  /** Resolves to the answer to one evidence state. */
  triage(state: EvidenceState, settings: StateSettings = {}): Promise<TriageResponse> {
    const { timeoutMs, signal, ...given } = options("settings", settings, STATE);
    const request = TriageRequest.create({
      ...given,
      state: checked(state),
      questions: int32("questions", given.questions),
      notToAsk: codes("notToAsk", given.notToAsk),
    });
    return this.#call(this.#stub.triage, request, timeoutMs, signal);
  }

  /** Resolves to the answer to each evidence state, in their order. One faulty state fails them all. */
  async batchTriage(states: readonly EvidenceState[], settings: TriageSettings = {}): Promise<TriageResponse[]> {
    const { timeoutMs, signal, ...given } = options("settings", settings, TRIAGE);
    const request = BatchTriageRequest.create({
      ...given,
      states: states.map(checked),
      questions: int32("questions", given.questions),
    });
    return (await this.#call(this.#stub.batchTriage, request, timeoutMs, signal)).responses;
  }

  /** Resolves to the model that answers, and how it was made. */
  modelInfo(settings: CallSettings = {}): Promise<GetModelInfoResponse> {
    const { timeoutMs, signal, model } = options("settings", settings, CALL);
    return this.#call(this.#stub.getModelInfo, GetModelInfoRequest.create({ model }), timeoutMs, signal);
  }

  /** Resolves to the evidence that the model knows, with the question to ask a patient for each. */
  vocabulary(settings: CallSettings = {}): Promise<GetVocabularyResponse> {
    const { timeoutMs, signal, model } = options("settings", settings, CALL);
    return this.#call(this.#stub.getVocabulary, GetVocabularyRequest.create({ model }), timeoutMs, signal);
  }

  /** Begins an interview. `close` it, or say things until an answer has `ended`. */
  interview(settings: InterviewOptions = {}): Interview {
    return new Interview(this.#stub, this.#connection, settings);
  }

  #call<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    timeoutMs?: number,
    signal?: AbortSignal,
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

/** Returns a message as it is; throws a TypeError for anything else, such as the argument of `evidenceState`. */
function checked(state: EvidenceState): EvidenceState {
  options("state", state, ["evidence", "questionsAsked", "noMoreEvidence", "maxQuestions"]);
  return state;
}

/** One interview: evidence in as it comes, an answer on all that was said after each piece. */

import type { ClientDuplexStream, ServiceError } from "@grpc/grpc-js";

import type { Connection } from "./connection.js";
import { fromRpc, lateAnswer } from "./errors.js";
import {
  InterviewRequest,
  type InterviewResponse,
  InterviewSettings,
  type TriageServiceClient,
} from "./generated/triage/v1/triage_service.js";
import { codes, evidenceState, int32, options } from "./messages.js";

const INTERVIEW_MS = 1_800_000;
const ENDED = "the interview has ended: begin another";

/** How an interview is conducted. */
export interface InterviewOptions {
  /** Limit on the number of questions; 0, the default, means the model's own. */
  maxQuestions?: number | null;
  /** As in `triage`, for all evidence of the interview. */
  allowUnknownCodes?: boolean | null;
  /** How many questions to put next each answer suggests; `notKnown` is about the first of them. */
  questions?: number | null;
  /** As in `triage`; an answer that is `deferred` is the last one. */
  deferBelow?: number | null;
  /** Let questions be about what takes an instrument, such as a stethoscope. */
  canMeasure?: boolean | null;
  /** Name of the model, if the server has several; the first one by default. */
  model?: string | null;
  /** How long it may take in all, half an hour by default; each answer may take the client's `timeoutMs`. */
  timeoutMs?: number | null;
}

const INTERVIEW = [
  "maxQuestions", "allowUnknownCodes", "questions", "deferBelow", "canMeasure", "model", "timeoutMs",
] as const;

/** What is said of codes in answer to one question. */
export interface Said {
  /** Codes of the vocabulary that the patient has. */
  present?: Iterable<string> | null;
  /** Codes that the patient has not. */
  absent?: Iterable<string> | null;
  /** Codes that the patient cannot tell. */
  notKnown?: Iterable<string> | null;
}

interface Waiting {
  resolve: (response: InterviewResponse) => void;
  reject: (error: Error) => void;
}

/**
 * Says one thing after the other; made by `TriageClient.interview`.
 *
 * Each method resolves to the answer on all that was said, or rejects with a `TriageError`, which ends the interview,
 * and with an Error after the end or while an answer is still to come.
 */
export class Interview {
  readonly #stream: ClientDuplexStream<InterviewRequest, InterviewResponse>;
  readonly #answerMs: number;
  #settings: InterviewSettings | undefined;
  #waiting: Waiting | undefined;
  #ended = false;
  #failure: Error | undefined;

  constructor(stub: TriageServiceClient, connection: Connection, settings: InterviewOptions) {
    const { timeoutMs, ...given } = options("settings", settings, INTERVIEW);
    this.#settings = InterviewSettings.create({
      ...given,
      maxQuestions: int32("maxQuestions", given.maxQuestions),
      questions: int32("questions", given.questions),
    });
    this.#answerMs = connection.timeoutMs;
    const deadline = connection.deadline(timeoutMs ?? INTERVIEW_MS);
    this.#stream = stub.interview(connection.metadata(), { deadline });
    this.#stream.on("data", (response: InterviewResponse) => {
      this.#ended ||= response.ended;
      this.#settle((waiting) => waiting.resolve(response));
    });
    this.#stream.on("error", (error: ServiceError) => this.#fail(fromRpc(error)));
    this.#stream.on("end", () => this.#fail(new Error(ENDED)));
  }

  /** Ends the interview. */
  close(): void {
    this.#ended = true;
    this.#stream.cancel();
  }

  /** Says that the patient has `code`, and `also` others, all in answer to one question. */
  async present(code: string, ...also: string[]): Promise<InterviewResponse> {
    return this.answer({ present: [code, ...also] });
  }

  /** Says that the patient has not `code`, nor `also` others, all in answer to one question. */
  async absent(code: string, ...also: string[]): Promise<InterviewResponse> {
    return this.answer({ absent: [code, ...also] });
  }

  /** Says what of a question's `anyOf` the patient has, has not and cannot tell, at least one code. */
  async answer(said: Said): Promise<InterviewResponse> {
    const { notKnown, ...known } = options("answer", said, ["present", "absent", "notKnown"]);
    const [first, ...others] = evidenceState(known).evidence;
    const notToAsk = codes("notKnown", notKnown);
    if (!first && !notToAsk.length) {
      throw new TypeError("expected a code that is present, absent or not known");
    }
    return this.#say(first ? { evidence: first, also: others, notToAsk } : { notKnown: true, notToAsk });
  }

  /** Says that the question could not be answered. */
  async notKnown(): Promise<InterviewResponse> {
    return this.#say({ notKnown: true });
  }

  /** Says that nobody can answer another question: the server must triage. */
  async noMoreEvidence(): Promise<InterviewResponse> {
    return this.#say({ noMoreEvidence: true });
  }

  #say(said: Partial<InterviewRequest>): Promise<InterviewResponse> {
    if (this.#ended) {
      throw this.#failure ?? new Error(ENDED);
    }
    if (this.#waiting) {
      throw new Error("the answer to what was said before is still to come: await it first");
    }
    const request = InterviewRequest.create({ settings: this.#settings, ...said });
    this.#settings = undefined; // in the first message only
    return new Promise((resolve, reject) => {
      // A stream has one deadline, that of the whole interview; a silent server must not hold its caller so long.
      const timer = setTimeout(() => this.#fail(lateAnswer(this.#answerMs)), this.#answerMs);
      const settled =
        <Value>(settle: (value: Value) => void) =>
        (value: Value): void => {
          clearTimeout(timer);
          settle(value);
        };
      this.#waiting = { resolve: settled(resolve), reject: settled(reject) };
      this.#stream.write(request);
    });
  }

  #settle(settle: (waiting: Waiting) => void): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (this.#ended) {
      this.#stream.end();
    }
    if (waiting) {
      settle(waiting);
    }
  }

  #fail(error: Error): void {
    if (this.#ended && !this.#waiting) {
      return; // as it should be
    }
    this.#ended = true;
    if (!this.#waiting) {
      this.#failure = error; // to be told when something is said
    }
    this.#settle((waiting) => waiting.reject(error));
    this.#stream.cancel();
  }
}

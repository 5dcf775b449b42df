/** Requests, made from JavaScript values. */

import { Evidence, EvidenceState, EvidenceStatus } from "./generated/triage/v1/triage.js";

/** What is known about a patient at one moment. */
export interface Known {
  /** Codes of the vocabulary that the patient has. */
  present?: Iterable<string>;
  /** Codes that the patient has not. */
  absent?: Iterable<string>;
  /** Number of questions so far, 0 or more. */
  questionsAsked?: number;
  /** Nobody can answer another question, so that the server must triage. */
  noMoreEvidence?: boolean;
  /** Limit on the number of questions; 0 means the model's own. */
  maxQuestions?: number;
}

/** Returns the message that says so; throws a TypeError or a RangeError where it cannot be said. */
export function evidenceState(known: Known): EvidenceState {
  return EvidenceState.create({
    evidence: [
      ...pieces("present", known.present, EvidenceStatus.EVIDENCE_STATUS_PRESENT),
      ...pieces("absent", known.absent, EvidenceStatus.EVIDENCE_STATUS_ABSENT),
    ],
    questionsAsked: int32("questionsAsked", known.questionsAsked),
    noMoreEvidence: known.noMoreEvidence ?? false,
    maxQuestions: int32("maxQuestions", known.maxQuestions),
  });
}

function evidence(code: string, status: EvidenceStatus): Evidence {
  if (typeof code !== "string") {
    throw new TypeError(`code: expected a text; got ${typeof code}`);
  }
  return Evidence.create({ code, status });
}

/** Returns `value`, 0 where there is none; the wire format would cut a number that does not fit. */
export function int32(name: string, value = 0): number {
  if (!Number.isInteger(value) || value !== (value | 0)) {
    throw new RangeError(`${name}: expected a whole number of 32 bits; got ${value}`);
  }
  return value;
}

function pieces(name: string, codes: Iterable<string> | undefined, status: EvidenceStatus): Evidence[] {
  if (typeof codes === "string") {
    throw new TypeError(`${name}: expected several codes, such as [${JSON.stringify(codes)}]; got one text`);
  }
  return Array.from(codes ?? [], (code) => evidence(code, status));
}

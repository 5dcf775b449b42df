/** Requests, made from JavaScript values. */

import { Evidence, EvidenceState, EvidenceStatus } from "./generated/triage/v1/triage.js";

/** What is known about a patient at one moment. */
export interface Known {
  /** Codes of the vocabulary that the patient has. */
  present?: Iterable<string> | null;
  /** Codes that the patient has not. */
  absent?: Iterable<string> | null;
  /** Number of questions so far, 0 or more. */
  questionsAsked?: number | null;
  /** Nobody can answer another question, so that the server must triage. */
  noMoreEvidence?: boolean | null;
  /** Limit on the number of questions; 0 means the model's own. */
  maxQuestions?: number | null;
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
export function int32(name: string, value?: number | null): number {
  const given = value ?? 0;
  if (!Number.isInteger(given) || given !== (given | 0)) {
    throw new RangeError(`${name}: expected a whole number of 32 bits; got ${given}`);
  }
  return given;
}

function pieces(name: string, codes: Iterable<string> | null | undefined, status: EvidenceStatus): Evidence[] {
  if (typeof codes === "string") {
    throw new TypeError(`${name}: expected several codes, such as [${JSON.stringify(codes)}]; got one text`);
  }
  return Array.from(codes ?? [], (code) => evidence(code, status));
}

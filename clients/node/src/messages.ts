/** Requests, made from JavaScript values. */

import { Evidence, EvidenceState, EvidenceStatus } from "./generated/triage/v1/triage.js";

/** Options as they are used: null is nothing. */
export type WithoutNull<Options> = { [Key in keyof Options]: Exclude<Options[Key], null> };

/** Returns options, undefined for null; throws a TypeError for one that is none of `names`, which would be lost. */
export function options<Options extends object>(
  what: string,
  given: Options,
  names: readonly (keyof Options & string)[],
): WithoutNull<Options> {
  for (const name of Object.keys(given)) {
    if (!(names as readonly string[]).includes(name)) {
      throw new TypeError(`${what}: unknown ${JSON.stringify(name)}; expected ${names.join(", ")}`);
    }
  }
  return Object.fromEntries(names.map((name) => [name, given[name] ?? undefined])) as WithoutNull<Options>;
}

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

const KNOWN = ["present", "absent", "questionsAsked", "noMoreEvidence", "maxQuestions"] as const;

/** Returns the message that says so; throws a TypeError or a RangeError where it cannot be said. */
export function evidenceState(known: Known): EvidenceState {
  const { present, absent, questionsAsked, noMoreEvidence, maxQuestions } = options("evidenceState", known, KNOWN);
  return EvidenceState.create({
    evidence: [
      ...pieces(codes("present", present), EvidenceStatus.EVIDENCE_STATUS_PRESENT),
      ...pieces(codes("absent", absent), EvidenceStatus.EVIDENCE_STATUS_ABSENT),
    ],
    questionsAsked: int32("questionsAsked", questionsAsked),
    noMoreEvidence,
    maxQuestions: int32("maxQuestions", maxQuestions),
  });
}

/** Returns `value`, 0 by default; the wire format would cut a number that does not fit. */
export function int32(name: string, value = 0): number {
  if (!Number.isInteger(value) || value !== (value | 0)) {
    throw new RangeError(`${name}: expected a whole number of 32 bits; got ${value}`);
  }
  return value;
}

/** Returns codes as an array; throws a TypeError for anything else, such as one text, which has letters. */
export function codes(name: string, given: Iterable<string> = []): string[] {
  if (typeof given === "string") {
    throw new TypeError(`${name}: expected several codes, such as [${JSON.stringify(given)}]; got one text`);
  }
  const listed = [...given];
  for (const code of listed) {
    if (typeof code !== "string") {
      throw new TypeError(`${name}: expected codes, which are texts; got ${typeof code}`);
    }
  }
  return listed;
}

function pieces(of: string[], status: EvidenceStatus): Evidence[] {
  return of.map((code) => Evidence.create({ code, status }));
}

/** Client of the gRPC service `triage.v1.TriageService`. */

export { type CallSettings, type StateSettings, TriageClient, type TriageSettings } from "./client.js";
export { type ClientOptions, tlsCredentials, type TlsFiles } from "./connection.js";
export * from "./errors.js";
export {
  DeferralReason,
  Evidence,
  EvidenceState,
  EvidenceStatus,
  FiredRule,
  NextQuestion,
  NextStep,
  QuestionReason,
  QValue,
  TriageAction,
  triageActionToJSON,
  TriageResponse,
} from "./generated/triage/v1/triage.js";
export {
  EvidenceKind,
  GetModelInfoResponse,
  GetVocabularyResponse,
  InterviewResponse,
  VocabularyEntry,
} from "./generated/triage/v1/triage_service.js";
export { type Interview, type InterviewOptions, type Said } from "./interview.js";
export { evidenceState, type Known } from "./messages.js";

/** The errors of calls: one class for each gRPC status that a caller may want to distinguish. */

import { type ServiceError, status } from "@grpc/grpc-js";

import { BadRequest, RetryInfo, Status } from "./generated/error_details.js";
import { UnknownCode } from "./generated/triage/v1/triage_service.js";

const TYPE = "type.googleapis.com/";

/** A field of the request that the server refused. */
export interface FieldViolation {
  /** Its path in the request, such as `state.evidence[0].code`. */
  field: string;
  /** What is wrong with it, and what was expected. */
  description: string;
  /** The same for programs, such as `UNKNOWN_CODE`. */
  reason: string;
  /** For an unknown code: known codes with the most similar spelling, the nearest first. */
  nearestCodes: readonly string[];
}

/** The server refused a call, failed at it, or could not be reached in time. `cause` is gRPC's own error. */
export class TriageError extends Error {
  /** The wrong fields, if the server reports them. */
  readonly fieldViolations: readonly FieldViolation[];
  /** The milliseconds after which to try again, if the server reports them. */
  readonly retryAfterMs: number | undefined;

  constructor(
    /** The gRPC status. */
    readonly code: status,
    message: string,
    cause?: ServiceError,
  ) {
    super(message, { cause });
    this.name = new.target.name;
    const details = cause === undefined ? [] : detailsOf(cause);
    const of = (type: string): Uint8Array[] =>
      details.filter(({ typeUrl }) => typeUrl === TYPE + type).map(({ value }) => value);
    const unknown = of("triage.v1.UnknownCode").map((value) => UnknownCode.decode(value));
    this.fieldViolations = of("google.rpc.BadRequest").flatMap((value) =>
      BadRequest.decode(value).fieldViolations.map(({ field, description, reason }) => ({
        field,
        description,
        reason,
        nearestCodes: unknown.find((code) => code.field === field)?.nearestCodes ?? [],
      })),
    );
    const [retry] = of("google.rpc.RetryInfo");
    const delay = retry && RetryInfo.decode(retry).retryDelay;
    this.retryAfterMs = delay && delay.seconds * 1000 + delay.nanos / 1e6;
  }

  /** The name of the gRPC status, such as `INVALID_ARGUMENT`. */
  get status(): string {
    return status[this.code] ?? String(this.code);
  }
}

/** The request is wrong; `fieldViolations` and the message say what. */
export class InvalidArgumentError extends TriageError {}
/** The server requires a valid token. */
export class UnauthenticatedError extends TriageError {}
/** The server knows the caller and does not allow the call. */
export class PermissionDeniedError extends TriageError {}
/** What was requested does not exist on the server. */
export class NotFoundError extends TriageError {}
/** The server is not in the state that the call needs. */
export class FailedPreconditionError extends TriageError {}
/** The request is too large, or the server is overloaded. */
export class ResourceExhaustedError extends TriageError {}
/** No server could be reached, its certificate is not trusted, or it is not ready; a later call may succeed. */
export class UnavailableError extends TriageError {}
/** No answer came in time. */
export class DeadlineExceededError extends TriageError {}
/** The call was ended before its answer, by this client or by the server. */
export class CallCancelledError extends TriageError {}
/** The server does not offer the method: it is not a triage server, or an older one. */
export class UnimplementedError extends TriageError {}
/** The server failed, or sent an invalid answer. */
export class InternalError extends TriageError {}

const CLASSES: ReadonlyMap<status, typeof TriageError> = new Map([
  [status.INVALID_ARGUMENT, InvalidArgumentError],
  [status.UNAUTHENTICATED, UnauthenticatedError],
  [status.PERMISSION_DENIED, PermissionDeniedError],
  [status.NOT_FOUND, NotFoundError],
  [status.FAILED_PRECONDITION, FailedPreconditionError],
  [status.RESOURCE_EXHAUSTED, ResourceExhaustedError],
  [status.UNAVAILABLE, UnavailableError],
  [status.DEADLINE_EXCEEDED, DeadlineExceededError],
  [status.CANCELLED, CallCancelledError],
  [status.UNIMPLEMENTED, UnimplementedError],
  [status.INTERNAL, InternalError],
]);

/** Returns the error of a call that failed; a status without a class of its own gives a plain TriageError. */
export function fromRpc(error: ServiceError): TriageError {
  return new (CLASSES.get(error.code) ?? TriageError)(error.code, error.details || "no details", error);
}

/** Returns the error of an answer within an interview that did not come. */
export function lateAnswer(milliseconds: number): DeadlineExceededError {
  return new DeadlineExceededError(status.DEADLINE_EXCEEDED, `no answer within ${milliseconds} ms`);
}

function detailsOf(error: ServiceError): Status["details"] {
  const [bytes] = error.metadata?.get("grpc-status-details-bin") ?? [];
  if (!(bytes instanceof Uint8Array)) {
    return [];
  }
  try {
    return Status.decode(bytes).details;
  } catch {
    return []; // a proxy's, perhaps; the status itself is worth more than a failure to read more of it
  }
}

// An interview on iOS: examples/mobile/interview.py in Swift, with TensorFlow Lite's interpreter.
//
// The app's bundle holds triage.tflite and its sidecar triage.tflite.json, which names the file that it belongs to;
// Foundation cannot open ZIP archives, so the description inside the file is not read. Not a medical device.

import CryptoKit
import Foundation
import TensorFlowLite

let formatVersion = 1

let signatureName = "state"
let statesName = "states"  // input float32 [1, E]
let questionsAskedName = "questions_asked"  // input int32 [1]
let qValuesName = "q_values"  // output float32 [1, 5]
let actionName = "action"  // output int32 [1]
let bestTriageName = "best_triage"  // output int32 [1]
let forcedName = "forced"  // output bool [1]
let rulesFiredName = "rules_fired"  // output bool [1, R], if the description has R safety rules
let modelActionName = "model_action"  // output int32 [1], the action before the rules, beside rules_fired
let modelBestTriageName = "model_best_triage"  // output int32 [1], the best decision before the rules
let noveltyName = "novelty"  // output float32 [1], if the description has it
let isNovelName = "is_novel"  // output bool [1], beside it
let deferredName = "deferred"  // output int32 [1], why a person must look: contradictory, 2 novel, 3 unsure; else 0
let contradictory = 1

// A file in int8, or of few vignettes, lacks this signature: then the app chooses the questions.
let questionsName = "questions"
let notToAskName = "not_to_ask"  // of questions, input bool [1, E], beside states
let questionCodesName = "question_codes"  // of questions, output int32 [1, Q], cells, the best first; -1 behind the last
let questionWorthAskingName = "question_worth_asking"  // of questions, output bool [1, Q], going on is worth more
let questionRedFlagsName = "question_red_flags"  // of questions, output bool [1, Q], a yes may raise a red flag
let questionTogetherName = "question_together"  // of questions, output int32 [1, T], all cells of the first one, or -1

/// Groups of the vocabulary (`exclusive`) of which every patient has exactly one member, and their questions.
let opening = ["age": "Age", "sex": "Sex"]

/// The input must not reach the model, and why.
struct Refused: Error {
  let reason: String
}

/// The parts of the sidecar that an app needs.
struct Description: Decodable {
  struct File: Decodable {
    let sha256: String
  }

  struct Entry: Decodable {
    let code: String
    let question: String
    let exclusive: String
    let instrument: String
  }

  struct Rule: Decodable {
    let ruleId: String
    let reason: String
  }

  let file: File
  let formatVersion: Int
  let notice: String
  let actions: [String]
  let maxQuestions: Int
  let vocabulary: [Entry]
  let vocabularyFingerprint: String
  let safetyRules: [Rule]
}

/// A question that the model would put.
struct Question {
  let code: String
  let text: String  // to ask a patient
  let worthAsking: Bool  // going on is worth more than deciding now
  let redFlag: Bool  // a yes may raise a red flag
  /// If it has codes, ask which of them the patient has, and add each, present or absent; `text` is about `code` alone.
  let anyOf: [String]
  /// If it has codes, of age bands or sexes, ask which one it is, and add that one.
  let oneOf: [String]
}

/// The answer of the model: `action` is a triage decision or "ask", `bestTriage` its decision without asking.
struct Decision {
  let action: String
  let bestTriage: String
  let forced: Bool
  let qValues: [Float32]
  /// Safety rules that fired, with the reason for the clinician.
  let rules: [Description.Rule]
  /// See `deferredName`. If it is not 0 the app hands the case over, and `bestTriage` is the least urgency until then.
  let deferred: Int
}

/// A file that `triage tflite` wrote. Throws if its vocabulary is not the one that the app was built for.
final class TriageModel {
  let description: Description
  private let cells: [String: Int]
  private let runner: SignatureRunner
  private let asker: SignatureRunner?

  init(file: URL, expectedFingerprint: String? = nil) throws {
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    let sidecar = file.appendingPathExtension("json")
    description = try decoder.decode(Description.self, from: Data(contentsOf: sidecar))
    guard description.formatVersion == formatVersion else { throw Refused(reason: "made for a newer app") }
    guard description.file.sha256 == sha256(try Data(contentsOf: file)) else {
      throw Refused(reason: "the sidecar belongs to another file")
    }
    let codes = description.vocabulary.map { $0.code }
    let fingerprint = "sha256:" + sha256(Data(codes.map { $0 + "\n" }.joined().utf8))
    guard fingerprint == description.vocabularyFingerprint else {
      throw Refused(reason: "its vocabulary is damaged")
    }
    guard expectedFingerprint == nil || expectedFingerprint == fingerprint else {
      throw Refused(reason: "made for a vocabulary other than the app's")
    }
    cells = Dictionary(uniqueKeysWithValues: codes.enumerated().map { ($0.element, $0.offset) })
    let interpreter = try Interpreter(modelPath: file.path)
    runner = try interpreter.signatureRunner(with: signatureName)
    asker =
      interpreter.signatureKeys.contains(questionsName)
      ? try interpreter.signatureRunner(with: questionsName) : nil
  }

  func knows(_ code: String) -> Bool {
    return cells[code] != nil
  }

  /// Returns the question that the model would put; nil if it cannot choose, or nothing is left to ask.
  func question(evidence: [String: Bool], notToAsk: Set<String>, canMeasure: Bool) throws -> Question? {
    guard let asker = asker else { return nil }
    let measured = description.vocabulary.filter { !$0.instrument.isEmpty }.map { $0.code }
    let unwanted = canMeasure ? notToAsk : notToAsk.union(measured)
    var withheld = [UInt8](repeating: 0, count: cells.count)
    for code in unwanted { withheld[cells[code]!] = 1 }
    try asker.invoke(with: [statesName: statesOf(evidence), notToAskName: Data(withheld)])
    let best = try asker.output(named: questionCodesName).data.withUnsafeBytes { $0.load(as: Int32.self) }
    guard best >= 0 else { return nil }
    let entry = description.vocabulary[Int(best)]
    let worthAsking = try asker.output(named: questionWorthAskingName).data.first != 0
    let redFlag = try asker.output(named: questionRedFlagsName).data.first != 0
    let together = try asker.output(named: questionTogetherName).data.withUnsafeBytes {
      Array($0.bindMemory(to: Int32.self))
    }
    let anyOf = together.filter { $0 >= 0 }.map { description.vocabulary[Int($0)].code }
    let group = opening[entry.exclusive]
    let members = description.vocabulary.filter { group != nil && $0.exclusive == entry.exclusive }.map { $0.code }
    let choosable = members.count > 1 && members.allSatisfy { evidence[$0] == nil && !unwanted.contains($0) }
    return Question(
      code: entry.code, text: choosable ? group! : entry.question, worthAsking: worthAsking, redFlag: redFlag,
      anyOf: anyOf, oneOf: choosable ? members : [])
  }

  /// Returns the group of a code, "" if it is in none.
  func group(of code: String) -> String {
    return description.vocabulary[cells[code]!].exclusive
  }

  private func statesOf(_ evidence: [String: Bool]) -> Data {
    var states = [Float32](repeating: 0, count: cells.count)
    for (code, present) in evidence {
      states[cells[code]!] = present ? 1 : -1
    }
    return states.withUnsafeBufferPointer { Data(buffer: $0) }
  }

  /// Returns the decision on what is known: whether each code is present. On nothing it is "ask", also if forced.
  func decide(evidence: [String: Bool], questionsAsked: Int) throws -> Decision {
    try runner.invoke(with: [
      statesName: statesOf(evidence),
      questionsAskedName: withUnsafeBytes(of: Int32(questionsAsked)) { Data($0) },
    ])
    let rules = description.safetyRules
    let fired = rules.isEmpty ? Data() : try runner.output(named: rulesFiredName).data
    return Decision(
      action: description.actions[try number(actionName)],
      bestTriage: description.actions[try number(bestTriageName)],
      forced: try runner.output(named: forcedName).data.first != 0,
      qValues: try runner.output(named: qValuesName).data.withUnsafeBytes { Array($0.bindMemory(to: Float32.self)) },
      rules: zip(rules, fired).filter { $0.1 != 0 }.map { $0.0 },
      deferred: try number(deferredName)
    )
  }

  private func number(_ name: String) throws -> Int {
    return Int(try runner.output(named: name).data.withUnsafeBytes { $0.load(as: Int32.self) })
  }
}

/// The known evidence of one patient, and the number of questions asked.
final class Interview {
  private let model: TriageModel
  private let canMeasure: Bool
  private var evidence: [String: Bool] = [:]
  private var notKnown: Set<String> = []
  private var opened: Set<String> = []  // which groups of `opening` were answered
  private var questionsAsked = 0

  /// Questions are about what takes an instrument, such as a stethoscope, only if somebody `canMeasure`.
  init(model: TriageModel, canMeasure: Bool = false) {
    self.model = model
    self.canMeasure = canMeasure
  }

  /// Adds a code. Throws if it is unknown or was given as the opposite before; nothing is added then.
  func add(_ code: String, present: Bool) throws {
    guard model.knows(code) else { throw Refused(reason: "\(code) is not in the vocabulary of this model") }
    guard evidence[code, default: present] == present else {
      throw Refused(reason: "\(code) was given as the opposite before")
    }
    evidence[code] = present
  }

  /// Returns the question to put next, nil if the app has to choose.
  func question() throws -> Question? {
    return try model.question(evidence: evidence, notToAsk: notKnown, canMeasure: canMeasure)
  }

  /// Records that the patient cannot tell: the code stays unknown, and is not asked about again.
  func cannotTell(_ code: String) throws {
    guard model.knows(code) else { throw Refused(reason: "\(code) is not in the vocabulary of this model") }
    notKnown.insert(code)
  }

  /// Returns the model's decision.
  func decide() throws -> Decision {
    return try model.decide(evidence: evidence, questionsAsked: questionsAsked)
  }

  /// Returns whether the interview goes on: while the model asks what is worth it, or must ask, which it must for age
  /// and sex, and about red flags, where the decision is not Red yet. Evidence that contradicts itself ends it; other
  /// reasons to hand over count at the end.
  func asksNext(_ decision: Decision, _ question: Question?) -> Bool {
    let asks = decision.action == "ask" && (question?.worthAsking ?? true)
    let first = question.map { !$0.oneOf.isEmpty || $0.redFlag } ?? false
    let mustAsk = first && decision.bestTriage != "Red"
    return (asks || mustAsk) && !decision.forced && decision.deferred != contradictory
  }

  /// Counts an answer about `codes`, those of a question or others; age and sex are one question together.
  func countAnswer(_ codes: [String]) {
    let groups = Set(codes.map { model.group(of: $0) }).intersection(opening.keys).subtracting(opened)
    if groups.isEmpty || opened.isEmpty { questionsAsked += 1 }
    opened.formUnion(groups)
  }

  /// Returns a triage decision, as nothing more is known.
  func decideNow() throws -> Decision {
    return try model.decide(evidence: evidence, questionsAsked: model.description.maxQuestions)
  }
}

private func sha256(_ data: Data) -> String {
  return SHA256.hash(data: data).map { String(format: "%02x", $0) }.joined()
}

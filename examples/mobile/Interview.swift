// An interview on iOS: examples/mobile/interview.py in Swift, with LiteRT, which CocoaPods still calls TensorFlow Lite.
//
// Podfile: pod 'TensorFlowLiteSwift', '2.17.0'. `converse` leads a whole interview.
// The app's bundle holds triage.tflite and its sidecar triage.tflite.json, which names the file that it belongs to;
// Foundation cannot open ZIP archives, so the description inside the file is not read. Not a medical device.

import CryptoKit
import Foundation
import TensorFlowLite

let formatVersion = 2

let signatureName = "state"
let statesName = "states"  // input float32 [1, E]
let questionsAskedName = "questions_asked"  // input int32 [1]
let nextName = "next"  // output int32 [1], a place in `steps` of the description
let actionName = "action"  // output int32 [1]
let bestTriageName = "best_triage"  // output int32 [1]
let appropriateName = "p_appropriate"  // output float32 [1, D], if the model estimates it
let safeName = "p_safe"  // output float32 [1, D], beside it
let rulesFiredName = "rules_fired"  // output bool [1, R], if the description has R safety rules
let deferredName = "deferred"  // output int32 [1], why a person must look, see `reasons`; else 0

// A file in int8, or of few vignettes, lacks this signature, which has all of the other: then the app chooses questions.
let questionsName = "questions"
let notToAskName = "not_to_ask"  // of questions, input bool [1, E]
let questionCodesName = "question_codes"  // of questions, output int32 [1, Q], cells, the best first; -1 behind the last
let questionTogetherName = "question_together"  // of questions, output int32 [1, T], all cells of the first one, or -1

/// Groups of the vocabulary (`exclusive`) of which every patient has exactly one member.
let opening: Set<String> = ["age", "sex"]
let reasons = [0: "nothing is known", 1: "contradictory", 2: "novel", 3: "unsure"]

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
    let name: String
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
  let steps: [Step]
  let maxQuestions: Int
  let vocabulary: [Entry]
  let vocabularyFingerprint: String
  let safetyRules: [Rule]
  let texts: [String: String]
}

/// A question that the model would put.
struct Question {
  let code: String
  let text: String  // to ask a patient
  let anyOf: [String]  // if it has codes, ask of each of them
  let oneOf: [String]  // if it has codes, of age bands or sexes, ask which one it is
}

/// What a patient says: codes that are present, absent and not known; of `Question.oneOf` one alone.
struct Said {
  var present: [String] = []
  var absent: [String] = []
  var notKnown: [String] = []
}

/// The answer of the model: `action` is a triage decision or "ask", `bestTriage` its decision without asking.
struct Decision {
  let action: String
  let bestTriage: String
  /// The probabilities that each triage decision is appropriate, and safe; empty if the model estimates none.
  let chances: [(triage: String, appropriate: Float32, safe: Float32)]
  /// Safety rules that fired, with the reason for the clinician.
  let rules: [Description.Rule]
  /// See `deferredName`. If it is not 0 the app hands the case over, and `bestTriage` is the least urgency until then.
  let deferred: Int
}

/// `steps` of the description.
enum Step: String, Decodable {
  case ask, decide
  case handOver = "hand_over"
}

/// Where an interview stands. `question` is nil where there is none, or where the app has to choose it.
struct Turn {
  let step: Step
  let decision: Decision
  let question: Question?
}

/// A file that `triage tflite` wrote. Throws if its vocabulary is not the one that the app was built for.
final class TriageModel {
  let description: Description
  private let cells: [String: Int]
  private let runner: SignatureRunner
  let choosesQuestions: Bool

  init(file: URL, expectedFingerprint: String? = nil) throws {
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    let sidecar = file.appendingPathExtension("json")
    description = try decoder.decode(Description.self, from: Data(contentsOf: sidecar))
    guard description.formatVersion == formatVersion else { throw Refused(reason: "made for another version of this app") }
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
    choosesQuestions = interpreter.signatureKeys.contains(questionsName)
    runner = try interpreter.signatureRunner(with: choosesQuestions ? questionsName : signatureName)
  }

  func knows(_ code: String) -> Bool {
    return cells[code] != nil
  }

  /// Returns what is next where `evidence` says whether each known code is present.
  func turn(evidence: [String: Bool], questionsAsked: Int, notToAsk: Set<String>, canMeasure: Bool) throws -> Turn {
    var states = [Float32](repeating: 0, count: cells.count)
    for (code, present) in evidence { states[cells[code]!] = present ? 1 : -1 }
    let measured = description.vocabulary.filter { !$0.instrument.isEmpty }.map { $0.code }
    let unwanted = canMeasure ? notToAsk : notToAsk.union(measured)
    var withheld = [UInt8](repeating: 0, count: cells.count)
    for code in unwanted { withheld[cells[code]!] = 1 }
    var inputs = [
      statesName: states.withUnsafeBufferPointer { Data(buffer: $0) },
      questionsAskedName: withUnsafeBytes(of: Int32(questionsAsked)) { Data($0) },
    ]
    if choosesQuestions { inputs[notToAskName] = Data(withheld) }
    try runner.invoke(with: inputs)
    let step = description.steps[try number(nextName)]
    let asks = step == .ask && choosesQuestions
    return Turn(
      step: step, decision: try decision(), question: asks ? try question(unwanted.union(evidence.keys)) : nil)
  }

  /// Returns the group of a code, "" if it is in none.
  func group(of code: String) -> String {
    return description.vocabulary[cells[code]!].exclusive
  }

  private func question(_ settled: Set<String>) throws -> Question {
    let entry = description.vocabulary[try number(questionCodesName)]
    let together: [Int32] = values(try runner.output(named: questionTogetherName))
    let anyOf = together.filter { $0 >= 0 }.map { description.vocabulary[Int($0)].code }
    let grouped = opening.contains(entry.exclusive)
    let members = description.vocabulary.filter { grouped && $0.exclusive == entry.exclusive }.map { $0.code }
    let choosable = members.count > 1 && settled.isDisjoint(with: members)
    let texts = description.texts
    let text = !anyOf.isEmpty ? texts["several"]! : choosable ? texts[entry.exclusive]! : entry.question
    return Question(code: entry.code, text: text, anyOf: anyOf, oneOf: choosable ? members : [])
  }

  private func decision() throws -> Decision {
    let rules = description.safetyRules
    let fired = rules.isEmpty ? Data() : try runner.output(named: rulesFiredName).data
    let estimates = runner.outputs.contains(safeName)
    let appropriate: [Float32] = estimates ? values(try runner.output(named: appropriateName)) : []
    let safe: [Float32] = estimates ? values(try runner.output(named: safeName)) : []
    return Decision(
      action: description.actions[try number(actionName)],
      bestTriage: description.actions[try number(bestTriageName)],
      chances: zip(description.actions, zip(appropriate, safe)).map { (triage: $0, appropriate: $1.0, safe: $1.1) },
      rules: zip(rules, fired).filter { $0.1 != 0 }.map { $0.0 },
      deferred: try number(deferredName)
    )
  }

  private func number(_ name: String) throws -> Int {
    let numbers: [Int32] = values(try runner.output(named: name))
    return Int(numbers[0])
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
  private var over = false

  /// Questions are about what takes an instrument, such as a stethoscope, only if somebody `canMeasure`.
  init(model: TriageModel, canMeasure: Bool = false) {
    self.model = model
    self.canMeasure = canMeasure
  }

  /// Adds what is said; what is not known is not asked about again. Throws if a code is unknown or was given as the
  /// opposite before; nothing is added then.
  func add(_ said: Said) throws {
    for code in said.present + said.absent + said.notKnown where !model.knows(code) {
      throw Refused(reason: "\(code) is not in the vocabulary of this model")
    }
    var known = evidence
    for (code, present) in said.present.map({ ($0, true) }) + said.absent.map({ ($0, false) }) {
      guard known[code, default: present] == present else {
        throw Refused(reason: "\(code) was \(present ? "absent" : "present") before: which is right?")
      }
      known[code] = present
    }
    evidence = known
    notKnown.formUnion(said.notKnown)
  }

  /// Counts an answer about `codes`; age and sex are one question together.
  func count(_ codes: [String]) {
    let groups = Set(codes.map { model.group(of: $0) }).intersection(opening).subtracting(opened)
    if groups.isEmpty || opened.isEmpty { questionsAsked += 1 }
    opened.formUnion(groups)
  }

  /// Notes that nobody can say more.
  func end() {
    over = true
  }

  /// Returns whether to ask, to decide or to hand over, as a server would.
  func next() throws -> Turn {
    return try model.turn(
      evidence: evidence, questionsAsked: over ? model.description.maxQuestions : questionsAsked, notToAsk: notKnown,
      canMeasure: canMeasure)
  }
}

/// Leads a whole interview, and shows its end.
///
/// `put` shows the text of a question, and below it the names of `oneOf` to choose from; or the name of each of `anyOf`,
/// else of the one code, with yes, no and "don't know". Without a question it asks for the complaint, later for anything
/// else, and returns nil if there is nothing. `show` shows a line. What is refused is asked again.
func converse(
  model: TriageModel, put: (Question?, [String: String]) -> Said?, show: (String) -> Void
) throws {
  let names = Dictionary(uniqueKeysWithValues: model.description.vocabulary.map { ($0.code, $0.name) })
  let interview = Interview(model: model)
  var known = false
  while !known {
    if let complaint = put(nil, names) { known = try tell(interview, complaint, show) }
  }
  var turn = try interview.next()
  while turn.step == .ask {
    if let said = put(turn.question, names) {
      if try tell(interview, said, show) { interview.count(said.present + said.absent + said.notKnown) }
    } else {
      interview.end()
    }
    turn = try interview.next()
  }
  let decision = turn.decision
  if turn.step == .handOver { show("A person must look: \(reasons[decision.deferred]!). Until then:") }
  show(decision.bestTriage)
  for (triage, appropriate, safe) in decision.chances {
    show(String(format: "  %@: appropriate %.0f%%, safe %.0f%%", triage, 100 * appropriate, 100 * safe))
  }
  for rule in decision.rules { show("Rule \(rule.ruleId): \(rule.reason)") }
}

/// Adds what is said; returns false, and shows why, if it must not reach the model.
private func tell(_ interview: Interview, _ said: Said, _ show: (String) -> Void) throws -> Bool {
  do {
    try interview.add(said)
    return true
  } catch let refused as Refused {
    show(refused.reason)
    return false
  }
}

/// Returns a copy of a tensor's values, as those in its few bytes need not be aligned.
private func values<Value: Numeric>(_ tensor: Tensor) -> [Value] {
  var values = [Value](repeating: 0, count: tensor.data.count / MemoryLayout<Value>.size)
  _ = values.withUnsafeMutableBytes { tensor.data.copyBytes(to: $0) }
  return values
}

private func sha256(_ data: Data) -> String {
  return SHA256.hash(data: data).map { String(format: "%02x", $0) }.joined()
}

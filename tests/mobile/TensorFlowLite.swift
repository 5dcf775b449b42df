import Foundation

/// Stands in for LiteRT's class of this name, which needs iOS: litert.py runs the file.
public final class Interpreter {
  fileprivate var outputs: [String: [String]] = [:]
  private let litert = Process()
  private let requests = Pipe()
  private let answers = Pipe()
  private var unread = Data()

  public var signatureKeys: [String] {
    return Array(outputs.keys)
  }

  public init(modelPath: String) throws {
    let environment = ProcessInfo.processInfo.environment
    litert.executableURL = URL(fileURLWithPath: environment["PYTHON"]!)
    litert.arguments = [environment["LITERT"]!, modelPath]
    litert.standardInput = requests
    litert.standardOutput = answers
    try litert.run()
    while case let words = read(), words.count == 5 {
      outputs[words[0], default: []] += words[1] == "output" ? [words[2]] : []
    }
  }

  public func signatureRunner(with key: String) throws -> SignatureRunner {
    return SignatureRunner(interpreter: self, signatureKey: key)
  }

  fileprivate func ask(_ line: String) -> [String] {
    requests.fileHandleForWriting.write(Data((line + "\n").utf8))
    return read()
  }

  private func read() -> [String] {
    while true {
      if let end = unread.firstIndex(of: 10) {
        let line = String(decoding: unread[..<end], as: UTF8.self)
        unread = Data(unread[(end + 1)...])
        return line.split(separator: " ").map(String.init)
      }
      let more = answers.fileHandleForReading.availableData
      precondition(!more.isEmpty, "LiteRT refused the request")
      unread += more
    }
  }
}

public final class SignatureRunner {
  private let interpreter: Interpreter
  private let signatureKey: String
  private var values: [String: Tensor] = [:]

  public var outputs: [String] {
    return interpreter.outputs[signatureKey]!
  }

  fileprivate init(interpreter: Interpreter, signatureKey: String) {
    self.interpreter = interpreter
    self.signatureKey = signatureKey
  }

  public func invoke(with inputs: [String: Data]) throws {
    let given = inputs.map { name, data in name + "=" + data.map { String(format: "%02x", $0) }.joined() }
    for word in interpreter.ask(([signatureKey] + given).joined(separator: " ")) {
      let parts = word.split(separator: "=")
      let digits = Array(parts[1])
      let bytes = stride(from: 0, to: digits.count, by: 2).map { UInt8(String(digits[$0...$0 + 1]), radix: 16)! }
      values[String(parts[0])] = Tensor(data: Data(bytes))
    }
  }

  public func output(named name: String) throws -> Tensor {
    return values[name]!
  }
}

public struct Tensor {
  public let data: Data
}

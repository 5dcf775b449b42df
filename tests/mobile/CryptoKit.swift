import Foundation

/// Stands in for Apple's module of this name, which Linux lacks: `sha256sum` does the work.
public enum SHA256 {
  public static func hash(data: Data) -> [UInt8] {
    let program = Process()
    let (given, answer) = (Pipe(), Pipe())
    program.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    program.arguments = ["sha256sum"]
    program.standardInput = given
    program.standardOutput = answer
    try! program.run()
    given.fileHandleForWriting.write(data)
    try! given.fileHandleForWriting.close()
    let digits = Array(String(decoding: answer.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self).prefix(64))
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(String(digits[$0...$0 + 1]), radix: 16)! }
  }
}

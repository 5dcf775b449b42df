// Puts the questions of Interview.swift on a terminal, as interview.py does.

import Foundation

func said(_ line: String) -> Said {
  let codes = line.split(separator: " ").map(String.init)
  let absent = codes.filter { $0.hasPrefix("-") }.map { String($0.dropFirst()) }
  return Said(present: codes.filter { !$0.hasPrefix("-") }, absent: absent)
}

func put(_ question: Question?, _ names: [String: String]) -> Said? {
  guard let question = question else {
    let line = readLine()!
    return line.isEmpty ? nil : said(line)
  }
  print(question.text)
  if !question.oneOf.isEmpty {
    for (place, code) in question.oneOf.enumerated() { print("  \(place + 1) \(names[code]!)") }
    guard let number = Int(readLine()!) else { return Said(notKnown: [question.code]) }
    return Said(present: [question.oneOf[number - 1]])
  }
  var answers: [String: [String]] = [:]
  for code in question.anyOf.isEmpty ? [question.code] : question.anyOf {
    print("  \(names[code]!)")
    answers[readLine()!, default: []].append(code)
  }
  return Said(present: answers["y"] ?? [], absent: answers["n"] ?? [], notKnown: answers[""] ?? [])
}

let model = try TriageModel(file: URL(fileURLWithPath: CommandLine.arguments[1]))
try converse(model: model, put: put, show: { print($0) })

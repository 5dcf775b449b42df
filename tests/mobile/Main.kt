// Puts the questions of Interview.kt on a terminal, as interview.py does.

import java.io.File

fun main(arguments: Array<String>) {
    TriageModel(File(arguments[0])).use { converse(it, ::put, ::println) }
}

fun said(line: String): Said {
    val (absent, present) = line.split(" ").filter { it.isNotEmpty() }.partition { it.startsWith("-") }
    return Said(present, absent.map { it.drop(1) })
}

fun put(question: Question?, names: Map<String, String>): Said? {
    if (question == null) return readln().ifEmpty { null }?.let { said(it) }
    println(question.text)
    if (question.oneOf.isNotEmpty()) {
        question.oneOf.forEachIndexed { place, code -> println("  ${place + 1} ${names[code]}") }
        val member = readln().toIntOrNull()?.let { question.oneOf[it - 1] }
        return if (member == null) Said(notKnown = listOf(question.code)) else Said(present = listOf(member))
    }
    val answers = question.anyOf.ifEmpty { listOf(question.code) }.groupBy {
        println("  ${names[it]}")
        readln()
    }
    return Said(answers["y"].orEmpty(), answers["n"].orEmpty(), answers[""].orEmpty())
}

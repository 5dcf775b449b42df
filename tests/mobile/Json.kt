// Stands in for Android's package of this name: reads JSON, as far as the description of a TFLite file goes.

package org.json

private val TOKEN = Regex("""[\[\]{}:,]|"((?:[^"\\]|\\.)*)"|[^\s\[\]{}:,]+""")

class JSONObject private constructor(private val members: Map<String, Any>) {
    constructor(text: String) : this((value(TOKEN.findAll(text).iterator()) as JSONObject).members)

    fun keys() = members.keys.iterator()

    fun getString(name: String) = members.getValue(name) as String

    fun getInt(name: String) = getString(name).toInt()

    fun getJSONObject(name: String) = members.getValue(name) as JSONObject

    fun getJSONArray(name: String) = members.getValue(name) as JSONArray

    companion object {
        private fun value(tokens: Iterator<MatchResult>, token: MatchResult = tokens.next()): Any = when (token.value[0]) {
            '{' -> JSONObject(parts(tokens, "}").chunked(2).associate { (key, value) -> key as String to value })
            '[' -> JSONArray(parts(tokens, "]"))
            '"' -> token.groupValues[1].replace(Regex("""\\(["\\/])"""), "$1")
            else -> token.value
        }

        /** All values up to [end], keys among them. */
        private fun parts(tokens: Iterator<MatchResult>, end: String): List<Any> =
            generateSequence { tokens.next() }.takeWhile { it.value != end }.filter { it.value !in setOf(",", ":") }
                .map { value(tokens, it) }.toList()
    }
}

class JSONArray internal constructor(private val elements: List<Any>) {
    fun length() = elements.size

    fun getInt(index: Int) = getString(index).toInt()

    fun getString(index: Int) = elements[index] as String

    fun getJSONObject(index: Int) = elements[index] as JSONObject
}

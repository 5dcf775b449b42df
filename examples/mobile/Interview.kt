// An interview on Android: examples/mobile/interview.py in Kotlin, with the LiteRT interpreter.
//
// Gradle: implementation("com.google.ai.edge.litert:litert:1.4.2") and androidResources { noCompress += "tflite" }.
// Copy the file from the assets to a File first, as the ZIP reader needs one. `converse` leads a whole interview. Not a
// medical device.

import java.io.File
import java.security.MessageDigest
import java.util.zip.ZipFile
import org.json.JSONObject
import org.tensorflow.lite.Interpreter

const val DESCRIPTION = "triage.json"
const val FORMAT = 2

const val SIGNATURE = "state"
const val STATES = "states" // input float32 [1, E]
const val QUESTIONS_ASKED = "questions_asked" // input int32 [1]
const val NEXT = "next" // output int32 [1], a place in `steps` of the description
const val ACTION = "action" // output int32 [1]
const val BEST_TRIAGE = "best_triage" // output int32 [1]
const val P_APPROPRIATE = "p_appropriate" // output float32 [1, D], if the model estimates it
const val P_SAFE = "p_safe" // output float32 [1, D], beside it
const val RULES_FIRED = "rules_fired" // output bool [1, R], if the description has R safety rules
const val DEFERRED = "deferred" // output int32 [1], why a person must look, see REASONS; else 0

// A file in int8, or of few vignettes, lacks this signature, which has all of the other: then the app chooses questions.
const val QUESTIONS = "questions"
const val NOT_TO_ASK = "not_to_ask" // of questions, input bool [1, E]
const val QUESTION_CODES = "question_codes" // of questions, output int32 [1, Q], cells, the best first; -1 behind the last
const val QUESTION_TOGETHER = "question_together" // of questions, output int32 [1, T], all cells of the first one, or -1

/** Groups of the vocabulary (`exclusive`) of which every patient has exactly one member. */
val OPENING = setOf("age", "sex")
val REASONS = mapOf(0 to "nothing is known", 1 to "contradictory", 2 to "novel", 3 to "unsure")

/** The input must not reach the model; the message says why. */
class Refused(message: String) : Exception(message)

/**
 * A question that the model would put. If [anyOf] has codes, ask of each of them; if [oneOf] has codes, of age bands or
 * sexes, ask which one it is.
 */
data class Question(val code: String, val text: String, val anyOf: List<String>, val oneOf: List<String>)

/** What a patient says: codes that are present, absent and not known; of [Question.oneOf] one alone. */
data class Said(
    val present: List<String> = emptyList(), val absent: List<String> = emptyList(),
    val notKnown: List<String> = emptyList()
)

/** The answer of the model: [action] is a triage decision or "ask", [bestTriage] its decision without asking. */
data class Decision(
    val action: String,
    val bestTriage: String,
    /** By triage decision the probabilities that it is appropriate, and safe; empty if the model estimates none. */
    val chances: Map<String, Pair<Float, Float>>,
    /** By name the reasons of the safety rules that fired, for the clinician. */
    val rules: Map<String, String>,
    /** See [DEFERRED]. If it is not 0 the app hands the case over, and [bestTriage] is the least urgency until then. */
    val deferred: Int
)

/** `steps` of the description. */
enum class Step { ASK, DECIDE, HAND_OVER }

/** Where an interview stands. [question] is null where there is none, or where the app has to choose it. */
data class Turn(val step: Step, val decision: Decision, val question: Question?)

/** A file that `triage tflite` wrote. Throws [Refused] if its vocabulary is not the one the app was built for. */
class TriageModel(file: File, expectedFingerprint: String? = null) : AutoCloseable {
    /** The question of each code, in the order of the cells. */
    val questions = LinkedHashMap<String, String>()
    /** The plain name of each code. */
    val names = HashMap<String, String>()
    val maxQuestions: Int
    /** The group of each code, "" if it is in none. */
    val groups = HashMap<String, String>()
    private val texts: JSONObject // of questions about several codes
    private val measured = HashSet<String>()
    private val cells = HashMap<String, Int>()
    private val actions: List<String>
    private val rules: List<Pair<String, String>> // their names, and reasons
    private val steps: List<Step>
    private val outputs: JSONObject // of the signature
    private val interpreter: Interpreter

    init {
        val text = ZipFile(file).use { archive ->
            val entry = archive.getEntry(DESCRIPTION) ?: throw Refused("$file: not a file that `triage tflite` wrote")
            archive.getInputStream(entry).readBytes().toString(Charsets.UTF_8)
        }
        val description = JSONObject(text)
        if (description.getInt("format_version") != FORMAT) throw Refused("$file: made for another version of this app")
        val vocabulary = description.getJSONArray("vocabulary")
        for (cell in 0 until vocabulary.length()) {
            val entry = vocabulary.getJSONObject(cell)
            questions[entry.getString("code")] = entry.getString("question")
            names[entry.getString("code")] = entry.getString("name")
            groups[entry.getString("code")] = entry.getString("exclusive")
            if (entry.getString("instrument").isNotEmpty()) measured.add(entry.getString("code"))
            cells[entry.getString("code")] = cell
        }
        val fingerprint = fingerprintOf(questions.keys)
        if (fingerprint != description.getString("vocabulary_fingerprint")) {
            throw Refused("$file: its vocabulary is damaged")
        }
        if (expectedFingerprint != null && expectedFingerprint != fingerprint) {
            throw Refused("$file: made for the vocabulary $fingerprint, this app for $expectedFingerprint")
        }
        maxQuestions = description.getInt("max_questions")
        texts = description.getJSONObject("texts")
        val labels = description.getJSONArray("actions")
        actions = (0 until labels.length()).map { labels.getString(it) }
        val named = description.getJSONArray("steps")
        steps = (0 until named.length()).map { Step.valueOf(named.getString(it).uppercase()) }
        val listed = description.getJSONArray("safety_rules")
        rules = (0 until listed.length()).map { listed.getJSONObject(it) }
            .map { it.getString("rule_id") to it.getString("reason") }
        interpreter = Interpreter(file)
        val signature = if (choosesQuestions) "question_signature" else "signature"
        outputs = description.getJSONObject(signature).getJSONObject("outputs")
    }

    val choosesQuestions: Boolean get() = QUESTIONS in interpreter.signatureKeys

    /** Returns what is next where [evidence] says whether each known code is present. */
    fun turn(evidence: Map<String, Boolean>, questionsAsked: Int, notToAsk: Set<String>, canMeasure: Boolean): Turn {
        val states = arrayOf(FloatArray(cells.size))
        for ((code, present) in evidence) states[0][cells.getValue(code)] = if (present) 1f else -1f
        val withheld = arrayOf(BooleanArray(cells.size))
        val unwanted = if (canMeasure) notToAsk else notToAsk + measured
        for (code in unwanted) withheld[0][cells.getValue(code)] = true
        val inputs = mutableMapOf<String, Any>(STATES to states, QUESTIONS_ASKED to intArrayOf(questionsAsked))
        if (choosesQuestions) inputs[NOT_TO_ASK] = withheld
        val answer = outputs.keys().asSequence().associateWith { arrayFor(outputs.getJSONObject(it)) }
        interpreter.runSignature(inputs, answer, if (choosesQuestions) QUESTIONS else SIGNATURE)
        val step = steps[(answer.getValue(NEXT) as IntArray)[0]]
        val asks = step == Step.ASK && choosesQuestions
        return Turn(step, decision(answer), if (asks) question(answer, evidence.keys + unwanted) else null)
    }

    /** Returns an array for a tensor of the description, `[1]` or `[1, N]`. */
    private fun arrayFor(tensor: JSONObject): Any {
        val shape = tensor.getJSONArray("shape")
        val size = shape.getInt(shape.length() - 1)
        val flat = shape.length() == 1
        return when (tensor.getString("dtype")) {
            "float32" -> FloatArray(size).let { if (flat) it else arrayOf(it) }
            "int32" -> IntArray(size).let { if (flat) it else arrayOf(it) }
            else -> BooleanArray(size).let { if (flat) it else arrayOf(it) }
        }
    }

    private fun numbers(values: Any?) = ((values as Array<*>)[0] as FloatArray).toList()

    private fun codes(values: Any?) = ((values as Array<*>)[0] as IntArray).filter { it >= 0 }
        .map { questions.keys.elementAt(it) }

    private fun question(answer: Map<String, Any>, settled: Set<String>): Question {
        val code = codes(answer[QUESTION_CODES]).first()
        val anyOf = codes(answer[QUESTION_TOGETHER])
        val group = groups.getValue(code)
        val members = questions.keys.filter { group in OPENING && groups.getValue(it) == group }
        val oneOf = if (members.size > 1 && members.none { it in settled }) members else emptyList()
        val text = when {
            anyOf.isNotEmpty() -> texts.getString("several")
            oneOf.isNotEmpty() -> texts.getString(group)
            else -> questions.getValue(code)
        }
        return Question(code, text, anyOf, oneOf)
    }

    private fun decision(answer: Map<String, Any>): Decision {
        val estimates = listOf(P_APPROPRIATE, P_SAFE).mapNotNull { answer[it] }.map { numbers(it) }
        val chances = if (estimates.isEmpty()) emptyMap() else actions.zip(estimates[0].zip(estimates[1])).toMap()
        val fired = (answer[RULES_FIRED] as Array<*>?)?.get(0) as BooleanArray?
        return Decision(
            actions[(answer.getValue(ACTION) as IntArray)[0]],
            actions[(answer.getValue(BEST_TRIAGE) as IntArray)[0]],
            chances,
            rules.filterIndexed { rule, _ -> fired!![rule] }.toMap(),
            (answer.getValue(DEFERRED) as IntArray)[0]
        )
    }

    override fun close() = interpreter.close()

    private fun fingerprintOf(codes: Collection<String>): String {
        val bytes = codes.joinToString("") { "$it\n" }.toByteArray(Charsets.UTF_8)
        val digest = MessageDigest.getInstance("SHA-256").digest(bytes)
        return "sha256:" + digest.joinToString("") { "%02x".format(it) }
    }
}

/**
 * The known evidence of one patient, and the number of questions asked.
 * Questions are about what takes an instrument, such as a stethoscope, only if somebody [canMeasure].
 */
class Interview(private val model: TriageModel, private val canMeasure: Boolean = false) {
    private val evidence = HashMap<String, Boolean>()
    private val notKnown = HashSet<String>()
    private val opened = HashSet<String>() // which of OPENING were answered
    private var questionsAsked = 0
    private var over = false

    /**
     * Adds what is said; what is not known is not asked about again.
     * Throws [Refused] if a code is unknown or was given as the opposite before; nothing is added then.
     */
    fun add(said: Said) {
        for (code in said.present + said.absent + said.notKnown) {
            if (code !in model.questions) throw Refused("$code is not in the vocabulary of this model")
        }
        val known = HashMap(evidence)
        for ((code, present) in said.present.map { it to true } + said.absent.map { it to false }) {
            if (known.getOrPut(code) { present } != present) {
                throw Refused("$code was ${if (present) "absent" else "present"} before: which is right?")
            }
        }
        evidence.putAll(known)
        notKnown.addAll(said.notKnown)
    }

    /** Counts an answer about [codes], those of a question or others; age and sex are one question together. */
    fun count(codes: Collection<String>) {
        val opening = codes.map { model.groups.getValue(it) }.filter { it in OPENING && it !in opened }
        if (opening.isEmpty() || opened.isEmpty()) questionsAsked += 1
        opened.addAll(opening)
    }

    /** Notes that nobody can say more. */
    fun end() {
        over = true
    }

    /** Returns whether to ask, to decide or to hand over, as a server would. */
    fun next(): Turn = model.turn(evidence, if (over) model.maxQuestions else questionsAsked, notKnown, canMeasure)
}

/**
 * Leads a whole interview, and shows its end.
 *
 * [put] shows the text of a question, and below it the names of [Question.oneOf] to choose from; or the name of each of
 * [Question.anyOf], else of the one code, with yes, no and "don't know". Without a question it asks for the complaint, later
 * for anything else, and returns null if there is nothing. [show] shows a line. What is refused is asked again.
 */
fun converse(model: TriageModel, put: (Question?, Map<String, String>) -> Said?, show: (String) -> Unit) {
    val interview = Interview(model)
    var known = false
    while (!known) {
        val complaint = put(null, model.names)
        known = complaint != null && tell(interview, complaint, show)
    }
    var turn = interview.next()
    while (turn.step == Step.ASK) {
        val question = turn.question
        val said = put(question, model.names)
        if (said == null) {
            interview.end()
        } else if (tell(interview, said, show)) {
            interview.count(said.present + said.absent + said.notKnown)
        }
        turn = interview.next()
    }
    val decision = turn.decision
    if (turn.step == Step.HAND_OVER) show("A person must look: ${REASONS[decision.deferred]}. Until then:")
    show(decision.bestTriage)
    for ((triage, chances) in decision.chances) {
        show("  $triage: appropriate %.0f%%, safe %.0f%%".format(100 * chances.first, 100 * chances.second))
    }
    for ((rule, reason) in decision.rules) show("Rule $rule: $reason")
}

/** Adds what is said; returns false, and shows why, if it must not reach the model. */
private fun tell(interview: Interview, said: Said, show: (String) -> Unit): Boolean {
    try {
        interview.add(said)
        return true
    } catch (refused: Refused) {
        show(refused.message!!)
        return false
    }
}

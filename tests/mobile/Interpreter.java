package org.tensorflow.lite;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Stands in for LiteRT's class of this name, which needs Android: litert.py runs the file. As strict on arrays. */
public final class Interpreter implements AutoCloseable {
    private final Process litert;
    private final BufferedReader answers;
    private final PrintStream requests;
    /** By signature, side and name what an array must be. */
    private final Map<String, Map<String, Map<String, String>>> tensors = new LinkedHashMap<>();

    public Interpreter(File file) {
        try {
            litert = new ProcessBuilder(System.getenv("PYTHON"), System.getenv("LITERT"), file.getPath())
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        answers = litert.inputReader();
        requests = new PrintStream(litert.getOutputStream(), true);
        for (String[] words = read(); words.length == 5; words = read()) {
            tensors.computeIfAbsent(words[0], key -> new LinkedHashMap<>())
                .computeIfAbsent(words[1], side -> new LinkedHashMap<>()).put(words[2], words[3] + " " + words[4]);
        }
    }

    public String[] getSignatureKeys() {
        return tensors.keySet().toArray(new String[0]);
    }

    public String[] getSignatureOutputs(String signature) {
        return tensors.get(signature).get("output").keySet().toArray(new String[0]);
    }

    public void runSignature(Map<String, Object> inputs, Map<String, Object> outputs, String signature) {
        List<String> request = new ArrayList<>(List.of(signature));
        inputs.forEach((name, values) -> {
            ByteBuffer bytes = ByteBuffer.allocate(1 << 20).order(ByteOrder.LITTLE_ENDIAN);
            transfer(check(signature, "input", name, values), bytes, true);
            request.add(name + "=" + HexFormat.of().formatHex(bytes.array(), 0, bytes.position()));
        });
        requests.println(String.join(" ", request));
        Map<String, ByteBuffer> answer = new LinkedHashMap<>();
        for (String word : read()) {
            String[] parts = word.split("=");
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(parts[1])).order(ByteOrder.LITTLE_ENDIAN);
            answer.put(parts[0], bytes);
        }
        outputs.forEach((name, values) ->
            transfer(check(signature, "output", name, values), answer.get(name), false));
    }

    @Override
    public void close() {
        requests.close();
    }

    private String[] read() {
        try {
            String line = answers.readLine();
            if (line == null) throw new IllegalArgumentException("LiteRT refused the request");
            return line.split(" ");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private Object check(String signature, String side, String name, Object values) {
        StringBuilder shape = new StringBuilder();
        Object row = values;
        for (; row instanceof Object[] rows; row = rows[0]) shape.append(rows.length).append("x");
        String actual = row.getClass().getComponentType() + " " + shape + java.lang.reflect.Array.getLength(row);
        String expected = tensors.get(signature).get(side).get(name);
        if (!actual.replace("boolean", "bool").replace("float", "float32").replace("int ", "int32 ").equals(expected)) {
            throw new IllegalArgumentException(signature + ", " + name + ": " + actual + ", not " + expected);
        }
        return values;
    }

    private static void transfer(Object values, ByteBuffer bytes, boolean write) {
        if (values instanceof Object[] rows) {
            for (Object row : rows) transfer(row, bytes, write);
        } else if (values instanceof float[] numbers) {
            for (int i = 0; i < numbers.length; i++) {
                if (write) bytes.putFloat(numbers[i]); else numbers[i] = bytes.getFloat();
            }
        } else if (values instanceof int[] numbers) {
            for (int i = 0; i < numbers.length; i++) {
                if (write) bytes.putInt(numbers[i]); else numbers[i] = bytes.getInt();
            }
        } else if (values instanceof boolean[] flags) {
            for (int i = 0; i < flags.length; i++) {
                if (write) bytes.put((byte) (flags[i] ? 1 : 0)); else flags[i] = bytes.get() != 0;
            }
        }
    }
}

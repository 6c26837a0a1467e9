import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;

/**
 * Runs many argument lists through the one method behind kafka-features.sh, in one JVM, and tells what each printed.
 *
 * The argument is a file: one list on a line, its words in base64 with spaces between. For each, a line goes to standard
 * output: the exit code, standard output and standard error, the last two in base64.
 */
public class ManyCommands {
    public static void main(String[] args) throws Exception {
        Method run = Class.forName("org.apache.kafka.tools.FeatureCommand").getDeclaredMethod("mainNoExit", String[].class);
        run.setAccessible(true);
        PrintStream told = System.out;
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            int code = (int) run.invoke(null, (Object) words(line));
            System.out.flush();
            System.err.flush();
            told.println(code + " " + encoded(out) + " " + encoded(err));
        }
        told.flush();
        Runtime.getRuntime().halt(0);
    }

    private static String[] words(String line) {
        if (line.isEmpty()) {
            return new String[0];
        }
        String[] encoded = line.split(" ", -1);
        String[] words = new String[encoded.length];
        for (int i = 0; i < words.length; i++) {
            words[i] = new String(Base64.getDecoder().decode(encoded[i]), StandardCharsets.UTF_8);
        }
        return words;
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return "=" + Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}

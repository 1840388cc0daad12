import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command line tools, one after another in one JVM: a start takes longer than most of them.
 *
 * A command is a line of words with tabs between them: how many lines of input follow, the class, its arguments. The
 * answer is a line with the exit status and the number of bytes that were printed, and then those.
 */
public final class ToolShell {
    private static final class Ended extends RuntimeException {
    }

    // Of the first word about its end that a tool says: what it does with `Ended` is not its own.
    private static int status;
    private static byte[] ending;
    private static ByteArrayOutputStream printed;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure(ToolShell::end);
        Exit.setHaltProcedure(ToolShell::end);
        Exit.setShutdownHookAdder((name, hook) -> { });
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t", -1);
            StringBuilder input = new StringBuilder();
            for (int left = Integer.parseInt(words[0]); left > 0; left--) {
                input.append(commands.readLine()).append('\n');
            }
            byte[] printed = run(words, input.toString());
            answers.println(status + " " + printed.length);
            answers.write(printed);
            answers.flush();
        }
    }

    private static byte[] run(String[] words, String input) throws Exception {
        String[] arguments = new String[words.length - 2];
        System.arraycopy(words, 2, arguments, 0, arguments.length);
        printed = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(printed, true, StandardCharsets.UTF_8);
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        System.setOut(both);
        System.setErr(both);
        ending = null;
        status = 0;
        try {
            Class.forName(words[1]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (ending == null) {
                thrown.getCause().printStackTrace(both);
                status = 1;
            }
        }
        return ending == null ? printed.toByteArray() : ending;
    }

    private static void end(int code, String why) {
        if (ending == null) {
            status = code;
            ending = printed.toByteArray();
        }
        throw new Ended();
    }
}

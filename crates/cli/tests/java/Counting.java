import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import org.jgroups.Address;
import org.jgroups.JChannel;
import org.jgroups.Receiver;
import org.jgroups.Version;
import org.jgroups.View;
import org.jgroups.blocks.atomic.CounterService;
import org.jgroups.blocks.atomic.SyncCounter;
import org.jgroups.util.NameCache;

/**
 * A JGroups member that uses counters. Started as {@code java Counting CONFIG NAME CLUSTER}. On standard
 * input it is told {@code increment COUNTER TIMES}, {@code get COUNTER}, {@code cas COUNTER EXPECTED
 * UPDATE} or {@code stop}; it prints {@code value COUNTER N} for what came of it.
 */
public class Counting implements Receiver {
    public static void main(String[] args) throws Exception {
        say("versions JGroups " + Version.description + ", Java " + System.getProperty("java.version"));
        JChannel channel = new JChannel(args[0]).name(args[1]).setReceiver(new Counting());
        CounterService counters = new CounterService(channel);
        channel.connect(args[2]);
        say("joined");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.trim().split(" ");
            if (words[0].equals("stop")) {
                channel.close();
                say("stopped");
                break;
            }
            SyncCounter counter = counters.getOrCreateSyncCounter(words[1], 0);
            say("value " + words[1] + " " + use(counter, words));
            say("done " + line);
        }
        System.exit(0);
    }

    private static long use(SyncCounter counter, String[] words) {
        switch (words[0]) {
            case "increment" -> {
                long value = 0;
                for (int left = Integer.parseInt(words[2]); left > 0; left--) {
                    value = counter.incrementAndGet();
                }
                return value;
            }
            case "get" -> {
                return counter.get();
            }
            case "cas" -> {
                return counter.compareAndSwap(Long.parseLong(words[2]), Long.parseLong(words[3]));
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    @Override
    public void viewAccepted(View view) {
        List<String> names = view.getMembers().stream().map(Counting::name).toList();
        say("view " + view.getViewId().getId() + " " + String.join(",", names));
    }

    private static String name(Address member) {
        String name = NameCache.get(member);
        return name == null ? String.valueOf(member) : name;
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}

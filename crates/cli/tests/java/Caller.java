import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.jgroups.Address;
import org.jgroups.JChannel;
import org.jgroups.Receiver;
import org.jgroups.Version;
import org.jgroups.View;
import org.jgroups.blocks.MethodCall;
import org.jgroups.blocks.RequestOptions;
import org.jgroups.blocks.ResponseMode;
import org.jgroups.blocks.RpcDispatcher;
import org.jgroups.util.NameCache;
import org.jgroups.util.Rsp;

/**
 * A JGroups member with an RpcDispatcher. Started as {@code java Caller CONFIG NAME CLUSTER}. On
 * standard input it is told {@code call MEMBER METHOD TYPE:VALUE...}, {@code *} for all others, and it
 * prints a line {@code row MEMBER TYPE VALUE} for each answer. Its public methods are those that
 * others call.
 */
public class Caller implements Receiver {
    private static final long TIMEOUT = 30_000;

    public int add(int a, int b) {
        return a + b;
    }

    public long twice(long n) {
        return 2 * n;
    }

    public String greet(String name) {
        return "hello " + name;
    }

    public byte[] reverse(byte[] bytes) {
        byte[] reversed = new byte[bytes.length];
        for (int i = 0; i < bytes.length; i++) {
            reversed[i] = bytes[bytes.length - 1 - i];
        }
        return reversed;
    }

    public boolean isNull(String text) {
        return text == null;
    }

    public String nothing() {
        return null;
    }

    public void fail(String why) {
        throw new IllegalStateException(why);
    }

    /** Something that only Java can read. */
    public List<String> list() {
        return new ArrayList<>(List.of("a", "b"));
    }

    public static void main(String[] args) throws Exception {
        say("versions JGroups " + Version.description + ", Java " + System.getProperty("java.version"));
        JChannel channel = new JChannel(args[0]).name(args[1]);
        Caller caller = new Caller();
        RpcDispatcher dispatcher = new RpcDispatcher(channel, caller);
        dispatcher.setReceiver(caller);
        channel.connect(args[2]);
        say("joined");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            call(channel, dispatcher, line.trim().split(" "));
            say("done " + line);
        }
        System.exit(0);
    }

    private static void call(JChannel channel, RpcDispatcher dispatcher, String[] words) throws Exception {
        List<Address> targets = channel.getView().getMembers().stream()
                .filter(m -> words[1].equals("*") ? !m.equals(channel.getAddress()) : name(m).equals(words[1]))
                .collect(Collectors.toList());
        List<Object> args = new ArrayList<>();
        List<Class<?>> types = new ArrayList<>();
        for (int i = 3; i < words.length; i++) {
            String[] parts = words[i].split(":", 2);
            switch (parts[0]) {
                case "int" -> add(args, types, Integer.valueOf(parts[1]), int.class);
                case "long" -> add(args, types, Long.valueOf(parts[1]), long.class);
                case "string" -> add(args, types, parts[1], String.class);
                case "bytes" -> add(args, types, HexFormat.of().parseHex(parts[1]), byte[].class);
                case "null" -> add(args, types, null, String.class);
                default -> throw new IllegalArgumentException(words[i]);
            }
        }
        MethodCall call = new MethodCall(words[2], args.toArray(), types.toArray(new Class<?>[0]));
        RequestOptions options = new RequestOptions(ResponseMode.GET_ALL, TIMEOUT);
        options.anycasting(!words[1].equals("*"));
        Map<Address, Rsp<Object>> rows = dispatcher.callRemoteMethods(targets, call, options);
        rows.forEach((member, row) -> say("row " + name(member) + " " + show(row)));
    }

    private static void add(List<Object> args, List<Class<?>> types, Object value, Class<?> type) {
        args.add(value);
        types.add(type);
    }

    private static String show(Rsp<Object> row) {
        if (row.hasException()) {
            Throwable thrown = row.getException();
            return "exception " + thrown.getClass().getName() + " " + thrown.getMessage();
        }
        if (!row.wasReceived()) {
            return "nothing received";
        }
        Object value = row.getValue();
        if (value instanceof byte[] bytes) {
            return "bytes " + HexFormat.of().formatHex(bytes);
        }
        return value == null ? "null" : value.getClass().getSimpleName() + " " + value;
    }

    @Override
    public void viewAccepted(View view) {
        List<String> names = view.getMembers().stream().map(Caller::name).toList();
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

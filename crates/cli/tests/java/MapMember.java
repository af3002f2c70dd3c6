import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeSet;
import org.jgroups.JChannel;
import org.jgroups.Version;
import org.jgroups.View;
import org.jgroups.blocks.ReplicatedHashMap;
import org.jgroups.util.NameCache;

/**
 * A JGroups member with a ReplicatedHashMap. Started as {@code java MapMember CONFIG NAME CLUSTER}. On
 * standard input it is told what to do with the map, values as {@code TYPE:VALUE}; it prints
 * {@code result ...}, and for {@code list} a line {@code entry KEY = VALUE} for each entry.
 */
public class MapMember extends ReplicatedHashMap<Object, Object> {
    private static final long STATE_TIMEOUT = 20_000;

    MapMember(JChannel channel) {
        super(channel);
    }

    public static void main(String[] args) throws Exception {
        say("versions JGroups " + Version.description + ", Java " + System.getProperty("java.version"));
        JChannel channel = new JChannel(args[0]).name(args[1]);
        MapMember map = new MapMember(channel);
        map.setBlockingUpdates(true);
        channel.connect(args[2]);
        map.start(STATE_TIMEOUT);
        say("joined");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.trim().split(" ");
            map.obey(words);
            say("done " + line);
        }
        System.exit(0);
    }

    private void obey(String[] words) {
        Object[] v = new Object[words.length];
        for (int i = 1; i < words.length; i++) {
            v[i] = value(words[i]);
        }
        switch (words[0]) {
            case "put" -> result(put(v[1], v[2]));
            case "putIfAbsent" -> result(putIfAbsent(v[1], v[2]));
            case "remove" -> result(remove(v[1]));
            case "removeIf" -> result(remove(v[1], v[2]));
            case "replace" -> result(replace(v[1], v[2]));
            case "replaceIf" -> result(replace(v[1], v[2], v[3]));
            case "clear" -> clear();
            case "putAll" -> {
                Map<Object, Object> all = new HashMap<>();
                for (int i = 1; i + 1 < words.length; i += 2) {
                    all.put(v[i], v[i + 1]);
                }
                putAll(all);
            }
            case "many" -> {
                int times = (Integer) v[1];
                for (int i = 0; i < times; i++) {
                    put("key " + i % 10, i);
                }
            }
            case "list" -> {
                TreeSet<String> lines = new TreeSet<>();
                forEach((key, value) -> lines.add("entry " + show(key) + " = " + show(value)));
                lines.forEach(MapMember::say);
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static void result(Object result) {
        say("result " + show(result));
    }

    private static Object value(String word) {
        String[] parts = word.split(":", 2);
        return switch (parts[0]) {
            case "bool" -> Boolean.valueOf(parts[1]);
            case "byte" -> Byte.valueOf(parts[1]);
            case "short" -> Short.valueOf(parts[1]);
            case "int" -> Integer.valueOf(parts[1]);
            case "long" -> Long.valueOf(parts[1]);
            case "double" -> Double.valueOf(parts[1]);
            case "string" -> parts[1];
            case "bytes" -> HexFormat.of().parseHex(parts[1]);
            default -> throw new IllegalArgumentException(word);
        };
    }

    private static String show(Object value) {
        if (value instanceof byte[] bytes) {
            return "bytes:" + HexFormat.of().formatHex(bytes);
        }
        if (value == null) {
            return "null";
        }
        String type = switch (value.getClass().getSimpleName()) {
            case "Boolean" -> "bool";
            case "Integer" -> "int";
            default -> value.getClass().getSimpleName().toLowerCase();
        };
        return type + ":" + value;
    }

    @Override
    public void viewAccepted(View view) {
        super.viewAccepted(view);
        var names = view.getMembers().stream().map(m -> String.valueOf(NameCache.get(m))).toList();
        say("view " + view.getViewId().getId() + " " + String.join(",", names));
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}

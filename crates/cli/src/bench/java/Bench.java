import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jgroups.Address;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.protocols.MFC;
import org.jgroups.protocols.SEQUENCER;
import org.jgroups.protocols.TP;
import org.jgroups.stack.ProtocolStack;
import org.jgroups.util.NameCache;

/**
 * A JGroups member that takes part in the rounds of {@code rgroups bench mcast}: the same load, the same
 * orders on standard input, the same reports on standard output as {@code member.rs}. Started as
 * {@code java -cp JGROUPS Bench.java CONFIG INDEX NODES CLUSTER PORT [SEQUENCER]}; a port of 0 is any.
 */
public class Bench implements Receiver {
    /** A message begins with kind, round and number, and for one in so many with the time it was sent. */
    private static final int STAMP_EVERY = 64;
    private static final long LAST = 1L << 63;
    private static final long NUMBER = (1L << 48) - 1;

    /** What has been received of one sender. One thread at a time delivers its messages. */
    private static final class Stream {
        volatile long next, bytes;
        volatile boolean over;
        final List<Long> latencies = new ArrayList<>();
    }

    private final int nodes;
    private final Map<Integer, Stream[]> rounds = new ConcurrentHashMap<>();
    private final Map<Address, Integer> places = new ConcurrentHashMap<>();
    private volatile String wrong;

    private Bench(int nodes) {
        this.nodes = nodes;
    }

    private Stream[] round(int number) {
        return rounds.computeIfAbsent(number, n -> {
            Stream[] streams = new Stream[nodes];
            for (int i = 0; i < nodes; i++) {
                streams[i] = new Stream();
            }
            return streams;
        });
    }

    private int place(Address member) {
        return places.computeIfAbsent(member, m -> Integer.parseInt(NameCache.get(m).substring(1)));
    }

    @Override
    public void receive(Message message) {
        ByteBuffer head = ByteBuffer.wrap(message.getArray(), message.getOffset(), message.getLength());
        long first = head.getLong();
        long sent = head.getLong();
        Stream stream = round((int) ((first & ~LAST) >>> 48))[place(message.getSrc())];
        if ((first & NUMBER) != stream.next || stream.over) {
            wrong = "message " + (first & NUMBER) + " instead of " + stream.next;
        }
        if ((first & LAST) != 0) {
            stream.over = true;
            return;
        }
        stream.next++;
        stream.bytes += message.getLength();
        if (sent != 0) {
            synchronized (stream.latencies) {
                stream.latencies.add(Math.max(1, clock() - sent));
            }
        }
    }

    /** Nanoseconds of the clock that all processes of the machine share. */
    private static long clock() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano();
    }

    public static void main(String[] args) throws Exception {
        int index = Integer.parseInt(args[1]);
        int nodes = Integer.parseInt(args[2]);
        JChannel channel = new JChannel(args[0]).name("M" + index);
        TP transport = channel.getProtocolStack().getTransport();
        transport.getDiagnosticsHandler().setEnabled(false);
        int port = Integer.parseInt(args[4]);
        if (port > 0) {
            transport.setBindPort(port);
        }
        if (args.length > 5) {
            channel.getProtocolStack()
                    .insertProtocol(new SEQUENCER(), ProtocolStack.Position.ABOVE, MFC.class);
        }
        Bench bench = new Bench(nodes);
        channel.setReceiver(bench);
        channel.connect(args[3]);
        while (channel.getView().size() < nodes
                || channel.getView().getMembers().stream().anyMatch(m -> NameCache.get(m) == null)) {
            Thread.sleep(10);
        }
        say("{\"is\":\"ready\",\"at\":null}");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String order; (order = orders.readLine()) != null; ) {
            if (order.contains("\"go\"")) {
                say(bench.takePart(channel, index, order));
            }
        }
        System.exit(0);
    }

    private String takePart(JChannel channel, int index, String order) throws Exception {
        int number = (int) number(order, "number");
        int senders = (int) number(order, "senders");
        int size = (int) number(order, "size");
        long count = number(order, "count");
        long began = System.nanoTime();
        long cpu = processorTime();
        Stream[] streams = round(number);
        Thread sending = new Thread(() -> send(channel, number, size, count, began + number(order, "for_ms") * 1_000_000));
        if (index < senders) {
            sending.start();
        }
        long told = began;
        while (!over(streams, senders)) {
            Thread.sleep(1);
            if (wrong != null) {
                return "{\"is\":\"failed\",\"reason\":\"" + wrong + "\"}";
            }
            if (System.nanoTime() - told > 500_000_000L) {
                told = System.nanoTime();
                say("{\"is\":\"progress\",\"delivered\":" + sum(streams) + "}");
            }
        }
        long wall = System.nanoTime() - began;
        sending.join();
        rounds.remove(number - 1);
        long bytes = 0;
        StringBuilder latencies = new StringBuilder();
        for (Stream s : streams) {
            bytes += s.bytes;
            synchronized (s.latencies) {
                s.latencies.forEach(l -> latencies.append(latencies.isEmpty() ? "[" : ",[").append(l).append(",1]"));
            }
        }
        return "{\"is\":\"done\",\"delivered\":" + sum(streams) + ",\"bytes\":" + bytes
                + ",\"wall_us\":" + wall / 1000 + ",\"cpu_us\":" + (processorTime() - cpu) / 1000
                + ",\"peak_kb\":" + peak() + ",\"latency\":[" + latencies + "],\"retransmitted\":0"
                + ",\"datagrams_sent\":0,\"blocked_ms\":0,\"turns\":0,\"lost\":0}";
    }

    private void send(JChannel channel, int round, int size, long count, long end) {
        try {
            long n = 0;
            while (count >= 0 ? n < count : n % STAMP_EVERY != 0 || System.nanoTime() < end) {
                channel.send(null, message(size, (long) round << 48 | n, n % STAMP_EVERY == 0));
                n++;
            }
            channel.send(null, message(size, LAST | (long) round << 48 | n, false));
        } catch (Exception e) {
            wrong = String.valueOf(e).replace('"', '\'');
        }
    }

    private static byte[] message(int size, long first, boolean stamped) {
        byte[] bytes = new byte[size];
        ByteBuffer.wrap(bytes).putLong(first).putLong(stamped ? clock() : 0);
        return bytes;
    }

    private static boolean over(Stream[] streams, int senders) {
        for (int i = 0; i < senders; i++) {
            if (!streams[i].over) {
                return false;
            }
        }
        return true;
    }

    private static long sum(Stream[] streams) {
        long sum = 0;
        for (Stream s : streams) {
            sum += s.next;
        }
        return sum;
    }

    private static long processorTime() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** The largest memory of the process so far, in kB; 0 where the system does not tell. */
    private static long peak() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("VmHWM:")) {
                    return Long.parseLong(line.replaceAll("[^0-9]", ""));
                }
            }
        } catch (Exception e) {
            // Not on this system.
        }
        return 0;
    }

    /** A number of an order; -1 if it has none. */
    private static long number(String order, String name) {
        Matcher m = Pattern.compile("\"" + name + "\":([0-9]+)").matcher(order);
        return m.find() ? Long.parseLong(m.group(1)) : -1;
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}

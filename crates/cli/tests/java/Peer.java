import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.jgroups.Address;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.MergeView;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.Version;
import org.jgroups.View;
import org.jgroups.protocols.DISCARD;
import org.jgroups.protocols.FlowControl;
import org.jgroups.protocols.MFC;
import org.jgroups.protocols.NAKACK4;
import org.jgroups.protocols.TP;
import org.jgroups.protocols.UFC;
import org.jgroups.protocols.pbcast.NAKACK2;
import org.jgroups.stack.Protocol;
import org.jgroups.stack.ProtocolStack;
import org.jgroups.stack.ProtocolStack.Position;
import org.jgroups.util.NameCache;

/**
 * A JGroups member that obeys commands on standard input and reports on standard output, one line
 * each; {@code member.rs} is the same in Rust. Started as
 * {@code java Peer CONFIG NAME CLUSTER [PROTOCOL.FIELD=NUMBER]...}; the
 * property {@code peer.port} is its port, {@code peer.mute} lets nothing out, and
 * {@code peer.wait} has it wait for a line before it connects.
 */
public class Peer implements Receiver {
    /** Messages that start with their number are checked; shorter ones are shown. */
    private static final int SHOWN_BELOW = 100;
    /** A state is written in pieces: STATE sends a message for each. */
    private static final int PIECE = 10_000;

    /** All messages of one sender to one destination: how many, and the hash over their contents. */
    private static final class Stream {
        long messages, bytes, disorder, next = -1;
        final MessageDigest hash = sha256();

        void add(byte[] array, int offset, int length) {
            messages++;
            bytes += length;
            hash.update(array, offset, length);
            long number = ByteBuffer.wrap(array, offset, length).getLong();
            if (next >= 0 && number != next) {
                disorder++;
            }
            next = number + 1;
        }

        String show() {
            try {
                byte[] digest = ((MessageDigest) hash.clone()).digest();
                String hex = HexFormat.of().formatHex(digest);
                return messages + " " + bytes + " " + hex + " " + disorder;
            } catch (CloneNotSupportedException e) {
                throw new IllegalStateException(e);
            }
        }

        private static MessageDigest sha256() {
            try {
                return MessageDigest.getInstance("SHA-256");
            } catch (java.security.NoSuchAlgorithmException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** Waits until a stream is as long as announced. */
    private record Expected(boolean multicast, String from, long messages) {}

    private final JChannel channel;
    private final Map<Address, Stream> multicasts = new TreeMap<>(), unicasts = new TreeMap<>();
    private final Map<String, Stream> sent = new TreeMap<>();
    /** Who was ever in the view. */
    private final Set<Address> known = ConcurrentHashMap.newKeySet();
    private final List<Expected> expected = new ArrayList<>();
    private byte[] state = contents(0, 100, "", "");
    private boolean paused;
    private volatile Thread steady;

    private Peer(JChannel channel) {
        this.channel = channel;
    }

    public static void main(String[] args) throws Exception {
        say("versions JGroups " + Version.description + ", Java " + System.getProperty("java.version"));
        JChannel channel = new JChannel(args[0]).name(args[1]);
        Peer peer = new Peer(channel);
        ProtocolStack stack = channel.getProtocolStack();
        for (int i = 3; i < args.length; i++) {
            String[] parts = args[i].split("[.=]");
            set(stack.findProtocol(parts[0]), parts[1], parts[2]);
        }
        TP transport = stack.getTransport();
        transport.getDiagnosticsHandler().setEnabled(false);
        if (Integer.getInteger("peer.port") != null) {
            transport.setBindPort(Integer.getInteger("peer.port"));
        }
        DISCARD discard = new DISCARD();
        discard.setDownDiscardRate(Boolean.getBoolean("peer.mute") ? 1 : 0);
        stack.insertProtocol(discard, Position.ABOVE, TP.class);
        channel.setReceiver(peer);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        say("starting");
        if (Boolean.getBoolean("peer.wait")) {
            commands.readLine();
        }
        channel.connect(args[2]);
        say("joined");
        for (String line; (line = commands.readLine()) != null; ) {
            peer.obey(line, line.trim().split(" "), discard);
            say("done " + line);
        }
        System.exit(0);
    }

    private static void set(Protocol protocol, String field, String number) {
        long value = Long.parseLong(number);
        Class<?> type = org.jgroups.util.Util.getField(protocol.getClass(), field).getType();
        protocol.setValue(field, type == int.class ? (Object) (int) value : (Object) value);
    }

    private void obey(String line, String[] words, DISCARD discard) throws Exception {
        switch (words[0]) {
            case "mcast" -> channel.send(new BytesMessage(null, words[1].getBytes()));
            case "ucast" -> channel.send(new BytesMessage(member(words[1]), words[2].getBytes()));
            case "mcastn" -> load("all", number(words[1]), number(words[2]));
            case "ucastn" -> load(words[1], number(words[2]), number(words[3]));
            case "steady" -> steadily(words);
            case "rsvp" -> confirmed(words[1].getBytes());
            case "discard" -> discard.discardAll(words[1].equals("on"));
            case "ignore" -> {
                discard.resetIgnoredMembers();
                for (int i = 1; i < words.length; i++) {
                    discard.addIgnoreMember(named(known, words[i]).orElseThrow());
                }
            }
            case "beyond" -> {
                Address to = named(known, words[1]).orElseThrow();
                channel.send(new BytesMessage(to, words[2].getBytes()));
            }
            case "lossy" -> {
                discard.setUpDiscardRate(Double.parseDouble(words[1]));
                discard.setDownDiscardRate(Double.parseDouble(words[1]));
            }
            case "pause" -> pause(true);
            case "resume" -> pause(false);
            case "expect" -> expect(words[1].equals("multicast"), words[2], number(words[3]));
            case "state" -> say("state " + fixed(number(words[1])).show());
            case "fetch" -> channel.getState(member(words[1]), 60_000);
            case "tally" -> report();
            case "kept" -> say("kept " + kept(channel.getProtocolStack()));
            case "credits" -> {
                FlowControl mfc = channel.getProtocolStack().findProtocol(MFC.class);
                FlowControl ufc = channel.getProtocolStack().findProtocol(UFC.class);
                say("credits " + mfc.getNumberOfCreditRequestsSent() + " "
                        + ufc.getNumberOfCreditRequestsSent());
            }
            case "memory" -> {
                System.gc();
                Runtime r = Runtime.getRuntime();
                say("memory " + (r.totalMemory() - r.freeMemory()));
            }
            case "stats" -> say("stats " + channel.dumpStats(words[1]));
            case "leave" -> {
                channel.close();
                say("left");
                System.exit(0);
            }
            default -> say("unknown command " + line);
        }
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private Address member(String name) {
        return named(name)
                .orElseThrow(() -> new IllegalArgumentException("no member " + name));
    }

    private boolean present(String name) {
        return named(name).isPresent();
    }

    private Optional<Address> named(String name) {
        return named(channel.getView().getMembers(), name);
    }

    private static Optional<Address> named(Collection<Address> members, String name) {
        return members.stream().filter(m -> name.equals(NameCache.get(m))).findFirst();
    }

    /**
     * The contents of a message follow from its number, its sender and its destination. With a size
     * of 0 it is the number, as text.
     */
    private static byte[] contents(long number, int size, String from, String to) {
        if (size == 0) {
            return String.format("%08d", number).getBytes();
        }
        long salt = 0;
        for (byte b : (from + to).getBytes()) {
            salt = salt * 131 + b;
        }
        byte[] b = new byte[Math.max(size, Long.BYTES)];
        ByteBuffer.wrap(b).putLong(number);
        for (int i = Long.BYTES; i < b.length; i++) {
            b[i] = (byte) (salt + number * 31 + i * 7L + (i >> 8));
        }
        return b;
    }

    private void load(String to, int times, int size) throws Exception {
        for (int i = 0; i < times; i++) {
            send(to, size);
        }
    }

    private void send(String to, int size) throws Exception {
        Address dest = to.equals("all") ? null : member(to);
        Stream stream;
        synchronized (sent) {
            stream = sent.computeIfAbsent(to, k -> new Stream());
        }
        byte[] payload = contents(stream.messages, size, channel.getName(), to);
        channel.send(new BytesMessage(dest, payload));
        synchronized (sent) {
            stream.add(payload, 0, payload.length);
        }
    }

    /** {@code steady MILLIS SIZE MEMBER...}: one multicast and one unicast to each, again and again. */
    private void steadily(String[] words) throws Exception {
        if (steady != null) {
            Thread old = steady;
            steady = null;
            old.join();
        }
        if (words[1].equals("off")) {
            return;
        }
        Thread sender = new Thread(() -> {
            try {
                while (steady == Thread.currentThread()) {
                    send("all", number(words[2]));
                    for (int i = 3; i < words.length; i++) {
                        if (present(words[i])) {
                            send(words[i], number(words[2]));
                        }
                    }
                    Thread.sleep(number(words[1]));
                }
            } catch (Exception e) {
                say("failed " + e);
            }
        });
        steady = sender;
        sender.start();
    }

    private void confirmed(byte[] payload) throws Exception {
        channel.send(new BytesMessage(null, payload).setFlag(Message.Flag.RSVP));
    }

    private synchronized void pause(boolean on) {
        paused = on;
        notifyAll();
    }

    private synchronized void expect(boolean multicast, String from, long messages) {
        expected.add(new Expected(multicast, from, messages));
        check(multicast);
    }

    /** Reports the streams that have become as long as expected. */
    private void check(boolean multicast) {
        for (Expected e : List.copyOf(expected)) {
            if (e.multicast != multicast) {
                continue;
            }
            (multicast ? multicasts : unicasts).forEach((from, stream) -> {
                if (e.from.equals(NameCache.get(from)) && stream.messages >= e.messages) {
                    expected.remove(e);
                    String kind = multicast ? "multicast " : "unicast ";
                    say("got " + kind + e.from + " " + stream.show());
                }
            });
        }
    }

    private synchronized void report() {
        multicasts.forEach((m, s) -> say("tally multicast " + NameCache.get(m) + " " + s.show()));
        unicasts.forEach((m, s) -> say("tally unicast " + NameCache.get(m) + " " + s.show()));
        synchronized (sent) {
            sent.forEach((to, s) -> say("sent " + to + " " + s.show()));
        }
    }

    /** The state of this member from now on. */
    private Stream fixed(int size) {
        state = contents(0, size, channel.getName(), "state");
        Stream only = new Stream();
        only.add(state, 0, state.length);
        return only;
    }

    @Override
    public void getState(OutputStream to) throws Exception {
        for (int from = 0; from < state.length; from += PIECE) {
            to.write(state, from, Math.min(PIECE, state.length - from));
        }
    }

    @Override
    public void setState(InputStream from) throws Exception {
        // Not readAllBytes: the stream of STATE takes a read of no bytes for its end.
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        byte[] piece = new byte[PIECE];
        for (int n; (n = from.read(piece)) > 0; ) {
            all.write(piece, 0, n);
        }
        byte[] got = all.toByteArray();
        Stream only = new Stream();
        only.add(got, 0, got.length);
        say("state " + only.show());
    }

    /** How many bytes are kept for retransmission. */
    private static long kept(ProtocolStack stack) throws Exception {
        Protocol nakack = stack.findProtocol(NAKACK2.class, NAKACK4.class);
        return (Long) nakack.getClass().getMethod("getSizeOfAllMessages").invoke(nakack);
    }

    @Override
    public synchronized void receive(Message m) {
        while (paused) {
            try {
                wait();
            } catch (InterruptedException e) {
                return;
            }
        }
        boolean multicast = m.getDest() == null;
        String start = (multicast ? "multicast " : "unicast ") + NameCache.get(m.getSrc()) + " ";
        if (!m.hasArray()) {
            say(start + m.getObject());
            return;
        }
        if (m.getLength() == 0) {
            return;
        }
        if (m.getLength() < SHOWN_BELOW) {
            say(start + new String(m.getArray(), m.getOffset(), m.getLength()));
            return;
        }
        Map<Address, Stream> streams = multicast ? multicasts : unicasts;
        Stream stream = streams.computeIfAbsent(m.getSrc(), k -> new Stream());
        stream.add(m.getArray(), m.getOffset(), m.getLength());
        check(multicast);
    }

    @Override
    public void viewAccepted(View v) {
        String names = v.getMembers().stream()
                .map(m -> String.valueOf(NameCache.get(m)))
                .collect(Collectors.joining(","));
        known.addAll(v.getMembers());
        String kind = v instanceof MergeView ? "merge" : "view";
        say(kind + " " + v.getViewId().getId() + " " + names);
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jgroups.Address;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.MergeView;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.View;
import org.jgroups.protocols.DISCARD;
import org.jgroups.protocols.TP;
import org.jgroups.stack.ProtocolStack.Position;
import org.jgroups.util.NameCache;

/**
 * A JGroups member that obeys commands on standard input and reports on standard output, one line
 * each. Started as {@code java Peer CONFIG NAME CLUSTER}.
 */
public class Peer implements Receiver {
    /** What one sender has sent. */
    private static final class Tally {
        long messages, bytes;
    }

    private final JChannel channel;
    private final Map<String, Tally> tallies = new TreeMap<>();

    private Peer(JChannel channel) {
        this.channel = channel;
    }

    public static void main(String[] args) throws Exception {
        JChannel channel = new JChannel(args[0]).name(args[1]);
        Peer peer = new Peer(channel);
        DISCARD discard = new DISCARD();
        channel.getProtocolStack().insertProtocol(discard, Position.ABOVE, TP.class);
        channel.setReceiver(peer);
        channel.connect(args[2]);
        say("joined");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.trim().split(" ");
            switch (words[0]) {
                case "mcast" -> peer.send(null, 1, words[1].getBytes());
                case "ucast" -> peer.send(peer.member(words[1]), 1, words[2].getBytes());
                case "mcastn" -> peer.send(null, number(words[1]), new byte[number(words[2])]);
                case "ucastn" ->
                        peer.send(peer.member(words[1]), number(words[2]), new byte[number(words[3])]);
                case "rsvp" -> peer.confirmed(words[1].getBytes());
                case "discard" -> discard.discardAll(words[1].equals("on"));
                case "lossy" -> {
                    discard.setUpDiscardRate(Double.parseDouble(words[1]));
                    discard.setDownDiscardRate(Double.parseDouble(words[1]));
                }
                case "tally" -> peer.report();
                case "stats" -> say("stats " + channel.dumpStats(words[1]));
                case "leave" -> {
                    channel.close();
                    say("left");
                    System.exit(0);
                }
                default -> say("unknown command " + line);
            }
            say("done " + line);
        }
        System.exit(0);
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private Address member(String name) {
        return channel.getView().getMembers().stream()
                .filter(m -> name.equals(NameCache.get(m)))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("no member " + name));
    }

    private void send(Address to, int times, byte[] payload) throws Exception {
        for (int i = 0; i < times; i++) {
            channel.send(new BytesMessage(to, payload));
        }
    }

    private void confirmed(byte[] payload) throws Exception {
        channel.send(new BytesMessage(null, payload).setFlag(Message.Flag.RSVP));
    }

    private synchronized void report() {
        tallies.forEach((from, t) -> say("tally " + from + " " + t.messages + " " + t.bytes));
    }

    @Override
    public synchronized void receive(Message m) {
        String from = NameCache.get(m.getSrc());
        Tally tally = tallies.computeIfAbsent(from, k -> new Tally());
        tally.messages++;
        tally.bytes += m.getLength();
        if (m.getLength() > 0 && m.getLength() < 100) {
            String kind = m.getDest() == null ? "multicast" : "unicast";
            String text = new String(m.getArray(), m.getOffset(), m.getLength());
            say(kind + " " + from + " " + text);
        } else if (tally.messages % 1000 == 0 || m.getLength() > 100_000) {
            say("tally " + from + " " + tally.messages + " " + tally.bytes);
        }
    }

    @Override
    public void viewAccepted(View v) {
        String names = v.getMembers().stream()
                .map(m -> String.valueOf(NameCache.get(m)))
                .collect(Collectors.joining(","));
        String kind = v instanceof MergeView ? "merge" : "view";
        say(kind + " " + v.getViewId().getId() + " " + names);
    }
}
